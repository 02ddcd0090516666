//! Tests of the clocks, destinations and streams of sources.

use silvan_engine::Bytes;

use super::*;
use crate::config::Config;
use crate::partition::Partition;
use crate::tests::{config, flow, network, topology};

fn hosts(set: impl FnOnce(&mut Config)) -> Partition {
    let mut config = config(Time::from_us(100));
    set(&mut config);
    network(&topology(r#"{"kind": "star", "hosts": 4}"#), &config).partitions.remove(0)
}

#[test]
fn a_clock_has_the_mean_size_at_the_rate() {
    let rate = Some(Rate::from_gbit(8));
    let periodic = |spread| Builder::clock(rate, Arrivals::Periodic, 1_000, spread);
    let span = |clock| match clock {
        Clock::Periodic { pace, bytes, carry: 0 } => pace.time(bytes),
        other => panic!("{other:?} is not periodic"),
    };
    assert_eq!(span(periodic(0)), Time(1_000_000));
    assert_eq!(span(periodic(500)), Time(1_250_000), "1,250 bytes on average");
    assert_eq!(span(periodic(1)), Time(1_000_500), "half bytes count");
    let Clock::Poisson { mean_ps } = Builder::clock(rate, Arrivals::Poisson, 1_000, 500) else {
        panic!("the arrivals are random")
    };
    assert_eq!(mean_ps, 1_250_000);
    assert!(matches!(Builder::clock(None, Arrivals::Poisson, 1_000, 0), Clock::Saturating));
}

#[test]
fn senders_of_a_pattern_do_not_send_to_themselves() {
    let fixed = |pattern: &Pattern, targets: &[u32], me| match chooser(pattern, targets, me as usize, me, 4) {
        Some(Chooser::Fixed(to)) => Some(to),
        None => None,
        other => panic!("{other:?} is not fixed"),
    };
    let shift = |by| [0, 1, 2, 3].map(|me| fixed(&Pattern::Shift { by }, &[], me));
    assert_eq!(shift(3), [Some(3), Some(0), Some(1), Some(2)]);
    assert_eq!(shift(4), [None; 4]);
    assert_eq!(shift(6), [Some(2), Some(3), Some(0), Some(1)]);
    let to = Pattern::Hotspots { to: Vec::new() };
    assert_eq!([0, 1, 2, 3].map(|me| fixed(&to, &[2, 0], me)), [Some(2), Some(0), None, Some(0)]);
    let images = permutation(1, 0, 4);
    let permuted = [0, 1, 2, 3].map(|me| fixed(&Pattern::Permutation, &images, me));
    assert_eq!(permuted.map(Option::unwrap).to_vec(), images);
    let alone = |include_self| chooser(&Pattern::Uniform { include_self }, &[], 0, 0, 1).is_some();
    assert_eq!([alone(false), alone(true)], [false, true]);
}

#[test]
fn a_permutation_has_no_fixed_point_and_depends_on_seed_and_class() {
    for hosts in [2, 3, 10] {
        let images = permutation(7, 1, hosts);
        assert!(images.iter().enumerate().all(|(at, &image)| at as u32 != image), "{images:?}");
        let mut sorted = images.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..hosts).collect::<Vec<u32>>());
    }
    assert_eq!(permutation(7, 1, 1), [0]);
    assert_ne!(permutation(7, 1, 30), permutation(7, 2, 30));
    assert_ne!(permutation(7, 1, 30), permutation(8, 1, 30));
    assert_eq!(permutation(7, 1, 30), permutation(7, 1, 30));
}

#[test]
fn a_source_that_waits_for_a_trigger_keeps_its_phase() {
    let mut partition = hosts(|config| {
        let start = Time::from_us(3);
        config.flows = vec![silvan_network::traffic::Flow { start, ..flow("H1", "H2") }];
    });
    let sources = &mut partition.hosts[0].sources;
    let Waiting { host, source, phase } = hold(sources, 9);
    assert_eq!((host, source, phase), (9, 0, Time::from_us(3)));
    assert_eq!(sources[0].next_at, Time::NEVER);
}

#[test]
fn streams_of_patterns_are_numbered_from_zero_at_each_host() {
    let mut partition = hosts(|config| {
        let named =
            |name: &str| silvan_network::traffic::Flow { name: Some(name.into()), ..flow("H1", "H2") };
        config.flows = vec![named("a"), named("b")];
    });
    let sources = &mut partition.hosts[0].sources;
    assert_eq!(owner(3, sources, 2), 3 << 16, "flows do not count");
    sources[1].class = 2;
    assert_eq!(owner(3, sources, 2), 3 << 16 | 1);
}

#[test]
fn the_first_requests_of_a_closed_loop_are_in_its_first_think_time() {
    let think = Time(1_000);
    let mut random = Stream::new(1, "arrivals", 0);
    let mut varied = Box::new(Varied {
        sizes: SizeLaw::Spread(0),
        packets: u64::MAX,
        mtu: 1,
        random: Stream::new(1, "sizes", 0),
        periods: None,
        listed: [].into(),
        next: 0,
        due: VecDeque::new(),
        has_own_flows: false,
    });
    let first = first_requests((Time(50), think), 5, &mut random, Some(&mut varied));
    assert!(first < 1_000);
    let others: Vec<u64> = varied.due.iter().map(|time| time.0).collect();
    assert_eq!(others.len(), 4);
    assert!(others.is_sorted() && others[0] >= 50 + first && others[3] < 1_050, "{first} {others:?}");
    assert_eq!(first_requests((Time(50), think), 0, &mut random, None), 0);
}

#[test]
fn a_total_and_a_size_determine_what_a_flow_generates() {
    let partition = hosts(|config| {
        config.flows = vec![silvan_network::traffic::Flow {
            total: Some(Bytes(10_000)),
            message: Some(Bytes(3_000)),
            stop: Some(Time::from_us(70)),
            ..flow("H1", "H2")
        }];
    });
    let source = &partition.hosts[0].sources[0];
    assert_eq!((source.left, source.message, source.stop), (10_000, 3_000, Time::from_us(70)));
    assert!(matches!(source.chooser, Chooser::Fixed(1)));
    assert!(partition.hosts[1].sources.is_empty());
}
