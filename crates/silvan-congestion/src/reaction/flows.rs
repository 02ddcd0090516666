//! The states that a reaction stores for the flows of one host. Their type is that of the rule, so a state cannot be
//! used with another rule.

use std::sync::Arc;

use silvan_engine::Time;
use silvan_engine::cache::prefetch_lines;
use silvan_engine::saved::Saved;

use super::destinations::{AmongPorts, Destinations};
use super::{ReactionRule, StateLevel};

/// A flow and its service level.
#[derive(Debug, Clone, Copy)]
pub struct FlowRef {
    /// Index in the table of the host's flows.
    pub flow: u32,
    /// Service level.
    pub sl: u8,
}

/// Number of service levels of a host.
const LEVELS: u8 = 16;

/// A rule with the states of a host's flows.
#[derive(Debug, Saved)]
pub struct Flows<R: ReactionRule> {
    #[saved(constant)]
    pub rule: R,
    /// States by flow or by service level.
    states: Vec<R::State>,
    /// Present if states belong to destinations, which is possible only with [`ReactionRule::HAS_DESTINATIONS`].
    shared: Option<Box<SharedStates<R::State>>>,
}

/// States that flows to the same destination share, also flows of other ports of the host.
#[derive(Debug, Saved)]
struct SharedStates<S: Saved> {
    destinations: Destinations,
    /// States by the numbers of [`Destinations`].
    states: AmongPorts<Vec<S>>,
}

impl<R: ReactionRule> Flows<R> {
    pub fn new(rule: R) -> Self {
        let states = match rule.level() {
            StateLevel::Flow | StateLevel::Destination => Vec::new(),
            StateLevel::ServiceLevel => (0..LEVELS).map(|sl| rule.fresh(sl)).collect(),
        };
        let shares = rule.level() == StateLevel::Destination;
        let shared = || {
            Box::new(SharedStates { destinations: Destinations::default(), states: AmongPorts::default() })
        };
        Self { rule, states, shared: shares.then(shared) }
    }

    #[inline(always)]
    fn index(&self, of: FlowRef) -> usize {
        match self.rule.level() {
            StateLevel::ServiceLevel => usize::from(of.sl),
            StateLevel::Flow | StateLevel::Destination => of.flow as usize,
        }
    }

    /// Reads the state of a flow.
    #[inline(always)]
    pub fn of<T>(&self, of: FlowRef, read: impl FnOnce(&R, &R::State) -> T) -> T {
        match &self.shared {
            Some(shared) if R::HAS_DESTINATIONS => {
                let number = shared.destinations.of_flow(of.flow);
                shared.states.with(|states| read(&self.rule, &states[number as usize]))
            }
            _ => read(&self.rule, &self.states[self.index(of)]),
        }
    }

    /// Changes the state of a flow.
    #[inline(always)]
    pub fn of_mut<T>(&mut self, of: FlowRef, change: impl FnOnce(&R, &mut R::State) -> T) -> T {
        let index = self.index(of);
        match &self.shared {
            Some(shared) if R::HAS_DESTINATIONS => {
                let number = shared.destinations.of_flow(of.flow);
                shared.states.with(|states| change(&self.rule, &mut states[number as usize]))
            }
            _ => change(&self.rule, &mut self.states[index]),
        }
    }

    /// Reads the state that a flow to a host would have if it began now.
    pub fn before_begin<T>(&self, sl: u8, destination: u32, read: impl FnOnce(&R, &R::State) -> T) -> T {
        let shared = self.shared.as_ref();
        match shared.and_then(|shared| Some((shared, shared.destinations.number(destination)?))) {
            Some((shared, number)) => shared.states.with(|states| read(&self.rule, &states[number as usize])),
            None => read(&self.rule, &self.rule.fresh(sl)),
        }
    }

    /// Starts a flow to a host with the state of a fresh flow, or with that of the destination. Its index is the next unused
    /// one or that of an earlier flow. Has no effect if states belong to service levels.
    #[inline]
    pub fn begin(&mut self, of: FlowRef, destination: u32) {
        if self.rule.level() == StateLevel::ServiceLevel {
            return;
        }
        if let Some(shared) = &mut self.shared {
            let number = shared.destinations.begin(of.flow, destination) as usize;
            return shared.states.with(|states| {
                // A new destination has the number after the last one.
                if number == states.len() {
                    states.push(self.rule.fresh(of.sl));
                }
            });
        }
        let fresh = self.rule.fresh(of.sl);
        match self.states.get_mut(of.flow as usize) {
            Some(state) => *state = fresh,
            // A new flow has the index after the last one.
            None => self.states.push(fresh),
        }
    }

    /// Shares the states with another port of the host. Has no effect unless states belong to destinations.
    pub fn share_with(&mut self, other: &Self) {
        if let (Some(own), Some(other)) = (&mut self.shared, &other.shared) {
            own.states = other.states.share();
            own.destinations.share_with(&other.destinations);
        }
    }

    /// The destinations, if states belong to them.
    #[inline]
    pub fn destinations(&self) -> Option<&Destinations> {
        self.shared.as_ref().filter(|_| R::HAS_DESTINATIONS).map(|shared| &shared.destinations)
    }

    /// See [`Destinations::set_hosts`].
    pub fn set_hosts(&mut self, host_of: Arc<[u32]>) {
        if let Some(shared) = &mut self.shared {
            shared.destinations.set_hosts(host_of);
        }
    }

    /// The time of the next timer of a flow, if any. States of destinations have no timers.
    #[inline]
    pub fn next_timer(&self, of: FlowRef) -> Option<Time> {
        // Unlike an index expression, `get` cannot panic, so the compiler can remove it for rules without timers.
        self.states.get(self.index(of)).and_then(|state| self.rule.next_timer(state))
    }

    #[inline]
    pub fn prefetch(&self, flow: u32) {
        prefetch_lines::<_, 4>(&self.states, flow as usize);
    }
}
