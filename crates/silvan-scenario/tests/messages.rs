//! Pins the exact message of every kind of invalid scenario: position, key, value, and what would be valid.
//! These messages are visible to users.

use crate::common::{BASE, assert_message, check, message};

#[test]
fn errors_of_time_seed_and_names_are_explained() {
    check(&[
        (
            r#"duration = "1 ms""#,
            "duration = 5",
            r#"a.toml:1: duration = 5: must be a time with its unit, such as "150 us""#,
        ),
        (
            r#"duration = "1 ms""#,
            r#"duration = "5""#,
            r#"a.toml:1: duration = "5": not a time: the unit is missing ..."#,
        ),
        (
            r#"duration = "1 ms""#,
            r#"duration = "5 minutes""#,
            r#"a.toml:1: duration = "5 minutes": not a time: unit `minutes` is not one of ps ..."#,
        ),
        (
            r#"duration = "1 ms""#,
            r#"duration = "0 s""#,
            r#"a.toml:1: duration = "0 s": must be more than 0 s and at most 3600 s"#,
        ),
        (
            r#"duration = "1 ms""#,
            r#"duration = "2000000 s""#,
            r#"a.toml:1: duration = "2000000 s": must be more than 0 s and at most 3600 s"#,
        ),
        (
            r#"duration = "1 ms""#,
            r#"duration = "1 ms"#,
            r#"a.toml:1: not valid TOML: invalid basic string, expected `"`"#,
        ),
        (
            r#"duration = "1 ms""#,
            "",
            "a.toml: duration: missing, and needed: Simulated time at which the run ends ...",
        ),
        (
            r#"duration = "1 ms""#,
            r#"duration = "1 ms"
duration = "2 ms""#,
            "a.toml:2: not valid TOML: duplicate key",
        ),
        (
            r#"duration = "1 ms""#,
            r#"duration = "1 ms"
warmup = "1 ms""#,
            r#"a.toml:2: warmup = "1 ms": must be less than the duration, 1 ms"#,
        ),
        (
            r#"duration = "1 ms""#,
            r#"duration = "1 ms"
seed = -1"#,
            "a.toml:2: seed = -1: must be 0 or more",
        ),
        (
            r#"duration = "1 ms""#,
            r#"duration = "1 ms"
seed = "one""#,
            r#"a.toml:2: seed = "one": must be a whole number, 0 or more"#,
        ),
        (
            r#"duration = "1 ms""#,
            r#"duration = "1 ms"
name = 7"#,
            "a.toml:2: name = 7: must be a text in quotes",
        ),
        (
            r#"duration = "1 ms""#,
            r#"duration = "1 ms"
flows = []"#,
            "a.toml:2: flows = a list of 0: unknown key; did you mean `flow`? ...",
        ),
        (
            r#"duration = "1 ms""#,
            r#"duration = "1 ms"
zebra = 1"#,
            "a.toml:2: zebra = 1: unknown key; known here: `name` ...",
        ),
    ]);
}

