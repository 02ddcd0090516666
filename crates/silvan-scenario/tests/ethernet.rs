//! Tests which scenarios have switches of Ethernet: each output has one queue per class, which it serves in
//! the order of arrival.

use std::path::Path;

use silvan_congestion::Mechanism;
use silvan_fabric::config::Arbitration;
use silvan_scenario::Scenario;

fn scenario(lines: &str) -> Scenario {
    let base = "duration = \"1 us\"\ntopology = { kind = \"star\", hosts = 2 }\n";
    let flow = "[[flow]]\nfrom = \"H1\"\nto = \"H2\"\n";
    Scenario::from_toml(&format!("{base}{lines}\n{flow}"), "a.toml", Path::new(""), &[]).unwrap()
}

fn order(lines: &str) -> Arbitration {
    scenario(lines).spec.switch.arbitration.unwrap()
}

const ETHERNET: [&str; 9] = [
    "flow_control.kind = \"pfc\"",
    "congestion.marking.kind = \"red\"",
    "congestion = { marking.kind = \"telemetry\", notification = \"ack-each\" }",
    "congestion = { notification = \"ack-each\", reaction.kind = \"swift\" }",
    "congestion = { notification = \"ack-each\", reaction.kind = \"timely\" }",
    "congestion = { notification = \"ack-each\", reaction.kind = \"pcc-rtt\" }",
    "congestion = { notification = \"ack-grant\", reaction.kind = \"rccc\" }",
    "congestion.mechanism = \"qcn\"",
    "congestion.hosts = [{ at = [\"H1\"], reaction.kind = \"dcqcn\" }]",
];

#[test]
fn outputs_of_ethernet_switches_serve_packets_in_the_order_of_arrival() {
    for lines in ETHERNET {
        assert_eq!(order(lines), Arbitration::Fcfs, "{lines}");
        let report = scenario(lines).check().unwrap();
        assert_eq!(report.arbitration, Arbitration::Fcfs, "{lines}");
        let given = format!("{lines}\nswitch.arbitration = \"round-robin\"");
        assert_eq!(order(&given), Arbitration::RoundRobin, "{lines}");
    }
    let report = scenario(ETHERNET[0]).check().unwrap();
    assert_eq!(report.ethernet.as_deref(), Some(ETHERNET[0]));
}

#[test]
fn other_switches_serve_their_inputs_in_turn() {
    for lines in [
        "",
        "congestion.mechanism = \"ib-cc\"",
        "congestion.mechanism = \"saa\"",
        "congestion = { notification = \"ack-each\", reaction = { kind = \"static-window\", packets = 4 } }",
    ] {
        assert_eq!(order(lines), Arbitration::RoundRobin, "{lines}");
        assert_eq!(scenario(lines).check().unwrap().ethernet, None, "{lines}");
    }
}

/// The switches of these scenarios cannot have one queue per output.
#[test]
fn switches_that_cannot_serve_in_the_order_of_arrival_serve_their_inputs_in_turn() {
    for lines in [
        "congestion.marking.kind = \"red\"\nswitch.architecture = \"iq\"",
        "congestion.marking.kind = \"red\"\nswitch.queues = \"single\"",
        "congestion.marking.kind = \"red\"\nswitch.memory = \"divided\"",
        "congestion = { marking.kind = \"red\", isolation.kind = \"special-queues\" }",
        "flow_control.kind = \"pfc\"\ncongestion = { mechanism = \"ib-cc\", marking = { fill = \"each\" } }",
    ] {
        assert_eq!(order(lines), Arbitration::RoundRobin, "{lines}");
        assert!(scenario(lines).check().unwrap().ethernet.is_some(), "{lines}");
    }
}

#[test]
fn the_account_states_the_order_of_outputs() {
    let account = |lines| {
        let mut run = scenario(lines).simulation().unwrap();
        while !run.advance(u64::MAX).unwrap().done {}
        run.finish().unwrap().account.join("\n")
    };
    let red = "congestion = { marking.kind = \"red\", reaction.kind = \"dcqcn\" }";
    assert!(account(red).contains("in the order of their arrival (\"fcfs\"), as on Ethernet"));
    let turn = format!("{red}\nswitch.arbitration = \"round-robin\"");
    assert!(account(&turn).contains("switch.arbitration is \"round-robin\""));
    assert!(!account("").contains("Ethernet"));
}

