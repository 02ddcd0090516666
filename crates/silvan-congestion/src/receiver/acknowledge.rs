//! Acknowledgements that carry marks. There are three kinds: one per packet or per number of bytes; one per
//! message, and immediately for a marked packet; or one per message with the combined marks of its packets.

use rustc_hash::FxHashMap;

use super::units::{AcknowledgeUnit, Units};
use super::{ReceiverRule, Replies, Sink};
use silvan_engine::Time;
use silvan_engine::saved::Saved;

use crate::facts::{Received, Severity};

/// Acknowledges each packet, or a number of bytes at a time.
#[derive(Debug)]
pub struct AcknowledgePackets {
    unit: Option<AcknowledgeUnit>,
}

impl ReceiverRule for AcknowledgePackets {
    type State = Units;

    const WATCHES_UNMARKED: bool = true;
    const ACKNOWLEDGES_EACH: bool = true;
    const NOTIFIES: bool = false;

    fn new(sink: &Sink) -> Self {
        Self { unit: sink.unit }
    }

    fn received(&self, state: &mut Units, packet: &Received, out: &mut Replies) {
        match self.unit {
            None => out.acknowledge_packet(packet, packet.payload),
            Some(unit) => state.take(unit, packet, out),
        }
    }

    fn next_timer(&self, state: &Units) -> Option<Time> {
        state.next_due()
    }

    fn timer(&self, state: &mut Units, now: Time, out: &mut Replies) {
        state.expire(now, out);
    }
}

/// Acknowledges each message, and each marked packet immediately. An acknowledgement covers everything that has
/// arrived of its flow since the previous one.
#[derive(Debug)]
pub struct AcknowledgeMessages;

impl ReceiverRule for AcknowledgeMessages {
    /// Payload bytes that have arrived since the last acknowledgement, for flows that have such bytes.
    type State = FxHashMap<(u32, u16), u32>;

    const WATCHES_UNMARKED: bool = true;
    const ACKNOWLEDGES_EACH: bool = false;
    const NOTIFIES: bool = false;

    fn new(_sink: &Sink) -> Self {
        Self
    }

    fn received(&self, state: &mut Self::State, packet: &Received, out: &mut Replies) {
        if packet.is_marked || packet.is_last {
            let before = state.remove(&packet.from.key()).unwrap_or(0);
            out.acknowledge_packet(packet, before.saturating_add(packet.payload));
        } else {
            let bytes = state.entry(packet.from.key()).or_insert(0);
            *bytes = bytes.saturating_add(packet.payload);
        }
    }
}

/// An acknowledgement per message, which is marked if any packet of the message is.
#[derive(Debug)]
pub struct CombineMarks;

/// The received part of a message.
#[derive(Debug, Clone, Copy, Default, Saved)]
pub struct Part {
    payload: u32,
    is_marked: bool,
    severity: Severity,
    is_validated: bool,
}

impl ReceiverRule for CombineMarks {
    /// For each flow, the data that have arrived since its last acknowledgement, if any.
    type State = FxHashMap<(u32, u16), Part>;

    const WATCHES_UNMARKED: bool = true;
    const ACKNOWLEDGES_EACH: bool = false;
    const NOTIFIES: bool = false;

    fn new(_sink: &Sink) -> Self {
        Self
    }

    fn received(&self, state: &mut Self::State, packet: &Received, out: &mut Replies) {
        let before = state.get(&packet.from.key()).copied().unwrap_or_default();
        let part = Part {
            payload: before.payload.saturating_add(packet.payload),
            is_marked: before.is_marked || packet.is_marked,
            severity: before.severity.max(packet.severity),
            is_validated: before.is_validated || packet.is_validated,
        };
        if packet.is_last {
            state.remove(&packet.from.key());
            let Part { payload, is_marked, severity, is_validated } = part;
            out.acknowledge_packet(&Received { is_marked, severity, is_validated, ..*packet }, payload);
        } else {
            state.insert(packet.from.key(), part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Content;
    use super::super::trial::{count, packet, sink};
    use super::*;

    #[test]
    fn every_packet_is_acknowledged_with_its_bytes() {
        let (rule, mut out) = (AcknowledgePackets::new(&sink()), Replies::default());
        for is_last in [false, true] {
            rule.received(&mut Units::default(), &packet(1, 0, false, is_last), &mut out);
            assert_eq!(count(&mut out), (1, 100));
        }
    }

    #[test]
    fn an_acknowledgement_of_a_message_counts_what_came_since_the_one_before() {
        let (rule, mut state, mut out) =
            (AcknowledgeMessages::new(&sink()), FxHashMap::default(), Replies::default());
        let mut acknowledged = |is_marked, is_last, host| {
            rule.received(&mut state, &packet(host, 0, is_marked, is_last), &mut out);
            count(&mut out)
        };
        assert_eq!(acknowledged(false, false, 1), (0, 0));
        assert_eq!(acknowledged(false, false, 2), (0, 0));
        assert_eq!(acknowledged(true, false, 1), (1, 200), "at once for a mark");
        assert_eq!(acknowledged(false, true, 1), (1, 100));
        assert_eq!(acknowledged(false, true, 2), (1, 200));
        assert!(state.is_empty());
    }

    #[test]
    fn marks_of_a_message_are_combined() {
        let (rule, mut state, mut out) =
            (CombineMarks::new(&sink()), FxHashMap::default(), Replies::default());
        let mut answer = |is_marked, is_last, host, severity| {
            let packet = Received { severity, ..packet(host, 0, is_marked, is_last) };
            rule.received(&mut state, &packet, &mut out);
            out.drain().next().map(|reply| reply.content)
        };
        let acknowledged = |content: Option<Content>| match content {
            Some(Content::Acknowledgement(echo, bytes, _)) => Some((echo.is_marked, echo.severity, bytes)),
            _ => None,
        };
        assert_eq!(answer(true, false, 1, 9), None);
        assert_eq!(answer(true, false, 1, 5), None);
        assert_eq!(acknowledged(answer(false, true, 2, 0)), Some((false, 0, 100)), "another flow");
        assert_eq!(acknowledged(answer(false, true, 1, 0)), Some((true, 9, 300)));
        assert_eq!(acknowledged(answer(false, true, 1, 0)), Some((false, 0, 100)), "the next message");
        assert_eq!(acknowledged(answer(true, true, 1, 0)), Some((true, 0, 100)), "of one packet");
        assert!(state.is_empty());
    }
}
