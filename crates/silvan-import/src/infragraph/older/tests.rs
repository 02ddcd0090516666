//! Tests of the older dialects of InfraGraph.

use proptest::prelude::*;
use silvan_engine::{Rate, Time};
use silvan_network::topology::Topology;
use silvan_network::traffic::{InnerLinks, PortUse};

use crate::infragraph::is_infragraph;
use crate::infragraph::tests::{assert_errors, read};
use crate::{FilePorts, Wiring};

/// Two hosts of two xpu components and two adapters on two leaves, and a spine. The counts of adapters, ports and leaves are
/// those of the connections.
const CLOS: &str = "\
infrastructure:
  name: small
  devices:
  - name: box
    components:
    - {name: gpu, type: xpu, count: 2}
    - {name: nic, type: nic, external: true}
    - {name: nvsw, type: custom}
    links:
    - {name: bus, description: PCIe, bandwidth: {choice: giga_transfers_per_second, giga_transfers_per_second: 32}}
    - {name: fast, physical: {bandwidth: {g_bytes_per_second: 300}, latency: {choice: ns, ns: 250}}}
    connections:
    - gpu.0.bus.nic.0
    - gpu.1.bus.nic.1
    - gpu.0.fast.nvsw.0
    - gpu.1.fast.nvsw.0
  - name: crossbar
    components: [{name: asic, type: custom}, {name: port, type: nic, external: true}]
    links: [{name: ic}]
    connections: [asic.0.ic.port.0, asic.0.ic.port.3]
  instances:
  - {name: host, device: box, count: 2}
  - {name: leaf, device: crossbar}
  - {name: spine, device: crossbar}
  links:
  - {name: down, bandwidth: {choice: gigabits_per_second, gigabits_per_second: 200}}
  - {name: up, bandwidth: {giga_bytes_per_second: 50}, latency: {choice: us, us: 0.6}}
  connections:
  - host.0.nic.0.down.leaf.0.port.0
  - host.1.nic.0.down.leaf.0.port.1
  - host.0.nic.1.down.leaf.1.port.0
  - host.1.nic.1.down.leaf.1.port.1
  - leaf.0.port.3.up.spine.0.port.0
  - leaf.1.port.3.up.spine.0.port.1
";

/// The ends of each link, its rate and delay.
fn links(topology: &Topology) -> Vec<(String, String, Rate, Time)> {
    let name = |end| topology.port_name(end);
    topology.links.iter().map(|link| (name(link.a), name(link.b), link.rate, link.delay)).collect()
}

/// The same network in the current dialect.
const CURRENT: &str = "\
name: small
devices:
- name: box
  components:
  - {name: gpu, count: 2, choice: xpu}
  - {name: nic, count: 2, choice: nic}
  - {name: nvsw, count: 1, choice: custom, custom: {type: switch}}
  links:
  - {name: fast, physical: {bandwidth: {choice: gigabytes_per_second, gigabytes_per_second: 300}, latency: {choice: ns, ns: 250}}}
  edges:
  - {ep1: {component: gpu}, ep2: {component: nvsw}, scheme: many2many, link: fast}
- name: crossbar
  components: [{name: asic, count: 1, choice: custom, custom: {type: asic}}, {name: port, count: 4, choice: port}]
