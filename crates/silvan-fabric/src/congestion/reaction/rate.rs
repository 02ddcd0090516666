//! Rate functions of marked and unmarked acknowledgements (Santos, Turner and Janakiraman 2003, as
//! MVCM's section 3.2.1 sums them up): AIMD, FIMD and LIPD, beside a static window.
//!
//! A rate r lies between Rmin and Rmax, the link's. A marked acknowledgement divides it by m; an
//! unmarked one adds Rmin (AIMD), or multiplies it by m^(Rmin / r) (FIMD): slow flows recover fast.
//! LIPD counts delays of one packet transmission time, which is what sending a packet and receiving
//! its acknowledgement takes at least: one more for each marked acknowledgement, one less for each
//! unmarked one. Delays count from the end of the packet before.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::Time;
use silvan_engine::units::BytePace;

use super::{Control, Mark, WindowState};
use crate::facts::Severity;

/// Parameters of AIMD and FIMD.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RateControl {
    /// Packets of a flow that may be without an acknowledgement at a time; by default any number.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub window: Option<u16>,
    /// A marked acknowledgement divides the rate by this.
    #[schemars(range(min = 2))]
    pub m: u8,
    /// The lowest rate is the link's divided by this.
    #[schemars(range(min = 2, max = 4096))]
    pub slowest: u16,
}

impl Default for RateControl {
    fn default() -> Self {
        Self { window: None, m: 2, slowest: 256 }
    }
}

/// Parameters of LIPD.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Lipd {
    /// Packets of a flow that may be without an acknowledgement at a time; by default any number.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub window: Option<u16>,
    /// The unit of delay; by default the shortest round trip of a full packet and its
    /// acknowledgement in the network.
    pub delay: Option<Time>,
    /// Most delays between two packets; InfiniBand's field has 8 bits.
    #[schemars(range(min = 1, max = 4096))]
    pub limit: u16,
}

impl Default for Lipd {
    fn default() -> Self {
        Self { window: None, delay: None, limit: 255 }
    }
}

/// How a rate follows from acknowledgements.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Function {
    Aimd { m: u32, slowest: u32 },
    Fimd { m: u32, slowest: u32 },
    Lipd { delay: Time, limit: u32 },
}

/// The rule of one host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RateRule {
    pub function: Function,
    pub window: u16,
    /// Of the host's link, at which a flow sends that nobody holds back.
    pub pace: BytePace,
}

/// Rates count in parts of Rmin.
const ONE: u64 = 1 << 16;

/// m^x for x up to one, both in parts of [`ONE`]: the product of the roots of m whose exponents add
/// up to x. Whole numbers give the same on every machine.
fn power(m: u32, x: u64) -> u64 {
    // At 2^-32 precision, as roots of roots lose a bit each.
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

impl Control for RateRule {
    type State = WindowState;

    fn counts_answers(&self) -> bool {
        true
    }

    fn fresh(&self, _sl: u8) -> WindowState {
        let level = match self.function {
            Function::Aimd { slowest, .. } | Function::Fimd { slowest, .. } => slowest << 16,
            Function::Lipd { .. } => 0,
        };
        WindowState { level, ..WindowState::new(self.window) }
    }

    /// An acknowledgement arrived. One that is only warm changes nothing.
    fn answered(&self, state: &mut WindowState, _sl: u8, (mark, _): (Mark, Severity), _now: Time) {
        state.acknowledged();
        let level = u64::from(state.level);
        let next = match (self.function, mark) {
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

    fn sent(&self, state: &mut WindowState, end: Time, size: u32) {
        state.sent(end, size);
    }

    #[inline]
    fn eligible_at(&self, state: &WindowState, _sl: u8, now: Time) -> Option<Time> {
        state.is_open().then(|| (state.last_end + self.delay(state)).max(now))
    }

    fn is_fresh(&self, state: &WindowState, sl: u8, now: Time) -> bool {
        state.outstanding == 0 && state.level == self.fresh(sl).level && state.last_end <= now
    }

    /// Inter-packet delays, or how many times slower than the link.
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
    use super::*;
    use silvan_engine::Rate;

    fn rule(function: Function) -> RateRule {
        RateRule { function, window: 1, pace: Rate::from_gbit(8).pace() }
    }

    /// Levels in whole Rmin after a series of answers (H hot, W warm, C cold).
    fn levels(rule: &RateRule, answers: &str) -> Vec<u32> {
        let mut state = rule.fresh(0);
        answers
            .chars()
            .map(|answer| {
                rule.answered(&mut state, 0, (Mark::of_letter(answer), 0), Time::ZERO);
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
        (0..4).for_each(|_| rule.answered(&mut state, 0, (Mark::Hot, 0), Time::ZERO));
        assert_eq!(state.level, 1 << 16);
        let mut steps = Vec::new();
        while state.level < 16 << 16 {
            rule.answered(&mut state, 0, (Mark::Cold, 0), Time::ZERO);
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
        state.sent(Time(1_000_000), 278);
        assert_eq!(rule.eligible_at(&state, 0, Time(5)), Some(Time(1_000_000)));
        for (mark, delays) in
            [(Mark::Hot, 1), (Mark::Warm, 1), (Mark::Hot, 2), (Mark::Hot, 3), (Mark::Hot, 3), (Mark::Cold, 2)]
        {
            rule.answered(&mut state, 0, (mark, 0), Time::ZERO);
            assert_eq!(rule.eligible_at(&state, 0, Time(5)), Some(Time(1_000_000 + 354_000 * delays)));
        }
        assert_eq!(rule.strength(&state, 0, Time::ZERO), 2);
    }

    #[test]
    fn a_rate_of_a_quarter_leaves_three_quarters_idle() {
        let rule = rule(Function::Aimd { m: 2, slowest: 16 });
        let mut state = rule.fresh(0);
        state.sent(Time(1_000_000), 100);
        (0..2).for_each(|_| rule.answered(&mut state, 0, (Mark::Hot, 0), Time::ZERO));
        // 100 bytes take 100 ns at 8 Gbit/s.
        assert_eq!(rule.eligible_at(&state, 0, Time::ZERO), Some(Time(1_300_000)));
        assert_eq!(rule.strength(&state, 0, Time::ZERO), 3);
    }
}
