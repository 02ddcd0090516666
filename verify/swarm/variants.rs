//! Variants of a scenario: changes that must not affect the results, or that make all traffic end.

use std::collections::BTreeSet;

use silvan_congestion::isolation::Isolation;
use silvan_engine::{Rate, Time};
use silvan_fabric::config::{Assignment, FlowControl, Pfc};
use silvan_fabric::faults::{Event, EventKind};
use silvan_fabric::pause_memory;
use silvan_network::topology::{Link, NodeRef, Topology};
use silvan_network::traffic::Pattern;
use silvan_scenario::Scenario;
use silvan_scenario::ports::Ports;
use silvan_scenario::spec::{Spec, TopologySource};
use toml::{Table, Value};

use crate::case::read;
use crate::draw::jobs::{Around, combine_in_hosts, host_ports, jobs, port_failures, reduction};
use crate::draw::{ecmp, events, rdma, sources, trimming};

/// Duration in seconds that is long enough for all traffic of a random scenario. An idle network has almost
/// no events, so such a run is fast.
pub const LONG_S: u64 = 3_000;

fn entry<'t>(table: &'t mut Table, key: &str) -> Option<&'t mut Table> {
    table.entry(key).or_insert_with(|| Value::Table(Table::new())).as_table_mut()
}

fn time(ps: u64) -> Value {
    Value::from(format!("{ps} ps"))
}

/// The same scenario with another sampling interval and other tables.
pub fn measured(table: &Table, scenario: &Scenario) -> Table {
    let mut other = table.clone();
    let spec = &scenario.spec;
    if let Some(measure) = entry(&mut other, "measure") {
        let fewer = spec.measure.interval.0 > spec.duration.0 / 5;
        let interval = if fewer { spec.duration.0 / 13 } else { spec.duration.0 / 2 + 1 };
        measure.insert("interval".to_owned(), time(interval.max(1)));
        let recorded = &spec.measure;
        for (key, on) in [
            ("links", recorded.links),
            ("hosts", recorded.hosts),
            ("classes", recorded.classes),
            ("forest", recorded.forest),
        ] {
            measure.insert(key.to_owned(), Value::from(!on));
        }
    }
    other
}

/// The same scenario with the default rates of hosts written out; `None` if both rates are given.
pub fn with_defaults(table: &Table, scenario: &Scenario) -> Option<Table> {
    let host = &scenario.spec.host;
    let (topology, _, _) = scenario.build().ok()?;
    let of_host = |link: &&Link| [link.a, link.b].iter().any(|end| matches!(end.node, NodeRef::Host(_)));
    let fastest = topology.links.iter().filter(of_host).map(|link| link.rate.0).max()?;
    let mut other = table.clone();
    let written = entry(&mut other, "host")?;
    let given = [("drain_rate", host.drain_rate), ("injection_rate", host.injection_rate)];
    let missing = given.into_iter().filter(|(_, given)| given.is_none());
    for (key, _) in missing {
        written.insert(key.to_owned(), Value::from(format!("{fastest} bit/s")));
    }
    given.iter().any(|(_, given)| given.is_none()).then_some(other)
}

/// The same scenario with an earlier end: after whole sampling intervals if there are several.
pub fn shortened(table: &Table, scenario: &Scenario) -> Option<Table> {
    let spec = &scenario.spec;
    let intervals = spec.duration.0 / spec.measure.interval.0;
    if intervals < 2 {
        return None;
    }
    let end = (intervals * 3 / 5).max(1) * spec.measure.interval.0;
    let mut other = table.clone();
    other.insert("duration".to_owned(), time(end));
    if spec.warmup.0 >= end {
        return None;
    }
    Some(other)
}

