//! Sampled marking: the congestion point of quantized congestion notification (IEEE 802.1Qau, which is clause
//! 30 of IEEE 802.1Q).
//!
//! An output samples one arriving packet each time a given number of bytes has arrived. A sampled packet is marked if
//! the queue of the output is above the set point, or grows so fast that it will soon be above:
//!
//! ```text
//!  Fb = -(q - Qeq) - w (q - q_old)     q now, q_old at the sample before     marked if Fb < 0
//! ```
//!
//! More severe congestion shortens the distance to the next sample. The rule does not distinguish roots from victims:
//! a queue that grows because its output lacks credit also marks packets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::Bytes;
use silvan_engine::random::Stream;
use silvan_engine::saved::Saved;

use super::{MarkingParameters, MarkingRule, RuleLane, SwitchFacts, severity};
use crate::LinkLayer;
use crate::facts::{Arrival, PortState, Severity, Verdict};
use crate::unfit::{Check, Limits, ensure};

/// Parameters of sampled marks; the defaults are those of the standard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Sampled {
    /// The fill at which the queue of an output should settle, in bytes (`CpQSp`).
    pub set_point: Bytes,
    /// Weight of the growth since the last sample, relative to the distance above the set point.
    #[schemars(range(max = 16))]
    pub weight: u8,
    /// Bytes that arrive between two samples without congestion (`CpSampleBase`). At the greatest severity,
    /// an eighth of these bytes arrive between two samples.
    pub sample: Bytes,
    /// Random variation of the number of bytes between samples, up and down, in percent, so that samples do not always
    /// miss the same flow.
    #[schemars(range(max = 50))]
    pub jitter_percent: u8,
}

impl Default for Sampled {
    fn default() -> Self {
        Self { set_point: Bytes(26_000), weight: 2, sample: Bytes(150_000), jitter_percent: 15 }
    }
}

/// The rule with sizes in bytes, which is the same for all ports of a network.
#[derive(Debug, Clone, Copy)]
pub struct SampledRule {
    set_point: u32,
    weight: u32,
    sample: u32,
    jitter_percent: u32,
}

/// The congestion point of one output port and virtual lane.
#[derive(Debug, Clone, Saved)]
pub struct Sampler {
    /// Bytes of data packets that remain until the next sample.
    left: u32,
    /// Bytes in the queue at the last sample.
    before: u32,
    /// Severity at the last sample.
    last: Severity,
    /// Number of times that a sample marked a packet after a sample that did not.
    entered: u32,
    random: Stream,
}

impl MarkingParameters for Sampled {
    fn link_layer(&self) -> Option<LinkLayer> {
        Some(LinkLayer::Ethernet)
    }

    fn check(&self, limits: &Limits) -> Check {
        let (full, most) = (limits.full, 1u64 << 30);
        ensure((1..=most).contains(&self.set_point.0), "set_point", || "must be 1 B to 1 GiB".to_owned())?;
        ensure((full.0..=most).contains(&self.sample.0), "sample", || {
            format!("must be {full} (a full packet) to 1 GiB")
        })
    }
}

impl Sampled {
    pub(super) fn rule(&self, _switches: &SwitchFacts) -> SampledRule {
        let bytes = |bytes: Bytes| u32::try_from(bytes.0).unwrap_or(u32::MAX);
        SampledRule {
            set_point: bytes(self.set_point),
            weight: u32::from(self.weight),
            sample: bytes(self.sample),
            jitter_percent: u32::from(self.jitter_percent),
        }
    }
}

impl SampledRule {
    fn sampler(&self, random: Stream) -> Sampler {
        let mut port = Sampler { left: 0, before: 0, last: 0, entered: 0, random };
        port.left = self.next(&mut port);
        port
    }

    /// Draws the number of bytes until the next sample.
    fn next(&self, port: &mut Sampler) -> u32 {
        let span = self.sample / (1 + u32::from(port.last / 8));
        let most = (u64::from(span) * u64::from(self.jitter_percent) / 100) as u32;
        span - most + port.random.below(2 * most + 1)
    }
}

impl MarkingRule for SampledRule {
    type State = Sampler;

    fn port(&self, lane: &RuleLane) -> Sampler {
        self.sampler(lane.random())
    }

