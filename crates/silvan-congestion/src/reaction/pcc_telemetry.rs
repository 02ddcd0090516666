//! A rate controlled by the telemetry of switches. It models the template for programmable congestion control
//! that NVIDIA publishes for its network adapters (DOCA PCC, `switch_telemetry`, 2026).
//!
//! ```text
//!  per sample   used = bytes sent by the output since the last sample / (time x rate)
//!               queue of the output > `queue`:   rate = rate (1 - decrease)
//!               used < busy:                     rate += hyper_increase
//!               else                             rate += additive_increase
//! ```
//!
//! The template reads one output per route, the last one; `hop = "longest-queue"` reads the output with the
//! most bytes in its queues instead. The used share follows from two samples of the same output. A sample
//! that is the first one of a flow, comes from another output or is older than the last sample can therefore
//! only decrease the rate.
//!
//! An adapter sends the next probe of a flow after the answer to the previous probe. Here, data packets and
//! their acknowledgements replace probes: each sample is the telemetry of a packet that was sent after the
//! previous sample. The template also receives notification packets and negative acknowledgements, but does
//! not use them.
//!
//! Rates are in units of 2^-30 of the link's rate.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::saved::Saved;
use silvan_engine::{Bytes, Rate};

use super::paced::{LINE, Paced, PacedFlow, RateLaw, part};
use super::{Properties, ReactionParameters, Source};
use crate::LinkLayer;
use crate::facts::{Answer, Hops, Telemetry};
use crate::unfit::{Check, Limits, ensure};

/// The output of a route whose telemetry is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SampledHop {
    /// The last output, whose link leads to the receiving host.
    #[default]
    Last,
    /// The output with the most bytes in its queues; of several, the first.
    LongestQueue,
}

/// Parameters of a rate controlled by the telemetry of switches; the defaults are those of the template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PccTelemetry {
    /// The output of a route whose telemetry is used.
    pub hop: SampledHop,
    /// Bytes in the queues of the output above which the rate decreases (BASE_QLEN).
    pub queue: Bytes,
    /// Share by which a decrease lowers the rate, in thousandths (UPDATE_FACTOR).
    #[schemars(range(min = 1, max = 999))]
    pub decrease_permille: u16,
    /// Used share of the output's link below which the rate grows by `hyper_increase`, in thousandths (TX_RATE_TH).
    #[schemars(range(max = 1000))]
    pub busy_permille: u16,
    /// Increment of the rate if the link is busy (AI); by default 40 x 2^-20 of the rate of the host's link.
    pub additive_increase: Option<Rate>,
    /// Increment of the rate if the link is not busy (HAI); by default 2^-7 of the rate of the host's link.
    pub hyper_increase: Option<Rate>,
    /// The lowest rate of a flow (MIN_RATE); by default 2^-14 of the rate of the host's link.
    pub min_rate: Option<Rate>,
}

impl Default for PccTelemetry {
    fn default() -> Self {
        Self {
            hop: SampledHop::Last,
            queue: Bytes(200_000),
            decrease_permille: 100,
            busy_permille: 800,
            additive_increase: None,
            hyper_increase: None,
            min_rate: None,
        }
    }
}

impl ReactionParameters for PccTelemetry {
    fn properties(&self) -> Properties {
        Properties {
            link_layer: Some(LinkLayer::Ethernet),
            needs_telemetry: true,
            reads_telemetry: true,
            needs_one_route: self.hop == SampledHop::LongestQueue,
            ..Properties::ACKNOWLEDGED
        }
    }