/// The same scenario with flows, and patterns where permitted, in another order.
///
/// Flows are identified by name. A host serves its patterns in the order of the file, and their random
/// streams depend on their number, so patterns of one sender keep their order. Permutations and forests
/// depend on the number of the pattern; patterns without a list of hosts use all hosts.
pub fn reordered(table: &Table, scenario: &Scenario) -> Option<Table> {
    let mut other = table.clone();
    let mut changed = false;
    if let Some(Value::Array(flows)) = other.get_mut("flow") {
        changed |= flows.len() > 1;
        flows.reverse();
    }
    let patterns = &scenario.spec.traffic;
    let mut seen = std::collections::BTreeSet::new();
    let free = patterns.iter().all(|traffic| {
        let plain = !matches!(traffic.pattern, Pattern::Permutation | Pattern::Forest(_));
        let named = traffic.name.is_some();
        let own = traffic.hosts.as_ref().is_some_and(|hosts| hosts.iter().all(|host| seen.insert(host)));
        plain && named && own
    });
    if free
        && patterns.len() > 1
        && let Some(Value::Array(patterns)) = other.get_mut("traffic")
    {
        patterns.reverse();
        changed = true;
    }
    changed.then_some(other)
}

/// A scenario for the binned scheduler (unless its links differ in rate): VOQ switches, credits, one or two
/// virtual lanes, no triggers, and one of the supported congestion mechanisms.
pub fn plain(table: &Table, scenario: &Scenario) -> Table {
    let mut other = table.clone();
    for key in ["flow_control", "link", "adaptive_routing", "lanes", "congestion"] {
        other.remove(key);
    }
    // Without the lanes that it requires, the routing could deadlock or be rejected.
    if scenario.spec.lanes.assignment == Assignment::Routing {
        let up_down = Table::from_iter([("kind".to_owned(), Value::from("up-down"))]);
        other.insert("routing".to_owned(), Value::Table(up_down));
    }
    let seed = scenario.spec.seed;
    if seed.is_multiple_of(2)
        && let Some(lanes) = entry(&mut other, "lanes")
    {
        lanes.insert("count".to_owned(), Value::from(2));
        if seed.is_multiple_of(4) {
            lanes.insert("control".to_owned(), Value::from(1));
            if seed.is_multiple_of(8) {
                lanes.insert("control_priority".to_owned(), Value::from(true));
            }
        }
    }
    if let Some(switch) = entry(&mut other, "switch") {
        switch.retain(|key, _| matches!(key, "buffer" | "latency" | "forwarding"));
    }
    for key in ["flow", "traffic"] {
        let entries = other.get_mut(key).and_then(Value::as_array_mut);
        for entry in entries.into_iter().flatten().filter_map(Value::as_table_mut) {
            entry.remove("start_after_packets");
        }
    }
    // Thresholds that a few packets exceed, so that many packets are marked.
    let fills = ["sum", "sum-per-input"];
    if !seed.is_multiple_of(3)
        && let Some(congestion) = entry(&mut other, "congestion")
        && let Some(marking) = entry(congestion, "marking")
    {
        marking.insert("kind".to_owned(), Value::from("fecn"));
        marking.insert("threshold".to_owned(), Value::from(15));
        marking.insert("fill".to_owned(), Value::from(fills[(seed / 3 % 2) as usize]));
        if seed.is_multiple_of(5)
            && let Some(coalescing) = entry(congestion, "coalescing")
        {
            coalescing.insert("interval".to_owned(), time(1 + seed % 7 * 400_000));
            coalescing.insert("per".to_owned(), Value::from(["flow", "port"][(seed / 5 % 2) as usize]));
        }
        if let Some(reaction) = entry(congestion, "reaction") {
            reaction.insert("kind".to_owned(), Value::from("cct"));
            if seed.is_multiple_of(4) {
                reaction.insert("timer".to_owned(), Value::from("notification"));
            }
        }
    }
    other
}

/// What the jobs of a scenario need to know.
fn around<'n>(spec: &Spec, hosts: impl Iterator<Item = &'n String>, topology: &Topology) -> Around {
    Around {
        hosts: hosts.cloned().collect(),
        switches: topology.switches.iter().map(|switch| switch.name.clone()).collect(),
        duration: spec.duration.0,
        mtu: spec.packet.mtu.0,
        levels: spec.lanes.sl_to_vl.as_ref().map_or(16, Vec::len) as u64,
    }
}

