//! Pins the messages about components of RDMA over Ethernet and their combinations.

use crate::common::{case, check};

#[test]
fn errors_of_marks_by_thresholds_are_explained() {
    check(&[
        case("[congestion.marking]\nkind = \"red\"", "fine"),
        case(
            "[congestion.marking]\nkind = \"red\"\nmin = \"10 kB\"\nmax = \"9 kB\"",
            "a.toml:7: congestion.marking.min = \"10 kB\": must be at most `max`, 9 KB",
        ),
        case(
            "[congestion.marking]\nkind = \"red\"\nmax = \"2 GiB\"",
            "a.toml:7: congestion.marking.max = \"2 GiB\": must be at most 1 GiB",
        ),
        case(
            "[congestion.marking]\nkind = \"red\"\npercent = 0",
            "a.toml:7: congestion.marking.percent = 0: must be 1 to 100",
        ),
        case(
            "feedback = \"quantized\"\n[congestion.marking]\nkind = \"red\"",
            r#"a.toml:5: congestion.feedback = "quantized": must be "binary" with this congestion.marking ..."#,
        ),
        case(
            "[congestion.marking]\nkind = \"red\"\nthreshold = 3",
            "a.toml:7: congestion.marking.threshold = 3: unknown key; did you mean `thresholds`? known here: `kind` ...",
        ),
        case(
            "[congestion.marking]\nkind = \"red\"\nthresholds = [{ rate = \"99 Gbit/s\", min = \"1 kB\", max = \"2 kB\" }]",
            "a.toml:7: congestion.marking.thresholds = a list of 1: has no entry for 16 Gbit/s, at which S1:1 sends; each rate of the \
             network needs one",
        ),
        case(
            "[congestion.marking]\nkind = \"red\"\nper_rate = \"99 Gbit/s\"\n\
             thresholds = [{ rate = \"16 Gbit/s\", min = \"1 kB\", max = \"2 kB\" }]",
            "a.toml:7: congestion.marking.per_rate = \"99 Gbit/s\": must be left out, because `thresholds` states it for \
             each rate",
        ),
        // The table replaces the thresholds of the preset in any form.
        case(
            "mechanism = \"dcqcn\"\nmarking.thresholds = [{ rate = \"16 Gbit/s\", min = \"1 kB\", max = \"2 kB\" }, \
             { rate = \"32 Gbit/s\", min = \"1 kB\", max = \"2 kB\" }]",
            "fine",
        ),
        case(
            "mechanism = \"ccfit\"\nmarking.thresholds = [{ rate = \"16 Gbit/s\", threshold = 8 }, \
             { rate = \"32 Gbit/s\", upper = \"9 kB\", lower = \"3 kB\" }]",
            "fine",
        ),
    ]);
}

#[test]
fn telemetry_and_reactions_that_do_not_go_together_are_rejected() {
    check(&[
        case(
            "marking = { kind = \"telemetry\" }\nnotification = \"ack-each\"\nreaction = { kind = \"hpcc\" }",
            "fine",
        ),
        case(
            "marking = { kind = \"telemetry\" }\nnotification = \"cnp\"",
            "a.toml:6: congestion.notification = \"cnp\": must be \"ack-each\" with congestion.marking.kind = \
             \"telemetry\", which acknowledgements return",
        ),
        case(
            "marking = { kind = \"red\" }\nnotification = \"ack-each\"\nreaction = { kind = \"hpcc\" }",
            r#"a.toml:5: congestion.marking.kind = "red": must be "telemetry" with this congestion.reaction ..."#,
        ),
        case(
            "marking = { kind = \"telemetry\" }\nnotification = \"ack-each\"\nreaction = { kind = \"hpcc\" }\n\
             [adaptive_routing]\nper = \"packet\"",
            r#"a.toml:9: adaptive_routing.per = "packet": "packet" cannot be combined with this congestion.reaction ..."#,
        ),
        case(
            "marking = { kind = \"red\" }\nnotification = \"cnp\"\nreaction = { kind = \"dctcp\" }",
            r#"a.toml:6: congestion.notification = "cnp": must be "ack-each" with this congestion.reaction ..."#,
        ),
        case(
            "notification = \"ack\"\nreaction = { kind = \"timely\" }",
            r#"a.toml:5: congestion.notification = "ack": must be "ack-each" with this congestion.reaction ..."#,
        ),
        case(
            "notification = \"backward\"\nreaction = { kind = \"swift\" }",
            r#"a.toml:5: congestion.notification = "backward": must be "ack-each" with this congestion.reaction ..."#,
        ),
        case(
            "notification = \"ack\"\nnotification_delay = \"55 us\"",
            r#"a.toml:6: congestion.notification_delay = "55 us": applies to notification packets ..."#,
        ),
        case("marking = { kind = \"red\" }\nnotification_delay = \"55 us\"", "fine"),
        case(
            "marking = { kind = \"red\" }\nnotification_delay = \"2 s\"",
            "a.toml:6: congestion.notification_delay = \"2 s\": must be at most 1 s",
        ),
    ]);
}

