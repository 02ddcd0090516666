//! A rate that follows samples of the round-trip time. It models the template for programmable congestion
//! control that NVIDIA publishes for its network adapters (DOCA PCC, `rtt_template`, 2026). The default
//! algorithms of these adapters are not public.
//!
//! ```text
//!  per sample   least = min(least, delay); reset after `forget_samples` samples
//!               marked, or delay >= max_delay:         rate = rate (1 - 2 decrease)
//!               delay - least > allowed_delay:         rate = rate (1 - decrease)
//!               else                                   rate += additive_increase
//! ```
//!
//! A new least delay counts in full: its sample compares the delay itself with `allowed_delay`, as in the template.
//!
//! An adapter sends the next probe of a flow after the answer to the previous probe. Here, data packets and
//! their acknowledgements replace probes: each sample is the delay of a packet that was sent after the
//! previous sample. A sample is marked if any acknowledgement since the previous sample was marked. The
//! template reads notification packets instead.
//!
//! Three parts of the template are omitted. The template repeats lost probes and reads negative
//! acknowledgements, which occur only with loss. A compile-time option doubles the decrease while the port of
//! the adapter is busy.
//!
//! Rates are in units of 2^-30 of the link's rate.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::saved::Saved;
use silvan_engine::{Rate, Time};

use super::paced::{LINE, Paced, PacedFlow, RateLaw, part};
use super::{Properties, ReactionParameters, Source};
use crate::LinkLayer;
use crate::facts::{Answer, Mark};
use crate::unfit::{Check, Limits, ensure, ensure_time};

/// Parameters of a rate controlled by probes of the round-trip time; the defaults are those of the template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PccRtt {
    /// Share by which a decrease lowers the rate, in thousandths (UPDATE_FACTOR). A mark lowers the rate by
    /// twice this share.
    #[schemars(range(min = 1, max = 499))]
    pub decrease_permille: u16,
    /// Difference between a delay and the least delay, above which the rate decreases (BASE_RELATIVE_RTT).
    pub allowed_delay: Time,
    /// Delay from which a sample counts as marked (MAX_DELAY).
    pub max_delay: Time,
    /// Increment of the rate for a sample that causes no decrease (AI); by default 5 % of the rate of the
    /// host's link.
    pub additive_increase: Option<Rate>,
    /// The lowest rate of a flow (MIN_RATE); by default 2^-14 of the rate of the host's link.
    pub min_rate: Option<Rate>,
    /// Number of samples after which the least delay is reset, because the route may have changed; 0 for
    /// never. The template resets it if the low eight bits of the adapter's clock in nanoseconds are zero,
    /// which holds for one of 256 samples on average.
    pub forget_samples: u16,
}

impl Default for PccRtt {
    fn default() -> Self {
        Self {
            decrease_permille: 100,
            allowed_delay: Time::from_us(13),
            max_delay: Time::from_us(150),
            additive_increase: None,
            min_rate: None,
            forget_samples: 256,
        }
    }
}

impl ReactionParameters for PccRtt {
    fn properties(&self) -> Properties {
        Properties { link_layer: Some(LinkLayer::Ethernet), ..Properties::ACKNOWLEDGED }
    }

    fn check(&self, _limits: &Limits) -> Check {
        ensure_time("allowed_delay", Some(self.allowed_delay))?;
        ensure_time("max_delay", Some(self.max_delay))?;
        ensure(self.allowed_delay <= self.max_delay, "allowed_delay", || {
            format!("must be at most `max_delay`, {}", self.max_delay)
        })?;
        for (key, rate) in [("additive_increase", self.additive_increase), ("min_rate", self.min_rate)] {
            ensure(rate != Some(Rate(0)), key, || {
                "must be more than 0 bit/s; with 0, flows do not recover".to_owned()
            })?;
        }
        Ok(())
    }
}

impl PccRtt {
    /// The rule of a host.
    pub(super) fn rule(&self, source: &Source) -> Option<PccRttRule> {
        Some(self.rule_of_link(source.rate, source.header()))
    }

    fn rule_of_link(&self, link: Rate, header: u32) -> PccRttRule {
        let share = |rate: Option<Rate>, of: u32| rate.map_or(LINE / of, |rate| part(rate, link));
        let law = PccRttLaw {
            decrease: self.decrease_permille.into(),
            allowed: self.allowed_delay,
            longest: self.max_delay,
            additive: share(self.additive_increase, 20),
            slowest: share(self.min_rate, 1 << 14),
            forget: self.forget_samples,
        };
        Paced::new(law, link, header)
    }
}

/// The least delay of a flow before its first sample (INITIAL_MIN_RTT).
const INITIAL: Time = Time::from_us(200);

/// The rule of one host.
pub type PccRttRule = Paced<PccRttLaw>;

/// The law of one host. Rates are fractions of its link's rate.
#[derive(Debug, Clone, Copy)]
pub struct PccRttLaw {
    /// In thousandths.
    decrease: u64,
    allowed: Time,
    longest: Time,
    additive: u32,
    slowest: u32,
    forget: u16,
}

/// The state of a flow.
#[derive(Debug, Clone, Copy, Saved)]
pub struct PccRttState {
    #[saved(span)]
    least: Time,
    /// Samples since the least delay was reset.
    samples: u16,
    /// Whether an acknowledgement since the last sample was marked.
    is_marked: bool,
}

impl PccRttLaw {
    fn sample(&self, flow: &mut PacedFlow<PccRttState>, delay: Time) {
        let state = &mut flow.law;
        state.samples = state.samples.saturating_add(1);
        if state.samples == self.forget {
            (state.least, state.samples) = (INITIAL, 0);
        }
        if state.is_marked || delay >= self.longest {
            state.is_marked = false;
            self.decrease(flow, 2);
            return;
        }
        let above = if delay < state.least { delay } else { delay - state.least };
        state.least = state.least.min(delay);
        if above > self.allowed {
            self.decrease(flow, 1);
        } else {
            flow.rate = flow.rate.saturating_add(self.additive).min(LINE);
        }
    }

