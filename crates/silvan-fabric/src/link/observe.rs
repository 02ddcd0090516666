//! Read access to the state of links for observers and checks.

use silvan_engine::Time;
use silvan_network::port::Vl;

use super::rules::Control;
use super::{Balance, ChannelId, CreditRules, LedgerView, Links};

impl Links {
    pub(super) fn view(&self, index: usize) -> LedgerView<'_> {
        let lane = &self.lanes[index];
        let (available, wanted, returns) = (lane.available, lane.wanted, &lane.returns);
        LedgerView { available, wanted, returns, spills: &self.spills }
    }

    /// Number of virtual lanes of each channel.
    pub fn lane_count(&self) -> usize {
        self.lane_count
    }

    /// Whether the sender waits on this lane for credit that is not on its way. With pause frames, the receiver may be
    /// about to resume the lane.
    pub fn is_stuck(&self, id: ChannelId, vl: Vl, now: Time) -> bool {
        if let Some(control) = self.by_messages() {
            let is_shut = |index| !control.is_open(index, now) && control.opens_at(index).is_none();
            return self.ledgers(id, vl).any(|index| self.lanes[index].wanted > 0 && is_shut(index));
        }
        self.ledgers(id, vl).any(|index| match self.control.as_deref() {
            Some(Control::Credits(CreditRules { shared: Some(_), .. })) => {
                let wanted = self.lanes[index].wanted;
                wanted > 0 && self.has_no_returns(id) && self.pool_would_be_short(id, index, wanted, now)
            }
            _ => self.view(index).is_stuck(),
        })
    }

    /// Changes the credit of the first lane of a channel, which is an error that checks must detect.
    #[cfg(test)]
    pub fn change_credit(&mut self, id: ChannelId, by: i32) {
        let lane = &mut self.lanes[id as usize * self.lane_count];
        lane.available = lane.available.wrapping_add_signed(by);
    }

    /// What the ledgers of a virtual lane of a channel contain.
    pub fn balance(&self, id: ChannelId, vl: Vl) -> Balance {
        let mut balance = Balance::default();
        for index in self.ledgers(id, vl) {
            balance.add(self.view(index), self.capacities[index]);
        }
        balance
    }

    /// Bytes that a channel's sender has put on the wire by now, including the sent part of the current packet.
    pub fn sent_by(&self, id: ChannelId, now: Time) -> u64 {
        let channel = self.channel(id);
        // A host whose link is down sends nothing.
        let until = if channel.free_at == Time::NEVER { now } else { channel.free_at };
        let left = self.rate(id).bytes_in(until.saturating_sub(now));
        channel.sent_bytes.saturating_sub(left)
    }

    /// Bytes of the receiver's buffer for which the sender has no credit because they are in flight, buffered or
    /// returning. If there is more credit than the buffer has, which is an error that the checks report, this is zero.
    pub fn outstanding(&self, id: ChannelId, vl: Vl, now: Time) -> u32 {
        let of = |index: usize| self.capacities[index].saturating_sub(self.view(index).has(now));
        self.ledgers(id, vl).map(of).sum()
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
        if let Some(control) = self.by_messages() {
            return ledgers.any(|index| control.is_open(index, now));
        }
        ledgers.any(|index| match self.control.as_deref() {
            Some(Control::Credits(rules)) => {
                rules.is_open(id)
                    && self.view(index).has(now) >= space
                    && !self.pool_would_be_short(id, index, space, now)
            }
            _ => self.view(index).has(now) >= space,
        })
    }
}
