//! The protocol as Stateright sees it.

use super::actions::{self, Action};
use super::config::{Config, Witness};
use super::rules::Promise;
use super::state::{Client, History, Link, MASTERS, Master, Server, Spent, State};
use stateright::{Model, Property};
use std::sync::atomic::{AtomicBool, Ordering};

/// The protocol under one configuration.
#[derive(Debug)]
pub struct Protocol {
    /// The configuration.
    pub config: Config,
    /// Whether a broken promise was found. The checker goes on for a while and would keep the last one, but the first
    /// one has the shortest trace.
    found: AtomicBool,
}

impl Protocol {
    /// The protocol under `config`.
    pub fn new(config: Config) -> Protocol {
        Protocol { config, found: AtomicBool::new(false) }
    }

    /// Lets the checker walk the ways to what it found.
    pub fn reopen(&self) {
        self.found.store(false, Ordering::Relaxed);
    }

    /// The state after `action`, the masters in their places.
    pub fn after(&self, state: &State, action: Action) -> State {
        let mut next = *state;
        actions::apply(&self.config, &mut next, action);
        actions::watch(&self.config, &mut next);
        actions::tidy(&self.config, &mut next);
        next
    }

    fn is_broken(&self, state: &State, promise: Promise) -> bool {
        state.history.broken == Some(promise) && !self.found.swap(true, Ordering::Relaxed)
    }
}

/// Sorts the masters, so that states that differ only in the names of the masters are one state. Two names of one
/// server are not interchangeable.
pub fn sorted(config: &Config, mut state: State) -> State {
    if !config.alias {
        state.masters.sort_unstable();
    }
    state
}

/// The state in which everything begins.
pub fn first(config: &Config) -> State {
    let server = Server { generation: 1, generations: 1, own_run: true, ..Server::default() };
    let link = Link { cached: config.cached.into(), ..Link::default() };
    let mut masters = [Master { server, links: [link; 2] }; MASTERS];
    if config.quarantined {
        // It lost its memory before, and a third client has begun a new generation. A's connection has cached the old
        // one.
        let Master { server, links } = &mut masters[2];
        (server.generation, server.generations, server.ready) = (2, 2, 1);
        links[1].cached = 0;
    }
    let (clients, spent, history) = ([Client::default(); 2], Spent::default(), History::default());
    sorted(config, State { now: 0, masters, clients, spent, history })
}

fn witnessed(witness: Witness, state: &State) -> bool {
    let History { holds, tokens, extended, .. } = state.history;
    match witness {
        Witness::Held => holds > 0,
        Witness::HeldTwice => holds > 1,
        Witness::Extended => extended,
        Witness::TwoTokens => tokens.iter().filter(|token| **token > 0).count() > 1,
    }
}

/// The name of the property that the lock is held sometimes.
pub const HELD: &str = "held";
/// The name of the property that the configuration's witness is seen.
pub const WITNESS: &str = "witness";

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![first(&self.config)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if !self.found.load(Ordering::Relaxed) {
            actions::actions(&self.config, state, actions);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        Some(sorted(&self.config, self.after(state, action)))
    }

    fn properties(&self) -> Vec<Property<Protocol>> {
        vec![
            Property::always(Promise::Exclusion.name(), |p: &Protocol, s| !p.is_broken(s, Promise::Exclusion)),
            Property::always(Promise::Continuity.name(), |p: &Protocol, s| !p.is_broken(s, Promise::Continuity)),
            Property::always(Promise::TokenOrder.name(), |p: &Protocol, s| !p.is_broken(s, Promise::TokenOrder)),
            Property::always(Promise::Servers.name(), |p: &Protocol, s| !p.is_broken(s, Promise::Servers)),
            Property::always(Promise::HandOver.name(), |p: &Protocol, s| !p.is_broken(s, Promise::HandOver)),
            Property::always(Promise::Tidiness.name(), |p: &Protocol, s| !p.is_broken(s, Promise::Tidiness)),
            Property::sometimes(HELD, |_, s| witnessed(Witness::Held, s)),
            Property::sometimes(WITNESS, |p: &Protocol, s| witnessed(p.config.witness, s)),
        ]
    }
}
