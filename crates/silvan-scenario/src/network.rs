//! Checks a scenario against its network: the hosts that flows and patterns name, the routes between them,
//! and the amount of recorded data.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use silvan_engine::{Rate, Time};
use silvan_fabric::config::{Assignment, Config, RoutePer};
use silvan_fabric::{HostNames, SetupError, ShortCredit, check_links, short_credit};
use silvan_network::routing::lanes::{IDENTITY, LaneEntry};
use silvan_network::routing::port_groups::PortGroups;
use silvan_network::routing::{
    LaneMaps, Lanes, PathLevels, RoutingSpec, Spread, Tables, analyze, check_lanes, cycle_text,
    deadlock_cycle,
};
use silvan_network::topology::Topology;
use silvan_network::traffic::{Pattern, Traffic};

use crate::error::{Fault, no_such};
use crate::files;
use crate::rows;
use crate::spec::{RoutingSource, Spec};
use crate::validate::ensure;

/// Minimum rate of a link, which ensures that times fit the clock.
const SLOWEST_LINK: Rate = Rate(1_000);
/// Maximum propagation delay of a link.
const LONGEST_LINK: Time = Time(1_000_000_000_000);

/// Maps the names of hosts in a network to their numbers.
struct Names<'t> {
    topology: &'t Topology,
    names: HostNames<'t>,
}

impl<'t> Names<'t> {
    fn of(topology: &'t Topology) -> Self {
        Self { topology, names: HostNames::new(topology) }
    }

    /// Fails if no host has this name, and lists existing names.
    fn require(&self, name: &str, path: &str) -> Result<(), Fault> {
        let Err(SetupError { key, .. }) = self.names.find(name, path) else { return Ok(()) };
        if let Some(machine) = self.topology.machine_named(name) {
            let ports = machine.ports.iter().map(|&port| &self.topology.hosts[port as usize].name);
            let ports: Vec<&String> = ports.collect();
            let what = format!("{name} has {} ports: name one of them, such as {}", ports.len(), ports[0]);
            return Err(Fault::new(key, what));
        }
        let other = self.topology.switch_named(name).map(|_| "switch");
        let known: Vec<&str> = self.topology.hosts.iter().map(|host| host.name.as_str()).collect();
        Err(Fault::new(key, no_such(("host", "hosts"), name, other, &known)))
    }
}

/// Checks the parts of a scenario that depend on the network but not on its tables.
pub(crate) fn check(spec: &Spec, topology: &Topology) -> Result<(), Fault> {
    ensure(!topology.hosts.is_empty(), "topology", || "has no hosts".to_owned())?;
    topology.validate().map_err(|error| Fault::new("topology", error.to_string()))?;
    if let Some(link) = topology.links.iter().find(|l| l.rate < SLOWEST_LINK || l.delay > LONGEST_LINK) {
        let (a, b) = (topology.name_of(link.a.node), topology.name_of(link.b.node));
        let what = format!(
            "link {a} - {b} has {} and {}; must be at least {SLOWEST_LINK} and at most {LONGEST_LINK}",
            link.rate, link.delay
        );
        return Err(Fault::new("topology", what));
    }
    check_links(&spec.congestion.components(&spec.packet), topology)?;
    let names = Names::of(topology);
    for (index, flow) in spec.flow.iter().enumerate() {
        names.require(&flow.from, &format!("flow.{index}.from"))?;
        names.require(&flow.to, &format!("flow.{index}.to"))?;
    }
    for (index, traffic) in spec.traffic.iter().enumerate() {
        pattern(traffic, &names, &format!("traffic.{index}"))?;
    }
    for (index, setting) in spec.congestion.hosts.iter().enumerate() {
        distinct(&setting.at, &names, &format!("congestion.hosts.{index}.at"))?;
    }
    for (index, job) in spec.job.iter().enumerate() {
        let (hosts, path) = (job.hosts.as_deref().unwrap_or_default(), format!("job.{index}.hosts"));
        if topology.machines.is_empty() {
            distinct(hosts, &names, &path)?;
        } else {
            all_distinct(hosts, &path, |name, path| require_machine(topology, name, path))?;
        }
    }
    rows::check(spec, topology)
}

