//! In-network reduction: the reduction units of switches, and the trees of units that jobs use.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::{Bytes, Rate, Time};
use silvan_fabric::config::Assignment;
use silvan_network::topology::{MAX_LINK_DELAY, Topology, TopologyError, UnitTree};
use silvan_network::traffic::{Job, MOST_SHARING};
use silvan_trace::Trace;
use silvan_trace::reduction::{Chunks, Tree, spread};
use silvan_trace::trace::MAX_ITEMS;

use crate::error::{Fault, no_such};
use crate::jobs::JobSpec;
use crate::spec::Spec;
use crate::validate::ensure;

/// Reduction units of switches. A unit combines the chunks of its children in a tree of switches, and sends the result
/// to its parent; the root sends the result back. A unit is connected with a port of its switch and sends and receives
/// as a host does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Reduction {
    /// Time from the arrival of a chunk from the last child until the unit sends the combined chunk, in whole
    /// nanoseconds. The time of the switch (`switch.latency`) is added on the way to the unit and on the way
    /// from it.
    pub combining: Time,
    /// Data rate of the link between a unit and its switch, in each direction. Default: the total rate of the switch's
    /// links, so that a unit can receive from all of them at the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_rate: Option<Rate>,
    /// Propagation delay of the link between a unit and its switch, more than 0 s and at most 1 s.
    pub link_delay: Time,
}

impl Default for Reduction {
    fn default() -> Self {
        Self { combining: Time::from_ns(200), link_rate: None, link_delay: Time::from_ns(1) }
    }
}

/// How a job uses reduction units.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct JobReduction {
    /// The switch of the root unit. By default, it is a switch with the least distance to the farthest host of the
    /// group of ranks; if there are several, the first host of the group determines which.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// Bytes of a chunk. Default: `packet.mtu`, so that each chunk is one packet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk: Option<Bytes>,
    /// Number of chunks for which a rank waits at the same time. It limits the memory that a unit needs.
    #[schemars(range(min = 1))]
    pub outstanding: u32,
}

impl Default for JobReduction {
    fn default() -> Self {
        Self { root: None, chunk: None, outstanding: 64 }
    }
}

/// Checks the settings of the units.
pub(crate) fn check(spec: &Spec) -> Result<(), Fault> {
    let is_used = spec.job.iter().any(|job| job.algorithms.reduces_in_network());
    let Some(reduction) = &spec.reduction else { return Ok(()) };
    ensure(is_used, "reduction", || {
        "has no effect: no job has the algorithm \"in-network\"; set algorithms.all_reduce = \"in-network\" in a [[job]]"
            .to_owned()
    })?;
    ensure(
        reduction.combining.0 % 1_000 == 0 && reduction.combining <= MAX_LINK_DELAY,
        "reduction.combining",
        || "must be whole nanoseconds, at most 1 s".to_owned(),
    )?;
    let fine = reduction.link_delay > Time::ZERO && reduction.link_delay <= MAX_LINK_DELAY;
    ensure(fine, "reduction.link_delay", || "must be more than 0 s and at most 1 s".to_owned())?;
    ensure(reduction.link_rate.is_none_or(|rate| rate.0 >= 1_000), "reduction.link_rate", || {
        "must be at least 1 kbit/s".to_owned()
    })
}

/// Checks the settings of a job, and that no other setting excludes its reduction units.
pub(crate) fn check_job(spec: &Spec, job: &JobSpec, at: &str) -> Result<(), Fault> {
    if !job.algorithms.reduces_in_network() {
        return ensure(job.reduction.is_none(), &format!("{at}.reduction"), || {
            "has no effect: no operation of the job has the algorithm \"in-network\"; set algorithms.all_reduce or \
             algorithms.barrier"
                .to_owned()
        });
    }
    let of_chunks = job.reduction.clone().unwrap_or_default();
    let chunk = of_chunks.chunk.unwrap_or(Bytes(1));
    ensure((1..=1 << 30).contains(&chunk.0), &format!("{at}.reduction.chunk"), || {
        "must be 1 B to 1 GiB".to_owned()
    })?;
    ensure(of_chunks.outstanding > 0, &format!("{at}.reduction.outstanding"), || {
        "must be 1 or more".to_owned()
    })?;
    let by_adapters = |key: &str| {
        (
            format!("{at}.{key}"),
            "cannot be combined with the algorithm \"in-network\": adapters divide vectors into chunks, which cost no CPU time; leave it out",
        )
    };
    let plain = "cannot be combined with the algorithm \"in-network\" of a job: units send and receive at the rate of \
                 their links; leave it out";
    let routes = "cannot be combined with the algorithm \"in-network\" of a job, whose units are reached through the \
                  forwarding tables; leave it out";
    let host = &spec.host;
    for (given, (key, what)) in [
        (job.overhead > Time::ZERO, by_adapters("overhead")),
        (job.copy_rate.is_some(), by_adapters("copy_rate")),
        (job.rendezvous_above.is_some(), by_adapters("rendezvous_above")),
        (host.injection_rate.is_some(), ("host.injection_rate".to_owned(), plain)),
        (host.drain_rate.is_some(), ("host.drain_rate".to_owned(), plain)),
        (host.message_overhead > Time::ZERO, ("host.message_overhead".to_owned(), plain)),
        (
            spec.adaptive_routing.as_ref().is_some_and(|adaptive| adaptive.enabled),
            ("adaptive_routing".to_owned(), routes),
        ),
        (spec.ecmp.as_ref().is_some_and(|ecmp| ecmp.enabled), ("ecmp".to_owned(), routes)),
        (
            !matches!(spec.lanes.assignment, Assignment::ServiceLevel | Assignment::Destination),
            ("lanes.assignment".to_owned(), routes),
        ),
    ] {
        ensure(!given, &key, || what.to_owned())?;
    }
    Ok(())
}

