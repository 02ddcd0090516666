//! Marking by the fill of the output's queues: explicit congestion notification of Ethernet switches, with
//! two thresholds and a probability between them (DCQCN, SIGCOMM 2015, section 3.2; DCTCP, SIGCOMM 2010,
//! section 3.1, with two equal thresholds). It has the profile of random early detection (Floyd and Jacobson
//! 1993), but uses the current fill instead of an average.
//!
//! ```text
//!  share of the packets that are marked   0                                  q <= min
//!                                         percent (q - min) / (max - min)    min < q <= max
//!                                         1                                  q > max
//! ```
//!
//! q is the number of bytes that wait for the output when the packet starts to leave, excluding the packet. The rule
//! does not distinguish roots from victims, and marks only data packets.
//!
//! Shares are in units of 2^-24. The regular pattern adds up the shares of the packets that leave above
//! `min`, and marks a packet each time the sum reaches 1. The pattern does not depend on the seed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::random::Stream;
use silvan_engine::saved::Saved;
use silvan_engine::{Bytes, Rate, Time};

use super::{
    MarkingParameters, MarkingPattern, MarkingRule, OutputFacts, RuleLane, SwitchFacts, check_rates,
};
use crate::LinkLayer;
use crate::facts::{Departure, PortState, QueueChange, Verdict};
use crate::unfit::{Check, Limits, ensure, ensure_time};

/// Parameters of marks by the queue of the output; the defaults are those of the DCQCN paper (section 5) for 40 Gbit/s.
///
/// Suitable thresholds are a fraction of the network's bandwidth-delay product. `per_rate` and
/// `per_round_trip` are the rate and the round trip for which `min` and `max` are given. For
/// outputs of other rates and networks with other round trips, both thresholds are scaled in proportion.
/// Alternatively, `thresholds` lists the thresholds for each rate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Red {
    /// Bytes in the queues of an output up to which no packet is marked (Kmin).
    pub min: Bytes,
    /// Bytes above which all packets are marked (Kmax). Equal to `min` for a single threshold.
    pub max: Bytes,
    /// Percentage of the packets that are marked at `max` (Pmax).
    #[schemars(range(min = 1, max = 100))]
    pub percent: u8,
    /// Whether packets are marked at random or at regular intervals.
    pub pattern: MarkingPattern,
    /// Whether outputs to hosts mark packets. The consortium's simulator of Ultra Ethernet disables these
    /// marks if receivers grant credit, because credit prevents queues at these outputs.
    #[serde(skip_serializing_if = "is_true")]
    pub hosts: bool,
    /// The rate of the links for which `min` and `max` are given; outputs of other rates scale them. Default: they apply to
    /// outputs of any rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_rate: Option<Rate>,
    /// The round trip for which `min` and `max` are given; networks with another round trip on the longest route scale them.
    /// Default: they apply to any round trip.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_round_trip: Option<Time>,
    /// Thresholds of the outputs of each rate; replaces `min`, `max` and `per_rate`. Every rate at which a switch sends needs an
    /// entry (KMIN_MAP, KMAX_MAP and PMAX_MAP of HPCC's simulator).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub thresholds: Vec<RedThresholds>,
}

/// The thresholds of outputs of one rate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RedThresholds {
    /// The rate of the link.
    pub rate: Rate,
    /// Bytes in the queues of an output up to which no packet is marked (Kmin).
    pub min: Bytes,
    /// Bytes above which all packets are marked (Kmax).
    pub max: Bytes,
    /// Percentage of the packets that are marked at `max` (Pmax). Default: `percent` of all outputs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub percent: Option<u8>,
}

impl Default for Red {
    fn default() -> Self {
        Self {
            min: Bytes(5_000),
            max: Bytes(200_000),
            percent: 1,
            pattern: MarkingPattern::Random,
            hosts: true,
            per_rate: None,
            per_round_trip: None,
            thresholds: Vec::new(),
        }
    }
}

impl MarkingParameters for Red {
    fn link_layer(&self) -> Option<LinkLayer> {
        Some(LinkLayer::Ethernet)
    }

    fn has_severities(&self) -> bool {
        false
    }

    fn needs_round_trip(&self) -> bool {
        self.per_round_trip.is_some()
    }

