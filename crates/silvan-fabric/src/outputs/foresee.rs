//! Has what outputs are about to touch brought into the cache, where there are too many of them to be there.

use silvan_engine::cache::{prefetch, prefetch_lines};

use super::{Arrival, Bank, Feeder};
use crate::packet::Pool;
use crate::port::Port;
use crate::port_set::next_of;

/// Outputs from which on it pays to look for more than the next outputs' own state: these take 1 MiB.
pub(super) const MANY: usize = 8_192;

/// How far ahead outputs are brought into the cache.
const AHEAD: usize = 6;

/// How far ahead what these outputs lead to is.
const SOON: usize = 3;

impl<const LANES: usize, const MARKS: bool> Bank<LANES, MARKS> {
    /// An output is looked at soon.
    #[inline(always)]
    fn prefetch(&self, output: Option<usize>) {
        if let Some(output) = output {
            prefetch_lines::<_, 2>(&self.ports, output);
        }
    }

    /// Arrivals are looked at one after the other.
    #[inline(always)]
    pub(super) fn prefetch_arrivals(&self, arrivals: &[Arrival], at: usize) {
        self.prefetch(arrivals.get(at + AHEAD).map(|arrival| arrival.output as usize));
    }

    /// They land one after the other, at outputs that have been looked at.
    #[inline(always)]
    pub(super) fn prefetch_landing(&self, packets: &Pool, arrivals: &[Arrival], at: usize) {
        if self.are_many
            && let Some(arrival) = arrivals.get(at + SOON)
        {
            let (output, input) = (arrival.output as usize, usize::from(arrival.input));
            self.prefetch_sending(output, usize::from(arrival.vl) % LANES, input);
            // A host looks at it, or a queue links it.
            packets.prefetch(arrival.packet);
        }
    }

    /// Outputs decide one after the other.
    #[inline(always)]
    pub(super) fn prefetch_decisions(&self, planned: &[u32], at: usize) {
        self.prefetch(planned.get(at + AHEAD).map(|&output| output as usize));
        if self.are_many
            && let Some(&output) = planned.get(at + SOON)
        {
            let output = output as usize;
            let port = &self.ports[output];
            let vl = if LANES == 1 { 0 } else { port.waiting.trailing_zeros() as usize % LANES };
            let lane = &port.lanes[vl];
            if let Some(input) = next_of(lane.requests, Port(u16::from(lane.turn))) {
                self.prefetch_sending(output, vl, input.index());
            }
        }
    }

    /// An output will send what came in at an input: that is in a queue, and who sent it there has credit again.
    #[inline(always)]
    fn prefetch_sending(&self, output: usize, vl: usize, input: usize) {
        prefetch(&self.queues, (output * LANES + vl) * self.width + input);
        let feeder = output - usize::from(self.ports[output].number) + input;
        if let Some(&Feeder::Output(feeder)) = self.feeders.get(feeder) {
            self.prefetch(Some(feeder as usize));
        }
    }
}
