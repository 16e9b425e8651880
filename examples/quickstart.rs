//! The five lines of the README, on the masters in `REDLEASH_NODES` (comma-separated URLs).

use redleash::{Client, ReleaseOutcome};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::from_env()?; // REDLEASH_NODES names the masters
    // Once per deployment, while its masters are new and empty.
    match client.init() {
        Ok(report) => println!("{report}"),
        Err(redleash::Error::NotBlank(_)) => println!("the masters have been used before"),
        Err(e) => return Err(e.into()),
    }
    let guard = client.lock("orders/42").acquire()?;
    println!("{}", client.status("orders/42")?);
    println!("held for {:?} more, fencing token {}", guard.remaining(), guard.fencing_token()?);
    guard.check()?;
    match guard.release() {
        ReleaseOutcome::Released => println!("released"),
        other => println!("not released: {other:?}"),
    }
    Ok(())
}
