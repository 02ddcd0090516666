//! Pins the messages about marking, validation, and reactions to acknowledgements.

use std::path::Path;

use silvan_scenario::Scenario;

use crate::common::{BASE, case, check, message};

#[test]
fn congestion_logs_without_events_are_explained() {
    let no_marks = "a.toml:8: measure.congestion_log = true: needs switches that mark packets; set congestion.mechanism = \
                    \"ib-cc\", or a congestion.marking other than \"none\" and \"telemetry\"";
    check(&[
        case("mechanism = \"fbicm\"\n\n[measure]\ncongestion_log = true", no_marks),
        case(
            "marking = { kind = \"telemetry\" }\nnotification = \"ack-each\"\n[measure]\ncongestion_log = true",
            no_marks,
        ),
        case(
            "mechanism = \"ib-cc\"\nreaction = { trigger_threshold = 128 }",
            "a.toml:6: congestion.reaction.trigger_threshold = 128: must be 0 ...",
        ),
        case(
            "mechanism = \"ib-cc\"\nreaction = { ccti_min = 5, trigger_threshold = 5 }",
            "a.toml:6: congestion.reaction.trigger_threshold = 5: must be 0 ...",
        ),
        case(
            "mechanism = \"ib-cc\"\nreaction = { per_sl = [{ sl = 1, ccti_min = 2, ccti_limit = 2, trigger_threshold = 2 }] }",
            "a.toml:6: congestion.reaction.per_sl.0.trigger_threshold = 2: must be 0 ...",
        ),
    ]);
}

#[test]
fn errors_of_routes_per_packet_are_explained() {
    check(&[
        case(
            "mechanism = \"ib-cc\"\n[adaptive_routing]\ngrade = \"1 KiB\"",
            r#"a.toml:7: adaptive_routing.grade = "1 KiB": has no effect when switches choose per flow; set adaptive_routing.per = "packet""#,
        ),
        case(
            "mechanism = \"ib-cc\"\n[adaptive_routing]\nper = \"packet\"\ncache = 3",
            "a.toml:8: adaptive_routing.cache = 3: has no effect when switches choose per packet ...",
        ),
        case(
            "mechanism = \"ib-cc\"\n[adaptive_routing]\nper = \"packet\"\ngrade = \"0 B\"",
            r#"a.toml:8: adaptive_routing.grade = "0 B": must be 1 B to 1 GiB"#,
        ),
        case(
            "mechanism = \"ib-cc\"\n[adaptive_routing]\nper = \"packet\"\nlevels = []",
            "a.toml:8: adaptive_routing.levels = a list of 0: names no service level ...",
        ),
        case(
            "mechanism = \"ib-cc\"\n[adaptive_routing]\nper = \"packet\"\nlevels = [0, 16]",
            "a.toml:8: adaptive_routing.levels.1 = 16: must be 0 to 15",
        ),
        case(
            "mechanism = \"none\"\n[adaptive_routing]\nper = \"packet\"\npinned = [\"throttled\"]",
            "a.toml:8: adaptive_routing.pinned = a list of 1: names flows that are throttled ...",
        ),
        case(
            "mechanism = \"ib-cc\"\n[adaptive_routing]\nper = \"packet\"\npinned = [\"isolated\"]",
            "a.toml:8: adaptive_routing.pinned = a list of 1: names destinations that are isolated ...",
        ),
        case(
            "mechanism = \"saa\"\n[adaptive_routing]\nper = \"packet\"",
            r#"a.toml:7: adaptive_routing.per = "packet": "packet" cannot be combined with explicit rates ..."#,
        ),
        case(
            "mechanism = \"none\"\n[switch]\nmemory = \"divided\"\n[adaptive_routing]\nper = \"packet\"",
            r#"a.toml:9: adaptive_routing.per = "packet": "packet" needs switch.memory = "shared" with these queues: a ..."#,
        ),
        case("mechanism = \"ib-cc\"\n[adaptive_routing]\nper = \"packet\"\npinned = [\"throttled\"]", "fine"),
    ]);
}

