//! Wakes senders when a link is free, or when the credit for which a packet waits has arrived. A wake-up that is no
//! longer needed when it occurs is ignored.

use silvan_engine::cache::prefetch;
use silvan_engine::{Event, EventQueue, Time};

use super::rules::Control;
use super::{ChannelId, CreditWay, Links};

/// Flag in the data of a wake-up. If it is set, the sender requested this time, and the other bits are the channel.
/// Otherwise, the other bits are the ledger for whose credit a packet waits.
const ASKED: u32 = 1 << 31;

impl Links {
    /// The time at which the credit for which a packet waits arrives at the sender, if the credit is on its
    /// way. With shared credits, the time at which the next credit of any lane arrives. With pause frames and
    /// on/off messages, the time at which the lane opens without a message, if there is one.
    #[inline(always)]
    pub(super) fn ready_at(&mut self, id: ChannelId, index: usize) -> Option<Time> {
        match self.control.as_deref() {
            None => {}
            // With shared credits, a packet may need more credit than the next return contains.
            Some(Control::Credits(_)) => {
                if let Some(next) = self.next_return(id) {
                    return next;
                }
            }
            // A message that opens the lane wakes its sender.
            Some(control) => return control.by_messages().and_then(|control| control.opens_at(index)),
        }
        self.ledger(index).ready_at()
    }

    /// Whether there is credit for a packet. If not, schedules a wake-up of the sender for the time at which
    /// there may be, if it is known.
    #[inline(always)]
    pub fn has_credit_or_wait(
        &mut self,
        way: CreditWay,
        space: u32,
        now: Time,
        queue: &mut EventQueue,
    ) -> bool {
        if self.has_credit(way, space, now) {
            return true;
        }
        self.wait_for_credit(way, space, queue);
        false
    }

    /// Wakes the sender when the credit that a packet lacks arrives.
    #[inline(never)]
    pub fn wait_for_credit(&mut self, way: CreditWay, space: u32, queue: &mut EventQueue) {
        let index = self.lane_index(way);
        self.ledger(index).wait(space);
        if let Some(time) = self.ready_at(way.channel, index)
            && time != self.ready[index]
        {
            self.wake_for_credit(way.channel, index, time, queue);
        }
    }

    /// Same as [`Self::wait_for_credit`], but returns the time of the attempt that the sender must make if
    /// its credit is on its way. If the credit is not on its way, or if other credit arrives earlier, the
    /// sender is woken.
    pub fn expect_credit(&mut self, way: CreditWay, space: u32) -> Option<Time> {
        let index = self.lane_index(way);
        self.ledger(index).wait(space);
        let time = self.ready_at(way.channel, index)?;
        self.ready[index] = time;
        Some(time)
    }

    /// Ends the wait for credit that is expected at a time, because the sender makes another attempt before. The next wait for
    /// this credit schedules a wake-up.
    pub fn forget_expected(&mut self, way: CreditWay, time: Time) {
        let index = self.lane_index(way);
        if self.ready[index] == time {
            self.ready[index] = Time::NEVER;
        }
    }

    /// Wakes the waiting sender when its credit arrives, if the credit is on its way and does not arrive before
    /// `passed`. A pending attempt that is earlier remains: its reason may be another one than this credit, such as room in
    /// the replay buffer.
    #[inline(never)]
    pub(super) fn wake_with_credit(
        &mut self,
        id: ChannelId,
        index: usize,
        (now, passed): (Time, Time),
        queue: &mut EventQueue,
    ) {
        let Some(time) = self.ready_at(id, index).filter(|&time| time >= passed) else { return };
        let pending = self.ready[index];
        if time < pending || pending < now.max(passed) {
            self.wake_for_credit(id, index, time, queue);
        }
    }

    /// Wakes the sender of a lane at a time, regardless of other pending attempts.
    pub(super) fn wake_for_credit(
        &mut self,
        id: ChannelId,
        index: usize,
        time: Time,
        queue: &mut EventQueue,
    ) {
        self.ready[index] = time;
        queue.push(Event { time, key: self.channels[id as usize].wake_key, data: index as u32 });
    }

    /// Wakes the sender at `time`, unless it has requested an earlier wake-up.
    #[inline(always)]
    pub fn wake(&mut self, id: ChannelId, time: Time, queue: &mut EventQueue) {
        let channel = &mut self.channels[id as usize];
        if time < channel.wake_at {
            channel.wake_at = time;
            queue.push(Event { time, key: channel.wake_key, data: id | ASKED });
        }
    }

    /// Whether a channel's sender has requested a wake-up at or before a time.
    #[cfg(debug_assertions)]
    pub fn is_woken_by(&self, id: ChannelId, time: Time) -> bool {
        self.channels[id as usize].wake_at <= time
    }

    /// Whether a wake-up is valid: it is the earliest one that the sender has requested, or the credit for
    /// which a packet waits arrives at this instant. The request for a valid wake-up is removed.
    ///
    /// A sender is woken only if it can send, because hosts generate messages when they are woken, and schedulers learn of
    /// returning credit at different times.
    #[inline]
    pub fn take_wake(&mut self, event: Event, now: Time, queue: &mut EventQueue) -> bool {
        let data = event.data;
        if data & ASKED == 0 {
            let index = data as usize;
            let is_due = self.ready[index] == now && self.is_of_sender(index, event.key);
            let wanted = self.lanes[index].wanted;
            let mut counts = is_due && wanted > 0;
            if is_due {
                self.ready[index] = Time::NEVER;
            }
            if counts && !self.has_messages() && !self.has_shared_credits() {
                let mut ledger = self.ledger(index);
                counts = ledger.has_credit(wanted, now);
                if !counts && let Some(time) = ledger.ready_at() {
                    // A packet with higher priority has used the credit, or the replay buffer has room before the credit
                    // returns.
                    self.ready[index] = time;
                    queue.push(Event { time, ..event });
                }
                // Without room in the replay buffer, the sender is woken when there is room.
                let retry = self.retry();
                counts &= retry.is_none_or(|retry| retry.is_open(self.channel_of(index)));
            } else if counts && self.has_messages() {
                // If the lane is paused, a sender that was woken because the lane opened requests another wake-up.
                self.lanes[index].wanted = 0;
            }
            return counts;
        }
        let channel = &mut self.channels[(data & !ASKED) as usize];
        let counts = channel.wake_at == now;
        if counts {
            channel.wake_at = Time::NEVER;
        }
        counts
    }

    /// Prefetches the data that a wake-up will use.
    #[inline]
    pub fn prefetch_wake(&self, data: u32) {
        if data & ASKED == 0 {
            prefetch(&self.lanes, data as usize);
        } else {
            prefetch(&self.channels, (data & !ASKED) as usize);
        }
    }
}
