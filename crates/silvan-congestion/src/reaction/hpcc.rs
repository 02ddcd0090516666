//! HPCC (Li et al., HPCC: High Precision Congestion Control, SIGCOMM 2019, algorithm 1), with one rate per flow.
//!
//! ```text
//!  per hop      u = bytes sent since the last telemetry / (time x rate) + min(queue, queue before) / (rate x T)
//!  per answer   U = U + (max u - U) tau / T             tau: that time at the hop of the maximum, at most T
//!               U >= eta, or stage >= max_stage:        R = Rc eta / U + additive_increase,   stage' = 0
//!               else                                    R = Rc + additive_increase,           stage' = stage + 1
//!  once per     Rc = R, stage = stage'
//!  round trip
//! ```
//!
//! A flow sends at the rate R while less than R x T is in flight, where T is the network's round trip without load. Two
//! kinds of answers only supply telemetry for the next comparison: the first answer of a flow, and an answer whose
//! telemetry comes from other switches than that of the previous answer.
//!
//! Rates are in units of 2^-30 of the link's rate, utilizations in units of 2^-20.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::saved::Saved;
use silvan_engine::{Rate, Time};

use super::paced::{LINE, Paced, PacedFlow, RateLaw, part};
use super::{Properties, ReactionParameters, Source};
use crate::LinkLayer;
use crate::facts::{Answer, Hops, Telemetry};
use crate::unfit::{Check, Limits, ensure, ensure_time};

/// Parameters of HPCC; the defaults are those of the paper (section 5.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Hpcc {
    /// Target utilization of links, in percent (eta).
    #[schemars(range(min = 1, max = 100))]
    pub utilization_percent: u8,
    /// Maximum number of consecutive round trips with only an additive increase (maxStage). The next round trip adjusts
    /// the rate by the measured utilization. With 0, every round trip does.
    #[schemars(range(max = 200))]
    pub max_stage: u8,
    /// Amount that is added to the reference rate Rc; by default 10 Mbit/s per 25 Gbit/s of the host's link.
    pub additive_increase: Option<Rate>,
    /// The lowest rate of a flow; by default 1 % of the rate of the host's link.
    pub min_rate: Option<Rate>,
    /// Round trip without load, T; by default that of the longest route between hosts that communicate.
    pub round_trip: Option<Time>,
}

impl Default for Hpcc {
    fn default() -> Self {
        Self {
            utilization_percent: 95,
            max_stage: 5,
            additive_increase: None,
            min_rate: None,
            round_trip: None,
        }
    }
}

impl ReactionParameters for Hpcc {
    fn properties(&self) -> Properties {
        Properties {
            link_layer: Some(LinkLayer::Ethernet),
            needs_round_trip: self.round_trip.is_none(),
            needs_telemetry: true,
            reads_telemetry: true,
            needs_one_route: true,
            ..Properties::ACKNOWLEDGED
        }
    }

    fn check(&self, _limits: &Limits) -> Check {
        for (key, rate) in [("additive_increase", self.additive_increase), ("min_rate", self.min_rate)] {
            ensure(rate != Some(Rate(0)), key, || {
                "must be more than 0 bit/s; with 0, flows do not recover".to_owned()
            })?;
        }
        ensure_time("round_trip", self.round_trip)
    }
}

impl Hpcc {
    /// The rule of a host.
    pub(super) fn rule(&self, source: &Source) -> Option<HpccRule> {
        let round_trip = self.round_trip.unwrap_or_else(|| source.shortest_round_trip());
        Some(self.rule_of_link(source.rate, round_trip.max(Time(1)), source.header()))
    }

    fn rule_of_link(&self, link: Rate, round_trip: Time, header: u32) -> HpccRule {
        let share = |rate: Option<Rate>, of: u32| rate.map_or(LINE / of, |rate| part(rate, link));
        let law = HpccLaw {
            target: ONE * u64::from(self.utilization_percent) / 100,
            max_stage: self.max_stage,
            additive: share(self.additive_increase, 2_500),
            least: share(self.min_rate, 100),
            round_trip: round_trip.0,
            line_window: link.bytes_in(round_trip),
        };
        Paced::new(law, link, header)
    }
}

/// A utilization of 1.
const ONE: u64 = 1 << 20;

/// Picoseconds that a byte takes at 1 bit/s.
const PS_PER_BYTE: u128 = 8_000_000_000_000;

/// The rule of one host.
pub type HpccRule = Paced<HpccLaw>;

/// The law of one host. Rates are fractions of its link's rate.
#[derive(Debug, Clone, Copy)]
pub struct HpccLaw {
    target: u64,
    max_stage: u8,
    additive: u32,
    least: u32,
    round_trip: u64,
    /// Bytes of a window at the rate of the link.
    line_window: u64,
}

/// The state of a flow.
#[derive(Debug, Clone, PartialEq, Eq, Saved)]
pub struct HpccState {
    /// Rc.
    reference: u32,
    /// Number of consecutive round trips with only an additive increase.
    stage: u8,
    /// U.
    utilization: u64,
    /// Telemetry of the last answer.
    hops: Hops,
}