/// The same scenario with jobs, which may or may not finish before the end.
pub fn with_jobs(table: &Table, scenario: &Scenario) -> Option<Table> {
    let (topology, _, _) = scenario.build().ok()?;
    let spec = &scenario.spec;
    let around = around(spec, topology.hosts.iter().map(|host| &host.name), &topology);
    let mut other = table.clone();
    let mut jobs = jobs(spec.seed, &around);
    if spec.seed % 4 == 1
        && has_units(spec, &topology)
        && let Some(Value::Table(job)) = jobs.first_mut()
    {
        let units = reduction(spec.seed, &around, job);
        other.insert("reduction".to_owned(), Value::Table(units));
    }
    other.insert("job".to_owned(), Value::Array(jobs));
    if spec.seed.is_multiple_of(3) {
        other.insert("end_with_jobs".to_owned(), Value::from(spec.seed.is_multiple_of(2)));
    }
    Some(other)
}

/// Only a job that repeats a collective operation many times. `None` for networks of few hosts.
pub fn with_repetitions(table: &Table, scenario: &Scenario) -> Option<Table> {
    let (topology, _, _) = scenario.build().ok()?;
    let (seed, hosts) = (scenario.spec.seed, topology.end_hosts().min(16));
    if hosts < 4 {
        return None;
    }
    let mut other = table.clone();
    for key in ["flow", "traffic", "event", "recovery", "warmup", "job", "scheduler", "threads"] {
        other.remove(key);
    }
    if let Some(congestion) = entry(&mut other, "congestion") {
        congestion.remove("hosts");
    }
    other.insert("duration".to_owned(), Value::from("20 ms"));
    if let Some(measure) = entry(&mut other, "measure") {
        measure.insert(
            "interval".to_owned(),
            Value::from(if seed.is_multiple_of(3) { "20 ms" } else { "4 ms" }),
        );
        measure.remove("transfers");
    }
    let operation = ["all-reduce", "all-to-all", "all-gather", "barrier"][(seed / 3 % 4) as usize];
    let bytes = ["64 KiB", "9000 B", "1 B"][(seed / 12 % 3) as usize];
    let program = Table::from_iter([
        ("kind".to_owned(), Value::from("collective")),
        ("operation".to_owned(), Value::from(operation)),
        ("ranks".to_owned(), Value::from(i64::from(hosts))),
        ("bytes".to_owned(), Value::from(bytes)),
        ("iterations".to_owned(), Value::from(40)),
        ("compute".to_owned(), Value::from(if seed.is_multiple_of(2) { "0 s" } else { "7 us" })),
    ]);
    let mut job = Table::from_iter([("program".to_owned(), Value::Table(program))]);
    if seed.is_multiple_of(5) {
        job.insert("overhead".to_owned(), Value::from("300 ns"));
        job.insert("rendezvous_above".to_owned(), Value::from("4 KiB"));
    }
    other.insert("job".to_owned(), Value::Array(vec![Value::Table(job)]));
    Some(other)
}

/// Only jobs, on hosts with several ports. `None` if the network cannot have them.
pub fn with_ports(table: &Table, scenario: &Scenario) -> Option<Table> {
    let spec = &scenario.spec;
    let TopologySource::Generated(network) = &spec.topology else { return None };
    let network = network.build().ok()?;
    let mut ports = host_ports(spec.seed);
    let read = |ports: &Table| Value::Table(ports.clone()).try_into::<Ports>().ok();
    let wired = |Ports { count, wiring, .. }: Ports| network.clone().with_ports(count?, wiring?).ok();
    let topology = match read(&ports).and_then(wired) {
        Some(topology) => topology,
        None => {
            // Any network can be a plane.
            ports.insert("wiring".to_owned(), Value::from("planes"));
            for key in ["arrival", "cross", "relay_part"] {
                ports.remove(key);
            }
            wired(read(&ports)?)?
        }
    };
    let around = around(spec, topology.machines.iter().map(|machine| &machine.name), &topology);
    let mut other = table.clone();
    for key in ["flow", "traffic", "warmup"] {
        other.remove(key);
    }
    if let Some(congestion) = entry(&mut other, "congestion") {
        congestion.remove("hosts");
    }
    let mut jobs = jobs(spec.seed, &around);
    if ports.contains_key("inner_rate") {
        for job in &mut jobs {
            job.as_table_mut()?.remove("memory_rate");
        }
    }
    if ports.get("use").and_then(Value::as_str) == Some("spray") {
        for job in &mut jobs {
            job.as_table_mut()?.remove("queue_pairs");
        }
    }
    let is_linked = ports.contains_key("inner_rate");
    other.insert("ports".to_owned(), Value::Table(ports));
    other.insert("job".to_owned(), Value::Array(jobs.clone()));
    if is_linked {
        combine_in_hosts(spec.seed, &mut jobs);
        let mut combined = other.clone();
        combined.insert("job".to_owned(), Value::Array(jobs));
        if is_possible(&combined) {
            other = combined;
        }
    }
    // Messages for receives with wildcards cannot be passed on, and some hosts cannot share an injection limit.
    if !is_possible(&other)
        && let Some(ports) = entry(&mut other, "ports")
    {
        for key in ["cross", "relay_part", "injection_rate"] {
            ports.remove(key);
        }
    }
    let failing = spec.seed.is_multiple_of(2).then(|| with_failing_ports(&other, spec, &topology)).flatten();
    Some(failing.unwrap_or(other))
}

