//! Switches: an input organization, a crossbar and its arbitration, one file per architecture.
//!
//! All architectures have the same few entry points: [`Switch::accept`] takes a packet, [`Switch::settle`] decides
//! which packets leave at this instant after all arrivals of the instant, and the other methods serve the meters.

mod chooser;
mod cioq;
mod detour;
mod director;
mod fcfs;
mod islip;
mod ports;
mod queued;
mod round_robin;
mod rounds;
mod voq;

use crate::context::Context;
use crate::message::{Report, Word};
use crate::packet::PacketId;
use crate::port::{Port, PortVl, Vl};
use crate::port_set::{Ports64, Ports256};
use crate::queueing::isolation::Cams;
use crate::voq::MOST_LANES;

pub(crate) use chooser::Chooser;
pub(crate) use cioq::CioqSwitch;
pub(crate) use detour::{Detourer, Neighbours};
pub(crate) use director::{Director, FlowRoutes, weight_ps};
pub(crate) use fcfs::FcfsSwitch;
pub(crate) use islip::Islip;
pub(crate) use ports::{Outgoing, PortWiring, Ports, Steering};
pub(crate) use queued::{Arbiter, QueuedSwitch};
pub(crate) use round_robin::RoundRobin;
pub(crate) use voq::{VoqSwitch, is_small};

/// A switch of any architecture.
#[derive(Debug)]
pub(crate) enum Switch {
    /// One virtual lane and up to 64 ports, or more.
    Voq(Box<VoqSwitch<1>>),
    LargeVoq(Box<VoqSwitch<MOST_LANES>>),
    /// Up to 64 ports, or more.
    Queued(Box<QueuedSwitch<Ports64>>),
    LargeQueued(Box<QueuedSwitch<Ports256>>),
    Cioq(Box<CioqSwitch<Ports64>>),
    LargeCioq(Box<CioqSwitch<Ports256>>),
    Fcfs(Box<FcfsSwitch>),
}

/// Evaluates an expression for a switch of any architecture.
macro_rules! with_switch {
    ($switch:expr, $name:ident => $then:expr) => {
        match $switch {
            Switch::Voq($name) => $then,
            Switch::LargeVoq($name) => $then,
            Switch::Queued($name) => $then,
            Switch::LargeQueued($name) => $then,
            Switch::Cioq($name) => $then,
            Switch::LargeCioq($name) => $then,
            Switch::Fcfs($name) => $then,
        }
    };
}

impl Switch {
    /// A packet's head has passed the switch's pipeline and is ready for arbitration.
    #[inline]
    pub fn accept(&mut self, ctx: &mut Context, input: Port, packet: PacketId) {
        match self {
            Self::Voq(switch) if switch.ports.is_plain() => {
                switch.ports.landed(ctx, input, packet);
                switch.enqueue(ctx, input, packet);
            }
            Self::Queued(switch) if switch.is_plain() => {
                switch.ports.landed(ctx, input, packet);
                switch.enqueue(ctx, input, packet);
            }
            _ => self.accept_any(ctx, input, packet),
        }
    }

    /// As [`Self::accept`], for switches that select routes, wait for tails, or have other queues.
    fn accept_any(&mut self, ctx: &mut Context, input: Port, packet: PacketId) {
        // The common cases, with a single test of the architecture.
        match self {
            Self::Cioq(switch) if switch.ports.is_plain() => {
                switch.note_tail(ctx, packet);
                switch.ports.landed(ctx, input, packet);
                switch.enqueue(ctx, input, packet);
                return;
            }
            Self::Voq(switch) if switch.ports.steering.is_none() => {
                if let Some((time, key)) = switch.ports.waits_for_tail(ctx, input, packet) {
                    ctx.queue.push(silvan_engine::Event { time, key, data: packet });
                    return;
                }
                switch.ports.landed(ctx, input, packet);
                switch.enqueue(ctx, input, packet);
                return;
            }
            Self::Fcfs(switch) if switch.ports.director().is_some() && !switch.ports.may_underrun => {
                switch.ports.direct_flow(ctx, input, packet);
                switch.ports.landed(ctx, input, packet);
                switch.enqueue(ctx, input, packet);
                return;
            }
            _ => {}
        }
        if self.ports().steering.is_some() {
            self.steer(ctx, input, packet);
        }
        let wait =
            if self.ports().may_underrun { self.ports().waits_for_tail(ctx, input, packet) } else { None };
        match self {
            Self::Voq(_) | Self::LargeVoq(_) | Self::Fcfs(_) => {}
            Self::Queued(switch) => switch.note_tail(ctx, packet),
            Self::LargeQueued(switch) => switch.note_tail(ctx, packet),
            Self::Cioq(switch) => switch.note_tail(ctx, packet),
            Self::LargeCioq(switch) => switch.note_tail(ctx, packet),
        }
        if let Some((time, key)) = wait {
            ctx.queue.push(silvan_engine::Event { time, key, data: packet });
            return;
        }
        self.enqueue(ctx, input, packet);
    }