/// The names of the presets, and the names of their marking rule, notification and reaction.
const PRESETS: [(&str, &str, &str, &str); 10] = [
    ("dcqcn", "red", "cnp", "dcqcn"),
    ("dctcp", "red", "ack-each", "dctcp"),
    ("timely", "none", "ack-each", "timely"),
    ("swift", "none", "ack-each", "swift"),
    ("hpcc", "telemetry", "ack-each", "hpcc"),
    ("pcc-rtt", "none", "ack-each", "pcc-rtt"),
    ("pcc-telemetry", "telemetry", "ack-each", "pcc-telemetry"),
    ("nscc", "red", "ack-each", "nscc"),
    ("rccc", "none", "ack-grant", "rccc"),
    ("uec", "red", "ack-grant", "rccc"),
];

fn resolved(scenario: &Scenario) -> toml::Table {
    scenario.to_toml().unwrap().parse().unwrap()
}

#[test]
fn mechanisms_of_ethernet_are_presets_with_their_switches_and_links() {
    for (mechanism, marking, notification, reaction) in PRESETS {
        let found = resolved(&scenario(&format!("congestion.mechanism = \"{mechanism}\"")));
        let congestion = &found["congestion"];
        assert_eq!(congestion["marking"]["kind"].as_str(), Some(marking), "{mechanism}");
        assert_eq!(congestion["notification"].as_str(), Some(notification), "{mechanism}");
        assert_eq!(congestion["reaction"]["kind"].as_str(), Some(reaction), "{mechanism}");
        assert_eq!(found["switch"]["arbitration"].as_str(), Some("fcfs"), "{mechanism}");
        assert_eq!(found["switch"]["buffer"].as_str(), Some("1 MiB"), "{mechanism}");
        assert_eq!(found["packet"]["header"].as_str(), Some("64 B"), "{mechanism}");
        let is_ultra = ["nscc", "rccc", "uec"].contains(&mechanism);
        let links = if is_ultra { "credits" } else { "pfc" };
        assert_eq!(found["flow_control"]["kind"].as_str(), Some(links), "{mechanism}");
        let again =
            Scenario::from_toml(&toml::to_string(&found).unwrap(), "b.toml", Path::new(""), &[]).unwrap();
        assert_eq!(resolved(&again), found, "{mechanism}");
    }
    let dcqcn = resolved(&scenario("congestion.mechanism = \"dcqcn\""));
    assert_eq!(dcqcn["congestion"]["coalescing"]["interval"].as_str(), Some("4 us"));
}

#[test]
fn given_values_replace_those_of_a_preset() {
    let lines = "congestion = { mechanism = \"dcqcn\", marking = { min = \"50 kB\" }, reaction = { set = \"paper\" } }\n\
                 packet.header = \"48 B\"\nflow_control.kind = \"credits\"\nswitch = { buffer = \"256 KiB\", arbitration = \"round-robin\" }";
    let found = resolved(&scenario(lines));
    assert_eq!(found["congestion"]["marking"]["kind"].as_str(), Some("red"));
    assert_eq!(found["congestion"]["marking"]["min"].as_str(), Some("50 KB"));
    assert_eq!(found["congestion"]["marking"]["max"].as_str(), Some("400 KB"));
    assert_eq!(found["congestion"]["reaction"]["set"].as_str(), Some("paper"));
    assert_eq!(found["packet"]["header"].as_str(), Some("48 B"));
    assert_eq!(found["flow_control"]["kind"].as_str(), Some("credits"));
    assert_eq!(found["switch"]["buffer"].as_str(), Some("256 KiB"));
    assert_eq!(found["switch"]["arbitration"].as_str(), Some("round-robin"));
}

/// Runs with and without a mechanism must otherwise have equal settings.
#[test]
fn an_override_that_switches_a_preset_off_keeps_its_network() {
    let text = "duration = \"1 us\"\ntopology = { kind = \"star\", hosts = 2 }\ncongestion.mechanism = \"dcqcn\"\n\
                [[flow]]\nfrom = \"H1\"\nto = \"H2\"\n";
    let with = |overrides: &[(&str, &str)]| {
        let overrides: Vec<_> =
            overrides.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        resolved(&Scenario::from_toml(text, "a.toml", Path::new(""), &overrides).unwrap())
    };
    let on = with(&[]);
    for off in [("congestion.mechanism", "none"), ("congestion", "{}")] {
        let off = with(&[off]);
        for part in ["switch", "host", "flow_control", "lanes", "packet"] {
            assert_eq!(off[part], on[part], "{part}");
        }
        assert_eq!(off["congestion"]["reaction"]["kind"].as_str(), Some("none"));
    }
    let ib_cc = with(&[("congestion.mechanism", "ib-cc")]);
    assert_eq!(ib_cc["flow_control"]["kind"].as_str(), Some("credits"));
    assert_eq!(ib_cc["switch"]["arbitration"].as_str(), Some("round-robin"));
}