fn pattern(traffic: &Traffic, names: &Names<'_>, at: &str) -> Result<(), Fault> {
    let hosts = names.topology.hosts.len();
    ensure(hosts >= 2, at, || "needs a network of at least two hosts".to_owned())?;
    distinct(traffic.hosts.as_deref().unwrap_or_default(), names, &format!("{at}.hosts"))?;
    match &traffic.pattern {
        Pattern::Hotspots { to } => {
            let path = format!("{at}.pattern.to");
            ensure(!to.is_empty(), &path, || "must name at least one host".to_owned())?;
            distinct(to, names, &path)
        }
        Pattern::Shift { by } => {
            let fine = (1..hosts).contains(&(*by as usize));
            ensure(fine, &format!("{at}.pattern.by"), || {
                format!("must be 1 to {}, as there are {hosts} hosts", hosts - 1)
            })
        }
        Pattern::Forest(forest) => {
            ensure(forest.hotspots as usize <= hosts, &format!("{at}.pattern.hotspots"), || {
                format!("must be at most {hosts}, the number of hosts")
            })
        }
        Pattern::Incast(incast) => {
            let path = format!("{at}.pattern.to");
            if let Some(to) = &incast.to {
                ensure(!to.is_empty(), &path, || "must name at least one host".to_owned())?;
                distinct(to, names, &path)?;
            }
            // The receiver may be one of the hosts that send.
            let most = traffic.hosts.as_ref().map_or(hosts, Vec::len) - 1;
            let is_fine = (1..=most.max(1)).contains(&(incast.senders as usize)) && most > 0;
            ensure(is_fine, &format!("{at}.pattern.senders"), || {
                format!("must be 1 to {most}: {} hosts send, and one of them may be the receiver", most + 1)
            })
        }
        _ => Ok(()),
    }
}

fn distinct(list: &[String], names: &Names<'_>, path: &str) -> Result<(), Fault> {
    all_distinct(list, path, |name, path| names.require(name, path))
}

/// Checks that each name in a list fulfills a condition and is in the list once.
fn all_distinct(
    list: &[String],
    path: &str,
    require: impl Fn(&str, &str) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut seen = HashSet::new();
    for (index, name) in list.iter().enumerate() {
        let path = format!("{path}.{index}");
        require(name, &path)?;
        ensure(seen.insert(name), &path, || "is in the list twice".to_owned())?;
    }
    Ok(())
}

/// Fails if no host of a network whose hosts have several ports has this name.
fn require_machine(topology: &Topology, name: &str, path: &str) -> Result<(), Fault> {
    if topology.machine_named(name).is_some() {
        return Ok(());
    }
    ensure(topology.host_named(name).is_none(), path, || {
        format!("{name} is a port of a host; ranks run on hosts, so name the host")
    })?;
    let other = topology.switch_named(name).map(|_| "switch");
    let known: Vec<&str> = topology.machines.iter().map(|machine| machine.name.as_str()).collect();
    Err(Fault::new(path, no_such(("host", "hosts"), name, other, &known)))
}

/// A dependency cycle of channels in which packets can wait for each other; `None` if the routes have no
/// such cycle.
pub(crate) fn deadlock(topology: &Topology, tables: &Tables, config: &Config) -> Option<String> {
    if let Some(lanes) = &config.path_lanes {
        return check_lanes(topology, tables, lanes).cycle;
    }
    let has_choice = config.chosen_routes(RoutePer::Packet).is_some() || config.hashing().is_some();
    let cycle = if has_choice {
        PortGroups::new(topology, tables).deadlock_cycle(topology)
    } else {
        deadlock_cycle(topology, tables)
    };
    cycle.map(|cycle| cycle_text(&cycle))
}

/// Faults of a network that has not been set up: links that a virtual lane cannot use fully, and
/// [faults of routes](findings_of_routes).
pub(crate) fn findings(spec: &Spec, topology: &Topology, tables: &Tables, config: &Config) -> Vec<String> {
    // A network that cannot be set up is reported elsewhere.
    let short = short_credit(topology, tables, config).ok().flatten();
    findings_with(short.as_ref(), (spec, topology, tables, config))
}

/// Same as [`findings`], if it is known which links lack credit.
pub(crate) fn findings_with(
    short: Option<&ShortCredit>,
    (spec, topology, tables, config): (&Spec, &Topology, &Tables, &Config),
) -> Vec<String> {
    let mut findings: Vec<String> = short.map(short_of_credit).into_iter().collect();
    findings.extend(findings_of_routes(spec, topology, tables, config));
    findings
}