    /// Selects the output and the lane of a packet where the forwarding table alone does not determine them.
    #[inline(never)]
    fn steer(&mut self, ctx: &mut Context, input: Port, packet: PacketId) {
        match self.ports().steering.as_deref() {
            Some(Steering::Packets(_)) => self.choose_port(ctx, packet),
            Some(Steering::Detours(..)) => {
                self.choose_detour(ctx, packet);
                self.ports().choose_lane(ctx, input, packet);
            }
            Some(Steering::Lanes(_)) => self.ports().choose_lane(ctx, input, packet),
            Some(Steering::Flows(_)) => self.ports_mut().direct_flow(ctx, input, packet),
            None => {}
        }
    }

    /// Prefetches the state that all ports share, shortly before an event.
    #[inline]
    pub fn prefetch(&self) {
        match self {
            Self::Queued(switch) => switch.prefetch(),
            Self::LargeQueued(switch) => switch.prefetch(),
            Self::Fcfs(switch) => switch.prefetch(),
            _ => {}
        }
    }

    /// Prefetches what [`Self::prefetch_arrival`] reads, for a packet that arrives soon.
    #[inline]
    pub fn prefetch_route(&self, ctx: &Context, packet: PacketId) {
        match self {
            Self::Queued(switch) => switch.ports.prefetch_route(&ctx.packets[packet]),
            Self::LargeQueued(switch) => switch.ports.prefetch_route(&ctx.packets[packet]),
            _ => {}
        }
    }

    /// Prefetches the state that a packet will touch that arrives soon.
    #[inline]
    pub fn prefetch_arrival(&self, ctx: &Context, input: Port, packet: PacketId) {
        match self {
            Self::Voq(switch) => switch.prefetch_arrival(ctx, input, packet),
            Self::LargeVoq(switch) => switch.prefetch_arrival(ctx, input, packet),
            Self::Queued(switch) => switch.prefetch_arrival(ctx, input, packet),
            Self::LargeQueued(switch) => switch.prefetch_arrival(ctx, input, packet),
            _ => {}
        }
    }

    /// Prefetches the state that an output will touch that is woken soon.
    #[inline]
    pub fn prefetch_wake(&self, ctx: &Context, output: Port) {
        match self {
            Self::Voq(switch) => switch.prefetch_wake(ctx, output),
            Self::LargeVoq(switch) => switch.prefetch_wake(ctx, output),
            Self::Queued(switch) => switch.prefetch_wake(ctx, output),
            Self::LargeQueued(switch) => switch.prefetch_wake(ctx, output),
            Self::Fcfs(switch) => switch.prefetch_wake(ctx, output),
            _ => {}
        }
    }

    /// A packet may leave from now on.
    #[inline]
    pub fn enqueue(&mut self, ctx: &mut Context, input: Port, packet: PacketId) {
        self.ports().landed(ctx, input, packet);
        with_switch!(self, switch => switch.enqueue(ctx, input, packet));
    }

    /// An output may be able to send again: it is free, or credit has returned.
    #[inline]
    pub fn wake(&mut self, ctx: &mut Context, output: Port) {
        with_switch!(self, switch => switch.wake(ctx, output));
    }