    fn decrease(&self, flow: &mut PacedFlow<PccRttState>, times: u64) {
        let kept = u64::from(flow.rate) * (1_000 - times * self.decrease) / 1_000;
        flow.rate = (kept as u32).max(self.slowest);
    }
}

impl RateLaw for PccRttLaw {
    type State = PccRttState;

    fn fresh(&self) -> PccRttState {
        PccRttState { least: INITIAL, samples: 0, is_marked: false }
    }

    fn acknowledged(&self, flow: &mut PacedFlow<PccRttState>, answer: &Answer) {
        flow.law.is_marked |= answer.mark == Mark::Hot;
        if flow.progress.completes_round() {
            self.sample(flow, answer.now - answer.sent_at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ReactionRule;
    use super::super::trial::{answer, next, sent};
    use super::*;

    fn rule(given: &PccRtt) -> PccRttRule {
        given.rule_of_link(Rate::from_gbit(100), 26)
    }

    /// The acknowledgement of a packet of 1,000 bytes after a delay.
    fn ack(mark: Mark, us: u64) -> Answer<'static> {
        Answer { bytes: 974, ..answer(mark, 0, us * 1_000_000) }
    }

    /// Answers each packet before the next is sent, so every answer is a sample. Returns the rates in percent of the link.
    fn rates(rule: &PccRttRule, state: &mut PacedFlow<PccRttState>, samples: &[(char, u64)]) -> Vec<f64> {
        let mut rates = Vec::new();
        for &(mark, us) in samples {
            rule.sent(state, &sent(0, 1_000));
            rule.answered(state, 0, &ack(Mark::of_letter(mark), us));
            rates.push((f64::from(state.rate) / f64::from(LINE) * 1e8).round() / 1e6);
        }
        rates
    }

    #[test]
    fn a_delay_above_the_least_one_decreases_the_rate() {
        let rule = rule(&PccRtt::default());
        let mut state = rule.fresh(0);
        // Delays may exceed the smallest one, 10 us, by up to 13 us.
        let found =
            rates(&rule, &mut state, &[('C', 10), ('C', 24), ('C', 24), ('C', 23), ('C', 10), ('C', 10)]);
        assert_eq!(found, [100.0, 90.0, 81.0, 86.0, 91.0, 96.0]);
    }

    #[test]
    fn a_new_least_delay_counts_in_full() {
        let rule = rule(&PccRtt::default());
        let mut state = rule.fresh(0);
        let found = rates(&rule, &mut state, &[('C', 20), ('C', 20), ('C', 14), ('C', 13)]);
        assert_eq!(found, [90.0, 95.0, 85.5, 90.5]);
        assert_eq!(state.law.least, Time::from_us(13));
    }

    #[test]
    fn marks_and_long_delays_count_twice() {
        let rule = rule(&PccRtt { decrease_permille: 200, ..PccRtt::default() });
        let mut state = rule.fresh(0);
        let found = rates(&rule, &mut state, &[('H', 10), ('C', 10), ('C', 150), ('C', 149)]);
        // A marked sample contributes no delay, so 10 us is a new least delay after it.
        assert_eq!(found, [60.0, 65.0, 39.0, 31.2]);
        assert_eq!(state.law.least, Time::from_us(10));
    }

    #[test]
    fn a_mark_between_samples_counts_at_the_next_one() {
        let rule = rule(&PccRtt::default());
        let mut state = rule.fresh(0);
        (0..3).for_each(|_| rule.sent(&mut state, &sent(0, 1_000)));
        rule.answered(&mut state, 0, &ack(Mark::Cold, 10));
        rule.answered(&mut state, 0, &ack(Mark::Hot, 10));
        assert_eq!(state.rate, LINE, "no packet sent after the sample is back");
        rule.answered(&mut state, 0, &ack(Mark::Cold, 10));
        rule.sent(&mut state, &sent(0, 1_000));
        rule.answered(&mut state, 0, &ack(Mark::Cold, 10));
        assert_eq!(state.rate, (u64::from(LINE) * 4 / 5) as u32);
    }

    #[test]
    fn the_least_delay_is_forgotten() {
        let rule = rule(&PccRtt { forget_samples: 3, ..PccRtt::default() });
        let mut state = rule.fresh(0);
        // The third sample resets the least delay to 200 us. Its delay is a new least delay and counts in full.
        let found = rates(&rule, &mut state, &[('C', 8), ('C', 20), ('C', 20), ('C', 20)]);
        assert_eq!(found, [100.0, 100.0, 90.0, 95.0]);
    }

    #[test]
    fn rates_stay_between_the_lowest_rate_and_the_link() {
        let rule = rule(&PccRtt { min_rate: Some(Rate::from_gbit(20)), ..PccRtt::default() });
        let mut state = rule.fresh(0);
        rates(&rule, &mut state, &[('H', 10); 20]);
        assert_eq!(state.rate, LINE / 5);
        assert_eq!(rule.strength(&state, 0, Time::ZERO), 4);
        // 1,000 bytes take 80 ns at the full rate and 400 ns at a fifth of it.
        rule.sent(&mut state, &sent(80_000, 1_000));
        assert_eq!(rule.may_send_at(&state, 0, &next(0)), Some(Time(400_000)));
        let rule = self::rule(&PccRtt::default());
        assert_eq!((rule.law.slowest, rule.law.additive), (1 << 16, LINE / 20));
    }
}