#[test]
fn errors_of_reactions_are_explained() {
    check(&[
        case(
            "reaction = { kind = \"dcqcn\", alpha_interval = \"0 s\" }",
            "a.toml:5: congestion.reaction.alpha_interval = \"0 s\": must be more than 0 s",
        ),
        case(
            "reaction = { kind = \"dcqcn\", set = \"best\" }",
            "a.toml:5: congestion.reaction.set = \"best\": must be one of `tuned`, `paper`",
        ),
        case(
            "reaction = { kind = \"dcqcn\", additive_increase = \"0 bit/s\" }",
            r#"a.toml:5: congestion.reaction.additive_increase = "0 bit/s": must be more than 0 bit/s ..."#,
        ),
        case(
            "reaction = { kind = \"dcqcn\", increase_bytes = \"0 B\" }",
            "a.toml:5: congestion.reaction.increase_bytes = \"0 B\": must be 1 B to 1 GiB",
        ),
        case(
            "notification = \"ack-each\"\nreaction = { kind = \"dctcp\", min_packets = 0 }",
            "a.toml:6: congestion.reaction.min_packets = 0: must be at least 1 ...",
        ),
        case(
            "notification = \"ack-each\"\nreaction = { kind = \"timely\", low = \"5 us\", high = \"4 us\" }",
            "a.toml:6: congestion.reaction.low = \"5 us\": must be at most `high`, 4 us",
        ),
        case(
            "notification = \"ack-each\"\nreaction = { kind = \"swift\", scaling_from_percent = 100, \
             scaling_to_packets = 1 }",
            "a.toml:6: congestion.reaction.scaling_from_percent = 100: must be less than 100 times `scaling_to_packets`, ...",
        ),
        case(
            "marking = { kind = \"telemetry\" }\nnotification = \"ack-each\"\nreaction = { kind = \"hpcc\", \
             utilization_percent = 101 }",
            "a.toml:7: congestion.reaction.utilization_percent = 101: must be 1 to 100",
        ),
    ]);
}

#[test]
fn errors_of_receiver_credits_are_explained() {
    check(&[
        case("notification = \"ack-grant\"\nreaction = { kind = \"rccc\" }", "fine"),
        case(
            "notification = \"ack-grant\"\nreaction = { kind = \"rccc\", nscc = { target = \"5 us\" } }",
            "fine",
        ),
        case(
            "notification = \"ack-each\"\nacknowledge = {}\nreaction = { kind = \"swift\" }",
            "a.toml:6: congestion.acknowledge: cannot be combined with the reaction \"swift\", which counts the ...",
        ),
        case(
            "mechanism = \"dcqcn\"\nacknowledge = { bytes = \"4 KiB\" }",
            "a.toml:6: congestion.acknowledge: needs congestion.notification = \"ack-each\" or \"ack-grant\" ...",
        ),
        case(
            "notification = \"ack-each\"\nreaction = { kind = \"rccc\" }",
            "a.toml:5: congestion.notification = \"ack-each\": must be \"ack-grant\" with this congestion.reaction, \
             which waits for grants of the receivers",
        ),
        case(
            "notification = \"ack-grant\"\nreaction = { kind = \"rccc\", limit = \"1 kB\" }",
            r#"a.toml:6: congestion.reaction.limit = "1 kB": must be 2 KiB to 1 GiB ..."#,
        ),
        case(
            "notification = \"ack-grant\"\nreaction = { kind = \"rccc\", limit = \"9 kB\", speculative = \"10 kB\" }",
            "a.toml:6: congestion.reaction.speculative = \"10 kB\": must be at most `limit`, 9 KB",
        ),
        case(
            "notification = \"ack-grant\"\nreaction = { kind = \"rccc\", speculative = \"2 GiB\" }",
            "a.toml:6: congestion.reaction.speculative = \"2 GiB\": must be at most 1 GiB",
        ),
        case(
            "notification = \"ack-grant\"\nreaction = { kind = \"rccc\", grant_percent = 101 }",
            "a.toml:6: congestion.reaction.grant_percent = 101: must be 1 to 100",
        ),
        case(
            "notification = \"ack-grant\"\nreaction = { kind = \"rccc\", divide_requests = true, idle_credit = false }",
            "a.toml:6: congestion.reaction.divide_requests = true: needs `idle_credit`: the part that a flow asks for may not ...",
        ),
        case(
            "notification = \"ack-grant\"\nreaction = { kind = \"rccc\", grant_packets = 0 }",
            "a.toml:6: congestion.reaction.grant_packets = 0: must be 1 to 64",
        ),
        case(
            "notification = \"ack-grant\"\nreaction = { kind = \"rccc\", round_trip = \"0 s\" }",
            "a.toml:6: congestion.reaction.round_trip = \"0 s\": must be more than 0 s",
        ),
        case(
            "notification = \"ack-grant\"\nreaction = { kind = \"rccc\", nscc = { target = \"0 s\" } }",
            "a.toml:6: congestion.reaction.nscc.target = \"0 s\": must be more than 0 s",
        ),
    ]);
}

