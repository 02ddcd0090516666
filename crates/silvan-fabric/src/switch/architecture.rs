//! What a switch architecture provides: an input organization, a crossbar and its arbitration. One file implements one
//! architecture; [`super::Switch`] lists them. Default methods do nothing.

use super::Ports;
use crate::context::Context;
use crate::packet::PacketId;
use crate::port::{Port, Vl};
use crate::queueing::isolation::{Cams, Notice};

/// See the module. An instant has two phases: first packets, wake-ups and notifications arrive, then the outputs that
/// asked for it (`dirty_outputs` of the context) are settled.
pub(crate) trait Architecture {
    /// The part that does not depend on the architecture: wiring, forwarding table, steering, marking.
    fn ports(&self) -> &Ports;

    /// See [`Self::ports`].
    fn ports_mut(&mut self) -> &mut Ports;

    /// A packet's head has arrived, and its output and lane are known.
    fn note_tail(&mut self, _ctx: &mut Context, _id: PacketId) {}

    /// A packet may leave from now on.
    fn enqueue(&mut self, ctx: &mut Context, input: Port, id: PacketId);

    /// An output may be able to send again: it is free, or credit has returned.
    fn wake(&mut self, ctx: &mut Context, output: Port);

    /// Decides which packets leave an output (or the whole switch, if it decides for all outputs together) at this
    /// instant.
    fn settle(&mut self, ctx: &mut Context, output: Port);

    /// A notification of the next node about a CAM line has arrived at a port.
    fn notice(&mut self, ctx: &mut Context, _port: Port, _notice: Notice) {
        let node = self.ports().node;
        ctx.report_broken(format!(
            "switch {node} without special queues received a notification about a CAM line"
        ));
    }

    /// An output's link is busy with a notification.
    fn note_sending(&mut self, _output: Port) {}

    /// The CAMs, where there are special queues.
    fn cams(&self) -> Option<&Cams> {
        None
    }

    /// Bytes in the queues that feed an output.
    fn queued_bytes(&self, output: Port) -> u32;

    /// Buffer space in use at an input on a virtual lane, computed from its queues.
    #[cfg(debug_assertions)]
    fn buffered(&self, ctx: &Context, input: Port, vl: Vl) -> u32;

    /// The outputs, each with its lane, that the packets at the heads of an input's queues wait for: space of a lane
    /// becomes free as soon as one of them is sent.
    fn heads(&self, ctx: &Context, input: Port, vl: Vl) -> Vec<(Port, Vl)>;

    /// Prefetches the state that all ports share, shortly before an event.
    fn prefetch(&self) {}

    /// Prefetches what [`Self::prefetch_arrival`] reads, for a packet that arrives soon.
    fn prefetch_route(&self, _ctx: &Context, _id: PacketId) {}

    /// Prefetches the state that a packet will touch that arrives soon.
    fn prefetch_arrival(&self, _ctx: &Context, _input: Port, _id: PacketId) {}

    /// Prefetches the state that an output will touch that is woken soon.
    fn prefetch_wake(&self, _ctx: &Context, _output: Port) {}
}
