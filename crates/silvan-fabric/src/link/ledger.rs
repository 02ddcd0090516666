//! The credit ledger of one virtual lane of a link. The sender spends credit and waits for it; the receiver returns
//! credit in messages that arrive one link delay later. The ledger stores messages that are on their way in
//! [`Returns`], and books those that have arrived when the sender reads it. A returning credit therefore needs an event
//! only if the sender waits for it.
//!
//! Both schedulers use this code. They store the fields of a ledger in different places, next to other data that they
//! use at the same time, so a [`Ledger`] borrows the fields for one operation.

use silvan_engine::Time;

use super::{Returns, Spills};

/// All amounts are bytes of the receiver's buffer.
#[derive(Debug)]
pub(crate) struct Ledger<'a> {
    /// Credit that has arrived at the sender.
    pub available: &'a mut u32,
    /// The smallest amount of credit for which a packet waits; zero if no packet waits.
    pub wanted: &'a mut u32,
    pub returns: &'a mut Returns,
    pub spills: &'a mut Spills,
}

impl Ledger<'_> {
    /// Books the credit that has arrived by now.
    #[inline(always)]
    pub fn collect(&mut self, now: Time) {
        *self.available += self.returns.collect(now, self.spills);
    }

    /// Whether there is credit for `space` bytes now.
    #[inline(always)]
    pub fn has_credit(&mut self, space: u32, now: Time) -> bool {
        if *self.available >= space {
            return true;
        }
        self.collect(now);
        *self.available >= space
    }

    /// Records that a packet waits for `space` bytes of credit. Several packets can wait for one ledger if they have
    /// different sizes, or if their destinations share a region of the memory. The packet that needs the least credit
    /// can be sent first. A packet for which there is credit has already been woken, and does not count.
    #[inline]
    pub fn wait(&mut self, space: u32) {
        // A value of 0 means that no packet waits; the header of a packet that was trimmed here needs no space.
        let space = space.max(1);
        let waits = *self.wanted > *self.available;
        *self.wanted = if waits { space.min(*self.wanted) } else { space };
    }

    /// Spends the credit for a packet that is sent. Afterwards, no packet is recorded as waiting.
    #[inline(always)]
    pub fn spend(&mut self, space: u32) {
        debug_assert!(*self.available >= space, "a packet starts only with credit");
        *self.available -= space;
        *self.wanted = 0;
    }

    /// Returns credit for `space` bytes, which arrives at `back`. The sender may make decisions at any time from `now`
    /// on.
    #[inline(always)]
    pub fn give_back(&mut self, back: Time, space: u32, now: Time) {
        // Booking can be deferred until the space is needed, unless a packet waits for the credit.
        if *self.wanted > 0 || self.returns.is_full() {
            self.collect(now);
        }
        self.returns.add(back, space, self.spills);
    }

    /// The time at which the credit for which a packet waits will have arrived, if enough is on its way.
    #[inline]
    pub fn ready_at(&self) -> Option<Time> {
        self.view().ready_at()
    }

    fn view(&self) -> LedgerView<'_> {
        LedgerView {
            available: *self.available,
            wanted: *self.wanted,
            returns: self.returns,
            spills: self.spills,
        }
    }
}

/// A read-only [`Ledger`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct LedgerView<'a> {
    pub available: u32,
    pub wanted: u32,
    pub returns: &'a Returns,
    pub spills: &'a Spills,
}

impl LedgerView<'_> {
    /// See [`Ledger::ready_at`].
    #[inline]
    pub fn ready_at(&self) -> Option<Time> {
        self.returns.ready_at(self.available, self.wanted, self.spills)
    }

    /// Credit on its way to the sender.
    pub fn returning(&self) -> u32 {
        self.returns.iter(self.spills).map(|entry| entry.1).sum()
    }

    /// Credit that the sender has now, including credit that has arrived but is not booked yet.
    pub fn has(&self, now: Time) -> u32 {
        let arrived = self.returns.iter(self.spills).filter(|entry| entry.0 <= now);
        self.available + arrived.map(|entry| entry.1).sum::<u32>()
    }

    /// Whether a packet waits for credit that is not on its way.
    pub fn is_stuck(&self) -> bool {
        self.wanted > 0 && self.available < self.wanted && self.ready_at().is_none()
    }
}

