//! The processes between `redleash run` and the command. Each of them is this program again, started with a word of its
//! own: `run` starts the supervisor, which starts the last stage, which becomes the command. With `--contain` the
//! warden stands between `run` and the supervisor.
//!
//! Only `run` starts these stages, so they are not in the help.

mod exec;
pub(crate) mod stage;
mod supervisor;
pub(crate) mod task;
pub(crate) mod trial;
mod warden;

use stage::Stage;
use std::ffi::OsString;

/// Runs a stage to its end; the exit code.
pub(crate) fn main(stage: Stage, args: &[OsString]) -> u8 {
    match stage {
        Stage::Warden => warden::main(args),
        Stage::Supervisor => supervisor::main(args),
        Stage::Exec => exec::main(args),
        Stage::Trial => trial::main(),
        Stage::TrialInside => trial::main_inside(),
    }
}
