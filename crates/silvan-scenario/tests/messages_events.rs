//! Pins the messages about links that change during a run.

use crate::common::check_in;

/// A scenario with links that change.
const BASE: &str = r#"seed = 1
duration = "1 ms"
[topology]
kind = "two-level-fat-tree"
leaves = 2
spines = 2
hosts_per_leaf = 4
link_rate = "100 Gbit/s"
[[event]]
kind = "down"
links = ["L1.1:5"]
start = "100 us"
lasts = "50 us"
[[flow]]
from = "H1"
to = "H5"
"#;

#[test]
fn errors_of_events_are_explained() {
    let links = r#"links = ["L1.1:5"]"#;
    let lasts = r#"lasts = "50 us""#;
    check_in(
        BASE,
        &[
            (
                links,
                r#"links = "L1.[1-2]:[3]""#,
                "a.toml:11: event.0.links = \"L1.[1-2]:[3]\": must be a name, ...",
            ),
            (links, r#"links = "L1.[1-2]:5""#, "fine"),
            (links, "switches = [\"L1.1\"]", "fine"),
            (
                links,
                "",
                "a.toml:9: event.0: changes nothing: name the links or the switches that it concerns",
            ),
            (
                links,
                r#"links = ["L1.1:9"]"#,
                "a.toml:11: event.0.links.0 = \"L1.1:9\": there is no link at `L1.1:9`; name a port of a switch ...",
            ),
            (
                links,
                r#"links = ["L9"]"#,
                "a.toml:11: event.0.links.0 = \"L9\": there is no link at `L9`; ...",
            ),
            (
                links,
                r#"links = ["H1", "L1.1:1"]"#,
                "a.toml:11: event.0.links.1 = \"L1.1:1\": the link at `L1.1:1` is in the list twice; each link ...",
            ),
            (
                links,
                r#"switches = ["H1"]"#,
                "a.toml:11: event.0.switches.0 = \"H1\": there is no switch named `H1`",
            ),
            (
                r#"kind = "down""#,
                r#"kind = "broken""#,
                "a.toml:10: event.0.kind = \"broken\": must be one of `down`, `rate`, `errors`, `stall`, `drain`",
            ),
            (
                r#"kind = "down""#,
                "kind = \"down\"\nrate = \"25 Gbit/s\"",
                "a.toml:11: event.0.rate = \"25 Gbit/s\": has no effect with kind = \"down\"; ...",
            ),
            (r#"kind = "down""#, "kind = \"rate\"\nrate = \"25 Gbit/s\"", "fine"),
            (
                r#"kind = "down""#,
                r#"kind = "rate""#,
                "a.toml:9: event.0.rate: is missing, and needed by kind = \"rate\": the rate while the change lasts",
            ),
            (
                r#"kind = "down""#,
                "kind = \"rate\"\nrate = \"101 Gbit/s\"",
                "a.toml:11: event.0.rate = \"101 Gbit/s\": must be at most the rate of the slowest of these links, 100 Gbit/s",
            ),
            (
                r#"kind = "down""#,
                "kind = \"rate\"\nrate = \"1 bit/s\"",
                "a.toml:11: event.0.rate = \"1 bit/s\": must be at least 1 kbit/s",
            ),
            (
                r#"start = "100 us""#,
                r#"start = "1 ms""#,
                "a.toml:12: event.0.start = \"1 ms\": must be less than the ...",
            ),
            (lasts, r#"lasts = "0 s""#, "a.toml:13: event.0.lasts = \"0 s\": must be more than 0 s"),
            (lasts, "lasts = \"50 us\"\nevery = \"200 us\"", "fine"),
            (lasts, "lasts = \"50 us\"\nmean_time_between = \"200 us\"", "fine"),
            (
                lasts,
                "lasts = \"50 us\"\nevery = \"60 us\"\njitter = \"10 us\"",
                "a.toml:14: event.0.every = \"60 us\": must be more than 60 us, the longest time until a change is over ...",
            ),
            (
                lasts,
                "lasts = \"50 us\"\nevery = \"60 us\"\nmean_time_between = \"1 ms\"",
                "a.toml:15: event.0.mean_time_between = \"1 ms\": cannot be combined with every; leave out one of them",
            ),
            (
                lasts,
                r#"every = "60 us""#,
                "a.toml:13: event.0.every = \"60 us\": needs event.lasts: without it, ...",
            ),
            (
                lasts,
                "lasts = \"50 us\"\njitter = \"10 us\"",
                "a.toml:14: event.0.jitter = \"10 us\": has an effect with every only; add it, or leave out jitter",
            ),
            (
                lasts,
                "lasts = \"1 ps\"\nevery = \"2 ps\"",
                "a.toml:9: event.0: gives more than 1000000 changes of links or hosts; let them occur less often, ...",
            ),
            (
                r#"kind = "down""#,
                r#"kind = "stall""#,
                "a.toml:11: event.0.links = a list of 1: cannot be combined with kind = \"stall\", which concerns hosts; ...",
            ),
            (
                links,
                "links = [\"L1.1:5\"]\nhosts = [\"H1\"]",
                "a.toml:12: event.0.hosts = a list of 1: cannot be combined with kind = \"down\", which concerns links; ...",
            ),
            (
                "[[flow]]",
                "[[event]]\nkind = \"stall\"\nhosts = \"H[1-2]\"\nlasts = \"1 us\"\n[[flow]]",
                "fine",
            ),
            (
                "[[flow]]",
                "[[event]]\nkind = \"stall\"\nhosts = \"H1\"\n[[flow]]",
                "a.toml:15: event.1.kind = \"stall\": needs event.lasts: hosts that never take packets again would ...",
            ),
            (
                "[[flow]]",
                "[[event]]\nkind = \"drain\"\nhosts = [\"H1\", \"H1\"]\nrate = \"1 Gbit/s\"\n[[flow]]",
                "a.toml:16: event.1.hosts.1 = \"H1\": is in the list twice",
            ),
            (
                "[[flow]]",
                "[[event]]\nkind = \"drain\"\nrate = \"1 Gbit/s\"\n[[flow]]",
                "a.toml:14: event.1: changes nothing: name the hosts that it concerns",
            ),
            (r#"kind = "down""#, "kind = \"errors\"\nloss_ppb = 1000", "fine"),
            (
                r#"kind = "down""#,
                r#"kind = "errors""#,
                "a.toml:10: event.0.kind = \"errors\": needs loss_ppb, the mean number of packets that are lost, per billion",
            ),
            (
                r#"kind = "down""#,
                "kind = \"down\"\nloss_ppb = 1000",
                "a.toml:11: event.0.loss_ppb = 1000: has no effect with kind = \"down\"; ...",
            ),
            (
                r#"kind = "down""#,
                "kind = \"errors\"\nloss_ppb = 500_000_001",
                "a.toml:11: event.0.loss_ppb = 500000001: must be 1 to 500000000",
            ),
            ("[[flow]]", "[recovery]\nkind = \"go-back-n\"\ntimeout = \"50 us\"\n[[flow]]", "fine"),
            (
                "[[flow]]",
                "[recovery]\nkind = \"go-back-n\"\n[[flow]]",
                "a.toml:14: recovery.timeout: missing, and needed: ...",
            ),
            (
                "[[flow]]",
                "[recovery]\nkind = \"selective-repeat\"\ntimeout = \"0 s\"\n[[flow]]",
                "a.toml:16: recovery.timeout = \"0 s\": must be more than 0 s",
            ),
            (
                "[[flow]]",
                "[recovery]\nkind = \"go-back-n\"\ntimeout = \"50 us\"\n[ecmp]\nspraying = \"oblivious\"\n[[flow]]",
                "a.toml:15: recovery.kind = \"go-back-n\": needs packets that do not overtake each other, ...",
            ),
            (
                "[[flow]]",
                "[recovery]\nkind = \"go-back-n\"\ntimeout = \"50 us\"\n[host]\nqueues = \"single\"\n[[flow]]",
                "a.toml:18: host.queues = \"single\": cannot be combined with recovery, ...",
            ),
            (
                "[[flow]]",
                "[recovery]\nkind = \"go-back-n\"\ntimeout = \"50 us\"\n[congestion]\nmechanism = \"hpcc\"\n[[flow]]",
                "fine",
            ),
            (
                "[[flow]]",
                "[recovery]\nkind = \"go-back-n\"\ntimeout = \"50 us\"\n[flow_control]\nkind = \"pfc\"\nlossy_lanes = [0]\n[[flow]]",
                "fine",
            ),
            (
                "[[flow]]",
                "[flow_control]\nkind = \"pfc\"\nlossy_lanes = [1]\n[[flow]]",
                "a.toml:16: flow_control.lossy_lanes.0 = 1: must be 0 to 0, as lanes.count is 1",
            ),
            (
                "[[flow]]",
                "[flow_control]\nkind = \"pfc\"\nlossy_lanes = [0, 0]\n[[flow]]",
                "a.toml:16: flow_control.lossy_lanes.1 = 0: is there twice",
            ),
            ("[[flow]]", "[rerouting]\ndelay = \"100 us\"\n[[flow]]", "fine"),
            (
                "[[flow]]",
                "[rerouting]\ndelay = \"100 us\"\ntables = \"x.lft\"\n[ecmp]\n[[flow]]",
                "a.toml:16: rerouting.tables = \"x.lft\": cannot be combined with [ecmp] and ...",
            ),
            (
                "[[flow]]",
                "[rerouting]\nport_delay = \"100 us\"\n[[flow]]",
                "a.toml:15: rerouting.port_delay = \"100 us\": has an effect only if packets can choose among ports; ...",
            ),
            ("[[flow]]", "[rerouting]\nport_delay = \"100 us\"\n[ecmp]\n[[flow]]", "fine"),
            ("[[flow]]", "[link]\nretry = {}\n[[flow]]", "fine"),
            (
                "to = \"H5\"",
                "to = \"H5\"\nstart_after_packets = 3",
                "a.toml:10: event.0.kind = \"down\": loses packets, so the number of deliveries that ...",
            ),
            (
                "[[flow]]",
                "[[job]]\nprogram = { kind = \"collective\", operation = \"barrier\", ranks = 4 }\n[[flow]]",
                "a.toml:10: event.0.kind = \"down\": loses packets, for which the ranks of a [[job]] would wait; add [recovery], ...",
            ),
            (
                "[[flow]]",
                "[adaptive_routing]\nper = \"flow\"\n[[flow]]",
                "a.toml:10: event.0.kind = \"down\": loses packets, also those that announce flows: ...",
            ),
        ],
    );
    let only_rates = BASE.replacen(r#"kind = "down""#, "kind = \"rate\"\nrate = \"25 Gbit/s\"", 1);
    check_in(
        &only_rates,
        &[
            (
                "seed = 1",
                "seed = 1\nrecovery = { kind = \"go-back-n\", timeout = \"1 us\" }",
                "a.toml:2: recovery: has no effect without an [[event]] of the kind \"down\" or \"errors\", or flow_control.lossy_lanes; ...",
            ),
            (
                "seed = 1",
                "seed = 1\nrerouting = { delay = \"1 us\" }",
                "a.toml:2: rerouting.delay = \"1 us\": has no effect without an [[event]] of the kind \"down\"; ...",
            ),
        ],
    );
}