    fn check(&self, _limits: &Limits) -> Check {
        let most = Bytes(1 << 30);
        ensure(self.queue <= most, "queue", || format!("must be at most {most}"))?;
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

impl PccTelemetry {
    /// The rule of a host.
    pub(super) fn rule(&self, source: &Source) -> Option<PccTelemetryRule> {
        Some(self.rule_of_link(source.rate, source.header()))
    }

    fn rule_of_link(&self, link: Rate, header: u32) -> PccTelemetryRule {
        let share = |rate: Option<Rate>, usual: u32| rate.map_or(usual, |rate| part(rate, link));
        let law = PccTelemetryLaw {
            hop: self.hop,
            queue: u32::try_from(self.queue.0).unwrap_or(u32::MAX),
            decrease: self.decrease_permille.into(),
            busy: self.busy_permille.into(),
            additive: share(self.additive_increase, 40 << 10),
            hyper: share(self.hyper_increase, LINE >> 7),
            slowest: share(self.min_rate, LINE >> 14),
        };
        Paced::new(law, link, header)
    }
}

/// Thousandths of a picosecond that a byte takes at 1 bit/s.
const PERMILLE_PS_PER_BYTE: u128 = 8_000_000_000_000_000;

/// The rule of one host.
pub type PccTelemetryRule = Paced<PccTelemetryLaw>;

/// The law of one host. Rates are fractions of its link's rate.
#[derive(Debug, Clone, Copy)]
pub struct PccTelemetryLaw {
    hop: SampledHop,
    queue: u32,
    /// In thousandths.
    decrease: u64,
    /// In thousandths.
    busy: u128,
    additive: u32,
    hyper: u32,
    slowest: u32,
}

/// The state of a flow.
#[derive(Debug, Clone, PartialEq, Eq, Saved)]
pub struct PccTelemetryState {
    /// Telemetry of the last sample.
    hops: Hops,
}

impl PccTelemetryLaw {
    /// The telemetry of the last sample at the selected position of the route, if any, and the current
    /// telemetry there. `None` if there is no current telemetry.
    fn chosen<'a>(
        &self,
        before: &'a [Telemetry],
        now: &'a [Telemetry],
    ) -> Option<(Option<&'a Telemetry>, &'a Telemetry)> {
        if self.hop == SampledHop::Last {
            return Some((before.last(), now.last()?));
        }
        let longest = now.iter().map(|hop| hop.queue_bytes).max()?;
        let at = now.iter().position(|hop| hop.queue_bytes == longest)?;
        let before = if before.len() == now.len() { before.get(at) } else { None };
        Some((before, &now[at]))
    }

    /// Whether less than the busy share of the output's rate was used between two samples; `None` if they cannot be
    /// compared.
    fn has_room(&self, before: &Telemetry, now: &Telemetry) -> Option<bool> {
        let tau = now.time.0.checked_sub(before.time.0).filter(|&tau| tau > 0)?;
        let sent = now.sent_bytes.checked_sub(before.sent_bytes)?;
        let used = u128::from(sent) * PERMILLE_PS_PER_BYTE;
        (now.rate == before.rate).then(|| used < self.busy * u128::from(now.rate.0) * u128::from(tau))
    }

    fn sample(&self, flow: &mut PacedFlow<PccTelemetryState>, hops: &[Telemetry]) {
        let Some((before, now)) = self.chosen(&flow.law.hops, hops) else { return };
        if now.queue_bytes > self.queue {
            let kept = u64::from(flow.rate) * (1_000 - self.decrease) / 1_000;
            flow.rate = (kept as u32).max(self.slowest);
            return;
        }
        let step = match before.and_then(|before| self.has_room(before, now)) {
            Some(true) => self.hyper,
            Some(false) => self.additive,
            None => 0,
        };
        flow.rate = flow.rate.saturating_add(step).min(LINE);
    }
}

impl RateLaw for PccTelemetryLaw {
    type State = PccTelemetryState;

    fn fresh(&self) -> PccTelemetryState {
        PccTelemetryState { hops: Hops::new() }
    }

