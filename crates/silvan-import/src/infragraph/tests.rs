//! Tests of infrastructures in the format of InfraGraph.

use proptest::prelude::*;
use silvan_engine::{Rate, Time};
use silvan_network::traffic::{InnerLinks, PortUse};

use super::*;

/// Two hosts of two xpu components and two adapters, and a switch for each adapter of a host.
const RAILS: &str = "\
name: pair
devices:
- name: box
  components:
  - {name: gpu, count: 2, choice: xpu}
  - {name: nic, count: 2, choice: nic}
  links:
  - {name: bus, physical: {bandwidth: {choice: gigabytes_per_second, gigabytes_per_second: 48}, latency: {choice: ns, ns: 300}}}
  edges:
  - {ep1: {component: gpu}, ep2: {component: nic}, scheme: one2one, link: bus}
- name: leaf
  components: [{name: port, count: 3, choice: port}, {name: asic, count: 1, choice: cpu}]
  links: [{name: inside}]
  edges:
  - {ep1: {component: port}, ep2: {component: asic}, scheme: many2many, link: inside}
links:
- {name: cable, physical: {bandwidth: {choice: gigabits_per_second, gigabits_per_second: 100}, latency: {choice: us, us: 0.4}}}
instances: [{name: host, device: box, count: 2}, {name: rail, device: leaf, count: 2}]
edges:
- {ep1: {instance: host, component: \"nic[0]\"}, ep2: {instance: \"rail[0]\", component: \"port[1:3]\"}, scheme: one2one, link: cable}
- {ep1: {instance: \"host[:2]\", component: \"nic[1]\"}, ep2: {instance: \"rail[1]\", component: \"port[:2]\"}, scheme: one2one, link: cable}
- {ep1: {instance: \"rail[0]\", component: \"port[0]\"}, ep2: {instance: \"rail[1]\", component: \"port[2]\"}, scheme: many2many, link: cable}
";

pub(super) fn read(text: &str) -> Result<Wiring, String> {
    parse(text, "t", Options::default()).map_err(|error| error.to_string())
}

/// Asserts that a text in which the first part is replaced by the second gives the third as its error.
pub(super) fn assert_errors(text: &str, cases: &[(&str, &str, &str)]) {
    for &(old, new, expected) in cases {
        assert!(text.contains(old), "{old}");
        assert_eq!(read(&text.replacen(old, new, 1)).err().as_deref(), Some(expected), "{new}");
    }
}

#[test]
fn instances_are_hosts_with_ports_and_switches() {
    assert_eq!(read(&RAILS.replace("choice: nic", "choice: nic, nic: {}")), read(RAILS));
    assert!(is_infragraph(RAILS) && !is_infragraph("devices:\n- a\ninstances: 3\n"));
    let Wiring { topology, ports, notes, .. } = read(RAILS).unwrap();
    let wiring = topology.wiring();
    let far = |port: u32| {
        let (end, link) = wiring.hosts[port as usize].unwrap();
        (topology.hosts[port as usize].name.as_str(), topology.port_name(end), topology.links[link].delay)
    };
    let ends: Vec<_> = topology
        .machines
        .iter()
        .map(|one| one.ports.iter().map(|&port| far(port)).collect::<Vec<_>>())
        .collect();
    let delay = Time::from_ns(400);
    let of = |port: &'static str, far: &str| (port, far.to_owned(), delay);
    let expected: [Vec<_>; 2] = [
        vec![of("host.0.nic.0", "rail.0:2"), of("host.0.nic.1", "rail.1:1")],
        vec![of("host.1.nic.0", "rail.0:3"), of("host.1.nic.1", "rail.1:2")],
    ];
    assert_eq!(ends, expected);
    assert_eq!(
        (topology.links.len(), topology.switches[0].ports, topology.links[4].rate),
        (5, 3, Rate::from_gbit(100))
    );
    let inner = InnerLinks { rate: Rate::from_gbit(8 * 48), latency: Time::from_ns(600) };
    assert_eq!(ports, FilePorts { used: Some(PortUse::Rank), inner: Some(inner) });
    assert_eq!(notes, ["messages within `box` use its links `bus`, 384 Gbit/s of each xpu component"]);
}

#[test]
fn two_servers_on_two_rails_have_four_links() {
    let text =
        RAILS.replace("count: 3, choice: port", "count: 2, choice: port").replace("port[1:3]", "port[0:2]");
    let text: Vec<&str> = text.lines().take(21).collect();
    let Wiring { topology, .. } = read(&text.join("\n")).unwrap();
    assert_eq!((topology.machines.len(), topology.hosts.len(), topology.links.len()), (2, 4, 4));
    assert_eq!(topology.switches.iter().map(|switch| switch.ports).collect::<Vec<_>>(), [2, 2]);
}

#[test]
fn json_gives_the_same_network() {
    let json = serde_json::json!({
        "name": "pair",
        "devices": [
            {"name": "box", "components": [{"name": "nic", "count": 2, "choice": "nic"}]},
            {"name": "leaf", "components": [{"name": "port", "count": 4, "choice": "port"}]},
        ],
        "links": [{"name": "cable", "physical": {"bandwidth": {"choice": "gigabits_per_second", "gigabits_per_second": 100}}}],
        "instances": [{"name": "host", "device": "box", "count": 2}, {"name": "sw", "device": "leaf", "count": 1}],
        "edges": [{
            "ep1": {"instance": "host", "component": "nic"}, "ep2": {"instance": "sw", "component": "port"},
            "scheme": "one2one", "link": "cable",
        }],
    });
    for text in [json.to_string(), serde_json::to_string_pretty(&json).unwrap().replace("  ", "\t")] {
        assert!(is_infragraph(&text));
        let Wiring { topology, ports, .. } = read(&text).unwrap();
        let name = |port: &u32| topology.hosts[*port as usize].name.clone();
        let names: Vec<_> = topology.machines[1].ports.iter().map(name).collect();
        assert_eq!(names, ["host.1.nic.0", "host.1.nic.1"]);
        assert_eq!((ports, topology.links[0].delay), (FilePorts::default(), Time::from_ns(20)));
    }
}

#[test]
fn the_fastest_links_connect_ranks() {
    let with = |edges: &str| {
        let links = "  - {name: direct, physical: {bandwidth: {choice: gigabytes_per_second, gigabytes_per_second: 100}}}\n  - {name: slow}\n";
        let text = RAILS.replace(
            "  edges:\n  - {ep1: {component: gpu}",
            &format!("{links}  edges:\n{edges}  - {{ep1: {{component: gpu}}"),
        );
        read(
            &text
                .replace("gpu, count: 2", "gpu, count: 4")
                .replace("scheme: one2one, link: bus", "scheme: many2many, link: bus"),
        )
    };
    let each = "  - {ep1: {component: gpu}, ep2: {component: gpu}, scheme: many2many, link: direct}\n";
    let inner = with(each).unwrap().ports.inner.unwrap();
    assert_eq!(
        inner,
        InnerLinks { rate: Rate::from_gbit(3 * 800), latency: Time::ZERO },
        "three links of each"
    );
    let slow = with(&each.replace("link: direct", "link: slow")).unwrap().ports.inner.unwrap();
    assert_eq!(slow, InnerLinks { rate: Rate::from_gbit(2 * 384), latency: Time::from_ns(600) });
    let uneven = each.replace("{component: gpu}, ep2", "{component: \"gpu[0]\"}, ep2");
    assert_eq!(
        with(&uneven).unwrap_err(),
        "t:3: the xpu components 0 and 1 of `box` have 3 and 1 links `direct`; those of all must be equal"
    );
}

/// Two servers with two boards of two xpu components, and two cards of two ports, which plug into transceivers.
const NESTED: &str = "\
name: nested
devices:
- name: server
  components:
  - {name: board, count: 2, choice: device}
  - {name: card, count: 2, choice: device}
  - {name: slot, count: 2, choice: custom, custom: {type: pcie_slot}}
  links: [{name: bus}]
  edges:
  - {ep1: {device: \"card[0:2]\", component: \"edge[0]\"}, ep2: {component: slot}, scheme: one2one, link: bus}
- name: card
  components: [{name: edge, count: 1, choice: custom, custom: {type: pcie}}, {name: port, count: 2, choice: port}, {name: plug, count: 2, choice: device}]
  links: [{name: lanes}]
  edges:
  - {ep1: {component: port}, ep2: {component: plug.front}, scheme: one2one, link: lanes}
- name: plug
  components: [{name: front, count: 1, choice: port}, {name: back, count: 1, choice: port}]
- name: board
  components: [{name: xpu, count: 2, choice: xpu}, {name: nvsw, count: 1, choice: switch}]
  links: [{name: nvlink, physical: {bandwidth: {choice: gigabytes_per_second, gigabytes_per_second: 450}}}]
  edges:
  - {ep1: {component: xpu}, ep2: {component: nvsw}, scheme: many2many, link: nvlink}
- name: leaf
  components: [{name: asic, count: 1, choice: switch}, {name: cage, count: 4, choice: device}]
- name: cage
  components: [{name: port, count: 2, choice: port}]
instances: [{name: host, device: server, count: 2}, {name: sw, device: leaf, count: 1}]
links: [{name: cable, physical: {bandwidth: {choice: gigabits_per_second, gigabits_per_second: 100}}}]
edges:
- {ep1: {instance: host, component: \"card.plug.back\"}, ep2: {instance: sw, component: \"cage[0:4].port[0:2]\"}, scheme: one2one, link: cable}
";

#[test]
fn devices_within_devices_have_ports_and_links() {
    let Wiring { topology, ports, notes, .. } = read(NESTED).unwrap();
    let wiring = topology.wiring();
    let ends: Vec<(&str, String)> = topology
        .hosts
        .iter()
        .zip(&wiring.hosts)
        .map(|(host, end)| (host.name.as_str(), topology.port_name(end.unwrap().0)))
        .collect();
    let expected: Vec<(String, String)> = (0..8)
        .map(|at| {
            let (host, card, plug) = (at / 4, at / 2 % 2, at % 2);
            (format!("host.{host}.card.{card}.plug.{plug}.back.0"), format!("sw.0:{}", at + 1))
        })
        .collect();
    let ends: Vec<(String, String)> = ends.into_iter().map(|(host, port)| (host.to_owned(), port)).collect();
    assert_eq!(ends, expected);
    assert_eq!((topology.machines.len(), topology.switches[0].ports), (2, 8));
    // Each of four xpu components has a link to the switch of its board, and a port of its own.
    let inner = InnerLinks { rate: Rate::from_gbit(8 * 450), latency: Time::ZERO };
    assert_eq!(ports, FilePorts { used: Some(PortUse::Rank), inner: Some(inner) });
    assert_eq!(notes, ["messages within `server` use its links `nvlink`, 3.6 Tbit/s of each xpu component"]);
}

#[test]
fn errors_in_nested_devices_state_the_line() {
    let cases = [
        ("plug.back", "plug.side", "t:30: device `server` has no component `card.plug.side`"),
        ("plug.back", "plug", "t:30: device `server` has no component `card.plug`"),
        (
            "cage[0:4]",
            "cage[0:5]",
            "t:30: `cage[0:5].port[0:2]` is out of range: there are 4, numbered from 0",
        ),
        (
            "component: plug.front}",
            "component: \"plug[2].front\"}",
            "t:15: `card[0].plug[2].front` is out of range: there are 2, numbered from 0",
        ),
        ("plug, count: 2", "plug, count: 40000", "t:3: device `server` has more than 65536 components"),
        (
            "{name: back, count: 1, choice: port}",
            "{name: card, count: 1, choice: device}",
            "t:17: device `card` contains itself",
        ),
        (
            "scheme: many2many, link: nvlink",
            "scheme: many2many, link: lanes",
            "t:22: device `board` has no link `lanes`",
        ),
        (
            "card.plug.back\"}",
            "card[0].plug[0].back\"}, x: 1",
            "t:30: `x` is no key of an edge; known: ep1, ep2, scheme, link",
        ),
    ];
    assert_errors(NESTED, &cases);
}

#[test]
fn choices_without_a_value_are_not_given() {
    let given =
        "bandwidth: {choice: gigabytes_per_second, gigabytes_per_second: 48}, latency: {choice: ns, ns: 300}";
    let without = |bandwidth: &str| format!("bandwidth: {{choice: {bandwidth}}}, latency: {{choice: ns}}");
    for unit in ["gigabytes_per_second", "gigatransfers_per_second"] {
        let Wiring { ports, notes, .. } = read(&RAILS.replace(given, &without(unit))).unwrap();
        assert_eq!((ports.inner, notes.len()), (None, 1), "{notes:?}");
    }
    let other = RAILS.replace("choice: us, us: 0.4", "choice: us, ns: 400");
    assert_eq!(read(&other).unwrap_err(), "t:17: latency lacks the key us");
}

#[test]
fn transfers_per_second_within_devices_are_noted() {
    let within = "choice: gigabytes_per_second, gigabytes_per_second: 48}";
    let text = RAILS.replace(within, "choice: gigatransfers_per_second, gigatransfers_per_second: 32}");
    let Wiring { ports, notes, .. } = read(&text).unwrap();
    assert_eq!(ports.inner, None);
    assert_eq!(
        notes,
        [
            "not used: bandwidths of links within devices in gigatransfers_per_second, which states no number of lanes, such as \
             that of `bus` in line 8",
            "the links of xpu components in `box` have no bandwidth, so messages within a host are copied (job.memory_rate)",
        ]
    );
}

#[test]
fn edges_within_devices_are_limited() {
    let edge = "  - {ep1: {component: xpu}, ep2: {component: nvsw}, scheme: many2many, link: nvlink}\n";
    let text = NESTED.replace("board, count: 2", "board, count: 16000").replace(edge, &edge.repeat(66));
    assert_eq!(
        read(&text).unwrap_err(),
        "t:3: device `server` has more than 1048576 edges with those of devices within"
    );
}

#[test]
fn names_of_links_within_devices_are_limited() {
    let names: Vec<String> = (0..257).map(|at| format!("bus{at}")).collect();
    let links: String = names.iter().map(|name| format!("  - {{name: {name}}}\n")).collect();
    let edge = |name| {
        format!("  - {{ep1: {{component: gpu}}, ep2: {{component: nic}}, scheme: one2one, link: {name}}}\n")
    };
    let edges: String = names.iter().map(edge).collect();
    let text = RAILS.replace(
        "  edges:\n  - {ep1: {component: gpu}",
        &format!("{links}  edges:\n{edges}  - {{ep1: {{component: gpu}}"),
    );
    assert_eq!(
        read(&text).unwrap_err(),
        "t:523: the edges of device `box` have links of more than 256 names"
    );
}

#[test]
fn rings_connect_each_endpoint_with_the_next_one() {
    // Four switches in a ring, each with a host.
    let text = "\
devices:
- {name: box, components: [{name: nic, count: 1, choice: nic}]}
- {name: leaf, components: [{name: asic, count: 1, choice: switch}]}
links: [{name: cable, physical: {bandwidth: {choice: gigabits_per_second, gigabits_per_second: 100}}}]
instances: [{name: host, device: box, count: 4}, {name: sw, device: leaf, count: 4}]
edges:
- {ep1: {instance: host, component: nic}, ep2: {instance: sw, component: asic}, scheme: one2one, link: cable}
- {ep1: {instance: sw, component: asic}, ep2: {instance: sw, component: asic}, scheme: ring, link: cable}
";
    let links = |text: &str| -> Vec<(String, String)> {
        let topology = read(text).unwrap().topology;
        topology.links[4..]
            .iter()
            .map(|link| (topology.port_name(link.a), topology.port_name(link.b)))
            .collect()
    };
    let named = |list: &[(&str, &str)]| -> Vec<(String, String)> {
        list.iter().map(|&(one, other)| (one.to_owned(), other.to_owned())).collect()
    };
    let ring =
        named(&[("sw.0:2", "sw.1:2"), ("sw.1:3", "sw.2:2"), ("sw.2:3", "sw.3:2"), ("sw.3:3", "sw.0:3")]);
    assert_eq!(links(text), ring);
    // Two lists form one ring; two endpoints have one link.
    let halves = text.replace(
        "ep1: {instance: sw, component: asic}, ep2: {instance: sw, component: asic}",
        "ep1: {instance: \"sw[0:2]\", component: asic}, ep2: {instance: \"sw[2:4]\", component: asic}",
    );
    assert_eq!(links(&halves), ring);
    let pair = read(&text.replace("count: 4", "count: 2")).unwrap().topology;
    assert_eq!(pair.links.len(), 3);
    // Within a device: each xpu component has two links.
    let inside = RAILS.replace("gpu, count: 2", "gpu, count: 4").replace(
        "ep1: {component: gpu}, ep2: {component: nic}, scheme: one2one",
        "ep1: {component: gpu}, ep2: {component: gpu}, scheme: ring",
    );
    let inner = read(&inside).unwrap().ports.inner.unwrap();
    assert_eq!(inner, InnerLinks { rate: Rate::from_gbit(2 * 384), latency: Time::from_ns(300) });
}

#[test]
fn names_are_plain_text() {
    let text = RAILS.replace("{name: rail,", "{name: \"ra\\eil\",").replace("\"rail[", "\"ra\\eil[");
    let message = read(&text).unwrap_err();
    assert!(message.ends_with(".0` contains a control character; write plain text"), "{message}");
    assert!(!message.contains(char::is_control), "{message:?}");
}

#[test]
fn what_remains_of_a_list_is_noted() {
    let text =
        RAILS.replace("\"port[1:3]\"", "port").replace("component: \"port[0]\"", "component: \"port[2]\"");
    let notes = read(&text).unwrap().notes;
    assert_eq!(notes[0], "line 20: the shorter list of one2one has 2, so 1 of `rail[0] port` have no edge");
    let more = RAILS
        .replace("rail, device: leaf, count: 2", "rail, device: leaf, count: 3")
        .replace("instance: host, component", "instance: host[0], component");
    let more = more.replace("\"host[:2]\"", "\"host[1]\"").replace("instance: host[0]", "instance: \"host[0]\"") + "\
- {ep1: {instance: \"host[0]\", component: \"nic[1]\"}, ep2: {instance: \"rail[2]\", component: port}, scheme: one2one, link: cable}
- {ep1: {instance: \"host[1]\", component: \"nic[0]\"}, ep2: {instance: \"rail[2]\", component: \"port[1]\"}, scheme: one2one, link: cable}
";
    assert_eq!(
        read(&more).unwrap().notes[0],
        "line 20: the shorter list of one2one has 1, so 1 of `rail[0] port[1:3]` have no edge; 2 more edges leave endpoints without a link"
    );
    let text = RAILS.replace("\"nic[1]\"", "\"nic[0:2]\"").replace("\"port[:2]\"", "port");
    assert_eq!(read(&text).unwrap_err(), "t:21: `host.0.nic.0` has a second edge; a port has one link");
}

#[test]
fn errors_state_the_line() {
    let cases = [
        (
            "choice: xpu",
            "choice: tpu",
            "t:5: the choice is `tpu`; must be one of custom, cpu, xpu, npu, nic, memory, port, switch, device",
        ),
        (
            "choice: xpu",
            "type: xpu",
            "t:5: `type` belongs to an older dialect of InfraGraph; instead, write choice",
        ),
        (
            "  edges:\n  - {ep1: {component: gpu}",
            "  connections:\n  - {ep1: {component: gpu}",
            "t:10: `connections` belongs to an older dialect of InfraGraph; instead, write edges with ep1, ep2, scheme and link",
        ),
        (
            "physical: {bandwidth: {choice: gigabits_per_second, gigabits_per_second: 100}, latency",
            "bandwidth: {choice: gigabits_per_second, gigabits_per_second: 100, latency",
            "t:17: `bandwidth` belongs to an older dialect of InfraGraph; instead, write physical.bandwidth with a choice",
        ),
        (
            "choice: xpu",
            "choice: device",
            "t:5: component `gpu` is a device, but there is no device of this name",
        ),
        ("gpu, count: 2", "gpu, count: 0", "t:5: count is `0`; must be a number of at least 1"),
        ("gpu, count: 2", "gpu, count: 70000", "t:3: device `box` has more than 65536 components"),
        (
            "name: gpu, count: 2, choice: xpu",
            "name: box, count: 2, choice: device",
            "t:5: device `box` contains itself",
        ),
        (
            "name: gpu, count: 2",
            "name: gpu.0, count: 2",
            "t:5: the name `gpu.0` contains a dot or bracket, which divide the parts of endpoints",
        ),
        ("gpu, count: 2", "nic, count: 2", "t:3: the name `nic` is already used in line 3"),
        ("count: 2, choice: xpu", "choice: xpu", "t:5: a component lacks the key count"),
        (
            "choice: gigabits_per_second, giga",
            "choice: giga_bits_per_second, giga",
            "t:17: the choice of bandwidth is `giga_bits_per_second`; must be gigabits_per_second or gigabytes_per_second",
        ),
        (
            "choice: gigabits_per_second, gigabits_per_second",
            "choice: gigatransfers_per_second, gigatransfers_per_second",
            "t:17: gigatransfers_per_second states no number of lanes; use gigabytes_per_second",
        ),
        (
            "gigabits_per_second: 100",
            "gigabits_per_second: 0",
            "t:17: gigabits_per_second is `0`; must be a number of more than 0",
        ),
        ("us: 0.4", "us: 2e6", "t:17: the latency must be 1 ps to 1 s"),
        ("us: 0.4", "us: 0", "t:17: us is `0`; must be a number of more than 0"),
        ("device: box, count: 2", "device: crate, count: 2", "t:18: there is no device `crate`"),
        ("{name: rail", "{name: host", "t:18: the name `host` is already used in line 18"),
        (
            "count: 2}, {name: rail",
            "count: 300000}, {name: rail",
            "t:18: 300000 hosts and 0 switches; at most 200000 and 100000 are possible",
        ),
        (
            "scheme: many2many, link: cable",
            "scheme: star, link: cable",
            "t:22: the scheme is `star`; must be one2one, many2many or ring",
        ),
        ("scheme: many2many, link: cable", "scheme: many2many, link: wire", "t:22: there is no link `wire`"),
        ("instance: host, component", "instance: server, component", "t:20: there is no instance `server`"),
        ("component: \"nic[0]\"", "component: \"hca[0]\"", "t:20: device `box` has no component `hca`"),
        ("\"nic[0]\"", "\"nic[2]\"", "t:20: `nic[2]` is out of range: there are 2, numbered from 0"),
        ("\"port[1:3]\"", "\"port[2:4]\"", "t:20: `port[2:4]` is out of range: there are 3, numbered from 0"),
        (
            "\"port[1:3]\"",
            "\"port[-1]\"",
            "t:20: `port[-1]` must be a name with a slice, such as nic, nic[1] or nic[0:2]",
        ),
        (
            "component: \"port[0]\"",
            "component: \"port[1]\"",
            "t:22: `rail.0.port.1` has a second edge; a port has one link",
        ),
        (
            "{ep1: {instance: \"rail[0]\", component: \"port[0]\"}",
            "{ep1: {instance: \"rail[0]\", device: leaf, component: \"port[0]\"}",
            "t:22: device `leaf` has no component `leaf.port`",
        ),
        (
            "ep1: {component: gpu}",
            "ep1: {instance: host, component: gpu}",
            "t:10: the endpoint names an instance; an edge within a device has components only",
        ),
        (
            "name: pair",
            "title: pair",
            "t:1: `title` is no key of an infrastructure; known: name, description, devices, links, instances, edges, annotations",
        ),
        ("links: [{name: inside}]", "links: inside", "t:13: links must be a list"),
    ];
    assert_errors(RAILS, &cases);
    let text = RAILS.replace(", physical: {bandwidth: {choice: gigabits_per_second, gigabits_per_second: 100}, latency: {choice: us, us: 0.4}}", "");
    assert_eq!(
        read(&text).unwrap_err(),
        "t:20: link `cable` has no bandwidth; add physical.bandwidth to it, or set a default rate"
    );
    let options = Options { default_rate: Some(Rate::from_gbit(50)), ..Options::default() };
    assert_eq!(parse(&text, "t", options).unwrap().topology.links[0].rate, Rate::from_gbit(50));
}

proptest! {
    /// Damaged files give an error or a valid topology, but never a panic.
    #[test]
    fn damaged_files_never_cause_a_panic(
        is_nested in any::<bool>(),
        cuts in prop::collection::vec((0..NESTED.len(), 0..12usize, "[a-z0-9:,.\\[\\]{} \n-]{0,6}"), 0..4)
    ) {
        let mut text = if is_nested { NESTED } else { RAILS }.to_owned();
        for (at, length, insert) in cuts {
            let at = at.min(text.len());
            let end = (at + length).min(text.len());
            if text.is_char_boundary(at) && text.is_char_boundary(end) {
                text.replace_range(at..end, &insert);
            }
        }
        if let Ok(wiring) = read(&text) {
            prop_assert_eq!(wiring.topology.validate(), Ok(()));
        }
    }
}
