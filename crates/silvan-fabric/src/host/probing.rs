//! Entropy values that a host retires after losses, and the probes that test them
//! ([`path_states`](silvan_network::routing::path_states)). A probe is a control packet with the entropy value, so it takes
//! the route of data packets with this value. Its answer has the value, too, like an acknowledgement.

use silvan_engine::Event;
use silvan_network::port::Port;
use silvan_network::routing::path_states::Probe;
use silvan_network::routing::spraying::RouteFeedback;

use super::Host;
use super::flows::Connection;
use super::outbox::ControlPacket;
use crate::context::Context;
use crate::link::{Class, key};
use crate::packet::{Contents, Packet};

/// The `data` field of the events of this module, which belong to the class `HostTimer`.
pub(crate) const PROBE: u32 = 2;

impl Host {
    /// Informs the choice of entropy values of the answer to a packet, or of its loss.
    #[inline]
    pub(super) fn note_route(
        &mut self,
        ctx: &mut Context,
        flow: Connection,
        entropy: u16,
        feedback: RouteFeedback,
    ) {
        let Some(sprayer) = &mut self.sprayer else { return };
        if sprayer.answered((flow.source, flow.destination), entropy, feedback, ctx.now) {
            ctx.meters.retired += 1;
            self.plan_probe(ctx);
        }
    }

    /// Schedules an event for the next probe, unless an event is pending by then.
    #[inline]
    pub(super) fn plan_probe(&mut self, ctx: &mut Context) {
        let Some(time) = self.sprayer.as_ref().and_then(|sprayer| sprayer.next_probe()) else { return };
        if self.probes_at.is_none_or(|planned| time < planned) {
            self.probes_at = Some(time);
            let key = key(Class::HostTimer, self.place, Port::FIRST);
            ctx.queue.push(Event { time, key, data: PROBE });
        }
    }

    /// Sends the probes that are due. A flow whose packets have all been acknowledged suspends its probes, and a host whose link
    /// is down sends none.
    pub fn send_probes(&mut self, ctx: &mut Context) {
        self.probes_at = self.probes_at.filter(|&planned| planned > ctx.now);
        if self.is_stopped {
            return;
        }
        while let Some((probe, unanswered)) =
            self.sprayer.as_mut().and_then(|sprayer| sprayer.take_probe(ctx.now))
        {
            let flow = Connection { source: probe.source, destination: probe.destination };
            let sends = self.has_outstanding(flow);
            if sends && !ctx.links.is_down(self.out) {
                ctx.meters.path_probes += 1;
                let control = self.control_for(Contents::PathProbe, flow);
                self.control.push_back(ControlPacket { entropy: Some(probe.value), ..control });
                self.wake(ctx);
            }
            if let Some(sprayer) = &mut self.sprayer {
                if sends {
                    sprayer.repeat_probe(probe, unanswered, ctx.now);
                } else {
                    sprayer.suspend_probe(probe);
                }
            }
        }
        self.plan_probe(ctx);
    }

    /// Answers a probe of an entropy value.
    pub(super) fn answer_probe(&mut self, ctx: &mut Context, packet: &Packet, entropy: u16) {
        let reply = self.answer_to(packet, Contents::PathReply { is_marked: packet.fecn });
        self.control.push_back(ControlPacket { entropy: Some(entropy), ..reply });
        self.wake(ctx);
    }

    /// Handles the answer to a probe.
    pub(super) fn probe_answered(
        &mut self,
        ctx: &mut Context,
        packet: &Packet,
        entropy: u16,
        is_marked: bool,
    ) {
        let probe = Probe { source: packet.source, destination: packet.src, value: entropy };
        if self.sprayer.as_mut().is_some_and(|sprayer| sprayer.probe_answered(probe, is_marked)) {
            ctx.meters.restored += 1;
        }
    }
}
