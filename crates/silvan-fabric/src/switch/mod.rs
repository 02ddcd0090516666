//! Switches: an input organisation, a crossbar and its arbitration, one file per architecture.
//!
//! Every architecture answers to the same few calls: [`Switch::accept`] takes a packet in,
//! [`Switch::settle`] decides what leaves at this instant after all arrivals of the instant are
//! in, and the rest lets the meters look.

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

use crate::core::{Core, Report, Word};
#[cfg(debug_assertions)]
use crate::outputs::Outputs;
use crate::packet::PacketId;
use crate::port::{Port, Vl};
use crate::port_set::{Ports64, Ports256};
use crate::queueing::isolation::Cams;

pub(crate) use chooser::Chooser;
pub(crate) use cioq::CioqSwitch;
pub(crate) use detour::{Detourer, Neighbours};
pub(crate) use director::{Director, FlowRoutes, weight_ps};
pub(crate) use fcfs::FcfsSwitch;
pub(crate) use islip::Islip;
pub(crate) use ports::{Outgoing, PortWiring, Ports, Steering};
pub(crate) use queued::{Arbiter, QueuedSwitch};
pub(crate) use round_robin::RoundRobin;
pub(crate) use voq::VoqSwitch;

/// A switch of some architecture.
#[derive(Debug)]
pub(crate) enum Switch {
    Voq(Box<VoqSwitch>),
    /// Up to 64 ports, or more.
    Queued(Box<QueuedSwitch<Ports64>>),
    LargeQueued(Box<QueuedSwitch<Ports256>>),
    Cioq(Box<CioqSwitch<Ports64>>),
    LargeCioq(Box<CioqSwitch<Ports256>>),
    Fcfs(Box<FcfsSwitch>),
    /// A VOQ switch whose outputs are run apart: those of a partition's [`Outputs`] from `first` on. It has no
    /// events of its own.
    Apart {
        ports: Box<Ports>,
        first: u32,
    },
}

/// Does the same with a switch of whichever architecture, but with one whose outputs are run apart.
macro_rules! with_switch {
    ($switch:expr, $name:ident => $then:expr, $apart:pat => $otherwise:expr) => {
        match $switch {
            Switch::Voq($name) => $then,
            Switch::Queued($name) => $then,
            Switch::LargeQueued($name) => $then,
            Switch::Cioq($name) => $then,
            Switch::LargeCioq($name) => $then,
            Switch::Fcfs($name) => $then,
            $apart => $otherwise,
        }
    };
}

impl Switch {
    /// A packet's head has passed the switch's pipeline and is ready for arbitration.
    #[inline]
    pub fn accept(&mut self, core: &mut Core, input: Port, packet: PacketId) {
        match self {
            Self::Voq(switch) if switch.ports.is_plain() => {
                switch.ports.landed(core, input, packet);
                switch.enqueue(core, input, packet);
            }
            Self::Queued(switch) if switch.is_plain() => {
                switch.ports.landed(core, input, packet);
                switch.enqueue(core, input, packet);
            }
            _ => self.accept_any(core, input, packet),
        }
    }

    /// As [`Self::accept`], where routes are chosen, packets wait for their tails, or queues are others.
    fn accept_any(&mut self, core: &mut Core, input: Port, packet: PacketId) {
        // Where nothing else has a say, without asking more than once which switch it is.
        match self {
            Self::Cioq(switch) if switch.ports.is_plain() => {
                switch.note_tail(core, packet);
                switch.ports.landed(core, input, packet);
                switch.enqueue(core, input, packet);
                return;
            }
            Self::Voq(switch) if switch.ports.steering.is_none() => {
                if let Some((time, key)) = switch.ports.waits_for_tail(core, input, packet) {
                    core.queue.push(silvan_engine::Event { time, key, data: packet });
                    return;
                }
                switch.ports.landed(core, input, packet);
                switch.enqueue(core, input, packet);
                return;
            }
            Self::Fcfs(switch) if switch.ports.director().is_some() && !switch.ports.may_underrun => {
                switch.ports.direct_flow(core, input, packet);
                switch.ports.landed(core, input, packet);
                switch.enqueue(core, input, packet);
                return;
            }
            _ => {}
        }
        if self.ports().steering.is_some() {
            self.steer(core, input, packet);
        }
        let wait =
            if self.ports().may_underrun { self.ports().waits_for_tail(core, input, packet) } else { None };
        match self {
            Self::Voq(_) | Self::Fcfs(_) | Self::Apart { .. } => {}
            Self::Queued(switch) => switch.note_tail(core, packet),
            Self::LargeQueued(switch) => switch.note_tail(core, packet),
            Self::Cioq(switch) => switch.note_tail(core, packet),
            Self::LargeCioq(switch) => switch.note_tail(core, packet),
        }
        if let Some((time, key)) = wait {
            core.queue.push(silvan_engine::Event { time, key, data: packet });
            return;
        }
        self.enqueue(core, input, packet);
    }

