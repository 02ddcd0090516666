//! Equal-cost multipath: the output of each packet follows from a hash of its fields ([`crate::routing::ecmp`]). The same
//! code selects outputs by LID, if hosts have several.

use std::sync::Arc;

use super::{Ports, Steering};
use crate::context::Context;
use crate::packet::PacketId;
use crate::port::Port;
use crate::routing::adaptive::FlowKey;
use crate::routing::ecmp::{Fields, Hash};
use crate::routing::port_groups::Choices;

/// The data that a switch needs to hash packets onto its ports.
#[derive(Debug)]
pub(crate) struct Hasher {
    pub choices: Arc<Choices>,
    pub hash: Hash,
}

impl Ports {
    /// The hasher, if switches hash packets onto ports.
    #[inline]
    pub fn hasher(&self) -> Option<&Hasher> {
        match self.steering.as_deref()? {
            Steering::Hashed(hasher) => Some(hasher),
            _ => None,
        }
    }

    /// Selects the output of a packet that has arrived, if switches hash packets onto ports.
    #[inline(never)]
    pub(super) fn hash_packet(&self, ctx: &mut Context, id: PacketId) {
        let Some(hasher) = self.hasher() else { return };
        let entropy = ctx.packets.entropy(id);
        let packet = &mut ctx.packets[id];
        let fields =
            Fields { source: packet.src, destination: packet.dst, connection: packet.source, entropy };
        packet.out =
            hasher.hash.port(&hasher.choices, &fields).map_or(self.route(packet.dst), Port::of_number);
    }

    /// The output of packets of a flow with an entropy value, if switches hash packets onto ports.
    pub fn hashed_output(&self, key: &FlowKey, entropy: u16) -> Option<Port> {
        let hasher = self.hasher()?;
        let FlowKey { source, destination, connection } = *key;
        let fields = Fields { source, destination, connection: connection as u16, entropy };
        hasher.hash.port(&hasher.choices, &fields).map(Port::of_number)
    }
}
