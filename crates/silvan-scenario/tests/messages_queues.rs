//! Pins the exact messages about queues and isolation; see `messages.rs`.

use std::path::Path;

use crate::common::{assert_message, check, message};
use silvan_scenario::Scenario;

#[test]
fn errors_of_queues_are_explained() {
    check(&[
        (
            "[congestion]",
            r#"[switch]
queue_count = 4
[congestion]"#,
            r#"a.toml:5: switch.queue_count = 4: has no effect: only queues "destination-modulo" and "output-modulo" have a configurable number"#,
        ),
        (
            "[congestion]",
            r#"[switch]
queues = "single"
memory = "divided"
[congestion]"#,
            r#"a.toml:6: switch.memory = "divided": has no effect with one queue per input ..."#,
        ),
        (
            "[congestion]",
            r#"[switch]
queue_buffer = "4 KiB"
[congestion]"#,
            r#"a.toml:5: switch.queue_buffer = "4 KiB": has no effect if queues share the memory of their input ..."#,
        ),
        (
            "[congestion]",
            r#"[switch]
crossbar = "40 Gbit/s"
[congestion]"#,
            r#"a.toml:5: switch.crossbar = "40 Gbit/s": has no effect with switch.architecture = "voq" ..."#,
        ),
        (
            "[congestion]",
            r#"[host]
output_buffer = "4 KiB"
[congestion]"#,
            r#"a.toml:5: host.output_buffer = "4 KiB": has no effect: hosts have no output buffer ..."#,
        ),
    ]);
}

#[test]
fn errors_of_isolation_are_explained() {
    check(&[
        (
            r#"mechanism = "ib-cc""#,
            r#"mechanism = "ecocc"
isolation = { stop = "4 KiB" }"#,
            r#"a.toml:6: congestion.isolation.go = "8 KiB": must be less than the stop threshold, 4 KiB"#,
        ),
        (
            r#"mechanism = "ib-cc""#,
            r#"mechanism = "fbicm"
isolation = { at_root = false }"#,
            "a.toml:6: congestion.isolation.at_root = false: must be true with one normal queue per input ...",
        ),
        (
            r#"mechanism = "ib-cc""#,
            r#"mechanism = "hfdi"
isolation = { queues = 65 }"#,
            r#"a.toml:6: congestion.isolation.queues = 65: must be 0 to 64"#,
        ),
        (
            r#"mechanism = "ib-cc""#,
            r#"mechanism = "hfdi"
isolation = { arbitration = "strict", longest_wait = "0 s" }"#,
            r#"a.toml:6: congestion.isolation.longest_wait = "0 s": must be more than 0 s"#,
        ),
        (
            r#"mechanism = "ib-cc""#,
            r#"mechanism = "hfdi"
isolation = { arbitration = "weighted", longest_wait = "5 us" }"#,
            r#"a.toml:6: congestion.isolation.longest_wait = "5 us": has no effect without congestion.isolation.arbitration = ..."#,
        ),
        (
            r#"mechanism = "ib-cc""#,
            r#"mechanism = "ccfit"
marking = { percent = 0 }"#,
            r#"a.toml:6: congestion.marking.percent = 0: must be 1 to 100"#,
        ),
    ]);
}

#[test]
fn unsupported_combinations_of_multistage_networks_are_explained() {
    let fly = r#"duration = "1 ms"
[topology]
kind = "k-ary-n-fly"
k = 2
n = 3
[[flow]]
from = "H1"
to = "H8"
"#;
    assert_eq!(message(fly, &[]), "fine");
    for (overrides, expected) in [
        (
            [("congestion.mechanism", "fbicm")].as_slice(),
            "a.toml: congestion.isolation: special queues send notifications back over the link on which a packet arrived, but 2-ary \
             3-fly \
             of 8 hosts, unidirectional, butterfly has one-way links; use bidirectional links, or set \
             congestion.isolation.kind = \"none\"",
        ),
        (&[("congestion.mechanism", "fbicm"), ("topology.links", "bidirectional")], "fine"),
        (&[("congestion.mechanism", "ecocc"), ("congestion.isolation.kind", "none")], "fine"),
        (
            &[("routing.kind", "up-down")],
            r#"--set routing.kind = "up-down": up-down: 2-ary 3-fly of 8 hosts ..."#,
        ),
        (
            &[("topology.links", "both")],
            r#"--set topology.links = "both": must be one of `unidirectional` ..."#,
        ),
        (
            &[("topology.hosts", "6")],
            "--set topology.hosts = 6: k-ary-n-fly: `hosts` = 6 does not fit `k` = 2 ...",
        ),
    ] {
        assert_message(&message(fly, overrides), expected, &format!("{overrides:?}"));
    }
}

#[test]
fn the_default_routing_suits_a_multistage_network() {
    let kind = |topology: &str| {
        let text = format!(
            "duration = \"1 ms\"\ntopology = {{ {topology} }}\n[[flow]]\nfrom = \"H1\"\nto = \"H2\"\n"
        );
        let scenario = Scenario::from_toml(&text, "a.toml", Path::new(""), &[]).unwrap();
        let report = scenario.check().unwrap();
        assert_eq!((report.pairs_unroutable, report.deadlock), (0, None), "{topology}");
        report.routing
    };
    assert_eq!(kind(r#"kind = "k-ary-n-fly", k = 2, n = 3"#), "destination-tag");
    assert_eq!(kind(r#"kind = "k-ary-n-fly", k = 2, n = 3, links = "bidirectional""#), "d-mod-k");
    let one_way = r#"kind = "custom", hosts = ["H1", "H2"], switches = [{ name = "S1" }, { name = "S2" }], links = [
        { from = "H1", to = "S1", one_way = true }, { from = "S1", to = "H1", one_way = true },
        { from = "H2", to = "S2" }, { from = "S1", to = "S2", one_way = true },
        { from = "S2", to = "S1", one_way = true }]"#;
    assert_eq!(kind(&one_way.replace('\n', " ")), "shortest-path");
}
