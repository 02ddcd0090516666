//! Links: all that one node can do to another.
//!
//! A full-duplex link is two [`Channel`]s. A channel carries packets one way and the credits
//! for them the other way, each with the link's delay. Credits are accounted for lazily: a
//! returning credit waits in the channel until the sender looks, and an event is spent on it
//! only if the sender is known to wait for it.

use silvan_engine::units::BytePace;
use silvan_engine::{Event, EventQueue, Time};

use smallvec::SmallVec;

use crate::packet::{PacketId, Pool};

/// Index into [`Links::channels`].
pub(crate) type ChannelId = u32;

/// What an event is about; the upper bits of its key. Within an instant, whatever arrives is
/// handled before whoever wants to send is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// A packet's head is ready for arbitration at a switch.
    SwitchArrival = 0,
    /// A packet's tail is in at a host.
    HostArrival = 1,
    /// A packet that had to wait for its tail (slow link to fast link) is ready.
    SwitchReady = 2,
    /// A switch output wants to look again.
    SwitchWake = 3,
    /// A host wants to look again.
    HostWake = 4,
    /// End of the warm-up.
    Warmup = 5,
    /// End of a measuring interval.
    Sample = 6,
}

impl Class {
    pub const ALL: [Self; 7] = [
        Self::SwitchArrival,
        Self::HostArrival,
        Self::SwitchReady,
        Self::SwitchWake,
        Self::HostWake,
        Self::Warmup,
        Self::Sample,
    ];
}

/// An event's key: class, node (20 bits), port index (8 bits).
#[inline]
pub(crate) fn key(class: Class, node: u32, port: u32) -> u32 {
    debug_assert!(node < MAX_NODES && port < MAX_PORTS);
    (class as u32) << 28 | node << 8 | port
}

/// Takes a [`key`] apart.
#[inline]
pub(crate) fn unkey(key: u32) -> (Class, u32, u32) {
    (Class::ALL[(key >> 28) as usize], key >> 8 & (MAX_NODES - 1), key & (MAX_PORTS - 1))
}

/// Nodes of a kind that an event's key can name.
pub(crate) const MAX_NODES: u32 = 1 << 20;
/// Ports of a switch that an event's key can name.
pub(crate) const MAX_PORTS: u32 = 1 << 8;

/// The sending side of one direction of a link.
#[derive(Debug)]
pub(crate) struct Channel {
    pace: BytePace,
    /// Propagation.
    delay: Time,
    /// From the start of sending to the arrival event, for a switch (propagation and the
    /// switch's latency); a host's arrival event is at the tail.
    head_delay: Time,
    to_host: bool,
    arrival_key: u32,
    wake_key: u32,
    /// When the sender has put the last bit of the packet before on the wire.
    pub free_at: Time,
    /// The earliest pending wake-up, or never.
    wake_at: Time,
    /// Data and control bytes sent so far, on the wire.
    pub sent_bytes: u64,
    /// In bits per second, to compare two channels.
    pub rate: u64,
}

/// Credits of one virtual lane of a channel, in bytes.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    available: u32,
    capacity: u32,
    /// Space being freed downstream: when the sender learns of it, and how much. In order. Few
    /// at a time, as what is back is booked whenever another is added.
    returning: SmallVec<[(Time, u32); 4]>,
    /// The credit that the sender waits for; zero if it waits for none.
    wanted: u32,
    /// Space of the packets on the wire (debug builds check the books with it).
    #[cfg(debug_assertions)]
    in_flight: u32,
}

impl Lane {
    /// Books the credits that are back by now.
    #[inline]
    fn collect(&mut self, now: Time) {
        let entries = self.returning.as_mut_slice();
        if entries.first().is_none_or(|entry| entry.0 > now) {
            return;
        }
        let mut back = 0;
        while back < entries.len() && entries[back].0 <= now {
            self.available += entries[back].1;
            back += 1;
        }
        entries.copy_within(back.., 0);
        let left = entries.len() - back;
        self.returning.truncate(left);
    }

