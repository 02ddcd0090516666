//! The exact messages about what is found only as a network is set up: they point at lines as others do; see
//! `messages.rs`.

mod common;

use std::path::Path;

use common::BASE;
use silvan_scenario::Scenario;

fn message(text: &str, overrides: &[(&str, &str)]) -> String {
    let overrides: Vec<(String, String)> =
        overrides.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    match Scenario::from_toml(text, "a.toml", Path::new(""), &overrides).and_then(|s| s.simulation()) {
        Ok(_) => "fine".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_is_found_on_the_network_points_at_its_key() {
    assert_eq!(message(BASE, &[]), "fine");
    let base = BASE.replace("[congestion]\nmechanism = \"ib-cc\"\n", "[switch]\nlatency = \"100 ns\"\n");
    for (lines, expected) in [
        (
            "queues = \"per-destination\"\nmemory = \"divided\"\nqueue_buffer = \"2 KiB\"\n\
             [packet]\nheader = \"26 B\"\nmtu = \"2000 B\"",
            "fine",
        ),
        (
            "queues = \"per-destination\"\nmemory = \"divided\"\nbuffer = \"8 KiB\"",
            "a.toml:4: switch.queue_buffer: each of 7 queues per input has 1.17 KB, less than a packet's 2048 bytes; give \
             switch.queue_buffer, or a larger switch.buffer",
        ),
        (
            "architecture = \"iq\"\ncrossbar = \"1 Gbit/s\"",
            "a.toml:7: switch.crossbar = \"1 Gbit/s\": must be at least the rate of the fastest link, 32 Gbit/s",
        ),
        (
            "[flow_control]\nkind = \"on-off\"\nxoff = \"20000 B\"\nxon = \"20001 B\"",
            "a.toml:9: flow_control.xon = \"20001 B\": must be at most the threshold at which the sender is stopped, \
             20000 B here",
        ),
        (
            "[flow_control]\nkind = \"on-off\"\nxoff = \"128 KiB\"",
            "a.toml:8: flow_control.xoff = \"128 KiB\": the receiver of a link of",
        ),
        (
            "buffer = \"4 KiB\"\n[flow_control]\nkind = \"on-off\"",
            "a.toml:8: flow_control.kind = \"on-off\": the receiver of a link of",
        ),
    ] {
        let text = base.replace("latency = \"100 ns\"", &format!("latency = \"100 ns\"\n{lines}"));
        let said = message(&text, &[]);
        assert!(said.starts_with(expected), "{said}\nwith {lines}");
    }
    assert_eq!(
        message(&base, &[("host.queues", "destination-modulo"), ("host.output_buffer", "16 KB")]),
        "--set host.output_buffer = \"16 KB\": leaves 2000 B for each of 8 queues, less than \
         one packet of 2048 B (packet.mtu + packet.header, in blocks of packet.credit_block); must be at least 16 KiB"
    );
}