    fn thresholds(&self, rate: Rate, round_trip: Option<Time>) -> Option<(Bytes, Bytes)> {
        let depends = self.per_rate.is_some() || self.per_round_trip.is_some() || !self.thresholds.is_empty();
        (depends && self.has_thresholds(rate)).then(|| self.scaled(rate, round_trip))
    }

    fn has_thresholds(&self, rate: Rate) -> bool {
        self.thresholds.is_empty() || self.of_rate(rate).is_some()
    }

    fn check(&self, _limits: &Limits) -> Check {
        let check = |at: &str, min: Bytes, max: Bytes| {
            let most = Bytes(1 << 30);
            ensure(max <= most, &format!("{at}max"), || format!("must be at most {most}"))?;
            ensure(min <= max, &format!("{at}min"), || format!("must be at most `max`, {max}"))
        };
        check("", self.min, self.max)?;
        ensure(self.per_rate != Some(Rate(0)), "per_rate", || "must be more than 0 bit/s".to_owned())?;
        ensure_time("per_round_trip", self.per_round_trip)?;
        let own = Self::default();
        let replaced = [
            ("min", self.min != own.min),
            ("max", self.max != own.max),
            ("per_rate", self.per_rate.is_some()),
        ];
        let rates = self.thresholds.iter().map(|one| one.rate);
        check_rates(rates, replaced.into_iter().filter_map(|(key, is_given)| is_given.then_some(key)))?;
        let checked =
            |(index, one): (usize, &RedThresholds)| check(&format!("thresholds.{index}."), one.min, one.max);
        self.thresholds.iter().enumerate().try_for_each(checked)
    }
}

impl Red {
    /// The rule of a network's switches.
    pub(super) fn rule(&self, switches: &SwitchFacts) -> RedRule {
        let rates = self.thresholds.iter().map(|one| one.rate);
        let least = |rate: Rate| self.scaled(rate, switches.round_trip).0;
        RedRule {
            red: self.clone(),
            least: bytes(rates.map(least).min().unwrap_or_else(|| least(switches.slowest))),
            is_regular: self.pattern == MarkingPattern::Regular,
        }
    }

    fn of_rate(&self, rate: Rate) -> Option<&RedThresholds> {
        self.thresholds.iter().find(|one| one.rate == rate)
    }

    /// `min` and `max` for an output of the given rate in a network with the given round trip, each at most
    /// 2^30 bytes.
    fn scaled(&self, own_rate: Rate, round_trip: Option<Time>) -> (Bytes, Bytes) {
        let ratio = |own: u64, per: Option<u64>| per.map_or((1, 1), |per| (u128::from(own), u128::from(per)));
        let (rate, per_rate) = ratio(own_rate.0, self.per_rate.map(|rate| rate.0));
        let per_time =
            self.per_round_trip.and_then(|per| Some((u128::from(round_trip?.0), u128::from(per.0))));
        let (time, per_time) = per_time.unwrap_or((1, 1));
        let scale = |bytes: Bytes| {
            // The factors of the product are at most 2^30, 2^40 and 2^50.
            Bytes((u128::from(bytes.0) * rate * time / (per_rate * per_time)).min(1 << 30) as u64)
        };
        let (min, max) = self.of_rate(own_rate).map_or((self.min, self.max), |one| (one.min, one.max));
        (scale(min), scale(max))
    }
}

/// Whether the value is true. Serialization leaves out true values, because they are the default.
fn is_true(value: &bool) -> bool {
    *value
}

fn bytes(bytes: Bytes) -> u32 {
    u32::try_from(bytes.0).unwrap_or(u32::MAX)
}

/// A share of 1.
const ALL: u32 = 1 << 24;

/// The rule of a network.
#[derive(Debug, Clone)]
pub struct RedRule {
    red: Red,
    /// The smallest lower threshold of any output, in bytes.
    least: u32,
    is_regular: bool,
}

/// The state of one output port and virtual lane.
#[derive(Debug, Clone, Saved)]
pub struct RedPort {
    /// Thresholds of the output, in bytes.
    min: u32,
    max: u32,
    percent: u32,
    /// Whether the queues are above `min`.
    is_above: bool,
    /// Sum of the shares since the last mark (regular pattern).
    since_mark: u32,
    /// Number of times that the queues rose above `min`.
    entered: u32,
    random: Stream,
}

