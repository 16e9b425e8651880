//! The command line, read by clap.

use crate::text::duration;
use crate::exit::{BUSY, Failure, USAGE};
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::time::Duration;

const AFTER: &str = "\
Exit codes of `redleash run`: the command's own, 128+n if signal n ended it, and
  64 usage   69 no quorum   75 busy (or -E)   76 lock lost   78 configuration
  126 cannot execute   127 command not found";

const RUN_AFTER: &str = "\
Examples:
  redleash run -n nightly-backup -- /usr/local/bin/backup --all
  redleash run -w 10m --ttl 30s deploy/web -- make deploy
  */5 * * * * redleash run -qn -E 0 import -- /opt/import.sh

If the lock cannot be renewed, the command and all that it started get SIGTERM and then SIGKILL, so that they are dead \
before the lease ends; also if redleash itself is killed. The lock is released when the command ends; what the command left \
behind is ended first. Only a daemon, which has a session of its own and no parent, runs on; with --contain not even that.

The command finds the lock's name in REDLEASH_NAME, and in REDLEASH_FENCE a number that grows with every holder: give it \
to the resource, and have the resource refuse lower ones.";

const BENCH_AFTER: &str = "\
It puts load on the masters: it acquires and releases locks as fast as they can, and other clients are slower meanwhile. Its \
locks have names of their own, redleash-bench/RANDOM/..., and nothing is left behind for longer than two seconds. A signal ends it with what was measured \
so far.";

/// Runs a command under a lock that all hosts see: what flock does on one host, over independent Redis masters.
#[derive(Parser)]
#[command(name = "redleash", version, after_help = AFTER, max_term_width = 120, arg_required_else_help = true)]
pub(crate) struct Args {
    /// Say more on standard error; -vv what the library does, -vvv every round that was not granted.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,

    #[command(flatten)]
    pub(crate) masters: MasterArgs,

    #[command(subcommand)]
    pub(crate) action: Action,
}

/// The deployment. All its clients must agree on namespace, deployment and max-lease.
#[derive(ClapArgs)]
#[command(next_help_heading = "Masters")]
pub(crate) struct MasterArgs {
    /// The masters, redis://[[user]:password@]host[:port][/db] or unix:///path, separated by commas. Three or five, the same
    /// on all hosts; there is no default. Others can see the arguments of a process: URLs with a password belong into the environment.
    #[arg(long, env = "REDLEASH_NODES", hide_env_values = true, global = true, value_name = "URL,...")]
    #[arg(value_delimiter = ',')]
    pub(crate) nodes: Vec<String>,

    /// The prefix of all keys.
    #[arg(long, env = "REDLEASH_NAMESPACE", global = true, default_value = "rl", value_name = "PREFIX")]
    pub(crate) namespace: String,

    /// The name of the deployment.
    #[arg(long, env = "REDLEASH_DEPLOYMENT", global = true, default_value = "default", value_name = "NAME")]
    pub(crate) deployment: String,

    /// The longest lease of any client, and how long a master that lost its memory casts no votes.
    #[arg(long, env = "REDLEASH_MAX_LEASE", global = true, default_value = "60s", value_name = "D")]
    #[arg(value_parser = duration::parse)]
    pub(crate) max_lease: Duration,

    /// How many masters may misbehave (evict keys, jump their clocks) without endangering a lock.
    #[arg(long, env = "REDLEASH_FAULT_MARGIN", global = true, default_value = "0", value_name = "N")]
    pub(crate) fault_margin: usize,
}

#[derive(Subcommand)]
pub(crate) enum Action {
    /// Run a command under a lock.
    Run(RunArgs),
    /// Show who holds a lock, as every master sees it.
    Status(StatusArgs),
    /// Settle new and empty masters, so that they vote at once instead of after max-lease. Run it once.
    ///
    /// It rests on one assumption that no program can check: no lease has been held on these masters for max-lease. So it is
    /// refused unless all masters answer, none has been used by redleash, and all are empty.
    Init,
    /// Take a lock away from its holder.
    Unlock(UnlockArgs),
    /// Measure these masters: round trips, latency of a lock, throughput, hand-over.
    Bench(BenchArgs),
}

#[derive(ClapArgs)]
#[command(after_help = RUN_AFTER, override_usage = "redleash run [OPTIONS] NAME -- CMD [ARGS]...")]
pub(crate) struct RunArgs {
    /// The life of the lease; renewed at a third of it while the command runs.
    #[arg(long, default_value = "15s", value_name = "D", value_parser = duration::parse)]
    pub(crate) ttl: Duration,

    /// Do not wait: if another holds the lock, exit with 75 (or -E). A master that hangs may take a second all the same.
    #[arg(short = 'n', long, visible_alias = "nb", conflicts_with = "wait")]
    pub(crate) nonblock: bool,

