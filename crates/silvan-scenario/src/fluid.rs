//! Fluid rates of a scenario's flows: the rates that the links allow, and the rates without congestion
//! control.

use std::collections::BTreeMap;

use serde::Serialize;
use silvan_engine::{Bytes, Rate, Time};
use silvan_fabric::config::{Architecture, Packet};
use silvan_fabric::queueing::{Memory, Queues};
use silvan_fabric::{Expected, FaultPlan, RemainingNetwork, Spared, permutation};
use silvan_network::fluid::completion::{Demand, completions};
use silvan_network::fluid::network::{FluidNetwork, HostRates};
use silvan_network::fluid::{Allocation, FluidError, MAX_FLOWS, Problem, max_min, saa, uncontrolled};
use silvan_network::routing::{Tables, trace};
use silvan_network::topology::{NodeRef, Topology};
use silvan_network::traffic::{Pattern, Traffic};

use crate::error::{Fault, ScenarioError};
use crate::scenario::Scenario;
use crate::spec::Spec;

/// Result of [`Scenario::fluid`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FluidReport {
    /// Named flows in the order of the scenario, then the flows of the traffic patterns.
    pub flows: Vec<FluidFlow>,
    /// Rates without congestion control; `None` if they cannot be computed, see `uncontrolled_missing`.
    pub uncontrolled: Option<FluidTotal>,
    /// Max-min fair rates.
    pub max_min: FluidTotal,
    /// Single application assignment.
    pub saa: FluidTotal,
    /// The reason why `uncontrolled` is missing.
    pub uncontrolled_missing: Option<String>,
    /// Weights of the single application assignment: "total" if every flow has a total, otherwise "equal".
    pub weights: &'static str,
}

/// A flow and its rates.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FluidFlow {
    /// Name of the flow; for flows of a pattern, the name of the pattern and the hosts.
    pub flow: String,
    /// Name of the sending host.
    pub from: String,
    /// Name of the receiving host.
    pub to: String,
    /// Total payload in bytes, if limited.
    pub total_bytes: Option<u64>,
    /// Rate without congestion control.
    pub uncontrolled: Option<FluidShare>,
    /// Max-min fair rate.
    pub max_min: FluidShare,
    /// Rate of the single application assignment.
    pub saa: FluidShare,
}

/// Rate of one flow.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FluidShare {
    /// Payload rate while all flows are active, in Gbit/s.
    pub gbit_s: f64,
    /// The limit of the rate: a link, the injection or drain rate of a host, or "its own rate". Without
    /// congestion control, it is the root of the congestion tree, even if the root is not on the flow's
    /// route.
    pub bottleneck: String,
    /// Time from the start of the scenario until the flow has sent its total; `None` for flows without a
    /// total, and for flows that stop earlier.
    pub completed_ns: Option<u64>,
}

/// Total over all flows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FluidTotal {
    /// Sum of the rates, in Gbit/s.
    pub gbit_s: f64,
    /// Latest completion time of a flow; `None` if no flow completes.
    pub completed_ns: Option<u64>,
}

