//! What measurement and checks ask of outputs.

use silvan_engine::Time;

use super::{Bank, Outputs, with_bank};
#[cfg(debug_assertions)]
use crate::packet::Pool;

impl<const LANES: usize, const MARKS: bool> Bank<LANES, MARKS> {
    fn is_idle(&self) -> bool {
        self.arrivals.is_empty() && self.planned.is_empty()
    }

    fn queued_bytes(&self, output: usize) -> u32 {
        self.ports[output].lanes.iter().map(|lane| lane.sum).sum()
    }

    fn state(&self, output: usize) -> (u64, bool) {
        let markers = self.markers.get(output * LANES..(output + 1) * LANES).unwrap_or_default();
        (self.marks[output], markers.iter().any(|marker| marker.is_congested()))
    }

    fn sent_by(&self, output: usize, now: Time) -> u64 {
        let port = &self.ports[output];
        let rate = self.kinds[usize::from(port.kind)].link.rate;
        port.sent_bytes.saturating_sub(rate.bytes_in(port.free_at.saturating_sub(now)))
    }

    fn outstanding(&self, output: usize, vl: usize, now: Time) -> u32 {
        let at = output * LANES + vl;
        let returning = self.returns[at].iter(&self.spills);
        let back: u32 = returning.filter(|entry| entry.0 <= now).map(|entry| entry.1).sum();
        self.capacities[at] - self.ports[output].lanes[vl].available - back + self.early_sums[at]
    }

    fn check_capacities(&self, first: usize, most: usize) -> Result<(), String> {
        let count = self.capacities.len();
        for step in 0..most.min(count) {
            let at = (first + step) % count;
            let (output, vl) = (at / LANES, at % LANES);
            let (available, capacity) = (self.ports[output].lanes[vl].available, self.capacities[at]);
            let returning: u32 = self.returns[at].iter(&self.spills).map(|entry| entry.1).sum();
            if available.saturating_add(returning) > capacity {
                return Err(format!(
                    "output {output} VL {vl} has a credit of {available} bytes and {returning} bytes returning, but \
                     the buffer has {capacity}"
                ));
            }
        }
        Ok(())
    }

    fn is_stuck(&self, output: usize, vl: usize) -> bool {
        let (at, lane) = (output * LANES + vl, &self.ports[output].lanes[vl]);
        let wanted = self.wanted[at];
        lane.short
            && lane.available < wanted
            && self.returns[at].ready_at(lane.available, wanted, &self.spills).is_none()
    }

    /// The packets in an input's queue for an output.
    #[cfg(debug_assertions)]
    fn buffered(&self, output: usize, (vl, input): (usize, usize), packets: &Pool) -> u32 {
        let port = &self.ports[output];
        let head = port.find(vl, input).map_or(0, |place| u32::from(port.head(place).space));
        let queue = self.queues[(output * LANES + vl) * self.width + input];
        head + queue.iter(packets).map(|id| packets[id].space).sum::<u32>()
    }

    /// See [`crate::link::Links::check_credits`].
    #[cfg(debug_assertions)]
    fn check_credits(&self, output: usize, vl: usize, buffered: u32) -> Result<(), String> {
        let at = output * LANES + vl;
        let (available, in_flight) = (self.ports[output].lanes[vl].available, self.in_flight[at]);
        let returning: u32 = self.returns[at].iter(&self.spills).map(|entry| entry.1).sum();
        let capacity = self.capacities[at];
        if available + in_flight + buffered + returning == capacity {
            return Ok(());
        }
        Err(format!(
            "output {output} VL {vl}: credit {available} + in flight {in_flight} + buffered {buffered} + \
             returning {returning} is not the buffer's {capacity}"
        ))
    }

    /// A packet is in the buffer now (for the books of debug builds).
    #[cfg(debug_assertions)]
    pub(super) fn landed(
        &mut self,
        around: &mut super::Around,
        output: usize,
        input: usize,
        arrival: &super::Arrival,
    ) {
        let space = u32::from(arrival.space);
        match self.feeders[output - usize::from(self.ports[output].number) + input] {
            super::Feeder::Output(feeder) => {
                self.in_flight[feeder as usize * LANES + usize::from(arrival.vl)] -= space;
            }
            // The books of links between partitions are not kept.
            super::Feeder::Remote(_) => {}
            super::Feeder::Host(channel) => {
                around.links.landed((channel, crate::port::Vl(arrival.vl), arrival.dst), space)
            }
        }
    }
}

impl Outputs {
    /// Whether nothing arrives any more and no output wants to decide.
    pub fn is_idle(&self) -> bool {
        with_bank!(self, bank => bank.is_idle())
    }

    /// Bytes in the queues that feed an output.
    pub fn queued_bytes(&self, output: usize) -> u32 {
        with_bank!(self, bank => bank.queued_bytes(output))
    }

    /// Data packets marked at an output, each where it was marked first, and whether it is in the
    /// congestion state.
    pub fn state(&self, output: usize) -> (u64, bool) {
        with_bank!(self, bank => bank.state(output))
    }

    /// See [`crate::link::Links::sent_by`].
    pub fn sent_by(&self, output: usize, now: Time) -> u64 {
        with_bank!(self, bank => bank.sent_by(output, now))
    }

    /// See [`crate::link::Links::outstanding`].
    pub fn outstanding(&self, output: usize, vl: u8, now: Time) -> u32 {
        with_bank!(self, bank => bank.outstanding(output, usize::from(vl), now))
    }

    /// Whether there are `space` bytes of credit for an output at a time.
    pub fn has_some_credit(&self, output: usize, vl: u8, space: u32, now: Time) -> bool {
        with_bank!(self, bank => {
            let at = output * bank.ports[output].lanes.len() + usize::from(vl);
            let back = bank.returns[at].iter(&bank.spills).filter(|entry| entry.0 <= now).map(|entry| entry.1);
            bank.ports[output].lanes[usize::from(vl)].available + back.sum::<u32>() >= space
        })
    }

    /// See [`crate::link::Links::check_capacities`].
    pub fn check_capacities(&self, first: usize, most: usize) -> Result<(), String> {
        with_bank!(self, bank => bank.check_capacities(first, most))
    }

    /// See [`crate::link::Links::is_stuck`].
    pub fn is_stuck(&self, output: usize, vl: u8) -> bool {
        with_bank!(self, bank => bank.is_stuck(output, usize::from(vl)))
    }

    /// Whether an input of its switch has packets for an output.
    pub fn is_asked(&self, output: usize, (vl, input): (usize, usize)) -> bool {
        with_bank!(self, bank => bank.ports[output].lanes[vl].requests >> input & 1 == 1)
    }

    /// Buffer space that the packets of an input for an output occupy.
    #[cfg(debug_assertions)]
    pub fn buffered(&self, output: usize, of: (usize, usize), packets: &Pool) -> u32 {
        with_bank!(self, bank => bank.buffered(output, of, packets))
    }

    /// See [`crate::link::Links::check_credits`].
    #[cfg(debug_assertions)]
    pub fn check_credits(&self, output: usize, vl: u8, buffered: u32) -> Result<(), String> {
        with_bank!(self, bank => bank.check_credits(output, usize::from(vl), buffered))
    }
}
