//! Combines every marking with every reaction, queues and isolation. Valid combinations run, and invalid ones
//! are rejected with a message that contains the key and what would be valid.

use std::path::Path;

use silvan_scenario::Scenario;

const MARKINGS: [(&str, bool); 5] =
    [("none", false), ("fecn", false), ("ipm", true), ("opm", true), ("mvpm", true)];
/// Name of the reaction, and whether it needs an acknowledgement for every packet.
const REACTIONS: [(&str, bool); 7] = [
    ("none", false),
    ("cct", false),
    ("static-window", true),
    ("aimd", true),
    ("fimd", true),
    ("lipd", true),
    ("mvcm", true),
];
const NOTIFICATIONS: [&str; 4] = ["cnp", "ack", "ack-message", "ack-each"];
const SWITCHES: [(&str, &str); 8] = [
    ("voq", "per-output"),
    ("voq", "single"),
    ("voq", "destination-modulo"),
    ("iq", "single"),
    ("iq", "per-output"),
    ("cioq", "single"),
    ("cioq", "per-output"),
    ("cioq", "destination-modulo"),
];
const ISOLATIONS: [&str; 2] = ["none", "special-queues"];

fn text(marking: &str, reaction: &str, notification: &str, switch: (&str, &str), isolation: &str) -> String {
    let table = |kind: &str| match kind {
        "cct" => r#"{ kind = "cct", ccti_timer = 1 }"#.to_owned(),
        "special-queues" => r#"{ kind = "special-queues", at_root = true }"#.to_owned(),
        kind => format!("{{ kind = \"{kind}\" }}"),
    };
    format!(
        r#"
        duration = "40 us"
        topology = {{ kind = "k-ary-n-tree", k = 2, n = 2, link_rate = "16 Gbit/s" }}
        packet = {{ mtu = "256 B" }}
        switch = {{ architecture = "{}", queues = "{}", buffer = "32 KiB" }}
        measure = {{ interval = "10 us" }}
        [congestion]
        marking = {}
        reaction = {}
        notification = "{notification}"
        isolation = {}
        [[flow]]
        from = "H2"
        to = "H1"
        [[flow]]
        from = "H3"
        to = "H1"
        [[flow]]
        from = "H4"
        to = "H2"
        "#,
        switch.0,
        switch.1,
        table(marking),
        table(reaction),
        table(isolation),
    )
}

/// The key that is invalid, if any, according to the documented rules.
fn wrong_key(
    marking_is_cioq: bool,
    needs_each: bool,
    notification: &str,
    (architecture, queues): (&str, &str),
    isolation: &str,
) -> Option<&'static str> {
    let special = isolation == "special-queues";
    if marking_is_cioq && architecture != "cioq" {
        Some("congestion.marking.kind")
    } else if special && architecture == "cioq" {
        Some("switch.architecture")
    } else if needs_each && notification != "ack-each" {
        Some("congestion.notification")
    } else if special && queues == "destination-modulo" {
        Some("switch.queues")
    } else {
        None
    }
}

#[test]
fn every_valid_combination_runs_and_every_invalid_one_is_explained() {
    let (mut ran, mut refused) = (0, 0);
    for (marking, cioq) in MARKINGS {
        for (reaction, each) in REACTIONS {
            for notification in NOTIFICATIONS {
                for switch in SWITCHES {
                    for isolation in ISOLATIONS {
                        let what = format!("{marking} {reaction} {notification} {switch:?} {isolation}");
                        let text = text(marking, reaction, notification, switch, isolation);
                        let scenario = Scenario::from_toml(&text, "pair", Path::new(""), &[]);
                        match (wrong_key(cioq, each, notification, switch, isolation), scenario) {
                            (None, Ok(scenario)) => {
                                let mut run = scenario.simulation().unwrap_or_else(|e| panic!("{what}: {e}"));
                                while !run.advance(100_000).unwrap_or_else(|e| panic!("{what}: {e}")).done {}
                                let summary = run.finish().unwrap().summary;
                                assert!(summary.packets_delivered > 100, "{what}: only few packets arrive");
                                ran += 1;
                            }
                            (Some(key), Err(error)) => {
                                let error = error.to_string();
                                assert!(error.contains(key), "{what}: {error}");
                                refused += 1;
                            }
                            (None, Err(error)) => panic!("{what} is legal: {error}"),
                            (Some(key), Ok(_)) => panic!("{what} should be rejected because of {key}"),
                        }
                    }
                }
            }
        }
    }
    assert!(ran > 200 && refused > 200, "{ran} ran, {refused} were refused");
}
