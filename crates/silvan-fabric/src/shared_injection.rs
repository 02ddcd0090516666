//! The injection limit that the ports of a host share, such as that of one slot for an adapter with two ports. Ports that must
//! wait send one packet each, in the order in which they began to wait.

use std::collections::VecDeque;

use silvan_engine::Time;
use silvan_engine::saved::Saved;
use silvan_engine::units::BytePace;

use crate::limiter::Limiter;
use crate::link::ChannelId;

/// The limit of one host.
#[derive(Debug, Clone, Saved)]
pub(crate) struct SharedInjection {
    limit: Limiter,
    /// Unused time of the limit that packets may use later: that of a full packet. A packet that waits in a port while its
    /// link is busy would use it.
    #[saved(span)]
    burst: Time,
    /// Ports that wait, by the channels on which they send, and since when, in the order in which they began to wait.
    waiting: VecDeque<(ChannelId, Time)>,
}

impl SharedInjection {
    /// `full` is the size of a full packet.
    pub fn new(pace: BytePace, full: u32) -> Self {
        let burst = Limiter::new(pace).pass(Time::ZERO, full);
        Self { limit: Limiter::new(pace), burst, waiting: VecDeque::new() }
    }

    /// The time from which the limit permits the next packet.
    pub fn free_at(&self) -> Time {
        self.limit.free_at
    }

    /// The port whose turn is next.
    pub fn first(&self) -> Option<ChannelId> {
        self.waiting.front().map(|&(port, _)| port)
    }

    /// Whether a port waits for its turn.
    pub fn has_waiting(&self, port: ChannelId) -> bool {
        self.waiting.iter().any(|&(other, _)| other == port)
    }

    /// Lets a port wait for its turn.
    pub fn wait(&mut self, port: ChannelId, now: Time) {
        if !self.has_waiting(port) {
            self.waiting.push_back((port, now));
        }
    }

    /// Ends the turn of a port. Returns since when it has waited; `None` if it was not its turn.
    pub fn end_turn(&mut self, port: ChannelId) -> Option<Time> {
        if self.first() != Some(port) {
            return None;
        }
        self.waiting.pop_front().map(|(_, since)| since)
    }

    /// Passes a packet that starts now.
    pub fn pass(&mut self, now: Time, size: u32) {
        self.limit.pass(now.saturating_sub(self.burst), size);
    }
}

#[cfg(test)]
mod tests {
    use silvan_engine::Rate;

    use super::*;

    #[test]
    fn ports_have_turns_in_the_order_of_waiting_and_unused_time_is_kept_for_one_packet() {
        // 1,000 bytes take 1 us.
        let mut shared = SharedInjection::new(Rate::from_gbit(8).pace(), 1_000);
        let us = |time: u64| Time(1_000_000 * time);
        shared.pass(us(10), 1_000);
        assert_eq!(shared.free_at(), us(10), "the time before was unused");
        shared.pass(us(10), 1_000);
        assert_eq!(shared.free_at(), us(11));
        for (port, time) in [(7, 10), (3, 10), (7, 11)] {
            shared.wait(port, us(time));
        }
        assert_eq!(shared.end_turn(3), None);
        assert_eq!((shared.end_turn(7), shared.first()), (Some(us(10)), Some(3)));
        assert!(shared.has_waiting(3) && !shared.has_waiting(7));
        assert_eq!((shared.end_turn(3), shared.first()), (Some(us(10)), None));
    }
}
