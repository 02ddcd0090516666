//! Acknowledgements of several packets: a receiver acknowledges a flow when a number of bytes have arrived.
//!
//! ```text
//!  an acknowledgement is sent   for a marked packet, for one that requests it, and for one that has arrived before
//!                               when `bytes` have arrived since the previous one
//!                               when the last gap closes behind a packet that requested one
//!                               `within` after the first packet that no acknowledgement covers
//!  it covers                    everything that has arrived since the previous one
//!  it repeats the fields of     the packet that caused it, or the last one that arrived
//! ```
//!
//! Sources request an acknowledgement with the first packet of a flow, the last packet of a message, a packet
//! that is sent again, and a packet after which the flow cannot send until it is answered
//! ([`crate::reaction::ReactionRule::must_ask`]). Earlier packets may arrive after such a packet, so the
//! receiver acknowledges once more when no packet before the newest one is missing. These are the rules of
//! the consortium's simulator of Ultra Ethernet (uet-htsim, `uec.cpp`, 2025), except for `within`. In that
//! simulator, a source whose window is full of packets without a request sends a packet again after a
//! timeout. The time for which the last packet waited for its acknowledgement does not count as part of its
//! round trip.
//!
//! With loss recovery, an acknowledgement states which packets have arrived, as those of Multipath Reliable Connection do (MRC,
//! OCP 2026): all before a number, and which of the 64 before the newest one. The source counts those of which it did not
//! know.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::saved::Saved;
use silvan_engine::{Bytes, Time};

use super::{Echo, Replies};
use crate::facts::{Received, Sender};

/// How many bytes of a flow an acknowledgement covers. Receivers immediately acknowledge the first packet of a flow,
/// the last one of a message, marked packets, packets that are sent again, and packets after which the window or the
/// credit of the source is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AcknowledgeUnit {
    /// Bytes on the wire that have arrived since the previous acknowledgement.
    pub bytes: Bytes,
    /// The longest time for which a packet waits for its acknowledgement.
    pub within: Time,
}

impl Default for AcknowledgeUnit {
    fn default() -> Self {
        Self { bytes: Bytes(16_384), within: Time::from_us(100) }
    }
}

/// The packets of a flow that a receiver has received, and those that no acknowledgement covers.
#[derive(Debug, Default, Saved)]
struct Unanswered {
    /// Number of packets that have arrived.
    count: u64,
    /// The highest packet number plus one.
    newest: u64,
    /// Whether a packet has requested an acknowledgement since the last time that no packet was missing.
    has_asked: bool,
    /// Packets that no acknowledgement covers: their number, their payload, and their bytes on the wire.
    packets: u32,
    payload: u32,
    size: u64,
    /// The time at which the first unacknowledged packet must be acknowledged.
    due: Time,
    /// The last unacknowledged packet, with the time of its arrival.
    last: Option<(Time, Sender, Echo)>,
}

/// The flows of a receiving host.
#[derive(Debug, Default, Saved)]
pub struct Units {
    of: FxHashMap<(u32, u16), Unanswered>,
    /// The times at which packets must be acknowledged, in order. Entries of packets that have been
    /// acknowledged are skipped.
    due: VecDeque<(Time, (u32, u16))>,
}

impl Units {
    /// Records a data packet, and sends an acknowledgement if one is due.
    pub fn take(&mut self, unit: AcknowledgeUnit, packet: &Received, out: &mut Replies) {
        let key = packet.from.key();
        let flow = self.of.entry(key).or_default();
        flow.count += u64::from(!packet.is_repeated);
        // Packets without numbers cannot overtake each other.
        flow.newest = packet.number.map_or(flow.count, |number| flow.newest.max(number + 1));
        flow.has_asked |= packet.asks;
        let is_whole = flow.count == flow.newest;
        if !packet.is_repeated {
            flow.packets += 1;
            flow.payload = flow.payload.saturating_add(packet.payload);
            flow.size += u64::from(packet.size);
        }
        let is_due = packet.is_marked || packet.asks || packet.is_repeated || flow.size >= unit.bytes.0;
        if is_due || flow.has_asked && is_whole {
            out.acknowledge(packet.from, Echo::of(packet), (flow.payload, flow.packets));
            flow.clear();
            flow.has_asked &= !is_whole;
            return;
        }
        if flow.packets == 1 {
            flow.due = packet.now + unit.within;
            self.due.push_back((flow.due, key));
        }
        flow.last = Some((packet.now, packet.from, Echo::of(packet)));
    }

    /// The time of the first entry of `due`, which may be an entry of a packet that has been acknowledged.
    /// `None` if there is no entry.
    pub fn next_due(&self) -> Option<Time> {
        self.due.front().map(|&(time, _)| time)
    }