impl Scenario {
    /// Computes fluid rates while all flows are active, and the completion times of flows with a total.
    /// Latency, buffers and the scenario's mechanism are not modeled.
    ///
    /// # Errors
    /// Same as [`Scenario::build`], and if the scenario has jobs, closed loops, patterns that choose a destination
    /// for each message, ECMP, adaptive routing, detours, packets to several LIDs of a host, an injection limit that ports
    /// share, too many flows, or no flows.
    pub fn fluid(&self) -> Result<FluidReport, ScenarioError> {
        let (topology, tables, config) = self.build_plain()?;
        if config.path_lanes.is_some_and(|lanes| lanes.detours.is_some()) {
            let what = "has no rates to compute: fluid rates need forwarding tables, and these routes depend on more than \
                        the destination; choose \"minimal\"";
            return Err(self.locate(Fault::new("routing.kind", what)));
        }
        if config.ecmp.is_some() {
            let what = "has no rates to compute: fluid rates need forwarding tables, and switches that hash packets do not \
                        use them; leave it out, or set ecmp.enabled = false";
            return Err(self.locate(Fault::new("ecmp", what)));
        }
        if config.adaptive_routing.is_some() {
            let what = "has no rates to compute: fluid rates need forwarding tables, and switches that select ports by load \
                        do not use them; leave it out, or set adaptive_routing.enabled = false";
            return Err(self.locate(Fault::new("adaptive_routing", what)));
        }
        if config.path_bits.is_used() {
            let what = "has no rates to compute: fluid rates need one route per pair of hosts; set \"zero\"";
            return Err(self.locate(Fault::new("routing.path_bits", what)));
        }
        if shares_injection(&self.spec) {
            let what = "has no rates to compute: fluid rates know limits of single ports, not one that ports share; leave it out";
            return Err(self.locate(Fault::new("ports.injection_rate", what)));
        }
        let flows = flows(&self.spec, &topology).map_err(|fault| self.locate(fault))?;
        let refused = |error: FluidError| ScenarioError::of_file(self.origin(), error.0);
        let host = &self.spec.host;
        let host = HostRates { injection: host.injection_rate, drain: host.drain_rate };
        let (network, problem) = FluidNetwork::new(&topology, &tables, host).map_err(refused)?;
        Case::new(&self.spec, network, problem, flows)
            .and_then(|case| case.report(&topology))
            .map_err(refused)
    }
}

fn shares_injection(spec: &Spec) -> bool {
    spec.ports.as_ref().is_some_and(|ports| ports.injection_rate.is_some())
}

/// The largest sum of the numbers of flows over all changes of links for which [`expected`] computes rates.
const MOST_EXPECTED: usize = 2_000_000;

/// The total rate that the network permits after each change of links: the max-min fair rates of the flows
/// that are active at that time, on routes around the links that are down. With a pattern of kind `uniform`
/// or `all-to-all`, each pair of hosts has an equal part of the rate of its source. Empty if there are jobs,
/// patterns without known mean rates, an injection limit that ports share, or too many flows.
pub(crate) fn expected(
    spec: &Spec,
    topology: &Topology,
    tables: &Tables,
    faults: &FaultPlan,
) -> Vec<Expected> {
    let count = faults.count_remaining();
    if count == 0 || shares_injection(spec) {
        return Vec::new();
    }
    let Some((flows, is_fixed)) = mean_flows(spec, topology, MOST_EXPECTED / count) else {
        return Vec::new();
    };
    let host = HostRates { injection: spec.host.injection_rate, drain: spec.host.drain_rate };
    let mut found = Vec::new();
    // The tables before each change, except the first.
    let mut before: Option<Tables> = None;
    for remaining in faults.remaining_networks(topology, tables) {
        let RemainingNetwork { time, worse, .. } = remaining;
        let Ok((network, mut problem)) = FluidNetwork::new(&remaining.topology, &remaining.tables, host)
        else {
            return Vec::new();
        };
        let mut shares = Vec::new();
        for flow in &flows {
            let is_active = flow.start <= time && flow.stop.is_none_or(|stop| stop > time);
            let overhead = on_the_wire(&spec.packet, 1.0, flow.message);
            let cap = flow.rate.map(|rate| rate.0 as f64 * overhead);
            // A flow without a route has rate zero.
            if is_active
                && let Ok(route) = network.route(flow.from, flow.to)
                && problem.add_flow(&route, 1.0, cap).is_ok()
            {
                shares.push(overhead);
            }
        }
        let rates = max_min(&problem, &problem.all()).rates;
        // The sum of no numbers is -0.0.
        let of_flows = rates.iter().zip(shares).map(|(rate, overhead)| rate / overhead / 1e9);
        let permitted_gbit_s = of_flows.fold(0.0, |sum, rate| sum + rate);
        let previous = before.as_ref().unwrap_or(tables);
        let spared = is_fixed.then(|| spared(spec, &flows, (topology, previous), &worse));
        found.push(Expected { time, permitted_gbit_s, spared });
        before = Some(remaining.tables);
    }
    found
}

