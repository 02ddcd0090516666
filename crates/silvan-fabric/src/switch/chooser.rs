//! Adaptive routing packet by packet: the output that a packet takes, of those that lead to its destination.
//!
//! A port's load is what waits for it in the switch, on whichever lane, and what is in use of the buffer at its far
//! end on the packet's lane, as far as the sender's credits tell. Loads are compared in grades, as switches do; of
//! the ports of the least grade one is drawn, by a hash of seed, switch and the number of choices so far.

use std::sync::Arc;

use super::{Ports, Steering, Switch};
use crate::context::Context;
use crate::packet::{Kind, Packet, PacketId};
use crate::port::{Port, Vl};
use crate::routing::adaptive::mixed;
use crate::routing::port_groups::Choices;

/// What a switch needs to choose.
#[derive(Debug)]
pub(crate) struct Chooser {
    pub choices: Arc<Choices>,
    /// Bytes of a grade.
    pub grade: u32,
    /// Service levels whose data choose, a bit each.
    pub levels: u16,
    /// Whether destinations on a line of the CAMs have the table's port alone.
    pub pins_isolated: bool,
    pub seed: u32,
    /// How often it has chosen.
    pub count: u32,
    /// The ports of the least grade, while it chooses.
    best: Vec<Port>,
}

impl Chooser {
    pub fn new(choices: Arc<Choices>, grade: u32, levels: u16, pins_isolated: bool, seed: u64) -> Self {
        Self {
            choices,
            grade: grade.max(1),
            levels,
            pins_isolated,
            seed: seed as u32,
            count: 0,
            best: Vec::new(),
        }
    }

    /// The ports (from 1) that a packet may take; none if it takes the table's.
    fn ports(&self, packet: &Packet) -> Option<&[u16]> {
        let is_free = packet.kind == Kind::Data && !packet.pinned && self.levels >> packet.sl & 1 == 1;
        let ports = self.choices.ports(packet.dst as usize);
        (is_free && ports.len() > 1).then_some(ports)
    }
}

impl Ports {
    /// What packets' ports are chosen by, if they are.
    #[inline]
    pub fn chooser(&self) -> Option<&Chooser> {
        match self.steering.as_deref()? {
            Steering::Packets(chooser) => Some(chooser),
            _ => None,
        }
    }

    fn chooser_mut(&mut self) -> Option<&mut Chooser> {
        match self.steering.as_deref_mut()? {
            Steering::Packets(chooser) => Some(chooser),
            _ => None,
        }
    }
}

impl Switch {
    /// Decides by which port a packet that has come in leaves, where each packet chooses.
    #[inline(never)]
    pub(super) fn choose_port(&mut self, ctx: &mut Context, id: PacketId) {
        let mut best =
            self.ports_mut().chooser_mut().map(|of| std::mem::take(&mut of.best)).unwrap_or_default();
        let Some(chooser) = self.ports().chooser() else { return };
        let packet = &ctx.packets[id];
        let (vl, dst) = (packet.vl, packet.dst);
        let mut output = self.ports().route(dst);
        let mut chosen = 0;
        if let Some(ports) = chooser.ports(packet)
            && !(chooser.pins_isolated && self.cams().is_some_and(|cams| cams.lists(vl, dst)))
        {
            let mut least = u64::MAX;
            best.clear();
            for port in ports.iter().map(|&number| Port::of_number(number)) {
                let grade = self.load(ctx, port, vl) / u64::from(chooser.grade);
                if grade < least {
                    least = grade;
                    best.clear();
                }
                if grade == least {
                    best.push(port);
                }
            }
            let number = mixed([chooser.seed, self.ports().node, chooser.count]) % best.len().max(1) as u64;
            output = best.get(number as usize).copied().unwrap_or(output);
            chosen = 1;
        }
        ctx.packets[id].out = output;
        if let Some(chooser) = self.ports_mut().chooser_mut() {
            chooser.best = best;
            chooser.count = chooser.count.wrapping_add(chosen);
        }
    }

    /// Bytes that wait for an output, and that are in use at the far end of its link on a lane.
    pub(super) fn load(&self, ctx: &Context, output: Port, vl: Vl) -> u64 {
        let in_use = ctx.links.outstanding(self.ports().out(output), vl, ctx.now);
        u64::from(self.queued_bytes(output)) + u64::from(in_use)
    }
}
