//! Notifying waiters in other processes of a lock that was released here.

use super::chores::{Chore, Chores};
use super::masters::Masters;
use super::queue::Queues;
use crate::protocol::local_queue::NOTIFY_DELAY;
use crate::protocol::{Keys, Operation};
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
        let Operation::Release { notify: Some(notify), .. } = request.command.operation else { return };
        if self.queues.waiters_elsewhere(&keys.name, now, notified) {
            self.chores.enter(now.plus(NOTIFY_DELAY), Chore::Notify(keys.clone(), notify.waiter));
        }
    }

    /// Notifies them if the lock was not taken here again, on the thread of the chores.
    pub(crate) fn due(&self, keys: Arc<Keys>, waiter: u64) {
        let now = clock::now();
        let Some(at) = self.queues.late_notification(&keys.name, now) else { return };
        if at > now {
            self.chores.enter(at, Chore::Notify(keys, waiter));
        } else {
            self.masters.notify(keys, waiter);
        }
    }

    /// Closes the local queues, and sends the notifications that were still due.
    pub(crate) fn close(&self) {
        for (name, waiter) in self.queues.close() {
            if let Ok(keys) = self.masters.settings.namespace.keys(&name) {
                self.masters.notify(Arc::new(keys), waiter);
            }
        }
    }
}
