//! Swift: a window controlled by a target delay (Kumar et al., Swift: Delay is Simple and Effective for Congestion
//! Control in the Datacenter, SIGCOMM 2020, section 3). Only the delay of the fabric is modeled.
//!
//! ```text
//!  target = base_target + per_hop x switches + flow scaling
//!  flow scaling = range (1 / sqrt(window) - 1 / sqrt(most)) / (1 / sqrt(least) - 1 / sqrt(most)), from 0 to range
//!
//!  delay < target         window += increase / window per acknowledged packet; += increase, if it is less than 1
//!  delay >= target        window = window max(1 - beta (delay - target) / delay, 1 - max_decrease),
//!                         if the time since the last decrease is at least the delay
//! ```
//!
//! The last condition means that the packet was sent after the last decrease: a window of data causes one decrease, even
//! while delays grow. A loss decreases the window by `max_decrease` under the same condition (section 3.5).
//!
//! The window counts packets. If the window is less than one packet, one packet may be sent every delay / window. The
//! number of switches comes from the telemetry of an answer or, if switches do not stamp packets, from the longest route
//! between hosts that communicate. A window grows only while at least half of it is in flight.
//!
//! The published constants depend on the data center. The defaults here are multiples of the minimum delay, as in the
//! model of csg-htsim (`swift.cpp`, 2026), whose author calls them estimates: base_target is the round trip
//! without load, per_hop is base_target / 6.55, and the range of flow scaling is 5 base_target.
//!
//! Windows are in units of 2^-16 packets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::Time;
use silvan_engine::saved::Saved;

use super::{Properties, ReactionParameters, ReactionRule, Source};
use crate::LinkLayer;
use crate::facts::{Answer, Lost, Next, Sent};
use crate::unfit::{Check, Limits, ensure, ensure_time};

/// Parameters of Swift.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Swift {
    /// Target delay before the additions for hops and window; by default the round trip without load, over the longest
    /// route between hosts that communicate.
    pub base_target: Option<Time>,
    /// Addition to the target for each switch on the route; by default the base target divided by 6.55.
    pub per_hop: Option<Time>,
    /// Maximum addition to the target by flow scaling; by default five times the base target. `"0 s"` disables flow
    /// scaling.
    pub flow_scaling: Option<Time>,
    /// Window at or below which flow scaling adds its maximum, in percent of a packet.
    #[schemars(range(min = 1, max = 10_000))]
    pub scaling_from_percent: u16,
    /// Window at or above which flow scaling adds nothing, in packets.
    #[schemars(range(min = 1))]
    pub scaling_to_packets: u16,
    /// Increase of the window per round trip, in packets.
    #[schemars(range(min = 1, max = 100))]
    pub increase_packets: u8,
    /// Relative decrease of the window, in percent of the relative excess of the delay over the target (beta).
    #[schemars(range(min = 1, max = 100))]
    pub beta_percent: u8,
    /// Maximum decrease of the window at one time, in percent (`max_mdf`).
    #[schemars(range(min = 1, max = 99))]
    pub max_decrease_percent: u8,
    /// The first window of a flow, in packets.
    #[schemars(range(min = 1, max = 32_768))]
    pub initial_packets: u16,
}

impl Default for Swift {
    fn default() -> Self {
        Self {
            base_target: None,
            per_hop: None,
            flow_scaling: None,
            scaling_from_percent: 10,
            scaling_to_packets: 100,
            increase_packets: 1,
            beta_percent: 80,
            max_decrease_percent: 50,
            initial_packets: 10,
        }
    }
}

impl ReactionParameters for Swift {
    fn properties(&self) -> Properties {
        Properties {
            reads_marks: false,
            link_layer: Some(LinkLayer::Ethernet),
            needs_round_trip: true,
            reads_telemetry: true,
            ..Properties::ACKNOWLEDGED
        }
    }

