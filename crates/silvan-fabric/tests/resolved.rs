//! Values that result from a configuration and its network: shares of buffers, lanes of service levels, space
//! above the thresholds of on/off flow control. The expected numbers are computed by hand.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::sync::Arc;

use crate::common::*;
use crate::jobs::{job, trace};
use silvan_engine::{Bytes, Rate, Time};
use silvan_fabric::Reason;
use silvan_fabric::config::{Config, FlowControl, OnOff};
use silvan_fabric::outcome::{Outcome, Values};
use silvan_fabric::queueing::{HostQueues, Memory, Queues};
use silvan_fabric::simulation::ModelError;
use silvan_network::topology::Topology;
use silvan_network::traffic::{Flow, Listed, ListedTransfer, Pattern, Sizes, Traffic};
use silvan_trace::Operation;

fn star(hosts: u32, delay_ns: u64) -> Topology {
    topology(&format!(
        r#"{{"kind": "star", "hosts": {hosts}, "link_rate": "16 Gbit/s", "link_delay": "{delay_ns} ns"}}"#
    ))
}

/// The maximum of `downstream_bytes` over all samples and all links from a host or switch.
fn most_behind(outcome: &Outcome, from: &str) -> u32 {
    let links = outcome.tables.iter().find(|table| table.name == "links").unwrap();
    let column = |name| &links.columns.iter().find(|column| column.name == name).unwrap().values;
    let (Values::Name { codes, names }, Values::U32(bytes)) = (column("link"), column("downstream_bytes"))
    else {
        panic!("columns")
    };
    let starts_there = |name: &str| name.split([':', '-']).next() == Some(from);
    let of_links = codes.iter().zip(bytes).filter(|(code, _)| starts_there(&names[**code as usize]));
    of_links.map(|(_, bytes)| *bytes).max().unwrap()
}

/// A run in which H1 sends to H2, which drains almost nothing, so that the buffers on the route fill up.
fn filled(change: impl FnOnce(&mut Config)) -> Outcome {
    filled_in(&star(4, 10), change)
}

fn filled_in(topology: &Topology, change: impl FnOnce(&mut Config)) -> Outcome {
    let mut config = config(us(400));
    config.measure.interval = us(5);
    config.host.drain_rate = Some(Rate(10_000_000));
    config.host.buffer = Bytes(8_192);
    config.flows = vec![flow("H1", "H2")];
    change(&mut config);
    run(topology, &config)
}

#[test]
fn lanes_share_a_buffer_in_equal_parts_of_whole_credit_blocks() {
    for (lanes, buffer, expected) in [
        (1, 20_480, 10 * 2_048),
        (2, 20_480, 5 * 2_048),
        // 6826 bytes are 106 blocks of 64, which hold three packets.
        (3, 20_480, 3 * 2_048),
        // One block less than four packets.
        (2, 2 * 8_191, 3 * 2_048),
        (2, 2 * 8_192, 4 * 2_048),
    ] {
        let outcome = filled(|config| {
            config.lanes.count = lanes;
            config.host.buffer = Bytes(8_192 * u64::from(lanes));
            config.switch.buffer = Bytes(buffer);
        });
        assert_eq!(most_behind(&outcome, "H1"), expected, "{buffer} bytes for {lanes} lanes");
    }
}

#[test]
fn packets_take_whole_credit_blocks() {
    // Packets of 300 bytes with a header of 30 bytes occupy 6 blocks of 64 bytes, so 26 of them fit into 10
    // 240 bytes. Without blocks, 31 would fit.
    let small = |block| {
        let outcome = filled(|config| {
            config.packet.header = Bytes(30);
            config.packet.credit_block = Bytes(block);
            config.switch.buffer = Bytes(10_240);
            config.flows[0].message = Some(Bytes(300));
        });
        most_behind(&outcome, "H1")
    };
    assert_eq!(small(64), 26 * 384);
    assert_eq!(small(1), 31 * 330);
    assert_eq!(small(100), 25 * 400);
}

#[test]
fn a_divided_memory_gives_each_queue_its_part() {
    // H1 fills the queue of one output. The buffer is divided among the four outputs, unless `queue_buffer`
    // sets the size of a queue.
    let divided = |buffer, queue_buffer| {
        let outcome = filled(|config| {
            config.switch.memory = Some(Memory::Divided);
            config.switch.queues = Some(Queues::PerOutput);
            config.switch.buffer = Bytes(buffer);
            config.switch.queue_buffer = queue_buffer;
        });
        most_behind(&outcome, "H1")
    };
    assert_eq!(divided(1 << 17, Some(Bytes(6_144))), 3 * 2_048);
    assert_eq!(divided(1 << 17, Some(Bytes(6_143))), 2 * 2_048);
    // Four hosts need four ports.
    assert_eq!(divided(4 * 8_192, None), 4 * 2_048);
}

