//! A read-only view of all partitions of a run as one network, for observers at samples.

use silvan_engine::{Rate, Time};
use silvan_network::port::{Port, Vl};

use super::Partition;
use crate::congestion_log::MarkEvent;
use crate::host::Host;
use crate::link::{
    Balance, ChannelId, LinkParameters, LossCounts, Overflow, OverlongPause, Paused, Receiver, Retries,
};
use crate::meters::Meters;
use crate::packet::{Packet, PacketId};
use crate::queueing::isolation::Cams;
use crate::switch::Ports;

/// The partition of each node of a network, and the node's place in it.
#[derive(Debug)]
pub(crate) struct Places {
    /// One entry per host.
    pub hosts: Vec<(u16, u32)>,
    /// One entry per switch.
    pub switches: Vec<(u16, u32)>,
    /// Per channel: the partition of its sender.
    pub senders: Vec<u16>,
}

/// What is on its way on one virtual lane of a channel, in bytes of buffer space.
#[derive(Debug, Clone, Copy, Default)]
struct OnLink {
    in_flight: u64,
    /// Credit that is not in a ledger yet.
    returning: u64,
}

/// What is on its way on all channels.
#[derive(Debug)]
pub(crate) struct OnLinks {
    lanes: usize,
    /// Indexed by channel and virtual lane.
    spaces: Vec<OnLink>,
}

impl OnLinks {
    /// Number of virtual lanes of each channel.
    pub fn lanes(&self) -> usize {
        self.lanes
    }

    fn at(&mut self, channel: ChannelId, vl: Vl) -> &mut OnLink {
        &mut self.spaces[channel as usize * self.lanes + vl.index()]
    }
}

/// Hosts, switches and channels are identified by their numbers in the network.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    /// The time of the sample.
    pub now: Time,
    /// The sums of the counters of all partitions.
    pub totals: &'a Meters,
    /// For each channel, the switch and the input at its receiving end.
    pub receiver: &'a [Receiver],
    pub places: &'a Places,
    pub partitions: &'a [Partition],
}

impl<'a> View<'a> {
    pub fn host_count(self) -> usize {
        self.places.hosts.len()
    }

