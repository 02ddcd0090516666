//! The rows of the tables of small runs, compared with values computed by hand.
//!
//! Links carry 2 bytes per nanosecond (16 Gbit/s) with a delay of 10 ns, and switches have a latency of 100
//! ns. A packet of 2048 bytes therefore occupies a link for 1024 ns, and its head is ready for the next link
//! 110 ns after the packet began.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use crate::common::*;
use silvan_congestion::marking::{Fecn, Marking};
use silvan_engine::{Bytes, Rate, Time};
use silvan_fabric::config::{Config, Scheduler};
use silvan_fabric::outcome::{Outcome, Values};
use silvan_network::topology::Topology;
use silvan_network::traffic::Flow;

/// The rows of a table, each formatted as one string that contains the given columns.
fn rows(outcome: &Outcome, table: &str, columns: &[&str]) -> Vec<String> {
    let table = outcome.tables.iter().find(|known| known.name == table).unwrap();
    let shown = |name: &&str| -> Vec<String> {
        let column = table.columns.iter().find(|known| known.name == *name);
        match &column.unwrap_or_else(|| panic!("no column {name}")).values {
            Values::U64(values) => values.iter().map(ToString::to_string).collect(),
            Values::U32(values) => values.iter().map(ToString::to_string).collect(),
            Values::F64(values) => values.iter().map(|value| format!("{value:.3}")).collect(),
            Values::Name { codes, names } => codes.iter().map(|&code| names[code as usize].clone()).collect(),
        }
    };
    let columns: Vec<Vec<String>> = columns.iter().map(shown).collect();
    (0..columns[0].len())
        .map(|row| columns.iter().map(|column| column[row].as_str()).collect::<Vec<_>>().join(" "))
        .collect()
}

/// Runs a configuration with both schedulers.
fn with_both(topology: &Topology, config: &Config) -> [Outcome; 2] {
    [Scheduler::EventOrdered, Scheduler::Binned]
        .map(|scheduler| run(topology, &Config { scheduler, ..config.clone() }))
}

