//! Limits of a scenario, and the estimated cost of a run.

use std::path::Path;

use crate::common::{check, message};
use silvan_fabric::outcome::{Outcome, Table, Values};
use silvan_scenario::Scenario;

fn read(text: &str) -> Scenario {
    Scenario::from_toml(text, "a.toml", Path::new(""), &[]).unwrap_or_else(|error| panic!("{error}"))
}

fn run(scenario: &Scenario) -> Outcome {
    let mut simulation = scenario.simulation().unwrap();
    while !simulation.advance(1 << 16).unwrap().done {}
    simulation.finish().unwrap()
}

#[test]
fn a_service_level_in_use_needs_a_virtual_lane() {
    let case = |given: &'static str, expected: &'static str| (r#"mechanism = "ib-cc""#, given, expected);
    let flow = "mechanism = \"ib-cc\"\n[lanes]\ncount = 2\nsl_to_vl = [0, 1]\n[[flow]]\nfrom = \"H2\"\nto = \"H4\"\nsl = 2";
    let pattern = "mechanism = \"ib-cc\"\n[lanes]\ncount = 2\nsl_to_vl = [1]\n[[traffic]]\npattern = { kind = \"uniform\" }\nsl = 1";
    let by_destination = "mechanism = \"ib-cc\"\n[lanes]\ncount = 2\nsl_to_vl = [1]\nassignment = \"destination\"\n\
                          [[traffic]]\npattern = { kind = \"uniform\" }\nsl = 1";
    check(&[
        case(
            flow,
            "a.toml:12: flow.0.sl = 2: has no virtual lane: lanes.sl_to_vl has 2 entries, for service levels 0 to 1; give \
             it one for each service level that is used, or use another level",
        ),
        case(
            pattern,
            "a.toml:11: traffic.0.sl = 1: has no virtual lane: lanes.sl_to_vl has 1 entries, for service levels 0 to 0; \
             give it one for each service level that is used, or use another level",
        ),
        case(by_destination, "fine"),
    ]);
}

fn rows(table: &Table) -> usize {
    match &table.columns[0].values {
        Values::U64(values) => values.len(),
        values => panic!("the time comes first, not {values:?}"),
    }
}

/// A run of 4 ms that records only the series of the network.
fn sampled(interval: &str, more: &str) -> String {
    let text = format!(
        "duration = \"4 ms\"\n[topology]\nkind = \"star\"\n[measure]\ninterval = \"{interval}\"\n{more}\n\
         [[traffic]]\npattern = {{ kind = \"uniform\" }}\n"
    );
    message(&text, &[])
}

#[test]
fn rows_are_counted_before_the_run() {
    let network = "links = false\nhosts = false\nclasses = false";
    assert_eq!(
        sampled("1 ns", network),
        "a.toml:5: measure.interval = \"1 ns\": gives 4000000 intervals of 1 rows over the run, 4000000 in all; at most \
         1000000 intervals and 20000000 rows are kept; set it to at least 4 ns"
    );
    assert_eq!(sampled("4 ns", network), "fine");
    assert!(sampled("3999 ps", network).contains("set it to at least 4 ns"));
    // Rows per interval: seven outputs of the switch and one of each host, seven hosts, one class, and the
    // network.
    assert_eq!(
        sampled("1 ns", "").split_once(": gives ").unwrap().1,
        "4000000 intervals of 23 rows over the run, 92000000 in all; at most 1000000 intervals and 20000000 rows \
         are kept; set it to at least 4.61 ns, or switch off measure.links, measure.hosts or measure.classes"
    );
    let flows: String =
        (0..30).map(|n| format!("[[flow]]\nname = \"{n}\"\nfrom = \"H1\"\nto = \"H2\"\n")).collect();
    let refused = sampled("4 ns", &flows);
    assert!(
        refused.ends_with(
            "set it to at least 16.7 ns, or switch off measure.links, measure.hosts or measure.classes"
        ),
        "{refused}"
    );
    assert_eq!(sampled("16.7 ns", &flows), "fine");
    assert!(
        sampled("16.6 ns", &flows).contains(": gives "),
        "the suggestion is the minimum, to three digits"
    );
}

#[test]
fn a_possibly_full_tree_table_is_warned_about() {
    let check = |interval: &str, forest: bool| {
        let scenario = read(&format!(
            "duration = \"4 ms\"\n[topology]\nkind = \"star\"\n[measure]\ninterval = \"{interval}\"\nlinks = false\n\
             hosts = false\nclasses = false\nforest = {forest}\n[[traffic]]\npattern = {{ kind = \"uniform\" }}\n"
        ));
        (scenario.check().unwrap().warnings, scenario.check().unwrap().estimate.memory_mb)
    };
    let (warnings, memory) = check("10 ns", true);
    assert_eq!(
        warnings,
        [
            "the table tree_links may be full before the end: if all 14 links are in congestion trees, 400000 intervals \
             give 5600000 rows, and 4000000 are kept; set measure.interval to at least 14.1 ns, or switch off measure.forest"
        ]
    );
    assert!(check("14.1 ns", true).0.is_empty(), "the suggestion is sufficient");
    let (none, without) = check("10 ns", false);
    assert!(none.is_empty());
    assert!((memory - without - 4e6 * 48.0 / 1e6).abs() < 1.0, "{memory} MB, {without} MB without trees");
}

#[test]
fn the_number_of_recorded_rows_is_as_computed() {
    let scenario = read(
        "duration = \"100 us\"\n[topology]\nkind = \"star\"\n[congestion]\nmechanism = \"hfdi\"\n\
         [measure]\ninterval = \"10 us\"\n[[flow]]\nfrom = \"H1\"\nto = \"H2\"\n\
         [[traffic]]\npattern = { kind = \"uniform\" }\n",
    );
    let series = ["hosts", "flows", "links", "classes", "network", "isolation"];
    let tables = run(&scenario).tables;
    let rows: usize = tables.iter().filter(|table| series.contains(&table.name)).map(rows).sum();
    // Rows per interval: seven hosts, the outputs of hosts and of the switch, a flow, two classes, the
    // network, and special queues.
    assert_eq!(rows, 10 * (7 + 14 + 1 + 2 + 1 + 1));
}

#[test]
fn the_number_of_switch_ports_is_limited() {
    let topology = |keys: &str| {
        let flow = "[[traffic]]\npattern = { kind = \"uniform\" }\n";
        message(&format!("duration = \"1 us\"\n[topology]\n{keys}\n{flow}"), &[])
    };
    let tree = |keys: &str| topology(&format!("kind = \"two-level-fat-tree\"\n{keys}"));
    assert_eq!(
        tree("leaves = 2\nspines = 1024\nhosts_per_leaf = 2"),
        "a.toml:5: topology.spines = 1024: must be 1 to 1023"
    );
    assert_eq!(
        tree("leaves = 2\nspines = 200\nhosts_per_leaf = 57"),
        "a.toml:2: topology: switch L1.1 has 257 ports; a switch may have up to 256, or up to 1024 with \
         switch.arbitration = \"fcfs\""
    );
    assert_eq!(
        tree("leaves = 129\nspines = 2\nhosts_per_leaf = 2\nparallel = 2"),
        "a.toml:2: topology: switch L2.1 has 258 ports; a switch may have up to 256, or up to 1024 with \
         switch.arbitration = \"fcfs\""
    );
    assert_eq!(
        topology("kind = \"star\"\nhosts = 1025"),
        "a.toml:4: topology.hosts = 1025: must be 1 to 1024"
    );
    for fine in ["hosts = 256\nkind = \"star\"", "kind = \"dumbbell\"\nleft = 255\nright = 255"] {
        let text = format!(
            "duration = \"1 us\"\n[topology]\n{fine}\n[[traffic]]\npattern = {{ kind = \"uniform\" }}\n"
        );
        assert!(run(&read(&text)).summary.packets_injected > 0, "{fine}");
    }
}

#[test]
fn the_estimate_counts_packets_exactly() {
    for (keys, sources) in [
        ("", "[[flow]]\nfrom = \"H1\"\nto = \"H4\"\nmessage = \"1 B\""),
        ("", "[[flow]]\nfrom = \"H1\"\nto = \"H4\"\nmessage = \"100 B\"\nrate = \"1 Gbit/s\""),
        ("packet = { header = \"26 B\" }", "[[flow]]\nfrom = \"H1\"\nto = \"H4\"\nmessage = \"3000 B\""),
        ("", "[[flow]]\nfrom = \"H1\"\nto = \"H4\"\nmessage = \"10 B\"\ntotal = \"1000 B\""),
        (
            "host = { message_overhead = \"1 us\" }",
            "[[flow]]\nfrom = \"H1\"\nto = \"H4\"\nmessage = \"64 B\"",
        ),
        ("", "[[traffic]]\npattern = { kind = \"shift\", by = 3 }\nmessage = \"60 B\"\npackets_per_host = 7"),
        (
            "",
            "[[traffic]]\npattern = { kind = \"shift\", by = 1 }\nmessage = \"64 B\"\nmessage_max = \"4100 B\"\nrate = \"1 Gbit/s\"",
        ),
        ("", "[[traffic]]\npattern = { kind = \"hotspots\", to = [\"H1\"] }\nmessage = \"512 B\""),
    ] {
        let scenario =
            read(&format!("duration = \"400 us\"\n{keys}\n{sources}\n[topology]\nkind = \"dumbbell\"\n"));
        let estimated = scenario.check().unwrap().estimate.packets;
        let real = run(&scenario).summary.packets_delivered as f64;
        assert!(
            (estimated / real - 1.0).abs() < 0.1,
            "{keys} {sources}: {estimated} estimated, {real} delivered"
        );
    }
}

#[test]
fn the_estimate_counts_receipts_and_announcements() {
    for (keys, most_error) in [
        ("", 0.05),
        (
            "recovery = { kind = \"selective-repeat\", timeout = \"50 us\" }\nevent = [{ kind = \"down\", links = [\"H1\"], start = \"399 us\" }]",
            0.05,
        ),
        ("congestion = { mechanism = \"hpcc\" }", 0.05),
        ("congestion = { mechanism = \"saa\" }", 0.25),
    ] {
        let text = format!(
            "duration = \"400 us\"\n{keys}\n[topology]\nkind = \"star\"\nhosts = 4\n\
             [[traffic]]\npattern = {{ kind = \"shift\", by = 1 }}\nmessage = \"8 KiB\"\nrate = \"1 Gbit/s\"\n"
        );
        let scenario = read(&text);
        let estimated = scenario.check().unwrap().estimate.packet_hops;
        let real = run(&scenario).summary.packet_hops as f64;
        assert!((estimated / real - 1.0).abs() < most_error, "{keys}: {estimated} estimated, {real} hops");
    }
}

#[test]
fn explicit_rates_with_single_packet_messages_are_warned_about() {
    let scenario = |message: &str, mechanism: &str| {
        read(&format!(
            "duration = \"50 us\"\n[topology]\nkind = \"star\"\n[congestion]\nmechanism = \"{mechanism}\"\n\
             [[flow]]\nfrom = \"H1\"\nto = \"H2\"\n{message}\n\
             [[traffic]]\nmessage = \"64 KiB\"\npattern = {{ kind = \"uniform\" }}\n"
        ))
    };
    let wanted = "flow.0 announces every packet: its messages have one packet each, and explicit rates announce and \
                  withdraw each message; set flow.0.message to more than packet.mtu, 2 KiB";
    for message in ["", "message = \"2 KiB\"", "message = \"1 B\""] {
        let single = scenario(message, "saa");
        assert_eq!(single.check().unwrap().warnings, [wanted], "{message}");
        assert!(run(&single).warnings.contains(&wanted.to_owned()), "{message}");
    }
    for fine in [scenario("message = \"4 KiB\"", "saa"), scenario("", "ib-cc")] {
        assert!(fine.check().unwrap().warnings.is_empty());
        assert!(!run(&fine).warnings.iter().any(|warning| warning.contains("announces")));
    }
}

#[test]
fn explicit_rates_are_warned_about_if_all_messages_of_a_file_have_one_packet() {
    let folder = std::env::temp_dir().join(format!("silvan-limits-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let warnings = |keys: &str, largest: u32| {
        std::fs::write(
            folder.join("list.csv"),
            format!("from,to,bytes,start_ns\nH1,H2,1,0\nH1,H2,{largest},0\n"),
        )
        .unwrap();
        std::fs::write(folder.join("sizes.txt"), format!("1 0.5\n{largest} 1\n")).unwrap();
        let text = format!(
            "duration = \"50 us\"\n[topology]\nkind = \"star\"\n[congestion]\nmechanism = \"saa\"\n[[traffic]]\n{keys}\n"
        );
        Scenario::from_toml(&text, "a.toml", &folder, &[]).unwrap().check().unwrap().warnings
    };
    let wanted = "traffic.0 announces every packet: its messages have one packet each, and explicit rates announce \
                  and withdraw each message; use messages of more than packet.mtu, 2 KiB";
    for keys in [
        "pattern = { kind = \"uniform\" }\nload_percent = 1\nsizes = { kind = \"file\", file = \"sizes.txt\" }",
        "pattern = { kind = \"listed\", file = \"list.csv\" }",
    ] {
        assert_eq!(warnings(keys, 2_048), [wanted], "{keys}");
        assert_eq!(warnings(keys, 2_049), [""; 0], "{keys}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Topologies of the same kind with switches of more than 256 ports, and with small switches on the same routes.
const LARGE_AND_SMALL: [[&str; 2]; 11] = [
    ["kind = \"dumbbell\", left = 300, right = 300", "kind = \"dumbbell\", left = 3, right = 3"],
    ["kind = \"pgft\", m = [300, 2], w = [1, 1]", "kind = \"pgft\", m = [3, 2], w = [1, 1]"],
    ["kind = \"k-ary-n-tree\", k = 300, n = 1", "kind = \"k-ary-n-tree\", k = 3, n = 1"],
    ["kind = \"k-ary-n-fly\", k = 300, n = 1", "kind = \"k-ary-n-fly\", k = 3, n = 1"],
    ["kind = \"modified-k-ary-n-tree\", k = 300, n = 1", "kind = \"modified-k-ary-n-tree\", k = 3, n = 1"],
    [
        "kind = \"torus\", sizes = [2], hosts_per_switch = 300",
        "kind = \"torus\", sizes = [2], hosts_per_switch = 3",
    ],
    [
        "kind = \"mesh\", sizes = [2], hosts_per_switch = 300",
        "kind = \"mesh\", sizes = [2], hosts_per_switch = 3",
    ],
    ["kind = \"hyperx\", sizes = [300]", "kind = \"hyperx\", sizes = [3]"],
    [
        "kind = \"dragonfly\", p = 300, a = 2, h = 1, g = 2",
        "kind = \"dragonfly\", p = 3, a = 2, h = 1, g = 2",
    ],
    [
        "kind = \"dragonfly-plus\", p = 300, leaves = 2, spines = 2, h = 1, g = 2",
        "kind = \"dragonfly-plus\", p = 3, leaves = 2, spines = 2, h = 1, g = 2",
    ],
    [
        "kind = \"custom\", hosts = [\"H1\", \"H2\"], switches = [{ name = \"S\" }], \
         links = [{ from = \"H1\", to = \"S:1\" }, { from = \"H2\", to = \"S:1024\" }]",
        "kind = \"custom\", hosts = [\"H1\", \"H2\"], switches = [{ name = \"S\" }], \
         links = [{ from = \"H1\", to = \"S:1\" }, { from = \"H2\", to = \"S:2\" }]",
    ],
];

#[test]
fn every_kind_of_topology_has_switches_of_up_to_1024_ports() {
    let text = |topology: &str, arbitration: &str| {
        format!(
            "duration = \"20 us\"\ntopology = {{ {topology} }}\nswitch.arbitration = \"{arbitration}\"\n\
             routing.allow_deadlock = true\n[[flow]]\nfrom = \"H1\"\nto = \"H2\"\n"
        )
    };
    for [large, small] in LARGE_AND_SMALL {
        let delivered =
            [large, small].map(|topology| run(&read(&text(topology, "fcfs"))).summary.packets_delivered);
        // A packet of 2 KiB leaves a host of 16 Gbit/s every 1.024 us.
        assert!((17..=19).contains(&delivered[0]), "{large}: {delivered:?}");
        assert_eq!(delivered[0], delivered[1], "{large}");
        let error = message(&text(large, "round-robin"), &[]);
        assert!(error.contains("a switch may have up to 256, or up to 1024 with"), "{large}: {error}");
    }
}

#[test]
fn a_tree_of_htsim_has_switches_of_up_to_1024_ports() {
    let folder = std::env::temp_dir().join(format!("silvan-limits-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let tree = "Nodes 600\nTiers 2\nPodsize 600\nTier 0\nDownlink_speed_Gbps 100\nRadix_Down 300\nRadix_Up 1\n\
                Downlink_Latency_ns 1000\nTier 1\nDownlink_speed_Gbps 100\nRadix_Down 2\nDownlink_Latency_ns 1000\n";
    std::fs::write(folder.join("t.topo"), tree).unwrap();
    let text = "duration = \"1 us\"\ntopology = { kind = \"file\", file = \"t.topo\" }\nswitch.arbitration = \"fcfs\"\n\
                [[flow]]\nfrom = \"H1\"\nto = \"H600\"\n";
    let built = Scenario::from_toml(text, "a.toml", &folder, &[]).unwrap().build();
    std::fs::remove_dir_all(&folder).unwrap();
    let (topology, ..) = built.unwrap();
    assert_eq!((topology.hosts.len(), topology.switches.len(), topology.switches[0].ports), (600, 3, 301));
}