#[test]
fn errors_of_the_priority_of_control_packets_are_explained() {
    check(&[
        case("mechanism = \"ib-cc\"\n[lanes]\ncount = 2\ncontrol = 1\ncontrol_priority = true", "fine"),
        case(
            "mechanism = \"ib-cc\"\n[lanes]\ncount = 2\ncontrol_priority = true",
            "a.toml:8: lanes.control_priority = true: needs lanes.control, the lane of control packets",
        ),
        case(
            "mechanism = \"ib-cc\"\n[lanes]\ncontrol = 0\ncontrol_priority = true",
            "a.toml:8: lanes.control_priority = true: has no effect: there is one lane ...",
        ),
    ]);
}

#[test]
fn errors_of_the_control_of_grants_are_explained() {
    let rule = |keys: &str| -> &'static str {
        let given = format!(
            "marking = {{ kind = \"red\" }}\nnotification = \"ack-grant\"\n[congestion.reaction]\nkind = \"rccc\"\n\
             [congestion.reaction.oversubscribed]\n{keys}"
        );
        given.leak()
    };
    check(&[
        case(rule("min_rate_permille = 225"), "fine"),
        case(
            rule("interval = \"99 ns\""),
            "a.toml:10: congestion.reaction.oversubscribed.interval = \"99 ns\": must be at least 100 ns",
        ),
        case(
            rule("target_percent = 100"),
            "a.toml:10: congestion.reaction.oversubscribed.target_percent = 100: must be 0 to 99",
        ),
        case(
            rule("rate = 3"),
            "a.toml:10: congestion.reaction.oversubscribed.rate = 3: unknown key; known here: `interval` ...",
        ),
    ]);
}

#[test]
fn errors_of_programmable_congestion_control_are_explained() {
    let rtt = |keys: &str| -> &'static str {
        format!("notification = \"ack-each\"\nreaction = {{ kind = \"pcc-rtt\", {keys} }}").leak()
    };
    let telemetry = |keys: &str| -> &'static str {
        let marking = "marking = { kind = \"telemetry\" }\nnotification = \"ack-each\"";
        format!("{marking}\nreaction = {{ kind = \"pcc-telemetry\", {keys} }}").leak()
    };
    check(&[
        case(rtt("forget_samples = 0"), "fine"),
        case(telemetry("hop = \"longest-queue\""), "fine"),
        case(
            "notification = \"cnp\"\nreaction = { kind = \"pcc-rtt\" }",
            "a.toml:5: congestion.notification = \"cnp\": must be \"ack-each\" with this congestion.reaction, which \
             counts the acknowledgements of single packets",
        ),
        case(
            rtt("allowed_delay = \"0 s\""),
            "a.toml:6: congestion.reaction.allowed_delay = \"0 s\": must be more than 0 s",
        ),
        case(
            rtt("allowed_delay = \"9 us\", max_delay = \"8 us\""),
            "a.toml:6: congestion.reaction.allowed_delay = \"9 us\": must be at most `max_delay`, 8 us",
        ),
        case(
            rtt("max_delay = \"2 s\""),
            "a.toml:6: congestion.reaction.max_delay = \"2 s\": must be at most 1 s",
        ),
        case(
            rtt("decrease_permille = 500"),
            "a.toml:6: congestion.reaction.decrease_permille = 500: must be 1 to 499",
        ),
        case(
            rtt("min_rate = \"0 bit/s\""),
            r#"a.toml:6: congestion.reaction.min_rate = "0 bit/s": must be more than 0 bit/s ..."#,
        ),
        case(
            "marking = { kind = \"red\" }\nnotification = \"ack-each\"\nreaction = { kind = \"pcc-telemetry\" }",
            r#"a.toml:5: congestion.marking.kind = "red": must be "telemetry" with this congestion.reaction ..."#,
        ),
        case(
            telemetry("queue = \"2 GiB\""),
            "a.toml:7: congestion.reaction.queue = \"2 GiB\": must be at most 1 GiB",
        ),
        case(
            telemetry("hop = \"first\""),
            "a.toml:7: congestion.reaction.hop = \"first\": must be one of `last`, `longest-queue`",
        ),
        case(
            telemetry("busy_permille = 1001"),
            "a.toml:7: congestion.reaction.busy_permille = 1001: must be 0 to 1000",
        ),
    ]);
}

/// All routes to a host end with the same link, so only telemetry of other links needs one route.
#[test]
fn telemetry_of_the_last_hop_permits_several_routes() {
    let case_of = |hop: &str, expected: &'static str| {
        let given = format!(
            "marking = {{ kind = \"telemetry\" }}\nnotification = \"ack-each\"\nreaction = {{ kind = \"pcc-telemetry\", \
             hop = \"{hop}\" }}\n[adaptive_routing]\nper = \"packet\""
        );
        case(given.leak(), expected)
    };
    check(&[
        case_of("last", "fine"),
        case_of(
            "longest-queue",
            "a.toml:9: adaptive_routing.per = \"packet\": \"packet\" cannot be combined with this congestion.reaction, \
             which compares the telemetry of one route; use \"flow\"",
        ),
    ]);
}
