//! What every node works with while it handles an event: the clock, the queue, the packets, the
//! links and the meters. Nodes reach each other only through the links.

use silvan_engine::{EventQueue, Time};

use crate::link::{ChannelId, Class, Links, Way};
use crate::measure::Meters;
use crate::packet::{Kind, PacketId, Pool};
use crate::queueing::isolation::Notice;

/// Notifications on the wire. Places are reused.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    slots: Vec<Option<Notice>>,
    free: Vec<u32>,
}

impl Notices {
    fn add(&mut self, notice: Notice) -> u32 {
        if let Some(id) = self.free.pop() {
            self.slots[id as usize] = Some(notice);
            return id;
        }
        self.slots.push(Some(notice));
        (self.slots.len() - 1) as u32
    }

    /// Takes a notification off the wire.
    pub fn take(&mut self, id: u32) -> Option<Notice> {
        self.free.push(id);
        self.slots[id as usize].take()
    }
}

/// What a packet that goes ahead of a flow, along with it or behind it tells and learns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Announcement {
    /// Which of the three it was, as a reply tells.
    pub kind: Kind,
    /// Bytes of the flow.
    pub bytes: u64,
    /// The largest weight of a link on its way so far, in picoseconds.
    pub largest_ps: u64,
}

/// Announcements on their way. Places are reused.
#[derive(Debug, Default)]
pub(crate) struct Announcements {
    slots: Vec<Announcement>,
    free: Vec<u32>,
}

impl Announcements {
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

    /// Takes an announcement that is back at its source.
    pub fn take(&mut self, id: u32) -> Announcement {
        self.free.push(id);
        self.slots[id as usize]
    }
}

/// The common ground of all nodes.
#[derive(Debug)]
pub(crate) struct Core {
    pub now: Time,
    pub queue: EventQueue,
    pub packets: Pool,
    pub links: Links,
    pub meters: Meters,
    /// Notifications on the wire.
    pub notices: Notices,
    /// Announcements of flows on their way.
    pub announcements: Announcements,
    /// Switches and outputs that may have something to send at this instant.
    pub dirty_outputs: Vec<(u32, u32)>,
    /// Hosts that may have something to send at this instant.
    pub dirty_hosts: Vec<u32>,
}

impl Core {
    /// See [`Links::has_some_credit`].
    #[inline(always)]
    pub fn has_some_credit(&mut self, channel: ChannelId, vl: u8, space: u32) -> bool {
        self.links.has_some_credit(channel, vl, space, self.now)
    }

    /// See [`Links::has_credit_or_wait`].
    #[inline(always)]
    pub fn has_credit_or_wait(&mut self, way: Way, space: u32) -> bool {
        self.links.has_credit_or_wait(way, space, self.now, &mut self.queue)
    }

    /// See [`Links::wake`].
    #[inline(always)]
    pub fn wake(&mut self, channel: ChannelId, time: Time) {
        self.links.wake(channel, time, &mut self.queue);
    }

    /// See [`Links::send`].
    #[inline(always)]
    pub fn send(&mut self, channel: ChannelId, packet: PacketId) -> Time {
        self.links.send(channel, packet, &mut self.packets, self.now, &mut self.queue)
    }

    /// See [`Links::release`].
    #[inline(always)]
    pub fn release(&mut self, way: Way, space: u32, time: Time) {
        self.links.release(way, space, (time, self.now), &mut self.queue);
    }

    /// Sends a notification of `bytes` to the node at the far end of a channel.
    pub fn notify(&mut self, channel: ChannelId, class: Class, notice: Notice, bytes: u32) {
        let id = self.notices.add(notice);
        self.links.notify(channel, (class, id), bytes, self.now, &mut self.queue);
    }

    /// When the sender of a channel may send next.
    #[inline(always)]
    pub fn free_at(&self, channel: ChannelId) -> Time {
        self.links.channel(channel).free_at
    }
}
