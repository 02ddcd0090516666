//! Pins the messages about packet trimming.

use crate::common::check_in;

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

#[test]
fn errors_of_trimming_are_explained() {
    let trimming = r#"trimming = { queue = "8 KiB" }"#;
    check_in(
        BASE,
        &[
            ("seed = 1", "seed = 2", "fine"),
            (
                trimming,
                r#"trimming = { queue = "2047 B" }"#,
                "a.toml:14: switch.trimming.queue = \"2047 B\": must be 2048 B (a full packet) to 1 GiB",
            ),
            (
                trimming,
                r#"trimming = { queue = "8 KiB", size = "0 B" }"#,
                r#"a.toml:14: switch.trimming.size = "0 B": must be 1 B to 2048 B ..."#,
            ),
            (
                trimming,
                r#"trimming = { size = "64 B" }"#,
                "a.toml:14: switch.trimming.queue: missing, and needed: Bytes of data that may wait for an ...",
            ),
            (
                trimming,
                r#"trimming = { queue = "8 KiB", which = "oldest" }"#,
                "a.toml:14: switch.trimming.which = \"oldest\": must be one of `either`, `arriving`",
            ),
            (
                r#"arbitration = "fcfs""#,
                r#"arbitration = "round-robin""#,
                r#"a.toml:14: switch.trimming: needs switch.arbitration = "fcfs" ..."#,
            ),
            (
                trimming,
                r#"trimming = { queue = "8 KiB", rates = [{ rate = "100 Gbit/s", queue = "4 KiB" }] }"#,
                "fine",
            ),
            (
                trimming,
                r#"trimming = { queue = "8 KiB", rates = [{ rate = "25 Gbit/s", queue = "4 KiB" }] }"#,
                "a.toml:14: switch.trimming.rates.0.rate = \"25 Gbit/s\": no switch sends at this rate; the rates are 100 Gbit/s",
            ),
            (
                trimming,
                r#"trimming = { queue = "8 KiB", rates = [{ rate = "100 Gbit/s", queue = "2 kB" }] }"#,
                "a.toml:14: switch.trimming.rates.0.queue = \"2 kB\": must be 2048 B (a full packet) to 1 GiB",
            ),
            (
                trimming,
                "trimming = { queue = \"8 KiB\", rates = [{ rate = \"100 Gbit/s\", queue = \"4 KiB\" }, \
                 { rate = \"100 Gbit/s\", queue = \"5 KiB\" }] }",
                r#"a.toml:14: switch.trimming.rates.1.rate = "100 Gbit/s": is already given by switch.trimming.rates.0"#,
            ),
            (r#"notification = "ack-each""#, "notification = \"ack-each\"\nacknowledge = {}", "fine"),
            (
                r#"notification = "ack-each""#,
                "notification = \"ack-each\"\nacknowledge = { bytes = \"0 B\" }",
                "a.toml:18: congestion.acknowledge.bytes = \"0 B\": must be more than 0 B",
            ),
            (
                r#"notification = "ack-each""#,
                "notification = \"ack-each\"\nacknowledge = { within = \"0 s\" }",
                "a.toml:18: congestion.acknowledge.within = \"0 s\": must be more than 0 s",
            ),
            (
                "[[flow]]",
                "[recovery]\nkind = \"selective-repeat\"\ntimeout = \"50 us\"\n[congestion.acknowledge]\n\
                 [[event]]\nkind = \"down\"\nlinks = [\"H1\"]\nstart = \"5 us\"\n[[flow]]",
                "a.toml:22: congestion.acknowledge: cannot be combined with recovery, which needs ...",
            ),
            (
                "[congestion]",
                "[flow_control]\nkind = \"pfc\"\n[congestion]",
                r#"a.toml:16: flow_control.kind = "pfc": cannot be combined with switch.trimming ..."#,
            ),
            (
                r#"arbitration = "fcfs""#,
                "arbitration = \"fcfs\"\nbuffer = \"1 MiB\"",
                r#"a.toml:14: switch.buffer = "1 MiB": has no effect with switch.trimming ..."#,
            ),
            (
                "[congestion]",
                "[host]\nbuffer = \"1 MiB\"\n[congestion]",
                r#"a.toml:16: host.buffer = "1 MiB": has no effect with switch.trimming ..."#,
            ),
            (
                "[congestion]",
                "[host]\ndrain_rate = \"50 Gbit/s\"\n[congestion]",
                r#"a.toml:16: host.drain_rate = "50 Gbit/s": cannot be combined with switch.trimming: nothing would stop ..."#,
            ),
            (
                "[congestion]",
                "[host]\nqueues = \"single\"\n[congestion]",
                r#"a.toml:16: host.queues = "single": cannot be combined with switch.trimming ..."#,
            ),
            (
                "[congestion]",
                "[adaptive_routing]\nper = \"packet\"\n[congestion]",
                "a.toml:15: adaptive_routing: cannot be combined with switch.trimming: ports are compared ...",
            ),
            ("[congestion]", "[adaptive_routing]\nenabled = false\n[congestion]", "fine"),
            ("to = \"H2\"", "to = \"H2\"\nsl = 3", "a.toml:22: flow.0.sl = 3: has virtual lane 1 ..."),
            (
                "control_priority = true",
                "",
                "a.toml:14: switch.trimming: needs a lane that precedes data for headers and other control packets ...",
            ),
            (
                r#"reaction = { kind = "nscc" }"#,
                r#"reaction = { kind = "dctcp" }"#,
                r#"a.toml:18: congestion.reaction.kind = "dctcp": does not send packets again that switches have trimmed ..."#,
            ),
            (
                "[[flow]]",
                "[[congestion.hosts]]\nat = [\"H1\"]\nreaction = { kind = \"none\" }\n[[flow]]",
                r#"a.toml:18: congestion.reaction.kind = "nscc": does not send packets again that switches have trimmed ..."#,
            ),
        ],
    );
}
