//! Tests of the numbers that a network is built with: channels, ports, places and names.

use silvan_congestion::isolation::{Isolation, SpecialQueues};
use silvan_network::traffic::Flow;

use super::*;
use crate::config::{AdaptiveRouting, Ecmp, HostConfig, Lanes};
use crate::tests::{config, flow, network, tables, topology};

const PAIR: &str = r#"{"kind": "dumbbell", "left": 2, "right": 1}"#;

#[test]
fn each_link_has_two_channels_with_consecutive_numbers() {
    let topology = topology(PAIR);
    let network = network(&topology, &config(Time::from_us(10)));
    // There are four links: those of H1, H2 and H3, and the trunk.
    let [first, ..] = &network.partitions[..] else { panic!("there is a partition") };
    let ends: Vec<(ChannelId, ChannelId)> = first.hosts.iter().map(|host| (host.out, host.into)).collect();
    assert!(ends.iter().all(|&(out, into)| out ^ 1 == into), "{ends:?}");
    let names: Vec<&str> = network.names.links.iter().map(String::as_str).collect();
    assert_eq!(names[ends[0].0 as usize], "H1->S1:1");
    assert_eq!(names[ends[0].1 as usize], "S1:1->H1");
    assert_eq!(names.len(), 8);
    assert_eq!(network.receiver[ends[2].0 as usize], Some((1, Port(0))), "H3 sends to port 1 of S2");
    assert_eq!(network.receiver[ends[2].1 as usize], None, "hosts have no inputs");
    // A port receives what the other one sends.
    let (left, right) = (first.ports(0), first.ports(1));
    assert_eq!(left.out(Port(2)), right.feeder(Port(1)));
    assert_eq!(left.feeder(Port(2)), right.out(Port(1)));
    assert_eq!((left.route(2), right.route(0)), (Port(2), Port(1)), "the trunk");
}

#[test]
fn nodes_have_places_in_their_partitions() {
    let mut config = config(Time::from_us(10));
    config.threads = 2;
    let network = network(&topology(PAIR), &config);
    assert_eq!(network.places.switches, [(0, 0), (1, 0)]);
    assert_eq!(network.places.hosts, [(0, 0), (0, 1), (1, 0)]);
    let numbers = |partition: usize| {
        network.partitions[partition].hosts.iter().map(|host| (host.id, host.place)).collect::<Vec<_>>()
    };
    assert_eq!([numbers(0), numbers(1)], [vec![(0, 0), (1, 1)], vec![(2, 0)]]);
    // Events name a node by its place.
    let far = network.partitions[1].hosts[0].into;
    assert_eq!(network.partitions[1].ctx.links.receiving_host(far), 0);
    assert_eq!(network.partitions[1].ctx.links.sending_switch(far), Some((0, Port(0))));
    assert_eq!(network.neighbors.of, [vec![1], vec![0]]);
}

#[test]
fn a_link_is_unwired_where_no_link_is() {
    let network = network(
        &topology(
            r#"{"kind": "custom", "hosts": ["A", "B"], "switches": [{"name": "S", "ports": 5}],
            "links": [{"from": "A", "to": "S:2"}, {"from": "B", "to": "S:5"}]}"#,
        ),
        &config(Time::from_us(10)),
    );
    let ports = network.partitions[0].ports(0);
    let wired: Vec<bool> = ports.wiring.iter().map(Option::is_some).collect();
    assert_eq!(wired, [false, true, false, false, true]);
    assert_eq!((ports.route(0), ports.route(1)), (Port(1), Port(4)));
}

#[test]
fn sizes_have_an_upper_bound() {
    assert_eq!(small(Bytes(1 << 30), "key").unwrap(), 1 << 30);
    assert!(small(Bytes((1 << 30) + 1), "key").unwrap_err().to_string().starts_with("key = "));
    assert!(small(Bytes(1 << 40), "key").is_err());
}

#[test]
fn buffers_are_divided_among_lanes_in_whole_blocks() {
    let mut config = config(Time::from_us(10));
    config.lanes = Lanes { count: 3, ..Lanes::default() };
    config.switch.buffer = Bytes(100_000);
    config.host = HostConfig { buffer: Bytes(50_000), ..HostConfig::default() };
    let network = network(&topology(PAIR), &config);
    let ctx = &network.partitions[0].ctx;
    let host = &network.partitions[0].hosts[0];
    // A third of the buffer, in blocks of 64 bytes.
    assert_eq!(ctx.links.capacity(host.out, Vl(0)), 100_000 / 3 / 64 * 64);
    assert_eq!(ctx.links.capacity(host.into, Vl(2)), 50_000 / 3 / 64 * 64);
}

#[test]
fn destinations_and_classes_are_those_of_the_traffic() {
    let mut config = config(Time::from_us(10));
    let named = |name: &str, from, to| Flow { name: Some(name.into()), ..flow(from, to) };
    config.flows = vec![named("b", "H1", "H3"), named("a", "H1", "H2")];
    let network = network(&topology(PAIR), &config);
    assert_eq!(network.is_destination, [false, true, true]);
    let classes: Vec<&str> = network.totals.classes.iter().map(|class| class.name.as_str()).collect();
    assert_eq!(classes, ["b", "a"], "in the order of the file");
    let sources = &network.partitions[0].hosts[0].sources;
    assert_eq!(
        sources.iter().map(|source| source.class).collect::<Vec<_>>(),
        [1, 0],
        "in the order of names"
    );
}

/// The special queue of a root contains all packets to its destinations. If these have several outputs, the
/// queue can hold more than all queues of the root together.
#[test]
fn special_queues_have_one_output_only_if_destinations_have_one() {
    let topology = topology(r#"{"kind": "k-ary-n-tree", "k": 2, "n": 2}"#);
    let tables = tables(&topology);
    let has_one = |change: &dyn Fn(&mut Config)| {
        let mut config = config(Time::from_us(10));
        let special = SpecialQueues { at_root: true, ..SpecialQueues::default() };
        config.congestion.isolation = Some(Isolation::SpecialQueues(special));
        change(&mut config);
        Builder::new(&topology, &tables, &config, FaultPlan::default()).unwrap().queues_have_one_output()
    };
    assert!(has_one(&|_| ()));
    assert!(!has_one(&|config| config.ecmp = Some(Ecmp::default())));
    assert!(!has_one(&|config| config.adaptive_routing = Some(AdaptiveRouting::default())));
    assert!(!has_one(&|config| config.path_bits = PathBits::PerFlow));
    assert!(has_one(&|config| config.ecmp = Some(Ecmp { enabled: false, ..Ecmp::default() })));
}
