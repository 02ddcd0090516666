//! MVCM's reaction, which first reduces a dynamic window and then inserts waiting slots (MVCM, 4.2 and 4.3, tables 1
//! and 2).
//!
//! ```text
//!  hot acknowledgement   window DWmax .. 2 1   then slots 0 1 k k^2 ..   at most n increases
//!  warm                  window DWmax .. 2 1   and no further
//!  cold                  removes all slots, then window + 1 each
//!  an empty queue        resets both
//! ```
//!
//! A waiting slot lasts for the shortest round trip. Slots pass between the end of a packet and the start of the next
//! one. A queue is empty when no packet waits in it and all sent packets are acknowledged, because the queue keeps
//! packets until then (MVCM, 5.1).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::Time;

use super::{ControlLevel, Properties, ReactionParameters, ReactionRule, Source, StateLevel, WindowState};
use crate::facts::{Answer, Lost, Mark, Next, Sent};
use crate::round_trip::RoundTrip;
use crate::unfit::{Check, Limits, ensure, ensure_time, ensure_window};

/// Parameters of MVCM's reaction. Those not given follow from the network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Mvcm {
    /// Largest window, DWmax; by default the number of packets that fill the shortest round trip.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub window: Option<u16>,
    /// Length of a waiting slot; by default the shortest round trip, `RTTmin`.
    pub slot: Option<Time>,
    /// Factor by which each further hot acknowledgement multiplies the number of slots; by default the largest number
    /// of hosts at a switch, k.
    #[schemars(range(min = 1))]
    pub factor: Option<u16>,
    /// Maximum number of increases of the number of slots; by default the number of stages, n.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub limit: Option<u8>,
    /// Whether `limit` applies. In either case, the slots between two packets last at most one second in
    /// total.
    pub limited: bool,
    /// Whether warm acknowledgements count; if not, they are treated as cold ones.
    pub warm: bool,
    /// Whether a window and its slots belong to a queue pair (flow) or to a service level of a host.
    pub level: ControlLevel,
}

impl Default for Mvcm {
    fn default() -> Self {
        Self {
            window: None,
            slot: None,
            factor: None,
            limit: None,
            limited: true,
            warm: true,
            level: ControlLevel::Qp,
        }
    }
}

impl ReactionParameters for Mvcm {
    fn properties(&self) -> Properties {
        Properties { needs_round_trip: true, ..Properties::ACKNOWLEDGED }
    }

    fn check(&self, _limits: &Limits) -> Check {
        ensure_window("window", self.window)?;
        ensure_time("slot", self.slot)?;
        ensure(self.limit != Some(0), "limit", || {
            "must be at least 1; without waiting slots, use a static-window reaction".to_owned()
        })?;
        ensure(self.limited || self.limit.is_none(), "limit", || {
            "has no effect with limited = false; leave one of them out".to_owned()
        })
    }
}

impl Mvcm {
    /// Creates the rule of a host.
    pub(super) fn rule(&self, source: &Source) -> Option<MvcmRule> {
        let trip = source.round_trip;
        let limit = self.limit.unwrap_or_else(|| trip.map_or(1, |trip| trip.stages.min(255) as u8));
        let radix = trip.map_or(1, |trip| trip.radix);
        Some(MvcmRule {
            window: self.window.unwrap_or_else(|| trip.map_or(1, RoundTrip::packets)),
            slot: self.slot.unwrap_or_else(|| source.shortest_round_trip()),
            factor: self.factor.map_or(radix, u32::from),
            limit: self.limited.then_some(limit),
            warm: self.warm,
            level: self.level,
        })
    }
}

/// The rule of one host.
#[derive(Debug, Clone, Copy)]
pub struct MvcmRule {
    pub window: u16,
    pub slot: Time,
    pub factor: u32,
    /// `None` for no limit.
    pub limit: Option<u8>,
    pub warm: bool,
    pub level: ControlLevel,
}

/// The longest time that a flow waits between two packets: one second.
const LONGEST_WAIT: Time = Time(1_000_000_000_000);

impl MvcmRule {
    /// Raises the number of slots: 0, 1, k, k^2, ...
    fn raise(&self, state: &mut WindowState) {
        if self.limit.is_some_and(|limit| state.raises >= limit) {
            return;
        }
        let most = (LONGEST_WAIT.0 / self.slot.0.max(1)).clamp(1, u64::from(u32::MAX)) as u32;
        state.level = if state.level == 0 { 1 } else { state.level.saturating_mul(self.factor).min(most) };
        state.raises = state.raises.saturating_add(1);
    }
}

impl ReactionRule for MvcmRule {
    type State = WindowState;

    fn counts_answers(&self) -> bool {
        true
    }

    fn level(&self) -> StateLevel {
        self.level.into()
    }

    fn fresh(&self, _sl: u8) -> WindowState {
        WindowState::new(self.window)
    }

