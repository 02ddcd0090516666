//! Rules of credits, errors of links, and link-level retry: closed forms, and that no packet is lost.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use crate::common::*;
use proptest::prelude::*;
use silvan_engine::{Bytes, Time};
use silvan_fabric::config::{Config, Credits, FlowControl, LinkConfig, LinkRetry, SharedCredits};
use silvan_fabric::outcome::{Outcome, RetrySummary, Values};
use silvan_fabric::simulation::ModelError;
use silvan_network::topology::Topology;
use silvan_network::traffic::Flow;

/// On the link of A, a byte takes one nanosecond; the link of B may be faster.
fn one_link(delay_ns: u64, other_gbit: u64, duration: Time) -> (Topology, Config) {
    let topology = topology(&format!(
        r#"{{"kind": "custom", "hosts": ["A", "B"], "switches": [{{"name": "S", "ports": 2}}],
            "link_delay": "{delay_ns} ns",
            "links": [{{"from": "A", "to": "S:1", "rate": "8 Gbit/s"}},
                      {{"from": "B", "to": "S:2", "rate": "{other_gbit} Gbit/s"}}]}}"#
    ));
    let mut config = config(duration);
    config.packet.mtu = Bytes(1_000);
    config.packet.credit_block = Bytes(1);
    config.switch.latency = Time::from_ns(100);
    config.flows = vec![flow("A", "B")];
    (topology, config)
}

fn retry(error_rate_ppb: u32, retry: LinkRetry) -> LinkConfig {
    LinkConfig { error_rate_ppb, retry: Some(retry) }
}

/// The throughput of the first flow, relative to the rate of A's link.
fn share(topology: &Topology, config: &Config) -> f64 {
    rates(&run(topology, config))[0] / 8.0
}

/// The value of a column of the table of retries for a link.
fn column(outcome: &Outcome, name: &str, link: &str) -> u64 {
    let table = outcome.tables.iter().find(|table| table.name == "retries").unwrap();
    let Values::Name { codes, names } = &table.columns[0].values else { panic!("no names") };
    let row = codes.iter().position(|&code| names[code as usize] == link).unwrap();
    let Values::U64(values) = &table.columns.iter().find(|column| column.name == name).unwrap().values else {
        panic!("no counts")
    };
    values[row]
}

/// Bytes for which the sender of a link lacks credit at the last sample.
fn held(outcome: &Outcome, link: &str) -> u32 {
    let table = outcome.tables.iter().find(|table| table.name == "links").unwrap();
    let Values::Name { codes, names } = &table.columns[1].values else { panic!("no names") };
    let held = table.columns.iter().find(|column| column.name == "downstream_bytes").unwrap();
    let Values::U32(held) = &held.values else { panic!("no bytes") };
    let row = codes.iter().rposition(|&code| names[code as usize] == link).unwrap();
    held[row]
}

/// A packet occupies the buffer of the switch from its start at A until it has left the switch. Let d be the
/// delay, l the latency and f the packet time. If 2 d + l + n f is at most a period of k ticks, n packets
/// return their credit in time for the same tick, and n packets are sent in each period.
#[test]
fn a_small_buffer_sends_as_much_as_it_holds_in_each_period_of_credits() {
    let (topology, mut config) = one_link(500, 8, us(4_000));
    for (packets, spacing_ns, ticks) in
        [(4, 10_000, 1), (4, 20_000, 1), (2, 2_000, 2), (2, 1_600, 2), (3, 4_200, 1)]
    {
        config.switch.buffer = Bytes(1_000 * packets);
        config.flow_control =
            FlowControl::Credits(Credits { return_spacing: Some(Time::from_ns(spacing_ns)), shared: None });
        let law = (1_000 * packets) as f64 / (spacing_ns * ticks) as f64;
        let all = run_in_all_switches(&topology, &config);
        for (name, outcome) in all.iter().filter(|(name, _)| ["voq", "fcfs", "iq"].contains(name)) {
            assert_near(rates(outcome)[0] / 8.0, law, 0.01, name);
        }
    }
    // Without spacing, credit returns after 2 d + l + f.
    config.flow_control = FlowControl::default();
    config.switch.buffer = Bytes(2_000);
    assert_near(share(&topology, &config), 2_000.0 / 2_100.0, 0.001, "without spacing");
}