instances: [{name: host, device: box, count: 2}, {name: leaf, device: crossbar, count: 2}, {name: spine, device: crossbar, count: 1}]
links:
- {name: down, physical: {bandwidth: {choice: gigabits_per_second, gigabits_per_second: 200}}}
- {name: up, physical: {bandwidth: {choice: gigabytes_per_second, gigabytes_per_second: 50}, latency: {choice: us, us: 0.6}}}
edges:
- {ep1: {instance: host, component: \"nic[0]\"}, ep2: {instance: \"leaf[0]\", component: \"port[0:2]\"}, scheme: one2one, link: down}
- {ep1: {instance: host, component: \"nic[1]\"}, ep2: {instance: \"leaf[1]\", component: \"port[0:2]\"}, scheme: one2one, link: down}
- {ep1: {instance: leaf, component: \"port[3]\"}, ep2: {instance: spine, component: \"port[0:2]\"}, scheme: one2one, link: up}
";

#[test]
fn both_dialects_give_the_same_network() {
    assert!(is_infragraph(CLOS) && is_infragraph(CURRENT));
    let (older, current) = (read(CLOS).unwrap(), read(CURRENT).unwrap());
    assert_eq!(older.topology, current.topology);
    let inner = InnerLinks { rate: Rate::from_gbit(2400), latency: Time::from_ns(500) };
    assert_eq!(older.ports, FilePorts { used: Some(PortUse::Rank), inner: Some(inner) });
    assert_eq!(older.ports, current.ports);
    assert_eq!((older.topology.machines.len(), older.topology.links.len()), (2, 6));
    let found = links(&older.topology);
    let (a, b) = (&found[4].0, &found[4].1);
    assert_eq!((a.as_str(), b.as_str()), ("leaf.0:4", "spine.0:1"));
    assert_eq!((found[4].2, found[4].3), (Rate::from_gbit(400), Time::from_ns(600)));
    assert_eq!(
        older.notes,
        [
            "device `crossbar` in line 17 without xpu, npu and cpu components is a switch, and its nic components are ports",
            "not used: bandwidths of links within devices in gigatransfers_per_second, which states no number of lanes, such as \
             that of `bus` in line 10",
            "messages within `box` use its links `fast`, 2.4 Tbit/s of each xpu component",
        ]
    );
}

#[test]
fn the_content_can_be_at_the_top_and_in_json() {
    let inner: Vec<&str> = CLOS.lines().skip(1).map(|line| &line[2..]).collect();
    let whole = read(CLOS).unwrap().topology;
    assert_eq!(read(&inner.join("\n")).unwrap().topology, whole);
    let json = serde_json::json!({"infrastructure": {
        "devices": [
            {"name": "box", "components": [{"name": "cpu", "type": "cpu"}, {"name": "nic", "type": "nic", "external": true}]},
            {"name": "sw", "components": [{"name": "port", "type": "port"}, {"name": "cpu", "type": "cpu"}]},
        ],
        "instances": [{"name": "host", "device": "box"}, {"name": "leaf", "device": "sw"}],
        "links": [{"name": "cable", "bandwidth": {"g_bits_per_second": 100}}],
        "connections": ["host.0.nic.0.cable.leaf.0.port.0", "leaf.0.port.1.cable.host.1.nic.0"],
    }});
    let Wiring { topology, notes, .. } = read(&json.to_string()).unwrap();
    assert_eq!((topology.hosts.len(), topology.switches[0].ports, notes), (2, 2, vec![]));
    assert_eq!(topology.links[1].rate, Rate::from_gbit(100));
}

#[test]
fn ends_that_are_not_external_and_annotations_are_noted() {
    let text = CLOS.replace("name: asic, type: custom}", "name: asic, type: custom, external: false}");
    let text = text.replace("leaf.1.port.3.up", "leaf.1.asic.0.up") + "  annotations:\n  - {name: places}\n";
    let notes = read(&text).unwrap().notes;
    assert_eq!(notes[0], "not used: annotations in line 36");
    assert_eq!(
        notes[1],
        "connections have 1 ends that are not external, such as `asic` of `crossbar` in line 34"
    );
}

#[test]
fn errors_state_the_line() {
    let cases = [
        (
            "type: xpu",
            "type: tpu",
            "t:6: the type is `tpu`; must be one of custom, cpu, xpu, npu, nic, memory, port, switch",
        ),
        (
            "type: xpu",
            "choice: xpu",
            "t:6: `choice` belongs to the current dialect of InfraGraph; instead, write type",
        ),
        ("type: xpu, count: 2", "count: 2", "t:6: a component lacks the key type"),
        (
            "gpu, type: xpu, count: 2",
            "gpu, type: xpu, count: 0",
            "t:6: count is `0`; must be a number of at least 1",
        ),
        (
            "gpu, type: xpu, count: 2",
            "gpu, type: xpu, count: 1",
            "t:14: `gpu.1` is out of range: there are 1, numbered from 0",
        ),
        ("nic.1\n", "nic.70000\n", "t:4: device `box` has more than 65536 components"),
        ("gpu.1.bus.nic.1", "gpu.1.bus.nic.4294967295", "t:14: `4294967295` must be a number from 0 on"),
        ("external: true", "external: maybe", "t:7: external is `maybe`; must be true or false"),
        (
            "type: xpu, count: 2",
            "type: xpu, components: []",
            "t:6: components within a component are not read; list them with those of the device",
        ),
        (
            "name: nvsw",
            "name: nv.sw",
            "t:8: the name `nv.sw` is empty or contains a dot, which divides connections",
        ),
        ("name: nvsw", "name: nic", "t:8: the name `nic` is already used in line 7"),
        ("name: up", "name: down", "t:27: the name `down` is already used in line 26"),
        (
            "gpu.0.bus.nic.0",
            "gpu.0.bus.nic",
            "t:13: the connection `gpu.0.bus.nic` has 4 parts; must have 5: component.number.link.component.number",
        ),
        ("gpu.0.bus.nic.0", "gpu.0.buses.nic.0", "t:13: device `box` has no link `buses`"),
        ("gpu.0.bus.nic.0", "gpu.0.bus.hca.0", "t:13: device `box` has no component `hca`"),
        ("gpu.0.bus.nic.0", "gpu.0.bus.gpu.0", "t:13: connects a component with itself"),
        ("gpu.0.bus.nic.0", "{ep1: gpu}", "t:13: a connection must be a text or number"),
        (
            "leaf.0.port.3.up.spine.0.port.0",
            "leaf.0.port.3.up.spine.0",
            "t:33: the connection `leaf.0.port.3.up.spine.0` has 7 parts; must have 9: \
             instance.number.component.number.link.instance.number.component.number",
        ),
        ("leaf.0.port.3.up", "leaf.0.port.x.up", "t:33: `x` must be a number from 0 on"),
        (
            "leaf.0.port.3.up",
            "leaf.0.port.0.up",
            "t:33: `leaf.0.port.0` has a second edge; a port has one link",
        ),
        ("leaf.0.port.3.up", "leaf.0.port.3.over", "t:33: there is no link `over`"),
        ("leaf.0.port.3.up", "tor.0.port.3.up", "t:33: there is no instance `tor`"),
        (
            "host.1.nic.0.down.leaf",
            "host.2.nic.0.down.leaf",
            "t:30: `host.2` is out of range: there are 2, numbered from 0",
        ),
        ("leaf.0.port.1\n", "host.1.nic.1\n", "t:30: connects two hosts; a link has a switch at one end"),
        (
            "device: crossbar}\n  - {name: spine",
            "device: bar}\n  - {name: spine",
            "t:23: there is no device `bar`",
        ),
        ("name: spine", "name: leaf", "t:24: the name `leaf` is already used in line 23"),
        (
            "leaf.1.port.3.up.spine.0",
            "leaf.1.port.3.up.spine.100000",
            "t:24: 2 hosts and 100003 switches; at most 200000 and 100000 are possible",
        ),
        (
            "{giga_bytes_per_second: 50}",
            "{choice: peta_bytes_per_second, giga_bytes_per_second: 50}",
            "t:27: the choice of bandwidth is `peta_bytes_per_second`; must be gigabits_per_second or gigabytes_per_second",
        ),
        (
            "{giga_bytes_per_second: 50}",
            "{giga_bytes_per_second: 50, giga_bits_per_second: 400}",
            "t:27: bandwidth lacks the key choice",
        ),
        (
            "{giga_bytes_per_second: 50}",
            "{giga_transfers_per_second: 50}",
            "t:27: gigatransfers_per_second states no number of lanes; use gigabytes_per_second",
        ),
        (
            "{giga_bytes_per_second: 50}",
            "{giga_bytes_per_second: 0}",
            "t:27: gigabytes_per_second is `0`; must be a number of more than 0",
        ),
        (
            "latency: {choice: us, us: 0.6}}",
            "physical: {bandwidth: {g_bytes_per_second: 50}}}",
            "t:27: bandwidth is given twice",
        ),
        (
            ", bandwidth: {giga_bytes_per_second: 50}",
            "",
            "t:33: link `up` has no bandwidth; add bandwidth to it, or set a default rate",
        ),
        (
            "  name: small",
            "  edges: []",
            "t:2: `edges` belongs to the current dialect of InfraGraph; instead, write connections, such as host.0.nic.0.LINK.leaf.0.port.1",
        ),
        (
            "infrastructure:",
            "title: x\ninfrastructure:",
            "t:1: `title` is no key of a file with the key infrastructure; known: infrastructure",
        ),
        (
            "    links: [{name: ic}]",
            "    instances: [{name: tor, count: 2}]",
            "t:19: `instances` is no key of a device; known: name, description, components, links, connections",
        ),
    ];
    assert_errors(CLOS, &cases);
}

proptest! {
    /// Damaged files give an error or a valid topology, but never a panic.
    #[test]
    fn damaged_files_never_cause_a_panic(
        cuts in prop::collection::vec((0..CLOS.len(), 0..12usize, "[a-z0-9:,.\\[\\]{} \n-]{0,6}"), 0..4)
    ) {
        let mut text = CLOS.to_owned();
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
