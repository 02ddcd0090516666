//! InfiniBand's marking rule: forward explicit congestion notification (IBA 1.2.1 annex A10; Paper I, 2.1; Paper II, II
//! and IV).

use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::random::Stream;
use silvan_engine::saved::Saved;
use silvan_engine::{Bytes, Rate};
use silvan_network::port_set::PortSet;

use super::{MarkingParameters, MarkingRule, RuleLane, SwitchFacts, check_rates, severity};
use crate::LinkLayer;
use crate::facts::{Departure, PortState, QueueChange, QueueFill, Severity, Verdict};
use crate::unfit::{Check, Limits, ensure};

/// Parameters of a switch's congestion manager.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Fecn {
    /// 0: never mark; 1 to 15: marking starts at a fill of (16 - threshold) / 16 of a virtual lane's share of the input
    /// buffer.
    #[schemars(range(max = 15))]
    pub threshold: u8,
    /// The fill above which a port enters the congestion state; replaces `threshold`.
    pub upper: Option<Bytes>,
    /// The fill at or below which a port leaves the congestion state; by default `hysteresis` below the upper
    /// threshold.
    pub lower: Option<Bytes>,
    /// Thresholds of the outputs of each rate; replaces `threshold`, `upper` and `lower`. Every rate at which a switch sends
    /// needs an entry.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub thresholds: Vec<FecnThresholds>,
    /// Distance between the upper and the lower threshold if `lower` is not given. Zero gives the single threshold of
    /// the unfair case in Paper II. Fairness requires more than one packet. The default, two full packets with one
    /// credit block each, is also fair if three inputs feed a fast output.
    pub hysteresis: Bytes,
    /// The fill that is compared with the threshold.
    pub fill: FillMapping,
    /// Mean number of eligible packets sent between two marked packets.
    #[schemars(range(max = 65_534))]
    pub marking_rate: u16,
    /// Share of eligible packets that are marked, in percent; replaces `marking_rate` (Paper V gives its Marking_Rate
    /// in this form).
    #[schemars(range(min = 1, max = 100))]
    pub percent: Option<u8>,
    /// Whether packets are marked at random or at regular intervals.
    pub pattern: MarkingPattern,
    /// Packets smaller than this, in credit blocks of 64 bytes, are not marked (as in OpenSM and IBA).
    pub packet_size: u8,
    /// Ports that enter the congestion state even if they have no credit.
    pub victim_mask: VictimMask,
    /// Settings of single ports, which replace those above.
    pub ports: Vec<PortSetting>,
}

/// The thresholds of outputs of one rate. Exactly one of `threshold` and `upper` is required.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FecnThresholds {
    /// The rate of the link.
    pub rate: Rate,
    /// 0: never mark; 1 to 15: marking starts at a fill of (16 - threshold) / 16 of a virtual lane's share of the input
    /// buffer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 15))]
    pub threshold: Option<u8>,
    /// The fill above which a port enters the congestion state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upper: Option<Bytes>,
    /// The fill at or below which a port leaves the congestion state; by default `hysteresis` below the upper threshold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lower: Option<Bytes>,
}

/// The settings of some ports (SwitchPortCongestionSetting of IBA). Values that are not given are those of
/// all other ports.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PortSetting {
    /// The ports: "S1:3" is port 3 of switch S1, and "S1" is every port of S1. The setting of a port takes precedence
    /// over the setting of its switch.
    pub at: Vec<String>,
    /// The `threshold` of these ports. If it is given, `upper` and `lower` of the other ports do not apply to them.
    #[schemars(range(max = 15))]
    pub threshold: Option<u8>,
    /// The fill above which these ports enter the congestion state; replaces `threshold`.
    pub upper: Option<Bytes>,
    /// The fill at or below which these ports leave the congestion state. If only an upper threshold is
    /// given, the lower threshold is `hysteresis` below the upper one.
    pub lower: Option<Bytes>,
    /// Whether these ports enter the congestion state even if they have no credit.
    pub victim_mask: Option<bool>,
}

/// Which fill of the queues of an output is compared with the threshold (Paper I, 3.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FillMapping {
    /// The fill of each virtual output queue separately.
    Each,
    /// The sum of the virtual output queues of all input ports.
    Sum,
    /// The sum of the virtual output queues, compared with the threshold divided by the number of input ports
    /// that contribute to the sum.
    SumPerInput,
}

