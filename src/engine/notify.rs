//! Notifying waiters in other processes of a lock that was released here.

use super::chores::{Chore, Chores};
use super::masters::{Masters, nobody};
use super::queue::Queues;
use crate::protocol::wakeup::LATE;
use crate::protocol::{Command, Keys, Operation};
use crate::sys::clock;
use crate::wire::request::Request;
use std::sync::Arc;

/// See the module.
pub(crate) struct Notifier {
    masters: Arc<Masters>,
    chores: Arc<Chores>,
    queues: Arc<Queues>,
}

impl Notifier {
    pub(crate) fn new(masters: Arc<Masters>, chores: Arc<Chores>, queues: Arc<Queues>) -> Notifier {
        Notifier { masters, chores, queues }
    }

    /// The release `request` found that others wait elsewhere, and has notified one of them or not.
    pub(crate) fn waiters_elsewhere(&self, request: &Request, notified: bool) {
        let (now, keys) = (clock::now(), &request.command.keys);
        if self.queues.others_wait(&keys.name, now, notified.then(|| request.made.unwrap_or(now))) {
            let waiter = if let Operation::Release { tell: Some(tell), .. } = request.command.operation {
                tell.waiter
            } else {
                0
            };
            self.chores.enter(now.plus(LATE), Chore::Notify(keys.clone(), waiter));
        }
    }

    /// Notifies them if the lock was not taken here again, on the thread of the chores.
    pub(crate) fn due(&self, keys: Arc<Keys>, waiter: u64) {
        let now = clock::now();
        let Some(at) = self.queues.tell_when(&keys.name, now) else { return };
        if at > now {
            self.chores.enter(at, Chore::Notify(keys, waiter));
        } else {
            self.notify(keys, waiter);
        }
    }

    /// Notifies them, without waiting for an answer.
    fn notify(&self, keys: Arc<Keys>, waiter: u64) {
        let command = Command { keys, owner: nobody(), operation: Operation::Tell(waiter), nonce: 0 };
        self.masters.post(command, self.masters.settings.quorum.all());
    }

    /// Closes the local queues, and sends the notifications that were still due.
    pub(crate) fn close(&self) {
        for (name, waiter) in self.queues.close() {
            if let Ok(keys) = self.masters.settings.namespace.keys(&name) {
                self.notify(Arc::new(keys), waiter);
            }
        }
    }
}