/// Two hosts send two packets each to a third host. Their heads are ready at 110 and 1134 ns. The output
/// sends a1 from 110 ns, b1 from 1134 ns, a2 from 2158 ns, and b2 from 3182 to 4206 ns. Tails arrive 10 ns
/// after they were sent.
fn two_to_one() -> (Topology, Config) {
    let topology =
        topology(r#"{"kind": "star", "hosts": 3, "link_rate": "16 Gbit/s", "link_delay": "10 ns"}"#);
    let mut config = config(us(5));
    config.measure.interval = us(1);
    let flow = |name: &str, from| Flow {
        name: Some(name.into()),
        total: Some(Bytes(4_096)),
        message: Some(Bytes(4_096)),
        ..flow(from, "H3")
    };
    config.flows = vec![flow("a", "H1"), flow("b", "H2")];
    (topology, config)
}

#[test]
fn rows_of_hosts_flows_and_classes_are_what_happened_in_each_interval() {
    let (topology, config) = two_to_one();
    for outcome in with_both(&topology, &config) {
        let hosts = rows(&outcome, "hosts", &["time_ns", "host", "received_bytes", "sent_bytes"]);
        let expected = [
            // A packet counts as sent when it begins, which is at 0 and 1024 ns.
            "1000 H1 0 2048",
            "1000 H2 0 2048",
            "1000 H3 0 0",
            // One packet arrives per interval: at 1144, 2168, 3192 and 4216 ns.
            "2000 H1 0 2048",
            "2000 H2 0 2048",
            "2000 H3 2048 0",
            "3000 H1 0 0",
            "3000 H2 0 0",
            "3000 H3 2048 0",
            "4000 H1 0 0",
            "4000 H2 0 0",
            "4000 H3 2048 0",
            "5000 H1 0 0",
            "5000 H2 0 0",
            "5000 H3 2048 0",
        ];
        assert_eq!(hosts, expected);
        let flows = rows(&outcome, "flows", &["time_ns", "flow", "received_bytes", "sent_bytes", "ccti"]);
        let expected = [
            "1000 a 0 2048 0",
            "1000 b 0 2048 0",
            "2000 a 2048 2048 0",
            "2000 b 0 2048 0",
            "3000 a 0 0 0",
            "3000 b 2048 0 0",
            "4000 a 2048 0 0",
            "4000 b 0 0 0",
            "5000 a 0 0 0",
            "5000 b 2048 0 0",
        ];
        assert_eq!(flows, expected);
        let columns = [
            "time_ns",
            "class",
            "delivered_packets",
            "marked_packets",
            "throughput_gbit_s",
            "mean_since_generation_ns",
            "mean_since_injection_ns",
            "max_since_generation_ns",
        ];
        let classes = rows(&outcome, "classes", &columns);
        // 2048 bytes in 1 us are 16.384 Gbit/s. Messages were generated at 0; the second packets began at
        // 1024 ns.
        let expected = [
            "1000 a 0 0 0.000 NaN NaN NaN",
            "1000 b 0 0 0.000 NaN NaN NaN",
            "2000 a 1 0 16.384 1144.000 1144.000 1144.000",
            "2000 b 0 0 0.000 NaN NaN NaN",
            "3000 a 0 0 0.000 NaN NaN NaN",
            "3000 b 1 0 16.384 2168.000 2168.000 2168.000",
            "4000 a 1 0 16.384 3192.000 2168.000 3192.000",
            "4000 b 0 0 0.000 NaN NaN NaN",
            "5000 a 0 0 0.000 NaN NaN NaN",
            "5000 b 1 0 16.384 4216.000 3192.000 4216.000",
        ];
        assert_eq!(classes, expected);
    }
}

#[test]
fn rows_of_links_and_the_network_show_the_state_at_the_end_of_each_interval() {
    let (topology, config) = two_to_one();
    for outcome in with_both(&topology, &config) {
        let columns = ["time_ns", "link", "sent_bytes", "utilisation", "queued_bytes", "downstream_bytes"];
        let links = rows(&outcome, "links", &columns);
        let of = |name: &str| -> Vec<String> {
            links.iter().filter(|row| row.contains(name)).map(|row| row.replace(name, "")).collect()
        };
        // 4096 bytes take 2048 ns. The credit for a1 returns at 1144 ns, that for a2 at 3192 ns.
        let expected = [
            "1000  2000 1.000 0 2048",
            "2000  2000 1.000 0 2048",
            "3000  96 0.048 0 2048",
            "4000  0 0.000 0 0",
        ];
        assert_eq!(of("H1->S1:1")[..4], expected);
        // The credit for b1 returns at 2168 ns, that for b2 at 4216 ns.
        let expected = [
            "1000  2000 1.000 0 2048",
            "2000  2000 1.000 0 4096",
            "3000  96 0.048 0 2048",
            "4000  0 0.000 0 2048",
            "5000  0 0.000 0 0",
        ];
        assert_eq!(of("H2->S1:2"), expected);
        // The output is busy from 110 to 4206 ns. Packets wait until they begin to leave: b1 waits at 1 us,
        // a2 and b2 wait at 2 us, and b2 waits at 3 us.
        let expected = [
            "1000  1780 0.890 2048 2048",
            "2000  2000 1.000 4096 2048",
            "3000  2000 1.000 2048 2048",
            "4000  2000 1.000 0 2048",
            "5000  412 0.206 0 0",
        ];
        assert_eq!(of("S1:3->H3"), expected);
        assert_eq!(
            of("S1:1->H1"),
            ["1000", "2000", "3000", "4000", "5000"].map(|at| format!("{at}  0 0.000 0 0"))
        );
        let columns = [
            "time_ns",
            "received_bytes",
            "fecn_marks",
            "becn_received",
            "throttled_flows",
            "congested_outputs",
            "packets_inside",
        ];
        let network = rows(&outcome, "network", &columns);
        assert_eq!(
            network,
            [
                "1000 0 0 0 0 0 2",
                "2000 2048 0 0 0 0 3",
                "3000 2048 0 0 0 0 2",
                "4000 2048 0 0 0 0 1",
                "5000 2048 0 0 0 0 0"
            ]
        );
    }
}

#[test]
fn a_summary_counts_from_the_end_of_the_warm_up() {
    let (topology, mut config) = two_to_one();
    config.warmup = Time::from_ns(2_500);
    for Outcome { summary, account, .. } in with_both(&topology, &config) {
        assert_eq!((summary.simulated_ns, summary.averages_from_ns), (5_000, 2_500));
        // Each of four packets crosses two links.
        assert_eq!((summary.packet_hops, summary.packets_injected, summary.packets_delivered), (8, 4, 4));
        assert_eq!(summary.packets_inside, 0);
        // a2 and b2 arrive after the warm-up, with 2048 bytes each in 2.5 us.
        let rate = 2_048.0 * 8.0 / 2_500.0;
        let received: Vec<f64> = summary.hosts.iter().map(|host| host.received_gbit_s).collect();
        assert_eq!(received, [0.0, 0.0, 2.0 * rate]);
        assert!(summary.hosts.iter().all(|host| host.sent_gbit_s == 0.0), "all packets began before");
        assert_eq!(summary.throughput_gbit_s, 2.0 * rate);
        assert_eq!(summary.flows.iter().map(|flow| flow.received_gbit_s).collect::<Vec<_>>(), [rate, rate]);
        assert_eq!(summary.flows.iter().map(|flow| flow.received_bytes).collect::<Vec<_>>(), [4_096, 4_096]);
        let completed: Vec<_> = summary.flows.iter().map(|flow| flow.completed_ns).collect();
        assert_eq!(completed, [Some(3_192), Some(4_216)]);
        let classes: Vec<_> = summary
            .classes
            .iter()
            .map(|class| (class.received_gbit_s, class.delivered_packets, class.last_delivery_ns))
            .collect();
        assert_eq!(classes, [(rate, 2, Some(3_192)), (rate, 2, Some(4_216))]);
        // H3 is the only destination, and flows with a total are not compared.
        assert_eq!((summary.jain_hosts, summary.jain_flows), (1.0, 1.0));
        // Latency counts a2 (generated at 0, injected at 1024 ns) and b2.
        let latency: Vec<_> = summary
            .latency
            .iter()
            .map(|one| (one.class.as_str(), one.since, one.count, one.mean_ns))
            .collect();
        assert_eq!(
            latency,
            [
                ("a", "generation", 1, 3_192.0),
                ("a", "injection", 1, 2_168.0),
                ("b", "generation", 1, 4_216.0),
                ("b", "injection", 1, 3_192.0)
            ]
        );
        assert_eq!(
            account[0],
            "In 5 us of simulated time 4 data packets were sent and 4 delivered, 13.107 Gbit/s in all; 0 were still \
             inside at the end."
        );
    }
}

/// A and B overload X, each with half of the link's capacity. The packets of A fill the buffer of S2 and wait
/// on the link between the switches. V's flow to Y shares this link and sends one packet for each packet of
/// A, so it loses half of its rate.
fn tree() -> (Topology, Config) {
    let topology = topology(
        r#"{"kind": "custom", "link_rate": "16 Gbit/s", "link_delay": "10 ns",
            "hosts": ["A", "B", "V", "X", "Y"], "switches": [{"name": "S1"}, {"name": "S2"}],
            "links": [{"from": "A", "to": "S1"}, {"from": "V", "to": "S1"}, {"from": "B", "to": "S2"},
                      {"from": "X", "to": "S2"}, {"from": "Y", "to": "S2"},
                      {"from": "S1", "to": "S2", "rate": "32 Gbit/s"}]}"#,
    );
    let mut config = config(us(400));
    config.warmup = us(100);
    config.measure.interval = us(20);
    config.switch.buffer = Bytes(16_384);
    let flow = |name: &str, from, to| Flow { name: Some(name.into()), ..flow(from, to) };
    config.flows = vec![flow("a", "A", "X"), flow("b", "B", "X"), flow("v", "V", "Y")];
    (topology, config)
}

