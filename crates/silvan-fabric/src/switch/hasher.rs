//! Equal-cost multipath: the output of each packet follows from a hash of its fields
//! ([`silvan_network::routing::ecmp`]). The same code selects outputs by LID, if hosts have several.

use silvan_network::port::Port;
use silvan_network::routing::adaptive::FlowKey;
use silvan_network::routing::ecmp::HashedFields;

use super::ports::report_missing_steering;
use super::{Ports, Steering};
use crate::context::Context;
use crate::packet::{PacketId, Pool};
use crate::routes::{Hasher, fields};

impl Ports {
    /// The hasher, if switches hash packets onto ports.
    #[inline]
    pub fn hasher(&self) -> Option<Hasher> {
        match self.steering.as_deref()? {
            Steering::Hashed(hasher) => Some(*hasher),
            Steering::Flows(_) | Steering::Packets(_) | Steering::Lanes(_) | Steering::Detours(..) => None,
        }
    }

    /// Selects the output of a packet that has arrived, if switches hash packets onto ports.
    #[inline(never)]
    pub(super) fn hash_packet(&self, ctx: &mut Context, id: PacketId) {
        let Some(hasher) = self.hasher() else { return report_missing_steering(self, ctx) };
        ctx.packets[id].out = self.hashed(hasher, &ctx.packets, id);
    }

    fn hashed(&self, hasher: Hasher, packets: &Pool, id: PacketId) -> Port {
        let dst = packets[id].dst;
        let out = self.table().routes.hashed(hasher, dst, || fields(packets, id));
        if !self.avoids(out) {
            return out;
        }
        self.hash_again(hasher, dst, &fields(packets, id)).unwrap_or(out)
    }

    /// The output of a packet that arrives now, if nothing but the packet and the tables determine it; see
    /// [`Self::steers_by_packet`].
    pub fn output_now(&self, packets: &Pool, id: PacketId) -> Port {
        match self.hasher() {
            Some(hasher) => self.hashed(hasher, packets, id),
            None => self.route(packets[id].dst),
        }
    }

    /// The output of a packet among those that are not avoided, if there are any.
    #[cold]
    fn hash_again(&self, hasher: Hasher, dst: u32, fields: &HashedFields) -> Option<Port> {
        let mut others = self.table().routes.all_hashed(hasher, dst);
        others.retain(|&port| !self.avoids(port));
        let index = hasher.hash.index(fields, others.len());
        others.get(index).copied()
    }

    /// The output of packets of a flow with an entropy value, if switches hash packets onto ports.
    pub fn hashed_output(&self, key: &FlowKey, entropy: u16) -> Option<Port> {
        let hasher = self.hasher()?;
        let FlowKey { source, destination, connection } = *key;
        let fields = || HashedFields { source, destination, connection: connection as u16, entropy };
        Some(self.table().routes.hashed(hasher, destination, fields))
    }

    /// All outputs of packets for a destination, if switches hash packets onto ports.
    pub fn hashed_outputs(&self, destination: u32) -> Option<Vec<Port>> {
        Some(self.table().routes.all_hashed(self.hasher()?, destination))
    }
}