#[test]
fn errors_of_routes_and_rates_per_flow_are_explained() {
    check(&[
        case(
            "mechanism = \"ib-cc\"\n[adaptive_routing]",
            "a.toml:6: adaptive_routing: adaptive flow routing: dumbbell 3 + 4 is not a generated fat tree; \
             choose modified-k-ary-n-tree",
        ),
        case(
            "mechanism = \"ib-cc\"\n[switch]\narchitecture = \"iq\"\narbitration = \"fcfs\"",
            r#"a.toml:8: switch.arbitration = "fcfs": needs switches of architecture "voq" with queues "per-output" ..."#,
        ),
        case(
            "mechanism = \"ib-cc\"\nmarking = { fill = \"each\" }\n[switch]\narbitration = \"fcfs\"",
            r#"a.toml:6: congestion.marking.fill = "each": measures input queues ..."#,
        ),
        case(
            "mechanism = \"ecocc\"\n[switch]\narbitration = \"fcfs\"",
            "a.toml:4: congestion.marking.fill: measures input queues ...",
        ),
        // The thresholds of this preset are multiples of the packet size.
        case(
            "mechanism = \"fbicm\"\n[packet]\nheader = \"18446744073709551615 B\"",
            "a.toml:7: packet.header = \"18446744073709551615 B\": must be 0 B to 4 KiB",
        ),
        case(
            "mechanism = \"saa\"\n[congestion.reaction]\nprobe = \"0 s\"",
            "a.toml:7: congestion.reaction.probe = \"0 s\": must be more than 0 s",
        ),
        case(
            "mechanism = \"saa\"\nreaction = { retain = true }\n[host]\nqueues = \"single\"",
            "a.toml:6: congestion.reaction.retain = true: cannot be combined with output buffers of hosts ...",
        ),
    ]);
}

#[test]
fn a_component_beside_none_is_rejected_unless_set_by_an_override() {
    check(&[
        case(
            "mechanism = \"none\"\nmarking = { kind = \"fecn\" }",
            "a.toml:6: congestion.marking: has no effect together with congestion.mechanism = \"none\", which \
             switches every component off; leave one of them out, or name the mechanism that the component \
            belongs to (\"ib-cc\", \"ccfit\", \"ecocc\")",
        ),
        case(
            "mechanism = \"none\"\nnotification = \"ack\"",
            r#"a.toml:6: congestion.notification = "ack": has no effect together with congestion.mechanism = "none" ..."#,
        ),
        case("mechanism = \"none\"\nmarking = { kind = \"none\" }\nnotification = \"cnp\"", "fine"),
        case("marking = { kind = \"fecn\" }", "fine"),
    ]);
    let given = BASE.replacen("\"ib-cc\"", "\"none\"\nreaction = { ccti_timer = 9 }", 1);
    assert!(message(&given, &[]).starts_with("a.toml:6: congestion.reaction: has no effect together with"));
    assert_eq!(message(&given, &[("congestion.mechanism", "ib-cc")]), "fine");
    assert_eq!(message(&given, &[("congestion.mechanism", "none")]), "fine");
}

#[test]
fn another_mechanism_replaces_the_components_of_the_file() {
    let dcqcn = BASE.replacen(
        "mechanism = \"ib-cc\"",
        "marking = { kind = \"red\", min = \"5 kB\", max = \"20 kB\", percent = 20 }\nnotification = \"cnp\"\n\
         coalescing = { interval = \"4 us\" }\nreaction = { kind = \"dcqcn\" }",
        1,
    );
    let with = |settings: &[(&str, &str)]| {
        let settings: Vec<(String, String)> =
            settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let scenario = Scenario::from_toml(&dcqcn, "a.toml", Path::new(""), &settings).expect("valid");
        let congestion =
            scenario.to_toml().expect("valid").parse::<toml::Table>().expect("valid")["congestion"].clone();
        let kind = |part: &str| congestion[part]["kind"].as_str().unwrap_or_default().to_owned();
        (kind("marking"), kind("reaction"), scenario.notes.len())
    };
    let (telemetry, hpcc) = ("telemetry".to_owned(), "hpcc".to_owned());
    assert_eq!(with(&[]), ("red".to_owned(), "dcqcn".to_owned(), 0));
    // Notes about marking, reaction, notification and coalescing.
    assert_eq!(with(&[("congestion.mechanism", "hpcc")]), (telemetry, hpcc, 4));
    // The components of DCQCN are those of the file.
    assert_eq!(with(&[("congestion.mechanism", "dcqcn")]), ("red".to_owned(), "dcqcn".to_owned(), 0));
    let hybrid = [("congestion.mechanism", "swift"), ("congestion.reaction.kind", "timely")];
    assert_eq!(with(&hybrid).1, "timely");
}