/// The named flows, and the hosts that receive from patterns, with routes that avoid the links that become
/// worse.
fn spared(
    spec: &Spec,
    flows: &[Wanted],
    (topology, tables): (&Topology, &Tables),
    worse: &[usize],
) -> Spared {
    if worse.is_empty() {
        return Spared::default();
    }
    let wiring = topology.wiring();
    let uses = |flow: &Wanted| match trace(topology, &wiring, tables, flow.from, flow.to) {
        Ok(path) => path.channels.iter().any(|channel| worse.contains(&channel.link)),
        Err(_) => true,
    };
    let (named, others) = flows.split_at(spec.flow.len());
    let free = (0..).zip(named).filter(|(_, flow)| !uses(flow)).map(|(number, _)| number);
    let mut hosts: BTreeMap<u32, bool> = BTreeMap::new();
    for flow in others.iter().chain(named) {
        *hosts.entry(flow.to).or_default() |= uses(flow);
    }
    let receives = |host: u32| others.iter().any(|flow| flow.to == host);
    let hosts = hosts.into_iter().filter(|&(host, uses)| !uses && receives(host)).map(|(host, _)| host);
    Spared { flows: free.collect(), hosts: hosts.collect() }
}

/// The flows of a scenario with their mean rates, and whether all have fixed destinations. `None` if there
/// are jobs, patterns without known mean rates, or more than `most` flows.
fn mean_flows(spec: &Spec, topology: &Topology, most: usize) -> Option<(Vec<Wanted>, bool)> {
    let is_random =
        |traffic: &Traffic| matches!(traffic.pattern, Pattern::Uniform { .. } | Pattern::AllToAll);
    let mut fixed = spec.clone();
    let random: Vec<Traffic> = fixed.traffic.iter().filter(|traffic| is_random(traffic)).cloned().collect();
    let varies = |traffic: &Traffic| traffic.outstanding.is_some() || traffic.bursts.is_some();
    if !spec.job.is_empty() || spec.external.is_some() || spec.traffic.iter().any(varies) {
        return None;
    }
    if random.is_empty() {
        return flows(spec, topology).ok().filter(|flows| flows.len() <= most).map(|flows| (flows, true));
    }
    // Other patterns keep their numbers, because their permutations depend on the numbers.
    for traffic in fixed.traffic.iter_mut().filter(|traffic| is_random(traffic)) {
        traffic.pattern = Pattern::Hotspots { to: Vec::new() };
    }
    let mut found = match flows(&fixed, topology) {
        Ok(found) => found,
        Err(_) if fixed.flow.is_empty() && random.len() == spec.traffic.len() => Vec::new(),
        Err(_) => return None,
    };
    let hosts = topology.end_hosts();
    let of_host = host_rates(spec, topology);
    for traffic in &random {
        let senders: Vec<u32> = match &traffic.hosts {
            Some(names) => names.iter().filter_map(|name| topology.host_named(name)).collect(),
            None => (0..hosts).collect(),
        };
        if found.len() + senders.len() * hosts.saturating_sub(1) as usize > most {
            return None;
        }
        for from in senders {
            let rate = mean_rate(traffic, of_host[from as usize]);
            let rate = rate.map(|rate| Rate(rate.0 / u64::from(hosts.max(2) - 1)));
            found.extend((0..hosts).filter(|&to| to != from).map(|to| Wanted {
                name: String::new(),
                from,
                to,
                rate,
                message: traffic.message.unwrap_or(spec.packet.mtu),
                total: None,
                start: traffic.start,
                stop: traffic.stop,
            }));
        }
    }
    Some((found, false))
}

