//! Read access to the state of outputs for observers and checks.

use silvan_engine::Time;
use silvan_network::port::{Port, Vl};

use super::{Bank, BinnedSwitch, Outputs, with_bank};
use crate::congestion_log::MarkEvent;
use crate::link::{Balance, ChannelId, LedgerView};
use crate::packet::Pool;

impl<const LANES: usize, const MARKS: u8, const FIFO: bool> Bank<LANES, MARKS, FIFO> {
    fn ledger(&self, output: usize, vl: Vl) -> LedgerView<'_> {
        let at = self.voq.lane_index(output, vl.index());
        self.wiring.credits.view(at, self.voq.lane(output, vl))
    }

    /// Calls `add` with the output, the input, the virtual lane and the space of each packet that has not reached its
    /// output yet.
    fn arriving(&self, mut add: impl FnMut(usize, usize, Vl, u32)) {
        for arrival in self.arrivals.iter().filter(|arrival| !arrival.is_message()) {
            let slot = arrival.slot::<LANES>();
            add(slot.output(), slot.input(), Vl::new(slot.vl()), arrival.space.into());
        }
    }
}

impl Outputs {
    /// Whether no packets are on their way and no decisions are pending.
    pub fn is_idle(&self) -> bool {
        with_bank!(self, bank => {
            let is_idle = bank.arrivals.is_empty() && bank.planned.is_empty();
            is_idle && bank.pauses.as_ref().is_none_or(|pauses| pauses.is_idle())
        })
    }

    pub fn queued_bytes(&self, output: usize) -> u32 {
        with_bank!(self, bank => bank.voq.queued_bytes(output))
    }

    /// The number of data packets that an output marked first, and whether it is in the congestion state.
    pub fn state(&self, output: usize) -> (u64, bool) {
        with_bank!(self, bank => {
            let lanes = (0..bank.voq.lanes()).map(|vl| bank.voq.lane_index(output, vl));
            bank.marking.state(output, lanes)
        })
    }

    /// The number of packets that an output has trimmed.
    pub fn trimmed(&self, output: usize) -> u64 {
        with_bank!(self, bank => bank.trimmer.as_ref().map_or(0, |trimmer| trimmer.count(output)))
    }

    /// The congestion log of an output.
    pub fn log(&self, output: usize) -> &[MarkEvent] {
        with_bank!(self, bank => bank.marking.log(output))
    }

    /// See [`crate::link::Links::sent_by`].
    pub fn sent_by(&self, output: usize, now: Time) -> u64 {
        with_bank!(self, bank => {
            let record = &bank.voq.records[output];
            let unsent = bank.link(output).rate.bytes_in(record.free_at.saturating_sub(now));
            record.own.sent_bytes.saturating_sub(unsent)
        })
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

    /// Calls `add` with the input, the virtual lane and the space of each packet that a switch buffers.
    pub fn all_buffered(&self, packets: &Pool, of: &BinnedSwitch, add: &mut dyn FnMut(Port, Vl, u32)) {
        with_bank!(self, bank => bank.voq.all_packets(packets, of.outputs(), |input, vl, id| {
            add(Port::new(input), vl, packets[id].space);
        }));
    }

    /// Calls `add` with the output, the input, the virtual lane and the space of each packet that has not reached its
    /// output yet.
    pub fn arriving(&self, add: impl FnMut(usize, usize, Vl, u32)) {
        with_bank!(self, bank => bank.arriving(add));
    }

    /// See [`crate::link::Links::change_credit`].
    #[cfg(test)]
    pub fn change_credit(&mut self, output: usize, by: i32) {
        with_bank!(self, bank => {
            let lane = &mut bank.voq.records[output].lanes[0];
            lane.available = lane.available.wrapping_add_signed(by);
        });
    }

    /// See [`crate::link::Links::balance`].
    pub fn balance(&self, output: usize, vl: Vl) -> Balance {
        with_bank!(self, bank => {
            let mut balance = Balance::default();
            let at = bank.voq.lane_index(output, vl.index());
            balance.add(bank.ledger(output, vl), bank.wiring.credits.capacities[at]);
            balance
        })
    }
}
