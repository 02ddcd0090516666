//! Mailboxes, which collect the messages of one partition for another between two exchanges.
//!
//! A message crosses a link, so it takes effect at least one lookahead after it was sent. Messages about jobs
//! are the exception, because they do not cross a link:
//!
//! | message about jobs | when it takes effect |
//! | --- | --- |
//! | a parcel was posted | when its last packet has crossed the network, so after the next exchange |
//! | a message was received | in the table of messages, at the end of the run |
//! | all ranks of a partition have finished | at the next sample |
//!
//! All messages therefore arrive before they take effect.

use silvan_congestion::facts::Telemetry;
use silvan_engine::Time;
use silvan_engine::saved::{Saved, Writer};
use silvan_trace::execute::Parcel;

use super::{Announcement, SourceReport, Word};
use crate::link::CreditWay;
use crate::packet::{FlowAddress, Marks, Packet, PacketId};

/// A packet that crosses a link to a node, and its additional data.
#[derive(Debug, Saved)]
pub(crate) struct PacketMessage {
    pub packet: Packet,
    pub marks: Marks,
    pub announcement: Option<Announcement>,
    /// Telemetry of the outputs that the packet has left through. Present if switches stamp packets.
    pub telemetry: Vec<Telemetry>,
    /// The time at which the packet arrives.
    pub time: Time,
    /// The key of the packet's arrival event.
    pub key: u32,
}

/// Credit that the receiver of a channel returns. It leaves the receiver at `leaves_at` and reaches the
/// sender after the propagation delay of the channel.
#[derive(Debug, Clone, Copy, Saved)]
pub(crate) struct CreditReturn {
    /// The channel, virtual lane and destination of the packet whose space becomes free.
    pub way: CreditWay,
    /// Bytes of buffer space.
    pub space: u32,
    pub leaves_at: Time,
    /// See [`crate::packet::Pool::ledger`].
    pub ledger: u32,
}

/// The head of a packet on its way to an output of the binned scheduler, stored by value.
#[derive(Debug, Clone, Copy, Saved)]
#[repr(C)]
pub(crate) struct HeadArrival {
    pub output: u32,
    pub packet: PacketId,
    /// The lower bits of the time at which the head is ready for arbitration. The bin determines the other
    /// bits.
    pub when: u32,
    /// See [`crate::voq::Head::to`].
    pub to: u32,
    pub size: u16,
    pub space: u16,
    pub input: u16,
    pub vl: u8,
}

const _: () = assert!(size_of::<HeadArrival>() == 24);

/// A parcel of a job on its way to another rank.
#[derive(Debug, Clone, Copy, Saved)]
#[saved(relative(Self::save_relative))]
pub(crate) struct Travel {
    pub parcel: Parcel,
    /// The time at which the rank posted the message.
    pub handed: Time,
    /// The row in the log of the partition that sent the message; `None` if the message is not logged.
    pub row: Option<u32>,
    /// Number of pieces of the parcel, each of which uses other ports.
    pub pieces: u32,
    /// Payload of this piece in bytes, at least that of the smallest message.
    pub bytes: u64,
    /// The time that the whole message takes on an empty network, with the ports that its host selected first. Zero if the parcel
    /// does not carry the bytes of the message.
    pub alone: Time,
}

impl Travel {
    /// Saves the number of the row as that of a series.
    fn save_relative(&self, to: &mut Writer<'_>) {
        let Self { parcel, handed, row, pieces, bytes, alone } = self;
        parcel.save(to);
        to.label("Travel");
        handed.save(to);
        row.is_some().save(to);
        if let Some(row) = row {
            to.put_row(*row);
        }
        pieces.save(to);
        bytes.save(to);
        to.put_state(&alone.0.to_le_bytes());
    }
}

/// The arrival of a message that is logged.
#[derive(Debug, Clone, Copy, Saved)]
pub(crate) struct LoggedArrival {
    /// The row in the log of the partition that sent the message.
    pub row: u32,
    /// The flow of the part that arrived last.
    pub flow: FlowAddress,
    pub time: Time,
}

/// Messages between the ranks of two partitions, with the number of their job.
#[derive(Debug, Clone, Copy, Saved)]
pub(crate) enum JobMessage {
    /// A parcel of a flow to the other partition was posted.
    Parcel(u16, FlowAddress, Travel),
    /// A message from the other partition was received.
    Received(u16, LoggedArrival),
    /// All ranks of the sender's partition have finished, the last one at the given time.
    Finished(u16, Time),
}

