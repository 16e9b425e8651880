//! What the library may need to be allowed on a master, and what it says where it is not.

use crate::support::{self, builder, client, eventually, masters, no_keys_left, secs, settled, value};
use redleash::{Error, Options, ReleaseOutcome, Retry};
use redleash_testkit::{Masters, Server};
use std::io::Write;

/// The rights that the documentation names.
const RIGHTS: &str = "resetkeys resetchannels -@all ~rl:* &rl:* +eval +evalsha +get +set +del +pexpire +pttl +time \
                      +mget +type +info +publish +subscribe +unsubscribe +ping";

fn allow(master: &Server, rights: &str) {
    master.set_user("lock", "S3cret", &rights.split_whitespace().collect::<Vec<_>>()).unwrap();
}

fn urls(masters: &Masters) -> Vec<String> {
    masters.iter().map(|m| format!("redis://lock:S3cret@127.0.0.1:{}", m.port())).collect()
}

/// Everything that a lock's life asks of a master.
fn a_whole_life(masters: &Masters) {
    let limited = builder(urls(masters)).build().unwrap();
    // Twice: the first vote of a connection is cast by the script, the next ones by plain commands.
    for _ in 0..3 {
        let guard = limited.lock("x").acquire().unwrap();
        assert!(guard.fencing_token().unwrap() > 0);
        guard.extend(secs(40)).unwrap();
        guard.verify().unwrap();
        assert!(limited.lock("x").try_acquire().unwrap().is_none());
        assert!(limited.status("x").unwrap().is_held());
        assert_eq!(guard.release(), ReleaseOutcome::Released);
    }
    eventually("all three vote", || {
        let guard = limited.lock("margin").acquire().unwrap();
        redleash_testkit::wait_until(support::ms(50), || guard.margin() == 1)
    });
    drop(limited.lock("fenced").options(Options::new().fenced(true)).acquire().unwrap());
    // Who may publish and subscribe is woken: the poll of this waiter is rare.
    let rare = Retry::Backoff { min: secs(50), max: secs(50), cap: secs(50) };
    let waiter = builder(urls(masters)).build().unwrap().lock("wake").options(Options::new().retry(rare));
    let guard = limited.lock("wake").acquire().unwrap();
    let waiting = std::thread::spawn(move || waiter.acquire().map(drop));
    let word = |m: &Server| !m.command(&["GET", "rl:W:{wake}"]).unwrap().is_nil();
    eventually("the waiter has registered", || masters.iter().all(word));
    drop(guard);
    eventually("the waiter has had it", || waiting.is_finished());
    waiting.join().unwrap().unwrap();
    let guard = limited.lock("y").acquire().unwrap();
    assert_eq!(limited.force_release("y").unwrap().masters, 3);
    drop(guard);
    for master in &**masters {
        support::vacate(master, "y");
    }
    no_keys_left(masters);
}

#[test]
fn a_user_with_just_the_rights_it_needs() {
    let Some(masters) = masters(3) else { return };
    drop(settled(&masters)); // by an administrator: init asks for DBSIZE too
    for master in &*masters {
        allow(master, RIGHTS);
    }
    a_whole_life(&masters);
}

#[test]
fn missing_rights_are_named() {
    let Some(masters) = masters(3) else { return };
    drop(settled(&masters));
    // No script may run, or other keys only.
    for rights in ["resetkeys -@all ~rl:* &rl:* +get +set +ping +info", "resetkeys +@all ~other:*"] {
        // One of three is enough.
        for master in &*masters {
            allow(
                master,
                &format!("reset on >S3cret {}", if master.port() == masters[1].port() { rights } else { RIGHTS }),
            );
        }
        let error = builder(urls(&masters)).build().unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::Config(_)) && !error.is_retryable(), "{error:?}");
        assert!(text.contains("right") && text.contains(&masters[1].port().to_string()), "{text}");
        assert!(!text.contains("S3cret"), "{text}");
        assert_eq!(value(&masters[0], "x"), None);
    }
}

