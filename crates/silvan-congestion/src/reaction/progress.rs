//! Common code of reactions with windows in bytes: the bytes of a flow that are in flight, and its round trips.

use crate::facts::{Answer, Lost, Sent};
use silvan_engine::saved::Saved;

/// The bytes of a flow on the wire, since the flow began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Saved)]
pub struct FlowProgress {
    sent: u64,
    acknowledged: u64,
    /// Bytes that had been sent when the present round trip began; zero before the first acknowledgement.
    round_ends: u64,
}

impl FlowProgress {
    pub fn sent(&mut self, sent: &Sent) {
        self.sent += u64::from(sent.size);
    }

    /// Records the acknowledgement of packets. Returns their bytes on the wire, of which `header` bytes per packet are
    /// not payload.
    pub fn acknowledged(&mut self, answer: &Answer, header: u32) -> u64 {
        let size = u64::from(answer.bytes) + u64::from(header) * u64::from(answer.packets);
        self.acknowledged = (self.acknowledged + size).min(self.sent);
        size
    }

    /// Records that a packet was lost and is no longer in flight. Returns its bytes on the wire, as
    /// [`Self::acknowledged`] does.
    pub fn lost(&mut self, lost: &Lost, header: u32) -> u64 {
        self.left(lost.payload, header)
    }

    /// Records that a packet with this payload is no longer in flight. Returns its bytes on the wire.
    pub fn left(&mut self, payload: u32, header: u32) -> u64 {
        let size = u64::from(payload) + u64::from(header);
        self.acknowledged = (self.acknowledged + size).min(self.sent);
        size
    }

    pub fn in_flight(&self) -> u64 {
        self.sent - self.acknowledged
    }

    /// The end of the window of data in flight: the bytes that have been sent.
    pub fn window_end(&self) -> u64 {
        self.sent
    }

    /// Whether the last acknowledgement covers bytes that were sent after [`Self::window_end`] returned
    /// `window_end`.
    pub fn is_beyond(&self, window_end: u64) -> bool {
        self.acknowledged > window_end
    }

    /// Whether nothing has been sent.
    pub fn is_untouched(&self) -> bool {
        self.sent == 0
    }

    /// Whether no round trip has begun. The first round trip begins with the first acknowledgement.
    pub fn is_first(&self) -> bool {
        self.round_ends == 0
    }

    /// Whether the packet just acknowledged was sent after the present round trip had begun, or no round trip has
    /// begun. If so, the next round trip begins.
    pub fn completes_round(&mut self) -> bool {
        let is_complete = self.is_beyond(self.round_ends);
        if is_complete {
            self.round_ends = self.sent;
        }
        is_complete
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::{answer, sent};
    use super::*;
    use crate::facts::Mark;

    #[test]
    fn a_round_trip_ends_with_the_first_packet_that_was_sent_in_it() {
        let mut progress = FlowProgress::default();
        let ack = Answer { bytes: 974, ..answer(Mark::Cold, 0, 0) };
        (0..3).for_each(|_| progress.sent(&sent(0, 1_000)));
        assert!(progress.is_first());
        assert_eq!((progress.acknowledged(&ack, 26), progress.in_flight()), (1_000, 2_000));
        assert!(progress.completes_round() && !progress.is_first());
        progress.sent(&sent(0, 1_000));
        let mut acknowledge = || {
            progress.acknowledged(&ack, 26);
            progress.completes_round()
        };
        assert_eq!(
            [acknowledge(), acknowledge(), acknowledge()],
            [false, false, true],
            "3,000 had been sent"
        );
    }
}
