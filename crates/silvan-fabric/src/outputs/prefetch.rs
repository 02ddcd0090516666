//! Prefetches what outputs are about to use, if there are too many outputs for the cache.

use super::{Arrival, Bank, Feeder};
use crate::packet::Pool;
use crate::voq::Slot;

/// The number of outputs from which it pays to prefetch more than the records of the next outputs, which take 1 MiB.
pub(super) const MANY: usize = 8_192;

/// How many positions in advance records are prefetched.
const AHEAD: usize = 6;

/// How many positions in advance the memory is prefetched that the records refer to.
const SOON: usize = 3;

impl<const LANES: usize, const MARKS: u8> Bank<LANES, MARKS> {
    #[inline(always)]
    fn prefetch(&self, output: Option<usize>) {
        if let Some(output) = output {
            self.voq.prefetch(output);
        }
    }

    /// For the pass that classifies arrivals.
    #[inline(always)]
    pub(super) fn prefetch_arrivals(&self, arrivals: &[Arrival], at: usize) {
        self.prefetch(arrivals.get(at + AHEAD).map(|arrival| arrival.output as usize));
    }

    /// For the pass that handles arrivals; the records have been prefetched.
    #[inline(always)]
    pub(super) fn prefetch_landing(&self, packets: &Pool, arrivals: &[Arrival], at: usize) {
        if self.are_many
            && let Some(arrival) = arrivals.get(at + SOON)
            && !arrival.is_notice()
        {
            self.prefetch_sending(arrival.slot::<LANES>());
            // A host reads the packet, or a queue links it.
            packets.prefetch(arrival.packet);
        }
    }

    /// For the pass that settles outputs.
    #[inline(always)]
    pub(super) fn prefetch_decisions(&self, planned: &[u32], at: usize) {
        self.prefetch(planned.get(at + AHEAD).map(|&output| output as usize));
        if self.are_many
            && let Some(&output) = planned.get(at + SOON)
            && let Some(slot) = self.voq.next_slot(output as usize)
        {
            self.prefetch_sending(slot);
        }
    }

    /// An output will send a packet of an input: prefetches its queue, and the output that receives the credit.
    #[inline(always)]
    fn prefetch_sending(&self, slot: Slot) {
        self.voq.prefetch_queue(slot);
        let feeder = slot.output() - usize::from(self.voq.records[slot.output()].number) + slot.input();
        if let Some(&Feeder::Output(feeder)) = self.feeders.get(feeder) {
            self.prefetch(Some(feeder as usize));
        }
    }
}