/// The used share of a hop's rate, in units of 2^-20, and the time between the telemetry of two packets in
/// picoseconds. `None` if the second telemetry is not later, or if its rate or number of sent bytes shows
/// that it comes from another output.
fn utilization(before: &Telemetry, now: &Telemetry, round_trip: u64) -> Option<(u64, u64)> {
    let tau = now.time.0.checked_sub(before.time.0).filter(|&tau| tau > 0)?;
    let sent = now.sent_bytes.checked_sub(before.sent_bytes)?;
    if now.rate != before.rate {
        return None;
    }
    let of_rate = |bytes: u64, time: u64| {
        let part = u128::from(bytes) * PS_PER_BYTE * u128::from(ONE);
        (part / (u128::from(now.rate.0.max(1)) * u128::from(time))) as u64
    };
    let queue = now.queue_bytes.min(before.queue_bytes);
    Some((of_rate(sent, tau) + of_rate(queue.into(), round_trip), tau))
}

impl HpccLaw {
    /// The greatest utilization of the hops, and the time between the two packets at that hop; `None` if the hops
    /// cannot be compared.
    fn busiest(&self, before: &[Telemetry], now: &[Telemetry]) -> Option<(u64, u64)> {
        if before.len() != now.len() {
            return None;
        }
        let mut most = (0, 0);
        for (before, now) in before.iter().zip(now) {
            let found = utilization(before, now, self.round_trip)?;
            if found.0 > most.0 {
                most = found;
            }
        }
        Some(most)
    }

    /// Adapts the rate to the utilization of the hops.
    fn adapt(&self, flow: &mut PacedFlow<HpccState>, (most, tau): (u64, u64)) {
        let state = &mut flow.law;
        let (trip, tau) = (u128::from(self.round_trip), u128::from(tau.min(self.round_trip)));
        let mean = (u128::from(state.utilization) * (trip - tau) + u128::from(most) * tau) / trip;
        state.utilization = mean as u64;
        let is_additive = state.utilization < self.target && state.stage < self.max_stage;
        let kept = if is_additive {
            u64::from(state.reference)
        } else {
            u64::from(state.reference) * self.target / state.utilization.max(1)
        };
        let rate = kept.saturating_add(u64::from(self.additive));
        flow.rate = rate.clamp(u64::from(self.least), u64::from(LINE)) as u32;
        if flow.progress.completes_round() {
            state.reference = flow.rate;
            state.stage = if is_additive { state.stage + 1 } else { 0 };
        }
    }
}

impl RateLaw for HpccLaw {
    type State = HpccState;

    fn fresh(&self) -> HpccState {
        HpccState { reference: LINE, stage: 0, utilization: ONE, hops: Hops::new() }
    }

    fn acknowledged(&self, flow: &mut PacedFlow<HpccState>, answer: &Answer) {
        match self.busiest(&flow.law.hops, answer.hops) {
            Some(found) if !flow.law.hops.is_empty() => self.adapt(flow, found),
            _ => {
                flow.progress.completes_round();
            }
        }
        flow.law.hops.clear();
        flow.law.hops.extend_from_slice(answer.hops);
    }

    fn window(&self, flow: &PacedFlow<HpccState>) -> u64 {
        ((u128::from(self.line_window) * u128::from(flow.rate)) >> 30).max(1) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::super::ReactionRule;
    use super::super::trial::{answer, next, sent};
    use super::*;
    use crate::facts::Mark;

    /// The rule for a link of 100 Gbit/s (12.5 bytes per ns), T = 10 us, and headers of 26 bytes.
    fn rule(given: &Hpcc) -> HpccRule {
        given.rule_of_link(Rate::from_gbit(100), Time::from_us(10), 26)
    }

    fn hop(ns: u64, sent_bytes: u64, queue_bytes: u32) -> Telemetry {
        Telemetry { time: Time::from_ns(ns), sent_bytes, queue_bytes, rate: Rate::from_gbit(100) }
    }

    fn share(part: u32) -> f64 {
        f64::from(part) / f64::from(LINE)
    }

    /// The acknowledgement of a packet of 1,000 bytes.
    fn ack(hops: &[Telemetry]) -> Answer<'_> {
        Answer { bytes: 974, hops, ..answer(Mark::Cold, 0, 0) }
    }

    /// Sends a packet of 1,000 bytes, and answers it with telemetry.
    fn exchange(rule: &HpccRule, state: &mut PacedFlow<HpccState>, hops: &[Telemetry]) {
        rule.sent(state, &sent(0, 1_000));
        rule.answered(state, 0, &ack(hops));
    }

    #[test]
    fn utilization_adds_the_rate_and_the_smaller_queue() {
        // 5,000 bytes in 500 ns are 0.8 of the rate, and 25,000 bytes are 0.2 of the 125,000 bytes that fit into T.
        let of = |queue| utilization(&hop(1_000, 0, 25_000), &hop(1_500, 5_000, queue), 10_000_000);
        let part = |found: Option<(u64, u64)>| found.map(|(part, tau)| (part * 1_000 / ONE, tau));
        assert_eq!(part(of(60_000)), Some((999, 500_000)), "0.8 and 0.2, each rounded down");
        assert_eq!(part(of(0)), Some((799, 500_000)));
        assert_eq!(utilization(&hop(5, 9, 0), &hop(5, 9, 0), 1), None, "not later");
        assert_eq!(utilization(&hop(5, 9, 0), &hop(6, 8, 0), 1), None, "another output");
    }

