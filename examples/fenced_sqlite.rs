//! A write into a real SQLite file that refuses a writer whose lock is not its own any more.
//!
//! The table remembers the highest fencing token it has seen. A late writer comes with a lower one and changes nothing,
//! however long it was paused.

use redleash::{Client, Lease, LockGuard, Options};
use rusqlite::{Connection, params};
use std::time::Duration;

fn write(db: &Connection, guard_token: u64, balance: i64) -> rusqlite::Result<bool> {
    let sql = "UPDATE account SET balance = ?1, fence = ?2 WHERE id = 1 AND fence <= ?2";
    Ok(db.execute(sql, params![balance, guard_token])? == 1)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::from_env()?; // REDLEASH_NODES names the masters
    let _ = client.init(); // already done where the masters have been used before
    let path = std::env::temp_dir().join(format!("redleash-example-{}.sqlite", std::process::id()));
    let db = Connection::open(&path)?;
    db.execute_batch(
        "CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER, fence INTEGER);
        INSERT INTO account VALUES (1, 100, 0);",
    )?;

    let short = Options::new().lease(Lease::Fixed { ttl: Duration::from_millis(200) }).fenced(true);
    let paused: LockGuard = client.lock("account/1").options(short).acquire()?;
    let old_token = paused.fencing_token()?;
    println!("A holds with token {old_token}, and is paused beyond its lease");
    let lost = paused.lost().recv_timeout(Duration::from_secs(5))?;
    println!("A learns: {lost}");

    let guard = client.lock("account/1").options(Options::new().fenced(true)).acquire()?;
    let token = guard.fencing_token()?;
    println!("B holds with token {token} and writes: {}", write(&db, token, 150)?);
    let late = write(&db, old_token, 50)?;
    println!("A wakes up, does not ask check(), and writes: {late}");

    let balance: i64 = db.query_row("SELECT balance FROM account WHERE id = 1", [], |row| row.get(0))?;
    drop(db);
    std::fs::remove_file(&path)?;
    if late || token <= old_token || balance != 150 {
        return Err(format!("the late write came through: balance {balance}").into());
    }
    println!("balance {balance}: the late write was refused");
    Ok(())
}
