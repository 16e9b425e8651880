//! The faults, and how the world is healed before the last phase.

use super::clock::Time;
use super::plan::{Fault, MS};
use super::state::{Event, World};
use redleash::unversioned::Request;
use redleash_protocol::Operation;

impl Fault {
    /// Its name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Fault::LostRequests => "fault: requests lost",
            Fault::LostReplies => "fault: replies lost",
            Fault::Break => "fault: connection broken",
            Fault::Delay => "fault: slow network",
            Fault::Partition => "fault: partition",
            Fault::Stop => "fault: master stopped",
            Fault::RestartEmpty => "fault: restart without data",
            Fault::RestartOld => "fault: restart from an old snapshot",
            Fault::RestartAll => "fault: restart with all data",
            Fault::Flush => "fault: FLUSHALL",
            Fault::ScriptFlush => "fault: SCRIPT FLUSH",
            Fault::ResyncForeign => "fault: data of another master's replica",
            Fault::Pause => "fault: client paused",
            Fault::Crash => "fault: client crashed",
            Fault::Slew => "fault: clock slewed within the drift",
            Fault::ClockStep => "fault: clock stepped",
            Fault::Evict => "fault: key evicted",
            Fault::ResyncOwn => "fault: data of an old replica of its own",
            Fault::FailBack => "fault: failed over and back",
            Fault::SlewBeyond => "fault: clock slewed beyond the drift",
            Fault::ForceRelease => "fault: released by force",
            Fault::ForceReleaseNow => "fault: deleted by force",
            Fault::Init => "fault: init once more",
        }
    }
}