/// The places of the space of a receive buffer: the ledgers of a virtual lane of a channel, and packets and credits in
/// transit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Balance {
    pub available: u64,
    pub in_flight: u64,
    pub buffered: u64,
    pub returning: u64,
    pub capacity: u64,
}

impl Balance {
    /// Adds a ledger and the buffer that belongs to it.
    pub fn add(&mut self, ledger: LedgerView, capacity: u32) {
        self.available += u64::from(ledger.available);
        self.returning += u64::from(ledger.returning());
        self.capacity += u64::from(capacity);
    }

    /// Checks that the sender's credit, the bytes in flight, the buffered bytes and the returning credit add up to the
    /// buffer.
    ///
    /// # Errors
    /// The message with the numbers.
    pub fn check(self) -> Result<(), String> {
        let Self { available, in_flight, buffered, returning, capacity } = self;
        if available + in_flight + buffered + returning == capacity {
            return Ok(());
        }
        Err(format!(
            "credit {available} + in flight {in_flight} + buffered {buffered} + returning {returning} is not the \
             buffer's {capacity} bytes"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ledger that owns its fields.
    #[derive(Default)]
    struct Owned {
        available: u32,
        wanted: u32,
        returns: Returns,
        spills: Spills,
    }

    impl Owned {
        fn ledger(&mut self) -> Ledger<'_> {
            let Self { available, wanted, returns, spills } = self;
            Ledger { available, wanted, returns, spills }
        }
    }

    #[test]
    fn credit_is_spent_and_returns_after_its_delay() {
        let mut owned = Owned { available: 300, ..Owned::default() };
        owned.ledger().spend(200);
        assert!(!owned.ledger().has_credit(200, Time(5)));
        owned.ledger().give_back(Time(10), 100, Time(5));
        owned.ledger().wait(200);
        assert_eq!(owned.ledger().ready_at(), Some(Time(10)));
        assert!(!owned.ledger().has_credit(200, Time(9)));
        assert!(owned.ledger().has_credit(200, Time(10)));
        assert_eq!(owned.available, 200);
    }

    #[test]
    fn the_smallest_waiting_packet_counts() {
        let mut owned = Owned { available: 10, ..Owned::default() };
        owned.ledger().wait(200);
        owned.ledger().wait(100);
        owned.ledger().wait(150);
        assert_eq!(owned.wanted, 100);
        // There is credit for the first packet, so the packet that needs more credit waits.
        owned.available = 100;
        owned.ledger().wait(150);
        assert_eq!(owned.wanted, 150);
    }

    #[test]
    fn a_sender_is_stuck_if_no_credit_is_on_its_way() {
        let mut owned = Owned { available: 50, ..Owned::default() };
        assert!(!owned.ledger().view().is_stuck(), "no packet waits");
        owned.ledger().wait(100);
        assert!(owned.ledger().view().is_stuck());
        owned.ledger().give_back(Time(7), 20, Time(0));
        assert!(owned.ledger().view().is_stuck(), "70 bytes are not 100");
        owned.ledger().give_back(Time(9), 30, Time(0));
        assert!(!owned.ledger().view().is_stuck());
        assert_eq!((owned.ledger().view().has(Time(7)), owned.ledger().view().has(Time(9))), (70, 100));
    }

    #[test]
    fn credit_in_flight_and_buffered_bytes_add_up() {
        let mut owned = Owned { available: 300, ..Owned::default() };
        owned.ledger().spend(200);
        owned.ledger().give_back(Time(9), 50, Time(0));
        let view = |owned: &mut Owned| {
            let mut balance = Balance { in_flight: 100, buffered: 50, ..Balance::default() };
            balance.add(owned.ledger().view(), 300);
            balance.check()
        };
        assert_eq!(view(&mut owned), Ok(()));
        owned.available -= 1;
        assert!(view(&mut owned).unwrap_err().contains("credit 99 + in flight 100 + buffered 50"));
    }
}
