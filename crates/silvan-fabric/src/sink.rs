//! The input buffers of hosts, from which packets drain at a limited rate.
//!
//! A buffer is a queue: its first packet drains at the present rate, and the next one follows. All changes of the rate
//! during a run are known in advance ([`DrainPlan`]), so the time at which a packet will have been drained is known when
//! the packet arrives, even if the rate changes while the packet waits or drains.

use std::sync::Arc;

use silvan_engine::saved::Saved;
use silvan_engine::units::BytePace;
use silvan_engine::{Rate, Time};

use crate::limiter::Limiter;
use crate::meters::Meters;
use crate::packet::Packet;

/// A rate of one bit per second passes one unit per picosecond, and a byte consists of this number of units.
const UNITS_PER_BYTE: u128 = 8_000_000_000_000;

/// The rate at which a host drains its input buffer from a time on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DrainStep {
    pub since: Time,
    /// Zero while the host stalls.
    pub rate: Rate,
}

/// All rates at which a host drains its input buffer during a run, in order of time. The first step begins at zero, and
/// the last one has a rate above zero.
pub(crate) type DrainPlan = Arc<[DrainStep]>;

/// A rate limit whose rate changes during the run. It is exact for any number of packets and changes.
#[derive(Debug, Clone, Saved)]
struct ChangingLimiter {
    plan: DrainPlan,
    /// The step in which the previous packets have passed.
    at: usize,
    /// The time at which the previous packets have passed, rounded down.
    free_at: Time,
    /// The units of the previous packets that pass after `free_at`, within less than a picosecond.
    debt: u128,
}

impl ChangingLimiter {
    fn new(plan: DrainPlan) -> Self {
        Self { plan, at: 0, free_at: Time::ZERO, debt: 0 }
    }

    /// Same as [`Limiter::pass`].
    #[inline(never)]
    fn pass(&mut self, start: Time, bytes: u32) -> Time {
        let mut now = self.free_at.max(start);
        let mut left = u128::from(bytes) * UNITS_PER_BYTE + self.debt;
        loop {
            let rate = u128::from(self.plan[self.at].rate.0);
            let takes = left.checked_div(rate);
            let span = self.plan.get(self.at + 1).map(|next| next.since.0.saturating_sub(now.0));
            if let Some(span) = span.map(u128::from)
                && takes.is_none_or(|takes| takes > span)
            {
                left -= rate * span;
                now.0 += span as u64;
                self.at += 1;
                continue;
            }
            self.free_at =
                Time(now.0.saturating_add(takes.and_then(|takes| takes.try_into().ok()).unwrap_or(u64::MAX)));
            self.debt = left.checked_rem(rate).unwrap_or(0);
            return self.free_at;
        }
    }
}

/// The input buffer of a host, which drains at a limited rate.
#[derive(Debug, Clone, Saved)]
pub(crate) struct HostSink {
    drain: Limiter,
    /// Replaces `drain` if the rate changes during the run.
    changing: Option<Box<ChangingLimiter>>,
    /// Whether packets that the host injects share the rate for some time. A packet's time in the buffer is then not
    /// known before the packet arrives.
    #[saved(constant)]
    pub is_shared: bool,
}

impl HostSink {
    /// A buffer that drains at this pace.
    pub fn new(drain: BytePace) -> Self {
        Self { drain: Limiter::new(drain), changing: None, is_shared: false }
    }

    /// A buffer whose rate changes during the run. `is_shared` states whether packets that the host injects share the
    /// rate for some time.
    pub fn changing(plan: DrainPlan, is_shared: bool) -> Self {
        let changing = Some(Box::new(ChangingLimiter::new(plan)));
        Self { drain: Limiter::new(BytePace::INSTANT), changing, is_shared }
    }

    /// Whether packets that have arrived are being drained at a time.
    pub fn is_draining(&self, now: Time) -> bool {
        let free_at = self.changing.as_ref().map_or(self.drain.free_at, |changing| changing.free_at);
        free_at > now
    }

    /// Stores a packet whose head and tail arrive at the given times. Data packets drain in the order of
    /// their arrival; all other packets need no time. Returns the time at which the packet will have been
    /// drained. Its credit leaves at that time.
    #[inline(always)]
    pub fn drained_at(&mut self, packet: &Packet, (head_at, tail_at): (Time, Time)) -> Time {
        if !packet.is_data() {
            return tail_at;
        }
        let passed = match &mut self.changing {
            None => self.drain.pass(head_at, packet.size),
            Some(changing) => changing.pass(head_at, packet.size),
        };
        passed.max(tail_at)
    }

