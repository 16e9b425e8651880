//! The kit itself: its servers can be killed, paused and brought back, and end however their owner ends.
#![allow(clippy::disallowed_methods, reason = "times the kit")]

use redleash_testkit::{Fault, Masters, Proxy, Reply, Server, skipped, wait_until};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(10);

#[test]
fn a_server_answers_and_comes_back_empty_at_the_same_port() {
    if skipped() {
        return;
    }
    let server = Server::start().unwrap();
    assert!(server.command(&["SET", "k", "v\r\n"]).unwrap().is_ok());
    assert_eq!(server.command(&["GET", "k"]).unwrap(), Reply::Bulk(b"v\r\n".to_vec()));
    assert_eq!(server.command(&["INCR", "n"]).unwrap().int(), Some(1));
    assert!(server.command(&["GET", "none"]).unwrap().is_nil());
    assert_eq!(server.command(&["MGET", "n", "none"]).unwrap().items().len(), 2);
    assert!(matches!(server.command(&["NONSENSE"]).unwrap(), Reply::Error(_)));
    let pid = server.pid();
    server.kill();
    assert!(!server.is_alive());
    assert!(server.command(&["PING"]).is_err());
    server.restart_empty().unwrap();
    assert!(server.is_alive() && server.pid() != pid);
    assert!(server.command(&["GET", "k"]).unwrap().is_nil());
}

#[test]
fn a_paused_server_is_silent_and_a_resumed_one_answers() {
    if skipped() {
        return;
    }
    let server = Server::start().unwrap();
    for _ in 0..3 {
        server.pause().unwrap();
        assert!(server.is_alive());
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.pid()));
        assert!(stat.map_or(cfg!(not(target_os = "linux")), |s| s.contains(") T ")));
        server.resume().unwrap();
        assert_eq!(server.command(&["PING"]).unwrap().text().as_deref(), Some("PONG"));
    }
    server.pause().unwrap(); // and ends all the same
}

#[test]
fn further_arguments_and_sockets() {
    if skipped() {
        return;
    }
    let secret = Server::start_with(&["--requirepass", "x"]).unwrap();
    assert_eq!(secret.url(), format!("redis://:x@127.0.0.1:{}", secret.port()));
    assert!(secret.command(&["SET", "k", "v"]).unwrap().is_ok());
    let server = Server::start_with_socket().unwrap();
    let url = server.unix_url().unwrap();
    let path = url.strip_prefix("unix://").unwrap();
    assert!(std::os::unix::net::UnixStream::connect(path).is_ok());
    drop(server);
    assert!(!Path::new(path).exists());
    assert!(Server::start_with(&["--no-such-option", "x"]).is_err());
}

#[test]
fn nothing_outlives_an_owner_that_was_killed() {
    if skipped() {
        return;
    }
    let mut owner = Command::new(env!("CARGO_BIN_EXE_with-servers"))
        .args(["2", "--", "sh", "-c", "echo $REDLEASH_NODES; exec cat"])
        .stdin(Stdio::piped()) // closed by `wait` below: cat ends
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(owner.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let ports: Vec<u16> = line.trim().split(',').map(|url| url.rsplit_once(':').unwrap().1.parse().unwrap()).collect();
    assert_eq!(ports.len(), 2);
    let open = |port| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
    assert!(ports.iter().all(|port| open(*port)));
    let pattern = format!("redleash-{}-", owner.id());
    let left = || {
        let entries = std::fs::read_dir(std::env::temp_dir()).unwrap();
        entries.flatten().filter(|e| e.file_name().to_string_lossy().starts_with(&pattern)).count()
    };
    assert_eq!(left(), 2);
    owner.kill().unwrap();
    owner.wait().unwrap();
    assert!(wait_until(LIMIT, || left() == 0 && !ports.iter().any(|port| open(*port))));
}

#[test]
fn masters_are_as_many_servers_and_end_with_a_panic() {
    if skipped() {
        return;
    }
    let mut urls = Vec::new();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let masters = Masters::start(3).unwrap();
        urls = masters.urls();
        assert!(masters.iter().all(Server::is_alive));
        panic!("on purpose");
    }));
    assert!(panicked.is_err());
    urls.dedup();
    assert_eq!(urls.len(), 3);
    let open = |url: &String| TcpStream::connect(url.strip_prefix("redis://").unwrap()).is_ok();
    assert!(!urls.iter().any(open));
}

#[test]
fn a_flushed_server_forgets_and_a_restarted_one_has_what_it_wrote() {
    if skipped() {
        return;
    }
    let server = Server::start_with(&["--appendonly", "yes", "--appendfsync", "always"]).unwrap();
    assert!(server.command(&["SET", "k", "v"]).unwrap().is_ok());
    server.restart().unwrap();
    assert_eq!(server.command(&["GET", "k"]).unwrap().text().as_deref(), Some("v"));
    server.flush().unwrap();
    assert!(server.command(&["GET", "k"]).unwrap().is_nil());
}

#[test]
fn a_user_has_the_rights_it_was_given() {
    if skipped() {
        return;
    }
    let server = Server::start().unwrap();
    server.set_user("reader", "secret", &["~k", "+get"]).unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    stream.write_all(b"AUTH reader secret\r\nGET k\r\nDEL k\r\n").unwrap();
    let lines: Vec<String> = BufReader::new(stream).lines().take(3).map(Result::unwrap).collect();
    assert_eq!(lines[..2], ["+OK", "$-1"]);
    assert!(lines[2].starts_with("-NOPERM"), "{lines:?}");
    assert!(server.set_user("reader", "secret", &["no such right"]).is_err());
}

#[test]
fn a_proxy_injects_the_fault_that_is_set() {
    if skipped() {
        return;
    }
    let server = Server::start().unwrap();
    let proxy = Proxy::start(server.port(), Fault::None).unwrap();
    let ask = |reply: &mut [u8]| {
        let mut stream = TcpStream::connect(proxy.label()).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        stream.write_all(b"PING\r\n").unwrap();
        stream.read_exact(reply).map_err(|e| e.kind())
    };
    let mut reply = [0; 7];
    ask(&mut reply).unwrap();
    assert_eq!(&reply, b"+PONG\r\n");
    assert_eq!((proxy.accepted(), proxy.misbehaved()), (1, 0));
    proxy.set(Fault::Say(b"-OOPS\r\n"));
    ask(&mut reply).unwrap();
    assert_eq!(&reply, b"-OOPS\r\n");
    proxy.set(Fault::Mute);
    assert_eq!(ask(&mut reply), Err(ErrorKind::WouldBlock));
    assert_eq!(proxy.misbehaved(), 2);
    proxy.mend();
    ask(&mut reply).unwrap();
    assert_eq!(&reply, b"+PONG\r\n");
}
