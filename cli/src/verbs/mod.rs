//! One file or folder for each verb of the command line.

pub(crate) mod bench;
pub(crate) mod init;
pub(crate) mod run;
pub(crate) mod status;
pub(crate) mod unlock;
