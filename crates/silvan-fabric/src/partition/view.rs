//! A read-only view of all partitions of a run as one network, for observers at samples.

use silvan_engine::{Rate, Time};

use super::Partition;
use crate::congestion::log::MarkEvent;
use crate::host::Host;
use crate::link::{ChannelId, LinkParameters, Overflow, Paused, Receiver, Retries, TooLong};
use crate::meters::Meters;
use crate::packet::{Packet, PacketId};
use crate::port::{Port, Vl};
use crate::queueing::isolation::Cams;
use crate::sink::Sink;
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

    /// The input buffer of a host.
    pub fn sink(self, host: usize) -> &'a Sink {
        let (partition, place) = self.places.hosts[host];
        &self.partitions[usize::from(partition)].ctx.sinks[place as usize]
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

    /// Data packets in the buffers of their hosts that will be counted as delivered later.
    pub fn received_early(self) -> impl Iterator<Item = &'a Packet> {
        self.partitions.iter().flat_map(move |partition| partition.ctx.meters.later(self.now, true))
    }

    /// The packets in a host's output buffer.
    pub fn buffered(self, host: &Host) -> (&'a Partition, Vec<PacketId>) {
        let (partition, _) = self.places.hosts[host.id as usize];
        let partition = &self.partitions[usize::from(partition)];
        (partition, host.buffered(&partition.ctx.packets))
    }

    /// Number of notifications for sources on their way.
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
        self.partitions.iter().filter_map(|partition| partition.ctx.links.frames()?.overflow).min()
    }

    /// The first pause that has reached the limit of the watchdog, if it stops the run.
    pub fn paused_too_long(self) -> Option<TooLong> {
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

    /// A channel's data rate.
    pub fn rate(self, channel: ChannelId) -> Rate {
        self.sender(channel).ctx.links.rate(channel)
    }

    /// The rate and the delays of a channel.
    pub fn parameters(self, channel: ChannelId) -> &'a LinkParameters {
        let links = &self.sender(channel).ctx.links;
        &links.all_parameters()[links.parameters_index(channel)]
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
                links.frames().is_none_or(|frames| frames.is_shut(channel, vl))
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

    /// The number of packets that an output of a switch has trimmed.
    pub fn trimmed(self, switch: u32, output: Port) -> u64 {
        let (partition, place) = self.place(switch);
        partition.switches.get(place).map_or(0, |switch| switch.trimmed(output))
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

    /// Same as [`Partition::check_channel`], but skips channels between partitions, because neither end knows the
    /// bytes in flight.
    ///
    /// # Errors
    /// A description of the violated invariant.
    #[cfg(debug_assertions)]
    pub fn check_channel(self, channel: ChannelId) -> Result<(), String> {
        let sender = self.sender(channel);
        let far = self.receiver[channel as usize].map(|(switch, input)| (self.place(switch), input));
        if far.is_some_and(|((receiver, _), _)| !std::ptr::eq(receiver, sender)) {
            return Ok(());
        }
        sender.check_channel(channel, far.map(|((_, place), input)| (place, input)))
    }

    /// The error message about a packet that overtook another packet of its flow, if there is one.
    #[cfg(debug_assertions)]
    pub fn out_of_order(self) -> Option<&'a String> {
        self.partitions.iter().find_map(|partition| partition.ctx.meters.out_of_order.as_ref())
    }
}
