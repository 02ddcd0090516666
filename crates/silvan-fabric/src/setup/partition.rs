//! Selects the scheduler of a run and divides the network into partitions.

use std::sync::Arc;

use silvan_congestion::Notification;
use silvan_congestion::isolation::Isolation;
use silvan_congestion::marking::Marking;
use silvan_engine::{EventQueue, Time};
use silvan_network::port::Vl;
use silvan_network::topology::NodeRef;
use silvan_network::traffic::source::{Clock, SizeLaw, Source};

use super::{Builder, WiredChannel};
use crate::config::Scheduler;
use crate::context::{Ahead, Borders, Context};
use crate::error::{Reason, SetupError};
use crate::host::Host;
use crate::jobs;
use crate::jobs::Jobs;
use crate::link::{Frames, Links, Receiver};
use crate::lookahead::{Effects, Lookahead, Nodes, Partitioning};
use crate::meters::Meters;
use crate::not_binned::NotBinned;
use crate::outputs::{BinnedSwitch, Outputs, Plan};
use crate::partition::{Neighbors, Partition, Places};
use crate::shared_injection::SharedInjection;
use crate::sink::HostSink;
use crate::switch::Ports;
use crate::trigger::Triggers;

#[cfg(test)]
mod tests;

/// `Ok` if the binned scheduler runs the switches, or the reason why the event-ordered one does.
pub(crate) type Choice = Result<(), NotBinned>;

/// The network before it is divided.
pub(super) struct Whole {
    pub links: Links,
    pub meters: Meters,
    pub hosts: Vec<Host>,
    pub switches: Vec<Ports>,
    pub triggers: Triggers,
    pub jobs: Vec<jobs::Setup>,
    pub external: Option<jobs::ExternalSetup>,
}

/// The network after it is divided.
pub(super) struct DividedNetwork {
    pub partitions: Vec<Partition>,
    pub places: Places,
    pub neighbors: Neighbors,
    pub lookahead: Lookahead,
    pub choice: Choice,
}

/// The number of switch ports in a network from which prefetching is worthwhile. In measurements, prefetching
/// cost 10 % with 400 ports, and saved 5 % with 2,000 ports and 50 % with 20,000.
const MANY_PORTS: usize = 1_000;

/// The number of packets on all links together from which prefetching is worthwhile.
const MANY_PACKETS: u64 = 4_096;

/// The elements of each partition, in their order.
fn divide<T>(all: Vec<T>, places: &[(u16, u32)], count: usize) -> Vec<Vec<T>> {
    let mut divided: Vec<Vec<T>> = (0..count).map(|_| Vec::new()).collect();
    for (one, &(partition, _)) in all.into_iter().zip(places) {
        divided[usize::from(partition)].push(one);
    }
    divided
}

/// The partition of a node, and the node's place in it.
fn place_of(node: NodeRef, places: &Places) -> (u16, u32) {
    match node {
        NodeRef::Host(host) => places.hosts[host as usize],
        NodeRef::Switch(switch) => places.switches[switch as usize],
    }
}

