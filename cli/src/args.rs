//! The command line, read by clap.

use crate::exit::{BUSY, Failure, USAGE};
use crate::text::duration;
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::time::Duration;

/// The environment variable that names the masters.
pub(crate) const NODES_VARIABLE: &str = "REDLEASH_NODES";

const AFTER: &str = "\
Exit codes of `redleash run`: the command's own, 128+n if signal n ended it, and
  64 wrong command line   69 no quorum   71 refused by the system   75 lock held by another (or -E)
  76 lock lost   78 wrong configuration   126 cannot execute the command   127 command not found

A DURATION is a number with a unit, such as 500ms, 15s, 1m30s or 2h; a number alone is seconds.";

const RUN_AFTER: &str = "\
Examples:
  redleash run -n nightly-backup -- /usr/local/bin/backup --all
  redleash run -w 10m --ttl 30s deploy/web -- make deploy
  */5 * * * * redleash run -qn -E 0 import -- /opt/import.sh

The lock is released when the command ends. Processes that the command left behind are ended before that. Only a \
daemon, which has a session of its own and no parent, may run on; with --contain not even a daemon.

If the lock cannot be renewed, the command and all that it started get SIGTERM and then SIGKILL, so that they are dead \
before the lease ends. This also happens if redleash itself is killed.

The command finds the name of the lock in REDLEASH_NAME, and the fencing token in REDLEASH_FENCE: a number that grows \
with every holder. Pass it to the resource with each write, and let the resource refuse lower numbers.";

const BENCH_AFTER: &str = "\
This puts load on the masters: it acquires and releases locks as fast as it can, and slows other clients down \
meanwhile. Its locks have names of their own, redleash-bench/RANDOM/..., and none is left after two seconds. Ctrl-C or \
another signal ends it and shows what was measured so far.";

/// Runs a command under a lock that all hosts see: what flock does on one host, over independent Redis masters.
#[derive(Parser)]
#[command(name = "redleash", version, after_help = AFTER, max_term_width = 120, arg_required_else_help = true)]
pub(crate) struct Args {
    /// Say more on standard error; -vv also what the library does, -vvv also every refused attempt.
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
    /// The URLs of the masters, separated by commas: redis://[[user]:password@]host[:port][/db] or unix:///path. Name
    /// three or five, the same on all hosts; there is no default. Put URLs with a password into the environment, since
    /// others can see the arguments of a process.
    #[arg(long, env = NODES_VARIABLE, hide_env_values = true, global = true, value_name = "URL,...")]
    #[arg(value_delimiter = ',')]
    pub(crate) nodes: Vec<String>,

    /// The prefix of all keys on the masters; the same for all clients.
    #[arg(long, env = "REDLEASH_NAMESPACE", global = true, default_value = "rl", value_name = "PREFIX")]
    pub(crate) namespace: String,

    /// The name of the deployment; the same for all clients.
    #[arg(long, env = "REDLEASH_DEPLOYMENT", global = true, default_value = "default", value_name = "NAME")]
    pub(crate) deployment: String,

    /// The longest lease of any client; the same for all clients. A master that lost its memory does not vote for a
    /// quarter more than this.
    #[arg(long, env = "REDLEASH_MAX_LEASE", global = true, default_value = "60s", value_name = "DURATION")]
    #[arg(value_parser = duration::parse)]
    pub(crate) max_lease: Duration,

    /// How many masters may misbehave (evict keys, step their clocks) without endangering a lock.
    #[arg(long, env = "REDLEASH_FAULT_MARGIN", global = true, default_value = "0", value_name = "N")]
    pub(crate) fault_margin: usize,
}

#[derive(Subcommand)]
pub(crate) enum Action {
    /// Run a command under a lock.
    Run(RunArgs),
    /// Show who holds a lock, as every master sees it.
    Status(StatusArgs),
    /// Let new, empty masters vote at once. Run it once, before the first lock.
    ///
    /// Without it new masters vote a quarter more than max-lease after the first lock is asked for. It is safe only if
    /// no lease was held on these masters for max-lease, which no program can check. So init fails unless all masters
    /// answer, none has been used by redleash, and all are empty. Where it was done already, it says so and succeeds.
    Init,
    /// Take a lock away from its holder.
    Unlock(UnlockArgs),
    /// Measure these masters: round trips, latency of a lock, throughput, hand-over.
    Bench(BenchArgs),
}

