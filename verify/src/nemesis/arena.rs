//! One deployment under test: masters, each behind a proxy, a clock that can step, registers, and workers.

use super::clock::{Clock, Shim};
use super::command;
use super::crew::{Crew, Launch};
use super::dice::Dice;
use super::faults::Ground;
use super::history::Kind;
use super::keeper::Keeper;
use super::proxy::Proxy;
use super::register::Registers;
use super::worker;
use redleash_testkit::{Reply, Scratch, Server};
use std::error::Error;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// The number of locks that the workers of an arena share.
pub const LOCKS: usize = 4;
/// Processes that use the library.
pub const WORKERS: usize = 6;
/// Rows of commands under `redleash run`.
pub const COMMANDS: usize = 2;
/// The ttl of the workers' leases.
pub const TTL: Duration = Duration::from_millis(1000);
/// The ttl of the commands' leases: the command line needs twice the time that ending a command takes.
pub const COMMAND_TTL: Duration = Duration::from_millis(2500);
/// The longest lease of the deployment, and so the length of a quarantine. It is short, so that quarantines end within
/// a run.
pub const MAX_LEASE: Duration = Duration::from_millis(3000);
const KILL_AFTER: Duration = Duration::from_millis(200);

/// What an arena is made of.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The number of masters.
    pub masters: usize,
    /// The fault margin.
    pub margin: usize,
    /// The seed.
    pub seed: u64,
    /// The command line program, if there are commands.
    pub redleash: Option<PathBuf>,
    /// Whether the quarantine is switched off, which the checks must notice.
    pub no_quarantine: bool,
}

impl Setup {
    /// `3 masters, quorum 2`.
    pub fn title(&self) -> String {
        let quorum = (self.masters + self.margin) / 2 + 1;
        format!("{} masters, quorum {quorum}, fault margin {}", self.masters, self.margin)
    }
}

/// See the module.
pub struct Arena {
    /// What it is made of.
    pub setup: Setup,
    /// The masters.
    pub servers: Vec<Server>,
    /// The networks in front of them.
    pub proxies: Vec<Proxy>,
    /// The clock of the first master.
    pub clock: Option<Clock>,
    /// The resource.
    pub registers: Registers,
}

impl Arena {
    /// Starts the masters and settles them.
    ///
    /// # Errors
    ///
    /// If anything cannot be started.
    pub fn start(setup: &Setup, scratch: &Scratch, shim: Option<&Shim>) -> Result<Arena, Box<dyn Error>> {
        let name = format!("clock-{}-{}", setup.masters, setup.margin);
        let shim = shim.filter(|_| setup.margin > 0);
        let clock = shim.map(|shim| shim.clock(scratch.path(), &name)).transpose()?;
        let servers = (0..setup.masters).map(|i| {
            let env = clock.as_ref().filter(|_| i == 0).map(|clock| clock.env());
            let args = ["--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0"];
            Server::start_under(&args, env.as_ref().map_or(&[], |env| env))
        });
        let servers: Vec<Server> = servers.collect::<Result<_, _>>()?;
        let proxies: Vec<Proxy> = servers.iter().map(|server| Proxy::start(server.port())).collect::<Result<_, _>>()?;
        let arena = Arena { setup: setup.clone(), servers, proxies, clock, registers: Registers::start()? };
        if !setup.no_quarantine {
            let client = worker::client(&arena.worker_options(0), &arena.urls())?;
            client.init()?;
            client.close(Duration::from_secs(1));
        }
        Ok(arena)
    }

    /// What the schedule needs to know.
    pub fn ground(&self) -> Ground {
        Ground {
            masters: self.setup.masters,
            margin: self.setup.margin,
            clocks: self.clock.is_some(),
            commands: self.setup.redleash.is_some(),
            ttl: TTL,
            command_ttl: COMMAND_TTL,
        }
    }

