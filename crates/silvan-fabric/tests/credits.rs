//! Credit of receivers: with any parameters, a lossless network delivers every packet.

#![allow(clippy::unwrap_used, clippy::panic)]

use proptest::prelude::*;
use silvan_congestion::marking::Marking;
use silvan_congestion::reaction::{Nscc, Rccc, Reaction};
use silvan_congestion::{Congestion, Notification};
use silvan_engine::{Bytes, Time};
use silvan_network::traffic::{Pattern, Traffic};

use crate::common::{config, pattern, run, topology, us};

/// A load of full packets and parts of packets.
#[derive(Debug, Clone, Copy)]
struct Load {
    seed: u64,
    hosts: usize,
    packets: u64,
    mtu: u64,
    header: u64,
    /// The largest message in bytes; 0 for a closed loop of four messages of three packets each.
    most: u64,
}

/// The numbers of packets that arrive and that are sent. Every host sends to random hosts: messages of one
/// byte up to `most` bytes, or a closed loop.
fn delivered(load: Load, rccc: Rccc) -> (u64, u64) {
    let Load { seed, hosts, packets, mtu, header, most } = load;
    let mut config = config(us(1_000_000));
    config.seed = seed;
    (config.packet.mtu, config.packet.header) = (Bytes(mtu), Bytes(header));
    config.packet.control = Bytes((mtu + header).min(64));
    (config.host.injection_rate, config.host.drain_rate) = (None, None);
    config.measure.interval = config.duration;
    let traffic =
        Traffic { packets_per_host: Some(packets), ..pattern(Pattern::Uniform { include_self: false }) };
    config.traffic = vec![match most {
        0 => Traffic { message: Some(Bytes(3 * mtu)), outstanding: Some(4), ..traffic },
        _ => Traffic { message: Some(Bytes(1)), message_max: Some(Bytes(most)), ..traffic },
    }];
    config.congestion = Congestion {
        marking: Some(Marking::None),
        notification: Some(Notification::AckGrant),
        reaction: Some(Reaction::Rccc(rccc)),
        ..Congestion::default()
    };
    let star = topology(&format!(r#"{{"kind": "star", "hosts": {hosts}}}"#));
    (run(&star, &config).summary.packets_delivered, packets * hosts as u64)
}

/// Each packet needs several quanta, and each of eight flows requests an eighth of each quantum.
#[test]
fn divided_requests_do_not_stall() {
    for seed in 1..=12 {
        for (mtu, header, grant_packets) in [(1_000, 24, 1), (4_096, 64, 1), (4_096, 64, 2), (50, 10, 1)] {
            let rccc = Rccc {
                limit: Some(Bytes(mtu + header)),
                speculative: Some(Bytes(0)),
                grant_packets,
                divide_requests: true,
                ..Rccc::default()
            };
            let load = Load { seed, hosts: 8, packets: 60, mtu, header, most: 3 * mtu / 2 };
            let (arrived, all) = delivered(load, rccc);
            assert_eq!(
                arrived, all,
                "seed {seed}, packets of {mtu} + {header} bytes, {grant_packets} per turn"
            );
        }
    }
}

/// A host creates up to 1,024 sources for its messages, and then uses these sources again. For a later
/// message of a source, receivers must not continue with the grants of the earlier message.
#[test]
fn sources_that_are_used_again_get_credit_as_new_ones() {
    for (hosts, idle_credit, speculative) in [(2, true, 0), (2, false, 0), (3, false, 600), (2, true, 600)] {
        let rccc = Rccc {
            limit: Some(Bytes(1_024)),
            speculative: Some(Bytes(speculative)),
            idle_credit,
            ..Rccc::default()
        };
        let load = Load { seed: 1, hosts, packets: 4_500, mtu: 500, header: 20, most: 0 };
        let (arrived, all) = delivered(load, rccc);
        assert_eq!(arrived, all, "{hosts} hosts, idle credit {idle_credit}, {speculative} bytes at first");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn all_packets_arrive_with_any_credit(
        (seed, hosts, packets) in (1u64..1_000_000, 2usize..10, 1u64..60),
        (mtu, header) in (1u64..5_000, 0u64..100),
        (share, most) in (0u64..2_000, 1u64..12_000),
        (limit, speculative) in (prop::option::of(100u64..800), prop::option::of(0u64..100)),
        (grant_percent, grant_packets) in (1u8..=100, 1u8..=4),
        (idle_credit, divides, nscc) in any::<(bool, bool, bool)>(),
    ) {
        let full = mtu + header;
        let limit = limit.map(|percent| full * percent / 100);
        let rccc = Rccc {
            limit: limit.map(Bytes),
            round_trip: Some(Time::from_ns(1 + share)),
            speculative: speculative.map(|percent| Bytes(limit.unwrap_or(full) * percent / 100)),
            grant_percent,
            grant_packets,
            idle_credit: idle_credit || divides,
            divide_requests: divides,
            nscc: nscc.then(Nscc::default),
            ..Rccc::default()
        };
        let (arrived, all) = delivered(Load { seed, hosts, packets, mtu, header, most }, rccc.clone());
        prop_assert_eq!(arrived, all, "{:?}", rccc);
    }
}
