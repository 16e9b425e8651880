//! What the tests, the examples and the demonstration of redleash run against.
#![forbid(unsafe_code)]

pub mod servers;
