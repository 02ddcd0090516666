//! Credits that the lanes of a channel share (Ultra Ethernet, specification 1.0, 5.2; CBFC document of the Switch Abstraction
//! Interface: the credit pool of a sender).
//!
//! A lane first uses its reserve, then the pool of its channel, up to a threshold. The ledger of each lane
//! counts all that the lane uses, so the free part of the pool follows from the ledgers.

use silvan_engine::{EventQueue, Time};
use silvan_network::port::Vl;

use super::{ChannelId, Links};

/// How much of a pool a lane may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    None,
    /// Bytes.
    Static(u32),
    /// The free bytes of the pool, divided by this power of two.
    Dynamic(i8),
}

/// The credits of a channel, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CreditPool {
    /// Credit that each lane has for itself.
    pub reserve: u32,
    /// Credit that all lanes share.
    pub size: u32,
}

/// The pools of all channels.
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    pub limit: Limit,
    pub pools: Box<[CreditPool]>,
}

impl Shared {
    /// Whether a lane may use `space` more bytes. `used` yields the bytes in use by each lane of the channel.
    fn permits(&self, channel: ChannelId, used: impl Iterator<Item = u32>, lane: usize, space: u32) -> bool {
        let CreditPool { reserve, size } = self.pools[channel as usize];
        let (mut free, mut own) = (size, 0);
        for (place, used) in used.enumerate() {
            free -= used.saturating_sub(reserve);
            if place == lane {
                own = used;
            }
        }
        let (before, after) = (own.saturating_sub(reserve), (own + space).saturating_sub(reserve));
        let limit = match self.limit {
            Limit::None => u64::from(size),
            Limit::Static(limit) => u64::from(limit),
            Limit::Dynamic(shift @ 0..) => u64::from(free) >> shift,
            Limit::Dynamic(shift) => u64::from(free) << -i32::from(shift),
        };
        after == before || (after - before <= free && u64::from(after) <= limit)
    }
}

impl Links {
    /// The pools, if lanes share credits.
    fn shared(&self) -> Option<&Shared> {
        self.rules()?.shared.as_ref()
    }

    /// The ledgers of a channel without regions.
    fn ledgers_of(&self, id: ChannelId) -> std::ops::Range<usize> {
        let first = self.of_vl(id, Vl::FIRST);
        first..first + self.lane_count
    }

    /// Whether lanes share credits, and a packet of `space` bytes on the lane with this ledger has no credit
    /// now. Books the credit that has returned by now.
    #[inline(never)]
    pub(super) fn pool_is_short(&mut self, id: ChannelId, index: usize, space: u32, now: Time) -> bool {
        if self.shared().is_none() {
            return false;
        }
        for ledger in self.ledgers_of(id) {
            self.ledger(ledger).collect(now);
        }
        !self.pool_permits(id, index, space, |links, ledger| links.lanes[ledger].available)
    }

    /// Same as [`Self::pool_is_short`], without booking the credit that has returned by now.
    pub(super) fn pool_would_be_short(&self, id: ChannelId, index: usize, space: u32, now: Time) -> bool {
        !self.pool_permits(id, index, space, |links, ledger| links.view(ledger).has(now))
    }

    fn pool_permits(
        &self,
        id: ChannelId,
        index: usize,
        space: u32,
        has: impl Fn(&Self, usize) -> u32,
    ) -> bool {
        let ledgers = self.ledgers_of(id);
        let first = ledgers.start;
        let used = ledgers.map(|ledger| self.capacities[ledger] - has(self, ledger));
        self.shared().is_none_or(|shared| shared.permits(id, used, index - first, space))
    }

    /// Checks that the lanes of a channel use no more of its pool than there is, if they share credits.
    ///
    /// # Errors
    /// The message with the numbers.
    pub fn check_pool(&self, id: ChannelId, now: Time) -> Result<(), String> {
        let Some(CreditPool { reserve, size }) = self.shared().map(|shared| shared.pools[id as usize]) else {
            return Ok(());
        };
        let used = |ledger: usize| self.capacities[ledger].saturating_sub(self.view(ledger).has(now));
        let beyond = |ledger: usize| u64::from(used(ledger).saturating_sub(reserve));
        let taken: u64 = self.ledgers_of(id).map(beyond).sum();
        if taken <= u64::from(size) {
            return Ok(());
        }
        Err(format!("its lanes use {taken} bytes of shared credit, but the pool has {size}"))
    }

    /// The time at which the next credit of any lane of a channel returns; `Some(None)` if no credit is on
    /// its way, and `None` if lanes do not share credits.
    pub(super) fn next_return(&self, id: ChannelId) -> Option<Option<Time>> {
        self.shared()?;
        let first = |ledger: usize| self.lanes[ledger].returns.iter(&self.spills).map(|entry| entry.0).next();
        Some(self.ledgers_of(id).filter_map(first).min())
    }

    /// Whether no credit of any lane of a channel is on its way.
    pub(super) fn has_no_returns(&self, id: ChannelId) -> bool {
        self.ledgers_of(id).all(|ledger| self.view(ledger).returning() == 0)
    }

    /// With shared credits, schedules wake-ups of the sender of a channel for all lanes that wait for credit.
    #[inline(never)]
    pub(super) fn wake_lanes(&mut self, id: ChannelId, (now, passed): (Time, Time), queue: &mut EventQueue) {
        let ledgers = self.ledgers_of(id);
        if ledgers.clone().all(|ledger| self.lanes[ledger].wanted == 0) {
            return;
        }
        for ledger in ledgers.clone() {
            self.ledger(ledger).collect(now);
        }
        for ledger in ledgers {
            if self.lanes[ledger].wanted > 0 {
                self.wake_with_credit(id, ledger, (now, passed), queue);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permits(limit: Limit, used: [u32; 3], space: u32) -> bool {
        let shared = Shared { limit, pools: [CreditPool { reserve: 100, size: 600 }].into() };
        shared.permits(0, used.into_iter(), 1, space)
    }

    #[test]
    fn a_lane_uses_its_reserve_then_the_pool() {
        assert!(permits(Limit::Static(0), [700, 0, 0], 100));
        assert!(!permits(Limit::Static(0), [0, 0, 0], 101));
        assert!(permits(Limit::None, [100, 0, 0], 700));
        assert!(!permits(Limit::None, [101, 0, 0], 700));
        assert!(permits(Limit::None, [400, 100, 200], 200));
        assert!(!permits(Limit::None, [400, 100, 200], 201));
    }

    #[test]
    fn a_static_limit_holds_for_each_lane() {
        assert!(permits(Limit::Static(250), [0, 100, 0], 250));
        assert!(!permits(Limit::Static(250), [0, 100, 0], 251));
        assert!(permits(Limit::Static(250), [350, 100, 0], 250), "the other lane has its own");
    }

    /// Alone, a lane gets a / (1 + a) of the pool, with a = 1 / 2^shift.
    #[test]
    fn a_dynamic_limit_is_a_share_of_the_free_pool() {
        assert!(permits(Limit::Dynamic(1), [0, 300, 0], 0));
        assert!(permits(Limit::Dynamic(1), [0, 100, 0], 300));
        assert!(!permits(Limit::Dynamic(1), [0, 100, 0], 301));
        assert!(!permits(Limit::Dynamic(1), [0, 300, 0], 1), "200 of 600 is half of what is free");
        assert!(permits(Limit::Dynamic(1), [0, 299, 0], 1));
        assert!(permits(Limit::Dynamic(-1), [300, 100, 0], 400), "twice the free 400");
        assert!(!permits(Limit::Dynamic(-1), [300, 100, 0], 401), "but not more than is free");
    }
}
