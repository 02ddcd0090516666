//! Pins the exact messages of errors that are found only when a network is set up. Like other errors,
//! they contain a line number; see `messages.rs`.

use std::path::Path;

use crate::common::{BASE, assert_message};
use silvan_scenario::Scenario;

fn message(text: &str, overrides: &[(&str, &str)]) -> String {
    let overrides: Vec<(String, String)> =
        overrides.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    match Scenario::from_toml(text, "a.toml", Path::new(""), &overrides).and_then(|s| s.simulation()) {
        Ok(_) => "fine".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// The base scenario with the latency of switches as its last line.
fn base_with_switch() -> String {
    BASE.replace("[congestion]\nmechanism = \"ib-cc\"\n", "[switch]\nlatency = \"100 ns\"\n")
}

#[test]
fn errors_of_credits_and_links_name_their_key() {
    let base = base_with_switch();
    for (lines, expected) in [
        ("[flow_control]\nkind = \"credits\"\nreturn_spacing = \"1 ms\"", "fine"),
        (
            "[flow_control]\nkind = \"credits\"\nreturn_spacing = \"1001 us\"",
            "a.toml:8: flow_control.return_spacing = \"1001 us\": must be at most 1 ms",
        ),
        (
            "[flow_control]\nkind = \"credits\"\nshared = {}",
            "a.toml:8: flow_control.shared: has no effect with one virtual lane ...",
        ),
        ("[lanes]\ncount = 2\n[flow_control]\nkind = \"credits\"\nshared = { alpha_shift = -2 }", "fine"),
        (
            "[lanes]\ncount = 2\n[flow_control]\nkind = \"credits\"\nshared = { alpha_shift = 11 }",
            "a.toml:10: flow_control.shared.alpha_shift = 11: must be ...",
        ),
        (
            "[lanes]\ncount = 2\n[flow_control]\nkind = \"credits\"\nshared = { alpha_shift = 0, limit = \"4 KiB\" }",
            "a.toml:10: flow_control.shared.alpha_shift = 0: cannot be combined with flow_control.shared.limit ...",
        ),
        (
            "[lanes]\ncount = 2\n[flow_control]\nkind = \"credits\"\nshared = { reserve = \"2047 B\" }",
            "a.toml:10: flow_control.shared.reserve = \"2047 B\": must be 2048 B, the space of a packet ...",
        ),
        (
            "[lanes]\ncount = 2\n[flow_control]\nkind = \"credits\"\nshared = { reserve = \"64 KiB\" }",
            r#"a.toml:10: flow_control.shared.reserve = "64 KiB": must be 2048 B ..."#,
        ),
        (
            "queues = \"per-destination\"\nqueue_buffer = \"2 KiB\"\n[lanes]\ncount = 2\n[flow_control]\nkind = \"credits\"\nshared = {}",
            "a.toml:12: flow_control.shared: the queues of an input must share its memory ...",
        ),
        ("[link]\nerror_rate_ppb = 1000\nretry = {}", "fine"),
        (
            "[link]\nerror_rate_ppb = 1000",
            "a.toml:7: link.error_rate_ppb = 1000: needs link.retry, because packets must not get lost ...",
        ),
        (
            "[link]\nerror_rate_ppb = 500000001\nretry = {}",
            "a.toml:7: link.error_rate_ppb = 500000001: must be ...",
        ),
        ("[link]\nretry = { frames = 0 }", "a.toml:7: link.retry.frames = 0: must be ..."),
        ("[link]\nretry = { count = 0 }", "a.toml:7: link.retry.count = 0: must be ..."),
        (
            "[link]\nretry = { timer = \"0 s\" }",
            "a.toml:7: link.retry.timer = \"0 s\": must be more than 0 s",
        ),
        ("[link]\nretry = { timer = \"2 s\" }", "a.toml:7: link.retry.timer = \"2 s\": must be at most 1 s"),
        (
            "[link]\nretry = { timer = \"1 us\" }",
            "a.toml:7: link.retry.timer = \"1 us\": must be more than ...",
        ),
        (
            "[link]\nretry = { bytes = \"2047 B\" }",
            r#"a.toml:7: link.retry.bytes = "2047 B": must have room for the largest packet on a link, 2048 ..."#,
        ),
        (
            "[link]\nretry = { ack_spacing = \"2 GiB\" }",
            "a.toml:7: link.retry.ack_spacing = \"2 GiB\": must be at most 1 GiB",
        ),
        (
            "[link]\nretry = {}\n[flow_control]\nkind = \"pfc\"",
            r#"a.toml:7: link.retry: needs flow_control.kind = "credits": the headroom of ..."#,
        ),
    ] {
        let text = base.replace("latency = \"100 ns\"", &format!("latency = \"100 ns\"\n{lines}"));
        let said = message(&text, &[]);
        assert_message(&said, expected, lines);
    }
}

#[test]
fn errors_found_on_the_network_name_their_key() {
    assert_eq!(message(BASE, &[]), "fine");
    let base = base_with_switch();
    for (lines, expected) in [
        (
            "queues = \"per-destination\"\nmemory = \"divided\"\nqueue_buffer = \"2 KiB\"\n\
             [packet]\nheader = \"26 B\"\nmtu = \"2000 B\"",
            "fine",
        ),
        (
            "queues = \"per-destination\"\nmemory = \"divided\"\nbuffer = \"8 KiB\"",
            "a.toml:4: switch.queue_buffer: each of 7 queues per input has 1.17 KB, less than a packet's 2048 bytes; set \
             switch.queue_buffer, or a larger switch.buffer",
        ),
        (
            "architecture = \"iq\"\ncrossbar = \"1 Gbit/s\"",
            r#"a.toml:7: switch.crossbar = "1 Gbit/s": must be at least the rate of the fastest link, 32 ..."#,
        ),
        (
            "[flow_control]\nkind = \"on-off\"\nxoff = \"20000 B\"\nxon = \"20001 B\"",
            r#"a.toml:9: flow_control.xon = "20001 B": must be at most the threshold at which the sender is stopped, ..."#,
        ),
        (
            "[flow_control]\nkind = \"on-off\"\nxoff = \"128 KiB\"",
            "a.toml:8: flow_control.xoff = \"128 KiB\": the receiver of a link of ...",
        ),
        (
            "[flow_control]\nkind = \"pfc\"\nxoff = \"20000 B\"\nxon = \"20001 B\"",
            r#"a.toml:9: flow_control.xon = "20001 B": must be at most the threshold at which the sender is stopped, ..."#,
        ),
        (
            "[flow_control]\nkind = \"pfc\"\nxoff = \"128 KiB\"",
            "a.toml:8: flow_control.xoff = \"128 KiB\": the receiver of a link of ...",
        ),
        (
            "buffer = \"4 KiB\"\n[flow_control]\nkind = \"pfc\"",
            "a.toml:8: flow_control.kind = \"pfc\": the receiver of a link of ...",
        ),
        (
            "queues = \"per-destination\"\nqueue_buffer = \"2 KiB\"\n[flow_control]\nkind = \"pfc\"",
            r#"a.toml:9: flow_control.kind = "pfc": stops whole virtual lanes ..."#,
        ),
        (
            "[flow_control]\nkind = \"pfc\"\nshared = { memory = \"20 KB\", headroom_pool = \"10 KB\", reserve = \"4 KB\" }",
            "a.toml:8: flow_control.shared.memory = \"20 KB\": switch S1 needs at least ...",
        ),
        (
            "[flow_control]\nkind = \"pfc\"\nframe = \"63 B\"",
            "a.toml:8: flow_control.frame = \"63 B\": must be 64 B to 1 KiB",
        ),
        (
            "[flow_control]\nkind = \"pfc\"\nresponse_time = \"2 s\"",
            "a.toml:8: flow_control.response_time = \"2 s\": must be at most 1 s",
        ),
        (
            "[flow_control]\nkind = \"pfc\"\nwatchdog = \"0 s\"",
            r#"a.toml:8: flow_control.watchdog = "0 s": must be more than 0 s ..."#,
        ),
        (
            "[flow_control]\nkind = \"pfc\"\nwatchdog_action = \"stop\"",
            "a.toml:8: flow_control.watchdog_action = \"stop\": has no effect without flow_control.watchdog",
        ),
        (
            "[flow_control]\nkind = \"pfc\"\nxon = \"2 KB\"\nshared = {}",
            r#"a.toml:8: flow_control.xon = "2 KB": cannot be combined with flow_control.shared ..."#,
        ),
        (
            "[flow_control]\nkind = \"pfc\"\nshared = { alpha_shift = 11 }",
            "a.toml:8: flow_control.shared.alpha_shift = 11: must be ...",
        ),
        (
            "[flow_control]\nkind = \"pfc\"\n[congestion]\nmechanism = \"fbicm\"",
            r#"a.toml:7: flow_control.kind = "pfc": cannot be combined with special queues ..."#,
        ),
        (
            "[flow_control]\nkind = \"pfc\"\n[congestion]\nmechanism = \"qcn\"",
            r#"a.toml:7: flow_control.kind = "pfc": cannot be combined with congestion.notification = "backward" ..."#,
        ),
        (
            "buffer = \"4 KiB\"\n[flow_control]\nkind = \"on-off\"",
            "a.toml:8: flow_control.kind = \"on-off\": the receiver of a link of ...",
        ),
    ] {
        let text = base.replace("latency = \"100 ns\"", &format!("latency = \"100 ns\"\n{lines}"));
        let said = message(&text, &[]);
        assert_message(&said, expected, lines);
    }
    assert_message(
        &message(&base, &[("host.queues", "destination-modulo"), ("host.output_buffer", "16 KB")]),
        r#"--set host.output_buffer = "16 KB": leaves 2000 B for each of 8 queues ..."#,
        "",
    );
}

/// The error message of a run on the fabric of two switches in which swA has no route to node-4, with
/// additional lines.
fn without_route(lines: &str) -> String {
    let fabric = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/fabrics/sw2-h7/minhop");
    let dump = std::fs::read_to_string(fabric.join("opensm-lfts.dump")).unwrap();
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("without-route.dump");
    let route = "0x0007 008 # Channel Adapter portguid 0x0002c90300000041: 'node-4'\n";
    std::fs::write(&file, dump.replacen(route, "", 1)).unwrap();
    let (topology, file) = (fabric.join("ibnetdiscover.topo"), file.display());
    let text = format!(
        "duration = \"1 us\"\ntopology = {{ kind = \"file\", file = '{}' }}\n\
         routing = {{ kind = \"table\", file = '{file}' }}\n{lines}",
        topology.display()
    );
    message(&text, &[])
}

#[test]
fn hosts_that_exchange_packets_need_routes() {
    let flow = |from: &str, to: &str| format!("[[flow]]\nfrom = \"{from}\"\nto = \"{to}\"\n");
    assert_eq!(without_route(&flow("node-0", "node-3")), "fine");
    let hole = "from node-0 to node-4: switch swA has no route to node-4";
    let said = without_route(&flow("node-0", "node-4"));
    assert_eq!(said, format!("a.toml:6: flow.0.to = \"node-4\": {hole}"));
    let said = without_route(&flow("node-4", "node-0"));
    assert_eq!(said, format!("a.toml:6: flow.0.to = \"node-0\": {hole}"), "the answers have no route");
    let hotspots = |to: &str| {
        let pattern = format!("pattern = {{ kind = \"hotspots\", to = [\"{to}\"] }}");
        without_route(&format!("[[traffic]]\nhosts = [\"node-0\"]\n{pattern}\n"))
    };
    let said = hotspots("node-4");
    assert_eq!(said, format!("a.toml:6: traffic.0.pattern.to = a list of 1: {hole}"));
    let pairs =
        format!("routing.kind = \"table\": leaves 3 pairs of hosts without a route; the first is {hole}");
    assert_eq!(hotspots("node-0"), format!("a.toml:3: {pairs}"));
    let backward = format!("congestion = {{ mechanism = \"qcn\" }}\n{}", flow("node-0", "node-3"));
    let said = without_route(&backward);
    assert!(
        said.contains("congestion.notification")
            && said.contains("switch swA may have to notify host node-4"),
        "{said}"
    );
}

/// Ranges of hosts are expanded before the network is known, but messages show them as they were written.
#[test]
fn errors_in_ranges_of_hosts_name_the_range_and_the_host() {
    let text = |hosts: &str| {
        format!("{BASE}[[traffic]]\nhosts = {hosts}\npattern = {{ kind = \"hotspots\", to = \"H[1-2]\" }}\n")
    };
    let line = BASE.lines().count() + 2;
    assert_eq!(message(&text("\"H[3-6]\""), &[]), "fine");
    let whole = message(&text("\"H[3-12]\""), &[]);
    let expected = format!("a.toml:{line}: traffic.0.hosts = \"H[3-12]\": H8: no such host");
    assert!(whole.starts_with(&expected), "{whole}");
    let one = message(&text("[\"H2\",\n\"H[1-3]\"]"), &[]);
    let expected = format!("a.toml:{}: traffic.0.hosts.1 = \"H[1-3]\": H2: is in the list twice", line + 1);
    assert_eq!(one, expected);
    let wrong = message(&text("[\"H[2-1]\"]"), &[]);
    assert!(
        wrong.starts_with(&format!("a.toml:{line}: traffic.0.hosts.0 = \"H[2-1]\": must be a name")),
        "{wrong}"
    );
    let set = message(&text("\"H1\""), &[("traffic.0.pattern.to", "H[6-9]")]);
    assert!(set.starts_with("--set traffic.0.pattern.to = \"H[6-9]\": H8: no such host"), "{set}");
    assert_eq!(message(&text("5"), &[]), format!("a.toml:{line}: traffic.0.hosts = 5: must be a list"));
}

#[test]
fn names_of_other_tools_are_explained() {
    let said = message(BASE, &[("flow_control.kind", "cbfc")]);
    assert!(
        said.ends_with("must be one of `credits`, `on-off`, `pfc`; it is called `credits` here"),
        "{said}"
    );
    let said = message(BASE, &[("switch.queues", "VOQnet")]);
    assert!(said.ends_with("; it is called `per-destination` here"), "{said}");
    let said = message(BASE, &[("congestion.mechanism", "DCQCN")]);
    assert!(said.ends_with("; it is called `dcqcn` here"), "{said}");
    let said = message(BASE, &[("topology.kind", "leaf-spine")]);
    assert!(said.ends_with("; it is called `two-level-fat-tree` here"), "{said}");
    let said = message(BASE, &[("routing.kind", "ecmp")]);
    assert!(said.ends_with("; hashing onto all shortest paths is the table [ecmp]"), "{said}");
    let said = message(BASE, &[("congestion.mechanism", "ecmp")]);
    assert!(!said.contains("hashing"), "{said}");
}

#[test]
fn other_spellings_of_units_are_explained() {
    for (key, value, meant) in [
        ("topology.link_rate", "16 Gb/s", "16 Gbit/s"),
        ("topology.link_rate", "16Gbps", "16 Gbit/s"),
        ("topology.link_rate", "400G", "400 Gbit/s"),
        ("topology.link_rate", "2 GBps", "2 GB/s"),
        ("duration", "12.5 \u{b5}s", "12.5 us"),
        ("packet.mtu", "4 K", "4 KiB"),
    ] {
        let said = message(BASE, &[(key, value)]);
        assert!(said.ends_with(&format!("; did you mean \"{meant}\"?")), "{said}");
    }
    for (key, value) in
        [("topology.link_rate", "16 furlongs"), ("topology.link_rate", "Gb/s"), ("duration", "16 Gb/s")]
    {
        let said = message(BASE, &[(key, value)]);
        assert!(!said.contains("did you mean"), "{said}");
    }
}

#[test]
fn a_reaction_with_the_marks_of_another_mechanism_names_its_own() {
    let said = message(BASE, &[("congestion.mechanism", "dcqcn"), ("congestion.reaction.kind", "hpcc")]);
    let expected = "congestion.reaction.kind = \"hpcc\": needs other marks or notifications than congestion.mechanism = \
                    \"dcqcn\"; set congestion.mechanism = \"hpcc\", or give congestion.marking, notification and reaction, \
                    each with its kind";
    assert!(said.ends_with(expected), "{said}");
    // Other faults are reported as they are.
    let said =
        message(BASE, &[("congestion.mechanism", "dcqcn"), ("congestion.notification", "ack-message")]);
    assert!(!said.contains("needs other marks"), "{said}");
}