/// Whether a network can be built for a scenario.
fn is_possible(table: &Table) -> bool {
    matches!(crate::case::read(table), Ok(Ok(scenario)) if scenario.build().is_ok())
}

/// The same scenario, in which ports of a host fail. `None` if it cannot have failures.
fn with_failing_ports(table: &Table, spec: &Spec, topology: &Topology) -> Option<Table> {
    let machine = topology.machines.get((spec.seed / 2) as usize % topology.machines.len())?;
    let names: Vec<&str> =
        machine.ports.iter().map(|&port| topology.hosts[port as usize].name.as_str()).collect();
    let (list, failover) = port_failures(spec.seed, &names, spec.duration.0);
    let mut other = table.clone();
    other.insert("event".to_owned(), Value::Array(list));
    let overtakes = ["adaptive_routing", "ecmp"].iter().any(|key| other.contains_key(*key));
    recover(&mut other, spec, overtakes || spec.switch.trimming.is_some());
    if let (Some(time), Some(ports)) = (failover, entry(&mut other, "ports")) {
        ports.insert("failover".to_owned(), time);
    }
    matches!(read(&other), Ok(Ok(_))).then_some(other)
}

/// Lets the hosts of a scenario with events send lost packets again. Entropy values with states are retired.
fn recover(table: &mut Table, spec: &Spec, overtakes: bool) {
    let mut recovery = events::recovery(spec.seed, spec.duration.0, overtakes);
    if let Some(rule) = table.get_mut("ecmp").and_then(Value::as_table_mut)
        && rule.get("spraying").and_then(Value::as_str) == Some("path-states")
    {
        let values = rule.get("values").and_then(Value::as_integer).unwrap_or(64);
        let retirement = ecmp::retirement(spec.seed, spec.duration.0, values as u64);
        rule.insert("retirement".to_owned(), Value::Table(retirement));
    }
    table.insert("recovery".to_owned(), Value::Table(recovery.clone()));
    if !matches!(read(table), Ok(Ok(_)))
        && recovery.get("kind").and_then(Value::as_str) == Some("go-back-n")
        && let Some(congestion) = entry(table, "congestion")
    {
        // Acknowledgements of several packets need selective repeat.
        congestion.remove("acknowledge");
    }
    if !matches!(read(table), Ok(Ok(_))) && recovery.remove("reordering").is_some() {
        table.insert("recovery".to_owned(), Value::Table(recovery));
    }
}

/// Whether jobs can use reduction units.
fn has_units(spec: &Spec, topology: &Topology) -> bool {
    let by_tables = matches!(spec.lanes.assignment, Assignment::ServiceLevel | Assignment::Destination)
        && spec.adaptive_routing.is_none()
        && spec.ecmp.is_none();
    let at_full_rate = spec.host.injection_rate.is_none()
        && spec.host.drain_rate.is_none()
        && spec.host.message_overhead == Time::ZERO;
    // Units are attached by links of other rates.
    let marking = spec.congestion.components(&spec.packet).marking;
    let for_all_rates = marking.parameters().is_none_or(|rule| rule.has_thresholds(Rate(1)));
    by_tables && at_full_rate && for_all_rates && !topology.has_one_way_links()
}

