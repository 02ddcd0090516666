//! Read access to the state of a partition for observers.

use silvan_engine::Event;
use silvan_network::port::{Port, Vl};

use super::Partition;
use crate::congestion_log::MarkEvent;
use crate::context::Context;
use crate::link::{Balance, ChannelId, Class, CreditWay, EventKey, Retry, unkey};
use crate::message::{CreditReturn, Entering, Mailbox, PacketMessage};
use crate::outputs::{BinnedSwitch, Outputs};
use crate::packet::Packet;
use crate::switch::Ports;

impl Partition {
    /// The outputs of the binned scheduler, and the output that sends on a channel; `None` if a host or a switch of the
    /// event-ordered scheduler sends on it.
    fn output(&self, channel: ChannelId) -> Option<(&Outputs, usize)> {
        let outputs = self.outputs.as_ref()?;
        Some((outputs, outputs.sender(channel)?))
    }

    /// The outputs of the partition, and a switch; `None` if the binned scheduler does not run the switch.
    fn binned(&self, switch: usize) -> Option<(&Outputs, &BinnedSwitch)> {
        Some((self.outputs.as_ref()?, self.binned.get(switch)?))
    }

    /// The ports of a switch of any architecture.
    pub fn ports(&self, switch: usize) -> &Ports {
        self.binned.get(switch).map_or_else(|| self.switches.at(switch).ports(), |switch| &switch.ports)
    }

    /// Whether this partition has no pending events or messages.
    pub fn is_idle(&self) -> bool {
        self.ctx.is_idle() && self.outputs.as_ref().is_none_or(Outputs::is_idle)
    }

    /// See [`crate::context::Context::packets_inside`].
    pub fn packets_inside(&self) -> impl Iterator<Item = &Packet> {
        self.ctx.packets_inside()
    }

    /// Number of notifications for sources on their way.
    pub fn reports_on_their_way(&self) -> usize {
        let sent = self.ctx.outbox.iter().flat_map(|mailbox| &mailbox.output_messages);
        let sent = sent.filter(|(_, _, report)| report.is_some()).count();
        self.ctx.reports.len() + self.ctx.notices.reports() + sent
    }

    /// Whether there are `space` bytes of credit for some packet on a channel. A node of this partition must send on
    /// it.
    pub fn has_some_credit(&self, channel: ChannelId, vl: Vl, space: u32) -> bool {
        match self.output(channel) {
            Some((outputs, output)) => outputs.has_some_credit(output, vl, space, self.ctx.now),
            None => self.ctx.links.would_have_credit(channel, vl, space, self.ctx.now),
        }
    }

    /// See [`crate::link::Links::sent_by`].
    pub fn sent_by(&self, channel: ChannelId) -> u64 {
        match self.output(channel) {
            Some((outputs, output)) => outputs.sent_by(output, self.ctx.now),
            None => self.ctx.links.sent_by(channel, self.ctx.now),
        }
    }

    /// See [`crate::link::Links::outstanding`].
    pub fn outstanding(&self, channel: ChannelId, vl: Vl) -> u32 {
        match self.output(channel) {
            Some((outputs, output)) => outputs.outstanding(output, vl, self.ctx.now),
            None => {
                let early = self.outputs.as_ref().map_or(0, |outputs| outputs.early_of_host(channel, vl));
                self.ctx.links.outstanding(channel, vl, self.ctx.now) + early
            }
        }
    }

    /// See [`crate::link::Links::is_stuck`].
    pub fn is_stuck(&self, channel: ChannelId, vl: Vl) -> bool {
        match self.output(channel) {
            Some((outputs, output)) => outputs.is_stuck(output, vl),
            None => self.ctx.links.is_stuck(channel, vl, self.ctx.now),
        }
    }

    /// The number of data packets that an output of a switch marked first, and whether the output is in the congestion
    /// state on any virtual lane.
    pub fn marks(&self, switch: usize, output: Port) -> (u64, bool) {
        match self.binned(switch) {
            Some((outputs, of)) => outputs.state(of.first as usize + output.index()),
            None => self.switches.at(switch).marks(output),
        }
    }

    /// The number of packets that an output of a switch has trimmed.
    pub fn trimmed(&self, switch: usize, output: Port) -> u64 {
        match self.binned(switch) {
            Some((outputs, of)) => outputs.trimmed(of.first as usize + output.index()),
            None => {
                let trimmer = self.switches.at(switch).ports().trimmer.as_ref();
                trimmer.map_or(0, |trimmer| trimmer.count(output.index()))
            }
        }
    }

    /// The congestion log of an output of a switch, from the oldest event to the latest.
    pub fn log(&self, switch: usize, output: Port) -> &[MarkEvent] {
        match self.binned(switch) {
            Some((outputs, of)) => outputs.log(of.first as usize + output.index()),
            None => self.switches.at(switch).ports().marking.log(output.index()),
        }
    }

    /// Bytes in the queues from which an output of a switch sends.
    pub fn queued_bytes(&self, switch: usize, output: Port) -> u32 {
        match self.binned(switch) {
            Some((outputs, of)) => outputs.queued_bytes(of.first as usize + output.index()),
            None => self.switches.at(switch).queued_bytes(output),
        }
    }

