//! The credit of outputs. If the exact arrival time of credit cannot affect a decision, the credit is booked early;
//! otherwise, it is entered in the ledger of its link.

use silvan_engine::Time;
use silvan_engine::saved::Saved;
use silvan_network::port::Vl;

use super::{Around, Bank, Binned};
use crate::link::{ChannelId, CreditWay, Ledger, LedgerView, ReturnTimes, Returns, Spills};
use crate::packet::NO_LEDGER;
use crate::schedule::Need;
use crate::voq::{MOST_LANES, Output, OutputLane};

#[cfg(test)]
mod tests;

/// Credit of a lane that was booked before its arrival.
#[derive(Debug, Clone, Copy, Saved)]
struct Booked {
    back: Time,
    lane: u32,
    space: u32,
}

/// Credit that was booked before its arrival and arrives after the next sample. The sample must not include it.
#[derive(Debug, Saved)]
pub(super) struct Early {
    next_sample: Time,
    booked: Vec<Booked>,
    /// The sum of the booked credit of each lane.
    sums: Box<[u32]>,
}

impl Early {
    fn new(lanes: usize) -> Self {
        Self { next_sample: Time::ZERO, booked: Vec::new(), sums: vec![0; lanes].into() }
    }

    /// Records credit that was booked before its arrival.
    #[inline(always)]
    fn note(&mut self, lane: usize, back: Time, space: u32) {
        if back > self.next_sample {
            self.booked.push(Booked { back, lane: lane as u32, space });
            self.sums[lane] += space;
        }
    }

    /// Forgets the credit that has arrived at a sample.
    fn sample(&mut self, now: Time) {
        let sums = &mut self.sums;
        self.booked.retain(|&Booked { back, lane, space }| {
            let is_outstanding = back > now;
            if !is_outstanding {
                sums[lane as usize] -= space;
            }
            is_outstanding
        });
    }
}

/// The ledgers of all outputs' links, one per output and lane. The records of the outputs contain the available
/// credit.
#[derive(Debug, Saved)]
pub(super) struct OutputLedgers {
    /// Number of virtual lanes in use.
    #[saved(constant)]
    pub lanes: usize,
    pub returns: Box<[Returns]>,
    pub spills: Spills,
    /// The smallest credit for which a packet has waited since the last packet was sent.
    pub wanted: Box<[u32]>,
    /// Size of the receive buffer.
    #[saved(constant)]
    pub capacities: Box<[u32]>,
    early: Early,
    /// The credit of the links on which hosts send, indexed by channel and lane.
    early_of_hosts: Early,
}

impl OutputLedgers {
    pub fn new(capacities: Vec<u32>, lanes: usize, channels: usize) -> Self {
        let count = capacities.len();
        Self {
            lanes,
            returns: vec![Returns::default(); count].into(),
            spills: Vec::new(),
            wanted: vec![0; count].into(),
            capacities: capacities.into(),
            early: Early::new(count),
            early_of_hosts: Early::new(channels * lanes),
        }
    }

    #[inline(always)]
    pub fn index<const L: usize>(&self, output: usize, vl: usize) -> usize {
        if L == MOST_LANES { output * self.lanes + vl } else { output * L + vl }
    }

    #[inline(always)]
    pub fn ledger<'a>(&'a mut self, at: usize, lane: &'a mut OutputLane) -> Ledger<'a> {
        let Self { returns, spills, wanted, .. } = self;
        Ledger { available: &mut lane.available, wanted: &mut wanted[at], returns: &mut returns[at], spills }
    }

    /// The ledger of a lane, read-only.
    pub fn view(&self, at: usize, lane: &OutputLane) -> LedgerView<'_> {
        let (available, wanted) = (lane.available, self.wanted[at]);
        LedgerView { available, wanted, returns: &self.returns[at], spills: &self.spills }
    }

    /// Whether there is enough credit for a packet.
    #[inline(always)]
    pub fn has_credit<const L: usize>(&mut self, output: &mut Output<L, Binned>, need: Need) -> bool {
        let lane = &mut output.lanes[need.vl % L];
        if lane.available >= need.space {
            // With pause frames, there is always credit.
            return !lane.paused;
        }
        let at = self.index::<L>(need.output, need.vl);
        self.ledger(at, lane).has_credit(need.space, need.now)
    }

    /// Records that a packet waits for credit. Returns the time at which enough credit will have arrived, or
    /// [`Time::NEVER`] if not enough credit is on its way.
    #[inline(never)]
    pub fn wait<const L: usize>(&mut self, output: &mut Output<L, Binned>, need: Need) -> Time {
        let at = self.index::<L>(need.output, need.vl);
        let lane = &mut output.lanes[need.vl % L];
        lane.short = true;
        if lane.paused {
            // The frame that resumes the lane wakes the output.
            return Time::NEVER;
        }
        let mut ledger = self.ledger(at, lane);
        ledger.wait(need.space);
        ledger.ready_at().unwrap_or(Time::NEVER)
    }

    /// Consumes the credit of a packet that is sent.
    #[inline(always)]
    pub fn spend(&mut self, at: usize, lane: &mut OutputLane, space: u32) {
        // The other fields of the ledger are used only if a packet has waited.
        if lane.short {
            lane.short = false;
            self.wanted[at] = 0;
        }
        lane.available -= space;
    }

    #[inline(always)]
    fn book_early(&mut self, at: usize, lane: &mut OutputLane, back: Time, space: u32) {
        lane.available += space;
        self.early.note(at, back, space);
    }

    /// Announces the time of the next sample.
    pub fn expect_sample(&mut self, time: Time) {
        for early in [&mut self.early, &mut self.early_of_hosts] {
            early.next_sample = time;
        }
    }

    /// Updates the outstanding credit at a sample by removing credit that has arrived.
    pub fn sample(&mut self, now: Time) {
        self.early.sample(now);
        self.early_of_hosts.sample(now);
    }

    /// Credit of a host that was booked before its arrival and has not arrived at a sampling time.
    pub fn early_of_host(&self, channel: ChannelId, vl: Vl) -> u32 {
        self.early_of_hosts.sums[channel as usize * self.lanes + vl.index()]
    }

    /// Bytes of the receive buffer for which the sender has no credit at a sampling time. See
    /// [`crate::link::Links::outstanding`].
    pub fn outstanding(&self, at: usize, lane: &OutputLane, now: Time) -> u32 {
        (self.capacities[at] + self.early.sums[at]).saturating_sub(self.view(at, lane).has(now))
    }
}