/// The same scenario with congestion management of RDMA over Ethernet, if its own can be replaced.
pub fn with_rdma(table: &Table, scenario: &Scenario) -> Option<Table> {
    let spec = &scenario.spec;
    if spec.congestion.components(&spec.packet).isolation != Isolation::None {
        return None;
    }
    let (topology, _, _) = scenario.build().ok()?;
    let around = rdma::Around {
        full: spec.packet.mtu.0 + spec.packet.header.0,
        has_one_way: topology.links.iter().any(|link| link.channels().count() == 1),
        rates: topology.links.iter().map(|link| link.rate.0).collect::<BTreeSet<u64>>().into_iter().collect(),
    };
    let mut other = table.clone();
    other.insert("congestion".to_owned(), Value::Table(rdma::congestion(spec.seed, &around)));
    // Keep the architecture, which may be the default of the removed mechanism.
    let architecture = spec.switch.architecture(spec.congestion.mechanism);
    if let (Some(switch), Ok(architecture)) = (entry(&mut other, "switch"), Value::try_from(architecture)) {
        switch.insert("architecture".to_owned(), architecture);
    }
    Some(other)
}

/// The same scenario with switches that hash packets, if its routes can be replaced. Scenarios with even
/// seeds also get congestion management of RDMA over Ethernet, because some rules for entropy values need
/// acknowledgements.
pub fn with_ecmp(table: &Table, scenario: &Scenario) -> Option<Table> {
    let spec = &scenario.spec;
    let by_way = matches!(spec.lanes.assignment, Assignment::Paths | Assignment::Routing);
    if by_way || spec.routing.allow_deadlock {
        return None;
    }
    let rdma = spec.seed.is_multiple_of(2).then(|| with_rdma(table, scenario)).flatten();
    let mut other = rdma.unwrap_or_else(|| table.clone());
    other.remove("adaptive_routing");
    if spec.lanes.count > 1
        && let Some(lanes) = entry(&mut other, "lanes")
    {
        lanes.extend(ecmp::priority(spec.seed, spec.lanes.count));
    }
    let (ecmp, host) = ecmp::hashing(spec.seed);
    other.insert("ecmp".to_owned(), Value::Table(ecmp));
    if let Some(table) = entry(&mut other, "host") {
        table.extend(host);
    }
    Some(other)
}

/// The same scenario with additional traffic that has a separate flow per message. Scenarios with even seeds
/// also get congestion management of RDMA over Ethernet, if possible.
pub fn with_sources(table: &Table, scenario: &Scenario) -> Option<Table> {
    let spec = &scenario.spec;
    let rdma = spec.seed.is_multiple_of(2).then(|| with_rdma(table, scenario)).flatten();
    let mut other = rdma.unwrap_or_else(|| table.clone());
    if let Some(topology) = entry(&mut other, "topology")
        && spec.seed.is_multiple_of(3)
    {
        let levels = sources::levels(spec.seed, topology);
        topology.extend(levels);
    }
    if let Some(measure) = entry(&mut other, "measure") {
        measure.extend(sources::measure(spec.seed));
    }
    let (topology, _, _) = scenario.build().ok()?;
    if topology.hosts.len() < 2 || spec.routing.allow_deadlock {
        return None;
    }
    let acks = ["ack", "ack-message", "ack-each", "ack-grant"];
    let notification = other.get("congestion").and_then(|congestion| congestion.get("notification"));
    let around = sources::Around {
        hosts: topology.hosts.iter().map(|host| host.name.clone()).collect(),
        duration: spec.duration.0,
        mtu: spec.packet.mtu.0,
        has_acks: notification.and_then(Value::as_str).is_some_and(|given| acks.contains(&given)),
        levels: spec.lanes.sl_to_vl.as_ref().map_or(16, Vec::len) as u64,
    };
    let list = other.entry("traffic").or_insert_with(|| Value::Array(Vec::new())).as_array_mut()?;
    list.extend(sources::sources(spec.seed, &around));
    Some(other)
}

