//! Rates as functions of marked and unmarked acknowledgements (Santos, Turner and Janakiraman 2003, as summarized in
//! MVCM, 3.2.1): AIMD, FIMD and LIPD, with a static window.
//!
//! A rate r lies between Rmin and Rmax, the rate of the link. A marked acknowledgement divides r by m. An unmarked one
//! adds Rmin (AIMD) or multiplies r by m^(Rmin / r) (FIMD), so slow flows recover fast. LIPD inserts a number of delays
//! between packets: one more after each marked acknowledgement, one less after each unmarked one. The length of a delay
//! is the packet transmission time, defined as the minimum time to send a packet and receive its acknowledgement.
//! Delays count from the end of the previous packet.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::Time;
use silvan_engine::units::BytePace;

use super::{ControlLevel, Properties, ReactionParameters, ReactionRule, Source, StateLevel, WindowState};
use crate::facts::{Answer, Lost, Mark, Next, Sent};
use crate::unfit::{Check, Limits, ensure_time, ensure_window};

/// Parameters of AIMD and FIMD.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RateControl {
    /// Maximum number of unacknowledged packets of a flow; unlimited by default.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub window: Option<u16>,
    /// Divisor of the rate for a marked acknowledgement.
    #[schemars(range(min = 2))]
    pub m: u8,
    /// The lowest rate is the rate of the link divided by this number.
    #[schemars(range(min = 2, max = 4096))]
    pub slowest: u16,
    /// Whether a rate and a window belong to a queue pair (flow) or to a service level of a host.
    pub level: ControlLevel,
}

impl Default for RateControl {
    fn default() -> Self {
        Self { window: None, m: 2, slowest: 256, level: ControlLevel::Qp }
    }
}

/// Parameters of LIPD.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Lipd {
    /// Maximum number of unacknowledged packets of a flow; unlimited by default.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub window: Option<u16>,
    /// The unit of delay; by default the shortest round trip of a full packet and its acknowledgement in the network.
    pub delay: Option<Time>,
    /// Maximum number of delays between two packets; InfiniBand's field has 8 bits.
    #[schemars(range(min = 1, max = 4096))]
    pub limit: u16,
    /// Whether delays and a window belong to a queue pair (flow) or to a service level of a host.
    pub level: ControlLevel,
}

impl Default for Lipd {
    fn default() -> Self {
        Self { window: None, delay: None, limit: 255, level: ControlLevel::Qp }
    }
}

impl ReactionParameters for RateControl {
    fn properties(&self) -> Properties {
        Properties::ACKNOWLEDGED
    }

    fn check(&self, _limits: &Limits) -> Check {
        ensure_window("window", self.window)
    }
}

impl RateControl {
    /// Creates the AIMD rule of a host.
    pub(super) fn aimd(&self, source: &Source) -> Option<RateRule> {
        let (m, slowest) = (u32::from(self.m), u32::from(self.slowest));
        Some(RateRule::new(Function::Aimd { m, slowest }, self.window, self.level, source))
    }

    /// Creates the FIMD rule of a host.
    pub(super) fn fimd(&self, source: &Source) -> Option<RateRule> {
        let (m, slowest) = (u32::from(self.m), u32::from(self.slowest));
        Some(RateRule::new(Function::Fimd { m, slowest }, self.window, self.level, source))
    }
}

impl ReactionParameters for Lipd {
    fn properties(&self) -> Properties {
        Properties { needs_round_trip: true, ..Properties::ACKNOWLEDGED }
    }

    fn check(&self, _limits: &Limits) -> Check {
        ensure_window("window", self.window)?;
        ensure_time("delay", self.delay)
    }
}

impl Lipd {
    /// Creates the rule of a host.
    pub(super) fn rule(&self, source: &Source) -> Option<RateRule> {
        let delay = self.delay.unwrap_or_else(|| source.shortest_round_trip());
        let function = Function::Lipd { delay, limit: u32::from(self.limit) };
        Some(RateRule::new(function, self.window, self.level, source))
    }
}

