//! Computes the thresholds of on/off flow control, and the space that is needed above them.

use silvan_engine::{Bytes, Rate, Time};
use silvan_network::topology::Link;

use super::Builder;
use crate::error::{Reason, SetupError};
use crate::link::{Division, Thresholds};

impl Builder<'_> {
    /// The thresholds of a virtual lane at a link's receiver, which has `capacity` bytes for the lane; `None` if
    /// links use credits.
    ///
    /// The stop message takes the link's delay after the arrival that exceeds the threshold. The buffer must hold the
    /// packets that were on their way at that time, and those that the sender starts before it receives the message.
    pub(super) fn pause(
        &self,
        link: &Link,
        to_host: bool,
        division: &Division,
        capacity: u32,
    ) -> Result<Option<Thresholds>, SetupError> {
        let Some(given) = &self.model.on_off else { return Ok(None) };
        if *division != Division::Whole {
            return Err(Reason::DividedMemory.of("flow_control.kind", "on-off"));
        }
        let full = self.model.full_space;
        // A packet counts from the arrival of its head at a switch, or of its tail at a host.
        let on_its_way = if to_host {
            link.delay + link.rate.pace().time(self.model.sizes.mtu + self.model.sizes.header)
        } else {
            link.delay + self.model.switch.latency
        };
        let room = u64::from(2 * full) + self.space_in(on_its_way + link.delay, link.rate);
        let most = u64::from(capacity).saturating_sub(room);
        let xoff = given.xoff.unwrap_or_else(|| u32::try_from(most).unwrap_or(u32::MAX));
        if u64::from(xoff) > most || capacity as u64 <= room {
            let reason = Reason::NoRoomAboveThreshold { rate: link.rate, delay: link.delay, capacity, room };
            return Err(match given.xoff {
                Some(xoff) => reason.of("flow_control.xoff", Bytes(xoff.into())),
                None => reason.of("flow_control.kind", "on-off"),
            });
        }
        let usual = xoff.saturating_sub(2 * full).max(xoff / 2);
        let xon = given.xon.unwrap_or(usual);
        if xon > xoff {
            return Err(Reason::XonAboveXoff { xoff }.of("flow_control.xon", Bytes(xon.into())));
        }
        Ok(Some(Thresholds { xoff, xon }))
    }

    /// The maximum buffer space, in bytes, that packets sent within a given time need.
    fn space_in(&self, span: Time, rate: Rate) -> u64 {
        let bytes = u128::from(rate.bytes_in(span));
        // Small packets need the most space relative to their size. The worst case is the smallest packet, or the
        // smallest packet that needs one more block.
        let block = self.model.sizes.credit_block;
        let least = self.least_packet();
        let next = least.div_ceil(block) * block + 1;
        let share = [least, next.min(self.model.sizes.mtu + self.model.sizes.header).max(least)]
            .map(|size| (u128::from(self.model.sizes.space(size)), u128::from(size)));
        share.map(|(space, size)| (bytes * space).div_ceil(size)).into_iter().max().unwrap_or(0) as u64
    }

    /// Bytes of the smallest packet that the traffic of a scenario can generate.
    fn least_packet(&self) -> u32 {
        let mtu = u64::from(self.model.sizes.mtu);
        // The last piece of a total that is divided into pieces.
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
            message if traffic.is_varied && message + u64::from(traffic.spread) > mtu => 1,
            // The last packets that a host may generate form one message, shortened to whole packets.
            message => last(message, mtu),
        });
        let payload = flows.chain(traffic).min().unwrap_or(mtu).clamp(1, mtu) as u32;
        (payload + self.model.sizes.header).min(self.model.sizes.control).max(1)
    }
}
