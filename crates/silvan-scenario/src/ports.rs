//! Hosts with several ports in a scenario.

pub(crate) mod of_file;

use std::collections::HashMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_congestion::isolation::Isolation;
use silvan_engine::{Bytes, Rate, Time};
use silvan_fabric::config::{Assignment, RoutePer};
use silvan_fabric::queueing::HostQueues;
use silvan_network::topology::{Cabling, MAX_HOST_PORTS, Machine, Topology};
use silvan_network::traffic::{ArrivalPort, InnerLinks, JobPorts, Pattern, PortUse};
use silvan_trace::relay;
use silvan_trace::trace::{MAX_ITEMS, Trace};

use crate::error::Fault;
use crate::import::FilePorts;
use crate::spec::{Spec, TopologySource};
use crate::validate::ensure;

/// Hosts with several ports: how the ports are connected, and how the messages of jobs use them. A port is named after its host
/// ("H3.1" is the first port of H3). Flows, patterns, events and results refer to ports, jobs to hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ports {
    /// Number of ports of each host. Required, unless a file describes the network and its ports.
    #[schemars(range(min = 2, max = 64))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u16>,
    /// How the ports are connected to the network. Required, unless a file describes the network and its ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wiring: Option<Cabling>,
    /// How messages of jobs use the ports. Default: `stripe` for planes, otherwise `rank`. In files with GPUs: `rank` if each GPU
    /// has one port, otherwise `stripe`.
    #[serde(rename = "use", default, skip_serializing_if = "Option::is_none")]
    pub used: Option<PortUse>,
    /// The port at which messages of jobs arrive if each rank has a port. On planes, it must be `same`, which is the default
    /// there. Otherwise, the default is `own`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrival: Option<ArrivalPort>,
    /// Rate of the link of each rank to the other ranks of its host, in each direction, such as 3600 Gbit/s for `NVLink` of the
    /// fourth generation. A switch that is never a bottleneck connects these links. By default, messages within a host are
    /// copied (`job.memory_rate`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inner_rate: Option<Rate>,
    /// Time from sending the first byte of a message within a host to receiving it. Default: 0 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inner_latency: Option<Time>,
    /// How messages of jobs between ranks with different ports reach the receiver's port, if each rank has a port. Default:
    /// `network`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cross: Option<Crossing>,
    /// With `cross = "inner"`, the most bytes of a message that are passed on at once. Default: 512 KiB, an eighth of the buffer
    /// of a channel of NCCL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay_part: Option<Bytes>,
    /// Rate at which all ports of a host together inject data, such as that of a slot for an adapter with two ports. Ports that
    /// wait for it send one packet each in turn. By default, ports do not limit each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub injection_rate: Option<Rate>,
    /// Time from the failure of a port until the messages of jobs that are under way at it move to the other ports of their
    /// hosts. Messages that are posted later do not use the port. By default, messages under way wait until the port is back, and
    /// those that are posted after the failure do not use it. Requires `recovery`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failover: Option<Time>,
}

/// How messages between ranks with different ports reach the port of the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Crossing {
    /// Over the network, such as from one rail to another over a spine.
    #[default]
    Network,
    /// Over the inner links to the rank of the sender's host that uses the port with the number of the receiver's port. This rank
    /// passes them on (PXN of NCCL).
    Inner,
}

impl Ports {
    /// How messages of jobs use the ports.
    #[must_use]
    pub fn used(&self) -> PortUse {
        self.used.unwrap_or(match self.wiring {
            Some(Cabling::Planes) => PortUse::Stripe,
            _ => PortUse::Rank,
        })
    }

    /// Writes out the defaults, unless they depend on a file.
    pub(crate) fn resolve(&mut self) {
        if self.wiring.is_none() {
            return;
        }
        self.used = Some(self.used());
        if self.used() == PortUse::Rank {
            self.arrival = Some(self.arrival());
        }
    }

    /// The port at which messages arrive if each rank has a port.
    #[must_use]
    pub fn arrival(&self) -> ArrivalPort {
        self.arrival.unwrap_or(match self.wiring {
            Some(Cabling::Planes) => ArrivalPort::Same,
            _ => ArrivalPort::Own,
        })
    }
}

