//! Sets up applications: places the ranks of jobs on hosts, computes the durations of jobs without congestion, and creates
//! the sources of a program outside the model.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use silvan_engine::random::Stream;
use silvan_engine::{Rate, Time};
use silvan_network::topology::NodeRef;
use silvan_network::traffic::source::{Chooser, Clock, Source};
use silvan_network::traffic::{InnerLinks, Job, MOST_SHARING, Sends};
use silvan_trace::Kind;
use silvan_trace::execute::{
    Carrier, Copies, Crossbar, Execution, InnerLink, Inside, Interfaces, Interleaved, Machines, Parameters,
    Ranks,
};

use super::{Builder, WiredChannel};
use crate::error::{Reason, SetupError};
use crate::host::Host;
use crate::jobs::{ExternalSetup, Ideal, Place, PortChange, Setup};
use crate::meters::ClassMeter;

impl Builder<'_> {
    /// Creates the sources of the ranks of each job on their hosts, and the class of each job.
    pub(super) fn jobs(
        &self,
        hosts: &mut [Host],
        classes: &mut Vec<ClassMeter>,
        is_destination: &mut [bool],
    ) -> Result<Vec<Setup>, SetupError> {
        let jobs = self.model.config.jobs.iter().enumerate();
        jobs.map(|job| self.job(job, hosts, classes, is_destination)).collect()
    }

    fn job(
        &self,
        (at, job): (usize, &Job),
        hosts: &mut [Host],
        classes: &mut Vec<ClassMeter>,
        is_destination: &mut [bool],
    ) -> Result<Setup, SetupError> {
        let in_job = |what: String| Reason::Job { name: job.name.clone(), what }.at(format!("job.{at}"));
        let (ranks, count) = (job.trace.ranks() as usize, hosts.len());
        if job.hosts.len() != ranks || job.hosts.iter().any(|&host| host as usize >= count) {
            let places = job.hosts.len();
            return Err(in_job(format!("{ranks} ranks, {places} places on {count} hosts")));
        }
        let class = self.add_class(classes, &job.name)?;
        let ideal = self.ideal(job).map_err(&in_job)?;
        ideal.ways.keys().for_each(|&(_, to)| is_destination[to as usize] = true);
        let alone = alone(job, &ideal).map_err(&in_job)?;
        // Each pair of ranks has a separate flow, just as two processes use a queue pair. A host therefore
        // has one source for each combination of one of its ranks and a rank on another host.
        let machine_of = job.ports.as_ref().map_or(&job.hosts, |ports| &ports.machine_of);
        let mut ranks_at: FxHashMap<u32, u16> = FxHashMap::default();
        let slots: Vec<u16> = machine_of
            .iter()
            .map(|&host| {
                let count = ranks_at.entry(host).or_default();
                *count += 1;
                *count - 1
            })
            .collect();
        let most = ranks_at.values().copied().max().unwrap_or(1);
        if most > MOST_SHARING {
            return Err(in_job(format!("{most} ranks on a host; at most {MOST_SHARING} may share one")));
        }
        let flows = most * job.queue_pairs.count;
        let mut place = |host: u32, slot: u16| {
            let own = &mut hosts[host as usize].sources;
            let source = own.len() as u16;
            own.extend((0..flows).map(|_| self.fed_source(job.sl, class, host)));
            // The place in the partition is set after the network has been divided.
            Place { host, at: (0, host), source, slot }
        };
        let mut senders: Vec<Vec<Place>> = Vec::new();
        let places = match &job.ports {
            None => job.hosts.iter().zip(slots).map(|(&host, slot)| place(host, slot)).collect(),
            Some(ports) => {
                let of_rank = |(rank, slot): (u32, u16)| {
                    ports.ports(rank).iter().map(|&host| place(host, slot)).collect()
                };
                senders = (0..).zip(slots).map(of_rank).collect();
                let own = |(rank, places): (u32, &Vec<Place>)| {
                    let own = ports.own(rank);
                    places.iter().find(|place| place.host == own).copied().unwrap_or(places[0])
                };
                (0..).zip(&senders).map(own).collect()
            }
        };
        if hosts.iter().any(|host| host.sources.len() > usize::from(u16::MAX)) {
            let most = u16::MAX;
            return Err(in_job(format!("more than {most} flows of a host with those of earlier jobs")));
        }
        Ok(Setup {
            name: job.name.clone(),
            class,
            trace: Arc::clone(&job.trace),
            parameters: job.parameters,
            places,
            ports: job.ports.clone(),
            senders,
            queue_pairs: job.queue_pairs,
            sharing: most,
            machine_of: machine_of.clone(),
            units: job.units,
            least: ideal.least,
            ideal,
            alone,
            start: job.start,
            sends: job.sends,
            inside: inside(job),
        })
    }

    /// The times at which jobs stop using ports of hosts with several ports because their links are down, and use them again.
    pub(super) fn port_changes(&self, jobs: &[Setup]) -> Vec<PortChange> {
        let Some(ports) = jobs.iter().find_map(|job| job.ports.as_ref()) else { return Vec::new() };
        let wait = ports.failover.unwrap_or_default();
        let mut found = Vec::new();
        let mut down_since: FxHashMap<u32, Time> = FxHashMap::default();
        for change in &self.changes.links {
            let link = &self.topology.links[change.link];
            for node in [link.a.node, link.b.node] {
                let NodeRef::Host(port) = node else { continue };
                if !change.state.is_up {
                    down_since.entry(port).or_insert(change.time);
                } else if let Some(since) = down_since.remove(&port)
                    && since + wait < change.time
                {
                    found.push(PortChange { time: since + wait, port, is_failed: true });
                    found.push(PortChange { time: change.time, port, is_failed: false });
                }
            }
        }
        let down = down_since.into_iter();
        found.extend(down.map(|(port, since)| PortChange { time: since + wait, port, is_failed: true }));
        found.sort_unstable();
        found
    }

    /// Creates the class of a program outside the model, and a source for each service level at each host, which sends to any
    /// host.
    pub(super) fn external(
        &self,
        hosts: &mut [Host],
        classes: &mut Vec<ClassMeter>,
    ) -> Result<Option<ExternalSetup>, SetupError> {
        let Some(external) = &self.model.config.external else { return Ok(None) };
        let class = self.add_class(classes, &external.name)?;
        let levels = self.model.config.lanes.levels();
        let first = |(host, at): (u32, &mut Host)| {
            let first = at.sources.len() as u16;
            at.sources.extend((0..levels).map(|sl| self.fed_source(sl, class, host)));
            first
        };
        let end_hosts = self.topology.end_hosts() as usize;
        let sources = (0..).zip(&mut hosts[..end_hosts]).map(first).collect();
        Ok(Some(ExternalSetup { class, sources, levels, least: self.least_message() }))
    }

    fn fed_source(&self, sl: u8, class: u16, host: u32) -> Source {
        let seed = self.model.config.seed;
        Source {
            class,
            sl,
            vl: self.model.lanes.of(sl),
            chooser: Chooser::Fixed(host),
            clock: Clock::Fed,
            message: self.model.sizes.mtu,
            varied: None,
            next_at: Time::NEVER,
            stop: Time::NEVER,
            left: 0,
            destinations: Stream::new(seed, "destinations", 0),
            arrivals: Stream::new(seed, "arrivals", 0),
            backlog: 0,
            ready: 0,
        }
    }

    /// The payload that represents a message of zero bytes. With the header, the packet has the size of a
    /// control packet, unless the header alone is as large. The payload is then one byte.
    fn least_message(&self) -> u64 {
        u64::from(self.model.sizes.control.saturating_sub(self.model.sizes.header).max(1))
    }

    /// The payload of the smallest packet of any application, in bytes; `None` without applications.
    pub(super) fn least_of_jobs(&self) -> Option<u32> {
        let (mtu, least) = (u64::from(self.model.sizes.mtu), self.least_message());
        let last = |bytes: u64| match bytes.max(least) % mtu {
            0 => mtu,
            rest => rest,
        };
        let of = |job: &Job| {
            let sends = (0..job.trace.operations()).map(|at| job.trace.operation(at));
            sends.filter(|operation| operation.kind == Kind::Send).map(|send| last(send.size)).min()
        };
        // Requests and permissions are messages of zero bytes.
        let empty = last(0);
        let jobs =
            self.model.config.jobs.iter().map(|job| of(job).map_or(empty, |least| least.min(empty)) as u32);
        // The last packet of a message of a program may have any size.
        jobs.chain(self.model.config.external.is_some().then_some(1)).min()
    }

    /// The rate of each reduction unit's link, by the number of its node.
    fn unit_rates(&self) -> FxHashMap<u32, Rate> {
        let units = self.topology.end_hosts();
        let rate = |WiredChannel { link, from, .. }: WiredChannel| match from.node {
            NodeRef::Host(host) if host >= units => Some((host, link.rate)),
            _ => None,
        };
        self.directed().filter_map(rate).collect()
    }

    /// The data from which the durations of a job without congestion follow. They contain the routes, in both
    /// directions, between hosts whose ranks communicate.
    fn ideal(&self, job: &Job) -> Result<Ideal, String> {
        let pairs = job.pairs().flat_map(|(from, to)| [(from, to), (to, from)]);
        let mut pairs: Vec<(u32, u32)> = pairs.collect::<FxHashSet<_>>().into_iter().collect();
        // Sort by destination, because all routes to one destination share most of the computation.
        pairs.sort_unstable_by_key(|&(from, to)| (to, from));
        let mut ways = self.ways(job.sl)?;
        let ways = pairs.into_iter().map(|(from, to)| Ok(((from, to), ways.between(from, to)?)));
        Ok(Ideal {
            ways: ways.collect::<Result<_, String>>()?,
            hosts: job.hosts.clone(),
            ports: job.ports.clone(),
            units: self.unit_rates(),
            mtu: self.model.sizes.mtu.into(),
            header: self.model.sizes.header.into(),
            least: self.least_message(),
        })
    }
}

