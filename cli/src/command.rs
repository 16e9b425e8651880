//! Finding the command before the wait for the lock, so that a typing error does not show after an hour of waiting.

use crate::exit::{CANNOT_EXECUTE, Failure, NOT_FOUND};
use rustix::fs::{Access, access};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

/// Why a command cannot run.
enum Unfit {
    Absent,
    NotExecutable,
    Directory,
}

/// The name of the command, for others to read: without its directory, and without its arguments, which may hold a
/// password.
pub(crate) fn short_name(command: &[OsString]) -> String {
    let program = command.first().map(Path::new);
    program.and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned()
}

/// Fails if the command surely cannot run.
pub(crate) fn check(name: &str, command: &[OsString]) -> Result<(), Failure> {
    let program = command.first().map(OsString::as_os_str).unwrap_or_default();
    find(program).map_err(|unfit| failure(name, program, &unfit, None))
}

/// Why `exec` failed.
pub(crate) fn failed(name: &str, program: &OsStr, error: &io::Error) -> Failure {
    let unfit = match (error.kind(), find(program)) {
        (_, Err(unfit)) => unfit,
        // The file is there, so the interpreter in its first line is not.
        _ => Unfit::NotExecutable,
    };
    failure(name, program, &unfit, Some(error))
}

fn failure(name: &str, program: &OsStr, unfit: &Unfit, error: Option<&io::Error>) -> Failure {
    let program = program.to_string_lossy();
    let (code, why) = match unfit {
        Unfit::Absent => (NOT_FOUND, "there is no such command".to_string()),
        Unfit::Directory => (CANNOT_EXECUTE, "it is a directory".to_string()),
        Unfit::NotExecutable => match error {
            Some(e) if e.kind() == io::ErrorKind::NotFound => {
                (CANNOT_EXECUTE, "the interpreter in its first line is not there".to_string())
            }
            Some(e) if e.kind() != io::ErrorKind::PermissionDenied => (CANNOT_EXECUTE, e.to_string()),
            _ => (CANNOT_EXECUTE, "it is not executable for this user (chmod +x)".to_string()),
        },
    };
    Failure::new(code, format!("lock {name:?}: cannot execute {program:?}: {why}"))
}

fn find(program: &OsStr) -> Result<(), Unfit> {
    if program.to_string_lossy().contains('/') {
        return look(Path::new(program));
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let mut result = Err(Unfit::Absent);
    for directory in std::env::split_paths(&path) {
        match look(&directory.join(program)) {
            Ok(()) => return Ok(()),
            Err(Unfit::NotExecutable) => result = Err(Unfit::NotExecutable),
            Err(_) => {}
        }
    }
    result
}

fn look(path: &Path) -> Result<(), Unfit> {
    match std::fs::metadata(path) {
        Ok(data) if data.is_dir() => Err(Unfit::Directory),
        Ok(_) if access(path, Access::EXEC_OK).is_ok() => Ok(()),
        Ok(_) => Err(Unfit::NotExecutable),
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Err(Unfit::NotExecutable),
        Err(_) => Err(Unfit::Absent),
    }
}