#[test]
fn a_tree_has_the_links_that_wait_for_its_root() {
    let (topology, config) = tree();
    for outcome in with_both(&topology, &config) {
        for (rate, expected) in rates(&outcome).iter().zip([8.0, 8.0, 8.0]) {
            assert_near(*rate, expected, 0.01, "Gbit/s");
        }
        let columns = ["tree", "root", "root_kind", "kind", "origin", "from_tree", "end", "into_tree"];
        assert_eq!(rows(&outcome, "trees", &columns), ["1 S2:2->X endpoint silent new 0 lasts 0"]);
        // The links of A and V wait for the link between the switches. This link and B's link wait for the
        // root.
        let columns = ["peak_branches", "peak_depth", "contributors", "victims", "root_share"];
        assert_eq!(rows(&outcome, "trees", &columns), ["4 2 2 1 1.000"]);
        let links = rows(&outcome, "tree_links", &["time_ns", "tree", "link", "waits_for", "depth", "trees"]);
        let mut last: Vec<&str> = links.iter().filter_map(|row| row.strip_prefix("400000 ")).collect();
        last.sort_unstable();
        let expected = [
            "1 A->S1:1 S1:3->S2:4 2 1",
            "1 B->S2:1 S2:2->X 1 1",
            "1 S1:3->S2:4 S2:2->X 1 1",
            "1 S2:2->X S2:2->X 0 1",
            "1 V->S1:2 S1:3->S2:4 2 1",
        ];
        assert_eq!(last, expected);
    }
}

