//! How a run is done: whether the outputs of switches are run apart, and in how many partitions.

use std::sync::Arc;

use silvan_engine::{EventQueue, Time};

use super::Builder;
use crate::congestion::Notification;
use crate::congestion::marking::Marking;
use crate::context::{Context, Far};
use crate::host::Host;
use crate::link::{Links, Receiver};
use crate::measure::Ahead;
use crate::outputs::{Outputs, Partition, Plan};
use crate::queueing::Isolation;
use crate::simulation::{Engine, ModelError};
use crate::switch::Switch;
use crate::topology::{End, Link, NodeRef};
use crate::traffic::source::{Clock, Source};

/// The least time in which a partition acts on another one, or why one thread does everything, in words.
pub(crate) type Lookahead = Result<Time, &'static str>;

impl Builder<'_> {
    /// Has the outputs of switches run apart where the network and `engine` allow it, and divides the network into
    /// as many partitions as there are to be threads.
    pub(super) fn partition(
        &self,
        ctx: &mut Context,
        (hosts, switches): (&mut [Host], &mut Vec<Switch>),
        receivers: &[Receiver],
        engine: Engine,
    ) -> Result<Lookahead, ModelError> {
        let plan = self.plan(&ctx.links, receivers, hosts);
        // What waits starts with the packet that is the last one in the order of all hosts' events.
        let is_awaited = ctx.meters.is_awaited;
        let is_apart = engine == Engine::Fastest && !is_awaited && plan.fits(switches).is_ok();
        let mut partition = Partition::new(self.model.threads, &plan, switches, hosts.len());
        if is_awaited {
            partition.lookahead = partition.lookahead.min(self.least_delivery(&plan, hosts));
        }
        let acts_at_once = partition.lookahead == Time::ZERO;
        if acts_at_once {
            partition = Partition::new(1, &plan, switches, hosts.len());
        }
        let count = partition.count;
        for (host, &(part, place)) in hosts.iter_mut().zip(&partition.of_host) {
            (host.part, host.place) = (part, place);
        }
        let mut places = vec![0; count];
        for (switch, &part) in switches.iter_mut().zip(&partition.of_switch) {
            let ports = switch.ports_mut();
            let next = &mut places[usize::from(part)];
            (ports.part, ports.place) = (part, *next);
            *next += 1;
        }
        let outputs = if is_apart { Outputs::new(&plan, &partition, switches) } else { Vec::new() };
        let lookahead =
            if acts_at_once { Err("a switch acts on the next one at once") } else { Ok(partition.lookahead) };
        ctx.is_whole = count == 1 && !is_apart;
        if count == 1 {
            ctx.outputs = outputs.into_iter().next();
        } else {
            self.add_parts(ctx, (hosts, switches), &partition, outputs)?;
        }
        Ok(lookahead)
    }

    /// Gives each partition a state of its own.
    fn add_parts(
        &self,
        ctx: &mut Context,
        (hosts, switches): (&[Host], &[Switch]),
        partition: &Partition,
        outputs: Vec<Outputs>,
    ) -> Result<(), ModelError> {
        let node = |node: NodeRef| match node {
            NodeRef::Host(host) => (hosts[host as usize].part, hosts[host as usize].place),
            NodeRef::Switch(switch) => {
                let ports = switches[switch as usize].ports();
                (ports.part, ports.place)
            }
        };
        let mut ends = Vec::new();
        for (channel, _, from, to) in self.directed() {
            let ((sender, place), (receiver, far_place)) = (node(from.node), node(to.node));
            ends.push((sender, receiver));
            ctx.links.renumber(channel, place, far_place);
        }
        ctx.part_of = ends.iter().map(|&(sender, _)| sender).collect();
        let ends: Arc<[(u16, u16)]> = ends.into();
        let is_apart = !outputs.is_empty();
        let mut outputs = outputs.into_iter();
        for part in 0..partition.count {
            let meters = ctx.meters.fresh();
            let far = (!is_apart).then(|| Box::new(Far::new(part, Arc::clone(&ends), partition.count)));
            let ahead = ctx
                .meters
                .is_awaited
                .then(|| Box::new(Ahead::new(hosts.iter().filter(|host| usize::from(host.part) == part))));
            let spacing = Time(self.event_spacing().0 * partition.count as u64);
            let own = Context {
                outputs: outputs.next(),
                queue: EventQueue::new(spacing),
                far,
                ahead,
                is_whole: false,
                ..self.ctx(ctx.links.clone(), meters)
            };
            ctx.parts.push(own);
        }
        Ok(())
    }

    /// What decides how the run is done.
    fn plan<'p>(&self, links: &'p Links, receivers: &'p [Receiver], hosts: &[Host]) -> Plan<'p> {
        let host_at = |(channel, _, _, to): (u32, &Link, End, End)| match to.node {
            NodeRef::Host(host) => Some((channel, host)),
            NodeRef::Switch(_) => None,
        };
        let data = self.least_data(hosts);
        // Without marks there are notifications only of what is acknowledged anyway; flows may be announced besides.
        let parts = &self.model.parts;
        let quiet = matches!(parts.marking, Marking::None)
            && matches!(parts.notification, Notification::Cnp)
            && !hosts.iter().any(Host::announces);
        Plan {
            links,
            receivers,
            drain: self.model.host.drain(),
            acknowledges: parts.notification != Notification::Cnp,
            hosts_from: hosts.iter().map(|host| (host.out, host.id)).collect(),
            hosts_at: self.directed().filter_map(host_at).collect(),
            lanes: self.model.lanes.count,
            full_space: self.model.full_space,
            control_space: self.model.sizes.space(self.model.sizes.control),
            have_adapters: hosts.iter().any(|host| host.adapter.is_some()),
            smallest: if quiet { data } else { data.min(self.model.sizes.control) }.max(1),
            credit_block: self.model.sizes.credit_block,
            crossbar: self.model.crossbar,
            least_notice: self.least_notice(),
        }
    }

    /// Bytes of the smallest data packet.
    fn least_data(&self, hosts: &[Host]) -> u32 {
        let sources = hosts.iter().flat_map(|host| &host.sources);
        let drawn = sources.filter(|source| !matches!(source.clock, Clock::Fed));
        let payloads = drawn.map(|source| self.least_payload(source));
        let least = payloads.chain(self.least_of_jobs()).min().unwrap_or(self.model.sizes.mtu);
        least + self.model.sizes.header
    }

    /// The least time from when a packet is sent to its host until it is delivered.
    fn least_delivery(&self, plan: &Plan, hosts: &[Host]) -> Time {
        let data = self.least_data(hosts).max(1);
        let channels = plan.hosts_at.keys();
        let spans = channels.map(|&channel| plan.links.span(channel, data) + plan.links.delay(channel));
        spans.min().unwrap_or(Time::NEVER)
    }

    /// Bytes of the smallest notification that switches send to the next node, if they send any.
    fn least_notice(&self) -> Option<u32> {
        let parts = &self.model.parts;
        let lines = match &parts.isolation {
            Isolation::None => None,
            Isolation::SpecialQueues(special) => Some(u32::try_from(special.message.0).unwrap_or(u32::MAX)),
        };
        let reports = (parts.notification == Notification::Backward).then_some(self.model.sizes.control);
        lines.into_iter().chain(reports).min()
    }

    /// The payload of a source's smallest packet, or less.
    fn least_payload(&self, source: &Source) -> u32 {
        let mtu = self.model.sizes.mtu;
        // The last packet of a message has what is left.
        let of = |message: u64| match (message / u64::from(mtu), (message % u64::from(mtu)) as u32) {
            (0, rest) => rest,
            (_, 0) => mtu,
            (_, rest) => rest,
        };
        let message = u64::from(source.message);
        let spread = source.varied.as_ref().map_or(0, |varied| varied.spread);
        if spread > 0 {
            return if message + u64::from(spread) <= u64::from(mtu) { source.message } else { 1 };
        }
        let last = if source.left == u64::MAX { 0 } else { source.left % message.max(1) };
        if last == 0 { of(message) } else { of(message).min(of(last)) }
    }
}
