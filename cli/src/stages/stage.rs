//! One stage: the word that starts it, and what all stages do first.

use crate::exit::USAGE;
use crate::text::say;
use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// See the module above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Makes the namespace of `--contain`: `redleash contain ON_LOST MARGIN_NS` and the arguments of the supervisor.
    Warden,
    /// Ends the command before the lease ends: `redleash supervise` and a [task](super::task).
    Supervisor,
    /// Becomes the command: `redleash exec-command NAME SUPERVISOR FOREGROUND CMD ARGS...`.
    Exec,
    /// Tries whether `--contain` is possible here.
    Trial,
    /// The part of the trial inside of the namespace.
    TrialInside,
}

impl Stage {
    const ALL: [Stage; 5] = [Stage::Warden, Stage::Supervisor, Stage::Exec, Stage::Trial, Stage::TrialInside];

    fn word(self) -> &'static str {
        match self {
            Stage::Warden => "contain",
            Stage::Supervisor => "supervise",
            Stage::Exec => "exec-command",
            Stage::Trial => "contain-probe",
            Stage::TrialInside => "contain-probe-inside",
        }
    }

    /// The stage that this word starts, if it starts one.
    pub(crate) fn of(word: &OsStr) -> Option<Stage> {
        Stage::ALL.into_iter().find(|stage| word == stage.word())
    }

    /// This program, to be started as this stage.
    pub(crate) fn command(self) -> io::Result<Command> {
        let mut command = Command::new(this_program()?);
        command.arg0("redleash").arg(self.word());
        Ok(command)
    }
}

/// This program, also after an upgrade has replaced its file.
fn this_program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}

/// The link on which this stage gets its orders: its standard input. `None` if that is no socket, since then somebody
/// has started the stage by hand.
pub(crate) fn link() -> Option<UnixStream> {
    // Without this, `ps` and `top` would show the name of the link in /proc: `exe`.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_name(c"redleash");
    let stdin = io::stdin();
    rustix::net::sockopt::socket_type(&stdin).ok()?;
    stdin.as_fd().try_clone_to_owned().ok().map(UnixStream::from)
}

/// Says that this stage is not for users; the exit code.
pub(crate) fn refuse() -> u8 {
    say::sentence("this stage is started by `redleash run` only");
    USAGE
}