/// The rate at which each host can send.
fn host_rates(spec: &Spec, topology: &Topology) -> Vec<Rate> {
    let mut of_host = vec![Rate::default(); topology.hosts.len()];
    for link in &topology.links {
        for end in [link.a, link.b] {
            if let NodeRef::Host(host) = end.node {
                of_host[host as usize] = link.rate.min(spec.host.injection_rate.unwrap_or(Rate(u64::MAX)));
            }
        }
    }
    of_host
}

/// The mean rate of the payload that a host generates from a pattern; `None` if the host sends as much as it
/// can. `host` is the rate at which the host can send.
fn mean_rate(traffic: &Traffic, host: Rate) -> Option<Rate> {
    let load = traffic.load_percent.map(|percent| Rate(host.0 / 100 * u64::from(percent)));
    traffic.rate.or(load)
}

/// A flow before its rates are computed.
struct Wanted {
    name: String,
    from: u32,
    to: u32,
    rate: Option<Rate>,
    message: Bytes,
    total: Option<Bytes>,
    start: Time,
    stop: Option<Time>,
}

/// All flows of a scenario, including those of its patterns.
fn flows(spec: &Spec, topology: &Topology) -> Result<Vec<Wanted>, Fault> {
    let mut wanted = Vec::new();
    for flow in &spec.flow {
        let hosts = topology.host_named(&flow.from).zip(topology.host_named(&flow.to));
        wanted.extend(hosts.map(|(from, to)| Wanted {
            name: flow.shown_name(),
            from,
            to,
            rate: flow.rate,
            message: flow.message.unwrap_or(spec.packet.mtu),
            total: flow.total,
            start: flow.start,
            stop: flow.stop,
        }));
    }
    if spec.external.is_some() {
        return Err(Fault::new("external", "has no rates to compute: a program decides when it sends"));
    }
    if !spec.job.is_empty() {
        let what = "has no rates to compute: its ranks wait for each other's messages";
        return Err(Fault::new("job.0", what));
    }
    let of_host = host_rates(spec, topology);
    for (number, traffic) in spec.traffic.iter().enumerate() {
        if traffic.outstanding.is_some() {
            let what = "has no rates to compute: its hosts send a request when another one is answered";
            return Err(Fault::new(format!("traffic.{number}.outstanding"), what));
        }
        let pairs = pairs(spec, topology, (number, traffic))?;
        if wanted.len() + pairs.len() > MAX_FLOWS {
            let what = format!(
                "makes more than {MAX_FLOWS} flows together with those before it, which is the maximum"
            );
            return Err(Fault::new(format!("traffic.{number}"), what));
        }
        let name = traffic.shown_name(number);
        let host = |host: u32| &topology.hosts[host as usize].name;
        wanted.extend(pairs.into_iter().map(|(from, to)| Wanted {
            name: format!("{name}: {}->{}", host(from), host(to)),
            from,
            to,
            rate: mean_rate(traffic, of_host[from as usize]),
            message: traffic.message.unwrap_or(spec.packet.mtu),
            total: None,
            start: traffic.start,
            stop: traffic.stop,
        }));
    }
    if wanted.is_empty() {
        return Err(Fault::new("traffic", "no host sends to another one, so there are no rates to compute"));
    }
    Ok(wanted)
}