    pub fn host(self, host: usize) -> &'a Host {
        let (partition, place) = self.places.hosts[host];
        &self.partitions[usize::from(partition)].hosts[place as usize]
    }

    /// All hosts in their order.
    pub fn hosts(self) -> impl Iterator<Item = &'a Host> {
        (0..self.host_count()).map(move |host| self.host(host))
    }

    pub fn switch_count(self) -> usize {
        self.places.switches.len()
    }

    pub fn ports(self, switch: u32) -> &'a Ports {
        let (partition, place) = self.place(switch);
        partition.ports(place)
    }

    /// The ports of all switches, in their order.
    pub fn all_ports(self) -> impl Iterator<Item = &'a Ports> + Clone {
        (0..self.switch_count()).map(move |switch| self.ports(switch as u32))
    }

    /// The CAMs of a switch, if it has special queues.
    pub fn cams(self, switch: u32) -> Option<&'a Cams> {
        let (partition, place) = self.place(switch);
        partition.switches.get(place).and_then(|switch| switch.cams())
    }

    /// The CAMs of all switches, in their order.
    pub fn all_cams(self) -> impl Iterator<Item = &'a Cams> {
        (0..self.switch_count()).filter_map(move |switch| self.cams(switch as u32))
    }

    fn place(self, switch: u32) -> (&'a Partition, usize) {
        let (partition, place) = self.places.switches[switch as usize];
        (&self.partitions[usize::from(partition)], place as usize)
    }

    /// The partition of the host or switch that sends on a channel.
    fn sender(self, channel: ChannelId) -> &'a Partition {
        &self.partitions[usize::from(self.places.senders[channel as usize])]
    }

    /// Whether no partition has pending events or messages.
    pub fn is_idle(self) -> bool {
        let coming = self.partitions.iter().flat_map(|partition| partition.ctx.meters.later(self.now, false));
        coming.count() == 0 && self.partitions.iter().all(Partition::is_idle)
    }

    /// All packets inside the network.
    pub fn packets(self) -> impl Iterator<Item = &'a Packet> {
        self.partitions.iter().flat_map(Partition::packets_inside)
    }

    /// The number of packets inside the network.
    pub fn alive(self) -> usize {
        self.partitions.iter().map(|partition| partition.ctx.count_inside()).sum()
    }

    /// Pending events, and packets inside the network.
    pub fn pending(self) -> usize {
        self.alive() + self.partitions.iter().map(|partition| partition.ctx.queue.len()).sum::<usize>()
    }

    /// Data packets in the buffers of their hosts that will be counted as delivered later.
    pub fn received_early(self) -> impl Iterator<Item = &'a Packet> {
        self.partitions.iter().flat_map(move |partition| partition.ctx.meters.later(self.now, true))
    }

    /// The partition of a host, and the packets in the host's output buffer.
    pub fn buffered(self, host: &Host) -> (&'a Partition, Vec<PacketId>) {
        let (partition, _) = self.places.hosts[host.id as usize];
        let partition = &self.partitions[usize::from(partition)];
        (partition, host.buffered(&partition.ctx.packets))
    }

    /// Number of notifications that are on their way to sources.
    pub fn reports_on_their_way(self) -> usize {
        self.partitions.iter().map(Partition::reports_on_their_way).sum()
    }

    /// Packets that crossed a link, once per link.
    pub fn packet_hops(self) -> u64 {
        self.partitions.iter().map(|partition| partition.ctx.links.packet_hops).sum()
    }

    /// The pauses of a lane by frames, if there were any.
    pub fn paused(self, channel: ChannelId, vl: Vl) -> Option<Paused> {
        self.sender(channel).ctx.links.frames()?.paused(channel, vl, self.now)
    }

    /// The first packet that did not fit into a buffer, with pause frames.
    pub fn overflow(self) -> Option<Overflow> {
        self.partitions.iter().filter_map(|partition| partition.ctx.links.by_messages()?.overflow()).min()
    }

    /// The first pause that has reached the limit of the watchdog, if the watchdog stops the run.
    pub fn paused_too_long(self) -> Option<OverlongPause> {
        self.partitions.iter().filter_map(|partition| partition.ctx.links.frames()?.too_long(self.now)).min()
    }

    /// The counts of link-level retry of a channel, if frames were sent on it.
    pub fn retries(self, channel: ChannelId) -> Option<Retries> {
        self.sender(channel).ctx.links.retry()?.counts(channel)
    }

    /// The first link that failed, and the time.
    pub fn failed_link(self) -> Option<(Time, ChannelId)> {
        self.partitions.iter().filter_map(|partition| partition.ctx.links.retry()?.failed).min()
    }

    /// Packets that were lost on a channel or dropped by its receiver.
    pub fn lost(self, channel: ChannelId) -> LossCounts {
        let of = self.partitions.iter().map(|partition| partition.ctx.links.lost(channel));
        of.fold(LossCounts::default(), |sum, one| LossCounts {
            data_packets: sum.data_packets + one.data_packets,
            control_packets: sum.control_packets + one.control_packets,
            dropped_packets: sum.dropped_packets + one.dropped_packets,
            bytes: sum.bytes + one.bytes,
        })
    }

    /// Whether the link of a channel is down.
    pub fn is_down(self, channel: ChannelId) -> bool {
        self.sender(channel).ctx.links.is_down(channel)
    }

    /// A channel's data rate without changes during the run.
    pub fn rate(self, channel: ChannelId) -> Rate {
        self.sender(channel).ctx.links.usual_rate(channel)
    }

    /// The rate and the delays of a channel without changes during the run.
    pub fn parameters(self, channel: ChannelId) -> &'a LinkParameters {
        let links = &self.sender(channel).ctx.links;
        &links.all_parameters()[links.usual_index(channel)]
    }

    /// See [`Partition::has_some_credit`].
    pub fn has_some_credit(self, channel: ChannelId, vl: Vl, space: u32) -> bool {
        self.sender(channel).has_some_credit(channel, vl, space)
    }

    /// See [`crate::link::Links::sent_by`].
    pub fn sent_by(self, channel: ChannelId) -> u64 {
        self.sender(channel).sent_by(channel)
    }

    /// See [`crate::link::Links::outstanding`].
    pub fn outstanding(self, channel: ChannelId, vl: Vl) -> u32 {
        self.sender(channel).outstanding(channel, vl)
    }

    /// See [`crate::link::Links::is_stuck`].
    pub fn is_stuck(self, channel: ChannelId, vl: Vl) -> bool {
        let is_shut = || match self.receiver[channel as usize] {
            Some((switch, _)) => {
                let links = &self.place(switch).0.ctx.links;
                links.by_messages().is_none_or(|control| control.is_shut(channel, vl))
            }
            None => true,
        };
        self.sender(channel).is_stuck(channel, vl) && is_shut()
    }

    /// See [`Partition::marks`].
    pub fn marks(self, switch: u32, output: Port) -> (u64, bool) {
        let (partition, place) = self.place(switch);
        partition.marks(place, output)
    }

    /// See [`Partition::trimmed`].
    pub fn trimmed(self, switch: u32, output: Port) -> u64 {
        let (partition, place) = self.place(switch);
        partition.trimmed(place, output)
    }

    /// See [`Partition::log`].
    pub fn log(self, switch: u32, output: Port) -> &'a [MarkEvent] {
        let (partition, place) = self.place(switch);
        partition.log(place, output)
    }

    /// See [`Partition::queued_bytes`].
    pub fn queued_bytes(self, switch: u32, output: Port) -> u32 {
        let (partition, place) = self.place(switch);
        partition.queued_bytes(place, output)
    }

    /// See [`Partition::heads`].
    pub fn heads(self, switch: u32, input: Port, vl: Vl) -> Vec<(Port, Vl)> {
        let (partition, place) = self.place(switch);
        partition.heads(place, input, vl)
    }

    /// Number of virtual lanes of each channel.
    fn lane_count(self) -> usize {
        self.partitions.first().map_or(0, |partition| partition.ctx.links.lane_count())
    }

    /// The space of the packets, and the credits, that are on their way between the nodes of all channels.
    pub fn on_links(self) -> OnLinks {
        let lanes = self.lane_count();
        let mut on_links = OnLinks { lanes, spaces: vec![OnLink::default(); self.receiver.len() * lanes] };
        for partition in self.partitions {
            partition
                .in_flight(&mut |channel, vl, space| on_links.at(channel, vl).in_flight += u64::from(space));
            for (to, mailbox) in self.partitions.iter().zip(&partition.ctx.outbox) {
                to.in_flight_from(mailbox, &mut |channel, vl, space| {
                    on_links.at(channel, vl).in_flight += u64::from(space);
                });
                to.returning_from(mailbox, &mut |channel, vl, space| {
                    on_links.at(channel, vl).returning += u64::from(space);
                });
            }
        }
        on_links
    }

    /// Checks that credit, bytes in flight, buffered bytes and returning credit add up to the buffers of a switch.
    ///
    /// # Errors
    /// The channel, and the message with the numbers.
    pub fn check_credits_of_switch(
        self,
        switch: u32,
        on_links: &mut OnLinks,
    ) -> Result<(), (ChannelId, String)> {
        let ((partition, place), lanes) = (self.place(switch), self.lane_count());
        let ports = partition.ports(place);
        let mut buffered = vec![0; ports.count() * lanes];
        partition.all_buffered(place, &mut |input, vl, space| {
            buffered[input.index() * lanes + vl.index()] += u64::from(space);
        });
        let wired = ports.wiring.iter().zip(buffered.chunks_exact(lanes));
        let mut wired = wired.filter_map(|(wiring, buffered)| Some((wiring.as_ref()?.into, buffered)));
        wired.try_for_each(|(channel, buffered)| self.check_credits(channel, buffered, on_links))
    }

    /// Same as [`Self::check_credits_of_switch`], for a host. A host's buffer drains at a known pace, so its space counts
    /// as returning immediately.
    ///
    /// # Errors
    /// The channel, and the message with the numbers.
    pub fn check_credits_of_host(
        self,
        host: usize,
        on_links: &mut OnLinks,
    ) -> Result<(), (ChannelId, String)> {
        self.check_credits(self.host(host).into, &vec![0; self.lane_count()], on_links)
    }

    /// `buffered` has the space in use at the receiver of a channel, by virtual lane.
    fn check_credits(
        self,
        channel: ChannelId,
        buffered: &[u64],
        on_links: &mut OnLinks,
    ) -> Result<(), (ChannelId, String)> {
        let sender = self.sender(channel);
        for (vl, &buffered) in Vl::all(buffered.len()).zip(buffered) {
            let OnLink { in_flight, returning } = *on_links.at(channel, vl);
            let ledgers = sender.balance(channel, vl);
            let balance =
                Balance { in_flight, buffered, returning: ledgers.returning + returning, ..ledgers };
            balance.check().map_err(|what| (channel, format!("VL {vl}: {what}")))?;
        }
        sender.ctx.links.check_pool(channel, self.now).map_err(|what| (channel, what))
    }

    /// The first invariant that was violated while an event was handled, and the time. Among violations at one time, it is
    /// the first one in alphabetical order, so that it does not depend on the number of partitions.
    pub fn broken(self) -> Option<(Time, String)> {
        self.partitions.iter().filter_map(|partition| partition.ctx.broken()).min()
    }

    /// The error message about a packet that overtook another packet of its flow, if there is one.
    #[cfg(debug_assertions)]
    pub fn out_of_order(self) -> Option<&'a String> {
        self.partitions.iter().find_map(|partition| partition.ctx.meters.out_of_order.as_ref())
    }
}