impl RedRule {
    fn port_with(&self, output: OutputFacts, random: Stream) -> RedPort {
        let OutputFacts { rate, round_trip, .. } = output;
        let (min, max) = self.red.scaled(rate, round_trip);
        let percent = self.red.of_rate(rate).and_then(|one| one.percent).unwrap_or(self.red.percent).into();
        RedPort {
            min: bytes(min),
            max: bytes(max),
            percent,
            is_above: false,
            since_mark: 0,
            entered: 0,
            random,
        }
    }

    /// The share of packets, in units of 2^-24, that are marked if the queues contain this number of bytes.
    fn share(&self, port: &RedPort, bytes: u32) -> u32 {
        if bytes > port.max {
            return ALL;
        }
        let Some(excess) = bytes.checked_sub(port.min).filter(|&excess| excess > 0) else { return 0 };
        let part = u64::from(port.percent) * u64::from(excess) * u64::from(ALL);
        (part / (100 * u64::from(port.max - port.min))) as u32
    }

    /// Whether to mark a packet whose departure leaves this number of bytes.
    fn marks(&self, port: &mut RedPort, bytes: u32) -> bool {
        let share = self.share(port, bytes);
        if self.is_regular {
            port.since_mark += share;
            let is_due = port.since_mark >= ALL;
            port.since_mark -= if is_due { ALL } else { 0 };
            return is_due;
        }
        share == ALL || (share > 0 && port.random.below(ALL) < share)
    }
}

impl MarkingRule for RedRule {
    type State = RedPort;

    fn port(&self, lane: &RuleLane) -> RedPort {
        let port = self.port_with(lane.output, lane.random());
        if lane.output.faces_host && !self.red.hosts {
            // No fill exceeds these thresholds, so no packet is marked.
            return RedPort { min: u32::MAX, max: u32::MAX, ..port };
        }
        port
    }

    #[inline]
    fn watches_queue(&self, port: &RedPort, queue_bytes: u32) -> bool {
        port.is_above || queue_bytes > port.min
    }

    #[inline]
    fn queue_changed(&self, port: &mut RedPort, change: &QueueChange, _has_credit: impl FnOnce() -> bool) {
        let is_above = change.queue_bytes > port.min;
        port.entered += u32::from(is_above && !port.is_above);
        port.is_above = is_above;
    }

    fn quiet_fill(&self) -> Option<u32> {
        Some(self.least)
    }

    #[inline]
    fn watches_arrivals(&self) -> bool {
        false
    }

    #[inline]
    fn watches_departures(&self, port: &RedPort) -> bool {
        port.is_above
    }

    #[inline]
    fn departs(
        &self,
        port: &mut RedPort,
        departure: &Departure,
        _has_credit: impl FnOnce() -> bool,
    ) -> Verdict {
        let is_marked = departure.is_data && self.marks(port, departure.queue_bytes);
        if is_marked { Verdict::Mark(0) } else { Verdict::Forward }
    }

    fn state(&self, port: &RedPort) -> PortState {
        PortState { is_congested: port.is_above, entered: port.entered }
    }
}

#[cfg(test)]
mod tests {
    use silvan_engine::{Rate, Time};

    use super::*;
    use silvan_network::port_set::Ports256;

    /// Thresholds of 10,000 and 50,000 bytes, between which the share rises to 20 %.
    fn rule(pattern: MarkingPattern) -> RedRule {
        let red = Red { min: Bytes(10_000), max: Bytes(50_000), percent: 20, pattern, ..Red::default() };
        red.rule(&SwitchFacts {
            lane: 0,
            output_lane: 0,
            full_space: 0,
            queues_have_one_output: true,
            ..SwitchFacts::default()
        })
    }

    fn output(gbit: u64, round_trip: Option<Time>) -> OutputFacts {
        OutputFacts { rate: Rate::from_gbit(gbit), round_trip, ..OutputFacts::default() }
    }

    fn port() -> RedPort {
        rule(MarkingPattern::Random).port_with(output(100, None), Stream::new(1, "marking", 0))
    }