/// Whether packets are marked at random or at regular intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MarkingPattern {
    /// Each eligible packet is marked with the probability that the rule gives, such as 1 / (Marking_Rate +
    /// 1) (Paper II).
    Random,
    /// Eligible packets are marked at regular intervals, such as every (Marking_Rate + 1)-th packet.
    Regular,
}

/// Which switch ports have the Victim_Mask set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VictimMask {
    /// Ports that face hosts, because hosts do not mark packets themselves (the usual setting).
    Hosts,
    /// No port.
    None,
    /// All ports.
    All,
}

impl Default for Fecn {
    fn default() -> Self {
        Self {
            threshold: 15,
            upper: None,
            lower: None,
            thresholds: Vec::new(),
            hysteresis: Bytes(4224),
            fill: FillMapping::Sum,
            marking_rate: 1,
            percent: None,
            pattern: MarkingPattern::Random,
            packet_size: 8,
            victim_mask: VictimMask::Hosts,
            ports: Vec::new(),
        }
    }
}

/// The thresholds of a port, in bytes.
#[derive(Debug, Clone, Copy)]
struct PortThresholds {
    upper: u32,
    lower: u32,
    /// Whether the port never marks.
    off: bool,
}

/// The rule for the ports of a network.
#[derive(Debug, Clone)]
pub struct FecnRule {
    /// The thresholds of most ports, then those of each [`PortSetting`], in each case for all `rates`.
    thresholds: Box<[PortThresholds]>,
    /// The rates that have separate thresholds. If there are none, the thresholds do not depend on rates.
    rates: Box<[Rate]>,
    /// For each port or switch with a setting, by name: the index of its group of thresholds, and its mask.
    settings: FxHashMap<String, (u16, Option<bool>)>,
    /// Bytes in all queues of an output up to which no port exceeds its threshold.
    least: u32,
    /// Whether `least` is valid, which requires that no single queue holds more than all queues of its output.
    bounded: bool,
    mapping: FillMapping,
    pattern: MarkingPattern,
    /// Numerator and denominator of the share of eligible packets that are marked.
    share: (u32, u32),
    smallest: u32,
    mask: VictimMask,
}

/// The congestion manager of one output port and virtual lane (a "Port VL"). It occupies one cache line.
#[derive(Debug, Clone, Saved)]
#[repr(align(64))]
pub struct FecnState {
    /// Whether departing packets are eligible for marking.
    congested: bool,
    masked: bool,
    /// Whether the fill exceeded the upper threshold and has not yet fallen to the lower one.
    above: bool,
    /// Index of the port's thresholds in the rule.
    thresholds: u16,
    /// Sum of the shares of eligible packets since the last mark, for the regular pattern.
    since_mark: u32,
    /// Number of times that the port entered the congestion state.
    pub entered: u32,
    /// Bytes in all queues from which the port sends, as last reported.
    queue_bytes: u32,
    /// `queue_bytes` at the last mark.
    marked_at: u32,
    /// If single queues are compared with the threshold, the inputs above it, one bit each; otherwise empty.
    inputs_above: Box<[u64]>,
    random: Stream,
}

const _: () = assert!(size_of::<FecnState>() == 64);

impl MarkingParameters for Fecn {
    fn link_layer(&self) -> Option<LinkLayer> {
        Some(LinkLayer::InfiniBand)
    }

    fn needs_input_queues(&self) -> bool {
        self.fill != FillMapping::Sum
    }

    fn has_thresholds(&self, rate: Rate) -> bool {
        self.thresholds.is_empty() || self.thresholds.iter().any(|one| one.rate == rate)
    }

