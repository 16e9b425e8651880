//! Random bits from the operating system: no generator in user space can repeat after a fork or a restored snapshot.

use std::io;

/// 128 bits for a token.
pub(crate) fn token() -> io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

/// 64 bits for jitter and nonces. If the system has none to give, the clock must do: these keep no secret.
pub(crate) fn bits() -> u64 {
    getrandom::u64().unwrap_or_else(|_| super::clock::now().nanos().wrapping_mul(0x9e37_79b9_7f4a_7c15))
}
