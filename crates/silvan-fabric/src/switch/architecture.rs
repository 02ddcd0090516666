//! The interface of a switch architecture, which combines an input organization, a crossbar and its arbitration. Each
//! architecture has its own file; [`super::Switches`] lists them.

use silvan_network::port::{Port, PortVl, Vl};

use super::Ports;
use crate::context::Context;
use crate::message::{SourceReport, Word};
use crate::packet::PacketId;
use crate::queueing::isolation::{Cams, Notice};

/// A switch. Default methods that an architecture replaces do nothing, unless their documentation says otherwise.
///
/// An instant has two phases. First, packets, wake-ups and notifications arrive; then, each output in the context's
/// `dirty_outputs` is settled.
pub(crate) trait Architecture {
    /// The state that all architectures share: wiring, forwarding table, steering, marking.
    fn ports(&self) -> &Ports;

    /// See [`Self::ports`].
    fn ports_mut(&mut self) -> &mut Ports;

    /// Called when a packet has arrived, and its output and lane are known.
    fn note_tail(&mut self, _ctx: &mut Context, _input: Port, _id: PacketId) {}

    /// Queues a packet that may leave immediately. If the switch trims packets and the queue is full, only
    /// the header may be left. No architecture replaces this method.
    #[inline(always)]
    fn admit(&mut self, ctx: &mut Context, input: Port, id: PacketId) {
        if self.ports().trimmer.is_some() {
            self.admit_or_trim(ctx, input, id);
        } else {
            self.enqueue(ctx, input, id);
        }
    }

    /// Same as [`Self::admit`], if the switch trims packets.
    #[inline(never)]
    fn admit_or_trim(&mut self, ctx: &mut Context, input: Port, id: PacketId) {
        if ctx.packets[id].is_data() {
            self.make_room(ctx, input, id);
        }
        self.enqueue(ctx, input, id);
        self.note_headers(ctx, id);
    }

    /// Records the bytes on the lane of headers after a packet was added to a lane.
    fn note_headers(&self, ctx: &mut Context, id: PacketId) {
        let Some(trimmer) = &self.ports().trimmer else { return };
        let packet = &ctx.packets[id];
        let bytes = self.waiting_bytes(self.ports().route_of(packet), packet.vl);
        trimmer.note_headers(packet.vl, bytes, &mut ctx.meters);
    }

    /// If the switch trims packets: removes the payload of a data packet that does not fit into the queues of
    /// its output.
    fn make_room(&mut self, ctx: &mut Context, input: Port, id: PacketId) {
        let packet = &ctx.packets[id];
        let (output, vl, size) = (self.ports().route_of(packet), packet.vl, packet.size);
        let bytes = self.waiting_bytes(output, vl);
        let trimmer = self.ports().trimmer.as_ref();
        if trimmer.is_some_and(|trimmer| !trimmer.fits(output.index(), bytes, size)) {
            self.ports_mut().trim(ctx, (input, output), id);
        }
    }

    /// Bytes that wait for an output on a virtual lane.
    fn waiting_bytes(&self, output: Port, vl: Vl) -> u32;

    /// Queues a packet that may leave immediately.
    fn enqueue(&mut self, ctx: &mut Context, input: Port, id: PacketId);

    /// Called when an output may be able to send again because it is free or credit has returned.
    fn wake(&mut self, ctx: &mut Context, output: Port);

    /// Sends the packets that an output can send at this instant. Some architectures decide for all outputs of the
    /// switch together.
    fn settle(&mut self, ctx: &mut Context, output: Port);

    /// Whether an output with a free link sends nothing if it is woken now, as it must after all events of an instant.
    /// Not checked by architectures in which a wake-up can change the next decision.
    #[cfg(debug_assertions)]
    fn rests(&mut self, _ctx: &mut Context, _output: Port) -> bool {
        true
    }

    /// Handles a notification that arrived at a port, about a CAM line of the next node or for a source. No architecture
    /// replaces this method.
    fn receive(&mut self, ctx: &mut Context, port: Port, id: u32) {
        match ctx.notices.take(id) {
            Some(Word::Report(report)) => ctx.reports.push(((self.ports().place, false, port), report)),
            Some(Word::Line(notice)) => self.notice(ctx, port, notice),
            None | Some(Word::Signal(..)) => {
                ctx.report_broken(format!("notification {id} has arrived twice"))
            }
        }
    }

    /// Sends a report to a source at the end of an instant. Only packets that leave at this instant precede it. No
    /// architecture replaces this method.
    fn send_report(&mut self, ctx: &mut Context, report: SourceReport) {
        if let Some(output) = self.ports().send_report(ctx, report) {
            self.link_was_used(ctx, output);
        }
    }

    /// Handles a message of this switch that occupies the link of an output. No architecture replaces this
    /// method.
    fn link_was_used(&mut self, ctx: &mut Context, output: Port) {
        self.note_sending(output);
        // Packets that wait for the output may have scheduled a wake-up for an earlier time.
        if self.queued_bytes(output) > 0 {
            let channel = self.ports().out(output);
            ctx.wake(channel, ctx.free_at(channel));
        }
    }

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

    /// The number of data packets that this output marked first, and whether it is in the congestion state on any
    /// virtual lane. No architecture replaces this method.
    fn marks(&self, output: Port) -> (u64, bool) {
        let ports = self.ports();
        let lanes = output.with_lanes(ports.lanes);
        ports.marking.state(output.index(), lanes.map(PortVl::index))
    }

    /// Bytes in the queues that feed an output.
    fn queued_bytes(&self, output: Port) -> u32;

    /// Buffer space in use at an input on a virtual lane, computed from the queues.
    fn buffered(&self, ctx: &Context, input: Port, vl: Vl) -> u32;

    /// Calls `add` with parts of [`Self::buffered`], for all inputs and virtual lanes.
    fn all_buffered(&self, ctx: &Context, add: &mut dyn FnMut(Port, Vl, u32)) {
        for input in Port::all(self.ports().count()) {
            for vl in Vl::all(self.ports().lanes) {
                add(input, vl, self.buffered(ctx, input, vl));
            }
        }
    }

    /// The outputs, with their lanes, for which the packets at the heads of an input's queues wait. Buffer space of a
    /// lane becomes free as soon as one of these packets is sent.
    fn heads(&self, ctx: &Context, input: Port, vl: Vl) -> Vec<(Port, Vl)>;

    /// Prefetches the state that all ports share, shortly before an event.
    fn prefetch(&self) {}

    /// Whether [`Self::prefetch_route`] and [`Self::prefetch_output`] are worthwhile. This is the same for all switches.
    fn prefetches_in_steps(&self) -> bool {
        false
    }

    /// Prefetches the data that [`Self::prefetch_arrival`] reads for a packet that arrives soon.
    fn prefetch_route(&self, _ctx: &Context, _input: Port, _id: PacketId) {}

    /// Prefetches the data that [`Self::prefetch_wake`] reads for an output that is woken soon.
    fn prefetch_output(&self, _output: Port) {}

    /// Prefetches the state that the arrival of a packet will use.
    fn prefetch_arrival(&self, _ctx: &Context, _input: Port, _id: PacketId) {}

    /// Prefetches the state that the wake-up of an output will use.
    fn prefetch_wake(&self, _ctx: &Context, _output: Port) {}
}