/// The sources and destinations of a pattern, as in a simulation.
fn pairs(
    spec: &Spec,
    topology: &Topology,
    (number, traffic): (usize, &Traffic),
) -> Result<Vec<(u32, u32)>, Fault> {
    let hosts = topology.hosts.len() as u32;
    let senders: Vec<u32> = match &traffic.hosts {
        Some(names) => names.iter().filter_map(|name| topology.host_named(name)).collect(),
        None => (0..hosts).collect(),
    };
    let targets: Vec<u32> = match &traffic.pattern {
        Pattern::Hotspots { to } => {
            let to: Vec<u32> = to.iter().filter_map(|name| topology.host_named(name)).collect();
            senders.iter().zip(to.iter().cycle()).map(|(_, &to)| to).collect()
        }
        Pattern::Shift { by } => senders.iter().map(|from| (from + by % hosts) % hosts).collect(),
        Pattern::Permutation => {
            let class = (spec.flow.len() + number) as u16;
            let images = permutation(spec.seed, class, hosts);
            senders.iter().map(|&from| images[from as usize]).collect()
        }
        Pattern::Uniform { .. }
        | Pattern::AllToAll
        | Pattern::Forest(_)
        | Pattern::Incast(_)
        | Pattern::Listed(_) => {
            let what = "chooses a destination for each message, but fluid rates need fixed destinations: \
                        use [[flow]], or a pattern of kind `permutation`, `shift` or `hotspots`";
            return Err(Fault::new(format!("traffic.{number}.pattern.kind"), what));
        }
    };
    Ok(senders.into_iter().zip(targets).filter(|(from, to)| from != to).collect())
}

/// Bytes on the wire for a payload in messages of a given size.
fn on_the_wire(packet: &Packet, payload: f64, message: Bytes) -> f64 {
    let packets = message.0.max(1).div_ceil(packet.mtu.0.max(1));
    payload * (1.0 + packets as f64 * packet.header.0 as f64 / message.0.max(1) as f64)
}

/// The reason why the rates without congestion control do not apply to the scenario's switches; `None` if
/// they apply.
fn not_modeled(spec: &Spec) -> Option<String> {
    let mechanism = spec.congestion.mechanism;
    let switch = &spec.switch;
    let queues = switch.queues(mechanism);
    let cause = if spec.lanes.count > 1 {
        "a single virtual lane (lanes.count = 1)"
    } else if switch.architecture(mechanism) != Architecture::Voq {
        "switches that serve their inputs in turn (switch.architecture = \"voq\")"
    } else if queues != Queues::PerOutput || switch.memory(mechanism) != Memory::Shared {
        "one queue per output in a shared buffer (switch.queues = \"per-output\")"
    } else {
        return None;
    };
    Some(format!("rates without congestion control are computed only for {cause}"))
}

struct Case<'a> {
    spec: &'a Spec,
    network: FluidNetwork<'a>,
    problem: Problem,
    flows: Vec<Wanted>,
    demands: Vec<Demand>,
    /// Whether all flows have a total. If so, the totals are the weights.
    sized: bool,
}

impl<'a> Case<'a> {
    fn new(
        spec: &'a Spec,
        network: FluidNetwork<'a>,
        problem: Problem,
        flows: Vec<Wanted>,
    ) -> Result<Self, FluidError> {
        let sized = flows.iter().all(|flow| flow.total.is_some());
        let seconds = |time: Option<Time>| time.map_or(f64::INFINITY, Time::as_secs_f64);
        let wire = |flow: &Wanted, payload: u64| on_the_wire(&spec.packet, payload as f64, flow.message);
        let demands = flows.iter().map(|flow| Demand {
            start_s: flow.start.as_secs_f64(),
            stop_s: seconds(flow.stop),
            bits: flow.total.map_or(f64::INFINITY, |total| 8.0 * wire(flow, total.0)),
        });
        let mut case = Self { spec, network, problem, demands: demands.collect(), flows, sized };
        for (flow, demand) in case.flows.iter().zip(&case.demands) {
            let route = case.network.route(flow.from, flow.to)?;
            let cap = flow.rate.map(|rate| wire(flow, rate.0));
            case.problem.add_flow(&route, if sized { demand.bits } else { 1.0 }, cap)?;
        }
        Ok(case)
    }