    fn check(&self, _limits: &Limits) -> Check {
        ensure_time("base_target", self.base_target)?;
        for (key, time) in [("per_hop", self.per_hop), ("flow_scaling", self.flow_scaling)] {
            ensure_time(key, time.filter(|&time| time > Time::ZERO))?;
        }
        let least = u64::from(self.scaling_from_percent);
        ensure(least < 100 * u64::from(self.scaling_to_packets), "scaling_from_percent", || {
            format!(
                "must be less than 100 times `scaling_to_packets`, {}",
                100 * u32::from(self.scaling_to_packets)
            )
        })
    }
}

impl Swift {
    /// The rule of a host.
    pub(super) fn rule(&self, source: &Source) -> Option<SwiftRule> {
        let hops = source.round_trip.map_or(0, |trip| trip.hops);
        Some(self.rule_of_network(source.shortest_round_trip(), hops))
    }

    fn rule_of_network(&self, round_trip: Time, hops: u32) -> SwiftRule {
        let base = self.base_target.unwrap_or(round_trip).0;
        let range = self.flow_scaling.unwrap_or(Time(5 * base)).0;
        let from = inverse_root((u64::from(self.scaling_from_percent) << 16) / 100);
        let to = inverse_root(u64::from(self.scaling_to_packets) << 16);
        // Rounding could make the two ends equal, so ensure that they differ by at least one unit.
        let slope = ((u128::from(range) << 16) / u128::from(from.saturating_sub(to).max(1))) as u64;
        SwiftRule {
            base,
            per_hop: self.per_hop.map_or(base * 100 / 655, |time| time.0),
            hops: u64::from(hops),
            range,
            slope,
            to,
            increase: u64::from(self.increase_packets),
            beta: u128::from(self.beta_percent),
            most_less: u64::from(self.max_decrease_percent),
            initial: u64::from(self.initial_packets) << 16,
        }
    }
}

/// A window of one packet.
const ONE: u64 = 1 << 16;
/// The smallest window: a thousandth of a packet.
const LEAST: u64 = ONE / 1_000;
/// The largest window: 32,768 packets.
const MOST: u64 = ONE << 15;

/// 1 / sqrt(window) in units of 2^-16, for a window in units of 2^-16 packets. A window of 0 counts as 1
/// unit.
fn inverse_root(window: u64) -> u64 {
    ((1 << 48) / window.max(1)).isqrt()
}

/// The rule of one host; times in picoseconds.
#[derive(Debug, Clone, Copy)]
pub struct SwiftRule {
    base: u64,
    per_hop: u64,
    /// Switches on the longest route.
    hops: u64,
    range: u64,
    /// Increase of the target per unit of 1 / sqrt(window), in units of 2^-16 ps.
    slope: u64,
    /// 1 / sqrt(window) for the window from which flow scaling is zero, in units of 2^-16.
    to: u64,
    increase: u64,
    beta: u128,
    most_less: u64,
    initial: u64,
}

/// The state of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Saved)]
pub struct SwiftState {
    window: u64,
    /// Packets in flight.
    outstanding: u64,
    /// The start of the last packet.
    started: Time,
    /// The delay of the last answer.
    delay: u64,
    /// The time at which the window last shrank. Only answers and losses of packets that were not sent
    /// earlier shrink it again.
    shrunk_at: Time,
    is_untouched: bool,
}

impl SwiftRule {
    fn target(&self, window: u64, hops: u64) -> u64 {
        let above = inverse_root(window).saturating_sub(self.to);
        let scaling = ((u128::from(self.slope) * u128::from(above)) >> 16).min(u128::from(self.range)) as u64;
        self.base + self.per_hop * hops + scaling
    }
}

impl ReactionRule for SwiftRule {
    type State = SwiftState;

    fn counts_answers(&self) -> bool {
        true
    }

    fn fresh(&self, _sl: u8) -> SwiftState {
        SwiftState {
            window: self.initial,
            outstanding: 0,
            started: Time::ZERO,
            delay: 0,
            shrunk_at: Time::ZERO,
            is_untouched: true,
        }
    }

    fn sent(&self, state: &mut SwiftState, sent: &Sent) {
        state.outstanding += 1;
        state.started = sent.now;
        state.is_untouched = false;
    }