    /// Wait for at most this long (seconds, or with a unit); then exit with 75 (or -E). 0 is -n. Without it: wait for as long as
    /// others hold the lock. With and without it: no longer than 10 s for masters that do not answer (69).
    #[arg(short, long, visible_alias = "timeout", value_name = "SECS", value_parser = duration::parse)]
    pub(crate) wait: Option<Duration>,

    /// The exit code when the lock is busy or the waiting time is over, 0 to 255.
    #[arg(short = 'E', long, default_value_t = BUSY, value_name = "CODE")]
    pub(crate) conflict_exit_code: u8,

    /// Do not say that another holds the lock: cron mails whatever is said.
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// How much longer than its lease the lock stays taken if its holder vanishes. A clean end leaves no pause.
    #[arg(long, default_value = "5s", value_name = "D", value_parser = duration::parse)]
    pub(crate) lock_delay: Duration,

    /// The lock stays taken for at least this long after it was granted, even if the command ends before: for cron jobs on
    /// hosts whose clocks differ.
    #[arg(long, value_name = "D", value_parser = duration::parse)]
    pub(crate) min_hold: Option<Duration>,

    /// The lock is renewed no further than this; the command is ended before.
    #[arg(long, value_name = "D", value_parser = duration::parse)]
    pub(crate) max_hold: Option<Duration>,

    /// The time between SIGTERM and SIGKILL. This and 1 s must fit into half of the ttl. Default: a quarter of the ttl, at
    /// most 5s.
    #[arg(long, value_name = "D", value_parser = duration::parse)]
    pub(crate) kill_after: Option<Duration>,

    /// What happens to the command when the lock is about to be lost. kill: SIGTERM, then SIGKILL before the lease ends.
    /// term: only SIGTERM. warn: only a warning. With the last two it may run beside the next holder.
    #[arg(long, default_value = "kill", value_name = "WHAT")]
    pub(crate) on_lost: OnLost,

    /// The command runs in a pid namespace of its own (Linux): whatever it starts dies with the lock, daemons too, and also if
    /// all of redleash is killed or stopped. Needs root or unprivileged user namespaces, otherwise 71.
    #[arg(long)]
    pub(crate) contain: bool,

    /// Leave REDLEASH_NODES, with its passwords, in the environment of the command.
    #[arg(long)]
    pub(crate) pass_nodes: bool,

    /// The lock: 1 to 512 bytes without braces and control characters.
    pub(crate) name: String,

    /// The command and its arguments, after `--`. No shell is involved: write `sh -c '...'` for one.
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// What happens to the command when its lock is about to be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLost {
    Kill,
    Term,
    Warn,
}

#[derive(ClapArgs)]
pub(crate) struct StatusArgs {
    /// One JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,

    /// The lock.
    pub(crate) name: String,
}

#[derive(ClapArgs)]
pub(crate) struct UnlockArgs {
    /// Required: the holder is not asked. It finds out at its next renewal, and nobody else is granted the lock before its
    /// lease has ended.
    #[arg(long, required = true)]
    pub(crate) force: bool,

    /// Free the lock at once: the next holder may be granted while the former one still works.
    #[arg(long)]
    pub(crate) now: bool,

    /// Do not ask. Without a terminal nobody is asked.
    #[arg(short, long)]
    pub(crate) yes: bool,

    /// The lock.
    pub(crate) name: String,
}

#[derive(ClapArgs)]
#[command(after_help = BENCH_AFTER)]
pub(crate) struct BenchArgs {
    /// How long to measure in all, 1s to 1h.
    #[arg(long, default_value = "10s", value_name = "D", value_parser = duration::parse)]
    pub(crate) seconds: Duration,

    /// The throughput is measured with each of these numbers of threads, 1 to 256.
    #[arg(long, default_value = "1,2,4,8", value_name = "N,...", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: Vec<u16>,

    /// One JSON object on standard output; times in microseconds.
    #[arg(long)]
    pub(crate) json: bool,
}

impl Args {
    /// Reads the command line. Help and version are printed here and end the program.
    pub(crate) fn parse_from(argv: &[OsString]) -> Result<Args, Failure> {
        Args::try_parse_from(argv).map_err(|error| {
            let _ = error.print();
            if !error.use_stderr() {
                std::process::exit(0);
            }
            let run_without_dashes = argv.iter().any(|a| a == "run") && !argv.iter().any(|a| a == "--");
            let tip =
                if run_without_dashes { "the command comes after `--`: redleash run NAME -- CMD ARGS" } else { "" };
            Failure::new(USAGE, tip)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Args;
    use clap::CommandFactory;

    #[test]
    fn clap_finds_no_contradiction() {
        Args::command().debug_assert();
    }
}