    fn check(&self, limits: &Limits) -> Check {
        let check = |at: &str, own: &Self| {
            let (upper, lower) = own.bounds(limits.lane);
            ensure(lower <= upper, &format!("{at}lower"), || {
                format!("must be at most the upper threshold, {upper}")
            })?;
            ensure(upper <= limits.lane, &format!("{at}upper"), || {
                format!("can never be exceeded: a virtual lane has {} of the input buffer", limits.lane)
            })
        };
        let replaced = [
            ("threshold", self.threshold != Self::default().threshold),
            ("upper", self.upper.is_some()),
            ("lower", self.lower.is_some()),
        ];
        let rates = self.thresholds.iter().map(|one| one.rate);
        check_rates(rates, replaced.into_iter().filter_map(|(key, is_given)| is_given.then_some(key)))?;
        let by_rate = self.by_rate();
        let most = usize::from(u16::MAX);
        ensure(by_rate.len() * (self.ports.len() + 1) <= most, "ports", || {
            format!("the settings of ports times the entries of `thresholds` must be at most {most}")
        })?;
        for (index, (one, own)) in self.thresholds.iter().zip(&by_rate).enumerate() {
            ensure(one.threshold.is_some() != one.upper.is_some(), &format!("thresholds.{index}"), || {
                "must have one of `threshold` and `upper`".to_owned()
            })?;
            check(&format!("thresholds.{index}."), own)?;
        }
        check("", self)?;
        let mut names = FxHashMap::default();
        for (index, setting) in self.ports.iter().enumerate() {
            let at = format!("ports.{index}.");
            ensure(!setting.at.is_empty(), &format!("{at}at"), || {
                "must name a port or a switch, such as \"S1:3\" or \"S1\"".to_owned()
            })?;
            for (place, name) in setting.at.iter().enumerate() {
                let before = names.insert(name, index);
                ensure(before.is_none(), &format!("{at}at.{place}"), || {
                    let first = before.unwrap_or_default();
                    format!("{name} is already given by congestion.marking.ports.{first}")
                })?;
            }
            by_rate.iter().try_for_each(|own| check(&at, &own.of_ports(setting)))?;
        }
        Ok(())
    }

    fn named_ports(&self) -> Vec<(String, &str)> {
        let names = |(index, setting): (usize, &'_ PortSetting)| -> Vec<String> {
            (0..setting.at.len()).map(|place| format!("ports.{index}.at.{place}")).collect()
        };
        let keys = self.ports.iter().enumerate().flat_map(names);
        keys.zip(self.ports.iter().flat_map(|setting| setting.at.iter().map(String::as_str))).collect()
    }
}

impl Fecn {
    /// The fill above which a port enters the congestion state, and the fill at or below which it leaves that state.
    /// Both are for a virtual lane's share of the input buffer.
    fn bounds(&self, lane: Bytes) -> (Bytes, Bytes) {
        let steps = 16 - u64::from(self.threshold.min(15));
        let upper = self.upper.unwrap_or(Bytes(lane.0 * steps / 16));
        let lower = self.lower.unwrap_or(Bytes(upper.0.saturating_sub(self.hysteresis.0)));
        (upper, lower)
    }

    /// The parameters of outputs of each rate of `thresholds`, or of all outputs if `thresholds` is empty.
    fn by_rate(&self) -> Vec<Self> {
        let common = Self { thresholds: Vec::new(), ..self.clone() };
        if self.thresholds.is_empty() {
            return vec![common];
        }
        let of = |one: &FecnThresholds| {
            let threshold = one.threshold.unwrap_or(self.threshold);
            Self { threshold, upper: one.upper, lower: one.lower, ..common.clone() }
        };
        self.thresholds.iter().map(of).collect()
    }

    /// The parameters of ports with a setting.
    fn of_ports(&self, setting: &PortSetting) -> Self {
        let mut own = Self { ports: Vec::new(), ..self.clone() };
        if setting.threshold.is_some() || setting.upper.is_some() {
            own.threshold = setting.threshold.unwrap_or(self.threshold);
            (own.upper, own.lower) = (setting.upper, None);
        }
        own.lower = setting.lower.or(own.lower);
        own
    }

    /// The thresholds of ports with these parameters, for a virtual lane's share of the input buffer.
    fn in_bytes(&self, lane: u32) -> PortThresholds {
        let (upper, lower) = self.bounds(Bytes(u64::from(lane)));
        let [upper, lower] = [upper, lower].map(|bytes| u32::try_from(bytes.0).unwrap_or(u32::MAX));
        PortThresholds { upper, lower, off: self.threshold == 0 && self.upper.is_none() }
    }