/// Runs a job on an ideal crossbar, on which hosts send messages in the same order as in the network. Fails
/// if the job cannot finish there, because it then cannot finish in any network.
fn alone(job: &Job, ideal: &Ideal) -> Result<Execution, String> {
    let hosts = job.hosts.clone();
    match job.sends {
        Sends::Interleaved => carried(job, Interleaved::new(hosts, |parcel| ideal.cost(parcel))),
        Sends::Sequential => carried(job, Crossbar::new(hosts, |parcel| ideal.cost(parcel))),
    }
}

/// How messages between ranks of one host are transported.
fn inside(job: &Job) -> Inside {
    let gap = |rate: Rate| Parameters::gap_of(rate);
    match job.ports.as_ref().and_then(|ports| ports.inner) {
        Some(InnerLinks { rate, latency }) => {
            Inside::Links(InnerLink { gap_per_byte_fs: gap(rate), latency: latency.0 })
        }
        None => Inside::Copies(Copies { gap_per_byte_fs: job.memory_rate.map_or(0, gap) }),
    }
}

fn carried(job: &Job, crossbar: impl Carrier) -> Result<Execution, String> {
    let machine_of = job.ports.as_ref().map_or(&job.hosts, |ports| &ports.machine_of);
    let links = &mut Interfaces::default();
    let mut crossbar = Machines { machine_of, inside: inside(job), links, outside: crossbar };
    let mut ranks = Ranks::new(Arc::clone(&job.trace), &job.parameters, job.start);
    ranks.advance(Time::NEVER, &mut crossbar).map_err(|error| error.to_string())?;
    let execution = ranks.close();
    if execution.complete() {
        return Ok(execution);
    }
    let first = execution.stuck.first().map_or_else(String::new, |stuck| format!("; {stuck}"));
    Err(format!("{} operations never finish, whatever the network{first}", execution.unfinished))
}
