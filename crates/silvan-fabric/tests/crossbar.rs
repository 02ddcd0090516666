//! Input-queued switches with one read port per input, compared with the limits of a crossbar.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use crate::common::*;
use silvan_engine::{Bytes, Rate, Time};
use silvan_fabric::config::{Architecture, Config};
use silvan_fabric::queueing::Queues;
use silvan_network::traffic::{Flow, Pattern, Traffic};

/// A network in which only the switch limits traffic: no latency, and large buffers at both ends. Packets
/// have 64 to 4096 bytes.
fn mixed(hosts: u32, queues: Queues, buffer: u64) -> (silvan_network::topology::Topology, Config) {
    let kind =
        format!(r#"{{"kind": "star", "hosts": {hosts}, "link_rate": "16 Gbit/s", "link_delay": "1 ns"}}"#);
    let mut config = config(us(22_000));
    config.warmup = us(2_000);
    config.measure.interval = us(2_000);
    (config.packet.mtu, config.packet.credit_block) = (Bytes(4_096), Bytes(1));
    config.switch.architecture = Some(Architecture::Iq);
    config.switch.queues = Some(queues);
    config.switch.buffer = Bytes(buffer);
    config.switch.latency = Time::ZERO;
    config.host.buffer = Bytes(1 << 20);
    config.traffic = vec![Traffic {
        message: Some(Bytes(64)),
        message_max: Some(Bytes(4_096)),
        ..pattern(Pattern::Uniform { include_self: true })
    }];
    (topology(&kind), config)
}

fn throughput(hosts: u32, queues: Queues, buffer: u64) -> f64 {
    let (topology, config) = mixed(hosts, queues, buffer);
    run(&topology, &config).summary.throughput_gbit_s / (16.0 * f64::from(hosts))
}

/// The saturation throughput of FIFO inputs with packets of 64 to 4096 bytes comes from an independent
/// work-conserving model (`verify/crossbar.py`). Its limit for many ports is 3 - sqrt 6 = 0.5505. If outputs
/// waited for inputs that are busy with other outputs, the results would be 0.667, 0.583 and 0.543.
#[test]
fn fifo_inputs_saturate_at_the_known_throughput() {
    for (hosts, expected) in [(2, 0.708), (4, 0.6205), (16, 0.568)] {
        let got = throughput(hosts, Queues::Single, 65_536);
        assert_near(got, expected, 0.012, &format!("{hosts} ports"));
    }
}

/// With virtual output queues, throughput is close to 1. It would be 0.842 if outputs waited for busy inputs.
#[test]
fn virtual_output_queues_leave_little_idle() {
    assert_near(throughput(8, Queues::PerOutput, 1 << 20), 0.995, 0.012, "8 ports");
}

#[test]
fn latency_at_a_load_of_four_fifths_is_some_packets() {
    let (topology, mut config) = mixed(8, Queues::PerOutput, 131_072);
    config.traffic[0].rate = Some(Rate(12_800_000_000));
    config.traffic[0].arrivals = silvan_network::traffic::Arrivals::Poisson;
    let outcome = run(&topology, &config);
    let since_injection =
        outcome.summary.latency.iter().find(|latency| latency.since == "injection").unwrap();
    // A packet takes 1 us on average. If outputs waited for busy inputs, the mean would exceed 35 us.
    assert!(since_injection.mean_ns < 8_000.0, "{}", since_injection.mean_ns);
}

/// H1 sends continuously to H4 and also to H5, while H2 and H3 saturate H5. Packet sizes differ, so the
/// senders are not synchronized. Nevertheless, the output to H5 must serve H1 at least once in about
/// sixteen rounds of the three senders.
#[test]
fn an_input_that_is_always_busy_is_served() {
    let topology = topology(r#"{"kind": "star", "hosts": 5, "link_rate": "16 Gbit/s"}"#);
    for (queues, other) in [Queues::PerOutput, Queues::PerDestination]
        .into_iter()
        .flat_map(|q| [2_048, 1_500, 700].map(|m| (q, m)))
    {
        let mut config = config(us(4_000));
        config.measure.interval = us(100);
        config.switch.architecture = Some(Architecture::Iq);
        config.switch.queues = Some(queues);
        config.switch.queue_buffer = Some(Bytes(8_192));
        let sized = |from: &str, to: &str, message| Flow { message: Some(Bytes(message)), ..flow(from, to) };
        config.flows = vec![
            sized("H1", "H4", other),
            sized("H1", "H5", 2_048),
            sized("H2", "H5", 2_048),
            sized("H3", "H5", 2_048),
        ];
        let outcome = run(&topology, &config);
        let got = rates(&outcome);
        assert!(got[1] > 16.0 / (3.0 * 16.0 + 3.0), "{queues:?}, {other} B: {got:?}");
        assert!(got[1..].iter().sum::<f64>() > 0.9 * 16.0, "the output is busy: {got:?}");
        let table = outcome.tables.iter().find(|table| table.name == "flows").unwrap();
        let column = |name| &table.columns.iter().find(|column| column.name == name).unwrap().values;
        let (
            silvan_fabric::outcome::Values::Name { codes, names },
            silvan_fabric::outcome::Values::U64(bytes),
        ) = (column("flow"), column("received_bytes"))
        else {
            panic!("columns")
        };
        let own = codes.iter().zip(bytes).skip(4).filter(|(code, _)| names[**code as usize] == "H1->H5");
        let least = own.map(|(_, bytes)| *bytes).min().unwrap();
        assert!(least > 0, "{queues:?}, {other} B: nothing in 100 us");
    }
}