/// With n packets in the buffer, throughput is between that of one batch per period and that of single
/// packets.
#[test]
fn batches_of_credits_bound_throughput() {
    let (topology, mut config) = one_link(500, 8, us(2_000));
    for packets in [1, 2, 3, 5, 8] {
        for spacing_ns in [1, 300, 700, 1_100, 2_300, 3_100, 7_700] {
            config.switch.buffer = Bytes(1_000 * packets);
            config.flow_control = FlowControl::Credits(Credits {
                return_spacing: Some(Time::from_ns(spacing_ns)),
                shared: None,
            });
            let of = |round_trip: u64| {
                let period = (round_trip.div_ceil(spacing_ns) * spacing_ns) as f64;
                (1_000 * packets) as f64 / period
            };
            let (least, most) = (of(1_100 + 1_000 * packets), of(2_100).min(1.0));
            let found = share(&topology, &config);
            assert!(
                found > least.min(1.0) * 0.99,
                "{found} is less than {least}: {packets} packets, {spacing_ns} ns"
            );
            assert!(found < most * 1.01, "{found} is more than {most}: {packets} packets, {spacing_ns} ns");
        }
    }
}

/// The efficiency is (1 - p) / (1 - p + p (1 + R / f)), which ignores second errors of one frame. With
/// p = 1/1000, these are rare.
#[test]
fn the_efficiency_of_go_back_n() {
    let (topology, mut config) = one_link(2_000, 80, us(50_000));
    config.measure.interval = us(10_000);
    let (p, trip) = (0.001, 4.0);
    let given = LinkRetry { timer: us(20), ack_spacing: Bytes(1_000), ..LinkRetry::default() };
    config.link = retry(1_000_000, given);
    let law = (1.0 - p) / (1.0 - p + p * (1.0 + trip));
    assert_near(share(&topology, &config), law, 0.0025, "efficiency");
}

/// Frames are not broken off: an error costs the bad frame and each one that has begun when the answer
/// arrives, that is 1 + ceil(R / f) frames. With R / f = 0.2, the efficiency is 0.976 instead of 0.984 with
/// parts of frames. Second errors of a frame, and NACKs that get lost, cost the timer.
#[test]
fn an_error_costs_whole_frames() {
    for (delay, whole) in [(100, 1.0), (600, 2.0), (1_250, 3.0)] {
        let (topology, mut config) = one_link(delay, 80, us(50_000));
        config.measure.interval = us(10_000);
        let (p, timer) = (0.01, 20.0);
        let given = LinkRetry { timer: us(20), ack_spacing: Bytes(0), ..LinkRetry::default() };
        config.link = retry(10_000_000, given);
        let law = 1.0 / (1.0 + p * (1.0 + whole) / (1.0 - p) + 2.0 * p * p * timer);
        let shares = (1..=3).map(|seed| {
            config.seed = seed;
            share(&topology, &config)
        });
        assert_near(shares.sum::<f64>() / 3.0, law, 0.003, &format!("efficiency, {delay} ns"));
    }
}

/// A NACK costs a frame and a round trip. If the NACK is lost, the timer has the same effect; it starts with
/// the acknowledgement of the previous frame, which arrives a round trip after the bad frame has started. If
/// the frame is bad again, the receiver is silent until the next replay.
#[test]
fn lost_answers_and_repeated_errors_cost_the_timer() {
    let (topology, mut config) = one_link(2_000, 80, us(50_000));
    config.measure.interval = us(10_000);
    for (ppb, timer) in [(20_000_000, 20), (50_000_000, 20), (50_000_000, 60)] {
        let given = LinkRetry { timer: us(timer), ack_spacing: Bytes(0), ..LinkRetry::default() };
        config.link = retry(ppb, given);
        let (p, f, trip, timer) = (f64::from(ppb) / 1e9, 1.0, 4.0, timer as f64);
        let first = p * ((1.0 - p) * (trip + f) + p * (trip + timer));
        let law = f / (f + first + p * p / (1.0 - p) * timer);
        // With the longest timer, the throughput of a run deviates by 1.5 %.
        let shares = (1..=6).map(|seed| {
            config.seed = seed;
            share(&topology, &config)
        });
        assert_near(shares.sum::<f64>() / 6.0, law, 0.02, "efficiency");
    }
}

