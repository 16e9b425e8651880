//! The parts of the nemesis: each fault does what it says, and no more.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test that times the harness")]

use redleash_testkit::{Reply, Scratch, Server, skipped, wait_until};
use redleash_verify::nemesis::clock::Shim;
use redleash_verify::nemesis::proxy::{Link, Proxy, Way};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(10);
/// How long silence is listened to.
const SILENCE: Duration = Duration::from_millis(100);

fn connect(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream
}

fn say(stream: &mut TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).unwrap();
}

#[track_caller]
fn expect(stream: &mut TcpStream, reply: &str) {
    let mut bytes = vec![0; reply.len()];
    stream.read_exact(&mut bytes).unwrap();
    assert_eq!(String::from_utf8_lossy(&bytes), reply);
}

#[track_caller]
fn expect_silence(stream: &mut TcpStream) {
    stream.set_read_timeout(Some(SILENCE)).unwrap();
    let error = stream.read(&mut [0; 64]).expect_err("something came, or the connection ended");
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    stream.set_read_timeout(Some(LIMIT)).unwrap();
}

/// The connection is over, in whatever way.
#[track_caller]
fn expect_end(stream: &mut TcpStream) {
    assert!(matches!(stream.read(&mut [0; 64]), Ok(0) | Err(_)), "it goes on");
}

fn pair() -> Option<(Server, Proxy)> {
    if skipped() {
        return None;
    }
    let server = Server::start().unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    Some((server, proxy))
}

fn get(server: &Server, key: &str) -> Reply {
    server.command(&["GET", key]).unwrap()
}

