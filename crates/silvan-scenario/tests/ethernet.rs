//! Tests which scenarios have the switches of Ethernet: outputs with one queue per class, in the order of arrival.
#![allow(clippy::unwrap_used, missing_docs)]

use std::path::Path;

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
        "congestion = { notification = \"ack-each\", reaction = { kind = \"static-window\", window = 4 } }",
    ] {
        assert_eq!(order(lines), Arbitration::RoundRobin, "{lines}");
        assert_eq!(scenario(lines).check().unwrap().ethernet, None, "{lines}");
    }
}

/// These have queues that cannot be one queue per output.
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
