//! Read access to the state of a partition for observers.

use super::Partition;
use crate::congestion::log::MarkEvent;
use crate::link::ChannelId;
use crate::outputs::{BinnedSwitch, Outputs};
use crate::packet::Packet;
use crate::port::{Port, Vl};
use crate::switch::Ports;

impl Partition {
    /// The outputs of the binned scheduler, and the output that sends on a channel; `None` if a host or a switch of the
    /// event-ordered scheduler sends on it.
    fn output(&self, channel: ChannelId) -> Option<(&Outputs, usize)> {
        let outputs = self.outputs.as_ref()?;
        Some((outputs, outputs.sender(channel)?))
    }

    /// A switch that the binned scheduler runs, and the outputs of the partition.
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
        let of_outputs = self.outputs.as_ref().map_or(0, Outputs::reports_in_flight);
        let sent: usize = self.ctx.outbox.iter().map(|mailbox| mailbox.output_notices.len()).sum();
        self.ctx.reports.len() + self.ctx.notices.reports() + of_outputs + sent
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

    /// The congestion log of an output of a switch, from the oldest event to the latest.
    pub fn log(&self, switch: usize, output: Port) -> &[MarkEvent] {
        match self.binned(switch) {
            Some((outputs, of)) => outputs.log(of.first as usize + output.index()),
            None => self.switches.at(switch).ports().marking.log(output.index()),
        }
    }

    /// Bytes in the queues that feed an output of a switch.
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

    /// Checks that no lane of the channels on which nodes of this partition send has more credit than its buffer holds.
    /// Checks at most `most` consecutive lanes, starting with `first`.
    ///
    /// # Errors
    /// The message with the numbers.
    pub fn check_capacities(&self, first: usize, most: usize) -> Result<(), String> {
        if let Some(channel) = self.outputs.as_ref().and_then(Outputs::broken) {
            return Err(format!(
                "a packet was sent on channel {channel}, which leads to no switch of its partition"
            ));
        }
        self.ctx.links.check_capacities(first, most)?;
        self.outputs.as_ref().map_or(Ok(()), |outputs| outputs.check_capacities(first, most))
    }

    /// Buffer space in use at an input of a switch on a virtual lane, computed from its queues.
    #[cfg(debug_assertions)]
    fn buffered(&self, switch: usize, input: Port, vl: Vl) -> u32 {
        match self.binned(switch) {
            Some((outputs, of)) => {
                let packets = &self.ctx.packets;
                outputs.packets(packets, of, input, vl).into_iter().map(|id| packets[id].space).sum()
            }
            None => self.switches.at(switch).buffered(&self.ctx, input, vl),
        }
    }

    /// Checks one direction of a link between nodes of this partition. On every virtual lane, the sender's credit and
    /// the bytes in flight, buffered and returning must add up to the buffer. `far` is the receiving switch and input.
    /// A host's buffer drains at a known pace, so its space counts as returning immediately.
    ///
    /// # Errors
    /// A description of the violated invariant.
    #[cfg(debug_assertions)]
    pub fn check_channel(&self, channel: ChannelId, far: Option<(usize, Port)>) -> Result<(), String> {
        for vl in Vl::all(self.ctx.links.lane_count()) {
            let buffered = far.map_or(0, |(switch, input)| self.buffered(switch, input, vl));
            match self.output(channel) {
                Some((outputs, output)) => outputs.check_credits(output, vl, buffered),
                None => self.ctx.links.check_credits(channel, vl, buffered),
            }?;
        }
        Ok(())
    }
}
