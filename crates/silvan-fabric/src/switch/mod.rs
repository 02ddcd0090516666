//! Switches, which consist of an input organization, a crossbar and its arbitration. Each architecture has its own
//! file and implements [`architecture::Architecture`].

mod architecture;
mod chooser;
mod cioq;
mod detour;
mod director;
mod fcfs;
mod hasher;
mod islip;
mod ports;
mod queued;
mod round_robin;
mod rounds;
mod trimming;
mod voq;

use crate::context::Context;
use crate::message::{Report, Word};
use crate::packet::PacketId;
use crate::port::{Port, PortVl, Vl};
use crate::port_set::{Ports64, Ports256};
use crate::queueing::isolation::Cams;
use crate::voq::MOST_LANES;

use architecture::Architecture;
pub(crate) use chooser::Chooser;
pub(crate) use cioq::CioqSwitch;
pub(crate) use detour::{Detourer, Neighbours};
pub(crate) use director::{Director, FlowRoutes, weight_ps};
pub(crate) use fcfs::FcfsSwitch;
pub(crate) use hasher::Hasher;
pub(crate) use islip::Islip;
pub(crate) use ports::{Outgoing, PortWiring, Ports, Steering};
pub(crate) use queued::{Arbiter, QueuedSwitch};
pub(crate) use round_robin::RoundRobin;
pub(crate) use trimming::{Trimmer, TrimmingRule};
pub(crate) use voq::{VoqSwitch, is_small};

/// A switch of any architecture.
#[derive(Debug)]
pub(crate) enum Switch {
    /// The first variant is for one virtual lane and up to 64 ports.
    Voq(Box<VoqSwitch<1>>),
    LargeVoq(Box<VoqSwitch<MOST_LANES>>),
    /// The first variant is for up to 64 ports.
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
    /// Accepts a packet whose head has passed the switch's pipeline and is ready for arbitration.
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

    /// Same as [`Self::accept`], for switches that select routes, wait for tails, or have other queues.
    fn accept_any(&mut self, ctx: &mut Context, input: Port, packet: PacketId) {
        // A single test of the architecture is enough for the common cases.
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
        with_switch!(self, switch => switch.note_tail(ctx, packet));
        if let Some((time, key)) = wait {
            ctx.queue.push(silvan_engine::Event { time, key, data: packet });
            return;
        }
        self.enqueue(ctx, input, packet);
    }

    /// Selects the output and the lane of a packet if the forwarding table alone does not determine them.
    #[inline(never)]
    fn steer(&mut self, ctx: &mut Context, input: Port, packet: PacketId) {
        match self.ports().steering.as_deref() {
            Some(Steering::Packets(_)) => self.choose_port(ctx, packet),
            Some(Steering::Hashed(_)) => self.ports().hash_packet(ctx, packet),
            Some(Steering::Detours(..)) => {
                self.choose_detour(ctx, packet);
                self.ports().choose_lane(ctx, input, packet);
            }
            Some(Steering::Lanes(_)) => self.ports().choose_lane(ctx, input, packet),
            Some(Steering::Flows(_)) => self.ports_mut().direct_flow(ctx, input, packet),
            None => {}
        }
    }

    /// See [`Architecture::prefetch`].
    #[inline]
    pub fn prefetch(&self) {
        with_switch!(self, switch => switch.prefetch());
    }

    /// See [`Architecture::prefetch_route`].
    #[inline]
    pub fn prefetch_route(&self, ctx: &Context, input: Port, packet: PacketId) {
        with_switch!(self, switch => switch.prefetch_route(ctx, input, packet));
    }

    /// See [`Architecture::prefetch_output`].
    #[inline]
    pub fn prefetch_output(&self, output: Port) {
        with_switch!(self, switch => switch.prefetch_output(output));
    }

    /// See [`Architecture::prefetch_arrival`].
    #[inline]
    pub fn prefetch_arrival(&self, ctx: &Context, input: Port, packet: PacketId) {
        with_switch!(self, switch => switch.prefetch_arrival(ctx, input, packet));
    }

    /// See [`Architecture::prefetch_wake`].
    #[inline]
    pub fn prefetch_wake(&self, ctx: &Context, output: Port) {
        with_switch!(self, switch => switch.prefetch_wake(ctx, output));
    }