    fn acknowledged(&self, flow: &mut PacedFlow<PccTelemetryState>, answer: &Answer) {
        if flow.progress.completes_round() {
            self.sample(flow, answer.hops);
            flow.law.hops.clear();
            flow.law.hops.extend_from_slice(answer.hops);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ReactionRule;
    use super::super::trial::{answer, sent};
    use super::*;
    use crate::facts::Mark;
    use silvan_engine::Time;

    fn rule(given: &PccTelemetry) -> PccTelemetryRule {
        given.rule_of_link(Rate::from_gbit(100), 26)
    }

    fn hop(ns: u64, sent_bytes: u64, queue_bytes: u32) -> Telemetry {
        Telemetry { time: Time::from_ns(ns), sent_bytes, queue_bytes, rate: Rate::from_gbit(100) }
    }

    /// Sends a packet of 1,000 bytes, and answers it with telemetry, so that it is a sample. Returns the rate in 2^-20 of
    /// the link's rate.
    fn exchange(
        rule: &PccTelemetryRule,
        state: &mut PacedFlow<PccTelemetryState>,
        hops: &[Telemetry],
    ) -> u32 {
        rule.sent(state, &sent(0, 1_000));
        rule.answered(state, 0, &Answer { bytes: 974, hops, ..answer(Mark::Hot, 0, 0) });
        state.rate >> 10
    }

    #[test]
    fn a_long_queue_decreases_and_a_busy_link_slows_the_increase() {
        let rule = rule(&PccTelemetry::default());
        let mut state = rule.fresh(0);
        state.rate = LINE / 2;
        // The link carries 12,500 bytes in 1 us. Of them, 10,000 are the busy share.
        let found = [
            hop(0, 0, 0),
            hop(1_000, 9_999, 200_000),
            hop(2_000, 19_999, 200_000),
            hop(3_000, 19_999, 200_001),
        ]
        .map(|hop| exchange(&rule, &mut state, &[hop]));
        let half = 1 << 19;
        assert_eq!(found, [half, half + 8_192, half + 8_192 + 40, (half + 8_192 + 40) * 9 / 10]);
    }

    #[test]
    fn the_last_hop_counts_or_that_with_the_longest_queue() {
        let before = [hop(0, 0, 0), hop(0, 0, 0), hop(0, 0, 0)];
        let now = [hop(1_000, 0, 7_000), hop(1_000, 12_500, 9_000), hop(1_000, 100, 0)];
        let last = rule(&PccTelemetry::default());
        assert_eq!(last.law.chosen(&before, &now), Some((Some(&before[2]), &now[2])));
        assert_eq!(last.law.chosen(&[], &now), Some((None, &now[2])));
        assert_eq!(last.law.chosen(&before, &[]), None);
        let longest = rule(&PccTelemetry { hop: SampledHop::LongestQueue, ..PccTelemetry::default() });
        assert_eq!(longest.law.chosen(&before, &now), Some((Some(&before[1]), &now[1])));
        assert_eq!(longest.law.chosen(&before[..2], &now), Some((None, &now[1])), "another route");
        assert_eq!(
            longest.law.chosen(&before, &before),
            Some((Some(&before[0]), &before[0])),
            "the first of several"
        );
    }

    #[test]
    fn samples_that_cannot_be_compared_only_decrease() {
        let rule = rule(&PccTelemetry::default());
        let half = 1 << 19;
        let slow = Telemetry { rate: Rate::from_gbit(25), ..hop(2_000, 5_000, 0) };
        for other in [hop(1_000, 5_000, 0), hop(2_000, 4_999, 0), slow] {
            let mut state = rule.fresh(0);
            state.rate = LINE / 2;
            let found = [hop(1_000, 5_000, 0), other].map(|hop| exchange(&rule, &mut state, &[hop]));
            assert_eq!(found, [half, half]);
            let queue = hop(9_000, 9_000, 300_000);
            assert_eq!(exchange(&rule, &mut state, &[queue]), half * 9 / 10);
        }
    }

    #[test]
    fn only_one_answer_of_a_round_trip_is_a_sample() {
        let rule = rule(&PccTelemetry { min_rate: Some(Rate::from_gbit(85)), ..PccTelemetry::default() });
        let mut state = rule.fresh(0);
        (0..3).for_each(|_| rule.sent(&mut state, &sent(0, 1_000)));
        let hops = [hop(1_000, 5_000, 300_000)];
        let ack = Answer { bytes: 974, hops: &hops, ..answer(Mark::Cold, 0, 0) };
        (0..3).for_each(|_| rule.answered(&mut state, 0, &ack));
        assert_eq!(state.rate, (u64::from(LINE) * 9 / 10) as u32);
        exchange(&rule, &mut state, &hops);
        assert_eq!(state.rate, (u64::from(LINE) * 85 / 100) as u32, "the lowest rate");
    }
}
