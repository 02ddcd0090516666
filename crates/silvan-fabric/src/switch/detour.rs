//! Detours per packet (UGAL-L). Depending on the load of two ports, the source's switch sends a packet either on the
//! minimal route or through a randomly selected group.

use silvan_engine::saved::Saved;
use std::sync::Arc;

use silvan_network::port::{Port, Vl};
use silvan_network::routing::adaptive::mixed;

use super::architecture::{load, report_missing_steering};
use super::{Architecture, Ports, Steering};
use crate::context::Context;
use crate::packet::PacketId;

/// The switch at the far end of each port, by switch and port; `u32::MAX` if there is none.
pub(crate) type Neighbours = Arc<[Box<[u32]>]>;

/// The configuration and state that a switch needs to decide on detours.
#[derive(Debug, Saved)]
pub(crate) struct Detourer {
    pub neighbours: Neighbours,
    /// Advantage of minimal routes in the comparison: bytes times links.
    #[saved(constant)]
    pub bias: u64,
    #[saved(constant)]
    pub seed: u32,
    /// Number of random selections so far.
    count: u32,
}

impl Detourer {
    pub fn new(neighbours: Neighbours, bias: u64, seed: u64) -> Self {
        Self { neighbours, bias, seed: seed as u32, count: 0 }
    }
}

impl Ports {
    /// The detour rule, if packets may take detours.
    #[inline]
    pub fn detourer(&self) -> Option<&Detourer> {
        match self.steering.as_deref()? {
            Steering::Detours(_, detourer) => Some(detourer),
            Steering::Flows(_) | Steering::Packets(_) | Steering::Hashed(_) | Steering::Lanes(_) => None,
        }
    }
}

/// Decides whether a packet takes a detour, if this switch is that of its source. Only data packets take
/// detours.
#[inline(never)]
pub(super) fn choose_detour(switch: &mut dyn Architecture, ctx: &mut Context, id: PacketId) {
    let ports = switch.ports();
    let Some(Steering::Detours(maps, of)) = ports.steering.as_deref() else {
        return report_missing_steering(ports, ctx);
    };
    let Some(detours) = &maps.detours else { return report_missing_steering(ports, ctx) };
    let packet = &ctx.packets[id];
    let (node, pair) = (ports.node as usize, (packet.src as usize, packet.dst as usize));
    if !detours.is_home(node, pair.0) {
        return;
    }
    let number = mixed([of.seed, ports.node, of.count]);
    let drawn = detours.third(number, pair.0, pair.1).filter(|_| packet.is_data());
    let is_longer = |group: usize| {
        let table = ports.route(packet.dst).number();
        let next = |at: usize, port: u16| of.neighbours[at][Port::of_number(port).index()] as usize;
        let cost = |between: Option<usize>| {
            let (port, lane) = detours.step_over(node, table, pair, between);
            load(switch, ctx, Port::of_number(port), Vl(lane)) * detours.links(pair, between, next)
        };
        cost(None) <= cost(Some(group)) + of.bias
    };
    let detour = drawn.filter(|&group| !is_longer(group)).map(|group| group as u16);
    ctx.packets.set_detour(id, detour);
    let count = u32::from(drawn.is_some());
    if let Some(Steering::Detours(_, of)) = switch.ports_mut().steering.as_deref_mut() {
        of.count = of.count.wrapping_add(count);
    }
}