#[test]
fn errors_of_marking_and_reactions_are_explained() {
    check(&[
        case(
            "mechanism = \"ib-cc\"\n[congestion.marking]\nkind = \"opm\"",
            r#"a.toml:7: congestion.marking.kind = "opm": requires buffers at inputs and outputs; use switch.architecture = "cioq", which has both"#,
        ),
        case(
            "mechanism = \"mvcm\"\n[congestion.marking]\ninput_percent = 100",
            "a.toml:7: congestion.marking.input_percent = 100: must be 1 to 99",
        ),
        case(
            "mechanism = \"mvcm\"\n[congestion.marking]\nthreshold = 3",
            "a.toml:7: congestion.marking.threshold = 3: unknown key; known here: `kind` ...",
        ),
        case(
            "mechanism = \"mvcm\"\nnotification = \"cnp\"",
            r#"a.toml:6: congestion.notification = "cnp": must be "ack-each" with this congestion.reaction ..."#,
        ),
        case(
            "mechanism = \"ib-cc\"\nnotification = \"ack\"\n[congestion.coalescing]\ninterval = \"50 us\"",
            "a.toml:7: congestion.coalescing: applies to notification packets ...",
        ),
        case(
            "mechanism = \"ib-cc\"\n[congestion.coalescing]\ninterval = \"0 s\"\nper = \"port\"",
            "a.toml:7: congestion.coalescing.interval = \"0 s\": must be more than 0 s",
        ),
        case("mechanism = \"ib-cc\"\n[congestion.coalescing]\ninterval = \"50 us\"\nper = \"port\"", "fine"),
        case(
            "mechanism = \"none\"\n[congestion.coalescing]\ninterval = \"50 us\"",
            r#"a.toml:6: congestion.coalescing: has no effect together with congestion.mechanism = "none" ..."#,
        ),
        case(
            "mechanism = \"mvcm\"\nnotification = \"backward\"",
            r#"a.toml:6: congestion.notification = "backward": must be "cnp" ..."#,
        ),
        case(
            "mechanism = \"mvcm\"\nfeedback = \"quantized\"",
            r#"a.toml:6: congestion.feedback = "quantized": must be "binary" with this congestion.marking ..."#,
        ),
        case(
            "mechanism = \"none\"\nfeedback = \"quantized\"",
            r#"a.toml:6: congestion.feedback = "quantized": has no effect together with congestion.mechanism = "none" ..."#,
        ),
        case(
            "mechanism = \"qcn\"\n[congestion.marking]\nsample = \"2000 B\"",
            "a.toml:7: congestion.marking.sample = \"2000 B\": must be 2 KiB (a full packet) to 1 GiB",
        ),
        case(
            "mechanism = \"qcn\"\n[congestion.marking]\nset_point = \"0 B\"",
            "a.toml:7: congestion.marking.set_point = \"0 B\": must be 1 B to 1 GiB",
        ),
        case(
            "mechanism = \"qcn\"\n[congestion.reaction]\nactive_increase = \"0 bit/s\"",
            r#"a.toml:7: congestion.reaction.active_increase = "0 bit/s": must be more than 0 bit/s ..."#,
        ),
        case(
            "mechanism = \"qcn\"\n[congestion.reaction]\ncycle_time = \"0 s\"",
            "a.toml:7: congestion.reaction.cycle_time = \"0 s\": must be more than 0 s",
        ),
        case(
            "mechanism = \"qcn\"\n[congestion.reaction]\ncycle_bytes = \"0 B\"",
            "a.toml:7: congestion.reaction.cycle_bytes = \"0 B\": must be 1 B to 1 GiB",
        ),
        case("mechanism = \"qcn\"\nnotification = \"cnp\"\nfeedback = \"binary\"", "fine"),
        case("mechanism = \"ib-cc\"\nnotification = \"backward\"\nfeedback = \"quantized\"", "fine"),
        case(
            "mechanism = \"mvcm\"\n[congestion.reaction]\nwindow = 0",
            "a.toml:7: congestion.reaction.window = 0: must be at least 1 ...",
        ),
        case(
            "mechanism = \"mvcm\"\n[congestion.reaction]\nslot = \"0 ns\"",
            "a.toml:7: congestion.reaction.slot = \"0 ns\": must be more than 0 s",
        ),
        case(
            "mechanism = \"mvcm\"\n[congestion.reaction]\nlimit = 3\nlimited = false",
            "a.toml:7: congestion.reaction.limit = 3: has no effect with limited = false ...",
        ),
        case(
            "mechanism = \"renato\"\n[congestion.reaction]\nkind = \"fimd\"\nm = 1",
            "a.toml:8: congestion.reaction.m = 1: must be 2 to 255",
        ),
        case(
            "mechanism = \"renato\"\n[congestion.reaction]\nlimit = 0",
            "a.toml:7: congestion.reaction.limit = 0: must be 1 to 4096",
        ),
        case(
            "mechanism = \"mvcm\"\n[congestion.isolation]\nkind = \"special-queues\"",
            "a.toml: switch.architecture: has buffers at outputs ...",
        ),
    ]);
}