    /// Same as [`Self::drained_at`], and checks the order of the packets of a flow if packets do not overtake
    /// each other.
    #[inline(always)]
    pub fn take_in(
        &mut self,
        meters: &mut Meters,
        packet: &Packet,
        (head_at, tail_at): (Time, Time),
        may_reorder: bool,
    ) -> Time {
        if packet.is_data() && !may_reorder {
            meters.check_order(packet, tail_at);
        }
        self.drained_at(packet, (head_at, tail_at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Contents, Kind};

    fn packet(kind: Kind) -> Packet {
        Packet { contents: Contents::example(kind), size: 1_000, ..Packet::example() }
    }

    #[test]
    fn data_drains_in_order_and_control_packets_need_no_time() {
        // 8 Gbit/s: 1,000 bytes take 1 us.
        let mut sink = HostSink::new(Rate::from_gbit(8).pace());
        let times = (Time::from_ns(100), Time::from_ns(600));
        assert_eq!(sink.drained_at(&packet(Kind::Data), times), Time::from_ns(1_100));
        assert_eq!(
            sink.drained_at(&packet(Kind::Ack), times),
            times.1,
            "before the data that arrived earlier"
        );
        assert_eq!(
            sink.drained_at(&packet(Kind::Data), times),
            Time::from_ns(2_100),
            "after the first packet"
        );
    }

    #[test]
    fn a_packet_is_not_drained_before_its_tail_has_arrived() {
        let mut sink = HostSink::new(Rate::from_gbit(80).pace());
        let times = (Time::ZERO, Time::from_ns(600));
        assert_eq!(sink.drained_at(&packet(Kind::Data), times), times.1);
    }

    fn plan(steps: &[(u64, u64)]) -> DrainPlan {
        steps
            .iter()
            .map(|&(ns, gbit)| DrainStep { since: Time::from_ns(ns), rate: Rate::from_gbit(gbit) })
            .collect()
    }

    /// Packets of 1,000 bytes, which take 100 ns at 80 Gbit/s, arrive at this rate.
    fn drained(steps: &[(u64, u64)], count: u64) -> Vec<u64> {
        let mut sink = HostSink::changing(plan(steps), false);
        let times = |k: u64| (Time::from_ns(100 * k), Time::from_ns(100 * (k + 1)));
        (0..count).map(|k| sink.drained_at(&packet(Kind::Data), times(k)).0 / 1_000).collect()
    }

    #[test]
    fn packets_that_have_arrived_drain_at_the_present_rate() {
        // At 8 Gbit/s, a packet takes 1,000 ns. The first one has drained a quarter when the rate returns.
        assert_eq!(drained(&[(0, 80), (0, 8), (250, 80)], 4), [325, 425, 525, 625]);
        // The rate becomes lower in the middle of the second packet, and three packets wait when it returns.
        assert_eq!(drained(&[(0, 80), (150, 8), (350, 80)], 6), [100, 380, 480, 580, 680, 780]);
        // From 20 Gbit/s to 40: the first packet takes 400 ns, the second one 300 ns.
        assert_eq!(drained(&[(0, 20), (500, 40)], 3), [400, 650, 850]);
    }

    #[test]
    fn nothing_drains_during_a_stall() {
        assert_eq!(drained(&[(0, 80), (150, 0), (1_000, 80)], 3), [100, 1_050, 1_150]);
        // Stalls that follow each other, one of them before any packet arrives.
        assert_eq!(drained(&[(0, 0), (50, 80), (100, 0), (600, 0), (700, 40)], 2), [800, 1_000]);
    }

    #[test]
    fn a_plan_with_equal_rates_is_a_limiter() {
        let rate = Rate(3_333_333_333);
        let steps: DrainPlan = [0, 7, 1_500_000, 1_500_001, 9_000_000]
            .map(|since| DrainStep { since: Time(since), rate })
            .into();
        let mut limiter = Limiter::new(rate.pace());
        let mut changing = ChangingLimiter::new(steps);
        for (start, bytes) in [(0, 1_000), (100, 64), (2_000_000, 1), (9_000_000, 999), (20_000_000, 1_000)] {
            let start = Time(start);
            assert_eq!(changing.pass(start, bytes), limiter.pass(start, bytes), "{bytes} bytes");
        }
    }
}
