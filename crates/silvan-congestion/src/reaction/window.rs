//! A static window per flow: a limit on unacknowledged packets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::Time;
use silvan_engine::saved::Saved;

use super::{ControlLevel, Properties, ReactionParameters, ReactionRule, Source, StateLevel};
use crate::facts::{Answer, Lost, Next, Sent};
use crate::unfit::{Check, Limits, ensure_window};

/// A window of fixed size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StaticWindow {
    /// Maximum number of unacknowledged packets of a flow.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub packets: u16,
    /// Whether a window belongs to a queue pair (flow) or to a service level of a host.
    pub level: ControlLevel,
}

impl Default for StaticWindow {
    fn default() -> Self {
        Self { packets: 1, level: ControlLevel::Qp }
    }
}

impl ReactionParameters for StaticWindow {
    fn properties(&self) -> Properties {
        Properties { reads_marks: false, ..Properties::ACKNOWLEDGED }
    }

    fn check(&self, _limits: &Limits) -> Check {
        ensure_window("packets", Some(self.packets))
    }
}

impl StaticWindow {
    /// Creates the rule of a host.
    pub(super) fn rule(&self, _source: &Source) -> Option<WindowRule> {
        Some(WindowRule { packets: self.packets, level: self.level })
    }
}

/// The state of a flow in reactions that use windows.
#[derive(Debug, Clone, Copy, Saved)]
pub struct WindowState {
    /// Number of packets sent and not acknowledged.
    pub outstanding: u16,
    /// Maximum of `outstanding`.
    pub window: u16,
    /// The number of waiting slots or delays, or the rate, depending on the reaction.
    pub level: u32,
    /// Number of times that `level` was raised since it was zero.
    pub raises: u8,
    /// The time at which the tail of the last packet left the host.
    pub last_end: Time,
    pub last_size: u32,
}

impl WindowState {
    pub fn new(window: u16) -> Self {
        Self { outstanding: 0, window, level: 0, raises: 0, last_end: Time::ZERO, last_size: 0 }
    }

    /// Whether the window allows one more packet to be sent.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.outstanding < self.window
    }

    #[inline]
    pub fn sent(&mut self, sent: &Sent) {
        self.outstanding += 1;
        (self.last_end, self.last_size) = (sent.end, sent.size);
    }

    /// Records that a packet is no longer in flight, because it was acknowledged or lost.
    pub fn acknowledged(&mut self) {
        self.outstanding = self.outstanding.saturating_sub(1);
    }
}

/// The rule of one host.
#[derive(Debug, Clone, Copy)]
pub struct WindowRule {
    packets: u16,
    level: ControlLevel,
}

impl ReactionRule for WindowRule {
    type State = WindowState;

    fn counts_answers(&self) -> bool {
        true
    }

    fn level(&self) -> StateLevel {
        self.level.into()
    }

    fn fresh(&self, _sl: u8) -> WindowState {
        WindowState::new(self.packets)
    }

    fn may_send_at(&self, state: &WindowState, _sl: u8, next: &Next) -> Option<Time> {
        state.is_open().then_some(next.now)
    }

    fn sent(&self, state: &mut WindowState, sent: &Sent) {
        state.sent(sent);
    }

    fn lost(&self, state: &mut WindowState, _lost: &Lost) -> u32 {
        state.acknowledged();
        0
    }

    fn arrived(&self, state: &mut WindowState, _payload: u32) {
        state.acknowledged();
    }

    fn answered(&self, state: &mut WindowState, _sl: u8, _answer: &Answer) {
        state.acknowledged();
    }

    fn is_fresh(&self, state: &WindowState, _sl: u8, _now: Time) -> bool {
        state.outstanding == 0
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::sent;
    use super::*;

    #[test]
    fn a_window_closes_when_full_and_opens_with_an_acknowledgement() {
        let mut state = WindowState::new(2);
        state.sent(&sent(1, 10));
        assert!(state.is_open());
        state.sent(&sent(2, 10));
        assert!(!state.is_open());
        state.acknowledged();
        assert!(state.is_open());
    }
}