    #[test]
    fn the_busiest_hop_counts_and_a_change_of_route_starts_anew() {
        let rule = rule(&Hpcc::default());
        let before = [hop(0, 0, 0), hop(0, 0, 0)];
        let (most, tau) = rule.law.busiest(&before, &[hop(1_000, 2_500, 0), hop(2_000, 12_500, 0)]).unwrap();
        assert_eq!((most, tau), (ONE / 2, 2_000_000));
        assert_eq!(rule.law.busiest(&before, &[hop(1_000, 2_500, 0)]), None);
        let mut state = rule.fresh(0);
        exchange(&rule, &mut state, &before);
        exchange(&rule, &mut state, &[hop(1_000, 2_500, 0)]);
        assert_eq!((state.rate, state.law.hops.len()), (LINE, 1));
    }

    #[test]
    fn a_rate_follows_the_utilization_from_its_reference() {
        let given = Hpcc { max_stage: 0, additive_increase: Some(Rate::from_gbit(1)), ..Hpcc::default() };
        let rule = rule(&given);
        let mut state = rule.fresh(0);
        // Ten packets are in flight, so the first answers belong to the same round trip.
        (0..10).for_each(|_| rule.sent(&mut state, &sent(0, 1_000)));
        rule.answered(&mut state, 0, &ack(&[hop(0, 0, 0)]));
        // At the third answer, the link is full and has T of queue, so u = 2. Since the second, 5 us of T
        // have passed, so U = (1 + 2) / 2.
        rule.answered(&mut state, 0, &ack(&[hop(5_000, 62_500, 125_000)]));
        assert_eq!(state.law.utilization, ONE, "the smaller queue is empty");
        rule.answered(&mut state, 0, &ack(&[hop(10_000, 125_000, 125_000)]));
        assert_eq!(state.law.utilization, ONE * 3 / 2);
        assert!((share(state.rate) - (0.95 / 1.5 + 0.01)).abs() < 1e-6, "{}", share(state.rate));
        assert_eq!(state.law.reference, LINE, "the round trip lasts");
        let expected = state.rate;
        // Another answer with the same utilization leads to the same rate, because the reference is the same.
        rule.answered(&mut state, 0, &ack(&[hop(10_001, 125_000 + 19, 125_000)]));
        assert!((share(state.rate) - share(expected)).abs() < 1e-3);
        (0..6).for_each(|_| rule.answered(&mut state, 0, &ack(&[])));
        rule.sent(&mut state, &sent(0, 1_000));
        rule.answered(&mut state, 0, &ack(&[hop(20_000, 250_000, 0)]));
        rule.answered(&mut state, 0, &ack(&[hop(30_000, 375_000, 0)]));
        assert_eq!(state.law.utilization, ONE);
    }

    #[test]
    fn stages_of_additive_increase_end_with_one_by_utilization() {
        let given = Hpcc { max_stage: 2, additive_increase: Some(Rate::from_gbit(10)), ..Hpcc::default() };
        let rule = rule(&given);
        let mut state = rule.fresh(0);
        (state.rate, state.law.reference) = (LINE / 4, LINE / 4);
        // Half of the link is used. Each answer ends a round trip of 10 us.
        let mut rates = Vec::new();
        for round in 0..5 {
            exchange(&rule, &mut state, &[hop(10_000 * round, 62_500 * round, 0)]);
            rates.push((share(state.law.reference) * 1e4).round() / 1e4);
        }
        // The changes are + 0.1, + 0.1, x 0.95 / 0.5 + 0.1, and + 0.1, which reaches the limit.
        assert_eq!(rates, [0.25, 0.35, 0.45, 0.955, 1.0]);
        assert_eq!(state.law.stage, 1);
    }

    #[test]
    fn a_flow_sends_while_less_than_its_window_is_in_flight() {
        let rule = rule(&Hpcc::default());
        let mut state = rule.fresh(0);
        assert_eq!(rule.law.window(&state), 125_000);
        state.rate = LINE / 100;
        assert_eq!(rule.law.window(&state), 1_249);
        rule.sent(&mut state, &sent(80_000, 1_000));
        // 1,000 bytes take 80 ns at the full rate and 8 us at a hundredth of it, so the next packet is due 8 us
        // after the start of this one.
        let due = rule.may_send_at(&state, 0, &next(0)).unwrap();
        assert!((due.0 as i64 - 8_000_000).abs() < 10, "{due}");
        rule.sent(&mut state, &sent(80_000, 1_000));
        assert_eq!(rule.may_send_at(&state, 0, &next(0)), None);
        assert_eq!(rule.strength(&state, 0, Time::ZERO), 99, "a hundredth of the link");
    }
}
