//! Messages between nodes, except packets and credits, and the mailboxes in which partitions exchange
//! messages.

mod mailbox;

use silvan_engine::Time;
use silvan_engine::saved::Saved;
use silvan_network::port::Port;

use crate::link::{ChannelId, Signal};
use crate::packet::{Kind, PacketId};
use crate::queueing::isolation::Notice;
pub(crate) use mailbox::{
    CreditReturn, HeadArrival, JobMessage, LoggedArrival, Mailbox, PacketMessage, Travel,
};

/// A report that a switch sends to the source of a packet, instead of marking the packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Saved)]
pub(crate) struct SourceReport {
    /// The host of the source.
    pub to: u32,
    /// The packet's destination.
    pub destination: u32,
    /// Index of the source at its host.
    pub source: u16,
    /// Severity of congestion; 0 if marks are single bits.
    pub severity: u8,
    /// The time at which the source began to send the packet.
    pub sent_at: Time,
}

/// A packet that a host has begun to send to the outputs of a binned scheduler.
#[derive(Debug, Clone, Copy, Saved)]
pub(crate) struct Entering {
    pub channel: ChannelId,
    pub packet: PacketId,
    /// The time at which the packet's head is ready for arbitration.
    pub when: Time,
}

/// The order in which reports are sent: the place of the sending switch, whether the switch itself marked the
/// packet, and the port of the mark or the port at which the report arrived.
pub(crate) type Cause = (u32, bool, Port);

/// The content of a notification.
#[derive(Debug, Clone, PartialEq, Eq, Saved)]
pub(crate) enum Word {
    /// For the node at the far end of the link: a notification about one of its CAM lines.
    Line(Notice),
    /// For a host: the report of a switch that has marked a packet. The report may pass other switches.
    Report(SourceReport),
    /// A message of flow control for the sender of a channel.
    Signal(ChannelId, Signal),
}

/// Notifications on the wire. Slots are reused.
#[derive(Debug, Default, Saved)]
pub(crate) struct Notices {
    slots: Vec<Option<Word>>,
    free: Vec<u32>,
}

impl Notices {
    /// Puts a notification on the wire and returns its number.
    pub fn add(&mut self, word: Word) -> u32 {
        if let Some(id) = self.free.pop() {
            self.slots[id as usize] = Some(word);
            return id;
        }
        self.slots.push(Some(word));
        (self.slots.len() - 1) as u32
    }

    /// Number of [`Word::Report`]s.
    pub fn reports(&self) -> usize {
        self.slots.iter().filter(|slot| matches!(slot, Some(Word::Report(_)))).count()
    }

    /// Takes a notification off the wire; `None` if it has been taken before.
    pub fn take(&mut self, id: u32) -> Option<Word> {
        self.free.push(id);
        self.slots[id as usize].take()
    }
}

/// The data that a packet carries along its route and back to announce, probe or end a flow.
#[derive(Debug, Clone, Copy, Saved)]
pub(crate) struct Announcement {
    /// The kind of the packet. A reply repeats it.
    pub kind: Kind,
    /// Size of the flow in bytes.
    pub bytes: u64,
    /// The largest weight of a link on the route so far, in picoseconds.
    pub largest_ps: u64,
    /// The largest weight that the source has received so far, if a data packet carries this announcement.
    pub known_ps: u64,
}

/// Announcements that are on their way. Slots are reused.
#[derive(Debug, Default, Saved)]
pub(crate) struct Announcements {
    slots: Vec<Announcement>,
    free: Vec<u32>,
}

impl Announcements {
    /// Whether any packet of this partition has carried an announcement.
    pub fn are_used(&self) -> bool {
        !self.slots.is_empty()
    }

    pub fn add(&mut self, announcement: Announcement) -> u32 {
        if let Some(id) = self.free.pop() {
            self.slots[id as usize] = announcement;
            return id;
        }
        self.slots.push(announcement);
        (self.slots.len() - 1) as u32
    }

    pub fn get_mut(&mut self, id: u32) -> &mut Announcement {
        &mut self.slots[id as usize]
    }

    /// Removes an announcement and returns it.
    pub fn take(&mut self, id: u32) -> Announcement {
        self.free.push(id);
        self.slots[id as usize]
    }
}