    fn watches_queue(&self, _port: &Sampler, _queue_bytes: u32) -> bool {
        false
    }

    fn quiet_fill(&self) -> Option<u32> {
        Some(u32::MAX)
    }

    fn marks_only_arrivals(&self) -> bool {
        true
    }

    fn may_mark_arrivals(&self, port: &Sampler, bytes: u32) -> bool {
        bytes >= port.left
    }

    #[inline(always)]
    fn skips_arrival(&self, port: &mut Sampler, size: u32, is_data: bool) -> bool {
        let is_sampled = is_data && size >= port.left;
        if is_data && !is_sampled {
            port.left -= size;
        }
        !is_sampled
    }

    fn arrives(&self, port: &mut Sampler, arrival: &Arrival) -> Verdict {
        if self.skips_arrival(port, arrival.size, arrival.is_data) {
            return Verdict::Forward;
        }
        let found = severity(arrival.queue_bytes, port.before, self.set_point, self.weight);
        port.entered += u32::from(found > 0 && port.last == 0);
        (port.before, port.last) = (arrival.queue_bytes, found);
        port.left = self.next(port);
        if found > 0 { Verdict::Mark(found) } else { Verdict::Forward }
    }

    fn watches_departures(&self, _port: &Sampler) -> bool {
        false
    }

    fn state(&self, port: &Sampler) -> PortState {
        PortState { is_congested: port.last > 0, entered: port.entered }
    }
}

#[cfg(test)]
mod tests {
    use silvan_engine::{Rate, Time};

    use super::*;

    fn rule(jitter_percent: u8) -> SampledRule {
        Sampled { sample: Bytes(8_000), jitter_percent, ..Sampled::default() }.rule(&SwitchFacts::default())
    }

    /// The arrival of a data packet at queues with `queue_bytes`.
    fn arrival(size: u32, queue_bytes: u32) -> Arrival {
        let (now, rate) = (Time::ZERO, Rate::from_gbit(8));
        Arrival { now, size, is_data: true, queue_bytes, sent_bytes: 0, rate }
    }

    /// The numbers, from 1, of the packets that are marked while the queue contains `sum` bytes. Each packet
    /// has 1,000 bytes.
    fn sampled(rule: &SampledRule, sum: u32, packets: u32) -> Vec<u32> {
        let mut port = rule.sampler(Stream::new(1, "marking", 0));
        port.before = sum;
        let arrival = arrival(1_000, sum);
        (1..=packets).filter(|_| rule.arrives(&mut port, &arrival) != Verdict::Forward).collect()
    }

    #[test]
    fn the_worse_congestion_is_the_sooner_comes_the_next_sample() {
        // Steady queues: severity 63 x (q - Qeq) / (5 Qeq).
        assert_eq!(sampled(&rule(0), 26_000, 40), Vec::<u32>::new(), "at the set point nothing is marked");
        assert_eq!(sampled(&rule(0), 39_000, 40), [8, 16, 24, 32, 40], "6: no sooner");
        assert_eq!(sampled(&rule(0), 52_000, 20), [8, 12, 16, 20], "12: half the bytes");
        assert_eq!(sampled(&rule(0), 1_000_000, 12), [8, 9, 10, 11, 12], "63: an eighth");
    }

    #[test]
    fn samples_vary_by_their_jitter() {
        let rule = Sampled { sample: Bytes(100_000), ..Sampled::default() }.rule(&SwitchFacts::default());
        let marks = sampled(&rule, 30_000, 20_000);
        let gaps: Vec<u32> = marks.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().all(|gap| (85..=116).contains(gap)), "{gaps:?}");
        assert!(gaps.iter().min() < Some(&90) && gaps.iter().max() > Some(&110));
    }

    #[test]
    fn a_port_enters_congestion_when_a_sample_finds_it() {
        let rule = rule(0);
        let mut port = rule.sampler(Stream::new(1, "marking", 0));
        let mut states = Vec::new();
        for sum in [60_000, 60_000, 10_000, 60_000] {
            rule.arrives(&mut port, &arrival(8_000, sum));
            let PortState { is_congested, entered } = rule.state(&port);
            states.push((is_congested, entered));
        }
        assert_eq!(states, [(true, 1), (true, 1), (false, 1), (true, 2)]);
    }
}