    fn answered(&self, state: &mut WindowState, _sl: u8, answer: &Answer) {
        state.acknowledged();
        let is_taken_for_cold = answer.mark == Mark::Warm && !self.warm;
        match if is_taken_for_cold { Mark::Cold } else { answer.mark } {
            Mark::Warm | Mark::Hot if state.window > 1 => state.window -= 1,
            Mark::Warm => {}
            Mark::Hot => self.raise(state),
            Mark::Cold if state.level > 0 => (state.level, state.raises) = (0, 0),
            Mark::Cold => state.window = (state.window + 1).min(self.window),
        }
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

    #[inline]
    fn may_send_at(&self, state: &WindowState, _sl: u8, next: &Next) -> Option<Time> {
        let slots = Time(self.slot.0 * u64::from(state.level));
        state.is_open().then(|| (state.last_end + slots).max(next.now))
    }

    /// Resets the state if a message is added to an empty queue and all sent packets are acknowledged.
    fn restarted(&self, state: &mut WindowState) {
        if state.outstanding == 0 {
            *state = self.fresh(0);
        }
    }

    /// A state without unacknowledged packets is equivalent to a fresh one, because the next message resets
    /// it.
    fn is_fresh(&self, state: &WindowState, _sl: u8, _now: Time) -> bool {
        state.outstanding == 0
    }

    fn strength(&self, state: &WindowState, _sl: u8, _now: Time) -> u16 {
        state.level.min(u32::from(u16::MAX)) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::{answer, next, sent};
    use super::*;

    const RULE: MvcmRule = MvcmRule {
        window: 3,
        slot: Time(354_000),
        factor: 4,
        limit: Some(5),
        warm: true,
        level: ControlLevel::Qp,
    };

    /// The window and the slots after each acknowledgement of a series (H hot, W warm, C cold).
    fn course(rule: &MvcmRule, answers: &str) -> Vec<(u16, u32)> {
        let mut state = rule.fresh(0);
        answers
            .chars()
            .map(|letter| {
                rule.answered(&mut state, 0, &answer(Mark::of_letter(letter), 0, 0));
                (state.window, state.level)
            })
            .collect()
    }

    #[test]
    fn hot_acknowledgements_close_the_window_then_raise_the_slots_n_times() {
        let expected = [(2, 0), (1, 0), (1, 1), (1, 4), (1, 16), (1, 64), (1, 256), (1, 256), (1, 256)];
        assert_eq!(course(&RULE, "HHHHHHHHH"), expected);
        let unlimited = MvcmRule { limit: None, ..RULE };
        assert_eq!(course(&unlimited, "HHHHHHHHH").last(), Some(&(1, 4096)));
        assert_eq!(course(&unlimited, &"H".repeat(40)).last(), Some(&(1, 2_824_858)), "a second at most");
    }

    #[test]
    fn warm_acknowledgements_close_the_window_and_no_more() {
        assert_eq!(course(&RULE, "WWWW"), [(2, 0), (1, 0), (1, 0), (1, 0)]);
        assert_eq!(course(&RULE, "HWHW"), [(2, 0), (1, 0), (1, 1), (1, 1)], "slots stay");
        let deaf = MvcmRule { warm: false, ..RULE };
        assert_eq!(course(&deaf, "HWHHW"), [(2, 0), (3, 0), (2, 0), (1, 0), (2, 0)], "taken for cold");
    }

    #[test]
    fn the_first_cold_acknowledgement_takes_the_slots_the_others_open_the_window() {
        let expected = [(2, 0), (1, 0), (1, 1), (1, 4), (1, 0), (2, 0), (3, 0), (3, 0)];
        assert_eq!(course(&RULE, "HHHHCCCC"), expected);
        assert_eq!(course(&RULE, "HHHHCH").last(), Some(&(1, 1)), "from the first step again");
    }

    #[test]
    fn an_empty_queue_starts_anew_but_not_while_something_is_out() {
        let mut state = RULE.fresh(0);
        (0..4).for_each(|_| RULE.answered(&mut state, 0, &answer(Mark::Hot, 0, 0)));
        state.sent(&sent(7, 278));
        RULE.restarted(&mut state);
        assert_eq!((state.window, state.level), (1, 4));
        state.acknowledged();
        RULE.restarted(&mut state);
        assert_eq!((state.window, state.level, state.raises), (3, 0, 0));
    }

    #[test]
    fn slots_pass_between_two_packets() {
        let mut state = RULE.fresh(0);
        state.sent(&sent(1_000_000, 278));
        (0..4).for_each(|_| RULE.answered(&mut state, 0, &answer(Mark::Hot, 0, 0)));
        assert_eq!(RULE.may_send_at(&state, 0, &next(1_200_000)), Some(Time(1_000_000 + 4 * 354_000)));
        RULE.answered(&mut state, 0, &answer(Mark::Cold, 0, 0));
        assert_eq!(RULE.may_send_at(&state, 0, &next(1_200_000)), Some(Time(1_200_000)), "at once");
    }
}
