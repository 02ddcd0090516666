//! What sources do about returned marks: one file per reaction.
//!
//! | file | reaction |
//! | --- | --- |
//! | `cct` | InfiniBand's congestion control table; Pfister's, too |
//! | `window` | a static window per flow |
//! | `rate` | AIMD, FIMD and LIPD, with or without a static window (Renato) |
//! | `mvcm` | a dynamic window, then waiting slots |
//! | `explicit` | rates that links tell: what there is to choose; `host/announce.rs` does it |
//!
//! The host asks the [`Rule`] when a flow may send, tells it what was sent and what was answered,
//! and keeps one [`State`] per flow (or service level).

mod cct;
mod explicit;
mod mvcm;
mod rate;
mod window;

pub use cct::{Cct, CctTable, ControlLevel, PerSl, TimerStart};
pub(crate) use cct::{CctRule, CctState};
pub use explicit::{ExplicitRate, Injection};
pub use mvcm::Mvcm;
pub(crate) use mvcm::MvcmRule;
pub(crate) use rate::{Function, RateRule};
pub use rate::{Lipd, RateControl};
pub use window::StaticWindow;
pub(crate) use window::WindowState;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::Time;

/// A reaction with its parameters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Reaction {
    /// Marks are ignored.
    None,
    /// InfiniBand's congestion control table.
    Cct(Cct),
    /// At most so many packets of a flow without an acknowledgement; marks are ignored.
    StaticWindow(StaticWindow),
    /// Additive increase, multiplicative decrease of a flow's rate.
    Aimd(RateControl),
    /// Fast increase, multiplicative decrease of a flow's rate.
    Fimd(RateControl),
    /// Linear inter-packet delay.
    Lipd(Lipd),
    /// Dynamic window and waiting slots.
    Mvcm(Mvcm),
    /// Rates that the links of a flow's route tell.
    ExplicitRate(ExplicitRate),
}

impl Reaction {
    /// Whether it lives from an acknowledgement of every packet.
    #[must_use]
    pub fn needs_acknowledgements(&self) -> bool {
        !matches!(self, Self::None | Self::Cct(_) | Self::ExplicitRate(_))
    }

    /// Whether some of its parameters follow from the network's round trip.
    #[must_use]
    pub fn needs_round_trip(&self) -> bool {
        matches!(self, Self::Lipd(_) | Self::Mvcm(_))
    }
}

/// What an answer says of a packet's way (MVCM, 4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Neither marked nor validated.
    Cold,
    /// Marked, not validated: it stood behind others' congestion.
    Warm,
    /// Validated; or marked, where switches do not validate.
    Hot,
}

#[cfg(test)]
impl Mark {
    /// H, W or C, as tests write a series of answers.
    fn of_letter(letter: char) -> Self {
        match letter {
            'H' => Self::Hot,
            'W' => Self::Warm,
            _ => Self::Cold,
        }
    }
}

/// The reaction of one host.
#[derive(Debug, Clone)]
pub(crate) enum Rule {
    Cct(CctRule),
    Window(u16),
    Rate(RateRule),
    Mvcm(MvcmRule),
}

/// What a host keeps for its reaction, per flow or service level.
#[derive(Debug, Clone, Copy)]
pub(crate) enum State {
    Cct(CctState),
    Window(WindowState),
}

impl Default for State {
    fn default() -> Self {
        Self::Cct(CctState::default())
    }
}

impl Rule {
    /// Whether state belongs to flows or to service levels.
    #[inline]
    pub fn level(&self) -> ControlLevel {
        match self {
            Self::Cct(rule) => rule.level,
            _ => ControlLevel::Qp,
        }
    }

    /// A flow that nothing was heard of yet.
    pub fn fresh(&self, sl: u8) -> State {
        match self {
            Self::Cct(rule) => State::Cct(rule.fresh(sl)),
            Self::Window(window) => State::Window(WindowState::new(*window)),
            Self::Rate(rule) => State::Window(rule.fresh()),
            Self::Mvcm(rule) => State::Window(rule.fresh()),
        }
    }

    /// The earliest time, from `now` on, at which the next packet may start; none if that depends
    /// on an acknowledgement.
    #[inline]
    pub fn eligible_at(&self, state: &State, sl: u8, now: Time) -> Option<Time> {
        match (self, state) {
            (Self::Cct(rule), State::Cct(state)) => Some(rule.eligible_at(state, sl, now)),
            (_, State::Window(state)) if !state.is_open() => None,
            (Self::Rate(rule), State::Window(state)) => Some(rule.eligible_at(state, now)),
            (Self::Mvcm(rule), State::Window(state)) => Some(rule.eligible_at(state, now)),
            _ => Some(now),
        }
    }

    /// A packet was sent; its tail leaves at `end`.
    #[inline]
    pub fn sent(&self, state: &mut State, end: Time, size: u32) {
        match (self, state) {
            (Self::Cct(rule), State::Cct(state)) => rule.sent(state, end, size),
            (_, State::Window(state)) => state.sent(end, size),
            _ => {}
        }
    }

    /// A notification or an acknowledgement arrived.
    pub fn answered(&self, state: &mut State, sl: u8, mark: Mark, now: Time) {
        match (self, state) {
            (Self::Cct(rule), State::Cct(state)) if mark == Mark::Hot => rule.notified(state, sl, now),
            (rule, State::Window(state)) => {
                state.acknowledged();
                match rule {
                    Self::Rate(rule) => rule.answered(state, mark),
                    Self::Mvcm(rule) => rule.answered(state, mark),
                    Self::Cct(_) | Self::Window(_) => {}
                }
            }
            _ => {}
        }
    }

    /// A message came into the flow's empty queue.
    #[inline]
    pub fn restarted(&self, state: &mut State) {
        if let (Self::Mvcm(rule), State::Window(state)) = (self, state) {
            rule.restarted(state);
        }
    }

    /// Whether the flow's state makes no difference any more.
    pub fn is_fresh(&self, state: &State, sl: u8, now: Time) -> bool {
        match (self, state) {
            (Self::Cct(rule), State::Cct(state)) => rule.is_fresh(state, sl, now),
            (Self::Rate(rule), State::Window(state)) => rule.is_fresh(state, now),
            // An empty queue has MVCM start anew anyway.
            (_, State::Window(state)) => state.outstanding == 0,
            _ => true,
        }
    }

    /// How hard a flow is held back: its index into the congestion control table, its waiting slots,
    /// its inter-packet delays, or its rate's divisor less one.
    pub fn strength(&self, state: &State, sl: u8, now: Time) -> u16 {
        match (self, state) {
            (Self::Cct(rule), State::Cct(state)) => rule.index(state, sl, now),
            (Self::Rate(rule), State::Window(state)) => rule.strength(state),
            (Self::Mvcm(_), State::Window(state)) => state.level.min(u32::from(u16::MAX)) as u16,
            _ => 0,
        }
    }
}
