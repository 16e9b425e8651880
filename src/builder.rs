//! The settings of a client, and the client from them.

use crate::client::Client;
use crate::engine::error::Error;
use crate::engine::root::Engine;
use crate::engine::settings::Settings;
use crate::options::{self, Lease, MIN_TTL, Options, Retry, backoff, check_label, check_ttl};
use crate::protocol::generation::{Deployment, valid_deployment};
use crate::protocol::handover::BUDGET;
use crate::protocol::quorum::MAX_MASTERS;
use crate::protocol::retry::Backoff;
use crate::protocol::time::millis_up;
use crate::protocol::{Drift, Namespace, Quorum};
use crate::sys::{self, journal};
use crate::wire::address::Address;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

impl Client {
    /// Settings of a new client.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }
}

/// Who renews the leases of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum WatchdogMode {
    /// As [`PerLock`](WatchdogMode::PerLock) for up to 256 locks that are held at the same time, and as
    /// [`Shared`](WatchdogMode::Shared) for those beyond: a few locks are independent of each other, and the threads of
    /// many do not compete for the processors.
    #[default]
    Auto,
    /// A thread for each lock that is held for longer than a third of its ttl: no renewal waits for another. For up to
    /// 4 096 locks of a client; those beyond are renewed as with [`Shared`](WatchdogMode::Shared).
    PerLock,
    /// One thread for all, which renews what is due together, in scripts of up to 100 keys per master. It is cheapest
    /// for very many locks, for this process and for the masters.
    Shared,
}

impl WatchdogMode {
    /// How many locks have a thread of their own. Threads take memory mappings, of which the kernel gives a process a
    /// bounded number, and a thread that finds none left when it begins aborts the process.
    fn threads(self) -> usize {
        match self {
            WatchdogMode::Auto => 256,
            WatchdogMode::PerLock => 4_096,
            WatchdogMode::Shared => 0,
        }
    }
}

/// Settings of a [`Client`]. [`build`](ClientBuilder::build) checks them all, with an error that names the field.
///
/// Only the masters are required. A setting that is given twice counts as it was given last; masters add up. `Debug`
/// shows the masters without their passwords.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(default, deny_unknown_fields))]
#[must_use = "a builder does nothing before `build` is called"]
pub struct ClientBuilder {
    #[cfg_attr(feature = "serde", serde(deserialize_with = "Secret::list"))]
    nodes: Vec<Secret>,
    namespace: String,
    deployment: String,
    #[cfg_attr(feature = "serde", serde(with = "crate::serialize::duration"))]
    ttl: Duration,
    drift: f64,
    retry: Option<Retry>,
    #[cfg_attr(feature = "serde", serde(with = "crate::serialize::maybe"))]
    master_timeout: Option<Duration>,
    #[cfg_attr(feature = "serde", serde(with = "crate::serialize::maybe"))]
    round_timeout: Option<Duration>,
    #[cfg_attr(feature = "serde", serde(with = "crate::serialize::duration"))]
    hang_timeout: Duration,
    #[cfg_attr(feature = "serde", serde(with = "crate::serialize::duration"))]
    connect_timeout: Duration,
    fault_margin: usize,
    #[cfg_attr(feature = "serde", serde(with = "crate::serialize::duration"))]
    max_lease: Duration,
    quarantine: Option<bool>,
    #[cfg_attr(feature = "serde", serde(with = "crate::serialize::duration"))]
    outage_patience: Duration,
    lanes: usize,
    pool_size: Option<u32>,
    #[cfg_attr(feature = "serde", serde(with = "crate::serialize::maybe"))]
    idle_timeout: Option<Duration>,
    test_on_check_out: bool,
    #[cfg_attr(feature = "serde", serde(with = "crate::serialize::duration"))]
    hand_over: Duration,
    watchdog: WatchdogMode,
    label: Option<String>,
}

/// A URL, which may have a password in it.
#[derive(Clone)]
struct Secret(String);

#[cfg(feature = "serde")]
impl Secret {
    /// Reads a list of URLs. What stands in its place is not repeated in the error: it may have a password in it.
    fn list<'de, D: serde::Deserializer<'de>>(input: D) -> Result<Vec<Secret>, D::Error> {
        use serde::Deserialize;
        let urls = Vec::<String>::deserialize(input);
        let urls = urls.map_err(|_| serde::de::Error::custom("nodes: expected a list of URLs, each a text"))?;
        Ok(urls.into_iter().map(Secret).collect())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Address::parse(&self.0).map_or_else(|_| "(malformed)".into(), |a| a.label))
    }
}

