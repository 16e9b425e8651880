//! redleash
#![forbid(unsafe_code)]
#[doc(hidden)]
pub mod protocol;
