//! Pins the messages about packet trimming.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod common;

use common::message;

/// A scenario with packet trimming.
const BASE: &str = r#"seed = 1
duration = "20 us"
[topology]
kind = "star"
hosts = 4
link_rate = "100 Gbit/s"
link_delay = "100 ns"
[lanes]
count = 2
control = 1
control_priority = true
[switch]
arbitration = "fcfs"
trimming = { queue = "8 KiB" }
[congestion]
marking = { kind = "red" }
notification = "ack-each"
reaction = { kind = "nscc" }
[[flow]]
from = "H1"
to = "H2"
"#;

/// The error, or "fine", of the base with one text replaced by another.
fn result(old: &str, new: &str) -> String {
    assert!(BASE.contains(old), "{old}");
    message(&BASE.replacen(old, new, 1), &[])
}

#[test]
fn errors_of_trimming_are_explained() {
    let trimming = r#"trimming = { queue = "8 KiB" }"#;
    let cases = [
        ("seed = 1", "seed = 2", "fine"),
        (
            trimming,
            r#"trimming = { queue = "2047 B" }"#,
            "a.toml:14: switch.trimming.queue = \"2047 B\": must be 2048 B (a full packet) to 1 GiB",
        ),
        (
            trimming,
            r#"trimming = { queue = "8 KiB", size = "0 B" }"#,
            "a.toml:14: switch.trimming.size = \"0 B\": must be 1 B to 2048 B, the size of a full packet",
        ),
        (
            trimming,
            r#"trimming = { size = "64 B" }"#,
            "a.toml:14: switch.trimming.queue: missing, and needed: Bytes of data that may wait for an output on each virtual \
             lane, at least a full packet",
        ),
        (
            trimming,
            r#"trimming = { queue = "8 KiB", which = "oldest" }"#,
            "a.toml:14: switch.trimming.which = \"oldest\": must be one of `either`, `arriving`",
        ),
        (
            r#"arbitration = "fcfs""#,
            r#"arbitration = "round-robin""#,
            "a.toml:14: switch.trimming: needs switch.arbitration = \"fcfs\", with which an output has one queue for the \
             packets of all inputs",
        ),
        (
            "[congestion]",
            "[flow_control]\nkind = \"pfc\"\n[congestion]",
            "a.toml:16: flow_control.kind = \"pfc\": cannot be combined with switch.trimming, which replaces flow control; \
             leave one of them out",
        ),
        (
            r#"arbitration = "fcfs""#,
            "arbitration = \"fcfs\"\nbuffer = \"1 MiB\"",
            "a.toml:14: switch.buffer = \"1 MiB\": has no effect with switch.trimming, whose limit is \
             switch.trimming.queue; leave it out",
        ),
        (
            "[congestion]",
            "[host]\nbuffer = \"1 MiB\"\n[congestion]",
            "a.toml:16: host.buffer = \"1 MiB\": has no effect with switch.trimming, whose limit is \
             switch.trimming.queue; leave it out",
        ),
        (
            "[congestion]",
            "[host]\ndrain_rate = \"50 Gbit/s\"\n[congestion]",
            "a.toml:16: host.drain_rate = \"50 Gbit/s\": cannot be combined with switch.trimming: nothing would stop \
             packets that a slower host cannot accept; leave it out",
        ),
        (
            "[congestion]",
            "[host]\nqueues = \"single\"\n[congestion]",
            "a.toml:16: host.queues = \"single\": cannot be combined with switch.trimming, with which hosts keep packets \
             until they know that these have arrived; use \"none\"",
        ),
        (
            "[congestion]",
            "[adaptive_routing]\nper = \"packet\"\n[congestion]",
            "a.toml:15: adaptive_routing: cannot be combined with switch.trimming: ports are compared by credits and \
             announcements, which do not exist without flow control; use [ecmp] with ecmp.spraying",
        ),
        ("[congestion]", "[adaptive_routing]\nenabled = false\n[congestion]", "fine"),
        (
            "to = \"H2\"",
            "to = \"H2\"\nsl = 3",
            "a.toml:22: flow.0.sl = 3: has virtual lane 1, lanes.control, which with switch.trimming carries only headers \
             and control packets; use another service level, or set lanes.sl_to_vl",
        ),
        (
            "control_priority = true",
            "",
            "a.toml:14: switch.trimming: needs a lane that precedes data for headers and other control packets; set \
             lanes.control and lanes.control_priority = true",
        ),
        (
            r#"reaction = { kind = "nscc" }"#,
            r#"reaction = { kind = "dctcp" }"#,
            "a.toml:18: congestion.reaction.kind = \"dctcp\": does not send packets again that switches have trimmed; use \
             \"nscc\" or \"rccc\" for all hosts, or leave out switch.trimming",
        ),
        (
            "[[flow]]",
            "[[congestion.hosts]]\nat = [\"H1\"]\nreaction = { kind = \"none\" }\n[[flow]]",
            "a.toml:18: congestion.reaction.kind = \"nscc\": does not send packets again that switches have trimmed; use \
             \"nscc\" or \"rccc\" for all hosts, or leave out switch.trimming",
        ),
    ];
    let wrong: Vec<String> = cases
        .iter()
        .map(|(old, new, expected)| (result(old, new), expected))
        .filter(|(found, expected)| found != *expected)
        .map(|(found, expected)| format!("found    {found}\nexpected {expected}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
