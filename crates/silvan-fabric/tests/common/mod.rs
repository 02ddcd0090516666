//! Helpers to build and run networks in tests.
#![allow(dead_code, clippy::unwrap_used, clippy::panic, missing_docs)]

use silvan_congestion::{Congestion, Mechanism};
use silvan_engine::{Bytes, Rate, Time};
use silvan_fabric::config::{Arbitration, Architecture, Config, FlowControl, HostConfig, Measure, Scheduler};
use silvan_fabric::faults::{Event, EventKind};
use silvan_fabric::outcome::Outcome;
use silvan_fabric::queueing::Queues;
use silvan_fabric::simulation::{ModelError, Simulation};
use silvan_network::routing::{RoutingSpec, Tables};
use silvan_network::topology::{Topology, TopologySpec};
use silvan_network::traffic::{Flow, Pattern, Traffic};

/// Builds a topology from its table in a scenario, as JSON.
pub fn topology(json: &str) -> Topology {
    serde_json::from_str::<TopologySpec>(json).unwrap().build().unwrap()
}

pub fn tables(topology: &Topology) -> Tables {
    RoutingSpec::suitable(topology).compute(topology).unwrap()
}

pub fn us(us: u64) -> Time {
    Time::from_us(us)
}

pub fn config(duration: Time) -> Config {
    Config {
        seed: 1,
        duration,
        warmup: Time::ZERO,
        packet: Default::default(),
        lanes: Default::default(),
        switch: Default::default(),
        host: HostConfig::default(),
        congestion: Default::default(),
        flow_control: FlowControl::default(),
        link: Default::default(),
        events: Vec::new(),
        rerouting: Default::default(),
        recovery: None,
        adaptive_routing: None,
        ecmp: None,
        path_bits: silvan_fabric::config::PathBits::Zero,
        shared_injection: None,
        flows: Vec::new(),
        traffic: Vec::new(),
        jobs: Vec::new(),
        external: None,
        ends_with_jobs: true,
        path_lanes: None,
        tables_after_faults: None,
        measure: Measure { interval: us(100), ..Measure::default() },
        threads: 1,
        scheduler: Scheduler::BinnedIfPossible,
        skip: false,
        records: false,
    }
}

pub fn ib_cc() -> Congestion {
    Congestion { mechanism: Mechanism::IbCc, ..Congestion::default() }
}

pub fn flow(from: &str, to: &str) -> Flow {
    Flow {
        name: None,
        from: from.into(),
        to: to.into(),
        start: Time::ZERO,
        start_after_packets: None,
        stop: None,
        message: None,
        rate: None,
        total: None,
        arrivals: Default::default(),
        sl: 0,
    }
}

pub fn pattern(pattern: Pattern) -> Traffic {
    Traffic {
        name: None,
        hosts: None,
        pattern,
        rate: None,
        arrivals: Default::default(),
        message: None,
        message_max: None,
        sizes: None,
        load_percent: None,
        bursts: None,
        outstanding: None,
        think: None,
        loaded: Default::default(),
        start: Time::ZERO,
        start_after_packets: None,
        stop: None,
        packets_per_host: None,
        sl: 0,
    }
}

pub fn try_run(topology: &Topology, config: &Config) -> Result<Outcome, ModelError> {
    run_with(topology, &tables(topology), config)
}

pub fn run_with(topology: &Topology, tables: &Tables, config: &Config) -> Result<Outcome, ModelError> {
    let mut simulation = Simulation::new(topology, tables, config)?;
    while !simulation.advance(100_000)?.done {}
    simulation.finish()
}

