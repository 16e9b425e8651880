//! What redleash needs of the operating system. None of it knows of locks.

pub(crate) mod alarm;
pub(crate) mod children;
pub(crate) mod clock;
pub(crate) mod fuse;
pub(crate) mod namespace;
pub(crate) mod process;
pub(crate) mod signals;
pub(crate) mod stdio;
pub(crate) mod terminal;
pub(crate) mod tree;
