//! The exact messages about queues and their isolation; see `messages.rs`.

mod common;

use common::check;

#[test]
fn queues_say_what_is_wrong() {
    check(&[
        (
            "[congestion]",
            r#"[switch]
queue_count = 4
[congestion]"#,
            r#"a.toml:5: switch.queue_count = 4: has no effect: only queues "destination-modulo" and "output-modulo" leave their number open"#,
        ),
        (
            "[congestion]",
            r#"[switch]
queues = "single"
memory = "divided"
[congestion]"#,
            r#"a.toml:6: switch.memory = "divided": has no effect with one queue per input; leave it out, or give other switch.queues"#,
        ),
        (
            "[congestion]",
            r#"[switch]
queue_buffer = "4 KiB"
[congestion]"#,
            r#"a.toml:5: switch.queue_buffer = "4 KiB": has no effect where queues share the memory of their input; give switch.memory = "divided""#,
        ),
        (
            "[congestion]",
            r#"[switch]
crossbar = "40 Gbit/s"
[congestion]"#,
            r#"a.toml:5: switch.crossbar = "40 Gbit/s": has no effect with switch.architecture = "voq", where every queue has a read port of its own; use architecture "iq""#,
        ),
        (
            "[congestion]",
            r#"[host]
output_buffer = "4 KiB"
[congestion]"#,
            r#"a.toml:5: host.output_buffer = "4 KiB": has no effect: hosts have no output buffer; give host.queues"#,
        ),
    ]);
}

#[test]
fn isolation_says_what_is_wrong() {
    check(&[
        (
            r#"mechanism = "ib-cc""#,
            r#"mechanism = "ecocc"
isolation = { stop = "4 KiB" }"#,
            r#"a.toml:6: congestion.isolation.go = "8 KiB": must be less than the stop threshold, 4 KiB"#,
        ),
        (
            r#"mechanism = "ib-cc""#,
            r#"mechanism = "fbicm"
isolation = { at_root = false }"#,
            r#"a.toml:6: congestion.isolation.at_root = false: must be true with one normal queue per input, which is no root's own; or use switch.queues = "per-output""#,
        ),
        (
            r#"mechanism = "ib-cc""#,
            r#"mechanism = "hfdi"
isolation = { queues = 65 }"#,
            r#"a.toml:6: congestion.isolation.queues = 65: must be 0 to 64"#,
        ),
        (
            r#"mechanism = "ib-cc""#,
            r#"mechanism = "ccfit"
marking = { percent = 0 }"#,
            r#"a.toml:6: congestion.marking.percent = 0: must be 1 to 100"#,
        ),
    ]);
}