    fn answered(&self, state: &mut SwiftState, _sl: u8, answer: &Answer) {
        let is_limit = 2 * state.outstanding * ONE >= state.window;
        state.outstanding = state.outstanding.saturating_sub(1);
        let delay = (answer.now - answer.sent_at).0;
        let hops = if answer.hops.is_empty() { self.hops } else { answer.hops.len() as u64 };
        let target = self.target(state.window, hops);
        if delay < target && is_limit {
            let more = self.increase * ONE;
            state.window += if state.window >= ONE { more * ONE / state.window } else { more };
        } else if delay >= target && answer.sent_at >= state.shrunk_at {
            let wanted = u128::from(state.window) * self.beta * u128::from(delay - target);
            let less = (wanted / (100 * u128::from(delay.max(1)))) as u64;
            state.window -= less.min(state.window * self.most_less / 100);
            state.shrunk_at = answer.now;
        }
        state.window = state.window.clamp(LEAST, MOST);
        state.delay = delay;
    }

    fn lost(&self, state: &mut SwiftState, lost: &Lost) -> u32 {
        state.outstanding = state.outstanding.saturating_sub(1);
        if lost.sent_at >= state.shrunk_at {
            state.window = (state.window - state.window * self.most_less / 100).max(LEAST);
            state.shrunk_at = lost.now;
        }
        0
    }

    fn arrived(&self, state: &mut SwiftState, _payload: u32) {
        state.outstanding = state.outstanding.saturating_sub(1);
    }

    fn may_send_at(&self, state: &SwiftState, _sl: u8, next: &Next) -> Option<Time> {
        if state.window >= ONE {
            return ((state.outstanding + 1) * ONE <= state.window).then_some(next.now);
        }
        let pause = Time((u128::from(state.delay) * u128::from(ONE) / u128::from(state.window)) as u64);
        (state.outstanding == 0).then(|| next.now.max(state.started + pause))
    }

    fn is_fresh(&self, state: &SwiftState, _sl: u8, _now: Time) -> bool {
        state.is_untouched
    }

    /// Number of packets by which the window is smaller than the initial window.
    fn strength(&self, state: &SwiftState, _sl: u8, _now: Time) -> u16 {
        (self.initial.saturating_sub(state.window) / ONE).min(u64::from(u16::MAX)) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::{answer, next, sent};
    use super::*;
    use crate::facts::{Mark, Telemetry};

    /// A network with a round trip of 10 us over 3 switches.
    fn rule(given: &Swift) -> SwiftRule {
        given.rule_of_network(Time::from_us(10), 3)
    }

    fn window(state: &SwiftState) -> f64 {
        (state.window as f64 / ONE as f64 * 1e3).round() / 1e3
    }

    fn ack(now_ns: u64, delay_ns: u64) -> Answer<'static> {
        let sent_at = Time::from_ns(now_ns - delay_ns);
        Answer { sent_at, ..answer(Mark::Cold, 0, now_ns * 1_000) }
    }

    /// A flow whose whole window is in flight.
    fn full(packets: f64) -> SwiftState {
        let rule = rule(&Swift::default());
        let window = (packets * ONE as f64) as u64;
        SwiftState { window, outstanding: (window / ONE).max(1), is_untouched: false, ..rule.fresh(0) }
    }

    #[test]
    fn the_target_grows_with_switches_and_with_smaller_windows() {
        let rule = rule(&Swift::default());
        let target = |packets: f64, hops| rule.target((packets * ONE as f64) as u64, hops) as f64 / 1e6;
        let near = |value: f64, expected: f64| assert!((value - expected).abs() < 0.05, "{value} {expected}");
        near(target(100.0, 0), 10.0);
        near(target(1_000.0, 3), 10.0 + 3.0 * 10.0 / 6.55);
        near(target(0.1, 0), 10.0 + 50.0);
        near(target(0.01, 0), 10.0 + 50.0);
        // (1 - 0.1) / (3.1623 - 0.1) of 50 us.
        near(target(1.0, 0), 10.0 + 50.0 * 0.9 / 3.0623);
    }

