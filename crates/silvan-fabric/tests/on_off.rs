//! On/off flow control: receivers that pause and resume their senders.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use crate::common::*;
use proptest::prelude::*;
use silvan_engine::Bytes;
use silvan_fabric::config::{FlowControl, ForwardingMode, OnOff};
use silvan_fabric::queueing::Queues;

fn on_off(xoff: Option<u64>, xon: Option<u64>) -> FlowControl {
    FlowControl::OnOff(OnOff { xoff: xoff.map(Bytes), xon: xon.map(Bytes) })
}

#[test]
fn the_parking_lot_is_the_same_as_with_credits() {
    let (topology, mut config) = testbed(us(4_000));
    config.warmup = us(1_000);
    let credits = rates(&run(&topology, &config));
    config.flow_control = on_off(None, None);
    let stopped = rates(&run(&topology, &config));
    for (with, without) in stopped.iter().zip(&credits) {
        assert_near(*with, *without, 0.02, "rate of a flow");
    }
}

/// The sender stops one link delay after the buffer exceeds the threshold, but completes the current
/// packet.
#[test]
fn senders_stop_and_go_at_the_thresholds() {
    let topology =
        topology(r#"{"kind": "star", "hosts": 3, "link_rate": "16 Gbit/s", "link_delay": "500 ns"}"#);
    let mut config = config(us(500));
    config.measure.interval = us(1);
    config.packet.mtu = Bytes(2_048);
    config.flow_control = on_off(Some(20_480), Some(8_192));
    config.flows = vec![flow("H1", "H3"), flow("H2", "H3")];
    let outcome = run(&topology, &config);
    assert_near(rates(&outcome).iter().sum(), 16.0, 0.02, "no idle time at the hotspot");
    let links = outcome.tables.iter().find(|table| table.name == "links").unwrap();
    let column = |name| &links.columns.iter().find(|column| column.name == name).unwrap().values;
    let (silvan_fabric::outcome::Values::Name { codes, names }, silvan_fabric::outcome::Values::U32(down)) =
        (column("link"), column("downstream_bytes"))
    else {
        panic!("columns")
    };
    let into = codes.iter().zip(down).filter(|(code, _)| names[**code as usize].starts_with("H1->"));
    let most = into.map(|(_, bytes)| *bytes).max().unwrap();
    // The buffer may exceed the threshold by the packet that crosses it, the bytes that a link of 16 Gbit/s
    // carries in twice 500 ns plus the switch latency (2200 bytes in 1.1 us), a packet that has just
    // started, and control packets.
    assert!((20_480..=20_480 + 3 * 2_048 + 2_200 + 2_048).contains(&most), "{most}");
}

#[test]
fn configurations_that_could_lose_packets_are_rejected() {
    let topology = topology(r#"{"kind": "dumbbell"}"#);
    let mut config = config(us(10));
    config.flows = vec![flow("H1", "H4")];
    let mut refused = |flow_control, buffer, text: &str| {
        config.flow_control = flow_control;
        config.switch.buffer = Bytes(buffer);
        let error = try_run(&topology, &config).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    };
    refused(on_off(Some(131_072), None), 131_072, "flow_control.xoff = 128 KiB: the receiver");
    refused(on_off(None, None), 4_096, "use a larger buffer");
    refused(on_off(Some(20_000), Some(20_001)), 131_072, "flow_control.xon = 20.001 KB: must be at most");
    config.switch.buffer = Bytes(131_072);
    config.switch.queues = Some(Queues::PerDestination);
    config.switch.queue_buffer = Some(Bytes(8_192));
    let error = try_run(&topology, &config).unwrap_err().to_string();
    assert!(error.contains("switch.memory"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    /// No packet is lost, no buffer overflows (debug builds check each packet), and all packets arrive.
    #[test]
    fn all_packets_arrive_without_overflow(
        seed in prop::collection::vec(any::<u8>(), 40),
        (switches, hosts, lanes) in (1usize..5, 2usize..8, 1u8..4),
        (buffer, message) in (20_000u64..60_000, 1u64..9_000),
        (architecture, cc, stores) in (0usize..3, any::<bool>(), any::<bool>()),
        flows in prop::collection::vec((0usize..8, 0usize..8, 0u8..4), 1..10),
    ) {
        let load = RandomLoad {
            seed,
            switches,
            hosts,
            lanes,
            architecture,
            cc,
            message,
            flows,
            stop: us(300),
            uniform_stop: us(200),
        };
        let outcome = run_random_load(us(20_000), load, |config| {
            config.measure.interval = us(50);
            config.switch.buffer = Bytes(buffer * u64::from(lanes));
            config.host.buffer = config.switch.buffer;
            if stores {
                config.switch.forwarding = ForwardingMode::StoreAndForward;
            }
            config.flow_control = on_off(None, None);
            config.packet.credit_block = Bytes(1);
        });
        match outcome {
            Ok(outcome) => prop_assert_eq!(outcome.summary.packets_inside, 0),
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        }
    }
}