    /// Acknowledges the packets that must be acknowledged by now.
    pub fn expire(&mut self, now: Time, out: &mut Replies) {
        while let Some(&(time, key)) = self.due.front()
            && time <= now
        {
            self.due.pop_front();
            let Some(flow) = self.of.get_mut(&key).filter(|flow| flow.packets > 0 && flow.due == time) else {
                continue;
            };
            if let Some((arrived, from, echo)) = flow.last.take() {
                let sent_at = echo.sent_at + (now - arrived);
                out.acknowledge(from, Echo { sent_at, ..echo }, (flow.payload, flow.packets));
            }
            flow.clear();
        }
    }
}

impl Unanswered {
    /// Records that everything has been acknowledged.
    fn clear(&mut self) {
        (self.packets, self.payload, self.size, self.last) = (0, 0, 0, None);
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::packet;
    use super::super::{Content, Reply};
    use super::*;

    /// Acknowledges after at least 500 bytes, so after four packets of 126 bytes.
    const UNIT: AcknowledgeUnit = AcknowledgeUnit { bytes: Bytes(500), within: Time(1_000) };

    fn numbered(now: u64, number: u64) -> Received<'static> {
        Received { number: Some(number), ..packet(1, now, false, false) }
    }

    fn asking(now: u64, number: u64) -> Received<'static> {
        Received { asks: true, ..numbered(now, number) }
    }

    /// The acknowledgements, as payload and packets.
    fn acknowledged(out: &mut Replies) -> Vec<(u32, u32)> {
        let covers = |Reply { content, .. }| match content {
            Content::Acknowledgement(_, bytes, packets) => Some((bytes, packets)),
            _ => None,
        };
        out.drain().filter_map(covers).collect()
    }

    fn answers(units: &mut Units, packets: &[Received]) -> Vec<(u32, u32)> {
        let mut out = Replies::default();
        packets.iter().for_each(|packet| units.take(UNIT, packet, &mut out));
        acknowledged(&mut out)
    }

    #[test]
    fn an_acknowledgement_covers_a_number_of_bytes() {
        let mut units = Units::default();
        let unmarked: Vec<_> = (0..9).map(|_| packet(1, 0, false, false)).collect();
        assert_eq!(answers(&mut units, &unmarked), [(400, 4), (400, 4)]);
        assert_eq!(
            answers(&mut units, &[packet(2, 0, true, false)]),
            [(100, 1)],
            "a marked packet of another flow"
        );
        assert_eq!(answers(&mut units, &[packet(1, 0, true, false)]), [(200, 2)], "a marked packet");
    }

    #[test]
    fn a_packet_that_asks_is_answered_again_when_nothing_is_missing() {
        let mut units = Units::default();
        let packets = [numbered(0, 0), asking(1, 3), numbered(2, 2)];
        assert_eq!(answers(&mut units, &packets), [(200, 2)], "1 is missing");
        assert_eq!(answers(&mut units, &[numbered(3, 1)]), [(200, 2)]);
        assert_eq!(answers(&mut units, &[numbered(4, 4)]), [], "the request has been met");
        // A packet that requests an acknowledgement and leaves no gap is acknowledged once.
        assert_eq!(answers(&mut units, &[asking(5, 5), numbered(6, 6)]), [(200, 2)]);
    }

    #[test]
    fn packets_do_not_wait_longer_than_the_limit() {
        let (mut units, mut out) = (Units::default(), Replies::default());
        let sent = |now, number| Received { sent_at: Time(now - 7), ..numbered(now, number) };
        units.take(UNIT, &sent(10, 0), &mut out);
        units.take(UNIT, &sent(40, 1), &mut out);
        assert_eq!(units.next_due(), Some(Time(1_010)));
        units.expire(Time(1_009), &mut out);
        assert!(out.is_empty());
        units.expire(Time(1_010), &mut out);
        let replies: Vec<Reply> = out.drain().collect();
        let [Reply { content: Content::Acknowledgement(echo, 200, 2), .. }] = &replies[..] else {
            panic!("{replies:?}");
        };
        assert_eq!(echo.sent_at, Time(1_003), "a round trip does not contain the wait");
        assert_eq!(units.next_due(), None);
        // Packets that were acknowledged before are skipped.
        units.take(UNIT, &sent(2_000, 2), &mut out);
        units.take(UNIT, &Received { asks: true, ..sent(2_001, 3) }, &mut out);
        units.take(UNIT, &sent(2_500, 4), &mut out);
        assert_eq!(acknowledged(&mut out), [(200, 2)]);
        units.expire(Time(3_000), &mut out);
        assert_eq!((out.is_empty(), units.next_due()), (true, Some(Time(3_500))));
    }
}
