//! Credit of outputs.

use silvan_engine::Time;

use super::port::OutputLane;
use super::{Bank, Early};
use crate::link::{Returns, Spills};

impl OutputLane {
    /// Whether there is so much credit at a time.
    #[inline(always)]
    pub fn has_credit(&mut self, space: u32, now: Time, returns: &mut Returns, spills: &mut Spills) -> bool {
        self.available >= space || {
            self.available += returns.collect(now, spills);
            self.available >= space
        }
    }
}

impl<const LANES: usize, const MARKS: bool> Bank<LANES, MARKS> {
    /// When an output's credit suffices for a packet that lacks it now, if that is known. It is woken then.
    #[inline(never)]
    pub(super) fn wait_for_credit(&mut self, output: usize, vl: usize, space: u32) -> Option<Time> {
        let at = output * LANES + vl;
        let lane = &mut self.ports[output].lanes[vl];
        let wanted = &mut self.wanted[at];
        // Another packet may have had its turn, and wait since; if there is credit for it, the output knows.
        let waits = lane.short && *wanted > lane.available;
        *wanted = if waits { space.min(*wanted) } else { space };
        (lane.blocked, lane.short) = (space, true);
        self.returns[at].ready_at(lane.available, *wanted, &self.spills)
    }

    /// Credit for an output is back at a time, which is after all that has been decided.
    ///
    /// It is booked at once if the output will have had credit for whatever it can send before it is back,
    /// and for two full packets besides, which is what the marking rule asks for at most (a third one may
    /// begin at the last moment): then nobody can tell the difference, but for who looks at what is
    /// outstanding.
    #[inline(always)]
    pub(super) fn credit(&mut self, output: usize, vl: usize, back: Time, space: u32) {
        let port = &self.ports[output];
        let kind = &self.kinds[usize::from(port.kind)];
        let until_back = back.0 - (self.bin << self.shift);
        if u64::from(port.lanes[vl].available) * kind.least_ps >= until_back + 3 * kind.full_ps {
            self.credit_early(output, vl, back, space);
        } else {
            self.credit_exactly(output, vl, back, space);
        }
    }

    /// As [`Self::credit`], of a data packet in a host's buffer.
    ///
    /// A host drains data packets in the order in which they arrive, and no faster than the link brings them;
    /// others do not wait for that, so their credit is back sooner. What is back later than some time, but no
    /// later than this credit, was sent by now and takes the link at least the time between, but for one packet;
    /// and what is sent between now and then takes the time between those. All in all, less is outstanding at
    /// any time before than the link could send until this credit is back, and one packet.
    #[inline(always)]
    pub(super) fn credit_of_drained(&mut self, output: usize, vl: usize, back: Time, space: u32) {
        let kind = &self.kinds[usize::from(self.ports[output].kind)];
        let until_back = back.0 - (self.bin << self.shift);
        let capacity = self.capacities[output * LANES + vl];
        if u64::from(capacity) * kind.least_ps >= until_back + 4 * kind.full_ps {
            self.credit_early(output, vl, back, space);
        } else {
            self.credit_exactly(output, vl, back, space);
        }
    }

    #[inline(always)]
    fn credit_early(&mut self, output: usize, vl: usize, back: Time, space: u32) {
        self.ports[output].lanes[vl].available += space;
        if back > self.next_sample {
            let lane = output * LANES + vl;
            self.early.push(Early { back, lane: lane as u32, space });
            self.early_sums[lane] += space;
        }
    }

    /// A sample is taken: what is back by now is not outstanding.
    pub(super) fn sample(&mut self, now: Time) {
        let sums = &mut self.early_sums;
        self.early.retain(|&Early { back, lane, space }| {
            let is_outstanding = back > now;
            if !is_outstanding {
                sums[lane as usize] -= space;
            }
            is_outstanding
        });
    }

    /// As [`Self::credit`], booked when it is back.
    #[inline(never)]
    fn credit_exactly(&mut self, output: usize, vl: usize, back: Time, space: u32) {
        let at = output * LANES + vl;
        let port = &mut self.ports[output];
        let lane = &mut port.lanes[vl];
        let returns = &mut self.returns[at];
        if lane.short || returns.is_full() {
            // The output may yet decide something at any time of this bin.
            lane.available += returns.collect(Time(self.bin << self.shift), &mut self.spills);
        }
        returns.add(back, space, &mut self.spills);
        if lane.short
            && let Some(ready) = returns.ready_at(lane.available, self.wanted[at], &self.spills)
        {
            let ready = ready.max(port.free_at);
            if ready < port.ready_at {
                port.ready_at = ready;
                self.plan(output, ready);
            }
        }
    }
}