    /// Creates the rule for the switches of a network.
    pub(super) fn rule(&self, switches: &SwitchFacts) -> FecnRule {
        let by_rate = self.by_rate();
        let mut thresholds: Vec<PortThresholds> =
            by_rate.iter().map(|own| own.in_bytes(switches.lane)).collect();
        let mut settings = FxHashMap::default();
        for (before, setting) in self.ports.iter().enumerate() {
            let own = (before as u16 + 1, setting.victim_mask);
            thresholds.extend(by_rate.iter().map(|own| own.of_ports(setting).in_bytes(switches.lane)));
            settings.extend(setting.at.iter().map(|name| (name.clone(), own)));
        }
        let least = thresholds.iter().map(|own| own.upper).min().unwrap_or_default();
        FecnRule {
            thresholds: thresholds.into(),
            rates: self.thresholds.iter().map(|one| one.rate).collect(),
            settings,
            least: if self.fill == FillMapping::SumPerInput { 0 } else { least },
            bounded: switches.queues_have_one_output || self.fill != FillMapping::Each,
            mapping: self.fill,
            pattern: self.pattern,
            share: match self.percent {
                Some(percent) => (u32::from(percent), 100),
                None => (1, u32::from(self.marking_rate) + 1),
            },
            smallest: u32::from(self.packet_size) * 64,
            mask: self.victim_mask,
        }
    }
}

impl PortThresholds {
    /// Whether a fill of `bytes` exceeds the upper threshold, or the lower one if `before` is true. Both
    /// thresholds are divided by `divisor`.
    #[inline]
    fn above(self, before: bool, bytes: u32, divisor: u32) -> bool {
        bytes > self.upper / divisor || (before && bytes > self.lower / divisor)
    }
}

impl FecnRule {
    /// Creates the state of an output of a switch with `ports` ports.
    fn manager(&self, ports: usize, faces_host: bool, random: Stream) -> FecnState {
        let masked = match self.mask {
            VictimMask::Hosts => faces_host,
            VictimMask::None => false,
            VictimMask::All => true,
        };
        let words = if self.mapping == FillMapping::Each { ports.div_ceil(64) } else { 0 };
        let inputs_above = vec![0; words].into_boxed_slice();
        FecnState {
            congested: false,
            masked,
            above: false,
            thresholds: 0,
            since_mark: 0,
            entered: 0,
            queue_bytes: 0,
            marked_at: 0,
            inputs_above,
            random,
        }
    }

    /// The severity of the congestion for which a packet is marked. It is computed as in QCN, with the upper threshold
    /// as the set point and a weight of 2 for the growth since the last mark, and is at least 1.
    fn severity(&self, port: &mut FecnState) -> Severity {
        let found = severity(port.queue_bytes, port.marked_at, self.of(port).upper, 2).max(1);
        port.marked_at = port.queue_bytes;
        found
    }

    /// Whether the FECN bit is set in a departing packet of this size.
    #[inline]
    fn marks(&self, port: &mut FecnState, size: u32) -> bool {
        if !port.congested || size < self.smallest {
            return false;
        }
        match self.pattern {
            MarkingPattern::Random => {
                self.share.0 == self.share.1 || port.random.chance(self.share.0, self.share.1)
            }
            MarkingPattern::Regular => {
                port.since_mark += self.share.0;
                let due = port.since_mark >= self.share.1;
                if due {
                    port.since_mark -= self.share.1;
                }
                due
            }
        }
    }

    #[inline]
    fn of(&self, port: &FecnState) -> PortThresholds {
        self.thresholds[usize::from(port.thresholds)]
    }
}

impl MarkingRule for FecnRule {
    type State = FecnState;

    fn port(&self, lane: &RuleLane) -> FecnState {
        let mut port = self.manager(lane.ports, lane.output.faces_host, lane.random());
        if !self.settings.is_empty() {
            let own = self.settings.get(&lane.port_name()).or_else(|| self.settings.get(lane.switch_name));
            let (thresholds, masked) = own.copied().unwrap_or_default();
            port.thresholds = thresholds;
            port.masked = masked.unwrap_or(port.masked);
        }
        if let Some(rate) = self.rates.iter().position(|&rate| rate == lane.output.rate) {
            port.thresholds = port.thresholds * self.rates.len() as u16 + rate as u16;
        }
        port
    }

