//! What sources do about returned marks: one file per reaction.
//!
//! | file | reaction |
//! | --- | --- |
//! | `cct` | InfiniBand's congestion control table; Pfister's, too |
//! | `window` | a static window per flow |
//! | `rate` | AIMD, FIMD and LIPD, with or without a static window (Renato) |
//! | `mvcm` | a dynamic window, then waiting slots |
//! | `qcn` | a rate that marks divide by how severe congestion is, and that recovers by itself |
//! | `explicit` | rates that links tell: what there is to choose; `host/announce.rs` does it |
//!
//! The host asks the [`Rule`] when a flow may send, tells it what was sent and what was answered,
//! and keeps one [`State`] per flow (or service level).

mod cct;
mod explicit;
mod mvcm;
mod qcn;
mod rate;
mod window;

pub use cct::{Cct, CctTable, ControlLevel, PerSl, TimerStart};
pub(crate) use cct::{CctRule, CctState};
pub use explicit::{ExplicitRate, Injection};
pub use mvcm::Mvcm;
pub(crate) use mvcm::MvcmRule;
pub use qcn::Qcn;
pub(crate) use qcn::{QcnRule, QcnState};
pub(crate) use rate::{Function, RateRule};
pub use rate::{Lipd, RateControl};
pub use window::StaticWindow;
pub(crate) use window::{WindowRule, WindowState};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::Time;

use crate::facts::Severity;

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
    /// A rate that marks divide by how severe congestion is.
    Qcn(Qcn),
}

impl Reaction {
    /// Whether it lives from an acknowledgement of every packet.
    #[must_use]
    pub fn needs_acknowledgements(&self) -> bool {
        !matches!(self, Self::None | Self::Cct(_) | Self::ExplicitRate(_) | Self::Qcn(_))
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

/// The reaction of one host. What one does not do is as here: nothing.
pub(crate) trait Control {
    /// What it keeps per flow or service level.
    type State;

    /// Whether answers without a mark matter, too: to windows, for one. Else an answer can only hold a flow back.
    fn counts_answers(&self) -> bool;

    /// Whether state belongs to flows or to service levels.
    fn level(&self) -> ControlLevel {
        ControlLevel::Qp
    }

    /// A flow that nothing was heard of yet.
    fn fresh(&self, sl: u8) -> Self::State;

    /// The earliest time, from `now` on, at which the next packet may start; none if that depends on an
    /// acknowledgement.
    fn eligible_at(&self, state: &Self::State, sl: u8, now: Time) -> Option<Time>;

    /// A packet was sent; its tail leaves at `end`.
    fn sent(&self, state: &mut Self::State, end: Time, size: u32);

    /// A notification or an acknowledgement arrived.
    fn answered(&self, state: &mut Self::State, sl: u8, answer: (Mark, Severity), now: Time);

    /// A message came into the flow's empty queue.
    fn restarted(&self, _state: &mut Self::State) {}

    /// Whether the flow's state makes no difference any more.
    fn is_fresh(&self, state: &Self::State, sl: u8, now: Time) -> bool;

    /// How hard a flow is held back: its index into the congestion control table, its waiting slots, its
    /// inter-packet delays, or its rate's divisor less one.
    fn strength(&self, _state: &Self::State, _sl: u8, _now: Time) -> u16 {
        0
    }
}

/// The reaction of one host, whichever that is.
#[derive(Debug, Clone)]
pub(crate) enum Rule {
    Cct(CctRule),
    Window(WindowRule),
    Rate(RateRule),
    Mvcm(MvcmRule),
    Qcn(QcnRule),
}

/// What a host keeps for its reaction, per flow or service level.
#[derive(Debug, Clone, Copy)]
pub(crate) enum State {
    Cct(CctState),
    Window(WindowState),
    Qcn(QcnState),
}

impl Default for State {
    fn default() -> Self {
        Self::Cct(CctState::default())
    }
}

/// Does the same with a rule, whichever that is.
macro_rules! with_rule {
    ($of:expr, $rule:ident => $then:expr) => {
        match $of {
            Rule::Cct($rule) => $then,
            Rule::Window($rule) => $then,
            Rule::Rate($rule) => $then,
            Rule::Mvcm($rule) => $then,
            Rule::Qcn($rule) => $then,
        }
    };
}

/// Does the same with a rule and its state. State is always that of its host's rule.
macro_rules! with_state {
    ($of:expr, $kept:expr, ($rule:ident, $state:ident) => $then:expr, $otherwise:expr) => {
        match ($of, $kept) {
            (Rule::Cct($rule), State::Cct($state)) => $then,
            (Rule::Window($rule), State::Window($state)) => $then,
            (Rule::Rate($rule), State::Window($state)) => $then,
            (Rule::Mvcm($rule), State::Window($state)) => $then,
            (Rule::Qcn($rule), State::Qcn($state)) => $then,
            _ => $otherwise,
        }
    };
}

/// See [`Control`].
impl Rule {
    #[inline]
    pub fn level(&self) -> ControlLevel {
        with_rule!(self, rule => rule.level())
    }

    #[inline]
    pub fn counts_answers(&self) -> bool {
        with_rule!(self, rule => rule.counts_answers())
    }

    pub fn fresh(&self, sl: u8) -> State {
        match self {
            Self::Cct(rule) => State::Cct(rule.fresh(sl)),
            Self::Window(rule) => State::Window(rule.fresh(sl)),
            Self::Rate(rule) => State::Window(rule.fresh(sl)),
            Self::Mvcm(rule) => State::Window(rule.fresh(sl)),
            Self::Qcn(rule) => State::Qcn(rule.fresh(sl)),
        }
    }

    #[inline(always)]
    pub fn eligible_at(&self, state: &State, sl: u8, now: Time) -> Option<Time> {
        with_state!(self, state, (rule, state) => rule.eligible_at(state, sl, now), Some(now))
    }

    #[inline]
    pub fn sent(&self, state: &mut State, end: Time, size: u32) {
        with_state!(self, state, (rule, state) => rule.sent(state, end, size), ());
    }

    pub fn answered(&self, state: &mut State, sl: u8, answer: (Mark, Severity), now: Time) {
        with_state!(self, state, (rule, state) => rule.answered(state, sl, answer, now), ());
    }

    #[inline]
    pub fn restarted(&self, state: &mut State) {
        with_state!(self, state, (rule, state) => rule.restarted(state), ());
    }

    pub fn is_fresh(&self, state: &State, sl: u8, now: Time) -> bool {
        with_state!(self, state, (rule, state) => rule.is_fresh(state, sl, now), true)
    }

    pub fn strength(&self, state: &State, sl: u8, now: Time) -> u16 {
        with_state!(self, state, (rule, state) => rule.strength(state, sl, now), 0)
    }
}
