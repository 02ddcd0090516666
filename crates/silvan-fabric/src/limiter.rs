//! Rate limits: of injection, and of the drain of a host's input buffer.

use silvan_engine::Time;
use silvan_engine::units::{BytePace, SpanParts};

/// A rate limit: when the next packet may pass, exact over any number of packets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limiter {
    pace: BytePace,
    carry: u64,
    /// When the packets before have passed.
    pub free_at: Time,
    /// The size asked for last and what it takes: most packets are of one size.
    memo: (u32, SpanParts),
}

impl Limiter {
    pub fn new(pace: BytePace) -> Self {
        Self { pace, carry: 0, free_at: Time::ZERO, memo: (0, pace.parts(0)) }
    }

    /// Lets `bytes` pass, at `start` or when those before have passed; returns when they are through.
    #[inline]
    pub fn pass(&mut self, start: Time, bytes: u32) -> Time {
        if self.memo.0 != bytes {
            self.memo = (bytes, self.pace.parts(bytes));
        }
        self.free_at = self.free_at.max(start) + self.pace.add_parts(self.memo.1, &mut self.carry);
        self.free_at
    }
}