impl Builder<'_> {
    /// Divides a network into at most as many partitions as there are threads.
    ///
    /// # Errors
    /// If the scenario selects the binned scheduler, which does not support its network, flow control,
    /// notification or traffic, or if a histogram cannot be created.
    pub(super) fn divide(
        &self,
        mut whole: Whole,
        receivers: &[Receiver],
        scheduler: Scheduler,
    ) -> Result<DividedNetwork, SetupError> {
        let Whole { links, hosts, switches, triggers, jobs, external, .. } = &mut whole;
        let effects = self.effects(links, receivers, hosts);
        let plan = self.plan(&effects, hosts);
        // The start of waiting traffic depends on the order of the deliveries at all hosts.
        let is_awaited = triggers.next < u64::MAX;
        let is_possible = if is_awaited {
            Err(NotBinned::AwaitedDeliveries)
        } else if external.is_some() {
            Err(NotBinned::Program)
        } else if self.model.config.skip {
            Err(NotBinned::Skips)
        } else if links.frames().is_some_and(Frames::may_drop) {
            Err(NotBinned::Drops)
        } else {
            plan.fits(switches)
        };
        let choice = match scheduler {
            Scheduler::EventOrdered => Err(NotBinned::Selected),
            Scheduler::Binned => {
                Ok(is_possible.map_err(|why| Reason::NotBinned(why).of("scheduler", "binned"))?)
            }
            Scheduler::BinnedIfPossible => is_possible,
            Scheduler::Auto => is_possible.and_then(|()| plan.is_worthwhile(switches)),
        };
        // A rank sends by several ports at the same time.
        let ports = jobs.iter().filter_map(|job| job.ports.as_ref());
        let mut together: Vec<Vec<u32>> = ports.flat_map(|ports| ports.machines.iter().cloned()).collect();
        together.extend(self.sharing_windows());
        if self.model.config.shared_injection.is_some() {
            together = self.topology.machines.iter().map(|machine| machine.ports.clone()).collect();
        }
        let nodes = Nodes { switches, hosts: hosts.len(), together: &together };
        // A program learns about messages at their time, and the sender of a message that moves to another port knows which
        // packets have arrived, so no partition may be ahead of another one.
        let moves = jobs.iter().any(jobs::Setup::moves_messages);
        let is_single = external.is_some() || moves || self.model.config.skip;
        let threads = if is_single { 1 } else { self.model.config.threads.max(1) };
        let (partitioning, mut lookahead) =
            Partitioning::of_threads(usize::from(threads), &effects, nodes, is_awaited);
        if moves {
            lookahead = Err("messages move from failed ports (ports.failover)");
        }
        let places = self.places(&partitioning, hosts, switches);
        let all_meet = is_awaited || !jobs.is_empty();
        let neighbors = Neighbors::new(partitioning.count, self.partitions_of_channels(&places), all_meet);
        let binned = if choice.is_ok() {
            Outputs::new(&plan, &partitioning, std::mem::take(switches))
        } else {
            Default::default()
        };
        let partitions = self.partitions(whole, &places, binned, partitioning.count)?;
        Ok(DividedNetwork { partitions, places, neighbors, lookahead, choice })
    }

    /// Assigns each node a partition and a place in it.
    fn places(&self, partitioning: &Partitioning, hosts: &mut [Host], switches: &mut [Ports]) -> Places {
        let mut next = vec![0; partitioning.count];
        let place = |&partition: &u16| {
            let next: &mut u32 = &mut next[usize::from(partition)];
            *next += 1;
            (partition, *next - 1)
        };
        let of_switch: Vec<(u16, u32)> = partitioning.of_switch.iter().map(place).collect();
        for (switch, &(partition, place)) in switches.iter_mut().zip(&of_switch) {
            (switch.partition, switch.place) = (partition, place);
        }
        for (host, &(_, place)) in hosts.iter_mut().zip(&partitioning.of_host) {
            host.place = place;
        }
        let of_host = partitioning.of_host.clone();
        let partition = |node: NodeRef| match node {
            NodeRef::Host(host) => of_host[host as usize].0,
            NodeRef::Switch(switch) => of_switch[switch as usize].0,
        };
        let senders = self.directed().map(|WiredChannel { from, .. }| partition(from.node)).collect();
        Places { senders, hosts: of_host, switches: of_switch }
    }

    /// The partitions of the sender and of the receiver of each channel.
    fn partitions_of_channels(&self, places: &Places) -> impl Iterator<Item = (u16, u16)> {
        self.directed()
            .map(|WiredChannel { from, to, .. }| (place_of(from.node, places).0, place_of(to.node, places).0))
    }

    fn partitions(
        &self,
        whole: Whole,
        places: &Places,
        (outputs, binned): (Vec<Outputs>, Vec<BinnedSwitch>),
        count: usize,
    ) -> Result<Vec<Partition>, SetupError> {
        let Whole { mut links, meters, mut hosts, switches, triggers, mut jobs, external } = whole;
        for WiredChannel { id: channel, from, to, .. } in self.directed() {
            links.renumber(channel, place_of(from.node, places).1, place_of(to.node, places).1);
        }
        for place in
            jobs.iter_mut().flat_map(|job| job.places.iter_mut().chain(job.senders.iter_mut().flatten()))
        {
            place.at = places.hosts[place.host as usize];
            // The job needs a record of how its hosts use their time.
            hosts[place.host as usize].record_hours();
        }
        let port_changes = self.port_changes(&jobs);
        let jobs: Vec<Arc<jobs::Setup>> = jobs.into_iter().map(Arc::new).collect();
        let external = external.map(Arc::new);
        let ports: usize = self.topology.switches.iter().map(|switch| usize::from(switch.ports)).sum();
        let is_binned = !outputs.is_empty();
        let ends: Arc<[(u16, u16)]> = self.partitions_of_channels(places).collect();
        let is_awaited = triggers.next < u64::MAX;
        let (spacing, reach) = (Time(self.event_spacing(is_binned).0 * count as u64), self.event_reach());
        let changing_sinks = self.changing_sinks();
        let is_large = ports > MANY_PORTS || self.packets_on_links() > MANY_PACKETS;
        let nodes =
            divide(hosts, &places.hosts, count).into_iter().zip(divide(switches, &places.switches, count));
        let mut binned = divide(binned, &places.switches, count).into_iter();
        let mut outputs = outputs.into_iter();
        let mut partitions = Vec::with_capacity(count);
        for (me, (hosts, switches)) in nodes.enumerate() {
            let mut meters = meters.fresh();
            // A single partition counts deliveries itself; several partitions determine together when the
            // deliveries occur.
            meters.is_awaited = is_awaited && count == 1;
            let borders = (count > 1 && (!is_binned || links.has_changes()))
                .then(|| Borders { me: me as u16, ends: Arc::clone(&ends) });
            let links = if me + 1 == count { std::mem::take(&mut links) } else { links.clone() };
            let queue = EventQueue::new(spacing, reach);
            let mut ctx = Context::new(links, meters, queue, (count, borders), is_binned);
            if self.model.config.records {
                ctx.expect_record();
            }
            ctx.sinks = vec![HostSink::new(self.model.host.drain()); hosts.len()].into();
            if let Some(rate) = self.model.config.shared_injection {
                let limit = SharedInjection::new(rate.pace(), self.model.sizes.mtu + self.model.sizes.header);
                ctx.shared_injection = vec![limit; self.topology.machines.len()].into();
            }
            for (&host, sink) in &changing_sinks {
                let (partition, place) = places.hosts[host as usize];
                if usize::from(partition) == me {
                    ctx.sinks[place as usize] = sink.clone();
                }
            }
            if is_awaited && count > 1 {
                let sinks = ctx.sinks.iter().cloned().zip(hosts.iter().map(Host::fresh_order));
                ctx.ahead = Some(Box::new(Ahead::new(sinks)));
            }
            let jobs = Jobs::new(&jobs, external.as_ref(), port_changes.clone(), me)
                .map_err(|_| super::wrong("the histogram of slowdowns cannot be created"))?;
            let triggers = triggers.of_partition(me as u16, |host| places.hosts[host as usize]);
            let binned = (outputs.next(), binned.next().unwrap_or_default());
            let switches = self.switches(switches);
            partitions.push(Partition::new(ctx, (hosts, switches), binned, jobs, triggers, is_large));
        }
        Ok(partitions)
    }

    /// The properties of the network that determine how soon nodes affect each other.
    fn effects<'p>(&self, links: &'p Links, receivers: &'p [Receiver], hosts: &[Host]) -> Effects<'p> {
        let host_at = |WiredChannel { id: channel, to, .. }: WiredChannel| match to.node {
            NodeRef::Host(host) => Some((channel, host)),
            NodeRef::Switch(_) => None,
        };
        let least_data = self.least_data(hosts);
        // Without marks, acknowledgements, requests, announcements and loss recovery, hosts send no control
        // packets.
        let parts = &self.model.parts;
        let quiet = matches!(parts.marking, Marking::None)
            && !parts.notification.answers_unmarked()
            && !parts.reactions().any(|reaction| reaction.properties().sends_requests)
            && !hosts.iter().any(Host::announces)
            && self.model.config.recovery.is_none();
        let sizes = &self.model.sizes;
        Effects {
            links,
            receivers,
            hosts_from: hosts.iter().map(|host| (host.out, host.id)).collect(),
            hosts_at: self.directed().filter_map(host_at).collect(),
            smallest: if quiet { least_data } else { least_data.min(self.least_control()) }.max(1),
            largest: (sizes.mtu + sizes.header).max(sizes.control),
            least_data,
            crossbar: self.model.crossbar,
            least_notice: self.least_notice(),
            trims: self.model.switch.trimming.is_some(),
        }
    }

    /// The properties of the network that determine which scheduler can run it.
    fn plan<'p>(&self, effects: &'p Effects<'p>, hosts: &[Host]) -> Plan<'p> {
        Plan {
            effects,
            drain: self.model.host.drain(),
            acknowledges: self.model.parts.notification.answers_unmarked()
                || self.model.config.recovery.is_some(),
            may_reorder: hosts.iter().any(Host::restores_order),
            lanes: self.model.lanes.count,
            first_lane: self.model.lanes.first.map(Vl),
            lane_tables: self.model.lanes.tables.clone(),
            full_space: self.model.full_space,
            control_space: self.model.sizes.space(self.model.sizes.control),
            queues: self.output_queues(),
            credit_block: self.model.sizes.credit_block,
            records: self.model.config.records,
        }
    }

    /// Bytes of the smallest control packet, or of the header of a trimmed packet if that is smaller.
    fn least_control(&self) -> u32 {
        let header = self.model.switch.trimming.map_or(u32::MAX, |rule| rule.size);
        self.model.sizes.control.min(header)
    }

    /// Bytes of the smallest data packet, including its header.
    fn least_data(&self, hosts: &[Host]) -> u32 {
        let sources = hosts.iter().flat_map(|host| &host.sources);
        let drawn = sources.filter(|source| !matches!(source.clock, Clock::Fed));
        let payloads = drawn.map(|source| self.least_payload(source));
        let least = payloads.chain(self.least_of_jobs()).min().unwrap_or(self.model.sizes.mtu);
        least + self.model.sizes.header
    }

    /// Bytes of the smallest notification or pause frame that a node sends to its neighbor; `None` if none is
    /// sent.
    fn least_notice(&self) -> Option<u32> {
        let parts = &self.model.parts;
        let lines = match &parts.isolation {
            Isolation::None => None,
            Isolation::SpecialQueues(special) => Some(u32::try_from(special.message.0).unwrap_or(u32::MAX)),
        };
        let reports = (parts.notification == Notification::Backward).then_some(self.model.sizes.control);
        let pauses = self.model.pauses.as_ref().map(|pauses| pauses.frame);
        lines.into_iter().chain(reports).chain(pauses).min()
    }

    /// A lower bound on the payload of packets from a source, in bytes.
    fn least_payload(&self, source: &Source) -> u32 {
        let mtu = self.model.sizes.mtu;
        // The last packet of a message contains the remaining payload.
        let of = |message: u64| match (message / u64::from(mtu), (message % u64::from(mtu)) as u32) {
            (0, rest) => rest,
            (_, 0) => mtu,
            (_, rest) => rest,
        };
        let message = u64::from(source.message);
        let spread = match source.varied.as_ref().map(|varied| (&varied.sizes, varied.listed.is_empty())) {
            Some((SizeLaw::Cdf(_), _) | (_, false)) => return 1,
            Some((SizeLaw::Spread(spread), true)) => *spread,
            None => 0,
        };
        if spread > 0 {
            return if message + u64::from(spread) <= u64::from(mtu) { source.message } else { 1 };
        }
        let last = if source.left == u64::MAX { 0 } else { source.left % message.max(1) };
        if last == 0 { of(message) } else { of(message).min(of(last)) }
    }
}