    /// Decides which packets leave an output (or the whole switch, if it decides for all outputs together) at this
    /// instant.
    #[inline]
    pub fn settle(&mut self, ctx: &mut Context, output: Port) {
        with_switch!(self, switch => switch.settle(ctx, output));
    }

    /// A notification arrived at a port: about a CAM line of the next node, or for a source.
    pub fn notice(&mut self, ctx: &mut Context, port: Port, id: u32) {
        match (ctx.notices.take(id), self) {
            (Some(Word::Report(report)), switch) => {
                ctx.reports.push(((switch.ports().place, false, port), report));
            }
            (Some(Word::Line(notice)), Self::Queued(switch)) => switch.notice(ctx, port, notice),
            (Some(Word::Line(notice)), Self::LargeQueued(switch)) => switch.notice(ctx, port, notice),
            _ => {}
        }
    }

    /// Sends a report to a source at the end of an instant: before all packets except those that leave at this instant.
    pub fn send_report(&mut self, ctx: &mut Context, report: Report) {
        let Some(output) = self.ports().send_report(ctx, report) else { return };
        match self {
            Self::Queued(switch) => switch.note_sending(output),
            Self::LargeQueued(switch) => switch.note_sending(output),
            _ => {}
        }
        // Packets that wait for the output may have expected the link to be free earlier.
        if self.queued_bytes(output) > 0 {
            let channel = self.ports().out(output);
            ctx.wake(channel, ctx.free_at(channel));
        }
    }

    /// The CAMs, where there are special queues.
    pub fn cams(&self) -> Option<&Cams> {
        match self {
            Self::Queued(switch) => switch.buffers.cams.as_ref(),
            Self::LargeQueued(switch) => switch.buffers.cams.as_ref(),
            _ => None,
        }
    }

    /// The state that all architectures share.
    #[inline]
    pub fn ports(&self) -> &Ports {
        with_switch!(self, switch => &switch.ports)
    }

    /// See [`Self::ports`].
    #[inline]
    pub fn ports_mut(&mut self) -> &mut Ports {
        with_switch!(self, switch => &mut switch.ports)
    }

    /// The number of data packets marked first at this output so far, and whether the output is in the congestion state
    /// on any virtual lane.
    pub fn marks(&self, output: Port) -> (u64, bool) {
        let ports = self.ports();
        let lanes = output.with_lanes(ports.lanes);
        ports.marking.state(output.index(), lanes.map(PortVl::index))
    }

    /// The shared state of a VOQ switch; `None` for another architecture.
    pub fn into_voq_ports(self) -> Option<Ports> {
        match self {
            Self::Voq(switch) => Some(switch.ports),
            Self::LargeVoq(switch) => Some(switch.ports),
            Self::Queued(_) | Self::LargeQueued(_) | Self::Cioq(_) | Self::LargeCioq(_) | Self::Fcfs(_) => {
                None
            }
        }
    }

    /// Bytes in the queues that feed an output.
    pub fn queued_bytes(&self, output: Port) -> u32 {
        with_switch!(self, switch => switch.queued_bytes(output))
    }

    /// Buffer space in use at an input on a virtual lane, computed from its queues.
    #[cfg(debug_assertions)]
    pub fn buffered(&self, ctx: &Context, input: Port, vl: Vl) -> u32 {
        with_switch!(self, switch => switch.buffered(ctx, input, vl))
    }

    /// The outputs, each with its lane, that the packets at the heads of an input's queues wait for: space of a lane
    /// becomes free as soon as one of them is sent.
    pub fn heads(&self, ctx: &Context, input: Port, vl: Vl) -> Vec<(Port, Vl)> {
        match self {
            Self::Voq(switch) if switch.ports.changes_lanes() => return switch.holders(ctx, input, vl),
            Self::LargeVoq(switch) if switch.ports.changes_lanes() => return switch.holders(ctx, input, vl),
            _ => {}
        }
        let heads = with_switch!(self, switch => switch.heads(ctx, input, vl));
        heads.into_iter().map(|output| (output, vl)).collect()
    }
}