    /// When the credit that the sender waits for is back, if it is on its way.
    #[inline]
    fn ready_at(&self) -> Option<Time> {
        let mut sum = self.available;
        self.returning.iter().find_map(|&(time, freed)| {
            sum += freed;
            (sum >= self.wanted).then_some(time)
        })
    }

    /// Adds a credit that is back at a given time.
    #[inline]
    fn add(&mut self, entry: (Time, u32)) {
        self.returning.push(entry);
        let entries = self.returning.as_mut_slice();
        let mut place = entries.len() - 1;
        while place > 0 && entries[place - 1].0 > entry.0 {
            entries.swap(place - 1, place);
            place -= 1;
        }
    }
}

/// Everything a channel needs to know at construction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChannelSpec {
    pub rate: silvan_engine::Rate,
    pub delay: Time,
    pub receiver_latency: Time,
    pub to_host: bool,
    pub arrival_key: u32,
    pub wake_key: u32,
    /// Receive buffer of each virtual lane.
    pub lane_capacity: u32,
}

/// All channels of the network.
#[derive(Debug, Default)]
pub(crate) struct Links {
    pub channels: Vec<Channel>,
    lanes: Vec<Lane>,
    lane_count: usize,
    /// Packets that crossed a link, once per link.
    pub packet_hops: u64,
}

impl Links {
    pub fn new(specs: &[ChannelSpec], lane_count: u8) -> Self {
        let lane_count = usize::from(lane_count);
        let channels = specs
            .iter()
            .map(|spec| Channel {
                pace: spec.rate.pace(),
                delay: spec.delay,
                head_delay: spec.delay + spec.receiver_latency,
                to_host: spec.to_host,
                arrival_key: spec.arrival_key,
                wake_key: spec.wake_key,
                free_at: Time::ZERO,
                wake_at: Time::NEVER,
                sent_bytes: 0,
                rate: spec.rate.0,
            })
            .collect();
        let lanes = specs
            .iter()
            .flat_map(|spec| std::iter::repeat_n(spec.lane_capacity, lane_count))
            .map(|capacity| Lane { available: capacity, capacity, ..Lane::default() })
            .collect();
        Self { channels, lanes, lane_count, packet_hops: 0 }
    }

    #[inline]
    pub fn channel(&self, id: ChannelId) -> &Channel {
        &self.channels[id as usize]
    }

    #[inline]
    fn lane_index(&self, id: ChannelId, vl: u8) -> usize {
        id as usize * self.lane_count + usize::from(vl)
    }

    /// Virtual lanes of every channel.
    #[cfg(debug_assertions)]
    pub fn lane_count(&self) -> u8 {
        self.lane_count as u8
    }

    /// Whether `space` bytes of credit are there now.
    #[inline]
    pub fn has_credit(&mut self, id: ChannelId, vl: u8, space: u32, now: Time) -> bool {
        let index = self.lane_index(id, vl);
        let lane = &mut self.lanes[index];
        if lane.available >= space {
            return true;
        }
        lane.collect(now);
        lane.available >= space
    }

    /// Whether credit is there; if not, sees to it that the sender is woken when it may be.
    #[inline]
    pub fn has_credit_or_wait(
        &mut self,
        id: ChannelId,
        vl: u8,
        space: u32,
        now: Time,
        queue: &mut EventQueue,
    ) -> bool {
        if self.has_credit(id, vl, space, now) {
            return true;
        }
        let index = self.lane_index(id, vl);
        let lane = &mut self.lanes[index];
        lane.wanted = space;
        if let Some(time) = lane.ready_at() {
            self.wake(id, time, queue);
        }
        false
    }

    /// Wakes the sender at `time`, unless it is to be woken before that anyway.
    #[inline]
    pub fn wake(&mut self, id: ChannelId, time: Time, queue: &mut EventQueue) {
        let channel = &mut self.channels[id as usize];
        if time < channel.wake_at {
            channel.wake_at = time;
            queue.push(Event { time, key: channel.wake_key, data: id });
        }
    }

    /// Whether a wake-up is the one that counts: an earlier one may have been added since.
    #[inline]
    pub fn take_wake(&mut self, id: ChannelId, now: Time) -> bool {
        let channel = &mut self.channels[id as usize];
        if channel.wake_at != now {
            return false;
        }
        channel.wake_at = Time::NEVER;
        true
    }