#[test]
fn service_levels_take_the_lanes_they_are_mapped_to() {
    // Two flows of levels 0 and 2, and two lanes of four packets each. Both flows use the link between the
    // switches.
    let two_switches = topology(
        r#"{"kind": "custom", "link_rate": "16 Gbit/s", "link_delay": "10 ns",
            "hosts": ["H1", "H2", "H3"], "switches": [{"name": "S1"}, {"name": "S2"}],
            "links": [{"from": "H1", "to": "S1"}, {"from": "S1", "to": "S2"},
                      {"from": "H2", "to": "S2"}, {"from": "H3", "to": "S2"}]}"#,
    );
    let levels = |map: Option<Vec<u8>>| {
        let outcome = filled_in(&two_switches, |config| {
            config.lanes.count = 2;
            config.lanes.sl_to_vl = map;
            config.host.buffer = Bytes(16_384);
            config.switch.buffer = Bytes(16_384);
            config.flows.push(Flow { sl: 2, ..flow("H1", "H3") });
        });
        most_behind(&outcome, "S1")
    };
    // By default, the lane is the level modulo the number of lanes.
    assert_eq!(levels(None), 4 * 2_048);
    assert_eq!(levels(Some(vec![0, 0, 1])), 8 * 2_048);
    assert_eq!(levels(Some(vec![1, 0, 1])), 4 * 2_048);
    // Levels that are not in the map use lane 0.
    assert_eq!(levels(Some(vec![1])), 8 * 2_048);
}

#[test]
fn links_of_hosts_count_the_bytes_of_all_lanes() {
    // Flows of levels 0 and 1 from the same host. The first switch holds four packets of each lane.
    let bytes = |lanes| {
        let outcome = filled(|config| {
            config.lanes.count = lanes;
            config.host.buffer = Bytes(16_384);
            config.switch.buffer = Bytes(16_384);
            config.flows.push(Flow { sl: 1, ..flow("H1", "H3") });
        });
        most_behind(&outcome, "H1")
    };
    assert_eq!(bytes(1), 8 * 2_048);
    assert_eq!(bytes(2), 8 * 2_048);
    // Four lanes of two packets each, of which two lanes are used.
    assert_eq!(bytes(4), 4 * 2_048);
}

#[test]
fn the_smallest_buffers_that_are_accepted_hold_one_packet() {
    type Change = fn(&mut Config, u64);
    let cases: [(&str, u64, Change); 4] = [
        ("switch.buffer", 2_048, |config, size| config.switch.buffer = Bytes(size)),
        ("host.buffer", 2 * 2_048, |config, size| {
            config.lanes.count = 2;
            config.host.buffer = Bytes(size);
        }),
        ("host.output_buffer", 2 * 3 * 2_048, |config, size| {
            config.lanes.count = 2;
            config.switch.queue_count = 3;
            config.host.queues = Some(HostQueues::DestinationModulo);
            config.host.output_buffer = Bytes(size);
        }),
        ("switch.queue_buffer", 2_048, |config, size| {
            config.switch.memory = Some(Memory::Divided);
            config.switch.queue_buffer = Some(Bytes(size));
        }),
    ];
    for (key, least, change) in cases {
        let mut config = config(us(100));
        config.flows = vec![Flow { total: Some(Bytes(10 * 2_048)), ..flow("H1", "H2") }];
        change(&mut config, least);
        assert_eq!(run(&star(4, 10), &config).summary.packets_delivered, 10, "{key}");
        change(&mut config, least - 1);
        assert!(try_run(&star(4, 10), &config).unwrap_err().to_string().starts_with(key), "{key}");
    }
}

/// The space above the threshold that a 16 Gbit/s link with this delay needs, according to the error message.
fn room(delay_ns: u64, change: impl FnOnce(&mut Config)) -> u64 {
    let mut config = config(us(10));
    config.packet.credit_block = Bytes(1);
    config.flow_control = FlowControl::OnOff(OnOff { xoff: None, xon: None });
    config.flows = vec![flow("H1", "H2")];
    change(&mut config);
    match try_run(&star(3, delay_ns), &config) {
        Err(ModelError::Configuration(error)) => match error.reason {
            Reason::NoRoomAboveThreshold { room, .. } => room,
            other => panic!("{other:?}"),
        },
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it ran"),
    }
}

