//! The interface of a switch architecture, which combines an input organization, a crossbar and its arbitration. Each
//! architecture has its own file; [`super::Switch`] lists them. The default methods do nothing.

use super::Ports;
use crate::context::Context;
use crate::packet::PacketId;
use crate::port::{Port, Vl};
use crate::queueing::isolation::{Cams, Notice};

/// An instant has two phases. First, packets, wake-ups and notifications arrive; then, each output in the context's
/// `dirty_outputs` is settled.
pub(crate) trait Architecture {
    /// The state that all architectures share: wiring, forwarding table, steering, marking.
    fn ports(&self) -> &Ports;

    /// See [`Self::ports`].
    fn ports_mut(&mut self) -> &mut Ports;

    /// Called when a packet's head has arrived, and its output and lane are known.
    fn note_tail(&mut self, _ctx: &mut Context, _id: PacketId) {}

    /// Queues a packet that may leave from now on.
    fn enqueue(&mut self, ctx: &mut Context, input: Port, id: PacketId);

    /// Called when an output may be able to send again because it is free or credit has returned.
    fn wake(&mut self, ctx: &mut Context, output: Port);

    /// Sends the packets that an output can send at this instant. Some architectures decide for all outputs of the
    /// switch together.
    fn settle(&mut self, ctx: &mut Context, output: Port);

    /// Handles a notification from the next node about a CAM line.
    fn notice(&mut self, ctx: &mut Context, _port: Port, _notice: Notice) {
        let node = self.ports().node;
        ctx.report_broken(format!(
            "switch {node} without special queues received a notification about a CAM line"
        ));
    }

    /// Called when a notification occupies an output's link.
    fn note_sending(&mut self, _output: Port) {}

    /// The CAMs, if there are special queues.
    fn cams(&self) -> Option<&Cams> {
        None
    }

    /// Bytes in the queues that feed an output.
    fn queued_bytes(&self, output: Port) -> u32;

    /// Buffer space in use at an input on a virtual lane, computed from the queues.
    #[cfg(debug_assertions)]
    fn buffered(&self, ctx: &Context, input: Port, vl: Vl) -> u32;

    /// The outputs, with their lanes, for which the packets at the heads of an input's queues wait. Buffer space of a
    /// lane becomes free as soon as one of these packets is sent.
    fn heads(&self, ctx: &Context, input: Port, vl: Vl) -> Vec<(Port, Vl)>;

    /// Prefetches the state that all ports share, shortly before an event.
    fn prefetch(&self) {}

    /// Prefetches the data that [`Self::prefetch_arrival`] reads for a packet that arrives soon.
    fn prefetch_route(&self, _ctx: &Context, _input: Port, _id: PacketId) {}

    /// Prefetches the data that [`Self::prefetch_wake`] reads for an output that is woken soon.
    fn prefetch_output(&self, _output: Port) {}

    /// Prefetches the state that the arrival of a packet will use.
    fn prefetch_arrival(&self, _ctx: &Context, _input: Port, _id: PacketId) {}

    /// Prefetches the state that the wake-up of an output will use.
    fn prefetch_wake(&self, _ctx: &Context, _output: Port) {}
}