    /// The outputs of a switch, with their lanes, for which the packets at the heads of an input's queues wait. Buffer
    /// space of a lane becomes free as soon as one of these packets is sent.
    pub fn heads(&self, switch: usize, input: Port, vl: Vl) -> Vec<(Port, Vl)> {
        match self.binned(switch) {
            Some((outputs, of)) => {
                outputs.requested(of, input, vl).into_iter().map(|output| (output, vl)).collect()
            }
            None => self.switches.at(switch).heads(&self.ctx, input, vl),
        }
    }

    /// See [`crate::link::Links::change_credit`].
    #[cfg(test)]
    pub fn change_credit(&mut self, channel: ChannelId, by: i32) {
        match self.output(channel).map(|(_, output)| output) {
            Some(output) => self.outputs.as_mut().unwrap().change_credit(output, by),
            None => self.ctx.links.change_credit(channel, by),
        }
    }

    /// The content of the ledgers of a virtual lane of a channel. A node of this partition must send on the channel.
    pub fn balance(&self, channel: ChannelId, vl: Vl) -> Balance {
        match self.output(channel) {
            Some((outputs, output)) => outputs.balance(output, vl),
            None => self.ctx.links.balance(channel, vl),
        }
    }

    /// Calls `add` with parts of the buffer space in use at the inputs of a switch, by virtual lane.
    pub fn all_buffered(&self, switch: usize, add: &mut dyn FnMut(Port, Vl, u32)) {
        match self.binned(switch) {
            Some((outputs, of)) => outputs.all_buffered(&self.ctx.packets, of, add),
            None => self.switches.at(switch).all_buffered(&self.ctx, add),
        }
    }

    /// The switch to which an output of the binned scheduler belongs.
    fn switch_of(&self, output: usize) -> &BinnedSwitch {
        &self.binned[self.binned.partition_point(|switch| switch.first as usize <= output) - 1]
    }

    /// The channel on which a packet with this arrival event is; `None` for other events.
    fn channel_of(&self, event: &Event) -> Option<ChannelId> {
        let EventKey { class, node, port } = unkey(event.key);
        match class {
            Class::SwitchArrival | Class::SwitchReady => Some(self.ports(node as usize).feeder(port)),
            Class::HostArrival => Some(self.hosts[node as usize].into),
            // The other events concern no packet, or one that has left the network.
            _ => None,
        }
    }

    /// Calls `add` for the packets of this partition that have left a node, but have not reached the buffer of the next
    /// one. With the binned scheduler, the space of a packet for a host returns as soon as the packet leaves.
    pub fn in_flight(&self, add: &mut impl FnMut(ChannelId, Vl, u32)) {
        let Context { packets, links, .. } = &self.ctx;
        for &Entering { channel, packet, .. } in &self.ctx.entering {
            add(channel, packets[packet].vl, packets[packet].space);
        }
        if let Some(outputs) = &self.outputs {
            outputs.arriving(|output, input, vl, space| {
                add(self.switch_of(output).ports.feeder(Port::new(input)), vl, space);
            });
            return self.in_flight_to_shared_hosts(add);
        }
        for event in self.ctx.queue.iter() {
            let Some(channel) = self.channel_of(event) else { continue };
            let EventKey { class, node, .. } = unkey(event.key);
            let packet = &packets[event.data];
            // A packet that waits for its tail has already been assigned the lane on which it leaves.
            let is_routed = class == Class::SwitchReady;
            let vl = if is_routed { self.ports(node as usize).came(packet) } else { packet.vl };
            add(channel, vl, packet.space);
        }
        for (channel, packet) in links.retry().into_iter().flat_map(Retry::unaccepted) {
            add(channel, packets[packet].vl, packets[packet].space);
        }
    }

    /// Same as [`Self::in_flight`], for hosts of the binned scheduler that share a rate in both directions. The credit of a lost
    /// packet returns as soon as the packet leaves, as with other hosts.
    fn in_flight_to_shared_hosts(&self, add: &mut impl FnMut(ChannelId, Vl, u32)) {
        let Context { packets, links, queue, sinks, .. } = &self.ctx;
        if !sinks.iter().any(|sink| sink.is_shared) {
            return;
        }
        for event in queue.iter() {
            let EventKey { class, node, .. } = unkey(event.key);
            if class == Class::HostArrival
                && sinks[node as usize].is_shared
                && !links.is_lost_on_way(event.data)
            {
                let packet = &packets[event.data];
                add(self.hosts[node as usize].into, packet.vl, packet.space);
            }
        }
    }

    /// Same as [`Self::in_flight`], for packets that another partition has sent to this one, but that have not been
    /// received.
    pub fn in_flight_from(&self, mailbox: &Mailbox, add: &mut impl FnMut(ChannelId, Vl, u32)) {
        for PacketMessage { packet, key, time, .. } in &mailbox.packets {
            if let Some(channel) = self.channel_of(&Event { time: *time, key: *key, data: 0 }) {
                add(channel, packet.vl, packet.space);
            }
        }
        for (_, head, _) in &mailbox.heads {
            let switch = self.switch_of(head.output as usize);
            add(switch.ports.feeder(Port::new(head.input.into())), Vl(head.vl), head.space.into());
        }
    }

    /// Calls `add` for the credit that another partition has returned to senders of this one, but that has not been
    /// received.
    pub fn returning_from(&self, mailbox: &Mailbox, add: &mut impl FnMut(ChannelId, Vl, u32)) {
        for &CreditReturn { way: CreditWay { channel, vl, .. }, space, .. } in &mailbox.credits {
            add(channel, vl, space);
        }
    }
}