/// The thresholds of HPCC's authors for 100 Gbit/s and 13 us, scaled to another network.
#[test]
fn thresholds_follow_the_rate_and_the_round_trip() {
    let lines = "congestion.mechanism = \"dcqcn\"\nswitch.latency = \"1500 ns\"\npacket = { mtu = \"1000 B\", header = \"0 B\", control = \"60 B\" }";
    let base = "duration = \"1 us\"\n[[flow]]\nfrom = \"H1\"\nto = \"H2\"\n[topology]\nkind = \"star\"\nhosts = 2\nlink_rate = \"100 Gbit/s\"\nlink_delay = \"2458 ns\"\n";
    let text = format!("{lines}\n{base}");
    let report = Scenario::from_toml(&text, "a.toml", Path::new(""), &[]).unwrap().check().unwrap();
    // 4 x 2458 + 2 x 1500 + 80 + 4.8 ns.
    let trip = report.round_trip.as_ref().map_or(12_916.8, |trip| trip.shortest_ns);
    assert!((trip - 12_916.8).abs() < 0.2, "{trip}");
    let [one] = report.thresholds.as_slice() else { panic!("{:?}", report.thresholds) };
    let scaled = |kb: f64| (kb * 1e3 * 4.0 * 12_916.8 / 13_000.0) as u64;
    assert_eq!((one.gbit_s, one.min_bytes, one.max_bytes), (100.0, scaled(100.0), scaled(400.0)));
}

fn refused(lines: &str) -> String {
    let base = "duration = \"1 us\"\ntopology = { kind = \"star\", hosts = 2 }\n";
    let flow = "[[flow]]\nfrom = \"H1\"\nto = \"H2\"\n";
    let text = format!("{base}{lines}\n{flow}");
    Scenario::from_toml(&text, "a.toml", Path::new(""), &[]).unwrap_err().to_string()
}

#[test]
fn a_component_of_another_link_layer_needs_the_others_to_be_named() {
    let dcqcn = refused("congestion = { mechanism = \"ib-cc\", reaction.kind = \"dcqcn\" }");
    assert_eq!(
        dcqcn,
        "a.toml:3: congestion.reaction.kind = \"dcqcn\": is a component of Ethernet, and congestion.mechanism = \"ib-cc\" is one \
         of InfiniBand; set congestion.mechanism = \"dcqcn\", or for a hybrid give congestion.marking, notification and \
         reaction, each with its kind"
    );
    let red = refused("congestion = { mechanism = \"ecocc\", marking.kind = \"red\" }");
    assert!(red.contains("congestion.marking.kind = \"red\": is a component of Ethernet"), "{red}");
    let cct = refused("congestion = { mechanism = \"dcqcn\", reaction.kind = \"cct\" }");
    assert!(cct.contains("is a component of InfiniBand, and congestion.mechanism = \"dcqcn\""), "{cct}");
    let none = refused("congestion = { mechanism = \"none\", reaction.kind = \"hpcc\" }");
    assert!(none.contains("name the mechanism that the component belongs to (\"hpcc\")"), "{none}");
    let named = "congestion = { marking.kind = \"fecn\", notification = \"cnp\", reaction.kind = \"dcqcn\" }";
    let mut run = scenario(named).simulation().unwrap();
    while !run.advance(u64::MAX).unwrap().done {}
    let account = run.finish().unwrap().account.join("\n");
    assert!(account.contains("This is a hybrid: the marking rule `fecn` is one of InfiniBand"), "{account}");
}