#[test]
fn a_clear_network_passes_everything_both_ways_and_both_ends() {
    let Some((server, proxy)) = pair() else { return };
    let mut stream = connect(&proxy);
    let value = "x".repeat(3 << 20);
    say(&mut stream, &format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n{value}\r\n", value.len()));
    expect(&mut stream, "+OK\r\n");
    say(&mut stream, "GET k\r\n");
    expect(&mut stream, &format!("${}\r\n{value}\r\n", value.len()));
    say(&mut stream, "QUIT\r\n");
    expect(&mut stream, "+OK\r\n");
    expect_end(&mut stream);
    let mut gone = connect(&proxy);
    say(&mut gone, "SET last word\r\n");
    drop(gone);
    assert!(wait_until(LIMIT, || get(&server, "last") == Reply::Bulk(b"word".to_vec())));
    let done = proxy.done();
    assert_eq!((done.accepted, done.cut, done.swallowed, done.held, done.late), (2, 0, 0, 0, 0));
}

#[test]
fn held_requests_arrive_when_it_heals_even_of_closed_connections() {
    let Some((server, proxy)) = pair() else { return };
    let (mut stays, mut goes) = (connect(&proxy), connect(&proxy));
    proxy.set(Link::parted(true, false, Way::Hold));
    say(&mut stays, "SET a 1\r\n");
    say(&mut goes, "SET b 1\r\n");
    drop(goes);
    assert!(wait_until(LIMIT, || proxy.done().held == 18)); // all that was said
    expect_silence(&mut stays);
    assert!(get(&server, "a").is_nil() && get(&server, "b").is_nil());
    proxy.set(Link::CLEAR);
    expect(&mut stays, "+OK\r\n");
    assert!(wait_until(LIMIT, || !get(&server, "b").is_nil()));
}

#[test]
fn held_replies_come_late_while_requests_arrive() {
    let Some((server, proxy)) = pair() else { return };
    let mut stream = connect(&proxy);
    proxy.set(Link::parted(false, true, Way::Hold));
    say(&mut stream, "SET a 1\r\n");
    assert!(wait_until(LIMIT, || !get(&server, "a").is_nil()));
    expect_silence(&mut stream);
    proxy.set(Link::CLEAR);
    expect(&mut stream, "+OK\r\n");
}

#[test]
fn a_connection_that_lost_bytes_is_half_open_and_lost_for_good() {
    let Some((server, proxy)) = pair() else { return };
    let (mut lossy, mut idle) = (connect(&proxy), connect(&proxy));
    proxy.set(Link::parted(true, true, Way::Swallow));
    say(&mut lossy, "SET a 1\r\n");
    expect_silence(&mut lossy);
    assert!(wait_until(LIMIT, || proxy.done().swallowed > 0));
    proxy.set(Link::CLEAR);
    say(&mut lossy, "SET a 2\r\n");
    expect_silence(&mut lossy);
    say(&mut idle, "GET a\r\n");
    expect(&mut idle, "$-1\r\n");
    proxy.cut();
    expect_end(&mut lossy);
    assert!(get(&server, "a").is_nil());
}

#[test]
fn refused_and_cut_connections_end_and_new_ones_work_again() {
    let Some((_server, proxy)) = pair() else { return };
    let mut stream = connect(&proxy);
    say(&mut stream, "PING\r\n");
    expect(&mut stream, "+PONG\r\n"); // it is accepted
    proxy.set(Link::REFUSED);
    expect_end(&mut stream);
    let refused = || TcpStream::connect(("127.0.0.1", proxy.port())).is_err();
    assert!(wait_until(LIMIT, refused));
    proxy.set(Link::CLEAR);
    assert!(wait_until(LIMIT, || !refused()));
    let mut stream = connect(&proxy);
    say(&mut stream, "PING\r\n");
    expect(&mut stream, "+PONG\r\n");
    proxy.cut();
    expect_end(&mut stream);
    let mut stream = connect(&proxy);
    say(&mut stream, "PING\r\n");
    expect(&mut stream, "+PONG\r\n");
    assert!(proxy.done().cut >= 2);
}

#[test]
fn a_slow_network_delays_each_way() {
    let Some((_server, proxy)) = pair() else { return };
    let mut stream = connect(&proxy);
    let by = Duration::from_millis(60);
    proxy.set(Link::slow(by));
    let start = Instant::now();
    say(&mut stream, "PING\r\n");
    expect(&mut stream, "+PONG\r\n");
    assert!(start.elapsed() >= 2 * by);
    assert!(proxy.done().late > 0);
}

#[test]
fn a_stepped_clock_moves_the_masters_time_and_expires_its_keys() {
    if skipped() {
        return;
    }
    let scratch = Scratch::new().unwrap();
    let shim = Shim::compile(scratch.path()).expect("the tests need cc");
    let clock = shim.clock(scratch.path(), "clock").unwrap();
    let server = Server::start_under(&[], &clock.env()).unwrap();
    let seconds = || {
        let time = server.command(&["TIME"]).unwrap();
        time.items()[0].text().unwrap().parse::<i64>().unwrap()
    };
    assert!(server.command(&["SET", "k", "v", "PX", "60000"]).unwrap().is_ok());
    let before = seconds();
    clock.step(Duration::from_secs(30), true).unwrap();
    assert!(!get(&server, "k").is_nil() && seconds() >= before + 30);
    clock.step(Duration::from_secs(31), true).unwrap();
    assert!(get(&server, "k").is_nil() && seconds() >= before + 61);
    clock.step(Duration::from_secs(161), false).unwrap();
    assert!(wait_until(LIMIT, || seconds() < before - 50));
    assert_eq!(clock.offset_us(), -100_000_000);
}

#[test]
fn an_append_only_file_survives_a_restart_and_not_an_empty_one() {
    if skipped() {
        return;
    }
    let server = Server::start_with(&["--appendonly", "yes"]).unwrap();
    assert!(server.command(&["SET", "k", "v"]).unwrap().is_ok());
    let pid = server.pid();
    server.restart().unwrap();
    assert!(server.pid() != pid && !get(&server, "k").is_nil());
    server.restart_empty().unwrap();
    assert!(get(&server, "k").is_nil());
}
