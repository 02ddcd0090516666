//! Checks that a network meets the requirements of its configuration: the named hosts, routes between hosts
//! that exchange packets, and links in both directions.

use std::collections::BTreeSet;
use std::fmt;

use rustc_hash::FxHashMap;
use silvan_congestion::isolation::Isolation;
use silvan_congestion::marking::MarkingParameters;
use silvan_congestion::{Components, Notification};
use silvan_engine::Rate;
use silvan_network::routing::{self, Tables};
use silvan_network::topology::{Link, MAX_FCFS_PORTS, MAX_SWITCH_PORTS, NodeRef, Topology, Wiring};
use silvan_network::traffic::Pattern;

use crate::config::{Arbitration, Architecture, Config, QueueOfRate};
use crate::error::{Reason, SetupError};

/// Maps the names of a network's hosts to their numbers.
#[derive(Debug)]
pub struct HostNames<'t> {
    index: FxHashMap<&'t str, u32>,
}

impl<'t> HostNames<'t> {
    /// Indexes the hosts of a network. If several hosts have the same name, the name refers to the first one.
    #[must_use]
    pub fn new(topology: &'t Topology) -> Self {
        let names = topology.hosts.iter().enumerate().rev();
        Self { index: names.map(|(number, host)| (host.name.as_str(), number as u32)).collect() }
    }

    /// Returns the number of the host that the value of a key names.
    ///
    /// # Errors
    /// [`Reason::NoSuchHost`] at the key.
    pub fn find<K: fmt::Display>(&self, name: &str, key: K) -> Result<u32, SetupError> {
        let found = self.index.get(name).copied();
        found.ok_or_else(|| Reason::NoSuchHost(name.to_owned()).at(key.to_string()))
    }

    /// Returns the numbers of the hosts in a list that is the value of a key. Fails if a host does not exist.
    pub(super) fn find_all(&self, names: &[String], key: &str) -> Result<Vec<u32>, SetupError> {
        let find = |(at, name): (usize, &String)| self.find(name, format_args!("{key}.{at}"));
        names.iter().enumerate().map(find).collect()
    }
}

/// Checks that every link has a reverse direction if there are special queues, because they notify the sender
/// of a packet over the link on which the packet arrived.
///
/// # Errors
/// [`Reason::OneWayLinks`] at `congestion.isolation`.
pub fn check_links(parts: &Components, topology: &Topology) -> Result<(), SetupError> {
    match parts.isolation {
        Isolation::SpecialQueues(_) if topology.has_one_way_links() => {
            Err(Reason::OneWayLinks { topology: topology.name.clone() }.at("congestion.isolation"))
        }
        Isolation::SpecialQueues(_) | Isolation::None => Ok(()),
    }
}

/// Checks that no switch has more ports than its architecture supports.
pub(super) fn check_switches(config: &Config, topology: &Topology) -> Result<(), SetupError> {
    let is_fcfs = config.switch.architecture(config.congestion.mechanism) == Architecture::Voq
        && config.arbitration() == Arbitration::Fcfs;
    let most = if is_fcfs { MAX_FCFS_PORTS } else { MAX_SWITCH_PORTS };
    match topology.switches.iter().find(|switch| switch.ports > most) {
        Some(switch) => {
            let reason = Reason::TooManyPorts { switch: switch.name.clone(), ports: switch.ports };
            Err(reason.at("topology"))
        }
        None => Ok(()),
    }
}

/// Checks that the network has the switches and ports for which the marking rule has separate settings.
fn check_ports(parts: &Components, topology: &Topology) -> Result<(), SetupError> {
    let named = parts.marking.parameters().map(MarkingParameters::named_ports).unwrap_or_default();
    let ports_of =
        |switch: &str| topology.switch_named(switch).map(|at| topology.switches[at as usize].ports);
    for (key, name) in named {
        let is_port = name.rsplit_once(':').is_some_and(|(switch, number)| {
            let number = number.parse::<u16>();
            ports_of(switch).zip(number.ok()).is_some_and(|(ports, number)| (1..=ports).contains(&number))
        });
        if !is_port && ports_of(name).is_none() {
            return Err(Reason::NoSuchPort(name.to_owned()).at(format!("congestion.marking.{key}")));
        }
    }
    Ok(())
}

/// Checks that the marking rule has thresholds for all rates at which switches send.
fn check_rates(parts: &Components, topology: &Topology) -> Result<(), SetupError> {
    let Some(marking) = parts.marking.parameters() else { return Ok(()) };
    for link in topology.links.iter().filter(|link| !marking.has_thresholds(link.rate)) {
        let mut sending = link.channels().map(|(from, _)| from);
        if let Some(from) = sending.find(|from| matches!(from.node, NodeRef::Switch(_))) {
            let (rate, from) = (link.rate, topology.port_name(from));
            return Err(Reason::NoThresholds { rate, from }.at("congestion.marking.thresholds"));
        }
    }
    Ok(())
}

/// Checks that each rate with a separate queue limit is the rate of a link from a switch.
fn check_queues(config: &Config, topology: &Topology) -> Result<(), SetupError> {
    let of_rates = config.switch.trimming.iter().flat_map(|trimming| trimming.rates.iter());
    let is_of_switch =
        |link: &&Link| link.channels().any(|(from, _)| matches!(from.node, NodeRef::Switch(_)));
    for (index, QueueOfRate { rate, .. }) in of_rates.enumerate() {
        if !topology.links.iter().filter(is_of_switch).any(|link| link.rate == *rate) {
            let sorted: BTreeSet<Rate> =
                topology.links.iter().filter(is_of_switch).map(|link| link.rate).collect();
            let rates = sorted.iter().map(Rate::to_string).collect::<Vec<_>>().join(", ");
            return Err(Reason::UnusedRate { rates }.of(format!("switch.trimming.rates.{index}.rate"), rate));
        }
    }
    Ok(())
}