/// Checks the settings that do not depend on the network.
pub(crate) fn check(spec: &Spec) -> Result<(), Fault> {
    let Some(ports) = &spec.ports else { return Ok(()) };
    let is_file = matches!(spec.topology, TopologySource::File(_));
    for (key, is_given) in [("ports.count", ports.count.is_some()), ("ports.wiring", ports.wiring.is_some())]
    {
        ensure(is_given != is_file, key, || {
            match is_file {
            true => "has no effect: the file of the topology states the ports of hosts; leave it out".to_owned(),
            false => "missing, and needed: how many ports each host has (count), and how they are connected (wiring)"
                .to_owned(),
        }
        })?;
    }
    ensure(ports.count.is_none_or(|count| (2..=MAX_HOST_PORTS).contains(&count)), "ports.count", || {
        format!("must be 2 to {MAX_HOST_PORTS}; leave [ports] out for one port")
    })?;
    check_use(spec, ports)
}

/// Checks the injection limit that ports share.
fn injects(spec: &Spec, ports: &Ports) -> Result<(), Fault> {
    let Some(rate) = ports.injection_rate else { return Ok(()) };
    let key = "ports.injection_rate";
    ensure(rate.0 >= 1_000, key, || "must be at least 1 kbit/s".to_owned())?;
    let components = spec.congestion.components(&spec.packet);
    let others = [
        (
            spec.host.queues.is_some_and(|queues| queues != HostQueues::None),
            "host.queues, which packets enter at the injection rate of a port",
        ),
        (
            components.isolation != Isolation::None,
            "special queues, which hosts have, too (congestion.mechanism)",
        ),
        (spec.lanes.arbitration.is_some(), "lanes.arbitration"),
        (spec.host.injection_includes_control, "host.injection_includes_control"),
        (spec.external.is_some(), "a program that sends messages"),
    ];
    match others.into_iter().find(|(is_given, _)| *is_given) {
        Some((_, other)) => {
            Err(Fault::new(key, format!("cannot be combined with {other}; leave one of them out")))
        }
        None => Ok(()),
    }
}

/// Checks the use of ports. For the ports of a file, the default values depend on the file, so they are checked again once it
/// has been read.
pub(crate) fn check_use(spec: &Spec, ports: &Ports) -> Result<(), Fault> {
    let is_known = ports.wiring.is_some();
    let is_rank = ports.used() == PortUse::Rank;
    ensure(ports.arrival.is_none() || is_rank, "ports.arrival", || {
        "has no effect unless ports.use = \"rank\"; leave it out".to_owned()
    })?;
    let is_planes = ports.wiring == Some(Cabling::Planes);
    let leaves_plane = is_planes && ports.arrival == Some(ArrivalPort::Own);
    ensure(!leaves_plane, "ports.arrival", || {
        "must be \"same\" with ports.wiring = \"planes\", because planes are not connected".to_owned()
    })?;
    let has_effect = ports.inner_latency.is_none() || ports.inner_rate.is_some() || !is_known;
    ensure(has_effect, "ports.inner_latency", || {
        "has no effect without ports.inner_rate; set it, too".to_owned()
    })?;
    ensure(ports.inner_rate.is_none_or(|rate| rate.0 >= 1_000), "ports.inner_rate", || {
        "must be at least 1 kbit/s".to_owned()
    })?;
    ensure(ports.inner_latency.is_none_or(|time| time <= MOST_LATENCY), "ports.inner_latency", || {
        format!("must be at most {MOST_LATENCY}")
    })?;
    crossing(ports, is_known && !is_rank)?;
    if is_planes {
        on_planes(spec)?;
    }
    injects(spec, ports)?;
    if let Some(time) = ports.failover {
        fails_over(spec, time)?;
    }
    let is_free = spec.host.message_overhead == Time::ZERO || ports.used() != PortUse::Spray;
    ensure(is_free, "host.message_overhead", || {
        "cannot be combined with ports.use = \"spray\", with which ports take packets one by one; use \"stripe\"".to_owned()
    })?;
    for (index, job) in spec.job.iter().enumerate() {
        let at = |key: &str| format!("job.{index}.{key}");
        ensure(!job.algorithms.reduces_in_network(), &at("algorithms"), || {
            "\"in-network\" cannot be combined with [ports]: a reduction tree connects hosts with one port; choose another \
             algorithm"
                .to_owned()
        })?;
        let is_free = job.queue_pairs.is_none() || ports.used() != PortUse::Spray;
        ensure(is_free, &at("queue_pairs"), || {
            "cannot be combined with ports.use = \"spray\", with which ports take packets one by one; use \"stripe\"".to_owned()
        })?;
        ensure(job.memory_rate.is_none() || ports.inner_rate.is_none(), &at("memory_rate"), || {
            "has no effect, because ports.inner_rate determines the time of messages within a host; leave one of them out"
                .to_owned()
        })?;
    }
    for (index, traffic) in spec.traffic.iter().enumerate() {
        let stays = match &traffic.pattern {
            Pattern::Hotspots { .. } | Pattern::Listed(_) => true,
            _ => !is_planes,
        };
        ensure(stays, &format!("traffic.{index}.pattern.kind"), || {
            "would send from plane to plane, which are not connected; use \"hotspots\" with ports of one plane, a list of \
             transfers, or a [[job]]"
                .to_owned()
        })?;
    }
    Ok(())
}