    fn report(&self, topology: &Topology) -> Result<FluidReport, FluidError> {
        let equal = self.problem.with_equal_weights();
        let (max_min, max_min_total) = self.shares(|active| Ok(max_min(&equal, active)))?;
        let (saa, saa_total) = self.shares(|active| Ok(saa(&self.problem, active)))?;
        let (free, missing) = match not_modeled(self.spec) {
            Some(why) => (None, Some(why)),
            None => match self.shares(|active| uncontrolled(&self.problem, active)) {
                Ok(found) => (Some(found), None),
                Err(error) => (None, Some(error.0)),
            },
        };
        let (free, free_total) = free.unzip();
        let free =
            free.map_or_else(|| vec![None; self.flows.len()], |all| all.into_iter().map(Some).collect());
        let name = |host: u32| topology.hosts[host as usize].name.clone();
        let shares = max_min.into_iter().zip(saa).zip(free);
        let rows = self.flows.iter().zip(shares).map(|(flow, ((max_min, saa), uncontrolled))| FluidFlow {
            flow: flow.name.clone(),
            from: name(flow.from),
            to: name(flow.to),
            total_bytes: flow.total.map(|total| total.0),
            uncontrolled,
            max_min,
            saa,
        });
        Ok(FluidReport {
            flows: rows.collect(),
            uncontrolled: free_total,
            max_min: max_min_total,
            saa: saa_total,
            uncontrolled_missing: missing,
            weights: if self.sized { "total" } else { "equal" },
        })
    }