    /// Whether the fill of single queues is compared with the threshold.
    fn needs_queues(&self) -> bool {
        self.mapping == FillMapping::Each
    }

    #[inline]
    fn watches_queue(&self, port: &FecnState, queue_bytes: u32) -> bool {
        port.above || queue_bytes > self.least || !self.bounded
    }

    #[inline]
    fn queue_changed(&self, port: &mut FecnState, change: &QueueChange, has_credit: impl FnOnce() -> bool) {
        port.queue_bytes = change.queue_bytes;
        let own = self.of(port);
        match self.mapping {
            FillMapping::Each => {
                if let Some(QueueFill { input, bytes }) = change.queue {
                    let (word, bit) = (&mut port.inputs_above[input.index() / 64], 1 << (input.0 % 64));
                    if bytes > own.upper {
                        *word |= bit;
                    } else if bytes <= own.lower {
                        *word &= !bit;
                    }
                    port.above = port.inputs_above.iter().any(|&word| word != 0);
                }
            }
            FillMapping::Sum => port.above = own.above(port.above, change.queue_bytes, 1),
            FillMapping::SumPerInput => {
                port.above = own.above(port.above, change.queue_bytes, change.inputs.count().max(1));
            }
        }
        if port.congested {
            port.congested = port.above;
        } else if port.above && !own.off && (port.masked || has_credit()) {
            port.congested = true;
            port.entered += 1;
        }
    }

    fn quiet_fill(&self) -> Option<u32> {
        Some(self.least)
    }

    #[inline]
    fn watches_arrivals(&self) -> bool {
        false
    }

    #[inline]
    fn watches_departures(&self, port: &FecnState) -> bool {
        port.congested
    }

    #[inline]
    fn departs(
        &self,
        port: &mut FecnState,
        departure: &Departure,
        _has_credit: impl FnOnce() -> bool,
    ) -> Verdict {
        if self.marks(port, departure.size) { Verdict::Mark(self.severity(port)) } else { Verdict::Forward }
    }

    fn state(&self, port: &FecnState) -> PortState {
        PortState { is_congested: port.congested, entered: port.entered }
    }
}

#[cfg(test)]
mod tests {
    use silvan_engine::{Rate, Time};

    use super::super::OutputFacts;
    use super::*;
    use silvan_network::port::{Port, PortVl};

    fn rule(fecn: &Fecn) -> FecnRule {
        fecn.rule(&SwitchFacts {
            lane: 65_536,
            output_lane: 65_536,
            full_space: 2_112,
            queues_have_one_output: true,
            ..SwitchFacts::default()
        })
    }

    fn port(rule: &FecnRule) -> FecnState {
        rule.manager(80, false, Stream::new(1, "marking", 0))
    }

    fn fill(input: u16, queue: u32, sum: u32, inputs: usize) -> QueueChange {
        QueueChange {
            now: Time::ZERO,
            queue: Some(QueueFill { input: Port(input), bytes: queue }),
            queue_bytes: sum,
            inputs: Port::all(inputs).collect(),
        }
    }

    /// The thresholds of a port of a switch, whether it never marks, and whether it is masked.
    fn at(rule: &FecnRule, (switch_name, port): (&str, usize), gbit: u64) -> (u32, u32, bool, bool) {
        let lane = RuleLane {
            switch_name,
            ports: 4,
            output: OutputFacts { rate: Rate::from_gbit(gbit), ..OutputFacts::default() },
            seed: 1,
            switch: 0,
            port: port - 1,
            lane: PortVl::all(4, 1).nth(port - 1).unwrap(),
        };
        let port = rule.port(&lane);
        let own = rule.of(&port);
        (own.upper, own.lower, own.off, port.masked)
    }