impl<const LANES: usize, const MARKS: u8, const FIFO: bool> Bank<LANES, MARKS, FIFO> {
    /// Returns credit to an output at a time later than all decisions made so far.
    ///
    /// The credit is booked immediately if, until it arrives, the output will have credit for everything that it can
    /// send, for two more full packets (the most that the marking rule requires), and for a third one that can begin
    /// at the last moment. Only a sample of the outstanding credit could then show the difference. If receivers return
    /// credits at certain times only, `back` does not include the wait for such a time.
    #[inline(always)]
    pub(super) fn credit(&mut self, output: usize, vl: usize, back: Time, space: u32) {
        let record = &mut self.voq.records[output];
        let link = &self.wiring.links[usize::from(record.own.link)];
        let until_back = back.0 - self.start.0;
        let lane = &mut record.lanes[vl];
        if link.leaves(lane.available, until_back, 3) {
            let at = self.wiring.credits.index::<LANES>(output, vl);
            self.wiring.credits.book_early(at, lane, back, space);
        } else {
            self.credit_exactly(output, vl, back, space);
        }
    }

    /// Same as [`Self::credit`], for a data packet in a host's buffer.
    ///
    /// A host drains data packets in the order in which they arrive, and no faster than the link delivers them; the
    /// credit of other packets returns earlier. Consider the credit that arrives after some time t, but no later than
    /// this credit. It belongs to packets of two kinds. Packets sent by now occupy the link for at least the time
    /// between the two arrivals, minus one packet. Packets sent between now and t occupy that time. At t, the
    /// outstanding credit is therefore less than the link could consume until this credit arrives, plus one packet.
    #[inline(always)]
    pub(super) fn credit_of_drained(&mut self, output: usize, vl: usize, back: Time, space: u32) {
        let record = &mut self.voq.records[output];
        let link = &self.wiring.links[usize::from(record.own.link)];
        let until_back = back.0 - self.start.0;
        let at = self.wiring.credits.index::<LANES>(output, vl);
        let capacity = self.wiring.credits.capacities[at];
        if link.leaves(capacity, until_back, 4) {
            self.wiring.credits.book_early(at, &mut record.lanes[vl], back, space);
        } else {
            self.credit_exactly(output, vl, back, space);
        }
    }

    /// Same as [`Self::credit`], for the host that sends on a channel. The space becomes free at `freed`.
    #[inline(always)]
    pub(super) fn credit_host(
        &mut self,
        around: &mut Around,
        way: CreditWay,
        (freed, now): (Time, Time),
        space: u32,
    ) {
        let CreditWay { channel, vl, .. } = way;
        let link = &self.wiring.links[around.ctx.links.parameters_index(channel)];
        let back = freed + link.parameters.delay;
        let until_back = back.0 - self.start.0;
        let is_ample = |available: u32| link.leaves(available, until_back, 3);
        if around.ctx.links.book_early((channel, vl), space, is_ample) {
            let lane = channel as usize * self.wiring.credits.lanes + vl.index();
            self.wiring.credits.early_of_hosts.note(lane, back, space);
        } else {
            let times = ReturnTimes { leaves_at: freed, now, passed: around.hosts_at };
            around.ctx.links.release((way, NO_LEDGER), space, times, &mut around.ctx.queue);
        }
    }

    /// Same as [`Self::credit`], but always books the credit with its arrival time.
    #[inline(never)]
    fn credit_exactly(&mut self, output: usize, vl: usize, back: Time, space: u32) {
        let at = self.wiring.credits.index::<LANES>(output, vl);
        let record = &mut self.voq.records[output];
        let back = match &self.wiring.clock {
            None => back,
            Some(own) => {
                let delay = self.wiring.links[usize::from(record.own.link)].parameters.delay;
                own.clock.leaves_at(own.places.channels[output].0, back - delay) + delay
            }
        };
        let lane = &mut record.lanes[vl];
        let waits = lane.short;
        let mut ledger = self.wiring.credits.ledger(at, lane);
        // The output may still make decisions at any time in this bin, so the current time is the start of the bin.
        ledger.give_back(back, space, self.start);
        if waits && let Some(ready) = ledger.ready_at() {
            self.wake(output, ready);
        }
    }
}