    /// The numbers of the marked packets, counted from 1, if `packets` packets leave and `bytes` wait behind
    /// each.
    fn marked(rule: &RedRule, bytes: u32, packets: u32, is_data: bool) -> Vec<u32> {
        let mut port = port();
        let departure = Departure {
            now: Time::ZERO,
            size: 1_000,
            is_data,
            is_marked: false,
            queue_bytes: bytes,
            buffer_bytes: 0,
            sent_bytes: 0,
            rate: Rate::from_gbit(100),
        };
        (1..=packets).filter(|_| rule.departs(&mut port, &departure, || true) == Verdict::Mark(0)).collect()
    }

    #[test]
    fn the_share_grows_between_the_thresholds_and_is_one_above_them() {
        let shares = [9_999, 10_000, 10_001, 30_000, 50_000, 50_001, u32::MAX]
            .map(|bytes| rule(MarkingPattern::Random).share(&port(), bytes));
        // 20 % x 1/40,000, 10 % and 20 % of 2^24, rounded down.
        assert_eq!(shares, [0, 0, 83, 1_677_721, 3_355_443, ALL, ALL]);
    }

    #[test]
    fn the_regular_pattern_marks_every_tenth_packet_at_ten_percent() {
        let rule = rule(MarkingPattern::Regular);
        // Ten times 1,677,721 is 6 short of 2^24, so the sum reaches 2^24 one packet later.
        assert_eq!(marked(&rule, 30_000, 51, true), [11, 21, 31, 41, 51]);
        assert_eq!(marked(&rule, 50_001, 3, true), [1, 2, 3]);
        assert_eq!(marked(&rule, 10_000, 1_000, true), Vec::<u32>::new());
    }

    #[test]
    fn the_random_pattern_marks_the_share_on_average() {
        let rule = rule(MarkingPattern::Random);
        let tenth = marked(&rule, 30_000, 100_000, true).len();
        // The standard deviation is 95.
        assert!((9_600..10_400).contains(&tenth), "{tenth}");
        assert_eq!(marked(&rule, 60_000, 100, true).len(), 100);
    }

    #[test]
    fn control_packets_are_neither_marked_nor_counted() {
        assert_eq!(marked(&rule(MarkingPattern::Regular), 60_000, 100, false), Vec::<u32>::new());
        let mut port = port();
        assert!(!rule(MarkingPattern::Regular).marks(&mut port, 20_000));
        assert_eq!(port.since_mark, 838_860, "5 %");
    }

    #[test]
    fn equal_thresholds_mark_all_packets_above_them() {
        let step = Red { min: Bytes(30_000), max: Bytes(30_000), percent: 100, ..Red::default() };
        let rule = step.rule(&SwitchFacts {
            lane: 0,
            output_lane: 0,
            full_space: 0,
            queues_have_one_output: true,
            ..SwitchFacts::default()
        });
        let port = rule.port_with(output(100, None), Stream::new(1, "marking", 0));
        assert_eq!([29_999, 30_000, 30_001].map(|bytes| rule.share(&port, bytes)), [0, 0, ALL]);
    }

    /// HPCC's simulator has 100 and 400 kB at 25 Gbit/s, and four and sixteen times as much at 100 and 400 Gbit/s.
    #[test]
    fn thresholds_scale_with_the_rate_and_the_round_trip() {
        let per_rate = Some(Rate::from_gbit(25));
        let red = Red { min: Bytes(100_000), max: Bytes(400_000), percent: 20, per_rate, ..Red::default() };
        let of = |red: &Red, gbit, round_trip| {
            let switches = SwitchFacts { slowest: Rate::from_gbit(25), round_trip, ..SwitchFacts::default() };
            let rule = red.rule(&switches);
            let port = rule.port_with(output(gbit, round_trip), Stream::new(1, "marking", 0));
            (port.min, port.max, rule.quiet_fill())
        };
        assert_eq!(of(&red, 25, None), (100_000, 400_000, Some(100_000)));
        assert_eq!(of(&red, 40, None), (160_000, 640_000, Some(100_000)));
        assert_eq!(of(&red, 400, None), (1_600_000, 6_400_000, Some(100_000)));
        let timed = Red { per_round_trip: Some(Time::from_us(13)), ..red };
        assert!(timed.needs_round_trip());
        assert_eq!(of(&timed, 400, Some(Time::from_ns(3_250))), (400_000, 1_600_000, Some(25_000)));
        let both = timed.thresholds(Rate::from_gbit(400), Some(Time::from_ns(3_250)));
        assert_eq!(both, Some((Bytes(400_000), Bytes(1_600_000))));
        assert_eq!(Red::default().thresholds(Rate::from_gbit(400), None), None);
    }