#[derive(ClapArgs)]
#[command(after_help = RUN_AFTER, override_usage = "redleash run [OPTIONS] NAME -- CMD [ARGS]...")]
pub(crate) struct RunArgs {
    /// How long a lease lasts. It is renewed after a third of this while the command runs.
    #[arg(long, default_value = "15s", value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) ttl: Duration,

    /// Do not wait: if another client holds the lock, exit with 75 (or -E). A master that hangs may still take a
    /// second.
    #[arg(short = 'n', long, visible_alias = "nb", conflicts_with = "wait")]
    pub(crate) nonblock: bool,

    /// Wait for at most this long, then exit with 75 (or -E); 0 is -n. Without this option, wait for as long as others
    /// hold the lock. In both cases, wait no longer than 10s for masters that do not answer, then exit with 69.
    #[arg(short, long, visible_alias = "timeout", value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) wait: Option<Duration>,

    /// The exit code if another client holds the lock (-n) or the waiting time is over (-w), 0 to 255.
    #[arg(short = 'E', long, default_value_t = BUSY, value_name = "CODE")]
    pub(crate) conflict_exit_code: u8,

    /// Do not say that another client holds the lock. For cron, which mails all output.
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// How much longer than its lease the lock stays taken if its holder dies. After a clean end the lock is free at
    /// once.
    #[arg(long, default_value = "5s", value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) lock_delay: Duration,

    /// Keep the lock taken for at least this long after it was granted, even if the command ends before that. For cron
    /// jobs on hosts whose clocks differ.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) min_hold: Option<Duration>,

    /// Hold the lock for at most this long; the command is ended before that.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) max_hold: Option<Duration>,

    /// The time between SIGTERM and SIGKILL. This plus 1s must fit into half of the ttl. Default: a quarter of the ttl,
    /// at most 5s.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) kill_after: Option<Duration>,

    /// What happens to the command when the lock is about to be lost. kill: SIGTERM, then SIGKILL before the lease
    /// ends. term: only SIGTERM. warn: only a warning. With term and warn, the command may run beside the next holder.
    #[arg(long, default_value = "kill", value_name = "WHAT")]
    pub(crate) on_lost: OnLost,

    /// Run the command in a pid namespace of its own (Linux): all that it starts dies with the lock, including daemons,
    /// even if every process of redleash is killed or stopped. Needs root or unprivileged user namespaces, else exits
    /// with 71.
    #[arg(long)]
    pub(crate) contain: bool,

    /// Leave REDLEASH_NODES, with its passwords, in the environment of the command. A redleash inside the command needs
    /// it.
    #[arg(long)]
    pub(crate) pass_nodes: bool,

    /// The name of the lock: 1 to 512 bytes without braces and control characters.
    pub(crate) name: String,

    /// The command and its arguments, after `--`. It is not run by a shell: write `sh -c '...'` if you need one.
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
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,

    /// The name of the lock.
    pub(crate) name: String,
}

#[derive(ClapArgs)]
pub(crate) struct UnlockArgs {
    /// Required, because the holder is not asked. It notices at its next renewal. No other client is granted the lock
    /// before the holder's lease has ended.
    #[arg(long, required = true)]
    pub(crate) force: bool,

    /// Free the lock at once. The next client may be granted the lock while the former holder still works.
    #[arg(long)]
    pub(crate) now: bool,

    /// Do not ask for confirmation. Without a terminal there is no question either.
    #[arg(short, long)]
    pub(crate) yes: bool,

    /// The name of the lock.
    pub(crate) name: String,
}

#[derive(ClapArgs)]
#[command(after_help = BENCH_AFTER)]
pub(crate) struct BenchArgs {
    /// How long to measure in all, from 1s to 1h.
    #[arg(long, default_value = "10s", value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) seconds: Duration,

    /// Measure the throughput with each of these numbers of threads, 1 to 256.
    #[arg(long, default_value = "1,2,4,8", value_name = "N,...", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: Vec<u16>,

    /// Print one JSON object on standard output, with times in microseconds.
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
