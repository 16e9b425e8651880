//! How a connection is made, what can be wrong with it, and what the user reads then.

use crate::support::{builder, eventually, masters, masters_with, secs};
use redleash::Error;
use redleash_testkit::{Server, skipped};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

/// What `build` says; it must be an error of the configuration that no retry mends.
#[track_caller]
fn refused(urls: impl IntoIterator<Item = String>) -> String {
    match builder(urls).build() {
        Err(error @ Error::Config(_)) => {
            assert!(!error.is_retryable());
            error.to_string()
        }
        Err(other) => panic!("expected an error of the configuration, got {other}"),
        Ok(_) => panic!("accepted"),
    }
}

#[track_caller]
fn says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word:?} is not in: {text}");
    }
    assert!(!text.contains("S3cret") && !text.contains("0ther"), "{text}");
}

/// Thousands of error codes make INFO longer than any reply that is read: the client could not connect at all.
#[test]
fn a_server_with_very_many_error_codes() {
    let Some(masters) = masters(1) else { return };
    let mut stream = TcpStream::connect(("127.0.0.1", masters[0].port())).unwrap();
    let script = "return redis.error_reply('CODE' .. ARGV[1] .. ' of somebody')";
    let mut commands = Vec::new();
    for i in 0..2_500 {
        let code = format!("{i:05}{}", "X".repeat(20));
        write!(
            commands,
            "*4\r\n$4\r\nEVAL\r\n${}\r\n{script}\r\n$1\r\n0\r\n${}\r\n{code}\r\n",
            script.len(),
            code.len()
        )
        .unwrap();
    }
    let mut writer = stream.try_clone().unwrap();
    let writing = thread::spawn(move || writer.write_all(&commands).unwrap());
    let (mut buffer, mut lines) = ([0; 16 * 1024], 0);
    while lines < 2_500 {
        let n = stream.read(&mut buffer).unwrap();
        lines += buffer[..n].iter().filter(|b| **b == b'\n').count();
    }
    writing.join().unwrap();
    let length = masters[0].command(&["INFO"]).unwrap().text().unwrap().len();
    assert!(length > 64 * 1024, "{length}");
    let client = builder(masters.urls()).build().unwrap();
    drop(client.lock("x").acquire().unwrap());
}

#[test]
fn passwords_that_do_not_fit() {
    if skipped() {
        return;
    }
    let (open, closed) = (Server::start().unwrap(), Server::start_with(&["--requirepass", "S3cret"]).unwrap());
    let at = |user: &str, server: &Server| format!("redis://{user}127.0.0.1:{}", server.port());
    let port = closed.port().to_string();
    says(&refused([at(":0ther@", &closed)]), &["WRONGPASS", "password", &port]);
    says(&refused([at("lock:0ther@", &closed)]), &["WRONGPASS", "user", &port]);
    says(&refused([at("", &closed)]), &["NOAUTH", "redis://:PASSWORD@", &port]);
    says(&refused([at(":0ther@", &open)]), &["without any password", "remove", &open.port().to_string()]);
    // One of three is enough.
    let Some(masters) = masters(2) else { return };
    says(&refused([masters[0].url(), at("", &closed), masters[1].url()]), &["NOAUTH", &port]);
}

#[test]
fn a_password_that_changes_while_the_client_runs_is_an_outage() {
    let Some(masters) = masters_with(1, &["--requirepass", "S3cret"]) else { return };
    let client = builder(masters.urls()).outage_patience(secs(1)).build().unwrap();
    drop(client.lock("x").acquire().unwrap());
    masters[0].command(&["CONFIG", "SET", "requirepass", "0ther"]).unwrap();
    let mut admin = TcpStream::connect(("127.0.0.1", masters[0].port())).unwrap();
    admin.write_all(b"AUTH 0ther\r\nCLIENT KILL TYPE normal SKIPME yes\r\n").unwrap();
    let mut text = String::new();
    eventually("it is refused", || {
        let Err(error) = client.lock("y").try_acquire() else { return false };
        assert!(matches!(error, Error::NoQuorum(_)), "{error:?}");
        text = error.to_string();
        text.contains("WRONGPASS")
    });
    says(&text, &["password"]);
}

#[test]
fn a_database_that_is_not_there() {
    let Some(masters) = masters(1) else { return };
    says(&refused([format!("{}/99", masters[0].url())]), &["database 99", "out of range"]);
}

#[test]
fn rights_that_are_missing() {
    let Some(masters) = masters(1) else { return };
    let url = format!("redis://lock:S3cret@127.0.0.1:{}", masters[0].port());
    let allow = |rights: &str| {
        let rights: Vec<&str> = ["reset", "on", ">S3cret"].into_iter().chain(rights.split_whitespace()).collect();
        masters[0].set_user("lock", "S3cret", &rights).unwrap();
    };
    let refused = |rights: &str| {
        allow(rights);
        refused([url.clone()])
    };
    says(&refused("~rl:* &rl:* +@all -info"), &["+info"]);
    says(&refused("~rl:* &rl:* +@all -eval"), &["+eval"]);
    says(&refused("~rl:* &rl:* +@all -evalsha"), &["+evalsha"]);
    says(&refused("~rl:* &rl:* +@all -pexpire -set"), &["+set", "+pexpire"]);
    says(&refused("~rl:* &rl:* +@all -get"), &["+get"]);
    says(&refused("~other:* &rl:* +@all"), &["~rl:*"]);
    allow("~rl:* &rl:* +@all -select");
    says(&super_refused(&format!("{url}/1")), &["+select"]);
    allow("~rl:* +eval +evalsha +get +set +del +type +pexpire +pttl +time +info");
    drop(builder([url]).build().unwrap().lock("x").acquire().unwrap());
}

#[track_caller]
fn super_refused(url: &str) -> String {
    refused([url.to_string()])
}

#[test]
fn errors_say_what_a_url_should_look_like() {
    let word = |url: &str| refused([url.to_string()]);
    says(&word("redis://S3cret@127.0.0.1"), &["redis://:PASSWORD@host"]);
    says(&word("redis://:S3cret%@127.0.0.1:port"), &["percent-encode"]);
    says(&word("redis://:S3/cret@127.0.0.1"), &["%2F"]);
    says(&word("rediss://127.0.0.1"), &["TLS"]);
}

/// What a TLS port says to somebody who does not speak TLS.
#[test]
fn a_tls_port() {
    for answer in [&b"\x15\x03\x01\x00\x02\x02\x46"[..], b""] {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut stream = stream;
                let mut one = [0];
                // The rest is not read, so that closing resets the connection.
                let _ = stream.read_exact(&mut one).and_then(|()| stream.write_all(answer));
            }
        });
        let client = builder([format!("redis://127.0.0.1:{port}")]).outage_patience(secs(1)).build().unwrap();
        let error = client.lock("x").try_acquire().unwrap_err();
        assert!(matches!(error, Error::NoQuorum(_)), "{error:?}");
        says(&error.to_string(), &["rediss://", "TLS is not built in"]);
    }
}