    /// For 25 and 100 Gbit/s: KMIN_MAP of 100 and 400 kB, KMAX_MAP of 400 and 1,600 kB, PMAX_MAP of 0.2 and 0.3.
    #[test]
    fn outputs_have_the_thresholds_of_their_rates() {
        let of = |gbit, kb: u64, percent| RedThresholds {
            rate: Rate::from_gbit(gbit),
            min: Bytes(kb * 1_000),
            max: Bytes(kb * 4_000),
            percent,
        };
        let thresholds = vec![of(100, 400, Some(30)), of(25, 100, None)];
        let red = Red { percent: 20, thresholds, ..Red::default() };
        let switches = SwitchFacts { slowest: Rate::from_gbit(10), ..SwitchFacts::default() };
        let port = |red: &Red, gbit| {
            let rule = red.rule(&switches);
            let port = rule.port_with(output(gbit, None), Stream::new(1, "marking", 0));
            (port.min, port.max, port.percent, rule.quiet_fill())
        };
        assert_eq!(port(&red, 100), (400_000, 1_600_000, 30, Some(100_000)));
        assert_eq!(port(&red, 25), (100_000, 400_000, 20, Some(100_000)));
        assert!(red.has_thresholds(Rate::from_gbit(25)) && !red.has_thresholds(Rate::from_gbit(10)));
        assert_eq!(red.thresholds(Rate::from_gbit(10), None), None);
        assert_eq!(red.thresholds(Rate::from_gbit(25), None), Some((Bytes(100_000), Bytes(400_000))));
    }

    #[test]
    fn thresholds_by_rate_replace_the_others() {
        let of = |gbit, min, max| RedThresholds {
            rate: Rate::from_gbit(gbit),
            min: Bytes(min),
            max: Bytes(max),
            percent: None,
        };
        let limits = Limits { lane: Bytes(65_536), full: Bytes(2_112) };
        let error = |red: Red| {
            let unfit = red.check(&limits).unwrap_err();
            format!("{}: {}", unfit.key, unfit.what)
        };
        let red = Red { thresholds: vec![of(100, 1, 2), of(25, 1, 2)], ..Red::default() };
        assert_eq!(red.check(&limits), Ok(()));
        let given = Red { max: Bytes(9_000), ..red.clone() };
        assert_eq!(error(given), "max: must be left out, because `thresholds` states it for each rate");
        let given = Red { per_rate: Some(Rate::from_gbit(25)), ..red.clone() };
        assert_eq!(error(given), "per_rate: must be left out, because `thresholds` states it for each rate");
        let twice = Red { thresholds: vec![of(100, 1, 2), of(100, 1, 2)], ..Red::default() };
        assert_eq!(error(twice), "thresholds.1.rate: has an entry already, `thresholds.0`");
        let wrong = Red { thresholds: vec![of(100, 3, 2)], ..Red::default() };
        assert_eq!(error(wrong), "thresholds.0.min: must be at most `max`, 2 B");
    }

    #[test]
    fn a_port_is_congested_while_its_queues_are_above_the_lower_threshold() {
        let (rule, mut port) = (rule(MarkingPattern::Random), port());
        let mut states = Vec::new();
        for queue_bytes in [10_000, 10_001, 60_000, 9_000, 20_000] {
            let change =
                QueueChange { now: Time::ZERO, queue: None, queue_bytes, inputs: Ports256::default() };
            rule.queue_changed(&mut port, &change, || true);
            let PortState { is_congested, entered } = rule.state(&port);
            states.push((is_congested, entered));
        }
        assert_eq!(states, [(false, 0), (true, 1), (true, 1), (false, 1), (true, 2)]);
    }
}
