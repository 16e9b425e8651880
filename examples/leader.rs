//! A leader that does its duty until the loss of its lock is announced, and then stops at once.

use redleash::crossbeam_channel::{select, tick};
use redleash::{Client, Lease, Options};
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::from_env()?; // REDLEASH_NODES names the masters
    let _ = client.init(); // already done where the masters have been used before
    let options = Options::new().lease(Lease::Watchdog { ttl: Duration::from_millis(900) }).label("the leader");

    let leader = client.lock("billing/leader").options(options).acquire()?;
    println!("elected with token {}", leader.fencing_token()?);
    let duty = tick(Duration::from_millis(100));
    let mut rounds = 0;
    loop {
        select! {
            recv(leader.lost()) -> lost => {
                println!("stepping down: {}", lost?);
                break;
            }
            recv(duty) -> _ => {
                rounds += 1;
                println!("duty {rounds}, leading for at least {:?} more", leader.remaining());
            }
        }
        if rounds == 5 {
            // An operator takes the lock away; the leader learns of it at its next renewal.
            println!("revoked on {} masters", client.force_release("billing/leader")?.masters);
        }
        if rounds > 50 {
            return Err("the loss was not announced".into());
        }
    }
    if leader.check().is_ok() {
        return Err("a lost lock still looks held".into());
    }
    Ok(())
}
