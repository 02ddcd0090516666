//! Links that change during the run, with the binned scheduler. A partition handles a bin in parts that end with the
//! changes. So an arrival, and a decision of an output, meets the state of the links at its time.

use std::sync::Arc;

use silvan_engine::Time;

use super::run::host_arrival;
use super::{Around, Arrival, Bank, OutputPlaces, Outputs, with_bank};
use crate::link::{ChannelId, CreditWay};
use crate::message::CreditReturn;
use crate::voq::Sending;

/// See the module.
#[derive(Debug)]
pub(super) struct ChangingLinks {
    pub places: Arc<OutputPlaces>,
    /// For each output, the place of its switch in the partition, if switches change their tables or avoid ports.
    pub switches: Option<Box<[u32]>>,
}

impl<const LANES: usize, const MARKS: u8, const FIFO: bool> Bank<LANES, MARKS, FIFO> {
    /// Removes the packets that were lost on the links on which they arrive, and selects the outputs of the others by the
    /// current tables.
    #[inline(never)]
    pub(super) fn lose_and_route(&mut self, around: &mut Around, arrivals: &mut Vec<Arrival>) {
        arrivals.retain_mut(|arrival| {
            if !arrival.is_head() {
                return true;
            }
            let first = arrival.output - u32::from(self.voq.records[arrival.output as usize].number);
            if self.was_lost(around, first, arrival) {
                return false;
            }
            if let Some(places) = self.changes.as_ref().and_then(|changes| changes.switches.as_ref()) {
                let ports = &around.switches[places[first as usize] as usize].ports;
                arrival.output = first + u32::from(ports.output_now(&around.ctx.packets, arrival.packet).0);
            }
            true
        });
    }

    /// If a packet was lost on its way to a switch, counts and removes it, and returns its credit.
    fn was_lost(&mut self, around: &mut Around, first: u32, arrival: &Arrival) -> bool {
        let Some(changes) = &self.changes else { return false };
        let feeder = first as usize + arrival.input_index();
        let (channel, now) = (changes.places.fed_by(feeder as u32), self.time(arrival.when));
        let packet = around.ctx.packets[arrival.packet];
        if !around.ctx.links.was_lost(channel, &packet, now) {
            return false;
        }
        around.ctx.remove_lost(channel, arrival.packet, false, now);
        let times = (now + around.ctx.links.lag(channel, &packet), now);
        self.return_credit(around, feeder, (packet.vl.index(), packet.dst), times, packet.space);
        true
    }

    /// Schedules the arrival of a packet that starts to leave for a host, if the packet is lost on its way, or if its time
    /// in the buffer of the host is not known yet. Returns whether this is the case. The credit of a lost packet returns
    /// now; a host that shares a rate in both directions returns the credit itself ([`Self::free`]).
    #[inline(never)]
    pub(super) fn leaves_to_host(
        &mut self,
        around: &mut Around,
        sending: Sending,
        host: u32,
        tail_at: Time,
    ) -> bool {
        let Sending { slot, head } = sending;
        let Some(changes) = &self.changes else { return false };
        let channel = changes.places.channels[slot.output()].0;
        let link = self.link(slot.output());
        let (delay, lag) = (link.delay, around.ctx.packets[head.packet].tail_lag);
        let is_lost = around.ctx.links.will_be_lost(channel, head.packet, (tail_at - delay - lag, tail_at));
        if !is_lost && !around.ctx.sinks[host as usize].is_shared {
            return false;
        }
        around.ctx.queue.push(host_arrival(host, tail_at, head.packet));
        if is_lost {
            self.credit(slot.output(), slot.vl(), tail_at + delay, head.space);
        }
        true
    }

    /// Receives credit from a host or another partition.
    pub(super) fn free(&mut self, credit: CreditReturn) {
        let CreditWay { channel, vl, .. } = credit.way;
        let Some(output) = self.sender(channel) else { return };
        self.credit(output, vl.index(), credit.leaves_at + self.link(output).delay, credit.space);
    }
}

impl Outputs {
    /// Uses other parameters of the link of a channel from now on, if one of these outputs sends on it. There are at most
    /// 255 sets of parameters.
    pub fn use_parameters(&mut self, channel: ChannelId, index: usize) {
        with_bank!(self, bank => if let Some(output) = bank.sender(channel) {
            bank.voq.records[output].own.link = index as u8;
        });
    }
}