/// The same scenario with packet trimming, and with hashed packets if the seed is even. `None` if the
/// scenario has lanes that depend on routes, or allows deadlocks.
pub fn with_trimming(table: &Table, scenario: &Scenario) -> Option<Table> {
    let spec = &scenario.spec;
    let by_way = matches!(spec.lanes.assignment, Assignment::Paths | Assignment::Routing);
    if by_way || spec.routing.allow_deadlock {
        return None;
    }
    let mut other = table.clone();
    for key in ["flow_control", "adaptive_routing", "lanes", "congestion", "ecmp"] {
        other.remove(key);
    }
    let full = spec.packet.mtu.0 + spec.packet.header.0;
    let kept = [("switch", &["latency"][..]), ("host", &["injection_rate", "message_overhead"])];
    for (key, keys) in kept {
        if let Some(table) = entry(&mut other, key) {
            table.retain(|key, _| keys.contains(&key));
        }
    }
    let (topology, _, _) = scenario.build().ok()?;
    let rates: BTreeSet<u64> = topology.links.iter().map(|link| link.rate.0).collect();
    let rates: Vec<u64> = rates.into_iter().collect();
    for (key, given) in trimming::trimming(spec.seed, full, &rates) {
        entry(&mut other, key)?.extend(given);
    }
    if spec.seed.is_multiple_of(2) {
        let (ecmp, host) = ecmp::hashing(spec.seed);
        other.insert("ecmp".to_owned(), Value::Table(ecmp));
        entry(&mut other, "host")?.extend(host);
    }
    if let Some(measure) = entry(&mut other, "measure") {
        measure.remove("congestion_log");
    }
    Some(other)
}

/// The same scenario, or one of its variants, with links and hosts that change during the run.
pub fn with_events(table: &Table, scenario: &Scenario) -> Option<Table> {
    let spec = &scenario.spec;
    if spec.routing.allow_deadlock {
        return None;
    }
    let on_fabric = if spec.seed.is_multiple_of(2) { with_lids(table, scenario) } else { None };
    let has_tables = on_fabric.is_some();
    let changed = match spec.seed % 5 {
        _ if has_tables => on_fabric,
        0 => with_sources(table, scenario),
        1 => with_ecmp(table, scenario),
        2 => with_trimming(table, scenario),
        3 => with_rdma(table, scenario),
        _ => None,
    };
    let mut other = changed.unwrap_or_else(|| table.clone());
    other.remove("job");
    if let Some(link) = entry(&mut other, "link") {
        link.clear();
    }
    for list in ["flow", "traffic"] {
        let sources = other.get_mut(list).and_then(Value::as_array_mut);
        for source in sources.into_iter().flatten().filter_map(Value::as_table_mut) {
            source.remove("start_after_packets");
        }
    }
    let (topology, _, _) = scenario.build().ok()?;
    let ends = topology.links.iter().flat_map(|link| [link.a, link.b]);
    let around = events::Around {
        switches: topology.switches.iter().map(|switch| switch.name.clone()).collect(),
        hosts: topology.hosts.iter().map(|host| host.name.clone()).collect(),
        ports: ends
            .map(|end| match end.node {
                NodeRef::Host(_) => topology.name_of(end.node).to_owned(),
                NodeRef::Switch(_) => topology.port_name(end),
            })
            .collect(),
        duration: spec.duration.0,
        slowest: topology.links.iter().map(|link| link.rate.0).min()?,
        is_limited: ["drain_rate", "injection_rate"]
            .iter()
            .any(|key| other.get("host").is_some_and(|host| host.get(key).is_some())),
    };
    let list = events::events(spec.seed, &around);
    let is_down = |event: &Value| matches!(event.get("kind").and_then(Value::as_str), Some("down" | "stop"));
    if list.iter().any(is_down) {
        let mut rerouting = events::rerouting(spec.seed, spec.duration.0);
        let adapts = other.get("adaptive_routing").and_then(|given| given.get("per"));
        let chooses = adapts.and_then(Value::as_str) == Some("packet")
            || other.get("ecmp").is_some_and(|ecmp| ecmp.get("enabled") != Some(&Value::Boolean(false)));
        if !chooses {
            rerouting.remove("port_delay");
        }
        if !has_tables {
            rerouting.remove("tables");
        }
        let by_way = matches!(spec.lanes.assignment, Assignment::Paths | Assignment::Routing);
        if !rerouting.is_empty() && !by_way {
            other.insert("rerouting".to_owned(), Value::Table(rerouting));
        }
    }
    let lossy = events::lossy_lanes(spec.seed, spec.lanes.count);
    if let Some(flow_control) = other.get_mut("flow_control").and_then(Value::as_table_mut)
        && flow_control.get("kind").and_then(Value::as_str) == Some("pfc")
        && !lossy.is_empty()
    {
        flow_control.insert("lossy_lanes".to_owned(), Value::Array(lossy));
    }
    let loses =
        |event: &Value| matches!(event.get("kind").and_then(Value::as_str), Some("down" | "errors" | "stop"));
    if list.iter().any(loses) && !spec.seed.is_multiple_of(3) {
        let overtakes = ["adaptive_routing", "ecmp", "rerouting"].iter().any(|key| other.contains_key(*key))
            || spec.seed % 5 == 2;
        other.insert("event".to_owned(), Value::Array(list));
        recover(&mut other, spec, overtakes);
    } else {
        other.insert("event".to_owned(), Value::Array(list));
    }
    make_room(&mut other)?;
    Some(other)
}

