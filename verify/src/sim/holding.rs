//! What happens to a held lease: extensions, questions for tokens, its loss.

use super::state::{Event, Then, World};
use redleash::unversioned::Request;
use redleash_protocol::command::Renewal;
use redleash_protocol::fence::{Settling, settle};
use redleash_protocol::lease::{Extended, Extension};
use redleash_protocol::validity::renewal_timeout;
use redleash_protocol::{Command, LeaseState, LossReason, Mono, Operation, Round};
use std::sync::Arc;
use std::time::Duration;

impl World<'_> {
    /// A command about a held lease.
    pub(crate) fn command(&mut self, hold: usize, operation: Operation) -> Command {
        let nonce = self.rng.bits();
        let held = &self.holds[hold];
        Command { keys: self.keys[held.name].clone(), owner: held.owner.clone(), operation, nonce }
    }

    /// Extends a lease by one round that asks for `ttl`; for a worker, or for the watchdog.
    pub(crate) fn extend(&mut self, hold: usize, ttl: Duration, worker: Option<usize>) {
        if self.holds[hold].extending {
            return;
        }
        let (c, terms) = (self.holds[hold].client, self.holds[hold].terms);
        let px_ms = terms.px_ms(ttl);
        let command = self.command(hold, Operation::extend(px_ms, self.plan.quarantine));
        let request = self.round_of(command);
        let start = self.mono(c);
        let held = &mut self.holds[hold];
        let Some(extension) = held.lease.begin_extension(start, ttl) else {
            return self.carry_on(c, worker);
        };
        held.extending = true;
        let limit = if worker.is_some() { self.round_timeout(terms.ttl) } else { renewal_timeout(terms.ttl, None) };
        let deadline = start.plus(limit).min(self.holds[hold].lease.until());
        let secret = self.holds[hold].owner.secret_hex().to_string();
        self.checks.life(&secret, px_ms);
        self.ask(c, request, deadline, Then::Extend { worker, hold, extension });
    }

    fn carry_on(&mut self, c: usize, worker: Option<usize>) {
        if let Some(w) = worker {
            self.clients[c].workers[w].busy_no_more();
            self.after(0, Event::Step(c, w));
        }
    }

    /// Renews a lease together with others of its client by one script, as the shared watchdog does.
    pub(crate) fn extend_many(&mut self, hold: usize) {
        let c = self.holds[hold].client;
        let start = self.mono(c);
        let mut begun = Vec::new();
        for other in 0..self.holds.len() {
            let held = &mut self.holds[other];
            let together = other == hold || (held.terms.renew && self.rng.chance(30));
            if held.client != c || held.over || held.extending || !together {
                continue;
            }
            if let Some(extension) = held.lease.begin_extension(start, held.terms.ttl) {
                held.extending = true;
                begun.push((other, extension));
            }
        }
        let Some((first, _)) = begun.first().copied() else { return };
        let renewal = |(hold, _): &(usize, Extension)| {
            let held = &self.holds[*hold];
            let (keys, px_ms) = (self.keys[held.name].clone(), held.terms.px_ms(held.terms.ttl));
            Renewal { keys, owner: held.owner.clone(), px_ms }
        };
        let leases: Arc<[Renewal]> = begun.iter().map(renewal).collect();
        if begun.len() > 1 {
            self.checks.count("renewals of several leases at once");
        }
        let limit =
            begun.iter().map(|(h, _)| renewal_timeout(self.holds[*h].terms.ttl, None)).min().unwrap_or_default();
        let earliest = begun.iter().map(|(h, _)| self.holds[*h].lease.until()).min().unwrap_or(Mono::NEVER);
        let command = self.command(first, Operation::extend_many(leases, self.plan.quarantine));
        let request = self.round_of(command);
        self.ask(c, request, start.plus(limit).min(earliest), Then::ExtendMany { leases: begun });
    }

    /// The round of many extensions is over.
    pub(crate) fn extended_many(&mut self, request: &Request, leases: Vec<(usize, Extension)>) {
        let quarantine = self.plan.quarantine;
        let parts = request.look(|r| r.parts(leases.len()));
        request.look(|r| r.close());
        for ((hold, extension), part) in leases.into_iter().zip(parts) {
            self.conclude(hold, extension, &part, quarantine);
        }
    }

    /// The round of an extension is over.
    pub(crate) fn extended(&mut self, request: &Request, worker: Option<usize>, hold: usize, extension: Extension) {
        let quarantine = self.plan.quarantine;
        let round = request.look(|r| r.clone());
        let came = self.conclude(hold, extension, &round, quarantine);
        if came == Extended::Yes {
            self.holds[hold].request = request.clone();
        } else {
            request.look(|r| r.close());
        }
        self.carry_on(self.holds[hold].client, worker);
    }

    fn conclude(&mut self, hold: usize, extension: Extension, round: &Round, quarantine: bool) -> Extended {
        let c = self.holds[hold].client;
        let (now, random) = (self.mono(c), self.rng.bits());
        self.look_at(hold);
        let held = &mut self.holds[hold];
        held.extending = false;
        let came = held.lease.conclude(extension, round.reached(), round.against(quarantine), now, || random);
        self.note(|| format!("client {c}: extension of hold {hold}: {came:?}"));
        match came {
            Extended::Yes => {
                self.holds[hold].votes = round.yes_mask();
                self.checks.count("extensions");
                self.prolonged(hold, extension.start);
                self.replan(hold);
            }
            Extended::Over => {}
            Extended::Lost(reason) => self.lose(hold, reason),
            Extended::Failed => {
                self.checks.count("extensions that failed");
                self.replan(hold);
            }
        }
        self.look_at(hold);
        came
    }

    /// A lease is lost at once, and the loss is announced.
    pub(crate) fn lose(&mut self, hold: usize, reason: LossReason) {
        self.checks.count(match reason {
            LossReason::Taken => "leases lost to another value",
            LossReason::KeyAbsent => "leases lost with their keys",
            _ => "leases lost at their deadline",
        });
        self.leave_place(hold);
        let held = &mut self.holds[hold];
        if held.lease.lose(reason) {
            held.announced = true;
        }
        // The loss has been announced.
        held.seen_lost = true;
        self.look_at(hold);
    }

    /// The place in the local queue of a lease that is over goes to the next.
    pub(crate) fn leave_place(&mut self, hold: usize) {
        if std::mem::take(&mut self.holds[hold].place) {
            let (c, name) = (self.holds[hold].client, self.holds[hold].name);
            self.give_up_place(c, name);
        }
    }

    /// Asks for a fencing token, unless it is known.
    pub(crate) fn ask_fence(&mut self, c: usize, w: usize, hold: usize) {
        let asked = self.mono(c);
        let live = matches!(self.holds[hold].lease.state(asked), LeaseState::Held | LeaseState::Jeopardy);
        if !live || self.holds[hold].fence.is_some() {
            return self.carry_on(c, Some(w));
        }
        self.lie_in_wait_for_fence(c);
        let until = self.holds[hold].lease.until();
        let command = self.command(hold, Operation::Fence);
        let request = self.round_of(command);
        let deadline = asked.plus(self.round_timeout(self.holds[hold].terms.ttl)).min(until);
        self.clients[c].workers[w].busy_now();
        self.ask(c, request, deadline, Then::Fence { worker: w, hold, until });
    }

    /// The round of a question for a token is over.
    pub(crate) fn fenced(&mut self, w: usize, request: &Request, hold: usize, until: Mono) {
        let c = self.holds[hold].client;
        let now = self.mono(c);
        let (counters, reached, taken) = request.look(|r| (r.counters(), r.reached(), r.taken()));
        if !matches!(self.holds[hold].lease.state(now), LeaseState::Held | LeaseState::Jeopardy) {
            return self.carry_on(c, Some(w));
        }
        if taken {
            self.lose(hold, LossReason::Taken);
            return self.carry_on(c, Some(w));
        }
        if !reached {
            return self.carry_on(c, Some(w));
        }
        match settle(self.plan.quorum, &counters, now, until) {
            Settling::WriteBack(token) => {
                self.checks.count("tokens written back");
                let limit = self.round_timeout(self.holds[hold].terms.ttl);
                let command = self.command(hold, Operation::WriteBack(token));
                let request = self.round_of(command);
                self.ask(c, request, now.plus(limit).min(until), Then::FenceBack { worker: w, hold, token, until });
            }
            settling => self.settled(c, w, hold, settling),
        }
    }

    /// A question for a token has come to an end.
    pub(crate) fn settled(&mut self, c: usize, w: usize, hold: usize, settling: Settling) {
        if let Settling::Token(token) = settling {
            self.checks.count("tokens on demand");
            self.fence_known(hold, token);
        }
        self.carry_on(c, Some(w));
    }
}
