//! Read access to the state of outputs for observers and checks.

use silvan_engine::Time;

use super::{Bank, BinnedSwitch, Outputs, with_bank};
use crate::congestion::log::MarkEvent;
use crate::link::{ChannelId, LedgerView};
#[cfg(debug_assertions)]
use crate::packet::{PacketId, Pool};
use crate::port::{Port, Vl};
#[cfg(debug_assertions)]
use crate::voq::Slot;

impl<const LANES: usize, const MARKS: u8, const FIFO: bool> Bank<LANES, MARKS, FIFO> {
    fn is_idle(&self) -> bool {
        self.arrivals.is_empty()
            && self.planned.is_empty()
            && self.pauses.as_ref().is_none_or(|pauses| pauses.is_idle())
    }

    fn ledger(&self, output: usize, vl: Vl) -> LedgerView<'_> {
        let at = self.voq.lane_index(output, vl.index());
        self.wiring.credits.view(at, self.voq.lane(output, vl))
    }

    fn check_capacities(&self, first: usize, most: usize) -> Result<(), String> {
        let (count, lanes) = (self.wiring.credits.capacities.len(), self.voq.lanes());
        for step in 0..most.min(count) {
            let at = (first + step) % count;
            let (output, vl) = (at / lanes, Vl::new(at % lanes));
            let check = self.ledger(output, vl).check_capacity(self.wiring.credits.capacities[at]);
            check.map_err(|what| format!("output {output} VL {vl} {what}"))?;
        }
        Ok(())
    }

    fn sent_by(&self, output: usize, now: Time) -> u64 {
        let record = &self.voq.records[output];
        let rate = self.wiring.links[usize::from(record.own.link)].parameters.rate;
        record.own.sent_bytes.saturating_sub(rate.bytes_in(record.free_at.saturating_sub(now)))
    }

    fn log(&self, output: usize) -> &[MarkEvent] {
        self.marking.log(output)
    }

    fn state(&self, output: usize) -> (u64, bool) {
        let lanes = (0..self.voq.lanes()).map(|vl| self.voq.lane_index(output, vl));
        self.marking.state(output, lanes)
    }

    /// Records that a packet has reached the buffer. Debug builds use this to check credits.
    #[cfg(debug_assertions)]
    pub(super) fn landed(&mut self, around: &mut super::Around, arrival: &super::Arrival) {
        let (output, space) = (arrival.output as usize, u32::from(arrival.space));
        let input = arrival.input_index();
        match self.feeders[output - usize::from(self.voq.records[output].number) + input] {
            super::Feeder::Output(feeder) => {
                let at = self.voq.lane_index(feeder as usize, arrival.slot::<LANES>().vl());
                self.wiring.credits.in_flight[at] -= space;
            }
            // The check of credits does not include links between partitions.
            super::Feeder::Remote(_) => {}
            super::Feeder::Host(channel) => {
                let vl = Vl::new(arrival.slot::<LANES>().vl());
                around.links.landed((channel, vl, arrival.head().dst()), space)
            }
        }
    }
}

impl Outputs {
    /// Whether no packets are on their way and no decisions are pending.
    pub fn is_idle(&self) -> bool {
        with_bank!(self, bank => bank.is_idle())
    }

    /// A host's channel on which a packet arrived although it leads to no switch of this partition, which is an error
    /// in the model.
    pub fn broken(&self) -> Option<ChannelId> {
        with_bank!(self, bank => bank.broken)
    }

    /// Number of notifications for sources on their way between switches.
    pub fn reports_in_flight(&self) -> usize {
        with_bank!(self, bank => {
            bank.wiring.reports.as_ref().map_or(0, |reports| reports.in_flight())
        })
    }

    pub fn queued_bytes(&self, output: usize) -> u32 {
        with_bank!(self, bank => bank.voq.queued_bytes(output))
    }

    /// The number of data packets that an output marked first, and whether it is in the congestion state.
    pub fn state(&self, output: usize) -> (u64, bool) {
        with_bank!(self, bank => bank.state(output))
    }

    /// The congestion log of an output.
    pub fn log(&self, output: usize) -> &[MarkEvent] {
        with_bank!(self, bank => bank.log(output))
    }

    /// See [`crate::link::Links::sent_by`].
    pub fn sent_by(&self, output: usize, now: Time) -> u64 {
        with_bank!(self, bank => bank.sent_by(output, now))
    }

    /// See [`crate::link::Links::outstanding`].
    pub fn outstanding(&self, output: usize, vl: Vl, now: Time) -> u32 {
        with_bank!(self, bank => {
            bank.wiring.credits.outstanding(bank.voq.lane_index(output, vl.index()), bank.voq.lane(output, vl), now)
        })
    }

    /// Credit of the host that sends on a channel, which was booked before its arrival.
    pub fn early_of_host(&self, channel: ChannelId, vl: Vl) -> u32 {
        with_bank!(self, bank => bank.wiring.credits.early_of_host(channel, vl))
    }

    /// Whether an output has credit for `space` bytes at a time.
    pub fn has_some_credit(&self, output: usize, vl: Vl, space: u32, now: Time) -> bool {
        with_bank!(self, bank => {
            !bank.voq.lane(output, vl).paused && bank.ledger(output, vl).has(now) >= space
        })
    }

    /// See [`crate::link::Links::check_capacities`].
    pub fn check_capacities(&self, first: usize, most: usize) -> Result<(), String> {
        with_bank!(self, bank => bank.check_capacities(first, most))
    }

    /// See [`crate::link::Links::is_stuck`].
    pub fn is_stuck(&self, output: usize, vl: Vl) -> bool {
        with_bank!(self, bank => {
            let lane = bank.voq.lane(output, vl);
            if bank.pauses.is_some() { lane.paused && lane.short } else { bank.ledger(output, vl).is_stuck() }
        })
    }

    /// The outputs of a switch for which an input has packets on a lane.
    pub fn requested(&self, of: &BinnedSwitch, input: Port, vl: Vl) -> Vec<Port> {
        let (first, count) = (of.first as usize, of.ports.count());
        with_bank!(self, bank => bank.voq.requested(first, count, input, vl))
    }

    /// The packets on a lane of an input of a switch.
    #[cfg(debug_assertions)]
    pub fn packets(&self, pool: &Pool, of: &BinnedSwitch, input: Port, vl: Vl) -> Vec<PacketId> {
        let slots = of.outputs().map(|output| Slot::new(output, vl.index(), input.index()));
        with_bank!(self, bank => slots.flat_map(|slot| bank.voq.packets(pool, slot)).collect())
    }

    /// See [`crate::link::Links::check_credits`].
    #[cfg(debug_assertions)]
    pub fn check_credits(&self, output: usize, vl: Vl, buffered: u32) -> Result<(), String> {
        with_bank!(self, bank => {
            let at = bank.voq.lane_index(output, vl.index());
            bank.ledger(output, vl).check(bank.wiring.credits.in_flight[at], buffered, bank.wiring.credits.capacities[at])
                .map_err(|what| format!("output {output} VL {vl}: {what}"))
        })
    }
}