/// Checks that packets have routes: for each flow in both directions, to hotspots, between every pair of
/// hosts if there are patterns, and for notifications from switches to sources. Also checks the number of
/// ports of switches, and that the switches, ports and rates with separate settings exist.
///
/// Returns whether the tables are known to be deadlock-free on a single lane; `false` means that this was not
/// determined.
///
/// # Errors
/// [`Reason::TooManyPorts`] at `topology`, [`Reason::NoSuchHost`] and [`Reason::NoRoute`] at the key that
/// names the host, [`Reason::Unroutable`] at `routing.kind`, [`Reason::NoWayBack`] at
/// `congestion.notification`, [`Reason::NoSuchPort`] at the key of the port, [`Reason::NoThresholds`] at
/// `congestion.marking.thresholds`, [`Reason::UnusedRate`] at the key of the rate.
pub fn check_routes(config: &Config, topology: &Topology, tables: &Tables) -> Result<bool, SetupError> {
    check_switches(config, topology)?;
    let parts = config.components();
    check_ports(&parts, topology)?;
    check_rates(&parts, topology)?;
    check_queues(config, topology)?;
    let (names, wiring) = (HostNames::new(topology), topology.wiring());
    let route = |from: u32, to: u32, key: &str| {
        let found = routing::trace_lids(topology, &wiring, tables, from, to);
        found.map(drop).map_err(|error| Reason::NoRoute(error).at(key))
    };
    for (at, flow) in config.flows.iter().enumerate() {
        let key = format!("flow.{at}.to");
        let (from, to) =
            (names.find(&flow.from, format_args!("flow.{at}.from"))?, names.find(&flow.to, &key)?);
        route(from, to, &key)?;
        route(to, from, &key)?;
    }
    for (at, traffic) in config.traffic.iter().enumerate() {
        let Pattern::Hotspots { to } = &traffic.pattern else { continue };
        let key = format!("traffic.{at}.pattern.to");
        let senders = match &traffic.hosts {
            Some(hosts) => names.find_all(hosts, &format!("traffic.{at}.hosts"))?,
            None => (0..topology.end_hosts()).collect(),
        };
        let hotspots = names.find_all(to, &key)?;
        for (&from, &to) in senders.iter().zip(hotspots.iter().cycle()).filter(|(from, to)| from != to) {
            route(from, to, &key)?;
        }
    }
    let sound = !config.traffic.is_empty() && routing::is_sound(topology, tables);
    if !config.traffic.is_empty() && !sound {
        let analysis = routing::analyze(topology, tables);
        if analysis.unroutable > 0 {
            let first = analysis.problems.first().cloned().unwrap_or_default();
            return Err(Reason::Unroutable { pairs: analysis.unroutable, first }.at("routing.kind"));
        }
    }
    if config.components().notification == Notification::Backward {
        check_ways_back(topology, tables)?;
    }
    Ok(sound)
}

/// Checks that the tables lead from every switch to all hosts whose packets pass it, because it may send reports to
/// these hosts.
fn check_ways_back(topology: &Topology, tables: &Tables) -> Result<(), SetupError> {
    let wiring = topology.wiring();
    let hosts = topology.hosts.len() as u32;
    for host in 0..hosts {
        let leads = switches_that_lead_to(host, (topology, &wiring), tables);
        if leads.iter().all(|&leads| leads) {
            continue;
        }
        let paths = (0..hosts).filter_map(|to| routing::trace(topology, &wiring, tables, host, to).ok());
        let mut passed = paths.flat_map(|path| path.channels).filter_map(|channel| match channel.to.node {
            NodeRef::Switch(switch) => Some(switch as usize),
            NodeRef::Host(_) => None,
        });
        if let Some(switch) = passed.find(|&switch| !leads[switch]) {
            let (switch, host) =
                (topology.switches[switch].name.clone(), topology.hosts[host as usize].name.clone());
            return Err(Reason::NoWayBack { switch, host }.at("congestion.notification"));
        }
    }
    Ok(())
}

/// For each switch, whether the tables lead from it to a host.
fn switches_that_lead_to(host: u32, (topology, wiring): (&Topology, &Wiring), tables: &Tables) -> Vec<bool> {
    let mut known: Vec<Option<bool>> = vec![None; topology.switches.len()];
    for first in 0..known.len() {
        let (mut passed, mut at) = (Vec::new(), first);
        let leads = loop {
            if let Some(leads) = known[at] {
                break leads;
            }
            // If the tables lead back to this switch, they do not lead to the host.
            known[at] = Some(false);
            passed.push(at);
            let port = usize::from(tables.port(at, host as usize));
            let next = wiring.switches[at].get(port.wrapping_sub(1)).copied().flatten();
            match next.map(|(end, _)| end.node) {
                Some(NodeRef::Switch(switch)) => at = switch as usize,
                Some(NodeRef::Host(found)) => break found == host,
                None => break false,
            }
        };
        passed.into_iter().for_each(|switch| known[switch] = Some(leads));
    }
    known.into_iter().map(|leads| leads == Some(true)).collect()
}