    /// Puts a packet on the wire. The sender has seen to it that the channel is free and that
    /// there is credit. Returns when its tail has left.
    #[inline]
    pub fn send(
        &mut self,
        id: ChannelId,
        packet_id: PacketId,
        packets: &mut Pool,
        now: Time,
        queue: &mut EventQueue,
    ) -> Time {
        let packet = &mut packets[packet_id];
        let index = self.lane_index(id, packet.vl);
        let channel = &mut self.channels[id as usize];
        debug_assert!(channel.free_at <= now, "a channel sends one packet at a time");
        debug_assert!(self.lanes[index].available >= packet.space, "a packet starts only with credit");
        self.lanes[index].available -= packet.space;
        self.lanes[index].wanted = 0;
        #[cfg(debug_assertions)]
        {
            self.lanes[index].in_flight += packet.space;
        }
        let span = channel.pace.time(packet.size);
        packet.tail_lag = span;
        channel.free_at = now + span;
        channel.sent_bytes += u64::from(packet.size);
        self.packet_hops += 1;
        let arrival =
            if channel.to_host { channel.free_at + channel.delay } else { now + channel.head_delay };
        queue.push(Event { time: arrival, key: channel.arrival_key, data: packet_id });
        channel.free_at
    }

    /// The time `bytes` take on a channel.
    #[inline]
    pub fn span(&self, id: ChannelId, bytes: u32) -> Time {
        self.channels[id as usize].pace.time(bytes)
    }

    /// The receiver frees `space` at `time` (now or soon); the credit travels back.
    #[inline]
    pub fn release(
        &mut self,
        id: ChannelId,
        vl: u8,
        space: u32,
        (time, now): (Time, Time),
        queue: &mut EventQueue,
    ) {
        let back = time + self.channels[id as usize].delay;
        let index = self.lane_index(id, vl);
        let lane = &mut self.lanes[index];
        lane.collect(now);
        lane.add((back, space));
        // What comes back now may come back before what was booked earlier.
        if lane.wanted > 0
            && let Some(time) = lane.ready_at()
        {
            self.wake(id, time, queue);
        }
    }

    /// Whether the sender waits on this lane for a credit that is not on its way.
    pub fn is_stuck(&self, id: ChannelId, vl: u8) -> bool {
        let lane = &self.lanes[self.lane_index(id, vl)];
        lane.wanted > 0 && lane.available < lane.wanted && lane.ready_at().is_none()
    }

    /// A packet left the wire for the receiver's buffer (for the books of debug builds).
    #[inline]
    pub fn landed(&mut self, _id: ChannelId, _vl: u8, _space: u32) {
        #[cfg(debug_assertions)]
        {
            let index = self.lane_index(_id, _vl);
            self.lanes[index].in_flight -= _space;
        }
    }

    /// Checks that the sender's credit, what is in flight, what is `buffered` and what returns
    /// add up to the buffer.
    ///
    /// # Errors
    /// A sentence with the numbers.
    #[cfg(debug_assertions)]
    pub fn check_credits(&self, id: ChannelId, vl: u8, buffered: u32) -> Result<(), String> {
        let lane = &self.lanes[self.lane_index(id, vl)];
        let returning: u32 = lane.returning.iter().map(|entry| entry.1).sum();
        if lane.available + lane.in_flight + buffered + returning == lane.capacity {
            return Ok(());
        }
        Err(format!(
            "channel {id} VL {vl}: credit {} + in flight {} + buffered {buffered} + returning {returning} \
             is not the buffer's {}",
            lane.available, lane.in_flight, lane.capacity
        ))
    }

    /// Bytes of the lane's capacity that are out with the sender's consent: in flight, buffered
    /// downstream, or returning.
    pub fn outstanding(&self, id: ChannelId, vl: u8, now: Time) -> u32 {
        let lane = &self.lanes[self.lane_index(id, vl)];
        let back: u32 = lane.returning.iter().filter(|entry| entry.0 <= now).map(|entry| entry.1).sum();
        lane.capacity - lane.available - back
    }
}
