//! The input buffers of hosts, from which packets drain at a limited rate.

use silvan_engine::Time;
use silvan_engine::saved::Saved;
use silvan_engine::units::BytePace;

use crate::limiter::Limiter;
use crate::meters::Meters;
use crate::packet::Packet;

/// The input buffer of a host, which drains at a limited rate.
#[derive(Debug, Clone, Copy, Saved)]
pub(crate) struct HostSink {
    drain: Limiter,
    /// Whether the pace changes during the run. A packet's time in the buffer is then not known before the
    /// packet arrives.
    #[saved(constant)]
    pub changes: bool,
}

impl HostSink {
    /// A buffer that drains at this pace.
    pub fn new(drain: BytePace) -> Self {
        Self { drain: Limiter::new(drain), changes: false }
    }

    /// Whether packets that have arrived are being drained at a time.
    pub fn is_draining(&self, now: Time) -> bool {
        self.drain.free_at > now
    }

    /// Changes the pace for packets that arrive later. They do not drain before `not_before`.
    pub fn change(&mut self, drain: BytePace, not_before: Time) {
        self.drain.change(drain);
        self.drain.free_at = self.drain.free_at.max(not_before);
    }

    /// Stores a packet whose head and tail arrive at the given times. Data packets drain in the order of
    /// their arrival; all other packets need no time. Returns the time at which the packet will have been
    /// drained. Its credit leaves at that time.
    #[inline(always)]
    pub fn drained_at(&mut self, packet: &Packet, (head_at, tail_at): (Time, Time)) -> Time {
        if !packet.is_data() {
            return tail_at;
        }
        self.drain.pass(head_at, packet.size).max(tail_at)
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
    use silvan_engine::Rate;

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
}
