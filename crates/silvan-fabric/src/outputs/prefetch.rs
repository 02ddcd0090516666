//! Prefetches the data that outputs will use next, if there are too many outputs for the cache, or if switches hash
//! packets, which they must read.

use super::{Arrival, Bank, Feeder};
use crate::packet::Pool;
use crate::voq::{ALL_EVENTS, Slot};

/// If there are more outputs, prefetching should include more than the records of the next outputs. The records of
/// this number of outputs occupy 1 MiB.
pub(super) const MANY: usize = 8_192;

/// Number of positions by which records are prefetched in advance.
const AHEAD: usize = 6;

/// Number of positions for the pass that classifies arrivals, which takes little time per arrival.
const FAR_AHEAD: usize = 16;

/// Number of positions in advance at which to prefetch the memory to which the records refer.
const SOON: usize = 3;

impl<const LANES: usize, const MARKS: u8, const FIFO: bool> Bank<LANES, MARKS, FIFO> {
    #[inline(always)]
    fn prefetch(&self, output: Option<usize>) {
        if let Some(output) = output {
            self.voq.prefetch(output);
        }
    }

    /// Prefetches for the pass that classifies arrivals.
    #[inline(always)]
    pub(super) fn prefetch_arrivals(&self, packets: &Pool, arrivals: &[Arrival], at: usize) {
        if let Some(arrival) = arrivals.get(at + FAR_AHEAD) {
            self.prefetch(Some(arrival.output as usize));
            if MARKS == ALL_EVENTS && !arrival.is_message() {
                packets.prefetch_telemetry(arrival.packet);
            }
        }
    }

    /// Prefetches for the pass that handles arrivals. The records have already been prefetched.
    #[inline(always)]
    pub(super) fn prefetch_landing(&self, packets: &Pool, arrivals: &[Arrival], at: usize) {
        if self.prefetches
            && let Some(arrival) = arrivals.get(at + SOON)
            && !(MARKS == ALL_EVENTS && arrival.is_message())
        {
            if self.are_many {
                self.prefetch_sending(arrival.slot::<LANES>());
            }
            // The packet is read by a host or linked into a queue.
            packets.prefetch(arrival.packet);
            if self.hashing.is_some() {
                packets.prefetch_hashed(arrival.packet);
            }
            packets.prefetch_stamp(arrival.packet);
        }
    }

    /// Prefetches for the pass that settles outputs.
    #[inline(always)]
    pub(super) fn prefetch_decisions(&self, packets: &Pool, planned: &[u32], at: usize) {
        self.prefetch(planned.get(at + AHEAD).map(|&output| output as usize));
        if self.prefetches
            && let Some(&output) = planned.get(at + SOON)
            && let Some(slot) = self.voq.next_slot(output as usize)
        {
            if self.are_many {
                self.prefetch_sending(slot);
            }
            if self.hashing.is_some()
                && let Some(packet) = self.voq.stored_head(slot)
            {
                packets.prefetch_hashed(packet);
                packets.prefetch_stamp(packet);
            }
        }
    }

    /// Prefetches the queue from which an output will send, and the output that will receive the credit.
    #[inline(always)]
    fn prefetch_sending(&self, slot: Slot) {
        self.voq.prefetch_queue(slot);
        let feeder = slot.output() - usize::from(self.voq.records[slot.output()].number) + slot.input();
        if let Some(&Feeder::Output(feeder)) = self.feeders.get(feeder) {
            self.prefetch(Some(feeder as usize));
        }
    }
}