    /// Queues a packet that may leave from now on.
    #[inline]
    pub fn enqueue(&mut self, ctx: &mut Context, input: Port, packet: PacketId) {
        self.ports().landed(ctx, input, packet);
        with_switch!(self, switch => switch.enqueue(ctx, input, packet));
    }

    /// See [`Architecture::wake`].
    #[inline]
    pub fn wake(&mut self, ctx: &mut Context, output: Port) {
        with_switch!(self, switch => switch.wake(ctx, output));
    }

    /// See [`Architecture::settle`].
    #[inline]
    pub fn settle(&mut self, ctx: &mut Context, output: Port) {
        with_switch!(self, switch => switch.settle(ctx, output));
    }

    /// Handles a notification that arrived at a port, about a CAM line of the next node or for a source.
    pub fn notice(&mut self, ctx: &mut Context, port: Port, id: u32) {
        match ctx.notices.take(id) {
            Some(Word::Report(report)) => ctx.reports.push(((self.ports().place, false, port), report)),
            Some(Word::Line(notice)) => with_switch!(self, switch => switch.notice(ctx, port, notice)),
            None | Some(Word::Pause(..)) => ctx.report_broken(format!("notification {id} has arrived twice")),
        }
    }

    /// Sends a report to a source at the end of an instant. Only packets that leave at this instant precede it.
    pub fn send_report(&mut self, ctx: &mut Context, report: Report) {
        if let Some(output) = self.ports().send_report(ctx, report) {
            self.link_was_used(ctx, output);
        }
    }

    /// Handles that a message of this switch occupies the link of an output.
    pub fn link_was_used(&mut self, ctx: &mut Context, output: Port) {
        with_switch!(self, switch => switch.note_sending(output));
        // Packets that wait for the output may have scheduled a wake-up for an earlier time.
        if self.queued_bytes(output) > 0 {
            let channel = self.ports().out(output);
            ctx.wake(channel, ctx.free_at(channel));
        }
    }

    /// The CAMs, if there are special queues.
    pub fn cams(&self) -> Option<&Cams> {
        with_switch!(self, switch => switch.cams())
    }

    /// The state that all architectures share.
    #[inline]
    pub fn ports(&self) -> &Ports {
        with_switch!(self, switch => switch.ports())
    }

    /// See [`Self::ports`].
    #[inline]
    pub fn ports_mut(&mut self) -> &mut Ports {
        with_switch!(self, switch => switch.ports_mut())
    }

    /// The number of data packets that this output marked first, and whether it is in the congestion state on any
    /// virtual lane.
    pub fn marks(&self, output: Port) -> (u64, bool) {
        let ports = self.ports();
        let lanes = output.with_lanes(ports.lanes);
        ports.marking.state(output.index(), lanes.map(PortVl::index))
    }

    /// The number of packets that an output has trimmed.
    pub fn trimmed(&self, output: Port) -> u64 {
        if let Self::Fcfs(switch) = self { switch.trimmed(output) } else { 0 }
    }

    /// The shared state of a VOQ switch; `None` for other architectures.
    pub fn into_voq_ports(self) -> Option<Ports> {
        match self {
            Self::Voq(switch) => Some(switch.ports),
            Self::LargeVoq(switch) => Some(switch.ports),
            Self::Queued(_) | Self::LargeQueued(_) | Self::Cioq(_) | Self::LargeCioq(_) | Self::Fcfs(_) => {
                None
            }
        }
    }

    /// See [`Architecture::queued_bytes`].
    pub fn queued_bytes(&self, output: Port) -> u32 {
        with_switch!(self, switch => switch.queued_bytes(output))
    }

    /// See [`Architecture::buffered`].
    #[cfg(debug_assertions)]
    pub fn buffered(&self, ctx: &Context, input: Port, vl: Vl) -> u32 {
        with_switch!(self, switch => switch.buffered(ctx, input, vl))
    }

    /// See [`Architecture::heads`].
    pub fn heads(&self, ctx: &Context, input: Port, vl: Vl) -> Vec<(Port, Vl)> {
        with_switch!(self, switch => switch.heads(ctx, input, vl))
    }
}