/// Gives receivers of pause frames the headroom that links with changing rates need. `None` if this is
/// impossible.
fn make_room(table: &mut Table) -> Option<()> {
    let Ok(Ok(scenario)) = read(table) else { return None };
    let is_rate = |event: &Event| event.kind == EventKind::Rate;
    let FlowControl::Pfc(pfc) = &scenario.spec.flow_control else { return Some(()) };
    if !scenario.spec.event.iter().any(is_rate) {
        return Some(());
    }
    let (topology, tables, mut config) = scenario.build().ok()?;
    config.flow_control = FlowControl::Pfc(Pfc { headroom: None, shared: None, ..pfc.clone() });
    let (_, most) = pause_memory(&topology, &tables, &config).ok()??.headroom;
    let spec = &scenario.spec;
    let sizes = [("switch", spec.switch.buffer), ("host", spec.host.buffer)];
    for (key, size) in sizes {
        let room = size.0 + u64::from(spec.lanes.count) * u64::from(most);
        entry(table, key)?.insert("buffer".to_owned(), Value::from(format!("{room} B")));
    }
    let flow_control = entry(table, "flow_control")?;
    flow_control.remove("headroom");
    if let Some(shared) = flow_control.get_mut("shared").and_then(Value::as_table_mut) {
        shared.remove("memory");
        shared.remove("headroom_pool");
    }
    Some(())
}

/// The same scenario on a fabric with several LIDs per host, if it has a fabric with the same hosts.
pub fn with_lids(table: &Table, scenario: &Scenario) -> Option<Table> {
    let spec = &scenario.spec;
    table.get("topology").and_then(|topology| topology.get("file"))?;
    let mut other = table.clone();
    other.remove("adaptive_routing");
    other.remove("ecmp");
    other.remove("routing");
    for (key, given) in ecmp::lids(spec.seed) {
        if let Some(table) = entry(&mut other, key) {
            table.extend(given);
        }
    }
    Some(other)
}

/// The same scenario with an end of all traffic, and enough time to reach it.
pub fn drained(table: &Table, scenario: &Scenario) -> Table {
    let mut other = table.clone();
    let spec = &scenario.spec;
    for (key, bound) in [("flow", "total"), ("traffic", "packets_per_host")] {
        let entries = other.get_mut(key).and_then(Value::as_array_mut);
        for entry in entries.into_iter().flatten().filter_map(Value::as_table_mut) {
            if !entry.contains_key("stop") && !entry.contains_key(bound) {
                entry.insert("stop".to_owned(), time(spec.duration.0));
            }
        }
    }
    // The number of moves of hotspots in a run has a limit.
    let lives = spec.traffic.iter().filter_map(|traffic| match &traffic.pattern {
        Pattern::Forest(forest) => forest.lifetime.map(|time| time.0 / u64::from(forest.hotspots.max(1))),
        _ => None,
    });
    let long = lives.map(|life| life * 3_000_000).min().unwrap_or(u64::MAX).min(LONG_S * 1_000_000_000_000);
    other.insert("duration".to_owned(), time(long.max(spec.duration.0)));
    if let Some(measure) = entry(&mut other, "measure") {
        measure.insert("interval".to_owned(), time(long.max(spec.duration.0)));
    }
    other
}