    /// Starts the workers: processes of this program, and of the command line.
    ///
    /// # Errors
    ///
    /// If this program does not know where it is.
    pub fn crew(&self, keeper: &Arc<Keeper>) -> Result<Crew, Box<dyn Error>> {
        let me = std::env::current_exe()?;
        let urls = self.urls().join(",");
        let mut dice = Dice::new(self.setup.seed ^ 0x6372_6577);
        let mut rows: Vec<(Kind, Launch)> = Vec::new();
        for _ in 0..WORKERS {
            let (seed, me, urls) = (dice.bits(), me.clone(), urls.clone());
            let options = self.worker_options(seed);
            rows.push((Kind::Library, Box::new(move |life| library(&me, &urls, &options, seed ^ life))));
        }
        let commands = if self.setup.no_quarantine { 0 } else { COMMANDS };
        if let Some(redleash) = &self.setup.redleash {
            for _ in 0..commands {
                let (redleash, me, urls) = (redleash.clone(), me.clone(), urls.clone());
                let (registers, margin, seed) = (self.registers.port(), self.setup.margin, dice.bits());
                rows.push((
                    Kind::Command,
                    Box::new(move |life| {
                        let mut dice = Dice::new(seed ^ life);
                        let name = dice.range(0, LOCKS as u64 - 1) as usize;
                        let options = command::Options { registers, name, seed: dice.bits() };
                        run(&redleash, &me, &urls, margin, &options)
                    }),
                ));
            }
        }
        Ok(Crew::start(keeper, rows))
    }

    fn worker_options(&self, seed: u64) -> worker::Options {
        worker::Options {
            registers: self.registers.port(),
            locks: LOCKS,
            ttl: TTL.as_millis() as u64,
            max_lease: MAX_LEASE.as_millis() as u64,
            margin: self.setup.margin,
            seed,
            no_quarantine: self.setup.no_quarantine,
        }
    }

    fn urls(&self) -> Vec<String> {
        self.proxies.iter().map(Proxy::url).collect()
    }

    /// The number of lock keys on each master; `None` for one that does not answer.
    pub fn keys(&self) -> Vec<Option<usize>> {
        let count = |server: &Server| match server.command(&["KEYS", "rl:[LR]:*"]) {
            Ok(Reply::Array(keys)) => Some(keys.len()),
            _ => None,
        };
        self.servers.iter().map(count).collect()
    }
}

fn library(me: &PathBuf, urls: &str, options: &worker::Options, seed: u64) -> Command {
    let mut command = Command::new(me);
    let numbers = [
        ("--registers", u64::from(options.registers)),
        ("--locks", options.locks as u64),
        ("--ttl", options.ttl),
        ("--max-lease", options.max_lease),
        ("--margin", options.margin as u64),
        ("--seed", seed),
    ];
    command.arg("nemesis-worker").env("REDLEASH_NODES", urls);
    for (name, value) in numbers {
        command.arg(name).arg(value.to_string());
    }
    if options.no_quarantine {
        command.arg("--no-quarantine");
    }
    command
}

fn run(redleash: &PathBuf, me: &PathBuf, urls: &str, margin: usize, options: &command::Options) -> Command {
    let ms = |d: Duration| format!("{}ms", d.as_millis());
    let mut command = Command::new(redleash);
    command
        .args(["run", "-w", "1", "--lock-delay", "0", "--ttl", &ms(COMMAND_TTL), "--kill-after", &ms(KILL_AFTER)])
        .arg(format!("n{}", options.name))
        .arg("--")
        .arg(me)
        .arg("nemesis-job")
        .args(["--registers", &options.registers.to_string()])
        .args(["--name", &options.name.to_string()])
        .args(["--seed", &options.seed.to_string()])
        .env("REDLEASH_NODES", urls)
        .env("REDLEASH_MAX_LEASE", ms(MAX_LEASE))
        .env("REDLEASH_FAULT_MARGIN", margin.to_string())
        .stderr(Stdio::null());
    command
}
