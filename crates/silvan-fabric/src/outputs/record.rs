//! The recording of departures with the binned scheduler, for banks that watch all events.

use silvan_engine::Time;

use super::{Around, Bank, TO_HOST};
use crate::link::ChannelId;
use crate::message::SourceReport;
use crate::packet::PacketId;
use crate::recorder::RecordedLossKind;
use crate::voq::Sending;

/// See the module.
#[derive(Debug)]
pub(super) struct RecordedOutputs {
    /// The channel on which each output sends, and the one on which the input of the same port receives.
    pub channels: Box<[(ChannelId, ChannelId)]>,
}

impl<const LANES: usize, const MARKS: u8, const FIFO: bool> Bank<LANES, MARKS, FIFO> {
    /// The channel on which an output sends, if departures are recorded.
    fn recorded_channel(&self, output: usize) -> Option<ChannelId> {
        Some(self.recorded.as_ref()?.channels[output].0)
    }

    /// Records a packet that starts to leave, and can be forwarded at the next switch at `arrives_at`.
    #[inline(never)]
    pub(super) fn record_departure(
        &self,
        around: &mut Around,
        sending: Sending,
        (now, end, arrives_at): (Time, Time, Time),
    ) {
        let output = sending.slot.output();
        let (Some(channel), Some(recorder)) = (self.recorded_channel(output), &mut around.recorder) else {
            return;
        };
        let is_to_host = self.voq.records[output].own.row == TO_HOST;
        let arrival = if is_to_host { end + self.link(output).delay } else { arrives_at };
        recorder.departs((channel, false), (sending.head.packet, around.packets), (now, end, arrival));
    }

    /// Records that a host will have drained a packet, whose tail arrives at a time, at `done`.
    pub(super) fn record_drain(&self, around: &mut Around, output: usize, arrival: Time, done: Time) {
        if let (Some(channel), Some(recorder)) = (self.recorded_channel(output), &mut around.recorder) {
            recorder.drained(channel, arrival, done);
        }
    }

    /// Records that a switch removes the payload of a packet that waits for an output.
    pub(super) fn record_trim(&self, around: &mut Around, output: usize, id: PacketId, now: Time) {
        if let (Some(channel), Some(recorder)) = (self.recorded_channel(output), &mut around.recorder) {
            recorder.lost(id, channel, now, RecordedLossKind::Trimmed);
        }
    }

    /// Records that a link-level message occupies the link of an output.
    pub(super) fn record_message(&self, around: &mut Around, output: usize, span: (Time, Time)) {
        if let (Some(channel), Some(recorder)) = (self.recorded_channel(output), &mut around.recorder) {
            recorder.message(channel, span);
        }
    }

    /// Records that an output has marked a packet, of which its switch notifies the source.
    pub(super) fn record_report(&self, around: &mut Around, output: usize, now: Time, report: SourceReport) {
        if let (Some(channel), Some(recorder)) = (self.recorded_channel(output), &mut around.recorder)
            && let Some((switch, port)) = around.links.sending_switch(channel)
        {
            recorder.reports((switch, port.0), now, report);
        }
    }
}
