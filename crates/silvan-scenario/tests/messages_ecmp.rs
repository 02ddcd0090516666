//! Pins the messages about equal-cost multipath.

use std::path::Path;

use crate::common::{assert_message, case, check, message};
use silvan_scenario::Scenario;

#[test]
fn errors_of_hashed_packets_are_explained() {
    check(&[
        case("mechanism = \"ib-cc\"\n[ecmp]", "fine"),
        case("mechanism = \"saa\"\n[ecmp]\nenabled = false", "fine"),
        case(
            "mechanism = \"ib-cc\"\n[ecmp]\n[adaptive_routing]\nper = \"packet\"",
            "a.toml:6: ecmp: cannot be combined with [adaptive_routing]: a switch either hashes packets or selects ports \
             by state; leave one of them out",
        ),
        case("mechanism = \"ib-cc\"\n[ecmp]\n[adaptive_routing]\nper = \"packet\"\nenabled = false", "fine"),
        case("mechanism = \"saa\"\n[ecmp]", "a.toml:6: ecmp: cannot be combined with explicit rates ..."),
        case(
            "mechanism = \"none\"\n[switch]\nmemory = \"divided\"\n[ecmp]",
            r#"a.toml:8: ecmp: needs switch.memory = "shared" with these queues: a sender ..."#,
        ),
        case(
            "mechanism = \"none\"\n[ecmp]\nsalt = 3",
            "a.toml:7: ecmp.salt = 3: unknown key; known here: `enabled` ...",
        ),
    ]);
}

#[test]
fn errors_of_spraying_are_explained() {
    let marked = |rest: &str| format!("marking = {{ kind = \"red\" }}\nnotification = {rest}");
    let cases = [
        (
            "mechanism = \"ib-cc\"\n[ecmp]\nspraying = \"oblivious\"\nvalues = 48".to_owned(),
            "a.toml:8: ecmp.values = 48: must be a power of two, because rounds invert bits of the values; 32 is the next \
             lower one",
        ),
        (
            "mechanism = \"ib-cc\"\n[ecmp]\nspraying = \"oblivious\"\nvalues = 65536".to_owned(),
            "a.toml:8: ecmp.values = 65536: must be 1 to 32768",
        ),
        (
            "mechanism = \"ib-cc\"\n[ecmp]\nvalues = 32".to_owned(),
            "a.toml:7: ecmp.values = 32: has no effect: packets have no entropy values ...",
        ),
        (
            "mechanism = \"none\"\n[ecmp]\nspraying = \"bitmap\"".to_owned(),
            r#"a.toml:7: ecmp.spraying = "bitmap": avoids values whose packets were marked ..."#,
        ),
        (
            "mechanism = \"ib-cc\"\n[ecmp]\nspraying = \"reps\"".to_owned(),
            r#"a.toml:7: ecmp.spraying = "reps": reuses the values of packets that were acknowledged without a mark ..."#,
        ),
        (
            marked("\"ack-message\"\n[ecmp]\nspraying = \"bitmap\""),
            r#"a.toml:8: ecmp.spraying = "bitmap": needs answers that return the entropy value of each marked packet ..."#,
        ),
        (
            "marking = { kind = \"telemetry\" }\nnotification = \"ack-each\"\nreaction = { kind = \"hpcc\" }\n[ecmp]\n\
             spraying = \"random\""
                .to_owned(),
            r#"a.toml:9: ecmp.spraying = "random": cannot be combined with this congestion.reaction ..."#,
        ),
        (
            "mechanism = \"ib-cc\"\n[ecmp]\n[host]\ndelivery = \"out-of-order\"".to_owned(),
            r#"a.toml:8: host.delivery = "out-of-order": has no effect: the packets of a flow take one route and ..."#,
        ),
        (marked("\"ack-each\"\n[ecmp]\nspraying = \"mixed\"\n[host]\ndelivery = \"out-of-order\""), "fine"),
        (marked("\"cnp\"\n[ecmp]\nspraying = \"bitmap\"\nvalues = 128"), "fine"),
        (
            "marking = { kind = \"telemetry\" }\nnotification = \"ack-each\"\nreaction = { kind = \"hpcc\" }\n[ecmp]"
                .to_owned(),
            "fine",
        ),
    ];
    for (given, expected) in &cases {
        check(&[case(given, expected)]);
    }
}

const TORUS: &str = r#"duration = "1 ms"
[topology]
kind = "torus"
sizes = [2, 2]
[[flow]]
from = "H1"
to = "H4"
[ecmp]
"#;

#[test]
fn networks_that_cannot_be_hashed_are_explained() {
    let by_routing = TORUS.replacen("[[flow]]", "[lanes]\nassignment = \"routing\"\n[[flow]]", 1);
    assert_eq!(
        message(&by_routing, &[]),
        "a.toml:10: ecmp: cannot be combined with lanes by paths or routing, which apply to one route; set \
         lanes.assignment = \"service-level\""
    );
    let scenario = Scenario::from_toml(TORUS, "a.toml", Path::new(""), &[]).unwrap();
    let error = scenario.simulation().err().unwrap().to_string();
    assert!(error.contains("can deadlock: packets may wait for each other along"), "{error}");
    assert!(
        error.contains("[ecmp] uses every shortest route, which is safe only on trees; leave it out"),
        "{error}"
    );
}

#[test]
fn hashed_packets_have_no_fluid_rates() {
    let tree = TORUS.replacen("kind = \"torus\"\nsizes = [2, 2]", "kind = \"k-ary-n-tree\"\nk = 2\nn = 2", 1);
    let fluid = |text: &str| Scenario::from_toml(text, "a.toml", Path::new(""), &[]).unwrap().fluid();
    assert_message(
        &fluid(&tree).unwrap_err().to_string(),
        "a.toml:9: ecmp: has no rates to compute: fluid rates need forwarding tables ...",
        "",
    );
    assert!(fluid(&tree.replace("[ecmp]", "[ecmp]\nenabled = false")).is_ok());
}