pub fn run(topology: &Topology, config: &Config) -> Outcome {
    try_run(topology, config).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs a configuration in all kinds of switches that its marking rule supports. Checks that both schedulers
/// return the same summary. Returns the name and the outcome for each kind.
pub fn run_in_all_switches(topology: &Topology, config: &Config) -> Vec<(&'static str, Outcome)> {
    let marking = config.components().marking;
    let kinds = [
        ("voq", Architecture::Voq, Queues::PerOutput, Arbitration::RoundRobin),
        ("fcfs", Architecture::Voq, Queues::PerOutput, Arbitration::Fcfs),
        ("voqnet", Architecture::Voq, Queues::PerDestination, Arbitration::RoundRobin),
        ("iq", Architecture::Iq, Queues::Single, Arbitration::RoundRobin),
        ("cioq", Architecture::Cioq, Queues::Single, Arbitration::RoundRobin),
    ];
    let fits = |&(_, architecture, _, arbitration): &(_, Architecture, _, Arbitration)| {
        (architecture == Architecture::Cioq || !marking.needs_output_buffers())
            && (arbitration == Arbitration::RoundRobin || !marking.needs_input_queues())
    };
    let run_in = |(name, architecture, queues, arbitration)| {
        let mut config = config.clone();
        config.switch.architecture = Some(architecture);
        config.switch.queues = Some(queues);
        config.switch.arbitration = Some(arbitration);
        let with =
            |scheduler| run(topology, &Config { scheduler, ..config.clone() }).regardless_of_scheduler();
        let outcome = with(Scheduler::BinnedIfPossible);
        assert_eq!(outcome.summary, with(Scheduler::EventOrdered).summary, "{name}: the schedulers disagree");
        (name, outcome)
    };
    kinds.into_iter().filter(fits).map(run_in).collect()
}

/// The mean latency of packets since their injection, in microseconds.
pub fn mean_latency_us(outcome: &Outcome) -> f64 {
    let counted = || outcome.summary.latency.iter().filter(|latency| latency.since == "injection");
    let packets: u64 = counted().map(|latency| latency.count).sum();
    counted().map(|latency| latency.mean_ns * latency.count as f64).sum::<f64>() / packets as f64 / 1_000.0
}

/// Received Gbit/s of each named flow.
pub fn rates(outcome: &Outcome) -> Vec<f64> {
    outcome.summary.flows.iter().map(|flow| flow.received_gbit_s).collect()
}

/// The testbed of Papers I to III with its five flows, all of which start at time 0.
pub fn testbed(duration: Time) -> (Topology, Config) {
    let topology = topology(r#"{"kind": "dumbbell"}"#);
    let mut config = config(duration);
    config.host.injection_rate = Some(Rate::from_gbit(13));
    config.host.drain_rate = Some(Rate::from_gbit(13));
    let pairs = [("H1", "H4"), ("H2", "H5"), ("H3", "H5"), ("H6", "H5"), ("H7", "H5")];
    config.flows = pairs.map(|(from, to)| Flow { message: Some(Bytes(65_536)), ..flow(from, to) }).into();
    (topology, config)
}

pub fn assert_near(value: f64, expected: f64, relative: f64, what: &str) {
    let off = (value / expected - 1.0).abs();
    assert!(off <= relative, "{what}: {value} instead of {expected} (off by {:.3} %)", 100.0 * off);
}

/// A random connected graph of switches with hosts, as JSON of a custom topology.
pub fn random_network(seed: &[u8], switches: usize, hosts: usize) -> String {
    let pick = |at: usize, bound: usize| usize::from(seed[at % seed.len()]) % bound.max(1);
    let rates = ["8 Gbit/s", "16 Gbit/s", "13 Gbit/s", "32 Gbit/s"];
    let mut links = Vec::new();
    for host in 0..hosts {
        let (switch, rate) = (pick(host, switches), rates[pick(host + 7, 4)]);
        links.push(format!(r#"{{"from": "H{host}", "to": "S{switch}", "rate": "{rate}"}}"#));
    }
    for switch in 1..switches {
        let (other, rate) = (pick(switch + 13, switch), rates[pick(switch + 17, 4)]);
        links.push(format!(r#"{{"from": "S{switch}", "to": "S{other}", "rate": "{rate}"}}"#));
    }
    for extra in 0..pick(23, 3) {
        let (a, b) = (pick(extra + 29, switches), pick(extra + 31, switches));
        if a != b {
            links.push(format!(r#"{{"from": "S{a}", "to": "S{b}"}}"#));
        }
    }
    let hosts: Vec<String> = (0..hosts).map(|host| format!("\"H{host}\"")).collect();
    let switches: Vec<String> =
        (0..switches).map(|switch| format!(r#"{{"name": "S{switch}", "ports": 24}}"#)).collect();
    format!(
        r#"{{"kind": "custom", "hosts": [{}], "switches": [{}], "links": [{}]}}"#,
        hosts.join(","),
        switches.join(","),
        links.join(",")
    )
}

/// A random network whose switches have one architecture, with flows and uniform traffic.
#[derive(Debug, Clone)]
pub struct RandomLoad {
    /// The first argument of [`random_network`].
    pub seed: Vec<u8>,
    pub switches: usize,
    pub hosts: usize,
    pub lanes: u8,
    /// Selects one of three architectures.
    pub architecture: usize,
    /// Whether InfiniBand's congestion control is used, if the architecture supports its marks.
    pub cc: bool,
    /// Bytes of the messages of flows.
    pub message: u64,
    /// The source and the destination, each modulo the number of hosts, and the service level.
    pub flows: Vec<(usize, usize, u8)>,
    /// The end of flows.
    pub stop: Time,
    /// The end of uniform traffic.
    pub uniform_stop: Time,
}

/// Runs a random load with a configuration that `set` completes.
pub fn run_random_load(
    duration: Time,
    load: RandomLoad,
    set: impl FnOnce(&mut Config),
) -> Result<Outcome, ModelError> {
    let RandomLoad { switches, hosts, lanes, architecture, message, stop, uniform_stop, .. } = load;
    let topology = topology(&random_network(&load.seed, switches, hosts));
    let mut config = config(duration);
    config.lanes.count = lanes;
    config.packet.header = Bytes(30);
    let architecture = [Architecture::Voq, Architecture::Iq, Architecture::Cioq][architecture];
    config.switch.architecture = Some(architecture);
    if load.cc && architecture != Architecture::Cioq {
        config.congestion = ib_cc();
    }
    for (from, to, sl) in load.flows {
        let (from, to) = (from % hosts, to % hosts);
        if from != to {
            let name = Some(format!("f{}", config.flows.len()));
            let flow = flow(&format!("H{from}"), &format!("H{to}"));
            config.flows.push(Flow { name, message: Some(Bytes(message)), stop: Some(stop), sl, ..flow });
        }
    }
    let mut uniform = pattern(Pattern::Uniform { include_self: false });
    (uniform.stop, uniform.start) = (Some(uniform_stop), Time::from_ns(500));
    config.traffic = vec![uniform];
    set(&mut config);
    try_run(&topology, &config)
}

/// An event of a link, which is given by a host or a port at one of its ends.
pub fn event(kind: EventKind, link: &str, start: Time, lasts: Time) -> Event {
    Event {
        name: None,
        kind,
        links: vec![link.to_owned()],
        switches: Vec::new(),
        hosts: Vec::new(),
        rate: None,
        width: None,
        shared: false,
        loss_ppb: None,
        start,
        lasts: Some(lasts),
        every: None,
        jitter: None,
        mean_time_between: None,
    }
}
