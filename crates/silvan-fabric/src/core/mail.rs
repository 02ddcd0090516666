//! What one partition has for another: what crosses a link between them.

use std::sync::Arc;

use silvan_engine::{Event, Time};

use super::{Announcement, Core, Word};
use crate::congestion::facts::Telemetry;
use crate::link::{ChannelId, Class, Way, unkey};
use crate::packet::{Kind, Marks, Packet};

/// A packet on its way, with what goes along with it.
#[derive(Debug)]
struct Parcel {
    packet: Packet,
    marks: Marks,
    telemetry: Vec<Telemetry>,
    announcement: Option<Announcement>,
    time: Time,
    key: u32,
}

/// Packets, credits and notifications for another partition, from one exchange to the next.
#[derive(Debug)]
pub(crate) struct Mail {
    parcels: Vec<Parcel>,
    /// Whose credit, how much, and when it is freed.
    credits: Vec<(Way, u32, Time)>,
    words: Vec<(Time, u32, Word)>,
    /// The earliest time at which any of it matters.
    pub earliest: Time,
}

impl Default for Mail {
    fn default() -> Self {
        Self { parcels: Vec::new(), credits: Vec::new(), words: Vec::new(), earliest: Time::NEVER }
    }
}

impl Mail {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.earliest == Time::NEVER
    }
}

/// What a partition knows of the others.
#[derive(Debug)]
pub(crate) struct Far {
    me: u16,
    /// Per channel: the partitions of its sender and of its receiver.
    ends: Arc<[(u16, u16)]>,
    /// Per partition.
    mail: Vec<Mail>,
}

impl Far {
    pub fn new(me: usize, ends: Arc<[(u16, u16)]>, partitions: usize) -> Self {
        Self { me: me as u16, ends, mail: (0..partitions).map(|_| Mail::default()).collect() }
    }

    /// What there is for the partition that a channel leads to, if it is another one.
    fn for_receiver(&mut self, channel: ChannelId) -> Option<&mut Mail> {
        let there = self.ends[channel as usize].1;
        (there != self.me).then(|| &mut self.mail[usize::from(there)])
    }

    /// The same for the partition that sends on a channel.
    fn for_sender(&mut self, channel: ChannelId) -> Option<&mut Mail> {
        let there = self.ends[channel as usize].0;
        (there != self.me).then(|| &mut self.mail[usize::from(there)])
    }

    /// Whether a channel leads here from another partition.
    #[cfg(debug_assertions)]
    fn comes_from_elsewhere(&self, channel: ChannelId) -> bool {
        self.ends[channel as usize].0 != self.me
    }
}

impl Core {
    /// What there is for another partition.
    pub fn mail_mut(&mut self, part: usize) -> Option<&mut Mail> {
        self.far.as_mut().map(|far| &mut far.mail[part])
    }

    /// A packet has begun to cross a link, at whose end it is to be handled where outputs are run apart or the
    /// receiver is of another partition.
    #[inline(never)]
    pub(super) fn send_otherwise(&mut self, channel: ChannelId, arrival: Event) {
        let id = arrival.data;
        if let Some(outputs) = &mut self.outputs {
            return outputs.enter(channel, id, &self.packets, arrival.time);
        }
        let Some(mail) = self.far.as_mut().and_then(|far| far.for_receiver(channel)) else {
            self.expect(arrival);
            return self.queue.push(arrival);
        };
        let packet = self.packets[id];
        let tells = packet.kind.announces() || packet.kind == Kind::Reply;
        let announcement = tells.then(|| self.announcements.take(packet.payload));
        let marks = self.packets.marks(id);
        let telemetry = self.packets.take_telemetry(id);
        self.packets.remove(id);
        let (time, key) = (arrival.time, arrival.key);
        mail.parcels.push(Parcel { packet, marks, telemetry, announcement, time, key });
        mail.earliest = mail.earliest.min(time);
    }

    /// Notes when a packet will have been delivered, if traffic waits for that and it goes to a host.
    #[inline]
    fn expect(&mut self, arrival: Event) {
        let Some(ahead) = &mut self.ahead else { return };
        let (class, host, _) = unkey(arrival.key);
        let packet = &self.packets[arrival.data];
        if class == Class::HostArrival && packet.kind == Kind::Data {
            ahead.expect(host, (self.packets.number(arrival.data), packet), arrival.time);
        }
    }

    /// The receiver on a channel frees space at a time; its sender is of another partition. False if it is not.
    #[inline(never)]
    pub(super) fn release_otherwise(&mut self, way: Way, space: u32, time: Time) -> bool {
        let Some(mail) = self.far.as_mut().and_then(|far| far.for_sender(way.0)) else { return false };
        mail.credits.push((way, space, time));
        // When the sender learns of it; the link's delay may be nothing.
        mail.earliest = mail.earliest.min(time + self.links.delay(way.0));
        true
    }

    /// Puts a notification on the wire of a channel.
    pub(super) fn tell(&mut self, channel: ChannelId, (time, key): (Time, u32), word: Word) {
        match self.far.as_mut().and_then(|far| far.for_receiver(channel)) {
            Some(mail) => {
                mail.words.push((time, key, word));
                mail.earliest = mail.earliest.min(time);
            }
            None => {
                let data = self.notices.add(word);
                self.queue.push(Event { time, key, data });
            }
        }
    }

    /// Takes in what another partition sent. All that is to be done here before it matters has been.
    pub fn collect(&mut self, mail: &mut Mail) {
        for Parcel { mut packet, marks, telemetry, announcement, time, key } in mail.parcels.drain(..) {
            if let Some(announcement) = announcement {
                packet.payload = self.announcements.add(announcement);
            }
            let data = self.packets.insert(packet);
            self.packets.set_marks(data, marks);
            self.packets.set_telemetry(data, telemetry);
            self.queue.push(Event { time, key, data });
        }
        for (way, space, time) in mail.credits.drain(..) {
            self.links.release(way, space, (time, self.now, Time::ZERO), &mut self.queue);
        }
        for (time, key, word) in mail.words.drain(..) {
            let data = self.notices.add(word);
            self.queue.push(Event { time, key, data });
        }
        mail.earliest = Time::NEVER;
    }

    /// Packets that other partitions have not taken in yet.
    pub(super) fn sent_elsewhere(&self) -> impl Iterator<Item = &Packet> {
        let of_nodes = self.far.iter().flat_map(|far| &far.mail).flat_map(|mail| &mail.parcels);
        let of_outputs = self.outputs.iter().flat_map(|outputs| outputs.sent_elsewhere());
        of_nodes.map(|parcel| &parcel.packet).chain(of_outputs)
    }

    /// A packet left the wire for the receiver's buffer (for the books of debug builds: those of links between
    /// partitions are not kept).
    #[inline]
    pub fn landed(&mut self, _way: Way, _space: u32) {
        #[cfg(debug_assertions)]
        if !self.far.as_ref().is_some_and(|far| far.comes_from_elsewhere(_way.0)) {
            self.links.landed(_way, _space);
        }
    }
}
