//! A window per flow: at most so many packets without an acknowledgement.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::Time;

use super::{Control, Mark};
use crate::facts::Severity;

/// A window of fixed size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StaticWindow {
    /// Packets of a flow that may be without an acknowledgement at a time.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub packets: u16,
}

impl Default for StaticWindow {
    fn default() -> Self {
        Self { packets: 1 }
    }
}

/// What reactions with windows keep of a flow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WindowState {
    /// Packets sent and not acknowledged.
    pub outstanding: u16,
    /// Packets that may be so.
    pub window: u16,
    /// How hard it is held back besides, in the reaction's own terms.
    pub level: u32,
    /// How often `level` was raised since it was zero.
    pub raises: u8,
    /// When the last packet's tail left the host.
    pub last_end: Time,
    pub last_size: u32,
}

impl WindowState {
    pub fn new(window: u16) -> Self {
        Self { outstanding: 0, window, level: 0, raises: 0, last_end: Time::ZERO, last_size: 0 }
    }

    /// Whether one more packet may be sent as far as the window goes.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.outstanding < self.window
    }

    #[inline]
    pub fn sent(&mut self, end: Time, size: u32) {
        self.outstanding += 1;
        (self.last_end, self.last_size) = (end, size);
    }

    pub fn acknowledged(&mut self) {
        self.outstanding = self.outstanding.saturating_sub(1);
    }
}

/// The rule of one host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WindowRule(pub u16);

impl Control for WindowRule {
    type State = WindowState;

    fn counts_answers(&self) -> bool {
        true
    }

    fn fresh(&self, _sl: u8) -> WindowState {
        WindowState::new(self.0)
    }

    fn eligible_at(&self, state: &WindowState, _sl: u8, now: Time) -> Option<Time> {
        state.is_open().then_some(now)
    }

    fn sent(&self, state: &mut WindowState, end: Time, size: u32) {
        state.sent(end, size);
    }

    fn answered(&self, state: &mut WindowState, _sl: u8, _answer: (Mark, Severity), _now: Time) {
        state.acknowledged();
    }

    fn is_fresh(&self, state: &WindowState, _sl: u8, _now: Time) -> bool {
        state.outstanding == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_closes_when_full_and_opens_with_an_acknowledgement() {
        let mut state = WindowState::new(2);
        state.sent(Time(1), 10);
        assert!(state.is_open());
        state.sent(Time(2), 10);
        assert!(!state.is_open());
        state.acknowledged();
        assert!(state.is_open());
    }
}
