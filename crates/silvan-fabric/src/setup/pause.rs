//! Computes the space above the thresholds of on/off flow control.

use silvan_engine::{Rate, Time};
use silvan_network::topology::Link;

use super::Builder;

impl Builder<'_> {
    /// Bytes that a virtual lane at the receiver of a link needs above its threshold for stopping the sender.
    ///
    /// The stop message takes the link's delay after the arrival that exceeds the threshold. The buffer must
    /// hold the packets that were on their way at that time, and those that the sender starts before it
    /// receives the message.
    pub(super) fn room_above_threshold(&self, link: &Link, to_host: bool) -> u32 {
        let on_its_way = link.delay + self.stored_after(link, to_host);
        let room = u64::from(2 * self.model.full_space) + self.space_in(on_its_way + link.delay, link.rate);
        u32::try_from(room).unwrap_or(u32::MAX)
    }

    /// The longest time from the arrival of a packet's head at the end of a link until the packet counts as stored: at a
    /// switch after its latency, at a host after the tail, and at a store-and-forward switch after both.
    pub(super) fn stored_after(&self, link: &Link, to_host: bool) -> Time {
        let full = link.rate.pace().time(self.model.sizes.mtu + self.model.sizes.header);
        match (to_host, self.model.switch.stores) {
            (true, _) => full,
            (false, true) => full + self.model.switch.latency,
            (false, false) => self.model.switch.latency,
        }
    }

    /// The maximum buffer space, in bytes, that packets sent within a given time need.
    fn space_in(&self, span: Time, rate: Rate) -> u64 {
        let bytes = u128::from(rate.bytes_in(span));
        // Small packets need the most space relative to their size. The worst case is the smallest packet, or
        // the smallest packet that needs one more block.
        let block = self.model.sizes.credit_block;
        let least = self.least_packet();
        let next = least.div_ceil(block) * block + 1;
        let share = [least, next.min(self.model.sizes.mtu + self.model.sizes.header).max(least)]
            .map(|size| (u128::from(self.model.sizes.space(size)), u128::from(size)));
        share.map(|(space, size)| (bytes * space).div_ceil(size)).into_iter().max().unwrap_or(0) as u64
    }

    /// Bytes of the smallest packet of the flows, patterns and jobs of a scenario, or of a control packet if
    /// that is smaller.
    fn least_packet(&self) -> u32 {
        let mtu = u64::from(self.model.sizes.mtu);
        // Size of the last piece of a total that is divided into pieces.
        let last = |bytes: u64, piece: u64| match bytes % piece.max(1) {
            0 => piece,
            rest => rest,
        };
        let flows = self.model.flows.iter().map(|flow| {
            let message = u64::from(flow.message);
            let end = if flow.total == u64::MAX { message } else { last(flow.total, message) };
            last(message, mtu).min(last(end, mtu))
        });
        let traffic = self.model.traffic.iter().map(|traffic| match u64::from(traffic.message) {
            _ if traffic.has_any_size() => 1,
            message if traffic.is_varied && message + u64::from(traffic.spread) > mtu => 1,
            // The last packets that a host may generate form one message, shortened to whole packets.
            message => last(message, mtu),
        });
        let jobs = self.least_of_jobs().map(u64::from);
        let payload = flows.chain(traffic).chain(jobs).min().unwrap_or(mtu).clamp(1, mtu) as u32;
        (payload + self.model.sizes.header).min(self.model.sizes.control).max(1)
    }
}
