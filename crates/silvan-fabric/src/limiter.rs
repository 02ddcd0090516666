//! Rate limits for injection and for the drain of a host's input buffer.

use silvan_engine::Time;
use silvan_engine::units::{BytePace, SpanParts};

/// A rate limit, which determines when the next packet may pass. It is exact for any number of packets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limiter {
    pace: BytePace,
    carry: u64,
    /// The time at which the previous packets have passed.
    pub free_at: Time,
    /// The last size and its span, because most packets have the same size.
    memo: (u32, SpanParts),
}

impl Limiter {
    pub fn new(pace: BytePace) -> Self {
        Self { pace, carry: 0, free_at: Time::ZERO, memo: (0, pace.parts(0)) }
    }

    /// Passes `bytes` at `start` or after the previous packets. Returns the time at which they have passed.
    #[inline]
    pub fn pass(&mut self, start: Time, bytes: u32) -> Time {
        if self.memo.0 != bytes {
            self.memo = (bytes, self.pace.parts(bytes));
        }
        self.free_at = self.free_at.max(start) + self.pace.add_parts(self.memo.1, &mut self.carry);
        self.free_at
    }
}