    /// Decides where a packet leaves and on which lane, where that is not the table's alone to say.
    #[inline(never)]
    fn steer(&mut self, core: &mut Core, input: Port, packet: PacketId) {
        match self.ports().steering.as_deref() {
            Some(Steering::Packets(_)) => self.choose_port(core, packet),
            Some(Steering::Detours(..)) => {
                self.choose_detour(core, packet);
                self.ports().choose_lane(core, input, packet);
            }
            Some(Steering::Lanes(_)) => self.ports().choose_lane(core, input, packet),
            Some(Steering::Flows(_)) => self.ports_mut().direct_flow(core, input, packet),
            None => {}
        }
    }

    /// Something happens soon: has the state that all ports share brought into the cache.
    #[inline]
    pub fn foresee(&self) {
        match self {
            Self::Queued(switch) => switch.foresee(),
            Self::LargeQueued(switch) => switch.foresee(),
            Self::Fcfs(switch) => switch.foresee(),
            _ => {}
        }
    }

    /// A packet arrives soon: has what [`Self::foresee_arrival`] asks brought into the cache.
    #[inline]
    pub fn foresee_route(&self, core: &Core, packet: PacketId) {
        match self {
            Self::Queued(switch) => switch.ports.foresee_route(&core.packets[packet]),
            Self::LargeQueued(switch) => switch.ports.foresee_route(&core.packets[packet]),
            _ => {}
        }
    }

    /// A packet arrives soon: has what it will touch brought into the cache.
    #[inline]
    pub fn foresee_arrival(&self, core: &Core, input: Port, packet: PacketId) {
        match self {
            Self::Voq(switch) => switch.foresee_arrival(core, input, packet),
            Self::Queued(switch) => switch.foresee_arrival(core, input, packet),
            Self::LargeQueued(switch) => switch.foresee_arrival(core, input, packet),
            _ => {}
        }
    }

    /// An output is asked soon: has what it will touch brought into the cache.
    #[inline]
    pub fn foresee_wake(&self, core: &Core, output: Port) {
        match self {
            Self::Voq(switch) => switch.foresee_wake(core, output),
            Self::Queued(switch) => switch.foresee_wake(core, output),
            Self::LargeQueued(switch) => switch.foresee_wake(core, output),
            Self::Fcfs(switch) => switch.foresee_wake(core, output),
            _ => {}
        }
    }

    /// A packet may leave from now on.
    #[inline]
    pub fn enqueue(&mut self, core: &mut Core, input: Port, packet: PacketId) {
        self.ports().landed(core, input, packet);
        with_switch!(self, switch => switch.enqueue(core, input, packet), Self::Apart { .. } => {});
    }

    /// An output may be able to send again: it is free, or has credits.
    #[inline]
    pub fn wake(&mut self, core: &mut Core, output: Port) {
        with_switch!(self, switch => switch.wake(core, output), Self::Apart { .. } => {});
    }

    /// Decides what leaves an output (or the whole switch, if it decides for all outputs
    /// together) at this instant.
    #[inline]
    pub fn settle(&mut self, core: &mut Core, output: Port) {
        with_switch!(self, switch => switch.settle(core, output), Self::Apart { .. } => {});
    }

