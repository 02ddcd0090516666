//! Tests of the properties of components on which the checks of configurations depend.

use super::*;
use crate::marking::Marking;
use crate::reaction::Reaction;

/// The names of the properties that are true, separated by spaces.
fn names(properties: &[(&'static str, bool)]) -> String {
    let held: Vec<&str> = properties.iter().filter(|(_, holds)| *holds).map(|(name, _)| *name).collect();
    held.join(" ")
}

fn layer(layer: Option<LinkLayer>) -> &'static str {
    match layer {
        Some(LinkLayer::InfiniBand) => "IB",
        Some(LinkLayer::Ethernet) => "Eth",
        None => "any",
    }
}

#[test]
fn marking_rules_fit_their_link_layer_and_switches() {
    let row = |kind: &str| {
        let rule: Marking = serde_json::from_str(&format!(r#"{{"kind": "{kind}"}}"#)).unwrap();
        let properties = [
            ("severities", rule.has_severities()),
            ("stamps", rule.stamps()),
            ("validates", rule.validates()),
            ("output-buffers", rule.needs_output_buffers()),
            ("input-queues", rule.needs_input_queues()),
        ];
        format!("{kind} {}: {}", layer(rule.link_layer()), names(&properties))
    };
    let expected = [
        "none any: severities",
        "fecn IB: severities",
        "ipm any: output-buffers",
        "opm any: output-buffers",
        "mvpm any: validates output-buffers",
        "sampled Eth: severities",
        "red Eth: ",
        "telemetry Eth: stamps",
    ];
    let kinds = expected.map(|row| row.split(' ').next().unwrap());
    assert_eq!(kinds.map(row), expected);
}

#[test]
fn reactions_fit_their_link_layer_and_receivers() {
    let row = |kind: &str| {
        let reaction: Reaction = serde_json::from_str(&format!(r#"{{"kind": "{kind}"}}"#)).unwrap();
        let own = reaction.properties();
        let properties = [
            ("acks", own.needs_acknowledgements),
            ("unmarked", own.acts_without_marks),
            ("marks", own.reads_marks),
            ("round-trip", own.needs_round_trip),
            ("telemetry", own.needs_telemetry),
            ("reads-telemetry", own.reads_telemetry),
            ("one-route", own.needs_one_route),
            ("requests", own.sends_requests),
            ("grants", own.needs_grants),
            ("loss", own.handles_loss),
            ("bytes", own.counts_bytes),
            ("all-hosts", own.concerns_all_hosts),
        ];
        format!("{kind} {}: {}", layer(own.link_layer), names(&properties))
    };
    let expected = [
        "none any: bytes",
        "cct IB: marks bytes",
        "static-window any: acks unmarked",
        "aimd any: acks unmarked marks",
        "fimd any: acks unmarked marks",
        "lipd any: acks unmarked marks round-trip",
        "mvcm any: acks unmarked marks round-trip",
        "explicit-rate any: unmarked bytes all-hosts",
        "qcn Eth: marks bytes",
        "dcqcn Eth: marks bytes",
        "dctcp Eth: acks unmarked marks",
        "timely Eth: acks unmarked round-trip",
        "swift Eth: acks unmarked round-trip reads-telemetry",
        "hpcc Eth: acks unmarked marks round-trip telemetry reads-telemetry one-route",
        "pcc-rtt Eth: acks unmarked marks",
        "pcc-telemetry Eth: acks unmarked marks telemetry reads-telemetry",
        "nscc Eth: acks unmarked marks round-trip loss bytes",
        "rccc Eth: acks unmarked round-trip requests grants loss bytes all-hosts",
    ];
    let kinds = expected.map(|row| row.split(' ').next().unwrap());
    assert_eq!(kinds.map(row), expected);
}
