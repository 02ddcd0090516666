//! Adaptive routing per packet, which selects the output of each packet among the ports that lead to its destination.
//!
//! The load of a port is the sum of two numbers: the bytes that wait for it in the switch, on all lanes, and
//! the bytes in use of the buffer at the far end of the link on the packet's lane, as the sender's credits
//! show. Loads are compared in units of `grade` bytes, as in real switches. Among the ports with the lowest
//! grade, a hash of the seed, the switch and the number of earlier choices selects one.

use silvan_engine::saved::Saved;
use std::sync::Arc;

use silvan_network::port::Port;
use silvan_network::routing::port_groups::Choices;

use crate::packet::Packet;

/// The configuration and state that a switch needs to select outputs.
#[derive(Debug, Saved)]
pub(crate) struct PortChooser {
    pub choices: Arc<Choices>,
    /// Size of a load grade in bytes.
    #[saved(constant)]
    pub grade: u32,
    /// Service levels whose data packets are routed adaptively, one bit per level.
    #[saved(constant)]
    pub levels: u16,
    /// Whether packets for the destinations of a CAM line always use the port of the forwarding table.
    #[saved(constant)]
    pub pins_isolated: bool,
    #[saved(constant)]
    pub seed: u32,
    /// Number of choices made so far.
    pub count: u32,
    /// Scratch space for one choice: the ports with the lowest grade.
    #[saved(scratch)]
    pub best: Vec<Port>,
}

impl PortChooser {
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

    /// All ports that lead to a destination.
    pub fn outputs(&self, destination: u32) -> Vec<Port> {
        self.choices.ports(destination as usize).iter().copied().map(Port::of_number).collect()
    }

    /// The ports (numbered from 1) among which a packet may choose; `None` if it must use the port of the forwarding
    /// table.
    pub fn ports(&self, packet: &Packet) -> Option<&[u16]> {
        let is_free = packet.is_data() && !packet.pinned && self.levels >> packet.sl & 1 == 1;
        let ports = self.choices.ports(packet.dst as usize);
        (is_free && ports.len() > 1).then_some(ports)
    }
}