#[test]
fn room_above_the_threshold_is_what_comes_before_the_sender_stops() {
    // The space is for a packet that exceeds the threshold, a packet that has begun when the sender is
    // stopped, and 2 bytes per nanosecond for twice the delay plus the switch latency.
    let at_switch = |delay| room(delay, |config| config.switch.buffer = Bytes(4_096));
    assert_eq!(at_switch(500), 2 * 2_048 + 2 * (2 * 500 + 100));
    assert_eq!(at_switch(10), 2 * 2_048 + 2 * (2 * 10 + 100));
    let later = room(10, |config| {
        config.switch.buffer = Bytes(4_096);
        config.switch.latency = Time::from_us(1);
    });
    assert_eq!(later, 2 * 2_048 + 2 * (2 * 10 + 1_000));
    // In a host, a packet counts when its tail has arrived.
    let at_host = room(500, |config| config.host.buffer = Bytes(4_096));
    assert_eq!(at_host, 2 * 2_048 + 2 * (2 * 500 + 1_024));
}

#[test]
fn room_counts_blocks_of_the_smallest_packets() {
    // 2200 bytes in packets of 64 bytes, each of which occupies a block of 100 bytes.
    let blocks = room(500, |config| {
        config.packet.credit_block = Bytes(100);
        config.packet.control = Bytes(64);
        config.switch.buffer = Bytes(4_200);
    });
    assert_eq!(blocks, 2 * 2_100 + (2_200 * 100_u64).div_ceil(64).max((2_200 * 200_u64).div_ceil(101)));
    // Messages of 2048 + 10 bytes end with a packet of 10 bytes.
    let ends = room(500, |config| {
        config.packet.credit_block = Bytes(100);
        config.packet.control = Bytes(64);
        config.flows[0].message = Some(Bytes(2_058));
        config.switch.buffer = Bytes(4_200);
    });
    assert_eq!(ends, 2 * 2_100 + 2_200 * 100 / 10);
    // Messages of a distribution or a list can end with a packet of one byte.
    let any = |traffic: &Traffic| {
        room(500, |config| {
            config.packet.credit_block = Bytes(100);
            config.traffic = vec![traffic.clone()];
            config.switch.buffer = Bytes(4_200);
        })
    };
    let mut drawn = pattern(Pattern::Uniform { include_self: false });
    drawn.sizes = Some(Sizes::WebSearch);
    let mut list = pattern(Pattern::Listed(Listed { file: "a.csv".to_owned(), starts_at: Time::ZERO }));
    let listed = ListedTransfer { from: 0, to: 1, bytes: 2_049, start: Time::ZERO, sl: 0 };
    list.loaded.transfers = Some(Arc::new(vec![listed]));
    assert_eq!([any(&drawn), any(&list)], [2 * 2_100 + 2_200 * 100; 2]);
}

#[test]
fn room_counts_the_last_packets_of_jobs() {
    // The message of the job ends with a packet of 10 bytes.
    let room = room(500, |config| {
        config.packet.credit_block = Bytes(100);
        config.switch.buffer = Bytes(4_200);
        config.flows.clear();
        config.jobs =
            vec![job(trace(&[&[Operation::send(1, 2_058, 0)], &[Operation::recv(0, 2_058, 0)]]), &[0, 1])];
    });
    assert_eq!(room, 2 * 2_100 + 2_200 * 100 / 10);
}

#[test]
fn thresholds_fit_as_long_as_there_is_room_above_them() {
    let accepted = |buffer, xoff: Option<u64>| {
        let mut config = config(us(50));
        config.packet.credit_block = Bytes(1);
        config.switch.buffer = Bytes(buffer);
        config.host.buffer = Bytes(1 << 20);
        config.flow_control = FlowControl::OnOff(OnOff { xoff: xoff.map(Bytes), xon: None });
        config.flows = vec![flow("H1", "H2")];
        try_run(&star(3, 500), &config).is_ok()
    };
    let room = 2 * 2_048 + 2_200;
    assert!(!accepted(room, None));
    assert!(accepted(room + 1, None));
    assert!(accepted(room + 5_000, Some(5_000)));
    assert!(!accepted(room + 5_000, Some(5_001)));
}
