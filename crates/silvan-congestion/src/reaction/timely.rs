//! TIMELY: a rate that follows the gradient of the round-trip delay (Mittal et al., TIMELY: RTT-based Congestion
//! Control for the Datacenter, SIGCOMM 2015, algorithm 1). It is updated once per round trip, as in the model of HPCC's
//! authors (`rdma-hw.cc`, 2019).
//!
//! ```text
//!  once per round trip   difference = (1 - weight) difference + weight (delay - delay before)
//!                        delay < low:         rate += additive_increase, or hyper_increase after `stages` in a row
//!                        delay > high:        rate = rate (1 - beta (1 - high / delay))
//!                        difference <= 0:     as below `low`
//!                        else                 rate = rate (1 - beta difference / min_delay), at least 0
//! ```
//!
//! The delay is measured from the start of a packet to the arrival of its acknowledgement. The published thresholds, 50
//! and 500 us for a minimum delay of 20 us, are 2.5 and 25 times that delay. These multiples are the default in any
//! network.
//!
//! Rates are in units of 2^-30 of the link's rate.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::saved::Saved;
use silvan_engine::{Rate, Time};

use super::paced::{LINE, Paced, PacedFlow, RateLaw, part};
use super::{Properties, ReactionParameters, Source};
use crate::LinkLayer;
use crate::facts::Answer;
use crate::unfit::{Check, Limits, ensure, ensure_time};

/// Parameters of TIMELY.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Timely {
    /// Delay below which the rate always increases (`T_low`); by default 2.5 times the least delay.
    pub low: Option<Time>,
    /// Delay above which the rate always decreases, regardless of the gradient (`T_high`); by default 25 times the least delay.
    pub high: Option<Time>,
    /// The least delay (`D_minRTT`); by default the round trip without load, over the longest route
    /// between hosts that communicate.
    pub min_delay: Option<Time>,
    /// Weight of the newest sample in the moving average of delay differences, in thousandths (alpha).
    #[schemars(range(min = 1, max = 1000))]
    pub weight_permille: u16,
    /// Factor of multiplicative decreases, in thousandths (beta).
    #[schemars(range(min = 1, max = 1000))]
    pub beta_permille: u16,
    /// Number of consecutive increases after which the increment is `hyper_increase`.
    #[schemars(range(min = 1, max = 100))]
    pub stages: u8,
    /// Increment of the rate (delta); by default 0.1 % of the rate of the host's link.
    pub additive_increase: Option<Rate>,
    /// Increment of the rate after `stages` consecutive increases; by default 0.5 % of the rate of the host's link.
    pub hyper_increase: Option<Rate>,
    /// The lowest rate of a flow; by default 1 % of the rate of the host's link.
    pub min_rate: Option<Rate>,
}

impl Default for Timely {
    fn default() -> Self {
        Self {
            low: None,
            high: None,
            min_delay: None,
            weight_permille: 875,
            beta_permille: 800,
            stages: 5,
            additive_increase: None,
            hyper_increase: None,
            min_rate: None,
        }
    }
}

impl ReactionParameters for Timely {
    fn properties(&self) -> Properties {
        Properties {
            reads_marks: false,
            link_layer: Some(LinkLayer::Ethernet),
            needs_round_trip: self.min_delay.is_none(),
            ..Properties::ACKNOWLEDGED
        }
    }

    fn check(&self, _limits: &Limits) -> Check {
        for (key, time) in [("low", self.low), ("high", self.high), ("min_delay", self.min_delay)] {
            ensure_time(key, time)?;
        }
        if let (Some(low), Some(high)) = (self.low, self.high) {
            ensure(low <= high, "low", || format!("must be at most `high`, {high}"))?;
        }
        for (key, rate) in [
            ("additive_increase", self.additive_increase),
            ("hyper_increase", self.hyper_increase),
            ("min_rate", self.min_rate),
        ] {
            ensure(rate != Some(Rate(0)), key, || {
                "must be more than 0 bit/s; with 0, flows do not recover".to_owned()
            })?;
        }
        Ok(())
    }
}

impl Timely {
    /// The rule of a host.
    pub(super) fn rule(&self, source: &Source) -> Option<TimelyRule> {
        let least = self.min_delay.unwrap_or_else(|| source.shortest_round_trip());
        Some(self.rule_of_link(source.rate, least.max(Time(1)), source.header()))
    }

    fn rule_of_link(&self, link: Rate, least: Time, header: u32) -> TimelyRule {
        let share = |rate: Option<Rate>, of: u32| rate.map_or(LINE / of, |rate| part(rate, link));
        let law = TimelyLaw {
            low: self.low.unwrap_or(Time(least.0 * 5 / 2)),
            high: self.high.unwrap_or(Time(least.0 * 25)),
            least: least.0,
            weight: i64::from(self.weight_permille),
            beta: u128::from(self.beta_permille),
            stages: self.stages,
            additive: share(self.additive_increase, 1_000),
            hyper: share(self.hyper_increase, 200),
            slowest: share(self.min_rate, 100),
        };
        Paced::new(law, link, header)
    }
}

/// A weight of 1.
const ONE: i64 = 1_000;

/// The rule of one host.
pub type TimelyRule = Paced<TimelyLaw>;

/// The law of one host. Rates are fractions of its link's rate.
#[derive(Debug, Clone, Copy)]
pub struct TimelyLaw {
    low: Time,
    high: Time,
    least: u64,
    weight: i64,
    beta: u128,
    stages: u8,
    additive: u32,
    hyper: u32,
    slowest: u32,
}