/// Rights that are taken away while the client runs.
#[test]
fn one_master_without_rights_is_only_one_vote() {
    let Some(masters) = masters(3) else { return };
    drop(settled(&masters));
    masters.iter().for_each(|master| allow(master, RIGHTS));
    let limited = builder(urls(&masters)).build().unwrap();
    drop(limited.lock("x").acquire().unwrap());
    allow(&masters[1], "resetkeys -@all +ping");
    for _ in 0..10 {
        assert_eq!(limited.lock("x").acquire().unwrap().release(), ReleaseOutcome::Released);
    }
    assert!(client(&masters).lock("x").try_acquire().unwrap().is_some());
}

/// The block of README.md that has an `ACL SETUSER` line beginning with `start`; it is one line, as it is pasted.
fn pasted(start: &str) -> String {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap();
    let blocks: Vec<&str> = readme.split("```").skip(1).step_by(2).collect();
    let block = blocks.iter().filter_map(|block| block.split_once('\n')).map(|(_, text)| text.trim_end());
    let found: Vec<&str> = block.filter(|text| text.starts_with(start)).collect();
    assert_eq!(found.len(), 1, "blocks of README.md that begin with {start:?}");
    assert!(!found[0].contains('\n'), "a line break in the middle is a command of its own: {:?}", found[0]);
    found[0].replace("SECRET", "S3cret")
}

/// Pastes `line` into `program`, which is at the prompt; what it answers.
fn paste(program: &mut std::process::Command, line: &str) -> String {
    use std::process::Stdio;
    let mut child = program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    writeln!(child.stdin.take().unwrap(), "{line}").unwrap();
    let done = child.wait_with_output().unwrap();
    format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr))
}

/// The `>` began a redirection, the `&` ended the command, and the second line was a command that nobody knows.
#[test]
fn the_readmes_rights_can_be_pasted_into_redis_cli_and_into_a_shell() {
    if std::process::Command::new("redis-cli").arg("--version").output().is_err() {
        return support::skip("there is no redis-cli to paste the README's lines into");
    }
    let in_redis_cli = |master: &Server| {
        let port = master.port().to_string();
        paste(std::process::Command::new("redis-cli").args(["-p", &port]), &pasted("ACL SETUSER"))
    };
    let in_a_shell = |master: &Server| {
        let port = format!("redis-cli -p {} ", master.port());
        let line = pasted("redis-cli ").replacen("redis-cli ", &port, 1);
        // In a directory of its own, for an unquoted `>` would write a file.
        let scratch = redleash_testkit::Scratch::new().unwrap();
        let answer = paste(std::process::Command::new("sh").current_dir(scratch.path()), &line);
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0, "a file was written");
        answer
    };
    let ways: [&dyn Fn(&Server) -> String; 2] = [&in_redis_cli, &in_a_shell];
    for way in ways {
        let Some(masters) = masters(3) else { return };
        drop(settled(&masters));
        for master in &*masters {
            let answer = way(master);
            assert_eq!(answer.trim(), "OK");
        }
        a_whole_life(&masters);
    }
}

/// A user who may not publish deleted the key, and then the release counted as refused: unconfirmed, tried again, and
/// left to the ttl.
#[test]
fn a_user_without_a_channel_releases() {
    let Some(masters) = masters(3) else { return };
    drop(settled(&masters));
    for master in &*masters {
        master.set_user("lock", "p", &["resetkeys", "resetchannels", "~rl:*", "+@all"]).unwrap();
    }
    let client = builder(masters.iter().map(|m| format!("redis://lock:p@127.0.0.1:{}", m.port()))).build().unwrap();
    for _ in 0..3 {
        assert_eq!(client.lock("x").acquire().unwrap().release(), ReleaseOutcome::Released);
        drop(client.lock("x").acquire().unwrap());
    }
    no_keys_left(&masters);
    // All is answered when this is: it goes behind the releases.
    drop(client.lock("x").acquire().unwrap());
    assert_eq!(support::undelivered(&client), (0, 0));
}