    /// A notification came in at a port: about a CAM line of the next node, or for a source.
    pub fn notice(&mut self, core: &mut Core, port: Port, id: u32) {
        match (core.notices.take(id), self) {
            (Some(Word::Report(report)), switch) => {
                core.reports.push(((switch.ports().place, false, port), report));
            }
            (Some(Word::Line(notice)), Self::Queued(switch)) => switch.notice(core, port, notice),
            (Some(Word::Line(notice)), Self::LargeQueued(switch)) => switch.notice(core, port, notice),
            _ => {}
        }
    }

    /// Sends what a source is to be told, at the end of an instant: ahead of all packets but those that leave at
    /// this instant.
    pub fn send_report(&mut self, core: &mut Core, report: Report) {
        let Some(output) = self.ports().send_report(core, report) else { return };
        match self {
            Self::Queued(switch) => switch.note_sending(output),
            Self::LargeQueued(switch) => switch.note_sending(output),
            _ => {}
        }
        // What waits for the output may have looked for the link to be free before.
        if self.queued_bytes(core, output) > 0 {
            let channel = self.ports().out(output);
            core.wake(channel, core.free_at(channel));
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

    /// What all architectures share.
    #[inline]
    pub fn ports(&self) -> &Ports {
        with_switch!(self, switch => &switch.ports, Self::Apart { ports, .. } => ports)
    }

    /// See [`Self::ports`].
    #[inline]
    pub fn ports_mut(&mut self) -> &mut Ports {
        with_switch!(self, switch => &mut switch.ports, Self::Apart { ports, .. } => ports)
    }

    /// Data packets marked at an output so far, each where it was marked first, and whether the output is in
    /// the congestion state on some virtual lane.
    pub fn marks(&self, core: &Core, output: Port) -> (u64, bool) {
        if let Some((part, first)) = self.apart()
            && let Some(outputs) = &core.part(part).outputs
        {
            return outputs.state(first as usize + output.index());
        }
        let ports = self.ports();
        let mut lanes = output.with_lanes(ports.lanes);
        (ports.marks[output.index()], lanes.any(|lane| ports.marker.state(lane).is_congested))
    }

    /// Where its outputs are run apart, its partition and the first of its outputs there.
    pub fn apart(&self) -> Option<(u16, u32)> {
        if let Self::Apart { ports, first } = self { Some((ports.part, *first)) } else { None }
    }

    /// Bytes in the queues that feed an output.
    pub fn queued_bytes(&self, core: &Core, output: Port) -> u32 {
        with_switch!(self, switch => switch.queued_bytes(output), Self::Apart { ports, first } => {
            let outputs = core.part(ports.part).outputs.as_ref();
            outputs.map_or(0, |outputs| outputs.queued_bytes(*first as usize + output.index()))
        })
    }

    /// Buffer space in use at an input on a virtual lane, found by walking its queues.
    #[cfg(debug_assertions)]
    pub fn buffered(&self, core: &Core, input: Port, vl: Vl) -> u32 {
        let core = core.part(self.ports().part);
        with_switch!(self, switch => switch.buffered(core, input, vl), Self::Apart { ports, first } => {
            let all = *first as usize..*first as usize + ports.count();
            let of = |outputs: &Outputs| {
                all.map(|output| outputs.buffered(output, (vl.index(), input.index()), &core.packets)).sum()
            };
            core.outputs.as_ref().map_or(0, of)
        })
    }

    /// The outputs, each with its lane, that the packets at the heads of an input's queues ask for: space of a
    /// lane is freed there as soon as one of them sends.
    pub fn heads(&self, core: &Core, input: Port, vl: Vl) -> Vec<(Port, Vl)> {
        if let Self::Voq(switch) = self
            && switch.ports.changes_lanes()
        {
            return switch.holders(core.part(switch.ports.part), input, vl);
        }
        self.heads_of_lane(core, input, vl).into_iter().map(|output| (output, vl)).collect()
    }

    fn heads_of_lane(&self, core: &Core, input: Port, vl: Vl) -> Vec<Port> {
        let core = core.part(self.ports().part);
        with_switch!(self, switch => switch.heads(core, input, vl), Self::Apart { ports, first } => {
            let Some(outputs) = core.outputs.as_ref() else { return Vec::new() };
            let of_lane = (vl.index(), input.index());
            let asks = |output: &Port| outputs.is_asked(*first as usize + output.index(), of_lane);
            Port::all(ports.count()).filter(asks).collect()
        })
    }
}