/// A packet with its marks and telemetry.
pub(crate) type Carried = (Packet, Marks, Vec<Telemetry>);

/// The messages of one partition for another. Each list is in the order of sending.
#[derive(Debug, Saved)]
pub(crate) struct Mailbox {
    pub packets: Vec<PacketMessage>,
    pub credits: Vec<CreditReturn>,
    /// Each entry contains the time of arrival and the key of the arrival event.
    pub notices: Vec<(Time, u32, Word)>,
    /// Each entry contains the time at which the head is ready for arbitration.
    pub heads: Vec<(Time, HeadArrival, Carried)>,
    /// Pause frames and notifications for outputs of the binned scheduler, with the time of arrival. A notification has its
    /// report, which the receiver stores.
    pub output_messages: Vec<(Time, HeadArrival, Option<SourceReport>)>,
    pub jobs: Vec<JobMessage>,
    earliest: Time,
}

impl Default for Mailbox {
    fn default() -> Self {
        Self {
            packets: Vec::new(),
            credits: Vec::new(),
            notices: Vec::new(),
            heads: Vec::new(),
            output_messages: Vec::new(),
            jobs: Vec::new(),
            earliest: Time::NEVER,
        }
    }
}

impl Mailbox {
    /// Adds a packet for a node.
    pub fn send_packet(&mut self, message: PacketMessage) {
        self.note(message.time);
        self.packets.push(message);
    }

    /// Adds credit for the sender of a channel, which receives it at `back`.
    pub fn send_credit(&mut self, credit: CreditReturn, back: Time) {
        self.note(back);
        self.credits.push(credit);
    }

    /// Adds a notification, which arrives at `time` as an event with `key`.
    pub fn send_notice(&mut self, time: Time, key: u32, word: Word) {
        self.note(time);
        self.notices.push((time, key, word));
    }

    /// Adds a packet whose head is ready for arbitration at an output at `when`.
    pub fn send_head(&mut self, when: Time, arrival: HeadArrival, carried: Carried) {
        self.note(when);
        self.heads.push((when, arrival, carried));
    }

    #[inline]
    fn note(&mut self, time: Time) {
        self.earliest = self.earliest.min(time);
    }

    /// The earliest time at which a message takes effect; `Time::NEVER` if there are no messages.
    pub fn earliest(&self) -> Time {
        self.earliest
    }

    pub fn is_empty(&self) -> bool {
        self.earliest == Time::NEVER && self.jobs.is_empty()
    }

    /// Records that all messages have been removed.
    pub fn emptied(&mut self) {
        debug_assert!(
            self.packets.is_empty()
                && self.credits.is_empty()
                && self.notices.is_empty()
                && self.heads.is_empty()
                && self.output_messages.is_empty()
                && self.jobs.is_empty(),
            "every message has a receiver"
        );
        self.earliest = Time::NEVER;
    }

    /// Adds a pause frame for an output, or a notification that must pass it.
    pub fn send_output_message(&mut self, time: Time, message: HeadArrival, report: Option<SourceReport>) {
        self.note(time);
        self.output_messages.push((time, message, report));
    }

    /// The packets in this mailbox.
    pub fn iter_packets(&self) -> impl Iterator<Item = &Packet> {
        let of_nodes = self.packets.iter().map(|message| &message.packet);
        of_nodes.chain(self.heads.iter().map(|(_, _, carried)| &carried.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::NO_LEDGER;
    use silvan_network::port::Vl;

    #[test]
    fn a_mailbox_knows_the_first_time_at_which_it_matters() {
        let mut mailbox = Mailbox::default();
        assert!(mailbox.is_empty());
        mailbox.jobs.push(JobMessage::Finished(0, Time(3)));
        assert!(!mailbox.is_empty(), "a message about jobs is a message");
        assert_eq!(mailbox.earliest(), Time::NEVER, "and causes no event");
        let credit = CreditReturn {
            way: CreditWay { channel: 0, vl: Vl::FIRST, dst: 0 },
            space: 64,
            leaves_at: Time(20),
            ledger: NO_LEDGER,
        };
        mailbox.send_credit(credit, Time(25));
        mailbox.send_credit(credit, Time(30));
        assert_eq!(mailbox.earliest(), Time(25));
        mailbox.jobs.clear();
        mailbox.credits.clear();
        mailbox.emptied();
        assert!(mailbox.is_empty());
    }
}
