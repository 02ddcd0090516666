//! Scenarios that give times in cycles, and traffic that starts after a number of packets.

use std::path::Path;

use crate::common::{BASE, check, message};
use silvan_engine::{Rate, Time};
use silvan_scenario::Scenario;

/// The base scenario with a cycle of 2 ns, and more lines after its flow.
fn in_cycles(more: &str) -> String {
    format!("cycle = \"2 ns\"\n{BASE}{more}")
}

fn read(text: &str, overrides: &[(&str, &str)]) -> Scenario {
    let overrides: Vec<(String, String)> =
        overrides.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Scenario::from_toml(text, "a.toml", Path::new(""), &overrides).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn times_and_rates_are_given_in_cycles() {
    let text = in_cycles("start = \"0.5 cycles\"\nrate = \"0.25 bytes/cycle\"\nname = \"3 cycles\"\n");
    let scenario = read(&text, &[("switch.latency", "3 cycles"), ("host.drain_rate", "1 B/cycle")]);
    let spec = &scenario.spec;
    assert_eq!(spec.cycle, Some(Time(2_000)));
    assert_eq!(spec.flow[0].start, Time(1_000));
    assert_eq!(spec.flow[0].rate, Some(Rate::from_gbit(1)));
    assert_eq!(spec.flow[0].name.as_deref(), Some("3 cycles"), "a name is not a time");
    assert_eq!(spec.switch.latency, Time(6_000));
    assert_eq!(spec.host.drain_rate, Some(Rate::from_gbit(4)));
    let resolved = scenario.to_toml().unwrap();
    assert_eq!(read(&resolved, &[]), scenario);
    // Cycles can also be used in overrides of a resolved scenario. Overriding the cycle changes all values
    // in cycles.
    assert_eq!(read(&resolved, &[("duration", "1000 cycles")]).spec.duration, Time(2_000_000));
    assert_eq!(read(&text, &[("cycle", "4 ns")]).spec.flow[0].start, Time(2_000));
}

#[test]
fn links_and_tables_with_a_kind_are_in_cycles_too() {
    let text = r#"duration = "1000 cycles"
cycle = "1 ns"
[topology]
kind = "star"
hosts = 4
link_rate = "1 byte/cycle"
link_delay = "1 cycle"
[[traffic]]
pattern = { kind = "forest", hotspots = 1, contributors = 50, lifetime = "1_000 cycles" }
"#;
    let (topology, _, config) = read(text, &[]).build().unwrap();
    assert!(topology.links.iter().all(|l| l.rate == Rate::from_gbit(8) && l.delay == Time::from_ns(1)));
    assert_eq!(config.duration, Time::from_us(1));
}

#[test]
fn errors_of_cycles_are_explained() {
    let said = |more: &str, overrides: &[(&str, &str)]| message(&in_cycles(more), overrides);
    check(&[(
        r#"duration = "1 ms""#,
        r#"duration = "500 cycles""#,
        r#"a.toml:1: duration = "500 cycles": not a time: the length of a cycle is not given; set it, for example `cycle = "1 ns"`; write for example "150 us""#,
    )]);
    assert_eq!(
        said("start = \"0.00001 cycles\"\n", &[]),
        r#"a.toml:10: flow.0.start = "0.00001 cycles": not a time: with a cycle of 2 ns it is not a whole number of ps; write for example "150 us""#
    );
    assert_eq!(
        said("rate = \"1 byte/cycle\"\n", &[("cycle", "3 ns")]),
        r#"a.toml:10: flow.0.rate = "1 byte/cycle": not a rate: with a cycle of 3 ns it is not a whole number of bit/s; write for example "16 Gbit/s""#
    );
    assert_eq!(said("", &[("cycle", "0 ns")]), r#"--set cycle = "0 ns": must be 1 ps to 1 s"#);
    assert_eq!(said("", &[("cycle", "2 s")]), r#"--set cycle = "2 s": must be 1 ps to 1 s"#);
    assert_eq!(
        said("", &[("cycle", "1 cycle")]),
        r#"--set cycle = "1 cycle": not a time: the length of a cycle is not given; set it, for example `cycle = "1 ns"`; write for example "150 us""#
    );
    assert_eq!(
        said("", &[("warmup", "1_000_000 cycles")]),
        r#"--set warmup = "1_000_000 cycles": must be less than the duration, 1 ms"#,
        "the value is shown as written"
    );
}

#[test]
fn errors_of_triggers_and_bounds_are_explained() {
    let traffic = "[[traffic]]\npattern = { kind = \"uniform\" }\n";
    let forest = "[[traffic]]\npattern = { kind = \"forest\", hotspots = 1, victims = 100 }\n";
    let said = |more: String| message(&format!("{BASE}{more}"), &[]);
    let cases = [
        ("start_after_packets = 5\n".to_owned(), "fine"),
        (
            "start_after_packets = 5\nstart = \"1 us\"\n".to_owned(),
            r#"a.toml:10: flow.0.start = "1 us": cannot be combined with start_after_packets, which determines the start; leave out one of them"#,
        ),
        (
            "start_after_packets = 0\n".to_owned(),
            "a.toml:9: flow.0.start_after_packets = 0: must be at least 1; leave it out to start immediately",
        ),
        (
            format!("{traffic}packets_per_host = 0\n"),
            "a.toml:11: traffic.0.packets_per_host = 0: must be at least 1; leave it out for unlimited traffic",
        ),
        (format!("{traffic}message = \"256 B\"\nmessage_max = \"1 KiB\"\n"), "fine"),
        (
            format!("{traffic}message_max = \"256 B\"\n"),
            r#"a.toml:11: traffic.0.message_max = "256 B": must be 2 KiB, the size of the smallest message, to 1 GiB"#,
        ),
        (
            format!("{forest}start_after_packets = 5\n"),
            "a.toml:11: traffic.0.start_after_packets = 5: cannot be combined with a forest; leave it out, or use another pattern",
        ),
    ];
    for (more, expected) in cases {
        assert_eq!(said(more.clone()), expected, "with {more}");
    }
}

/// A 4-ary 5-fly of 512 hosts with a switch latency of 3 cycles (and nearly no link delay), packets of 256
/// bytes, and one byte per cycle (MVCM, section 4.3).
const FLY: &str = r#"duration = "1000 cycles"
cycle = "1 ns"
[topology]
kind = "k-ary-n-fly"
k = 4
n = 5
hosts = 512
links = "bidirectional"
wiring = "perfect-shuffle"
link_rate = "1 byte/cycle"
link_delay = "1 ps"
[packet]
mtu = "256 B"
header = "22 B"
control = "22 B"
[switch]
latency = "3 cycles"
buffer = "1 KiB"
[congestion]
mechanism = "mvcm"
[[traffic]]
pattern = { kind = "uniform" }
"#;

/// The check's report on the round trip, compared with the published windows: 1.28, 4.45 and 4.18.
#[test]
fn the_check_reports_the_published_windows() {
    let trip = |overrides: &[(&str, &str)]| read(FLY, overrides).check().unwrap().round_trip;
    let usual = trip(&[]).unwrap();
    assert_eq!((usual.hops, usual.stages, usual.radix), (9, 5, 4));
    assert!((usual.shortest_ns - 354.0).abs() < 0.1, "{}", usual.shortest_ns);
    let short = trip(&[("packet.mtu", "1 B"), ("packet.header", "21 B")]).unwrap();
    let fast = trip(&[("topology.link_rate", "16 bytes/cycle")]).unwrap();
    for (found, published, packets) in [(usual, 1.28, 2), (short, 4.45, 5), (fast, 4.18, 5)] {
        assert!((found.window / published - 1.0).abs() < 0.006, "{} for {published}", found.window);
        assert_eq!(found.packets, packets);
    }
    let without = [("congestion.mechanism", "ib-cc")];
    assert_eq!(trip(&without), None, "no component needs acknowledgements");
    assert!(trip(&[without[0], ("switch.architecture", "cioq")]).is_some());
    assert!(trip(&[("congestion.mechanism", "none"), ("switch.architecture", "cioq")]).is_some());
}
