//! What holds for every input from outside, as functions that panic where it does not: the property tests of every run
//! and the longer runs of `fuzz/` share them.

use redleash::unversioned::{Replies, Reply, check_url};
use redleash::{Client, DetachedLease};
use redleash_protocol::generation::{Deployment, Generation, IDENTITY, nonce as ends, valid_deployment};
use redleash_protocol::layout::{MAX_NAME, MAX_NAMESPACE, Namespace};
use redleash_protocol::owner::{Holder, Owner, Token};
use redleash_protocol::wait_list::Notify;
use redleash_protocol::{Answer, Drift, Operation, Quorum};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// What was read, and whether the connection may stay.
pub(crate) fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Reply>, bool) {
    let (mut reader, mut replies, mut sane) = (Replies::default(), Vec::new(), true);
    for piece in pieces {
        let before = replies.len();
        let stays = reader.feed(piece, |reply| replies.push(reply));
        assert!(sane || (!stays && replies.len() == before), "something was read after nonsense");
        sane = stays;
    }
    (replies, sane)
}

/// Cuts `bytes` into pieces of these lengths, over and over.
pub(crate) fn pieces<'a>(mut bytes: &'a [u8], lengths: &[u8]) -> Vec<&'a [u8]> {
    let mut lengths = lengths.iter().map(|n| usize::from(*n).max(1)).cycle();
    let mut pieces = Vec::new();
    while !bytes.is_empty() {
        let (piece, rest) = bytes.split_at(lengths.next().unwrap_or(1).min(bytes.len()));
        pieces.push(piece);
        bytes = rest;
    }
    pieces
}

/// Any bytes, in any pieces: the same replies and the same end, all of them what the `redis` crate's parser reads.
pub(crate) fn replies(bytes: &[u8], lengths: &[u8]) {
    let whole = read([bytes]);
    assert_eq!(read(pieces(bytes, lengths)), whole);
    let (mut parser, mut left) = (redis::Parser::new(), bytes);
    for reply in &whole.0 {
        let value = parser.parse_value(&mut left).unwrap_or_else(|e| panic!("the parser reads no {reply:?}: {e}"));
        assert_eq!(format!("{reply:?}"), format!("{value:?}"));
    }
    whole.0.iter().for_each(no_vote_by_chance);
}

/// One of each operation.
pub(crate) fn operations() -> Vec<Operation> {
    let from = Arc::new(Owner::new(Token::from_bytes([1; 16]), &Arc::from("x"), 5));
    vec![
        Operation::Acquire { px_ms: 5, full: true, fence: false, entry: None },
        Operation::Acquire { px_ms: 5, full: true, fence: true, entry: None },
        Operation::Extend { px_ms: 5, recreate: true },
        Operation::ExtendMany { leases: Arc::new([]), recreate: true },
        Operation::Adopt { from, px_ms: 5 },
        Operation::Release { keep: Duration::ZERO, notify: Some(Notify { waiter: 7, at_once: true }) },
        Operation::Fence,
        Operation::WriteBack(7),
        Operation::Verify,
        Operation::Status,
        Operation::Revoke { now: false },
        Operation::Blank { mark: true },
        Operation::Init { settle: true },
    ]
}

/// A reply is a yes only in the shape that the script gives a yes.
fn no_vote_by_chance(reply: &Reply) {
    let text = format!("{reply:?}");
    for operation in operations() {
        let Answer::Yes(number) = reply.of_script(&operation) else { continue };
        match operation {
            Operation::Release { .. } => assert_eq!(text, format!("int({})", number.unwrap())),
            _ => assert!(text.starts_with("array([int(1), ") || text == "array([int(1)])", "{operation:?}: {text}"),
        }
    }
}

/// Whole replies and something that is none behind them: all of the former, and no more.
pub(crate) fn garbage_ends_it(good: &[Vec<u8>], garbage: &[u8], after: &[u8], lengths: &[u8]) {
    let expected: Vec<Reply> = good.iter().flat_map(|bytes| read([&bytes[..]]).0).collect();
    assert_eq!(expected.len(), good.len());
    let stream = [&good.concat(), garbage, after].concat();
    assert_eq!(read(pieces(&stream, lengths)), (expected, false));
}

/// Any URL: an answer without a panic that never tells the password, and an accepted host that reads the same again.
pub(crate) fn url(text: &str) {
    match check_url(text) {
        Ok(label) => {
            let again = if label.starts_with('/') { format!("unix://{label}") } else { format!("redis://{label}") };
            // A path may hold what ends a URL's path; a host cannot.
            if !label.starts_with('/') {
                assert_eq!(check_url(&again).as_ref(), Ok(&label), "{text:?}");
            }
        }
        Err(why) => {
            assert!(!why.is_empty());
            // The whole way that a user goes; a client of an accepted URL would call there.
            assert!(Client::builder().node(text).build().is_err(), "{text:?}");
        }
    }
}