/// Checks that no setting connects planes, or needs the structure of the whole network.
fn on_planes(spec: &Spec) -> Result<(), Fault> {
    let refused = |key: &str| Fault::new(key, "cannot be combined with ports.wiring = \"planes\"");
    if spec.external.is_some() {
        let what = "cannot be combined with ports.wiring = \"planes\": a program may send between any two ports, but planes are not \
                    connected; use one plane";
        return Err(Fault::new("external", what));
    }
    if spec.lanes.assignment == Assignment::Routing {
        return Err(refused("lanes.assignment"));
    }
    match &spec.adaptive_routing {
        Some(adaptive) if adaptive.is_per(RoutePer::Flow) => Err(refused("adaptive_routing.per")),
        _ => Ok(()),
    }
}

/// Checks that hosts know which packets have arrived when a port fails.
fn fails_over(spec: &Spec, time: Time) -> Result<(), Fault> {
    ensure(time <= MOST_LATENCY, "ports.failover", || format!("must be at most {MOST_LATENCY}"))?;
    let needs = "has no effect without [recovery] and an [[event]] of the kind \"down\" or \"stop\"; add them, or leave it out";
    let fails = spec.recovery.is_some() && spec.event.iter().any(|event| event.kind.takes_down());
    ensure(fails && !spec.job.is_empty(), "ports.failover", || match spec.job.is_empty() {
        true => "has no effect without a [[job]], whose messages use several ports; leave it out".to_owned(),
        false => needs.to_owned(),
    })?;
    let grants = spec.congestion.components(&spec.packet).notification.grants();
    ensure(!grants, "ports.failover", || {
        "cannot be combined with receivers that grant data, because grants for a failed port would be lost; use another \
         congestion.mechanism"
            .to_owned()
    })
}

/// Maximum latency of a link within a host.
const MOST_LATENCY: Time = Time(1_000_000_000_000);

/// Bytes that a rank passes on at once by default: one of the eight steps of NCCL's buffer of 4 MiB.
const RELAY_PART: u64 = 512 << 10;

/// Checks how messages reach the port of the receiver. `is_divided` is whether messages are known not to have the ports of their
/// ranks.
fn crossing(ports: &Ports, is_divided: bool) -> Result<(), Fault> {
    let is_inner = ports.cross == Some(Crossing::Inner);
    ensure(!(is_inner && is_divided), "ports.cross", || {
        "\"inner\" needs ports.use = \"rank\": otherwise, ranks have no ports of their own".to_owned()
    })?;
    ensure(!is_inner || ports.inner_rate.is_some() || ports.wiring.is_none(), "ports.cross", || {
        "\"inner\" needs links between the ranks of a host; set ports.inner_rate".to_owned()
    })?;
    let is_same = ports.wiring.is_some() && ports.arrival() == ArrivalPort::Same;
    ensure(!(is_inner && is_same), "ports.cross", || {
        "\"inner\" has no effect with ports.arrival = \"same\", with which messages stay on the sender's rail; set ports.arrival = \
         \"own\""
            .to_owned()
    })?;
    ensure(is_inner || ports.relay_part.is_none(), "ports.relay_part", || {
        "has no effect without ports.cross = \"inner\"; leave it out".to_owned()
    })?;
    ensure(ports.relay_part.is_none_or(|part| part.0 > 0), "ports.relay_part", || {
        "must be at least 1 B".to_owned()
    })
}

/// Lets ranks pass on messages of a job to ports of other numbers, with `ports.cross = "inner"`. `at` is the key of the job.
pub(crate) fn pass_on(spec: &Spec, at: &str, ports: &JobPorts, trace: Trace) -> Result<Trace, Fault> {
    let Some(given) = spec.ports.as_ref().filter(|given| given.cross == Some(Crossing::Inner)) else {
        return Ok(trace);
    };
    let part = given.relay_part.map_or(RELAY_PART, |part| part.0);
    let relay_of = relays(ports, trace.members());
    let made = relay::pass_on(&trace, relay_of, part, MAX_ITEMS);
    made.map_err(|error| {
        Fault::new(format!("{at}.program"), format!("cannot use ports.cross = \"inner\": {error}"))
    })
}