/// The state of a flow.
#[derive(Debug, Clone, Copy, Saved)]
pub struct TimelyState {
    /// The delay at the last update.
    #[saved(span)]
    delay: Time,
    /// The mean of the differences of delays, in picoseconds.
    difference: i64,
    /// Number of consecutive increases.
    increases: u8,
}

impl TimelyLaw {
    fn update(&self, flow: &mut PacedFlow<TimelyState>, delay: Time) {
        let state = &mut flow.law;
        let change = delay.0 as i64 - state.delay.0 as i64;
        let sum = (ONE - self.weight) * state.difference + self.weight * change;
        state.difference = sum.div_euclid(ONE);
        state.delay = delay;
        // The share of the rate that a decrease removes, before the factor beta, as numerator and
        // denominator.
        let lost = if delay < self.low {
            None
        } else if delay > self.high {
            Some((delay.0 - self.high.0, delay.0))
        } else {
            u64::try_from(state.difference).ok().filter(|&rises| rises > 0).map(|rises| (rises, self.least))
        };
        let Some((part, of)) = lost else {
            let step = if state.increases < self.stages { self.additive } else { self.hyper };
            flow.rate = flow.rate.saturating_add(step).min(LINE);
            state.increases = state.increases.saturating_add(1);
            return;
        };
        let less = u128::from(flow.rate) * self.beta * u128::from(part) / (1_000 * u128::from(of));
        let slower = u128::from(flow.rate).saturating_sub(less) as u32;
        flow.rate = slower.max(self.slowest).min(flow.rate);
        state.increases = 0;
    }
}

impl RateLaw for TimelyLaw {
    type State = TimelyState;

    fn fresh(&self) -> TimelyState {
        TimelyState { delay: Time::ZERO, difference: 0, increases: 0 }
    }

    fn acknowledged(&self, flow: &mut PacedFlow<TimelyState>, answer: &Answer) {
        let (delay, is_first) = (answer.now - answer.sent_at, flow.progress.is_first());
        if !flow.progress.completes_round() {
            return;
        }
        if is_first {
            flow.law.delay = delay;
        } else {
            self.update(flow, delay);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ReactionRule;
    use super::super::trial::{answer, sent};
    use super::*;
    use crate::facts::Mark;

    /// The rule for a link of 100 Gbit/s and a minimum delay of 20 us, with thresholds of 50 and 500 us.
    fn rule(given: &Timely) -> TimelyRule {
        given.rule_of_link(Rate::from_gbit(100), Time::from_us(20), 26)
    }

    /// Answers each packet before the next is sent, so every answer ends a round trip. Returns the rates as shares of
    /// the link's rate.
    fn rates(rule: &TimelyRule, state: &mut PacedFlow<TimelyState>, delays_us: &[u64]) -> Vec<f64> {
        let mut rates = Vec::new();
        for &us in delays_us {
            rule.sent(state, &sent(0, 1_000));
            let ack = Answer { bytes: 974, ..answer(Mark::Cold, 0, us * 1_000_000) };
            rule.answered(state, 0, &ack);
            rates.push((f64::from(state.rate) / f64::from(LINE) * 1e6).round() / 1e6);
        }
        rates
    }

    #[test]
    fn thresholds_follow_the_least_delay() {
        let rule = rule(&Timely::default());
        assert_eq!((rule.law.low, rule.law.high), (Time::from_us(50), Time::from_us(500)));
    }

    #[test]
    fn short_delays_raise_the_rate_faster_after_five_in_a_row() {
        let rule = rule(&Timely::default());
        let mut state = rule.fresh(0);
        state.rate = LINE / 2;
        let found = rates(&rule, &mut state, &[30, 30, 49, 20, 30, 30, 30]);
        assert_eq!(found, [0.5, 0.501, 0.502, 0.503, 0.504, 0.505, 0.51]);
    }

    #[test]
    fn a_delay_above_the_upper_threshold_reduces_by_its_excess() {
        let rule = rule(&Timely::default());
        let mut state = rule.fresh(0);
        // 1 - 0.8 (1 - 500 / 1,000).
        assert_eq!(rates(&rule, &mut state, &[1_000, 1_000]), [1.0, 0.6]);
    }

    #[test]
    fn between_the_thresholds_the_gradient_decides() {
        let rule = rule(&Timely::default());
        let mut state = rule.fresh(0);
        // With 4 us more, the mean difference is 3.5 us, which is 0.175 of the minimum delay. With 4 us less, it is
        // 0.4375 - 3.5 us.
        let found = rates(&rule, &mut state, &[100, 104, 100]);
        assert_eq!(found, [1.0, 0.86, 0.861]);
        // A rise by five times the minimum delay leads to the lowest rate: 1 - 0.8 x 0.875 x 100 / 20 is less than 0.
        assert_eq!(rates(&rule, &mut state, &[200]), [0.01]);
    }

    #[test]
    fn several_answers_of_a_round_trip_count_once() {
        let rule = rule(&Timely::default());
        let mut state = rule.fresh(0);
        state.rate = LINE / 2;
        (0..4).for_each(|_| rule.sent(&mut state, &sent(0, 1_000)));
        let ack = Answer { bytes: 974, ..answer(Mark::Cold, 0, 30_000_000) };
        (0..4).for_each(|_| rule.answered(&mut state, 0, &ack));
        assert_eq!(state.rate, LINE / 2);
        rule.sent(&mut state, &sent(0, 1_000));
        rule.answered(&mut state, 0, &ack);
        assert!(state.rate > LINE / 2);
    }
}