/// The numbers of 802.1Q, annex N, computed separately: two packets, a frame, two delays and the latency at
/// 100 Gbit/s.
#[test]
fn the_report_contains_headroom_and_what_is_left_of_shared_memory() {
    let lines = |shared| {
        format!(
            "packet = {{ mtu = \"1024 B\", control = \"64 B\" }}\nswitch.latency = \"100 ns\"\nhost.buffer = \"1 MiB\"\n\
             flow_control = {{ kind = \"pfc\"{shared} }}"
        )
    };
    let report = |shared| {
        let text = format!(
            "duration = \"1 us\"\n{}\n[[flow]]\nfrom = \"H1\"\nto = \"H2\"\nmessage = \"1 MB\"\n[topology]\nkind = \"star\"\nhosts = 4\n\
             link_rate = \"100 Gbit/s\"\nlink_delay = \"500 ns\"\n",
            lines(shared)
        );
        Scenario::from_toml(&text, "a.toml", Path::new(""), &[]).unwrap().check().unwrap().pauses.unwrap()
    };
    let own = report(", xoff = \"64 KiB\"");
    // 1024 B, and 12.5 B/ns for 81.92 + 6.72 + 1000 + 100 ns, before rounding up to credit blocks.
    let by_hand = 1024.0 + 12.5 * (81.92 + 6.72 + 1_000.0 + 100.0);
    let headroom = own.least_headroom_bytes;
    assert!((f64::from(headroom) - by_hand).abs() < 0.07 * by_hand, "{headroom}, by hand {by_hand}");
    assert_eq!((own.most_headroom_bytes, own.shared), (headroom, None));
    let shared = report(", shared = { memory = \"2 MiB\", reserve = \"4 KiB\" }").shared.unwrap();
    assert_eq!(shared.memory_bytes, 2 << 20);
    assert_eq!(shared.headroom_bytes, 4 * u64::from(headroom));
    assert_eq!(shared.reserve_bytes, 4 * 4_096);
    assert_eq!(shared.left_bytes, (2 << 20) - 4 * u64::from(headroom) - 4 * 4_096);
}

/// Runs a star of three hosts with listed transfers, one of them with a single byte. Returns the numbers of transfers
/// that started and that did not finish, or the error.
fn listed(lines: &str, rate: &str) -> Result<(u64, u64), String> {
    let folder = std::env::temp_dir().join(format!("silvan-ethernet-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("list.csv"), "from,to,bytes,start_ns\n0,2,20000,0\n1,2,1,500\n").unwrap();
    let text = format!(
        "{lines}\nduration = \"1 ms\"\nmeasure.transfers = true\n[[traffic]]\npattern = {{ kind = \"listed\", file = \"list.csv\" }}\n\
         [topology]\nkind = \"star\"\nhosts = 3\nlink_rate = \"{rate}\"\nlink_delay = \"1 us\"\n"
    );
    let run = Scenario::from_toml(&text, "a.toml", &folder, &[]).and_then(|scenario| scenario.simulation());
    let mut run = run.map_err(|error| error.to_string())?;
    while !run.advance(u64::MAX).unwrap().done {}
    let transfers = run.finish().unwrap().summary.transfers.unwrap();
    Ok((transfers.started, transfers.unfinished))
}

#[test]
fn every_mechanism_runs_listed_transfers_on_a_small_network_with_its_defaults() {
    for mechanism in Mechanism::ALL {
        for rate in ["10 Gbit/s", "100 Gbit/s", "400 Gbit/s"] {
            let found = listed(&format!("congestion.mechanism = \"{}\"", mechanism.name()), rate);
            assert_eq!(found, Ok((2, 0)), "{} at {rate}", mechanism.name());
        }
    }
}

/// A packet of 1 B occupies a block of 64 B.
#[test]
fn a_message_about_headroom_names_the_header() {
    let hint = "headroom is up to 64 times as large as for full packets, because a packet with a payload of 1 B has 1 B on a \
                link, but 64 B in a buffer; set packet.header, such as \"64 B\"";
    let own = listed("flow_control.kind = \"pfc\"", "100 Gbit/s").unwrap_err();
    assert!(own.contains("above the threshold") && own.ends_with(hint), "{own}");
    let dcqcn = "congestion.mechanism = \"dcqcn\"\npacket.header = \"0 B\"\nhost.buffer = \"8 MiB\"";
    let shared = listed(dcqcn, "100 Gbit/s").unwrap_err();
    assert!(shared.contains("of reserves") && shared.ends_with(hint), "{shared}");
    let large =
        "congestion.mechanism = \"dcqcn\"\nflow_control = { kind = \"pfc\", shared.memory = \"8 KiB\" }";
    let large = listed(large, "100 Gbit/s").unwrap_err();
    assert!(large.contains("of reserves") && !large.contains("packet.header"), "{large}");
}