impl Default for ClientBuilder {
    fn default() -> Self {
        ClientBuilder {
            nodes: Vec::new(),
            namespace: "rl".into(),
            deployment: "default".into(),
            ttl: Duration::from_secs(30),
            drift: 0.01,
            retry: None,
            master_timeout: None,
            round_timeout: None,
            hang_timeout: Duration::from_secs(1),
            connect_timeout: Duration::from_millis(250),
            fault_margin: 0,
            max_lease: Duration::from_secs(60),
            quarantine: None,
            outage_patience: Duration::from_secs(10),
            lanes: 1,
            pool_size: None,
            idle_timeout: None,
            test_on_check_out: true,
            hand_over: BUDGET,
            watchdog: WatchdogMode::Auto,
            label: None,
        }
    }
}

impl ClientBuilder {
    /// Adds a master: `redis://[[user]:password@]host[:port][/db]` or `unix:///path`. Every master must be a server
    /// of its own. Name three or five: an even number tolerates no more failures than one less. In a user or password,
    /// characters other than letters and digits are percent-encoded.
    ///
    /// A host name is looked up for each connection, and again at least every quarter of `max_lease`: a connection to a
    /// server that the name no longer leads to is closed. Stop a server before you give its address to another one.
    pub fn node(mut self, url: impl Into<String>) -> Self {
        self.nodes.push(Secret(url.into()));
        self
    }

    /// Adds masters, each as [`node`](ClientBuilder::node) does.
    pub fn nodes<U: Into<String>>(self, urls: impl IntoIterator<Item = U>) -> Self {
        urls.into_iter().fold(self, |builder, url| builder.node(url))
    }

    /// The prefix of all keys and channels, 1 to 64 bytes. Default: `rl`.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// The name of the deployment, 1 to 64 of `A-Z a-z 0-9 . _ -`. All its clients name the same masters in the same
    /// order, and a master belongs to one deployment. The masters refuse a client with another name, another number of
    /// masters, another quorum or another `max_lease`, when it connects and in every vote:
    /// [`Error::DeploymentMismatch`]. Default: `default`.
    pub fn deployment(mut self, id: impl Into<String>) -> Self {
        self.deployment = id.into();
        self
    }

    /// The ttl of a lease, from 100 ms to `max_lease`, in whole milliseconds. Default: 30 s (Redisson's).
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    pub(crate) fn ttl_at_most(mut self, longest: Duration) -> Self {
        self.ttl = self.ttl.min(longest);
        self
    }

    /// The assumed bound on the rate error between this machine's clock and a master's, from 0 to 0.5. Default: 0.01.
    /// chrony may slew by 0.083 unless `maxslewrate` is lowered.
    pub fn drift(mut self, drift: f64) -> Self {
        self.drift = drift;
        self
    }