/// The trees of aggregation units.
#[derive(Debug, Default)]
pub(crate) struct Units {
    /// For each job, the trees of its reducers.
    jobs: Vec<Vec<UnitTree>>,
}

impl Units {
    /// Whether no job uses units.
    pub fn is_empty(&self) -> bool {
        self.jobs.iter().all(Vec::is_empty)
    }

    /// Adds the trees of a job. `hosts` contains the host of each rank. Fails if the root does not exist, the
    /// hosts are not connected in both directions, or too many groups of ranks share a unit.
    pub fn add(
        &mut self,
        (job, at): (&JobSpec, &str),
        topology: &Topology,
        (trace, hosts): (&Trace, &[u32]),
    ) -> Result<(), Fault> {
        let name = job.reduction.as_ref().and_then(|reduction| reduction.root.as_ref());
        let key = format!("{at}.reduction.root");
        let root = match name {
            None => None,
            Some(name) => Some(topology.switch_named(name).ok_or_else(|| no_switch(topology, name, &key))?),
        };
        let mut trees = Vec::with_capacity(trace.reducers.len());
        for reducer in &trace.reducers {
            let members: Vec<u32> = reducer.members.iter().map(|&rank| hosts[rank as usize]).collect();
            let tree = topology.unit_tree(&members, root, spread_over(members[0]));
            trees.push(tree.map_err(|error| Fault::new(format!("{at}.algorithms"), error.to_string()))?);
        }
        let mut groups: HashMap<u32, u16> = HashMap::new();
        for &switch in trees.iter().flat_map(|tree| &tree.switches) {
            let count = groups.entry(switch).or_default();
            *count += 1;
            ensure(*count <= MOST_SHARING, &format!("{at}.algorithms"), || {
                let name = &topology.switches[switch as usize].name;
                format!(
                    "more than {MOST_SHARING} groups of ranks would use the reduction unit of switch {name}; divide the \
                     job, or give fewer groups \"in-network\""
                )
            })?;
        }
        self.jobs.push(trees);
        Ok(())
    }

    /// Adds the units to the network, and replaces the reducers of each job with its units. Fails if the
    /// resulting network is invalid or a trace becomes too large.
    pub fn install(self, spec: &Spec, topology: &mut Topology, jobs: &mut [Job]) -> Result<(), Fault> {
        let reduction = spec.reduction.unwrap_or_default();
        let switches: BTreeSet<u32> =
            self.jobs.iter().flatten().flat_map(|tree| tree.switches.iter().copied()).collect();
        let wrong = |error: TopologyError| Fault::new("reduction", error.to_string());
        let unit_of =
            topology.add_units(&switches, reduction.link_rate, reduction.link_delay).map_err(wrong)?;
        topology.validate().map_err(wrong)?;
        for (index, (job, trees)) in jobs.iter_mut().zip(self.jobs).enumerate() {
            if trees.is_empty() {
                continue;
            }
            let of_job = spec.job[index].reduction.clone().unwrap_or_default();
            let chunks = Chunks {
                bytes: of_job.chunk.map_or(spec.packet.mtu.0, |chunk| chunk.0),
                outstanding: of_job.outstanding,
                combining_ns: reduction.combining.0 / 1_000,
            };
            for tree in &trees {
                job.hosts.extend(tree.switches.iter().map(|switch| unit_of[switch]));
                job.units += tree.switches.len() as u32;
            }
            let trees: Vec<Tree> = trees
                .into_iter()
                .map(|UnitTree { parents, homes, .. }| Tree { parents, unit_of: homes })
                .collect();
            let trace = spread(&job.trace, &trees, &chunks, MAX_ITEMS);
            let key = format!("job.{index}.reduction.chunk");
            job.trace = Arc::new(trace.map_err(|error| Fault::new(key, error.to_string()))?);
        }
        Ok(())
    }
}

/// A number that distributes the roots of groups over equivalent switches. It depends on the first host of a
/// group only, so a job uses the same roots alone and together with other jobs.
fn spread_over(host: u32) -> usize {
    // The upper half of the product with the golden ratio distributes neighboring values widely.
    (u64::from(host).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

fn no_switch(topology: &Topology, name: &str, key: &str) -> Fault {
    let other = topology.host_named(name).map(|_| "host");
    let known: Vec<&str> = topology.switches.iter().map(|switch| switch.name.as_str()).collect();
    Fault::new(key, no_such(("switch", "switches"), name, other, &known))
}
