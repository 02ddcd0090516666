//! Read access to the state of links for observers and checks.

use silvan_engine::Time;

#[cfg(debug_assertions)]
use super::Way;
use super::{ChannelId, Control, CreditRules, LedgerView, Links};
use crate::port::Vl;

impl Links {
    pub(super) fn view(&self, index: usize) -> LedgerView<'_> {
        let lane = &self.lanes[index];
        let (available, wanted, returns) = (lane.available, lane.wanted, &lane.returns);
        LedgerView { available, wanted, returns, spills: &self.spills }
    }

    /// Number of virtual lanes of each channel.
    #[cfg(debug_assertions)]
    pub fn lane_count(&self) -> usize {
        self.lane_count
    }

    /// Whether the sender waits on this lane for credit that is not on its way. With pause frames, the receiver may be
    /// about to resume the lane.
    pub fn is_stuck(&self, id: ChannelId, vl: Vl, now: Time) -> bool {
        self.ledgers(id, vl).any(|index| match self.control.as_deref() {
            Some(Control::Messages(pauses)) => self.lanes[index].wanted > 0 && pauses.is_blocked(index, now),
            Some(Control::Frames(frames)) => self.lanes[index].wanted > 0 && !frames.is_open(index),
            Some(Control::Credits(CreditRules { shared: Some(_), .. })) => {
                let wanted = self.lanes[index].wanted;
                wanted > 0 && self.has_no_returns(id) && self.pool_would_lack(id, index, wanted, now)
            }
            None | Some(Control::Credits(_)) => self.view(index).is_stuck(),
        })
    }

    /// Records that a packet has left the wire for the receiver's buffer. Debug builds use this to check credits.
    #[cfg(debug_assertions)]
    pub fn landed(&mut self, (id, vl, dst): Way, space: u32) {
        let index = self.lane_index(id, vl, dst);
        self.in_flight[index] -= space;
    }

    /// Checks that the sender's credit, the bytes in flight, the `buffered` bytes and the returning credit add up to
    /// the receiver's buffer.
    ///
    /// # Errors
    /// The message with the numbers.
    #[cfg(debug_assertions)]
    pub fn check_credits(&self, id: ChannelId, vl: Vl, buffered: u32) -> Result<(), String> {
        let (mut available, mut in_flight, mut returning, mut capacity) = (0, 0, 0, 0);
        for index in self.ledgers(id, vl) {
            available += self.lanes[index].available;
            in_flight += self.in_flight[index];
            returning += self.view(index).returning();
            capacity += self.capacities[index];
        }
        if available + in_flight + buffered + returning == capacity {
            return Ok(());
        }
        Err(format!(
            "channel {id} VL {vl}: credit {available} + in flight {in_flight} + buffered {buffered} + \
             returning {returning} is not the buffer's {capacity}"
        ))
    }

    /// Bytes that a channel's sender has put on the wire by now, including the sent part of the current packet.
    pub fn sent_by(&self, id: ChannelId, now: Time) -> u64 {
        let channel = self.channel(id);
        let left = self.rate(id).bytes_in(channel.free_at.saturating_sub(now));
        channel.sent_bytes.saturating_sub(left)
    }

    /// Bytes of the receiver's buffer for which the sender has no credit because they are in flight, buffered or
    /// returning.
    pub fn outstanding(&self, id: ChannelId, vl: Vl, now: Time) -> u32 {
        self.ledgers(id, vl).map(|index| self.capacities[index] - self.view(index).has(now)).sum()
    }

    /// Same as [`Links::has_some_credit`], without booking the credit that has returned by now.
    pub fn would_have_credit(&self, id: ChannelId, vl: Vl, space: u32, now: Time) -> bool {
        let mut ledgers = self.ledgers(id, vl).peekable();
        if ledgers.peek().is_none() || self.has_full_ledgers(id, vl) {
            // Either no packet has been sent to any destination on this lane yet, or a destination has all of its credit.
            let is_closed = self.retry().is_some_and(|retry| !retry.is_open(id));
            return !is_closed
                && self.divided.as_ref().is_some_and(|divided| divided.capacities[id as usize] >= space);
        }
        ledgers.any(|index| match self.control.as_deref() {
            Some(Control::Messages(pauses)) => !pauses.is_stopped(index, now),
            Some(Control::Frames(frames)) => frames.is_open(index),
            Some(Control::Credits(rules)) => {
                rules.is_open(id)
                    && self.view(index).has(now) >= space
                    && !self.pool_would_lack(id, index, space, now)
            }
            None => self.view(index).has(now) >= space,
        })
    }

    /// Checks that no lane has more credit, including returning credit, than its buffer holds. Checks at most `most`
    /// consecutive lanes, starting with `first`.
    ///
    /// # Errors
    /// The message with the numbers.
    pub fn check_capacities(&self, first: usize, most: usize) -> Result<(), String> {
        let count = self.lanes.len();
        for step in 0..most.min(count) {
            let index = (first + step) % count;
            let check = self.view(index).check_capacity(self.capacities[index]);
            check.map_err(|what| format!("lane {index} {what}"))?;
        }
        Ok(())
    }
}
