//! The states that a reaction stores for the flows of one host. Their type is that of the rule, so a state cannot be
//! used with another rule.

use silvan_engine::Time;
use silvan_engine::cache::prefetch_lines;
use silvan_engine::saved::Saved;

use super::{ControlLevel, ReactionRule};

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
}

impl<R: ReactionRule> Flows<R> {
    pub fn new(rule: R) -> Self {
        let states = match rule.level() {
            ControlLevel::Qp => Vec::new(),
            ControlLevel::Sl => (0..LEVELS).map(|sl| rule.fresh(sl)).collect(),
        };
        Self { rule, states }
    }

    #[inline(always)]
    fn index(&self, of: FlowRef) -> usize {
        match self.rule.level() {
            ControlLevel::Qp => of.flow as usize,
            ControlLevel::Sl => usize::from(of.sl),
        }
    }

    /// The rule, and the state of a flow.
    #[inline(always)]
    pub fn of(&self, of: FlowRef) -> (&R, &R::State) {
        (&self.rule, &self.states[self.index(of)])
    }

    /// See [`Self::of`].
    #[inline(always)]
    pub fn of_mut(&mut self, of: FlowRef) -> (&R, &mut R::State) {
        let index = self.index(of);
        (&self.rule, &mut self.states[index])
    }

    /// Starts a flow with the state of a fresh flow. Its index is the next unused one or that of an earlier
    /// flow. Has no effect if states belong to service levels.
    #[inline]
    pub fn begin(&mut self, of: FlowRef) {
        if self.rule.level() == ControlLevel::Sl {
            return;
        }
        let fresh = self.rule.fresh(of.sl);
        match self.states.get_mut(of.flow as usize) {
            Some(state) => *state = fresh,
            // A new flow has the index after the last one.
            None => self.states.push(fresh),
        }
    }

    /// The time of the next timer of a flow, if any.
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
