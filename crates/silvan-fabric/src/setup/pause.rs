//! Thresholds of on/off flow control, and the room that they need above them.

use silvan_engine::{Bytes, Rate, Time};

use super::{Builder, Reason, small};
use crate::config::FlowControl;
use crate::link::{Division, Thresholds};
use crate::simulation::ModelError;
use crate::topology::Link;

impl Builder<'_> {
    /// The thresholds of a virtual lane at a link's receiver, which has `capacity` bytes for it; none where
    /// there are credits.
    ///
    /// The message to stop takes a link's delay from the arrival that exceeds the threshold. The buffer must
    /// hold the packets that were on their way then, and those that the sender begins before it receives the
    /// message.
    pub(super) fn pause(
        &self,
        link: &Link,
        to_host: bool,
        division: &Division,
        capacity: u32,
    ) -> Result<Option<Thresholds>, ModelError> {
        let FlowControl::OnOff(given) = &self.config.flow_control else { return Ok(None) };
        if *division != Division::Whole {
            return Err(Reason::DividedMemory.of("flow_control.kind", "on-off"));
        }
        let full = self.full_space();
        // A packet counts from its head's time at a switch, from its tail's at a host.
        let on_its_way = if to_host {
            link.delay + link.rate.pace().time(self.sizes.mtu + self.sizes.header)
        } else {
            link.delay + self.config.switch.latency
        };
        let room = u64::from(2 * full) + self.space_in(on_its_way + link.delay, link.rate);
        let most = u64::from(capacity).saturating_sub(room);
        let xoff = match given.xoff {
            Some(xoff) => small(xoff, "flow_control.xoff")?,
            None => u32::try_from(most).unwrap_or(u32::MAX),
        };
        if u64::from(xoff) > most || capacity as u64 <= room {
            let reason = Reason::NoRoomAboveThreshold { rate: link.rate, delay: link.delay, capacity, room };
            return Err(match given.xoff {
                Some(xoff) => reason.of("flow_control.xoff", xoff),
                None => reason.of("flow_control.kind", "on-off"),
            });
        }
        let usual = xoff.saturating_sub(2 * full).max(xoff / 2);
        let xon = given.xon.map_or(Ok(usual), |xon| small(xon, "flow_control.xon"))?;
        if xon > xoff {
            return Err(Reason::XonAboveXoff { xoff }.of("flow_control.xon", Bytes(xon.into())));
        }
        Ok(Some(Thresholds { xoff, xon }))
    }

    /// The most buffer space that packets sent within a time can need, in bytes.
    fn space_in(&self, span: Time, rate: Rate) -> u64 {
        let bytes = u128::from(rate.bytes_in(span));
        // Small packets need more space for their size: the smallest one, or the first of a further block.
        let block = self.sizes.credit_block;
        let least = self.least_packet();
        let next = least.div_ceil(block) * block + 1;
        let share = [least, next.min(self.sizes.mtu + self.sizes.header).max(least)]
            .map(|size| (u128::from(self.sizes.space(size)), u128::from(size)));
        share.map(|(space, size)| (bytes * space).div_ceil(size)).into_iter().max().unwrap_or(0) as u64
    }

    /// The size of the smallest packet that a scenario's traffic can make.
    fn least_packet(&self) -> u32 {
        let mtu = u64::from(self.sizes.mtu);
        // The last piece of what is cut into pieces of a size.
        let last = |bytes: u64, piece: u64| match bytes % piece.max(1) {
            0 => piece,
            rest => rest,
        };
        let flows = self.config.flows.iter().map(|flow| {
            let message = flow.message.map_or(mtu, |bytes| bytes.0);
            let end = flow.total.map_or(message, |total| last(total.0, message));
            last(message, mtu).min(last(end, mtu))
        });
        let traffic = self.config.traffic.iter().map(|traffic| {
            let message = traffic.message.map_or(mtu, |bytes| bytes.0);
            match traffic.message_max {
                Some(most) if most.0 > mtu => 1,
                // The last packets that a host may generate are a message cut short at whole packets.
                _ => last(message, mtu),
            }
        });
        let payload = flows.chain(traffic).min().unwrap_or(mtu).clamp(1, mtu) as u32;
        (payload + self.sizes.header).min(self.sizes.control).max(1)
    }
}