/// The dependence of a rate on acknowledgements.
#[derive(Debug, Clone, Copy)]
enum Function {
    Aimd { m: u32, slowest: u32 },
    Fimd { m: u32, slowest: u32 },
    Lipd { delay: Time, limit: u32 },
}

/// The rule of one host.
#[derive(Debug, Clone, Copy)]
pub struct RateRule {
    function: Function,
    window: u16,
    level: ControlLevel,
    /// Pace of the host's link, at which a flow that is not throttled sends.
    pace: BytePace,
}

/// The fixed-point representation of 1, for rates in units of Rmin.
const ONE: u64 = 1 << 16;

/// Computes m^x for x up to one. The argument x and the result are in units of 1 / [`ONE`]. The result is the
/// product of the roots of m whose exponents add up to x. Integer arithmetic gives the same result on all
/// machines.
fn power(m: u32, x: u64) -> u64 {
    // Use a precision of 2^-32, because each root is rounded down.
    let mut root = u128::from(m) << 32;
    let mut result = 1u128 << 32;
    if x >= ONE {
        return u64::from(m) * ONE;
    }
    for bit in (0..16).rev() {
        root = (root << 32).isqrt();
        if x >> bit & 1 == 1 {
            result = (result * root) >> 32;
        }
    }
    (result >> 16) as u64
}

impl RateRule {
    fn new(function: Function, window: Option<u16>, level: ControlLevel, source: &Source) -> Self {
        Self { function, window: window.unwrap_or(u16::MAX), level, pace: source.rate.pace() }
    }

    /// The delay after the last packet.
    fn delay(&self, state: &WindowState) -> Time {
        let level = u64::from(state.level);
        match self.function {
            Function::Lipd { delay, .. } => Time(delay.0.saturating_mul(level)),
            Function::Aimd { slowest, .. } | Function::Fimd { slowest, .. } => {
                let full = u128::from(slowest) << 16;
                let span = u128::from(self.pace.time(state.last_size).0);
                Time((span * (full - u128::from(level)) / u128::from(level.max(1))) as u64)
            }
        }
    }
}

impl ReactionRule for RateRule {
    type State = WindowState;

    fn counts_answers(&self) -> bool {
        true
    }

    fn level(&self) -> StateLevel {
        self.level.into()
    }

    fn fresh(&self, _sl: u8) -> WindowState {
        let level = match self.function {
            Function::Aimd { slowest, .. } | Function::Fimd { slowest, .. } => slowest << 16,
            Function::Lipd { .. } => 0,
        };
        WindowState { level, ..WindowState::new(self.window) }
    }

    /// Handles an acknowledgement. A warm acknowledgement does not change the rate or the number of delays.
    fn answered(&self, state: &mut WindowState, _sl: u8, answer: &Answer) {
        state.acknowledged();
        let level = u64::from(state.level);
        let next = match (self.function, answer.mark) {
            (_, Mark::Warm) => level,
            (Function::Aimd { m, .. } | Function::Fimd { m, .. }, Mark::Hot) => {
                (level / u64::from(m)).max(ONE)
            }
            (Function::Aimd { slowest, .. }, Mark::Cold) => (level + ONE).min(u64::from(slowest) << 16),
            (Function::Fimd { m, slowest }, Mark::Cold) => {
                let faster = (level * power(m, ONE * ONE / level)) >> 16;
                faster.min(u64::from(slowest) << 16)
            }
            (Function::Lipd { limit, .. }, Mark::Hot) => (level + 1).min(u64::from(limit)),
            (Function::Lipd { .. }, Mark::Cold) => level.saturating_sub(1),
        };
        state.level = next as u32;
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
        state.is_open().then(|| (state.last_end + self.delay(state)).max(next.now))
    }

    fn is_fresh(&self, state: &WindowState, sl: u8, now: Time) -> bool {
        state.outstanding == 0 && state.level == self.fresh(sl).level && state.last_end <= now
    }

