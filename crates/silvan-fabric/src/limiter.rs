//! Rate limits for injection, and for the drain of a host's input buffer.

use silvan_engine::Time;
use silvan_engine::saved::Saved;
use silvan_engine::units::{BytePace, SpanParts};

/// A rate limit, which determines when the next packet may pass. It is exact for any number of packets.
#[derive(Debug, Clone, Copy, Saved)]
pub(crate) struct Limiter {
    pace: BytePace,
    carry: u64,
    /// The time at which the previous packets have passed.
    #[saved(past)]
    pub free_at: Time,
    /// The last size and its transmission time, because most packets have the same size.
    memo: (u32, SpanParts),
}

impl Limiter {
    pub fn new(pace: BytePace) -> Self {
        Self { pace, carry: 0, free_at: Time::ZERO, memo: (0, pace.parts(0)) }
    }

    /// Changes the time per byte for packets that pass from now on. The same time changes nothing; with another
    /// one, the fraction of a picosecond that previous packets have left is lost.
    pub fn change(&mut self, pace: BytePace) {
        if pace != self.pace {
            *self = Self { free_at: self.free_at, ..Self::new(pace) };
        }
    }

    /// Passes `bytes` at `start`, but not before the previous packets have passed. Returns the time at
    /// which the bytes have passed.
    #[inline(always)]
    pub fn pass(&mut self, start: Time, bytes: u32) -> Time {
        if self.memo.0 != bytes {
            self.memo = (bytes, self.pace.parts(bytes));
        }
        self.free_at = self.free_at.max(start) + self.pace.add_parts(self.memo.1, &mut self.carry);
        self.free_at
    }
}

#[cfg(test)]
mod tests {
    use silvan_engine::Rate;

    use super::*;

    #[test]
    fn packets_pass_one_after_the_other_and_rounding_does_not_add_up() {
        // 3 Gbit/s: 1000 bytes take 2 666 666 2/3 ps.
        let mut limiter = Limiter::new(Rate::from_gbit(3).pace());
        let passed: Vec<u64> = (0..6).map(|_| limiter.pass(Time::ZERO, 1_000).0).collect();
        for (count, passed) in (1..).zip(&passed) {
            let exact = 8_000_000.0 * f64::from(count) / 3.0;
            assert!((*passed as f64 - exact).abs() <= 1.0, "{count} packets: {passed} ps, not {exact}");
        }
        assert_eq!((passed[2], passed[5]), (8_000_000, 16_000_000));
        // After a pause, the packet starts immediately. Half of the bytes take half of the time.
        assert_eq!(limiter.pass(Time(20_000_000), 3_000), Time(28_000_000));
        assert_eq!(limiter.pass(Time(20_000_000), 1_500), Time(32_000_000), "after those before it");
    }

    #[test]
    fn setting_the_same_pace_again_changes_nothing() {
        let pace = Rate::from_gbit(3).pace();
        let (mut plain, mut changed) = (Limiter::new(pace), Limiter::new(pace));
        for _ in 0..6 {
            assert_eq!(plain.pass(Time::ZERO, 1_000), changed.pass(Time::ZERO, 1_000));
            changed.change(pace);
        }
        changed.change(Rate::from_gbit(4).pace());
        assert_eq!(changed.pass(Time::ZERO, 1_000), Time(18_000_000), "2 us after the previous packets");
    }
}