fn short_of_credit(short: &ShortCredit) -> String {
    let ShortCredit { link, links, rate, returns, credit, needed, share, .. } = short;
    let key = if short.is_to_host { "host.buffer" } else { "switch.buffer" };
    let others = match links - 1 {
        0 => String::new(),
        1 => "; another link lacks credit, too".to_owned(),
        others => format!("; {others} other links lack credit, too"),
    };
    format!(
        "{key} limits a virtual lane of {link} to {:.0} % of {} Gbit/s: credit returns {returns} after a packet begins, so the \
         lane needs {needed} B and has {credit} B{others}",
        100.0 * share,
        rate.as_gbit_f64()
    )
}

/// Faults of routes that depend on the wiring of a network, or that a subnet manager computed: unused links, and uneven
/// loads. Routes of regular networks are not checked, because their loads follow from the routing; nor are hashed or
/// adaptive routes, which use all shortest paths. The network has no reduction units.
fn findings_of_routes(spec: &Spec, topology: &Topology, tables: &Tables, config: &Config) -> Vec<String> {
    let is_free = match &spec.routing.source {
        RoutingSource::Table(_) => true,
        RoutingSource::Computed(routing) => {
            matches!(routing, RoutingSpec::UpDown(_) | RoutingSpec::ShortestPath(_))
        }
    };
    if !is_free || config.hashing().is_some() || config.adaptive_routing.is_some() {
        return Vec::new();
    }
    let analysis = analyze(topology, tables);
    if analysis.unroutable > 0 {
        return Vec::new();
    }
    Spread::of(topology, tables, &analysis).findings()
}

/// The lanes that the routing algorithm requires. Fails if it assigns none, or if the run has fewer lanes.
fn routing_lanes(spec: &Spec, topology: &Topology) -> Result<Lanes, Fault> {
    let lanes = match &spec.routing.source {
        RoutingSource::Computed(routing) => {
            routing.lanes(topology).map_err(|error| Fault::new("lanes.assignment", error.to_string()))?
        }
        RoutingSource::Table(_) => None,
    };
    let lanes = lanes.ok_or_else(|| {
        let what = "needs routing.kind \"dimension-order\", \"minimal\", \"valiant\" or \"ugal\": no other kind assigns lanes";
        Fault::new("lanes.assignment", what)
    })?;
    let (needed, count) = (lanes.count(), spec.lanes.count);
    ensure(count >= needed, "lanes.count", || {
        format!(
            "must be at least {needed}, the number of lanes that makes this routing deadlock-free on this network"
        )
    })?;
    Ok(lanes)
}

/// Reads or computes the lanes of paths if the scenario uses them. Checks that the run has these lanes, and
/// that switches discard no packets.
pub(crate) fn path_lanes(
    spec: &Spec,
    base: &Path,
    topology: &Topology,
    tables: &Tables,
) -> Result<Option<Arc<Lanes>>, Fault> {
    let of = &spec.lanes;
    match of.assignment {
        Assignment::Paths => {}
        Assignment::Routing => return Ok(Some(Arc::new(routing_lanes(spec, topology)?))),
        Assignment::ServiceLevel | Assignment::Destination | Assignment::Vftree => return Ok(None),
    }
    let at = |key: &'static str| move |what: String| Fault::new(key, what);
    let many = || "the network is too large for tables of lanes".to_owned();
    let levels = match &of.path_levels {
        Some(file) => files::path_levels(&base.join(file), topology).map_err(at("lanes.path_levels"))?,
        None => PathLevels::new(topology, 0).ok_or_else(many).map_err(at("lanes.path_levels"))?,
    };
    let maps = match &of.tables {
        Some(file) => files::lane_maps(&base.join(file), topology).map_err(at("lanes.tables"))?,
        None => LaneMaps::new(topology, IDENTITY).ok_or_else(many).map_err(at("lanes.tables"))?,
    };
    if let Some(LaneEntry { switch, input, output, level, lane }) =
        maps.beyond(topology, levels.used(), of.count)
    {
        let (name, count) = (&topology.switches[switch].name, of.count);
        let what = format!(
            "switch {name} sends packets of service level {level} from port {input} to {output} on lane {lane}, but \
             there are {count} lanes; must be at least {}",
            lane + 1
        );
        return Err(Fault::new("lanes.count", what));
    }
    let lanes = Lanes { levels, maps, detours: None };
    let discarded = check_lanes(topology, tables, &lanes).discarded;
    ensure(discarded == 0, "lanes.tables", || {
        format!(
            "switches discard the packets of {discarded} pairs of hosts, because their service level maps to lane 15"
        )
    })?;
    Ok(Some(Arc::new(lanes)))
}