    /// Rates while all flows are active, and completion times, with the rates that `rule` returns.
    fn shares(
        &self,
        rule: impl Fn(&[bool]) -> Result<Allocation, FluidError>,
    ) -> Result<(Vec<FluidShare>, FluidTotal), FluidError> {
        let together = rule(&self.problem.all())?;
        let ends = completions(&self.demands, rule)?;
        let mut total = FluidTotal { gbit_s: 0.0, completed_ns: None };
        let mut shares = Vec::with_capacity(self.flows.len());
        for (flow, wanted) in self.flows.iter().enumerate() {
            let overhead = on_the_wire(&self.spec.packet, 1.0, wanted.message);
            let share = FluidShare {
                gbit_s: together.rates[flow] / overhead / 1e9,
                bottleneck: together.bottlenecks[flow]
                    .map_or_else(|| "its own rate".to_owned(), |link| self.network.link_name(link)),
                completed_ns: ends[flow].map(|end| (end * 1e9).round() as u64),
            };
            total.gbit_s += share.gbit_s;
            total.completed_ns = total.completed_ns.max(share.completed_ns);
            shares.push(share);
        }
        Ok((shares, total))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const HEAD: &str =
        "duration = \"1 ms\"\n[topology]\nkind = \"star\"\nhosts = 4\nlink_rate = \"8 Gbit/s\"\n";

    fn fluid(more: &str) -> Result<FluidReport, String> {
        let scenario = Scenario::from_toml(&format!("{HEAD}{more}"), "a.toml", Path::new(""), &[]).unwrap();
        scenario.fluid().map_err(|error| error.to_string())
    }

    #[test]
    fn headers_use_capacity_of_links_and_hosts() {
        let report = fluid(
            "[packet]\nmtu = \"1000 B\"\nheader = \"200 B\"\n\
             [[flow]]\nfrom = \"H1\"\nto = \"H2\"\ntotal = \"1 MB\"\n\
             [[flow]]\nfrom = \"H3\"\nto = \"H2\"\ntotal = \"3 MB\"\nmessage = \"500 B\"\n",
        )
        .unwrap();
        // 1.2 MB and 4.2 MB at 1 GB/s on the wire take 5.4 ms together.
        assert_eq!(report.saa.completed_ns, Some(5_400_000));
        let rates: Vec<f64> = report.flows.iter().map(|flow| flow.saa.gbit_s).collect();
        assert!((rates[0] - 8.0 / 5.4).abs() < 1e-9 && (rates[1] - 24.0 / 5.4).abs() < 1e-9, "{rates:?}");
        let ends: Vec<Option<u64>> = report.flows.iter().map(|flow| flow.max_min.completed_ns).collect();
        assert_eq!(ends, [Some(2_400_000), Some(5_400_000)]);
        assert_eq!(report.weights, "total");
    }

    #[test]
    fn pairs_of_hosts_are_listed_only_up_to_a_limit() {
        let text = format!("{HEAD}[[traffic]]\npattern = {{ kind = \"uniform\" }}\n");
        let scenario = Scenario::from_toml(&text, "a.toml", Path::new(""), &[]).unwrap();
        let (topology, ..) = scenario.build_plain().unwrap();
        let listed = |most| mean_flows(&scenario.spec, &topology, most).map(|(flows, _)| flows.len());
        assert_eq!([12, 11].map(listed), [Some(12), None]);
    }

    #[test]
    fn patterns_send_at_their_load_and_closed_loops_are_rejected() {
        let shift = "[[traffic]]\npattern = { kind = \"shift\", by = 1 }\nmessage = \"1 MB\"\n";
        let open = "[packet]\nheader = \"0 B\"\n";
        let report = fluid(&format!("{open}{shift}load_percent = 40\n")).unwrap();
        let rates: Vec<f64> = report.flows.iter().map(|flow| flow.max_min.gbit_s).collect();
        assert_eq!(rates, [3.2; 4], "40 % of 8 Gbit/s");
        let message =
            fluid(&format!("{shift}outstanding = 2\n[congestion]\nnotification = \"ack\"\n")).err().unwrap();
        assert!(message.contains("traffic.0.outstanding = 2: has no rates to compute"), "{message}");
    }

    #[test]
    fn switches_that_do_not_use_the_tables_are_rejected_at_their_key() {
        let tree = "duration = \"1 ms\"\n[topology]\nkind = \"k-ary-n-tree\"\nk = 2\nn = 2\n\
                    [[flow]]\nfrom = \"H1\"\nto = \"H4\"\n";
        let rejected = |more: &str| {
            let scenario =
                Scenario::from_toml(&format!("{tree}{more}"), "a.toml", Path::new(""), &[]).unwrap();
            scenario.fluid().err().map(|error| error.to_string())
        };
        for (table, choice) in
            [("adaptive_routing", "per = \"flow\""), ("adaptive_routing", "per = \"packet\""), ("ecmp", "")]
        {
            let message = rejected(&format!("[{table}]\n{choice}\n")).unwrap();
            let start = format!("a.toml:9: {table}: has no rates to compute");
            assert!(message.starts_with(&start), "{message}");
            let advice = format!("leave it out, or set {table}.enabled = false");
            assert!(message.ends_with(&advice), "{message}");
            assert_eq!(rejected(&format!("[{table}]\nenabled = false\n{choice}\n")), None);
        }
        assert_eq!(rejected(""), None);
    }

    #[test]
    fn patterns_without_fixed_destinations_are_rejected_at_their_key() {
        let message = fluid("[[traffic]]\npattern = { kind = \"uniform\" }\n").err().unwrap();
        let start = "a.toml:7: traffic.0.pattern.kind = \"uniform\": chooses a destination for each message";
        assert!(message.starts_with(start), "{message}");
        let alone = "pattern = { kind = \"hotspots\", to = [\"H1\"] }";
        let message = fluid(&format!("[[traffic]]\nhosts = [\"H1\"]\n{alone}\n")).err().unwrap();
        assert!(message.contains("no host sends to another one"), "{message}");
    }

    #[test]
    fn hotspots_do_not_send_to_themselves() {
        let report =
            fluid("[[traffic]]\npattern = { kind = \"hotspots\", to = [\"H1\", \"H2\"] }\n").unwrap();
        let pairs: Vec<(&str, &str)> =
            report.flows.iter().map(|flow| (flow.from.as_str(), flow.to.as_str())).collect();
        assert_eq!(pairs, [("H3", "H1"), ("H4", "H2")]);
        assert_eq!((report.flows[0].flow.as_str(), report.weights), ("traffic.0: H3->H1", "equal"));
        assert!(report.uncontrolled.is_some_and(|total| (total.gbit_s - 16.0).abs() < 1e-9));
    }
}