    /// The number of inter-packet delays (LIPD), or the link's rate divided by the flow's rate, rounded down,
    /// minus one.
    fn strength(&self, state: &WindowState, _sl: u8, _now: Time) -> u16 {
        match self.function {
            Function::Lipd { .. } => state.level as u16,
            Function::Aimd { slowest, .. } | Function::Fimd { slowest, .. } => {
                ((slowest << 16) / state.level.max(1) - 1) as u16
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use silvan_engine::Rate;

    use super::super::trial::{answer, next, sent};
    use super::*;

    fn rule(function: Function) -> RateRule {
        RateRule { function, window: 1, level: ControlLevel::Qp, pace: Rate::from_gbit(8).pace() }
    }

    /// The rates after a series of answers (H hot, W warm, C cold), rounded to multiples of Rmin.
    fn levels(rule: &RateRule, answers: &str) -> Vec<u32> {
        let mut state = rule.fresh(0);
        answers
            .chars()
            .map(|letter| {
                rule.answered(&mut state, 0, &answer(Mark::of_letter(letter), 0, 0));
                state.level >> 16
            })
            .collect()
    }

    #[test]
    fn aimd_halves_and_adds() {
        let rule = rule(Function::Aimd { m: 2, slowest: 16 });
        assert_eq!(levels(&rule, "HHWCCHHHHHC"), [8, 4, 4, 5, 6, 3, 1, 1, 1, 1, 2]);
        assert_eq!(levels(&rule, "CHC"), [16, 8, 9], "never above the link's rate");
    }

    #[test]
    fn fimd_recovers_by_m_from_the_bottom_and_slower_higher_up() {
        let rule = rule(Function::Fimd { m: 2, slowest: 16 });
        let mut state = rule.fresh(0);
        (0..4).for_each(|_| rule.answered(&mut state, 0, &answer(Mark::Hot, 0, 0)));
        assert_eq!(state.level, 1 << 16);
        let mut steps = Vec::new();
        while state.level < 16 << 16 {
            rule.answered(&mut state, 0, &answer(Mark::Cold, 0, 0));
            steps.push(f64::from(state.level) / 65_536.0);
        }
        let mut expected = 1.0f64;
        for step in &steps {
            expected = (expected * 2f64.powf(1.0 / expected)).min(16.0);
            assert!((step - expected).abs() < 0.01, "{step} is not {expected}");
        }
        assert!((steps[0] - 2.0).abs() < 1e-4 && steps.len() > 15, "{steps:?}");
    }

    #[test]
    fn powers_are_those_of_real_numbers() {
        for m in [2u32, 3, 10] {
            for x in [0, 1, 77, 32_768, 50_000, 65_535, 65_536] {
                let exact = f64::from(m).powf(x as f64 / 65_536.0) * 65_536.0;
                assert!((power(m, x) as f64 - exact).abs() <= 2.0, "{m}^({x}/65536)");
            }
        }
    }

    #[test]
    fn lipd_counts_packet_transmission_times() {
        let rule = RateRule { window: 2, ..rule(Function::Lipd { delay: Time(354_000), limit: 3 }) };
        let mut state = rule.fresh(0);
        state.sent(&sent(1_000_000, 278));
        assert_eq!(rule.may_send_at(&state, 0, &next(5)), Some(Time(1_000_000)));
        for (mark, delays) in
            [(Mark::Hot, 1), (Mark::Warm, 1), (Mark::Hot, 2), (Mark::Hot, 3), (Mark::Hot, 3), (Mark::Cold, 2)]
        {
            rule.answered(&mut state, 0, &answer(mark, 0, 0));
            assert_eq!(rule.may_send_at(&state, 0, &next(5)), Some(Time(1_000_000 + 354_000 * delays)));
        }
        assert_eq!(rule.strength(&state, 0, Time::ZERO), 2);
    }

    #[test]
    fn a_rate_of_a_quarter_leaves_three_quarters_idle() {
        let rule = rule(Function::Aimd { m: 2, slowest: 16 });
        let mut state = rule.fresh(0);
        state.sent(&sent(1_000_000, 100));
        (0..2).for_each(|_| rule.answered(&mut state, 0, &answer(Mark::Hot, 0, 0)));
        // 100 bytes take 100 ns at 8 Gbit/s.
        assert_eq!(rule.may_send_at(&state, 0, &next(0)), Some(Time(1_300_000)));
        assert_eq!(rule.strength(&state, 0, Time::ZERO), 3);
    }
}