    #[test]
    fn a_window_grows_by_a_packet_per_round_trip_below_the_target() {
        let rule = rule(&Swift::default());
        let mut state = full(4.0);
        rule.answered(&mut state, 0, &ack(20_000, 5_000));
        assert_eq!((window(&state), state.outstanding), (4.25, 3));
        let mut state = full(0.5);
        rule.answered(&mut state, 0, &ack(20_000, 5_000));
        assert_eq!(window(&state), 1.5, "less than a packet: by a packet");
        let mut state = SwiftState { outstanding: 1, ..full(4.0) };
        rule.answered(&mut state, 0, &ack(20_000, 5_000));
        assert_eq!(window(&state), 4.0, "it is not used");
    }

    #[test]
    fn losses_of_one_window_of_data_shrink_the_window_once() {
        let rule = rule(&Swift::default());
        let mut state = full(8.0);
        let lost = |now, sent_at| Lost {
            now: Time::from_us(now),
            sent_at: Time::from_us(sent_at),
            is_answer: false,
            payload: 1_000,
            at_last_hop: false,
        };
        rule.lost(&mut state, &lost(100, 50));
        rule.lost(&mut state, &lost(101, 99));
        rule.arrived(&mut state, 1_000);
        assert_eq!((window(&state), state.outstanding), (4.0, 5), "by half");
        rule.lost(&mut state, &lost(201, 100));
        assert_eq!((window(&state), state.outstanding), (2.0, 4));
    }

    #[test]
    fn a_window_shrinks_by_the_excess_once_per_window_of_data() {
        // Without scaling, the target is 10 us.
        let plain = Swift { per_hop: Some(Time::ZERO), flow_scaling: Some(Time::ZERO), ..Swift::default() };
        let rule = rule(&plain);
        let mut state = full(8.0);
        // 1 - 0.8 (12.5 - 10) / 12.5 = 0.84.
        rule.answered(&mut state, 0, &ack(100_000, 12_500));
        assert_eq!(window(&state), 6.72);
        rule.answered(&mut state, 0, &ack(112_499, 12_500));
        assert_eq!(window(&state), 6.72, "it was sent before");
        rule.answered(&mut state, 0, &ack(199_999, 100_000));
        assert_eq!(window(&state), 6.72, "it was sent before, and took longer");
        rule.answered(&mut state, 0, &ack(200_000, 100_000));
        assert_eq!(window(&state), 3.36, "by half at most");
    }

    #[test]
    fn telemetry_tells_the_number_of_switches() {
        let plain =
            Swift { per_hop: Some(Time::from_us(1)), flow_scaling: Some(Time::ZERO), ..Swift::default() };
        let rule = rule(&plain);
        let hop = Telemetry {
            time: Time::ZERO,
            sent_bytes: 0,
            queue_bytes: 0,
            rate: silvan_engine::Rate::from_gbit(1),
        };
        let delayed = |hops: &[Telemetry]| {
            let mut state = full(4.0);
            rule.answered(&mut state, 0, &Answer { hops, ..ack(100_000, 12_000) });
            window(&state) > 4.0
        };
        assert!(delayed(&[]), "three switches: 13 us");
        assert!(!delayed(&[hop; 2]), "two: 12 us");
    }

    #[test]
    fn a_window_of_less_than_a_packet_paces() {
        let rule = rule(&Swift::default());
        let mut state = SwiftState { delay: 8_000_000, outstanding: 0, ..full(0.25) };
        rule.sent(&mut state, &Sent { now: Time(1_000_000), ..sent(2_000_000, 1_000) });
        assert_eq!(rule.may_send_at(&state, 0, &next(5)), None, "one is in flight");
        state.outstanding = 0;
        assert_eq!(rule.may_send_at(&state, 0, &next(5)), Some(Time(33_000_000)), "8 us / 0.25 later");
        let state = full(2.5);
        assert_eq!(rule.may_send_at(&state, 0, &next(5)), None);
        assert_eq!(rule.may_send_at(&SwiftState { outstanding: 1, ..state }, 0, &next(5)), Some(Time(5)));
        assert_eq!(rule.strength(&state, 0, Time::ZERO), 7);
    }
}
