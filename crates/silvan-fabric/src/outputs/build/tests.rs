//! Tests of each property for which the binned scheduler refuses a network, alone.

use silvan_congestion::{Congestion, Mechanism, Notification};
use silvan_engine::{Bytes, Rate};
use silvan_network::routing::{LaneMaps, Lanes, PathLevels};
use silvan_network::topology::Topology;
use silvan_network::traffic::Flow;

use super::*;
use crate::config::{
    AdaptiveRouting, Architecture, Assignment, Config, Credits, FlowControl, LinkRetry, OnOff, Pfc, RoutePer,
    Scheduler, SharedCredits,
};
use crate::queueing::{Memory, Queues};
use crate::tests::{config, flow, star, topology, try_network};

fn hosts(count: usize) -> Topology {
    topology(&format!(r#"{{"kind": "star", "hosts": {count}}}"#))
}

/// Which scheduler runs a network.
fn choice(topology: &Topology, set: impl FnOnce(&mut Config)) -> Result<(), NotBinned> {
    let mut config = config(Time::from_us(100));
    config.scheduler = Scheduler::BinnedIfPossible;
    config.flows = vec![flow("H1", "H2")];
    set(&mut config);
    try_network(topology, &config).unwrap_or_else(|error| panic!("{error}")).choice
}

/// Checks that a change of a network that bins support is the only reason against them.
fn excludes(reason: NotBinned, set: impl FnOnce(&mut Config)) {
    assert_eq!(choice(&hosts(4), |_| {}), Ok(()));
    assert_eq!(choice(&hosts(4), set), Err(reason));
}

#[test]
fn outputs_that_share_a_read_port_or_a_buffer() {
    let reason = NotBinned::DependentOutputs;
    excludes(reason, |config| config.switch.architecture = Some(Architecture::Iq));
    excludes(reason, |config| config.switch.architecture = Some(Architecture::Cioq));
    excludes(reason, |config| config.switch.queues = Some(Queues::Single));
}

#[test]
fn routes_that_depend_on_loads() {
    let per_packet = AdaptiveRouting { per: RoutePer::Packet, ..AdaptiveRouting::default() };
    excludes(NotBinned::RoutesByLoad, |config| {
        config.adaptive_routing = Some(per_packet);
    });
    excludes(NotBinned::AnnouncedFlows, |config| config.congestion.mechanism = Mechanism::Saa);
}

#[test]
fn lanes_that_switches_choose() {
    let topology = hosts(4);
    let levels = PathLevels::new(&topology, 0).unwrap();
    let maps = LaneMaps::new(&topology, [0; 16]).unwrap();
    excludes(NotBinned::ChosenLanes, |config| {
        config.lanes.assignment = Assignment::Paths;
        config.path_lanes = Some(Arc::new(Lanes { levels, maps, detours: None }));
    });
}

#[test]
fn credit_that_is_not_that_of_a_lane() {
    // The outputs of such switches also depend on each other.
    let divided = star(|config| config.switch.memory = Some(Memory::Divided));
    let ledgers = divided.ctx.links.has_ledgers_of_lanes();
    assert_eq!(ledgers, Err(NotBinned::DividedBuffers));
    excludes(NotBinned::Retry, |config| {
        config.link.retry = Some(LinkRetry::default());
    });
    excludes(NotBinned::SharedCredits, |config| {
        config.lanes.count = 2;
        let shared = Some(SharedCredits::default());
        config.flow_control = FlowControl::Credits(Credits { shared, ..Credits::default() });
    });
}

#[test]
fn hosts_that_may_send_pause_frames() {
    let reason = NotBinned::PausingHosts;
    let pfc = || FlowControl::Pfc(Pfc::default());
    for by_messages in [pfc(), FlowControl::OnOff(OnOff::default())] {
        assert_eq!(choice(&hosts(4), |config| config.flow_control = by_messages), Ok(()));
    }
    excludes(reason, |config| {
        config.flow_control = pfc();
        config.host.drain_rate = Some(Rate::from_gbit(1));
    });
    // A slow drain alone is no reason.
    assert_eq!(choice(&hosts(4), |config| config.host.drain_rate = Some(Rate::from_gbit(1))), Ok(()));
}

#[test]
fn switches_with_as_many_ports_as_a_star_can_have() {
    assert_eq!(choice(&hosts(256), |_| {}), Ok(()));
}

/// Lets switches notify sources themselves.
fn backward(mechanism: Mechanism) -> impl Fn(&mut Config) {
    move |config| {
        config.congestion = Congestion { mechanism, ..Congestion::default() };
        config.congestion.notification = Some(Notification::Backward);
    }
}

#[test]
fn reports_of_packets_that_leave() {
    excludes(NotBinned::ReportsOfDepartures, backward(Mechanism::IbCc));
    assert_eq!(choice(&hosts(4), backward(Mechanism::Qcn)), Ok(()), "these mark packets that arrive");
}

#[test]
fn reports_of_switches_that_stop_their_senders() {
    let both = |config: &mut Config| {
        backward(Mechanism::Qcn)(config);
        config.flow_control = FlowControl::OnOff(OnOff::default());
    };
    assert_eq!(choice(&hosts(4), both), Ok(()), "the events of a switch are in one order");
}

#[test]
fn packets_that_do_not_fit_into_records() {
    let of_size = |mtu| {
        move |config: &mut Config| {
            config.packet.mtu = Bytes(mtu);
            config.switch.buffer = Bytes(1 << 20);
            config.host.buffer = Bytes(1 << 20);
        }
    };
    excludes(NotBinned::LargePackets, of_size(65_536));
    assert_eq!(choice(&hosts(4), of_size(65_000)), Ok(()));
    // Control packets count, too.
    excludes(NotBinned::LargePackets, |config| {
        of_size(2_048)(config);
        config.congestion.mechanism = Mechanism::IbCc;
        config.packet.control = Bytes(65_536);
    });
}

/// Switches with hosts, whose links have `count` different delays.
fn with_delays(count: usize, delay: impl Fn(usize) -> Time) -> Topology {
    let switches = count.div_ceil(60);
    let host_links = (0..count).map(|host| {
        let delay = delay(host).0;
        format!(r#"{{"from": "H{}", "to": "S{}", "delay": "{delay} ps"}}"#, host + 1, host / 60)
    });
    let trunks = (1..switches).map(|switch| {
        let delay = delay(0).0;
        format!(r#"{{"from": "S{}", "to": "S{switch}", "delay": "{delay} ps"}}"#, switch - 1)
    });
    let links: Vec<String> = host_links.chain(trunks).collect();
    let names: Vec<String> = (1..=count).map(|host| format!("\"H{host}\"")).collect();
    let switches: Vec<String> =
        (0..switches).map(|switch| format!(r#"{{"name": "S{switch}", "ports": 64}}"#)).collect();
    topology(&format!(
        r#"{{"kind": "custom", "hosts": [{}], "switches": [{}], "links": [{}]}}"#,
        names.join(","),
        switches.join(","),
        links.join(",")
    ))
}

#[test]
fn links_of_many_kinds() {
    // Each delay occurs towards a host and away from one.
    let delays = |count| with_delays(count, |host| Time::from_ns(100 + host as u64));
    assert_eq!(choice(&delays(127), |_| {}), Ok(()));
    assert_eq!(choice(&delays(128), |_| {}), Err(NotBinned::ManyKindsOfLinks));
}

#[test]
fn delays_without_a_useful_lookahead() {
    let reason = NotBinned::NoLookahead;
    let two = |first, second| with_delays(2, move |host| [first, second][host]);
    let short = Time::from_ns(10);
    assert_eq!(choice(&two(short, Time::from_us(100)), |_| {}), Ok(()));
    assert_eq!(choice(&two(short, Time::from_us(900_000)), |_| {}), Err(reason));
    let without_latency = |config: &mut Config| config.switch.latency = Time::ZERO;
    assert_eq!(choice(&two(Time(63), Time(63)), without_latency), Err(reason));
    assert_eq!(choice(&two(Time(64), Time(64)), without_latency), Ok(()));
}

#[test]
fn traffic_that_waits_and_lanes_without_pause_frames() {
    excludes(NotBinned::AwaitedDeliveries, |config| {
        config.flows.push(Flow { start_after_packets: Some(1), ..flow("H2", "H3") });
    });
    excludes(NotBinned::Drops, |config| {
        config.flow_control = FlowControl::Pfc(Pfc { lossy_lanes: vec![0], ..Pfc::default() });
    });
}

#[test]
fn a_network_in_whose_bins_too_little_happens_is_supported_but_not_worthwhile() {
    let with = |scheduler| move |config: &mut Config| config.scheduler = scheduler;
    assert_eq!(choice(&hosts(2), with(Scheduler::Auto)), Err(NotBinned::FewArrivals));
    assert_eq!(choice(&hosts(2), with(Scheduler::BinnedIfPossible)), Ok(()));
    assert_eq!(choice(&hosts(60), with(Scheduler::Auto)), Ok(()));
    assert_eq!(choice(&hosts(60), with(Scheduler::EventOrdered)), Err(NotBinned::Selected));
}