/// A URL with this user and password, good or not: the label is the host's, and no error repeats the password.
pub(crate) fn password_is_kept(head: &str, user: &str, password: &str, tail: &str) {
    let url = format!("{head}{user}:{password}@{tail}");
    match check_url(&url) {
        Ok(label) => assert_eq!(Ok(label), check_url(&format!("{head}{tail}")), "{url:?}"),
        Err(why) => assert!(!why.contains(password), "{url:?}: {why}"),
    }
}

fn is_name(text: &str, limit: usize) -> bool {
    let bad = |c: char| c == '{' || c == '}' || c < ' ' || ('\x7f'..='\u{9f}').contains(&c);
    (1..=limit).contains(&text.len()) && !text.contains(bad)
}

/// Any namespace and name: accepted as documented, and then the name can be read back from every key.
pub(crate) fn names(space: &str, name: &str) {
    let namespace = Namespace::new(space);
    assert_eq!(namespace.is_ok(), is_name(space, MAX_NAMESPACE), "{space:?}");
    let Ok(namespace) = namespace else { return };
    let keys = namespace.keys(name);
    assert_eq!(keys.is_ok(), is_name(name, MAX_NAME), "{name:?}");
    let Ok(keys) = keys else { return };
    assert_eq!(&*keys.name, name);
    assert_eq!(keys.generation, format!("{space}:N"));
    for (key, kind) in [(&keys.lock, 'L'), (&keys.fence, 'F'), (&keys.revoked, 'R'), (&keys.channel, 'C')] {
        let (head, rest) = key.split_once('{').unwrap();
        assert_eq!((head, rest.strip_suffix('}')), (&*format!("{space}:{kind}:"), Some(name)));
    }
}

/// An owner's value: read as what it was made of, and owned on its own master alone.
pub(crate) fn owners(token: [u8; 16], label: &str, since_ms: u64, i: usize) {
    let owner = Owner::new(Token::from_bytes(token), &Arc::from(label), since_ms);
    let value = owner.value(i);
    let fingerprint = owner.token().fingerprint();
    assert_eq!(Holder::parse(value.as_bytes()), Holder::Owner { label: label.into(), fingerprint, since_ms });
    assert_eq!(Token::from_hex(owner.secret_hex()), Some(owner.token()));
    (0..36).for_each(|j| assert_eq!(owner.owns(j, value.as_bytes()), i == j, "{i} {j}"));
}

/// Any stored value: read without a panic, and an owner only if it can be one.
pub(crate) fn values(bytes: &[u8]) {
    let text = std::str::from_utf8(bytes);
    match Holder::parse(bytes) {
        Holder::Owner { label, since_ms, .. } => {
            let text = text.unwrap();
            assert!(Token::from_hex(&text[..32]).is_some() && text.contains(&format!("|{label}|")), "{text:?}");
            assert_eq!(text.rsplit('|').next().unwrap().parse(), Ok(since_ms));
        }
        Holder::Revoked => assert!(bytes.starts_with(b"revoked|")),
        Holder::Foreign(fingerprint) => assert_eq!(fingerprint.len(), 8),
    }
    if let Ok(text) = text
        && let Some(token) = Token::from_hex(text)
    {
        assert_eq!(Owner::new(token, &Arc::from(""), 0).secret_hex(), text);
    }
}

/// Any text as a generation: read without a panic, and what was read is what is written there.
pub(crate) fn generations(text: &str) {
    let Some(read) = Generation::parse(text) else { return };
    let rest = text.strip_prefix(&read.identity).and_then(|rest| rest.strip_prefix(':')).unwrap();
    let (ready, rest) = rest.split_once(':').unwrap();
    assert_eq!(ready.parse(), Ok(read.ready_at_us));
    let nonce = rest.strip_prefix(&read.block).and_then(|rest| rest.strip_prefix(':')).unwrap();
    assert!(!nonce.is_empty() && nonce.bytes().all(|b| b.is_ascii_hexdigit()), "{text:?}");
    assert_eq!(read.block.split(':').count(), 4, "{text:?}");
}

/// A generation as the scripts write it: read as what it was made of.
pub(crate) fn deployments(name: &str, lease: Duration, masters: usize, identity: &str, ready_at_us: u64, nonce: u64) {
    let quorum = Quorum::new(masters, 0).unwrap();
    let deployment = Deployment::new(name, quorum, lease, Drift::DEFAULT);
    let text = format!("{identity}:{ready_at_us}:{}:{}", deployment.block(), ends(3, nonce));
    let read = Generation::parse(&text);
    if valid_deployment(name) {
        let expected = Generation {
            identity: identity.into(),
            ready_at_us,
            block: deployment.block().into(),
            place: (identity.len() == IDENTITY).then_some(3),
        };
        assert_eq!(read, Some(expected), "{text:?}");
    }
}

/// Any text as a handle of a lock handed over: an error, without a panic, unless this machine wrote it.
pub(crate) fn handles(text: &str) {
    if let Ok(handle) = DetachedLease::from_str(text) {
        assert_eq!(DetachedLease::from_str(&handle.to_string()).unwrap().to_string(), handle.to_string());
    }
}