#[test]
fn errors_of_topology_and_routing_are_explained() {
    check(&[
        (
            r#"kind = "dumbbell""#,
            "",
            "a.toml:2: topology.kind: missing; one of `file`, `dumbbell`, `star`, `pgft`, `k-ary-n-tree`, `k-ary-n-fly`, `modified-k-ary-n-tree`, `two-level-fat-tree`, `fat-tree-648`, `three-level-fat-tree`, `torus`, `mesh`, `hyperx`, `dragonfly`, `dragonfly-plus`, `custom`",
        ),
        (
            r#"kind = "dumbbell""#,
            r#"kind = "dumbell""#,
            r#"a.toml:3: topology.kind = "dumbell": must be one of ...; did you mean `dumbbell`?"#,
        ),
        (r#"kind = "dumbbell""#, "kind = 3", "a.toml:3: topology.kind = 3: must be one of `file` ..."),
        (
            r#"kind = "dumbbell""#,
            r#"kind = "dumbbell"
link_rte = "1 Gbit/s""#,
            r#"a.toml:4: topology.link_rte = "1 Gbit/s": unknown key; did you mean `link_rate`? ..."#,
        ),
        (
            r#"kind = "dumbbell""#,
            r#"kind = "dumbbell"
link_rate = "16 Gbps""#,
            r#"a.toml:4: topology.link_rate = "16 Gbps": not a rate: unit `Gbps` is not one of bit/s ..."#,
        ),
        (
            r#"kind = "dumbbell""#,
            r#"kind = "dumbbell"
left = 0"#,
            "a.toml:4: topology.left = 0: must be 1 to 255",
        ),
        (
            r#"kind = "dumbbell""#,
            r#"kind = "file""#,
            "a.toml:2: topology.file: missing, and needed: The file ...",
        ),
        (
            r#"kind = "dumbbell""#,
            r#"kind = "file"
file = "nowhere.topo""#,
            r#"a.toml:4: topology.file = "nowhere.topo": nowhere.topo: cannot be opened: No such file or directory ..."#,
        ),
        (
            r#"kind = "dumbbell""#,
            r#"kind = "custom"
hosts = ["A"]
switches = []
links = [{ from = "A" }]"#,
            "a.toml:6: topology.links.0.to: missing, and needed: The other end ...",
        ),
        (
            "[congestion]",
            r#"[routing]
kind = "dor"
[congestion]"#,
            r#"a.toml:5: routing.kind = "dor": must be one of ...; it is called `dimension-order` here"#,
        ),
        (
            "[congestion]",
            r#"[routing]
allow_deadlock = "yes"
[congestion]"#,
            r#"a.toml:5: routing.allow_deadlock = "yes": must be true or false"#,
        ),
        (
            "[congestion]",
            r#"[routing]
kind = "d-mod-k"
[congestion]"#,
            r#"a.toml:5: routing.kind = "d-mod-k": d-mod-k: dumbbell 3 + 4 is not a generated fat tree ..."#,
        ),
    ]);
}

#[test]
fn errors_of_packets_lanes_switches_and_hosts_are_explained() {
    check(&[
        (
            "[congestion]",
            r#"[packet]
mtu = "0 B"
[congestion]"#,
            r#"a.toml:5: packet.mtu = "0 B": must be 1 B to 64 KiB"#,
        ),
        (
            "[congestion]",
            r#"[packet]
header = "5 KiB"
[congestion]"#,
            r#"a.toml:5: packet.header = "5 KiB": must be 0 B to 4 KiB"#,
        ),
        (
            "[congestion]",
            r#"[packet]
control = "4 KiB"
[congestion]"#,
            r#"a.toml:5: packet.control = "4 KiB": must be 1 B to 2048 B ..."#,
        ),
        (
            "[congestion]",
            r#"[packet]
credit_block = "0 B"
[congestion]"#,
            r#"a.toml:5: packet.credit_block = "0 B": must be 1 B to 64 KiB; InfiniBand's is 64 B"#,
        ),
        (
            "[congestion]",
            "[lanes]
count = 16
[congestion]",
            "a.toml:5: lanes.count = 16: must be 1 to 15",
        ),
        (
            "[congestion]",
            "[lanes]
control = 1
[congestion]",
            "a.toml:5: lanes.control = 1: must be 0 to 0, as lanes.count is 1",
        ),
        (
            "[congestion]",
            "[lanes]
count = 2
sl_to_vl = [0, 1, 2]
[congestion]",
            "a.toml:6: lanes.sl_to_vl.2 = 2: must be 0 to 1, as lanes.count is 2",
        ),
        (
            "[congestion]",
            "[lanes]
sl_to_vl = []
[congestion]",
            "a.toml:5: lanes.sl_to_vl = a list of 0: must have 1 to 16 entries ...",
        ),
        (
            "[congestion]",
            r#"[switch]
buffer = "1 KiB"
[congestion]"#,
            r#"a.toml:5: switch.buffer = "1 KiB": leaves 1024 B for the lane ..."#,
        ),
        (
            "[congestion]",
            r#"[switch]
latency = "2 s"
[congestion]"#,
            r#"a.toml:5: switch.latency = "2 s": must be at most 1 s"#,
        ),
        (
            "[congestion]",
            r#"[switch]
architecture = "oq"
[congestion]"#,
            r#"a.toml:5: switch.architecture = "oq": must be one of `voq`, `iq`, `cioq`"#,
        ),
        (
            "[congestion]",
            "[switch]
islip_iterations = 4
[congestion]",
            r#"a.toml:5: switch.islip_iterations = 4: has an effect with switch.architecture = "iq" only ..."#,
        ),
        (
            "[congestion]",
            "[switch]
islip_cell = '128 B'
[congestion]",
            r#"a.toml:5: switch.islip_cell = "128 B": has an effect with switch.architecture = "iq" only ..."#,
        ),
        (
            "[congestion]",
            "[switch]
architecture = 'iq'
islip_cell = '65 KiB'
[congestion]",
            r#"a.toml:6: switch.islip_cell = "65 KiB": must be at most 64 KiB"#,
        ),
        (
            "[congestion]",
            r#"[lanes]
count = 4
[host]
buffer = "4 KiB"
[congestion]"#,
            r#"a.toml:7: host.buffer = "4 KiB": leaves 1024 B for each of 4 lanes ..."#,
        ),
        (
            "[congestion]",
            r#"[host]
injection_rate = "0 Gbit/s"
[congestion]"#,
            r#"a.toml:5: host.injection_rate = "0 Gbit/s": must be at least 1 kbit/s"#,
        ),
        (
            "[congestion]",
            "[host]
drain_rate = true
[congestion]",
            "a.toml:5: host.drain_rate = true: must be a rate with its unit ...",
        ),
    ]);
}

#[test]
fn errors_of_congestion_management_are_explained() {
    check(&[
        (
            r#"mechanism = "ib-cc""#,
            r#"mechanism = "ibcc""#,
            r#"a.toml:5: congestion.mechanism = "ibcc": must be one of `none`, `ib-cc`, `fbicm`, `ccfit`, `hfdi`, `ecocc`, `renato`, `pfister`, `mvcm`, `saa`, `qcn`, `dcqcn`, `dctcp`, `timely`, `swift`, `hpcc`, `pcc-rtt`, `pcc-telemetry`, `nscc`, `rccc`, `uec`; it is called `ib-cc` here"#,
        ),
        (
            r#"mechanism = "ib-cc""#,
            r#"mechanism = "ib-cc"
marking = "fecn""#,
            r#"a.toml:6: congestion.marking = "fecn": must be a table with a `kind`"#,
        ),
        (
            r#"mechanism = "ib-cc""#,
            r#"mechanism = "ib-cc"
[congestion.marking]
threshold = 99"#,
            "a.toml:7: congestion.marking.threshold = 99: must be 0 to 15",
        ),
        (
            r#"mechanism = "ib-cc""#,
            r#"mechanism = "ib-cc"
[congestion.marking]
threshold = 300"#,
            "a.toml:7: congestion.marking.threshold = 300: must be 0 to 15",
        ),
        (
            r#"mechanism = "ib-cc""#,
            r#"mechanism = "ib-cc"
[congestion.marking]
treshold = 3"#,
            "a.toml:7: congestion.marking.treshold = 3: unknown key; did you mean `threshold`? ...",
        ),
        (
            r#"mechanism = "ib-cc""#,
            r#"mechanism = "ib-cc"
[[congestion.marking.ports]]
at = ["S1:9"]
threshold = 4"#,
            r#"a.toml:7: congestion.marking.ports.0.at.0 = "S1:9": there is no switch or port of a switch named `S1:9` ..."#,
        ),
        (
            r#"mechanism = "ib-cc""#,
            r#"mechanism = "ib-cc"
[[congestion.marking.ports]]
at = ["S1:1"]
upper = "8 KiB"
lower = "9 KiB""#,
            r#"a.toml:9: congestion.marking.ports.0.lower = "9 KiB": must be at most the upper threshold, 8 KiB"#,
        ),
        (
            r#"mechanism = "ib-cc""#,
            r#"mechanism = "ib-cc"
[[congestion.marking.ports]]
at = ["S1:1"]
[[congestion.marking.ports]]
at = ["S1", "S1:1"]"#,
            r#"a.toml:9: congestion.marking.ports.1.at.1 = "S1:1": S1:1 is already given by ..."#,
        ),
        (
            r#"mechanism = "ib-cc""#,
            r#"mechanism = "ib-cc"
hosts = [{ at = ["H1", "H11"], reaction = { ccti_timer = 9 } }]"#,
            r#"a.toml:6: congestion.hosts.0.at.1 = "H11": no such host; did you mean `H1`? the 7 hosts are H1 to H7"#,
        ),
        (
            r#"mechanism = "ib-cc""#,
            r#"mechanism = "ib-cc"
hosts = [{ at = ["H1"], reaction = { ccti_timer = 9 } }, { at = "H[1-2]", reaction = { kind = "none" } }]"#,
            r#"a.toml:6: congestion.hosts.1.at = "H[1-2]": H1: is already given by congestion.hosts.0"#,
        ),
        (
            r#"mechanism = "ib-cc""#,
            r#"mechanism = "ib-cc"
hosts = [{ at = ["H1"], reaction = { ccti_timr = 9 } }]"#,
            "a.toml:6: congestion.hosts.0.reaction.ccti_timr = 9: unknown key; did you mean `ccti_timer`? ...",
        ),
        (
            r#"mechanism = "ib-cc""#,
            r#"marking = { kind = "red" }
hosts = [{ at = ["H1"], reaction = { kind = "dctcp" } }]"#,
            r#"a.toml:6: congestion.hosts.0.reaction.kind = "dctcp": needs congestion.notification = "ack-each" ..."#,
        ),
        (
            r#"mechanism = "ib-cc""#,
            r#"mechanism = "hfdi"
hosts = [{ at = ["H1"], reaction = { ccti_timer = 9 } }]"#,
            "a.toml:6: congestion.hosts.0.reaction: adjusts the reaction of the other hosts ...",
        ),
        (
            r#"mechanism = "ib-cc""#,
            r#"mechanism = "saa"
hosts = [{ at = ["H1"], reaction = { kind = "none" } }]"#,
            r#"a.toml:6: congestion.hosts.0.reaction.kind = "none": explicit-rate and rccc must be the reaction of all hosts or of none ..."#,
        ),
        (
            r#"mechanism = "ib-cc""#,
            r#"mechanism = "ib-cc"
[congestion.marking]
fill = "per-input""#,
            r#"a.toml:7: congestion.marking.fill = "per-input": must be one of ...; did you mean `sum-per-input`?"#,
        ),
        (
            r#"mechanism = "ib-cc""#,
            r#"mechanism = "ib-cc"
[congestion.marking]
upper = "8 KiB"
lower = "9 KiB""#,
            r#"a.toml:8: congestion.marking.lower = "9 KiB": must be at most the upper threshold, 8 KiB"#,
        ),
        (
            r#"mechanism = "ib-cc""#,
            r#"mechanism = "ib-cc"
[congestion.marking]
upper = "1 MiB""#,
            r#"a.toml:7: congestion.marking.upper = "1 MiB": can never be exceeded: a virtual lane has 128 KiB of the ..."#,
        ),
        (
            r#"mechanism = "ib-cc""#,
            "[congestion.marking]
threshold = 3",
            "a.toml:5: congestion.marking: adjusts a mechanism ...",
        ),
        (
            r#"mechanism = "ib-cc""#,
            r#"mechanism = "ib-cc"
[congestion.reaction]
ccti_limit = 128"#,
            "a.toml:7: congestion.reaction.ccti_limit = 128: must be 0 to 127 ...",
        ),
        (
            r#"mechanism = "ib-cc""#,
            r#"mechanism = "ib-cc"
[congestion.reaction]
ccti_min = 9
ccti_limit = 8"#,
            "a.toml:7: congestion.reaction.ccti_min = 9: must be at most ccti_limit, 8",
        ),
        (
            r#"mechanism = "ib-cc""#,
            r#"mechanism = "ib-cc"
[congestion.reaction]
ccti_timer = 0"#,
            "a.toml:7: congestion.reaction.ccti_timer = 0: must be at least 1 (unit 1.024 us)",
        ),
        (
            r#"mechanism = "ib-cc""#,
            r#"mechanism = "ib-cc"
[congestion.reaction]
per_sl = [{ sl = 1 }, { sl = 1 }]"#,
            "a.toml:7: congestion.reaction.per_sl.1.sl = 1: is already given by ...",
        ),
        (
            r#"mechanism = "ib-cc""#,
            r#"mechanism = "ib-cc"
[congestion.reaction]
table = { kind = "quadratic", divisor = 0, scale = 1, entries = 128 }"#,
            "a.toml:7: congestion.reaction.table.divisor = 0: must be 1 or more",
        ),
        (
            r#"mechanism = "ib-cc""#,
            r#"mechanism = "ib-cc"
[congestion.reaction]
table = { kind = "quadratic", divisor = 95, scale = 1 }"#,
            "a.toml:7: congestion.reaction.table.entries: missing, and needed: Number of entries, 128 or ...",
        ),
        (
            r#"mechanism = "ib-cc""#,
            r#"mechanism = "ib-cc"
[congestion.reaction]
table = { kind = "quadratic", divisor = 1, scale = 4000000000, entries = 128 }"#,
            "a.toml:7: congestion.reaction.table.scale = 4000000000: gives a last delay of 451612000 s ...",
        ),
        (
            r#"mechanism = "ib-cc""#,
            r#"mechanism = "ib-cc"
[congestion.reaction]
table = { kind = "list", delays_ns = [0, 10] }"#,
            "a.toml:7: congestion.reaction.table.delays_ns = a list of 2: must have 128 to 16384 entries",
        ),
    ]);
}

#[test]
fn errors_of_measurement_flows_and_traffic_are_explained() {
    check(&[
        (
            r#"mechanism = "ib-cc""#,
            r#"mechanism = "ib-cc"
[measure]
interval = "0 s""#,
            r#"a.toml:7: measure.interval = "0 s": must be more than 0 s"#,
        ),
        (
            r#"mechanism = "ib-cc""#,
            r#"mechanism = "ib-cc"
[measure]
interval = "100 ps""#,
            r#"a.toml:7: measure.interval = "100 ps": gives 10000000 intervals of 26 rows over the run, 260000000 in all ..."#,
        ),
        (
            r#"to = "H4""#,
            r#"to = "H8""#,
            r#"a.toml:8: flow.0.to = "H8": no such host; the 7 hosts are H1 to H7"#,
        ),
        (
            r#"to = "H4""#,
            r#"to = "h4""#,
            r#"a.toml:8: flow.0.to = "h4": no such host; did you mean `H4`? the 7 hosts are H1 to H7"#,
        ),
        (
            r#"to = "H4""#,
            r#"to = "S1""#,
            r#"a.toml:8: flow.0.to = "S1": is a switch; the 7 hosts are H1 to H7"#,
        ),
        (r#"to = "H4""#, r#"to = "H1""#, r#"a.toml:8: flow.0.to = "H1": is also the sender ..."#),
        (r#"to = "H4""#, "", "a.toml:6: flow.0.to: missing, and needed: Name of the receiving ..."),
        (
            r#"to = "H4""#,
            r#"to = "H4"
sl = 16"#,
            "a.toml:9: flow.0.sl = 16: must be 0 to 15",
        ),
        (
            r#"to = "H4""#,
            r#"to = "H4"
start = "1 ms"
stop = "1 ms""#,
            r#"a.toml:10: flow.0.stop = "1 ms": must be later than the start, 1 ms"#,
        ),
        (
            r#"to = "H4""#,
            r#"to = "H4"
message = "2 GiB""#,
            r#"a.toml:9: flow.0.message = "2 GiB": must be 1 B to 1 GiB"#,
        ),
        (
            r#"to = "H4""#,
            r#"to = "H4"
total = "0 B""#,
            r#"a.toml:9: flow.0.total = "0 B": must be at least 1 B ..."#,
        ),
        (
            r#"to = "H4""#,
            r#"to = "H4"
rate = "10 bit/s""#,
            r#"a.toml:9: flow.0.rate = "10 bit/s": must be at least 1 kbit/s"#,
        ),
        (
            r#"to = "H4""#,
            r#"to = "H4"
[[flow]]
from = "H1"
to = "H4""#,
            "a.toml:9: flow.1.name: H1->H4 is also the name of flow.0 ...",
        ),
        ("[[flow]]", "[flow]", "a.toml:6: flow: must be a list of tables: write [[flow]]"),
        (
            r#"[[flow]]
from = "H1"
to = "H4""#,
            "",
            "a.toml: no host sends: add at least one [[flow]], [[traffic]] or [[job]]",
        ),
        (
            r#"[[flow]]
from = "H1"
to = "H4""#,
            r#"[[traffic]]
pattern = { kind = "hotspots", to = [] }"#,
            "a.toml:7: traffic.0.pattern.to = a list of 0: must name at least one host",
        ),
        (
            r#"[[flow]]
from = "H1"
to = "H4""#,
            r#"[[traffic]]
pattern = { kind = "hotspot", to = ["H4"] }"#,
            r#"a.toml:7: traffic.0.pattern.kind = "hotspot": must be one of ...; did you mean `hotspots`?"#,
        ),
        (
            r#"[[flow]]
from = "H1"
to = "H4""#,
            r#"[[traffic]]
pattern = { kind = "shift", by = 7 }"#,
            "a.toml:7: traffic.0.pattern.by = 7: must be 1 to 6, as there are 7 hosts",
        ),
        (
            r#"[[flow]]
from = "H1"
to = "H4""#,
            r#"[[traffic]]
pattern = { kind = "uniform", by = 7 }"#,
            "a.toml:7: traffic.0.pattern.by = 7: unknown key; known here: `kind` ...",
        ),
        (
            r#"[[flow]]
from = "H1"
to = "H4""#,
            r#"[[traffic]]
hosts = ["H1", "H1"]
pattern = { kind = "uniform" }"#,
            r#"a.toml:7: traffic.0.hosts.1 = "H1": is in the list twice"#,
        ),
        (
            r#"[[flow]]
from = "H1"
to = "H4""#,
            r#"[[traffic]]
hosts = []
pattern = { kind = "uniform" }"#,
            "a.toml:7: traffic.0.hosts = a list of 0: is empty; leave it out for all hosts",
        ),
        (
            r#"[[flow]]
from = "H1"
to = "H4""#,
            r#"[[traffic]]
rate = "1 Gbit/s""#,
            "a.toml:6: traffic.0.pattern: missing, and needed: How destinations are ...",
        ),
    ]);
}

#[test]
fn errors_of_forests_are_explained() {
    let text = |pattern: &str| {
        let flow = "[[flow]]\nfrom = \"H1\"\nto = \"H4\"";
        BASE.replacen(flow, &format!("[[traffic]]\n[traffic.pattern]\nkind = \"forest\"\n{pattern}"), 1)
    };
    assert_eq!(message(&text("hotspots = 2\ncontributors = 80\nvictims = 20"), &[]), "fine");
    assert_eq!(message(&text("hotspots = 2\nmixed = 100\np = 60\nlifetime = \"1 us\""), &[]), "fine");
    for (pattern, expected) in [
        (
            "mixed = 100",
            "a.toml:7: traffic.0.pattern.hotspots: missing, and needed: Number of hotspots, drawn from all hosts of the network",
        ),
        ("hotspots = 0\nmixed = 9", "a.toml:9: traffic.0.pattern.hotspots = 0: must be 1 or more"),
        (
            "hotspots = 8\nmixed = 9",
            "a.toml:9: traffic.0.pattern.hotspots = 8: must be at most 7, the number of hosts",
        ),
        (
            "hotspots = 2",
            "a.toml:7: traffic.0.pattern.contributors: no host sends: set a percentage of contributors ...",
        ),
        ("hotspots = 2\nvictims = 101", "a.toml:10: traffic.0.pattern.victims = 101: must be 0 to 100"),
        (
            "hotspots = 2\ncontributors = 80\nvictims = 21",
            "a.toml:11: traffic.0.pattern.victims = 21: makes more than 100 percent of the hosts ...",
        ),
        ("hotspots = 2\nmixed = 9\np = 101", "a.toml:11: traffic.0.pattern.p = 101: must be 0 to 100"),
        (
            "hotspots = 2\nvictims = 9\np = 5",
            "a.toml:11: traffic.0.pattern.p = 5: has no effect without mixed hosts ...",
        ),
        (
            "hotspots = 2\nmixed = 9\nlifetime = \"1 ns\"",
            r#"a.toml:11: traffic.0.pattern.lifetime = "1 ns": must be at least 1 us ..."#,
        ),
        (
            "hotspots = 2\nvictim = 9",
            "a.toml:10: traffic.0.pattern.victim = 9: unknown key; did you mean `victims`? ...",
        ),
    ] {
        assert_message(&message(&text(pattern), &[]), expected, pattern);
    }
    let poisson =
        text("hotspots = 2\nmixed = 9").replacen("[[traffic]]", "[[traffic]]\narrivals = \"poisson\"", 1);
    assert_message(
        &message(&poisson, &[]),
        r#"a.toml:7: traffic.0.arrivals = "poisson": has no effect on a forest ..."#,
        "",
    );
}

#[test]
fn errors_of_overrides_name_the_override() {
    for (overrides, expected) in [
        (
            &[("congestion.marking.threshold", "99")] as &[_],
            "--set congestion.marking.threshold = 99: must be 0 to 15",
        ),
        (&[("warmup", "2 ms")], "--set warmup = \"2 ms\": must be less than the duration, 1 ms"),
        (&[("flow.0.to", "H9")], "--set flow.0.to = \"H9\": no such host; the 7 hosts are H1 to H7"),
        (&[("flow.1.to", "H5")], "--set flow.1.to: `flow` is a list ..."),
        (&[("duration.x", "1")], "--set duration.x: `duration` is a single value and has no key ..."),
        (&[(".", "1")], "--set .: not a dotted key such as `congestion.marking.threshold` or ..."),
        (
            &[("congestion", "{ mechanism = \"uet\" }")],
            "--set congestion: congestion.mechanism = \"uet\": must be one of `none`, `ib-cc`, `fbicm`, `ccfit`, `hfdi`, `ecocc`, `renato`, `pfister`, `mvcm`, `saa`, `qcn`, `dcqcn`, `dctcp`, `timely`, `swift`, `hpcc`, `pcc-rtt`, `pcc-telemetry`, `nscc`, `rccc`, `uec`; it is called `uec` here",
        ),
    ] {
        assert_message(&message(BASE, overrides), expected, &format!("{overrides:?}"));
    }
}

#[test]
fn valid_overrides_take_effect() {
    for overrides in [
        &[("duration", "2 ms")] as &[_],
        &[("congestion.mechanism", "none")],
        &[("congestion.marking.threshold", "10")],
        &[("congestion.marking.kind", "none")],
        &[("congestion.marking.hysteresis", "0 B")],
        &[("flow.0.rate", "1 Gbit/s"), ("flow.0.sl", "1")],
        &[("routing.kind", "shortest-path")],
    ] {
        assert_eq!(message(BASE, overrides), "fine", "{overrides:?}");
    }
}

#[test]
fn the_size_of_a_scenario_is_limited() {
    let text = " ".repeat((16 << 20) + 1);
    assert_eq!(message(&text, &[]), "a.toml: 16777217 bytes long; a scenario has at most 16777216");
}