    #[test]
    fn outputs_have_the_thresholds_of_their_rates() {
        let of = |gbit, threshold, upper: Option<u64>, lower: Option<u64>| FecnThresholds {
            rate: Rate::from_gbit(gbit),
            threshold,
            upper: upper.map(Bytes),
            lower: lower.map(Bytes),
        };
        let setting = |at: &str, threshold, lower: Option<u64>| PortSetting {
            at: vec![at.into()],
            threshold,
            lower: lower.map(Bytes),
            ..PortSetting::default()
        };
        let fecn = Fecn {
            hysteresis: Bytes(1_000),
            thresholds: vec![
                of(100, Some(8), None, None),
                of(25, None, Some(9_000), Some(3_000)),
                of(10, Some(0), None, None),
            ],
            ports: vec![setting("S1:1", Some(12), None), setting("S1:2", None, Some(500))],
            ..Fecn::default()
        };
        let limits = Limits { lane: Bytes(65_536), full: Bytes(2_112) };
        assert_eq!(fecn.check(&limits), Ok(()));
        let rule = rule(&fecn);
        assert_eq!(at(&rule, ("S0", 1), 100), (32_768, 31_768, false, false));
        assert_eq!(at(&rule, ("S0", 1), 25), (9_000, 3_000, false, false));
        assert!(at(&rule, ("S0", 1), 10).2, "it never marks");
        assert_eq!(
            at(&rule, ("S1", 1), 25),
            (16_384, 15_384, false, false),
            "the setting of the port comes first"
        );
        assert_eq!(at(&rule, ("S1", 2), 25), (9_000, 500, false, false), "the rate has the upper threshold");
        assert_eq!(rule.quiet_fill(), Some(9_000));
        assert!(fecn.has_thresholds(Rate::from_gbit(25)) && !fecn.has_thresholds(Rate::from_gbit(40)));

        let error = |fecn: Fecn| {
            let unfit = fecn.check(&limits).unwrap_err();
            format!("{}: {}", unfit.key, unfit.what)
        };
        let given = Fecn { upper: Some(Bytes(9_000)), ..fecn.clone() };
        assert_eq!(error(given), "upper: must be left out, because `thresholds` states it for each rate");
        let given = Fecn { threshold: 3, ..fecn };
        assert_eq!(error(given), "threshold: must be left out, because `thresholds` states it for each rate");
        for one in [of(100, None, None, None), of(100, Some(1), Some(9_000), None)] {
            let wrong = Fecn { thresholds: vec![one], ..Fecn::default() };
            assert_eq!(error(wrong), "thresholds.0: must have one of `threshold` and `upper`");
        }
        let wrong = Fecn { thresholds: vec![of(100, None, Some(70_000), None)], ..Fecn::default() };
        assert!(error(wrong).starts_with("thresholds.0.upper: can never be exceeded"));
    }

    #[test]
    fn threshold_weights_fall_uniformly() {
        let upper = |threshold| Fecn { threshold, ..Fecn::default() }.bounds(Bytes(65_536)).0.0;
        assert_eq!((upper(1), upper(8), upper(15)), (61_440, 32_768, 4_096));
        let error = Fecn { upper: Some(Bytes(10)), lower: Some(Bytes(20)), ..Fecn::default() };
        let wrong = error.check(&Limits { lane: Bytes(65_536), full: Bytes(2_074) }).unwrap_err();
        assert_eq!((wrong.key.as_str(), wrong.what.contains("10 B")), ("lower", true));
    }

    #[test]
    fn hysteresis_keeps_the_state_between_the_thresholds() {
        let rule = rule(&Fecn { upper: Some(Bytes(8192)), lower: Some(Bytes(4096)), ..Fecn::default() });
        let mut port = port(&rule);
        let mut states = Vec::new();
        for bytes in [8192, 8193, 5000, 4097, 4096, 8000, 9000] {
            rule.queue_changed(&mut port, &fill(0, bytes, bytes, 1), || true);
            states.push(port.congested);
        }
        assert_eq!(states, [false, true, true, true, false, false, true]);
        assert_eq!(port.entered, 2);
    }

    #[test]
    fn only_a_root_enters_unless_masked() {
        let fecn = Fecn { upper: Some(Bytes(1000)), ..Fecn::default() };
        let rule = rule(&fecn);
        let mut victim = port(&rule);
        rule.queue_changed(&mut victim, &fill(0, 2000, 2000, 1), || false);
        assert!(!victim.congested, "without credits a port is a victim");
        rule.queue_changed(&mut victim, &fill(0, 2000, 2000, 1), || true);
        assert!(victim.congested, "it enters as soon as it has credits");
        let mut masked = rule.manager(80, true, Stream::new(1, "marking", 0));
        rule.queue_changed(&mut masked, &fill(0, 2000, 2000, 1), || false);
        assert!(masked.congested, "Victim_Mask");
    }

