//! The states that a reaction stores for the flows of one host. Their type is that of the rule, so a state cannot be
//! used with another rule.

use silvan_engine::Time;
use silvan_engine::cache::prefetch_lines;

use super::{ControlLevel, ReactionRule};
use crate::facts::{Answer, Grant, Lost, Next, Queued, Sent};

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
#[derive(Debug)]
pub struct Flows<R: ReactionRule> {
    rule: R,
    /// States by flow or by service level.
    states: Vec<R::State>,
}

/// The methods of [`ReactionRule`].
impl<R: ReactionRule> Flows<R> {
    pub fn new(rule: R) -> Self {
        let states = match rule.level() {
            ControlLevel::Qp => Vec::new(),
            ControlLevel::Sl => (0..LEVELS).map(|sl| rule.fresh(sl)).collect(),
        };
        Self { rule, states }
    }

    #[inline]
    pub fn level(&self) -> ControlLevel {
        self.rule.level()
    }

    #[inline]
    pub fn has_targets(&self) -> bool {
        self.rule.has_targets()
    }

    #[inline]
    pub fn counts_answers(&self) -> bool {
        self.rule.counts_answers()
    }

    #[inline(always)]
    fn index(&self, of: FlowRef) -> usize {
        match self.rule.level() {
            ControlLevel::Qp => of.flow as usize,
            ControlLevel::Sl => usize::from(of.sl),
        }
    }

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

    #[inline(always)]
    pub fn may_send_at(&self, of: FlowRef, next: &Next) -> Option<Time> {
        self.rule.may_send_at(&self.states[self.index(of)], of.sl, next)
    }

    #[inline]
    pub fn sent(&mut self, of: FlowRef, sent: &Sent) {
        let index = self.index(of);
        self.rule.sent(&mut self.states[index], sent);
    }

    pub fn answered(&mut self, of: FlowRef, answer: &Answer) {
        let index = self.index(of);
        self.rule.answered(&mut self.states[index], of.sl, answer);
    }

    pub fn granted(&mut self, of: FlowRef, grant: &Grant) {
        let index = self.index(of);
        self.rule.granted(&mut self.states[index], grant);
    }

    pub fn lost(&mut self, of: FlowRef, lost: &Lost) -> u32 {
        let index = self.index(of);
        self.rule.lost(&mut self.states[index], lost)
    }

    #[inline]
    pub fn request(&mut self, of: FlowRef, queued: &Queued) -> u32 {
        let index = self.index(of);
        self.rule.request(&mut self.states[index], queued)
    }

    #[inline]
    pub fn target(&self, of: FlowRef, next: &Next, sharing: u32) -> Option<u32> {
        self.rule.target(&self.states[self.index(of)], next, sharing)
    }

    #[inline]
    pub fn restarted(&mut self, of: FlowRef) {
        let index = self.index(of);
        self.rule.restarted(&mut self.states[index]);
    }

    #[inline]
    pub fn next_timer(&self, of: FlowRef) -> Option<Time> {
        // The compiler can remove this check for rules without timers, because it cannot panic.
        self.states.get(self.index(of)).and_then(|state| self.rule.next_timer(state))
    }

    pub fn timer(&mut self, of: FlowRef, now: Time) {
        let index = self.index(of);
        self.rule.timer(&mut self.states[index], now);
    }

    pub fn is_fresh(&self, of: FlowRef, now: Time) -> bool {
        self.rule.is_fresh(&self.states[self.index(of)], of.sl, now)
    }

    pub fn strength(&self, of: FlowRef, now: Time) -> u16 {
        self.rule.strength(&self.states[self.index(of)], of.sl, now)
    }

    pub fn trigger(&self, sl: u8) -> u16 {
        self.rule.trigger(sl)
    }

    pub fn fresh_strength(&self, sl: u8, now: Time) -> u16 {
        self.rule.strength(&self.rule.fresh(sl), sl, now)
    }

    #[inline]
    pub fn prefetch(&self, flow: u32) {
        prefetch_lines::<_, 4>(&self.states, flow as usize);
    }
}
