//! The masters that the options name, and a client of them.

use crate::args::MasterArgs;
use crate::exit::{self, Failure};
use redleash::{Client, ClientBuilder, Error};
use std::fmt::Write;
use std::time::Duration;

/// How long `build` waits for the masters at most. It is longer than the library's quarter second, because `-n` has one
/// try only, and a master on another continent should not count as down for its handshake.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// How long it waits at least, however short the wait for the lock may be.
pub(crate) const LEAST_CONNECT_TIMEOUT: Duration = Duration::from_millis(250);

/// In the environment of a command: the name of its lock.
pub(crate) const NAME_VARIABLE: &str = "REDLEASH_NAME";

/// The URLs, without what is left of a trailing comma.
pub(crate) fn urls(args: &MasterArgs) -> Vec<String> {
    args.nodes.iter().map(|url| url.trim().to_string()).filter(|url| !url.is_empty()).collect()
}

pub(crate) fn builder(args: &MasterArgs) -> ClientBuilder {
    Client::builder()
        .nodes(urls(args))
        .namespace(&args.namespace)
        .deployment(&args.deployment)
        .max_lease(args.max_lease)
        .fault_margin(args.fault_margin)
        .connect_timeout(CONNECT_TIMEOUT)
        // The default of 30 s may be above max_lease.
        .ttl(args.max_lease.min(Duration::from_secs(15)))
}

/// Fails if no masters are named. There is no default: the host's own server would be a lock that no other host sees.
pub(crate) fn check(args: &MasterArgs) -> Result<(), Failure> {
    if !urls(args).is_empty() {
        return Ok(());
    }
    let mut sentence = "no masters are named: set REDLEASH_NODES or give --nodes, the same on all hosts, for example \
                        REDLEASH_NODES=redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3"
        .to_string();
    // `run` sets this for every command.
    if let Some(name) = std::env::var_os(NAME_VARIABLE) {
        let _ = write!(
            sentence,
            "; the `redleash run` of lock {name:?}, under which this runs, removes REDLEASH_NODES from the environment \
             of its command unless it has --pass-nodes"
        );
    }
    Err(Failure::new(exit::CONFIG, sentence))
}

/// A client for the verbs that hold no lock for a command.
pub(crate) fn client(args: &MasterArgs) -> Result<Client, Failure> {
    check(args)?;
    builder(args).build().map_err(|e| unfit(&e))
}

/// Why there is no client: a setting is wrong, a server is unfit, or the operating system refused something.
pub(crate) fn unfit(error: &Error) -> Failure {
    let next = match error {
        Error::Config(e) if e.field == "nodes" => "; correct --nodes (REDLEASH_NODES)",
        Error::DeploymentMismatch { .. } => "; correct --deployment, --max-lease, --fault-margin or --nodes",
        Error::System(_) => "; nothing was started",
        _ => "",
    };
    Failure::new(exit::code(error), format!("{error}{next}"))
}
