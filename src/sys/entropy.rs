//! Random bits from the operating system: a generator in user space would repeat after a fork or a restored snapshot.

use rand::TryRng;
use rand::rngs::SysRng;
use std::io;

/// 128 bits for a token, and 64 for a nonce, in one call.
pub(crate) fn token_and_nonce() -> io::Result<([u8; 16], u64)> {
    let (mut bytes, mut token, mut nonce) = ([0; 24], [0; 16], [0; 8]);
    SysRng.try_fill_bytes(&mut bytes)?;
    token.copy_from_slice(&bytes[..16]);
    nonce.copy_from_slice(&bytes[16..]);
    Ok((token, u64::from_ne_bytes(nonce)))
}

/// 64 bits for jitter and nonces. If the system has none to give, the clock must do: these keep no secret.
pub(crate) fn bits() -> u64 {
    SysRng.try_next_u64().unwrap_or_else(|_| super::clock::now().nanos().wrapping_mul(0x9e37_79b9_7f4a_7c15))
}