    #[test]
    fn mappings_differ_in_what_they_hold_against_the_threshold() {
        let with = |mapping| Fecn {
            upper: Some(Bytes(4096)),
            hysteresis: Bytes(0),
            fill: mapping,
            ..Fecn::default()
        };
        let enters = |mapping, change| {
            let rule = rule(&with(mapping));
            let mut port = port(&rule);
            rule.queue_changed(&mut port, &change, || true);
            port.congested
        };
        let spread = fill(3, 2048, 6144, 3);
        assert!(!enters(FillMapping::Each, spread));
        assert!(enters(FillMapping::Sum, spread));
        assert!(enters(FillMapping::SumPerInput, fill(3, 1000, 1500, 3)), "1500 > 4096 / 3");
        assert!(!enters(FillMapping::Sum, fill(3, 1000, 1500, 3)));
        let rule = rule(&with(FillMapping::Each));
        let mut port = port(&rule);
        rule.queue_changed(&mut port, &fill(2, 5000, 9000, 2), || true);
        rule.queue_changed(&mut port, &fill(70, 5000, 9000, 2), || true);
        rule.queue_changed(&mut port, &fill(2, 0, 5000, 1), || true);
        assert!(port.congested, "queue 70 is still above");
        rule.queue_changed(&mut port, &fill(70, 0, 0, 0), || true);
        assert!(!port.congested);
    }

    #[test]
    fn ports_have_the_thresholds_and_the_mask_of_their_setting() {
        let setting = |at: &str| PortSetting { at: vec![at.to_owned()], ..PortSetting::default() };
        let fecn = Fecn {
            upper: Some(Bytes(8_192)),
            lower: Some(Bytes(4_096)),
            hysteresis: Bytes(1_000),
            ports: vec![
                PortSetting { threshold: Some(8), ..setting("S1") },
                PortSetting { upper: Some(Bytes(2_000)), victim_mask: Some(true), ..setting("S1:2") },
                PortSetting { lower: Some(Bytes(6_000)), ..setting("S2:1") },
                PortSetting { threshold: Some(0), ..setting("S2:3") },
            ],
            ..Fecn::default()
        };
        let rule = rule(&fecn);
        let found = |switch_name, port: usize| at(&rule, (switch_name, port), 100);
        assert_eq!(found("S0", 1), (8_192, 4_096, false, false));
        assert_eq!(found("S1", 1), (32_768, 31_768, false, false), "the setting of the switch");
        assert_eq!(found("S1", 2), (2_000, 1_000, false, true), "the setting of the port comes first");
        assert_eq!(found("S2", 1), (8_192, 6_000, false, false));
        assert!(found("S2", 3).2, "threshold 0 never marks, although the other ports have one in bytes");
        assert_eq!(rule.quiet_fill(), Some(2_000), "no port reacts to less than the lowest threshold");
    }

    #[test]
    fn marking_rate_and_packet_size_filter_marks() {
        let marks = |pattern, marking_rate, size| {
            let rule = rule(&Fecn { upper: Some(Bytes(0)), pattern, marking_rate, ..Fecn::default() });
            let mut port = port(&rule);
            rule.queue_changed(&mut port, &fill(0, 1, 1, 1), || true);
            (0..40_000).filter(|_| rule.marks(&mut port, size)).count()
        };
        assert_eq!(marks(MarkingPattern::Regular, 3, 2048), 10_000);
        assert_eq!(marks(MarkingPattern::Random, 0, 2048), 40_000);
        assert!((9_700..10_300).contains(&marks(MarkingPattern::Random, 3, 2048)));
        assert_eq!(marks(MarkingPattern::Random, 0, 511), 0, "Packet_Size 8 spares what is below 512 bytes");
        assert_eq!(marks(MarkingPattern::Random, 0, 512), 40_000);
        let rule = rule(&Fecn { threshold: 0, ..Fecn::default() });
        let mut port = port(&rule);
        rule.queue_changed(&mut port, &fill(0, 60_000, 60_000, 1), || true);
        assert!(!rule.marks(&mut port, 2048), "threshold 0 never marks");
    }
}