/// A frame stays in the replay buffer for its transmission time and a round trip.
#[test]
fn a_small_replay_buffer_limits_throughput() {
    let (topology, mut config) = one_link(2_000, 80, us(2_000));
    for frames in 1..=7 {
        let law = (f64::from(frames) / 5.0).min(1.0);
        let by_frames = LinkRetry { frames, ack_spacing: Bytes(0), ..LinkRetry::default() };
        let bytes = Bytes(1_000 * u64::from(frames) + 999);
        let by_bytes = LinkRetry { bytes, ack_spacing: Bytes(0), ..LinkRetry::default() };
        for given in [by_frames, by_bytes] {
            config.link = retry(0, given);
            for (name, outcome) in run_in_all_switches(&topology, &config) {
                assert_near(rates(&outcome)[0] / 8.0, law, 0.01, name);
            }
        }
    }
}

/// All links together carry each frame once, and again each frame that was bad or followed a bad one.
#[test]
fn the_table_counts_frames_and_answers() {
    let (topology, mut config) = one_link(2_000, 80, us(500));
    config.flows[0].total = Some(Bytes(100_000));
    let given = LinkRetry { ack_spacing: Bytes(10_000), timer: us(100), ..LinkRetry::default() };
    config.link = retry(0, given);
    let outcome = run(&topology, &config);
    assert_eq!(column(&outcome, "frames", "A->S:1"), 100);
    // The first frame is acknowledged immediately, and then ten frames at a time; the last frame waits.
    assert_eq!(column(&outcome, "acks", "A->S:1"), 11);
    let clean = RetrySummary { frames: 200, ..RetrySummary::default() };
    let found = outcome.summary.retries.clone().unwrap();
    assert_eq!(RetrySummary { acks: 0, ..found }, clean);
    config.link = retry(100_000_000, LinkRetry::default());
    let outcome = run(&topology, &config);
    let sum = outcome.summary.retries.clone().unwrap();
    let of = |name| column(&outcome, name, "A->S:1");
    assert_eq!(outcome.summary.packets_delivered, 100);
    assert_eq!(sum.frames, 200, "packets that are sent again are counted once");
    assert_eq!(
        of("frames") + of("replayed"),
        100 + of("bad") + of("discarded"),
        "each packet is delivered once"
    );
    assert!(of("bad") > 0 && of("nacks") > 0 && of("replayed") >= of("bad"));
    let times = |count: u64| if count == 1 { "once".to_owned() } else { format!("{count} times") };
    let sentence = format!(
        "Of 200 frames on links, {} were bad; {} were sent again, and timers of links expired {}.",
        sum.bad,
        sum.replayed,
        times(sum.timeouts)
    );
    assert!(outcome.account.contains(&sentence), "{:?}", outcome.account);
}

#[test]
fn a_link_that_repeats_its_frames_too_often_has_failed() {
    let (topology, mut config) = one_link(2_000, 80, us(5_000));
    let with = |count| retry(500_000_000, LinkRetry { count, ..LinkRetry::default() });
    config.link = with(1);
    let error = try_run(&topology, &config).unwrap_err();
    let ModelError::LinkFailed { link, count: 1, .. } = &error else { panic!("{error}") };
    assert!(["A->S:1", "S:2->B"].contains(&link.as_str()), "{link}");
    let text = error.to_string();
    let expected = format!(
        "{link} has sent its frames again more than 1 times without an acknowledgement; increase link.retry.count, or \
         decrease link.error_rate_ppb"
    );
    assert!(text.starts_with("link failure at ") && text.ends_with(&expected), "{text}");
    config.link = with(100);
    assert!(try_run(&topology, &config).is_ok());
}