#[test]
fn contributors_send_through_the_root_and_victims_wait_for_it() {
    let (topology, config) = tree();
    for outcome in with_both(&topology, &config) {
        let columns = ["tree", "class", "host", "last_ns", "throttled_samples"];
        assert_eq!(rows(&outcome, "contributors", &columns), ["1 a A 400000 0", "1 b B 400000 0"]);
        for share in rows(&outcome, "contributors", &["share_of_root"]) {
            assert_near(share.parse().unwrap(), 0.5, 0.02, "share");
        }
        assert_eq!(rows(&outcome, "victims", &["tree", "class", "host", "last_ns"]), ["1 v V 400000"]);
        // The share is lower in the first interval, in which the buffers fill.
        let lost: f64 = rows(&outcome, "victims", &["lost_share"])[0].parse().unwrap();
        assert!((0.45..=0.5).contains(&lost), "{lost}");
        let wiring = rows(
            &outcome,
            "wiring",
            &["link", "from_node", "from_kind", "to_node", "to_kind", "rate_gbit_s"],
        );
        assert!(wiring.contains(&"A->S1:1 A host S1 switch 16.000".into()), "{wiring:?}");
        assert!(wiring.contains(&"S1:3->S2:4 S1 switch S2 switch 32.000".into()), "{wiring:?}");
        assert!(wiring.contains(&"S2:2->X S2 switch X host 16.000".into()), "{wiring:?}");
        let account = outcome.account.join("\n");
        for part in [
            "Roots of congestion trees: S2:2->X (",
            "Up to 4 links waited for a root at a time.",
            "Contributors (they send through a root): a and b.",
            "Victims (held back by a tree whose root they do not send through): v (",
        ] {
            assert!(account.contains(part), "{account}\nlacks: {part}");
        }
    }
}

/// The queue between the switches is also long, but its output lacks credit, so it marks nothing.
#[test]
fn only_the_root_of_a_tree_marks() {
    let (topology, mut config) = tree();
    let fecn =
        Fecn { upper: Some(Bytes(8_192)), lower: Some(Bytes(4_096)), marking_rate: 0, ..Fecn::default() };
    config.congestion.marking = Some(Marking::Fecn(fecn));
    for outcome in with_both(&topology, &config) {
        let marks = |link: &str| -> u64 {
            let rows = rows(&outcome, "links", &["link", "fecn_marks"]);
            rows.iter().filter_map(|row| row.strip_prefix(link)?.trim().parse::<u64>().ok()).sum()
        };
        assert_eq!(marks("S1:3->S2:4"), 0);
        assert!(marks("S2:2->X") > 300, "{}", marks("S2:2->X"));
        assert_eq!(marks("S2:2->X"), outcome.summary.fecn_marks);
    }
}

/// The output to a host with a slow drain is busy at the drain rate, so it is a root.
#[test]
fn a_host_that_drains_slowly_is_a_root() {
    let (topology, mut config) = two_to_one();
    config.duration = us(200);
    config.measure.interval = us(10);
    config.switch.buffer = Bytes(16_384);
    config.host.buffer = Bytes(4_096);
    config.host.drain_rate = Some(Rate::from_gbit(4));
    config.flows = vec![flow("H1", "H3")];
    for outcome in with_both(&topology, &config) {
        assert_near(rates(&outcome)[0], 4.0, 0.05, "Gbit/s");
        let columns = ["root", "root_kind", "kind", "peak_branches", "peak_depth", "contributors", "victims"];
        assert_eq!(rows(&outcome, "trees", &columns), ["S1:3->H3 endpoint silent 1 1 1 0"]);
    }
}