    /// The pauses between attempts at a lock that others hold. Default: 50 to 250 ms, growing to 1 s.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = Some(retry);
        self
    }

    /// How long one master may take to answer a round, at least 1 ms. Default: `ttl / 50`, from 50 to 500 ms.
    pub fn master_timeout(mut self, limit: Duration) -> Self {
        self.master_timeout = Some(limit);
        self
    }

    /// How long a whole round may take, at least 1 ms and at most the
    /// [`master_timeout`](ClientBuilder::master_timeout). Default: `ttl / 10`, at least 50 ms. The watchdog waits for a
    /// renewal this long too; if nothing is set, it waits for `ttl / 6`, because no caller waits for it.
    pub fn round_timeout(mut self, limit: Duration) -> Self {
        self.round_timeout = Some(limit);
        self
    }

    /// How long a request may stay unanswered before its connection is closed and replaced, at least 1 ms. Choose it
    /// longer than a round may take, or a lock with a short ttl costs all others their connection. Default: 1 s.
    pub fn hang_timeout(mut self, limit: Duration) -> Self {
        self.hang_timeout = limit;
        self
    }

    /// How long connecting to a master may take, handshake included, from 1 ms to 1 h. Only
    /// [`build`](ClientBuilder::build) waits for it. Default: 250 ms.
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// The fault margin `f`: the quorum is `floor((N + f) / 2) + 1`, and exclusion survives `f` masters that evict,
    /// jump their clocks, or lose memory unnoticed. Default: 0, which is Redlock.
    pub fn fault_margin(mut self, f: usize) -> Self {
        self.fault_margin = f;
        self
    }

    /// The longest lease of any client of this deployment, from 100 ms to 24 h. All clients must agree, and the masters
    /// check it. A quarantine is a quarter longer, because clients look up the masters' addresses once in that time.
    /// Default: 60 s.
    pub fn max_lease(mut self, max_lease: Duration) -> Self {
        self.max_lease = max_lease;
        self
    }

    /// Whether a master that lost its memory casts no votes for a little more than `max_lease`. Default: yes for two
    /// masters and more; no for one, where it would only be an outage.
    ///
    /// Without it, a master that was restarted or flushed can give a held lock to a second holder. `quarantine(false)`
    /// is meant for tests against throw-away servers, and is a warning in the log. Where another client with the same
    /// settings and a quarantine has begun a generation, it binds this client too.
    pub fn quarantine(mut self, on: bool) -> Self {
        self.quarantine = Some(on);
        self
    }

    /// How long a call without a limit of its own goes on during an outage before it returns the error. Default: 10 s.
    pub fn outage_patience(mut self, patience: Duration) -> Self {
        self.outage_patience = patience;
        self
    }

    /// The number of shared connections per master, 1 to 64. More than one helps only where one core cannot read all
    /// replies. Default: 1.
    pub fn lanes(mut self, lanes: usize) -> Self {
        self.lanes = lanes;
        self
    }

    /// The most connections that this client has to one master at any time, from `lanes + 2` to 1 024: one for each
    /// lane, one to hear of releases while threads wait, and one to look up the master's address with. Default:
    /// `lanes + 3`, which leaves room for one that is idle.
    ///
    /// The connections are in a pool of r2d2, which waits in parking_lot's table of waiting threads. A child that is
    /// forked in the microseconds in which a connection enters or leaves the pool or idle ones are closed, or of a
    /// program that uses parking_lot itself, may find that table half changed, and hang.
    pub fn pool_size(mut self, connections: u32) -> Self {
        self.pool_size = Some(connections);
        self
    }

    /// How long a connection may be without use before it is closed, from `max_lease` to 24 h; within another 45 s. The
    /// first call after that waits for new ones, for the [`connect_timeout`](ClientBuilder::connect_timeout) at most.
    /// It is no shorter than `max_lease`, so that no held lock is on a connection that is closed. Default: connections
    /// are kept.
    pub fn idle_timeout(mut self, limit: Duration) -> Self {
        self.idle_timeout = Some(limit);
        self
    }

    /// Whether a connection that was idle in its pool must answer a `PING` within the
    /// [`connect_timeout`](ClientBuilder::connect_timeout) before it is used again. No call waits for that. Without it,
    /// only those that the server has closed are noticed. Default: yes.
    pub fn test_on_check_out(mut self, on: bool) -> Self {
        self.test_on_check_out = on;
        self
    }

    /// How long the threads of this client may pass a lock to one another without asking the masters; see
    /// [`Options::hand_over`](crate::Options::hand_over). Default: 10 ms; zero switches it off.
    pub fn hand_over(mut self, budget: Duration) -> Self {
        self.hand_over = budget;
        self
    }

    /// Who renews this client's leases. Default: [`WatchdogMode::Auto`].
    pub fn watchdog(mut self, mode: WatchdogMode) -> Self {
        self.watchdog = mode;
        self
    }

    /// What others read about the holders of this client's locks: at most 128 bytes, no control characters. Default:
    /// host and process id.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Checks the settings, connects to all masters in parallel, and waits for them for at most the
    /// [`connect_timeout`](ClientBuilder::connect_timeout).
    ///
    /// An outage is not an error here: the first lock reports it, with what every master answered.
    ///
    /// # Errors
    ///
    /// - [`Error::Config`] for a wrong setting, with the field and what it may be.
    /// - [`Error::Config`] for a master that can never serve: one server under two names, a replica, a server of
    ///   a Redis Cluster, a wrong password or database, or a user that lacks a right, which is named. One such master
    ///   is enough.
    /// - [`Error::DeploymentMismatch`] for a master of a deployment with other settings.
    /// - [`Error::System`] if the operating system refuses a thread or random bits.
    pub fn build(self) -> Result<Client, Error> {
        let (addresses, settings) = self.checked()?;
        let terms = Arc::new(Options::new().lease(Lease::Watchdog { ttl: self.ttl }).terms(&settings)?);
        if addresses.len().is_multiple_of(2) {
            journal::warn!(
                "{} masters tolerate no more failures than {}; use an odd number",
                addresses.len(),
                addresses.len() - 1
            );
        }
        if self.quarantine == Some(false) {
            journal::warn!(
                "the quarantine is off: a restarted master may give a held lock to a second holder; not for production"
            );
        }
        let pause = self.retry.as_ref().and_then(options::pause);
        let engine = Engine::start(settings, addresses)?;
        Ok(Client::new(engine, terms, pause))
    }

    /// The settings of the engine, or what is wrong with these.
    pub(crate) fn checked(&self) -> Result<(Vec<Address>, Settings), Error> {
        let addresses = self.addresses()?;
        let settings = self.settings(self.quorum(addresses.len())?)?;
        Ok((addresses, settings))
    }

    fn addresses(&self) -> Result<Vec<Address>, Error> {
        if self.nodes.is_empty() {
            return Err(Error::config("nodes", "there are none; name at least one master, better three"));
        }
        if self.nodes.len() > MAX_MASTERS {
            return Err(Error::config("nodes", format!("there are {}; the limit is {MAX_MASTERS}", self.nodes.len())));
        }
        let mut addresses: Vec<Address> = Vec::with_capacity(self.nodes.len());
        for (i, Secret(url)) in self.nodes.iter().enumerate() {
            let address = Address::parse(url).map_err(|e| Error::config("nodes", format!("master {}: {e}", i + 1)))?;
            if addresses.iter().any(|a| a.label == address.label) {
                return Err(Error::config(
                    "nodes",
                    format!("{} is named twice; every master must be a server of its own", address.label),
                ));
            }
            addresses.push(address);
        }
        Ok(addresses)
    }

    fn quorum(&self, n: usize) -> Result<Quorum, Error> {
        Quorum::new(n, self.fault_margin).ok_or_else(|| {
            let problem = format!(
                "{} needs a quorum of more than all {n} masters; at most {}",
                self.fault_margin,
                n.saturating_sub(1)
            );
            Error::config("fault_margin", problem)
        })
    }

    fn settings(&self, quorum: Quorum) -> Result<Settings, Error> {
        let namespace = Namespace::new(&self.namespace).map_err(|e| Error::config("namespace", e.to_string()))?;
        if !valid_deployment(&self.deployment) {
            return Err(Error::config("deployment", "it takes 1 to 64 of A-Z a-z 0-9 . _ -"));
        }
        if self.max_lease < MIN_TTL || self.max_lease > Duration::from_secs(86_400) {
            return Err(Error::config("max_lease", format!("{:?} is not in 100 ms to 24 h", self.max_lease)));
        }
        check_ttl(self.ttl, self.max_lease)?;
        let drift = (self.drift.is_finite() && self.drift >= 0.0).then(|| (self.drift * 1e6).ceil() as u32);
        let drift = drift.and_then(Drift::from_ppm);
        let drift = drift.ok_or_else(|| Error::config("drift", format!("{} is not in 0 to 0.5", self.drift)))?;
        let limits = [
            ("master_timeout", self.master_timeout),
            ("round_timeout", self.round_timeout),
            ("hang_timeout", Some(self.hang_timeout)),
            ("connect_timeout", Some(self.connect_timeout)),
        ];
        for (field, limit) in limits {
            if limit.is_some_and(|l| l < Duration::from_millis(1)) {
                return Err(Error::config(field, "it is below 1 ms"));
            }
        }
        if self.connect_timeout > Duration::from_secs(3_600) {
            return Err(Error::config("connect_timeout", format!("{:?} is above 1 h", self.connect_timeout)));
        }
        if !(1..=64).contains(&self.lanes) {
            return Err(Error::config("lanes", format!("{} is not in 1 to 64", self.lanes)));
        }
        let least = self.lanes as u32 + 2;
        let pool_size = self.pool_size.unwrap_or(least + 1);
        if !(least..=1_024).contains(&pool_size) {
            let problem = format!(
                "{pool_size} is not in {least} to 1024: it takes one connection for each of the lanes ({}), one to \
                 hear of releases, and one to look up the master's address with",
                self.lanes
            );
            return Err(Error::config("pool_size", problem));
        }
        if let Some(limit) = self.idle_timeout
            && (limit < self.max_lease || limit > Duration::from_secs(86_400))
        {
            let problem = format!("{limit:?} is not in max_lease ({:?}) to 24 h", self.max_lease);
            return Err(Error::config("idle_timeout", problem));
        }
        let label = match &self.label {
            Some(label) => check_label(label)?,
            None => default_label(),
        };
        let backoff = self.retry.as_ref().map_or(Ok(Backoff::DEFAULT), backoff)?;
        let quarantine = self.quarantine.unwrap_or(quorum.masters() >= 2);
        Ok(Settings {
            quorum,
            namespace,
            deployment: Deployment::new(
                &self.deployment,
                quorum,
                Duration::from_millis(millis_up(self.max_lease)),
                drift,
            ),
            quarantine,
            max_lease: self.max_lease,
            drift,
            ttl: self.ttl,
            master_timeout: self.master_timeout,
            round_timeout: self.round_timeout,
            hang_timeout: self.hang_timeout,
            connect_timeout: self.connect_timeout,
            outage_patience: self.outage_patience,
            lanes: self.lanes,
            pool_size,
            idle_timeout: self.idle_timeout,
            test_on_check_out: self.test_on_check_out,
            hand_over: self.hand_over,
            watchdog_threads: self.watchdog.threads(),
            label,
            backoff,
        })
    }
}

/// Host and process id, cut to the limit.
fn default_label() -> Arc<str> {
    let host: String = sys::host().chars().filter(|c| !c.is_control() && c.is_ascii()).take(100).collect();
    format!("{host} pid {}", sys::pid()).into()
}