/// The link to V sends the first packet during the whole run, so the buffer keeps all packets for V.
fn blocked(flows: &[u8], shared: SharedCredits) -> Outcome {
    let topology = topology(
        r#"{"kind": "custom", "hosts": ["U", "V"], "switches": [{"name": "S", "ports": 2}], "link_rate": "8 Gbit/s",
            "links": [{"from": "U", "to": "S:1"}, {"from": "V", "to": "S:2", "rate": "80 Mbit/s"}]}"#,
    );
    let mut config = config(us(90));
    config.measure.interval = us(10);
    config.packet.mtu = Bytes(1_000);
    config.packet.credit_block = Bytes(1);
    config.lanes.count = 2;
    config.switch.buffer = Bytes(16_000);
    config.flow_control = FlowControl::Credits(Credits { return_spacing: None, shared: Some(shared) });
    let one = |&sl: &u8| Flow { sl, name: Some(format!("f{sl}")), ..flow("U", "V") };
    config.flows = flows.iter().map(one).collect();
    run(&topology, &config)
}

/// Of 16,000 bytes, each of two lanes has 2,000 for itself, and 12,000 are shared. With the dynamic threshold
/// a of the free part, each of k lanes gets a / (1 + k a) of the 12,000 bytes.
#[test]
fn lanes_share_credits_up_to_the_threshold() {
    let reserve = Some(Bytes(2_000));
    let none = SharedCredits { reserve, ..SharedCredits::default() };
    let fixed = SharedCredits { limit: Some(Bytes(3_000)), ..none.clone() };
    let dynamic = |shift| SharedCredits { alpha_shift: Some(shift), ..none.clone() };
    for (flows, shared, expected) in [
        (&[0][..], none.clone(), 14_000),
        (&[0], fixed.clone(), 5_000),
        (&[0, 1], fixed, 10_000),
        (&[0], dynamic(0), 8_000),
        (&[0, 1], dynamic(0), 2 * 6_000),
        (&[0], dynamic(1), 2_000 + 4_000),
        (&[0], dynamic(-1), 2_000 + 8_000),
        (&[0, 1], none, 16_000),
    ] {
        assert_eq!(held(&blocked(flows, shared.clone()), "U->S:1"), expected, "{flows:?} {shared:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// With any rules of credits and any errors, all packets arrive, in order.
    #[test]
    fn all_packets_arrive(
        seed in prop::collection::vec(any::<u8>(), 40),
        (switches, hosts, lanes) in (1usize..5, 2usize..8, 1u8..4),
        (buffer, message) in (3u64..12, 1u64..9_000),
        (architecture, cc) in (0usize..3, any::<bool>()),
        (spacing, is_shared, alpha_shift) in (0u64..3_000_000, any::<bool>(), -3i8..4),
        (errors, frames, ack_spacing) in (0u32..300_000_000, 1u32..20, 0u64..9_000),
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
            stop: us(100),
            uniform_stop: us(60),
        };
        let outcome = run_random_load(us(300_000), load, |config| {
            config.measure.interval = us(10_000);
            config.switch.buffer = Bytes(buffer * 2_112 * u64::from(lanes));
            let shared = (is_shared && lanes > 1)
                .then(|| SharedCredits { alpha_shift: Some(alpha_shift), ..SharedCredits::default() });
            let return_spacing = Some(Time(spacing));
            config.flow_control = FlowControl::Credits(Credits { return_spacing, shared });
            if errors > 30_000_000 {
                config.link = retry(errors, LinkRetry {
                    frames,
                    timer: us(30),
                    count: 10_000,
                    ack_spacing: Bytes(ack_spacing),
                    ..LinkRetry::default()
                });
            }
        });
        match outcome {
            Ok(outcome) => prop_assert_eq!(outcome.summary.packets_inside, 0),
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        }
    }
}