/// For two ranks of the first `members` ones on different hosts, the rank of the sender's host that passes a message on: that
/// with the receiver's port number. `None` if the sender has it, or no rank.
fn relays(ports: &JobPorts, members: u32) -> impl Fn(u32, u32) -> Option<u32> {
    let ranks = (0..members).zip(&ports.machine_of);
    let known: HashMap<(u32, usize), u32> =
        ranks.map(|(rank, &machine)| ((machine, ports.number_of_own(rank)), rank)).collect();
    move |from, to| {
        let [here, there] = [from, to].map(|rank| ports.machine_of[rank as usize]);
        let [own, other] = [from, to].map(|rank| ports.number_of_own(rank));
        if here == there || own == other { None } else { known.get(&(here, other)).copied() }
    }
}

/// The hosts with several ports of a scenario, and how messages of jobs use them, without a run.
#[derive(Debug, Clone)]
pub struct PortsOfJobs {
    spec: Spec,
    topology: Topology,
}

impl PortsOfJobs {
    /// With the ports of a file, if the network has hosts with several ports.
    pub(crate) fn new(spec: &Spec, topology: Topology, file: FilePorts) -> Result<Option<Self>, Fault> {
        let resolved = of_file::resolved(spec, &topology, file)?;
        let spec = resolved.unwrap_or_else(|| spec.clone());
        Ok((!topology.machines.is_empty() && spec.ports.is_some()).then_some(Self { spec, topology }))
    }

    /// The hosts.
    #[must_use]
    pub fn machines(&self) -> &[Machine] {
        &self.topology.machines
    }

    /// The pairs of ports over which messages go: sending port and receiving port. `machines` contains the host of each rank,
    /// and `messages` the ranks of the sender and the receiver. A message between ranks of one host has none.
    ///
    /// # Panics
    /// If a host or a rank does not exist.
    #[must_use]
    pub fn pairs(&self, machines: &[u32], messages: &[(u32, u32)]) -> Vec<(u32, u32)> {
        let Some(ports) = of_job(&self.spec, &self.topology, machines) else { return Vec::new() };
        let crosses = self.spec.ports.as_ref().is_some_and(|given| given.cross == Some(Crossing::Inner));
        let relay_of = relays(&ports, machines.len() as u32);
        let mut found = Vec::with_capacity(messages.len());
        for &(from, to) in messages {
            if ports.machine_of[from as usize] == ports.machine_of[to as usize] {
                continue;
            }
            let from = relay_of(from, to).filter(|_| crosses).unwrap_or(from);
            // A message with a packet for each port uses all that a long one uses.
            let bytes = ports.chunk * ports.ports(from).len() as u64;
            let pieces = ports.pieces((from, to), 0, bytes, |_| true);
            found.extend(pieces.into_iter().map(|piece| (piece.from, piece.to)));
        }
        found
    }
}

/// Gives the hosts of a network the ports that a scenario asks for.
pub(crate) fn with_ports(spec: &Spec, topology: Topology) -> Result<Topology, Fault> {
    let Some(ports) = &spec.ports else { return Ok(topology) };
    let (Some(count), Some(wiring)) = (ports.count, ports.wiring) else { return Ok(topology) };
    topology.with_ports(count, wiring).map_err(|error| Fault::new("ports.wiring", error.to_string()))
}

/// The ports of a job whose ranks run on machines. `machines` contains the machine of each rank, as an index into
/// [`Topology::machines`].
pub(crate) fn of_job(spec: &Spec, topology: &Topology, machines: &[u32]) -> Option<Arc<JobPorts>> {
    let ports = spec.ports.as_ref()?;
    let mut known: Vec<u32> = machines.to_vec();
    known.sort_unstable();
    known.dedup();
    let place = |machine: &u32| known.binary_search(machine).map_or(0, |at| at as u32);
    let machine_of: Vec<u32> = machines.iter().map(place).collect();
    let mut ranks = vec![0; known.len()];
    let number = machine_of.iter().map(|&machine| {
        let next: &mut u32 = &mut ranks[machine as usize];
        *next += 1;
        *next - 1
    });
    let number = number.collect();
    Some(Arc::new(JobPorts {
        machines: known.iter().map(|&machine| topology.machines[machine as usize].ports.clone()).collect(),
        machine_of,
        number,
        used: ports.used(),
        arrival: ports.arrival(),
        chunk: spec.packet.mtu.0,
        inner: ports
            .inner_rate
            .map(|rate| InnerLinks { rate, latency: ports.inner_latency.unwrap_or(Time::ZERO) }),
        crosses: spec.event.iter().any(|event| event.kind.takes_down()) && topology.parts().len() == 1,
        failover: ports.failover,
    }))
}