impl World<'_> {
    pub(crate) fn fault(&mut self, fault: Fault) {
        let ttl = self.plan.ttl.as_nanos() as Time;
        let server = self.rng.below(self.servers.len() as u64) as usize;
        let client = self.rng.below(self.clients.len() as u64) as usize;
        let name = self.rng.below(self.plan.servers.len() as u64) as usize;
        let liar = self.plan.servers[self.plan.liar];
        self.checks.count(fault.name());
        self.note(|| format!("{} (server {server}, client {client}, liar {liar})", fault.name()));
        match fault {
            Fault::LostRequests | Fault::LostReplies => {
                if let Some(conn) = self.any_connection() {
                    self.cut_off(conn, fault == Fault::LostRequests);
                }
            }
            Fault::Break => {
                if let Some(conn) = self.any_connection() {
                    self.disconnect(conn, false);
                }
            }
            Fault::Delay => self.slow_until = self.now + self.rng.below(2 * ttl),
            Fault::Partition => {
                let until = self.now + self.rng.below(3 * ttl);
                self.cut.insert((client, name), until);
                self.at(until, Event::Heal(client, name));
            }
            Fault::Stop => {
                let until = self.now + self.rng.below(2 * ttl);
                let server = &mut self.servers[server];
                server.stopped_until = server.stopped_until.max(until);
            }
            Fault::RestartEmpty | Fault::RestartOld | Fault::RestartAll => {
                for server in self.struck(server) {
                    self.restart(server, fault);
                }
            }
            Fault::Flush => {
                self.checks.flushed_at = self.now;
                for server in self.struck(server) {
                    self.servers[server].keys = Default::default();
                }
            }
            Fault::ScriptFlush => {
                let (lua, now) = (self.lua(), self.now);
                self.servers[server].run(&[b"SCRIPT", b"FLUSH"], lua, now);
            }
            Fault::ResyncForeign => {
                let other = self.rng.below(self.servers.len() as u64) as usize;
                // A replica of its own would carry its own generation.
                if self.plan.inits && !self.struck(server).contains(&server) {
                    return;
                }
                let data = if other == server { Default::default() } else { self.servers[other].keys.clone() };
                self.servers[server].keys = data;
            }
            Fault::Pause => {
                let until = self.now + self.rng.below(2 * ttl);
                let client = &mut self.clients[client];
                client.paused_until = client.paused_until.max(until);
            }
            Fault::Crash => {
                if self.survivors() > 1 {
                    self.crash(client);
                }
            }
            Fault::Slew => {
                let ppm = self.rng.around(self.plan.rate);
                let now = self.now;
                self.servers[server].clock.slew(ppm, now);
            }
            Fault::ClockStep => {
                let by = self.rng.pick(&[self.plan.ttl.as_micros() as i64 * 2, 100_000_000, -100_000_000, -3_000_000]);
                let now = self.now;
                self.servers[liar].clock.step(by, now);
            }
            Fault::SlewBeyond => {
                let ppm = self.rng.pick(&[500_000, 83_333, -200_000]);
                let now = self.now;
                self.servers[liar].clock.slew(ppm, now);
            }
            Fault::Evict => {
                let names = self.servers[liar].keys.names();
                if !names.is_empty() {
                    let k = self.rng.below(names.len() as u64) as usize;
                    self.servers[liar].keys.evict(&names[k]);
                }
            }
            Fault::ResyncOwn => {
                if let Some(copy) = self.servers[liar].copy.clone() {
                    self.servers[liar].keys = copy;
                }
                if self.rng.chance(50) {
                    self.snapshot(liar);
                }
            }
            Fault::FailBack => {
                for server in self.struck(server) {
                    let data = self.servers[server].copy.clone().unwrap_or_default();
                    let replid = format!("{:016x}{:024x}", self.rng.bits(), 0);
                    self.servers[server].fail_back(data, replid);
                }
            }
            Fault::Init if self.plan.misfit == Some(client) => {}
            Fault::Init => self.at(self.now, Event::Init(client)),
            Fault::ForceRelease | Fault::ForceReleaseNow => self.force(client, fault == Fault::ForceReleaseNow),
        }
    }

    /// Some faults strike several servers at once, as a power cut does.
    fn struck(&mut self, server: usize) -> Vec<usize> {
        if self.plan.inits {
            return (0..self.plan.quorum.votes() - 1).take(1).collect();
        }
        if self.rng.chance(70) {
            return vec![server];
        }
        (0..self.servers.len()).filter(|s| *s == server || self.rng.chance(60)).collect()
    }

    pub(crate) fn snapshot(&mut self, server: usize) {
        let keys = self.servers[server].keys.clone();
        self.servers[server].copy = Some(keys);
    }

    fn restart(&mut self, server: usize, fault: Fault) {
        let data = match fault {
            Fault::RestartEmpty => Default::default(),
            Fault::RestartOld => self.servers[server].copy.clone().unwrap_or_default(),
            _ => self.servers[server].keys.clone(),
        };
        let run_id = format!("{:016x}{:023x}{server:x}", self.rng.bits(), 0);
        self.servers[server].restart(data, run_id);
        let down = self.rng.below(self.plan.ttl.as_nanos() as Time);
        let until = self.now + down / 4;
        let restarted = &mut self.servers[server];
        restarted.stopped_until = restarted.stopped_until.max(until);
        self.reset(server);
    }

    fn force(&mut self, client: usize, now: bool) {
        if !self.clients[client].alive || self.plan.misfit == Some(client) {
            return;
        }
        let name = self.rng.below(self.plan.names as u64) as usize;
        if now {
            self.checks.forced[name] = true;
        }
        let command = self.nobodys(name, Operation::Revoke { now });
        let request = Request::new(command, self.plan.quorum, self.plan.quorum.all(), false);
        self.post(client, request);
    }

    /// No faults any more: from here on everybody must get the lock.
    pub(crate) fn calm_down(&mut self) {
        if self.calm {
            // The second time: the patience is over.
            return self.impatient();
        }
        self.note(|| "the last phase: no faults any more".into());
        (self.calm, self.slow_until) = (true, 0);
        self.cut.clear();
        let now = self.now;
        for conn in 0..self.connections.len() {
            if self.connections[conn].open && self.connections[conn].is_dead() {
                self.after(MS, Event::Closed(conn));
            }
        }
        for c in 0..self.clients.len() {
            for w in 0..self.clients[c].workers.len() {
                self.at(now, Event::Step(c, w));
            }
        }
        let patience = self.patience();
        self.after(patience, Event::Calm);
    }

    fn impatient(&mut self) {
        if self.liveness_is_claimed() {
            self.violated(|| "somebody has not got the lock long after the last fault".into());
        } else {
            self.checks.count("histories without an end");
            self.enough = true;
        }
    }

    /// A master whose clock was stepped back may keep a dead lock for long; of two names of one server one votes; and
    /// masters that a misfit has begun to use are its own.
    fn liveness_is_claimed(&self) -> bool {
        let lies = [Fault::ClockStep, Fault::SlewBeyond];
        let mut servers = self.plan.servers.clone();
        servers.sort_unstable();
        servers.dedup();
        !self.plan.faults.iter().any(|(_, f)| lies.contains(f))
            && servers.len() >= self.plan.quorum.votes()
            && self.plan.misfit.is_none()
    }
}
