//! The order in which mutexes are locked: a thread that holds one locks only those of a higher rank. So no two threads
//! wait for each other.
//!
//! The table below is the order; each mutex is made with its rank ([`Mutex::new`](super::sync::Mutex::new)). Debug
//! builds keep a stack of the ranks that each thread holds, and panic at a lock out of order; release builds do not
//! even store the rank. Two exceptions:
//!
//! - `try_lock` waits for nobody, so it may be tried in any order. What it locks counts from then on.
//! - The shared watchdog closes the gates of many leases at once (`lock_among`). No other thread holds two, so each of
//!   the others waits for it, and it waits for none that waits for it.
//!
//! No code of the user (callbacks, closures, the logger) runs while any of them is held, nor is it dropped then:
//! [`none_held`](super::sync::none_held) stands where it is called or dropped.

/// A mutex's place in the order, outermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    // Held over whole rounds.
    /// One extension of a lease at a time.
    Extending,
    /// One question for a fencing token at a time.
    Fencing,

    // The guard and the queue within a process.
    /// A guard's place in the local queue.
    Place,
    /// What the leader of a lane reads with; its hooks lock what follows.
    Sources,
    /// What is written on a lane.
    Writer,
    /// A part of the local queues.
    Queue,
    /// What one waiting thread is granted.
    Grant,
    /// The gate of a lease.
    Gate,

    // Services of a client.
    /// The watchdog threads.
    Watchdogs,
    /// The shared watchdog.
    SharedWatchdog,
    /// The threads for callbacks.
    Callbacks,
    /// The caretaker of one lane.
    Caretaker,
    /// The channels and connections of the listener.
    Listener,
    /// What one waiter has heard of releases.
    Wakeup,
    /// A guard's signal of a loss.
    Signal,
    /// The undelivered releases of one master.
    Reaper,
    /// When the address of a master is looked up next.
    LookUp,
    /// How steady the connections to a master are.
    Steadiness,
    /// Why a master cannot be reached.
    LastError,
    /// The run ids of the masters.
    Registry,
    /// The connection pools.
    Pools,
    /// A connection on its way into its pool.
    Parked,

    // Parts of a lane.
    /// What is queued on a lane.
    Inbox,
    /// Who leads a lane.
    Leader,
    /// A lane's connection to one master.
    Link,
    /// The answers to one request.
    Round,

    // What everything uses.
    /// What is due on a timer.
    Timer,
    /// How late the timers were when it was logged last.
    Lateness,
    /// What wakes a timer's thread, where the system has no timer descriptors.
    #[cfg(not(all(target_os = "linux", not(redleash_portable))))]
    Alarm,
    /// What a thread waits for that pauses.
    Pulse,
    /// The count of the background threads.
    Threads,
    /// The lines for the logger.
    Journal,
}
