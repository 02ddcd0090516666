//! Switches whose outputs are run apart.

use super::{Builder, Receiver};
use crate::congestion::Notification;
use crate::congestion::marking::Marking;
use crate::host::Host;
use crate::link::Links;
use crate::outputs::Plan;
use crate::topology::{End, Link, NodeRef};
use crate::traffic::source::Source;

impl Builder<'_> {
    /// What the outputs need to know.
    pub(super) fn outputs<'p>(
        &self,
        links: &'p Links,
        receivers: &'p [Receiver],
        hosts: &[Host],
    ) -> Plan<'p> {
        let host_at = |(channel, _, _, to): (u32, &Link, End, End)| match to.node {
            NodeRef::Host(host) => Some((channel, host)),
            NodeRef::Switch(_) => None,
        };
        let payloads = hosts.iter().flat_map(|host| &host.sources).map(|source| self.least_payload(source));
        let data = payloads.min().unwrap_or(self.sizes.mtu) + self.sizes.header;
        // Without marks there are notifications only of what is acknowledged anyway.
        let parts = self.config.parts();
        let quiet = matches!(parts.marking, Marking::None) && matches!(parts.notification, Notification::Cnp);
        Plan {
            links,
            receivers,
            hosts_at: self.directed().filter_map(host_at).collect(),
            lanes: self.config.lanes.count,
            full_space: self.full_space(),
            smallest: if quiet { data } else { data.min(self.sizes.control) }.max(1),
            credit_block: self.sizes.credit_block,
        }
    }

    /// The payload of a source's smallest packet, or less.
    fn least_payload(&self, source: &Source) -> u32 {
        let mtu = self.sizes.mtu;
        // The last packet of a message has what is left.
        let of = |message: u64| match (message / u64::from(mtu), (message % u64::from(mtu)) as u32) {
            (0, rest) => rest,
            (_, 0) => mtu,
            (_, rest) => rest,
        };
        let message = u64::from(source.message);
        let spread = source.varied.as_ref().map_or(0, |varied| varied.spread);
        if spread > 0 {
            return if message + u64::from(spread) <= u64::from(mtu) { source.message } else { 1 };
        }
        let last = if source.left == u64::MAX { 0 } else { source.left % message.max(1) };
        if last == 0 { of(message) } else { of(message).min(of(last)) }
    }
}
