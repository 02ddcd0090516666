//! Flow control with pause frames: when they take effect, and that the headroom is exact.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::sync::Arc;

use crate::common::*;
use proptest::prelude::*;
use silvan_engine::{Bytes, Rate, Time};
use silvan_fabric::config::{
    Arbitration, Config, FlowControl, ForwardingMode, Pfc, Scheduler, SharedMemory, WatchdogAction,
};
use silvan_fabric::faults::{Event, EventKind};
use silvan_fabric::outcome::{Outcome, Values};
use silvan_fabric::pause_memory;
use silvan_fabric::simulation::{ModelError, Simulation};
use silvan_network::routing::RoutingSpec;
use silvan_network::topology::Topology;
use silvan_network::traffic::{Cdf, Flow, Listed, ListedTransfer, Pattern, Sizes};

/// A column of the table of pauses.
fn column(outcome: &Outcome, name: &str) -> Vec<f64> {
    let pauses = outcome.tables.iter().find(|table| table.name == "pauses").unwrap();
    match &pauses.columns.iter().find(|column| column.name == name).unwrap().values {
        Values::U64(values) => values.iter().map(|&value| value as f64).collect(),
        Values::U32(values) => values.iter().map(|&value| f64::from(value)).collect(),
        Values::F64(values) => values.clone(),
        Values::Name { .. } => panic!("{name} is a column of names"),
    }
}

/// The names of the links that were paused.
fn links(outcome: &Outcome) -> Vec<String> {
    let pauses = outcome.tables.iter().find(|table| table.name == "pauses").unwrap();
    let Values::Name { codes, names } = &pauses.columns[0].values else { panic!("no names") };
    codes.iter().map(|&code| names[code as usize].clone()).collect()
}

/// A byte takes one nanosecond on all links except the link of V, on which a packet takes 100 us. A packet of
/// W occupies that link from the start, so all packets of U for V stay in the buffer.
fn blocked() -> (Topology, Config) {
    let topology = topology(
        r#"{"kind": "custom", "hosts": ["U", "V", "W", "X"], "switches": [{"name": "S", "ports": 4}],
            "link_rate": "8 Gbit/s", "link_delay": "500 ns",
            "links": [{"from": "U", "to": "S:1"}, {"from": "V", "to": "S:2", "rate": "80 Mbit/s"},
                      {"from": "W", "to": "S:3"}, {"from": "X", "to": "S:4"}]}"#,
    );
    let mut config = config(us(90));
    config.measure.interval = us(10);
    config.packet.mtu = Bytes(1_000);
    config.packet.credit_block = Bytes(1);
    config.switch.latency = Time::from_ns(100);
    config.switch.buffer = Bytes(60_000);
    let one = |from, to, start| Flow { total: Some(Bytes(1_000)), start, ..flow(from, to) };
    config.flows = vec![
        Flow { start: us(20), ..flow("U", "V") },
        one("W", "V", Time::ZERO),
        // This packet starts to leave the switch for U one picosecond before U's 21st packet is stored.
        one("X", "U", Time(39_999_999)),
    ];
    (topology, config)
}

/// The frame starts at most a packet of 1000 ns, less 1 ps, after the packet that exceeds the threshold was
/// stored, takes 84 ns and 500 ns to arrive, and 816.002 ns to take effect. The packet had started 600 ns
/// before it was stored. A packet may therefore start 3000 ns later: the fourth one.
const HEADROOM: u64 = 4_000;

fn pfc(xoff: Option<u64>, headroom: Option<u64>) -> Pfc {
    Pfc {
        xoff: xoff.map(Bytes),
        headroom: headroom.map(Bytes),
        response_time: Time(816_002),
        ..Pfc::default()
    }
}

#[test]
fn the_headroom_is_exact() {
    let (topology, mut config) = blocked();
    let mut with = |xoff, headroom| {
        config.flow_control = FlowControl::Pfc(pfc(xoff, headroom));
        try_run(&topology, &config)
    };
    // The derived headroom permits no higher threshold than this one.
    assert!(with(Some(60_000 - HEADROOM), None).is_ok());
    let error = with(Some(60_001 - HEADROOM), None).unwrap_err().to_string();
    let expected = "flow_control.xoff = 56.001 KB: the receiver of a link of 8 Gbit/s with a delay of 500 ns has 60000 \
                    bytes for a virtual lane, but needs 4000 above the threshold";
    assert!(error.starts_with(expected), "{error}");
    assert!(with(Some(20_000), None).is_ok());
    assert!(with(Some(20_000), Some(HEADROOM)).is_ok());
    let lacks = with(Some(20_000), Some(HEADROOM - 1)).unwrap_err();
    assert_eq!(
        lacks.to_string(),
        "buffer overflow at 43.6 us: the receiver of U->S:1 lacks 1 B for a packet on VL 0, because the headroom of the \
         lane is only 3999 B; increase flow_control.headroom, or leave it out"
    );
    // With a threshold that is one byte lower, the same packets fit.
    assert!(with(Some(19_999), Some(HEADROOM)).is_ok());
}

/// A store-and-forward switch stores a packet 1000 ns later. The packet of X, which also takes 1000 ns longer, again starts
/// to leave one picosecond before.
#[test]
fn the_headroom_of_stored_packets_is_exact() {
    let (topology, mut config) = blocked();
    config.switch.forwarding = ForwardingMode::StoreAndForward;
    let mut with = |xoff, headroom| {
        config.flow_control = FlowControl::Pfc(pfc(xoff, headroom));
        try_run(&topology, &config)
    };
    let headroom = HEADROOM + 1_000;
    assert!(with(Some(60_000 - headroom), None).is_ok());
    let error = with(Some(60_001 - headroom), None).unwrap_err().to_string();
    assert!(error.contains("but needs 5000 above the threshold"), "{error}");
    assert!(with(Some(20_000), Some(headroom)).is_ok());
    let lacks = with(Some(20_000), Some(headroom - 1)).unwrap_err().to_string();
    assert!(lacks.starts_with("buffer overflow at 45.6 us: the receiver of U->S:1 lacks 1 B"), "{lacks}");
}

#[test]
fn the_headroom_of_shared_memory_is_exact() {
    let (topology, mut config) = blocked();
    // The threshold of U is half of the free memory: 20,001 bytes when U uses 20,000, and W uses 1,000.
    let mut with = |headroom: Option<u64>, pool: Option<u64>| {
        let sum = pool.unwrap_or(4 * headroom.unwrap_or(HEADROOM));
        let shared = SharedMemory {
            memory: Some(Bytes(61_002 + sum)),
            alpha_shift: 1,
            reserve: Bytes(0),
            headroom_pool: pool.map(Bytes),
            ..SharedMemory::default()
        };
        config.flow_control =
            FlowControl::Pfc(Pfc { shared: Some(shared), watchdog: None, ..pfc(None, headroom) });
        try_run(&topology, &config)
    };
    // The headrooms of the links differ only at V, where a packet takes longer, so use that of U for all.
    assert!(with(Some(HEADROOM), None).is_ok());
    let lacks = with(Some(HEADROOM - 1), None).unwrap_err();
    assert!(lacks.to_string().contains("because the headroom of the lane is only 3999 B"), "{lacks}");
    assert!(matches!(lacks, ModelError::Overflow { .. }));
    assert!(with(Some(HEADROOM), Some(HEADROOM)).is_ok());
    let lacks = with(Some(HEADROOM), Some(HEADROOM - 1)).unwrap_err().to_string();
    assert!(
        lacks.ends_with(
            "lacks 1 B for a packet on VL 0, because the headroom of all lanes of the switch is only 3999 B; increase \
             flow_control.shared.headroom_pool, or leave it out"
        ),
        "{lacks}"
    );
}

/// The link of U has a quarter of its rate at two times. The first is when the packet of X starts, which then
/// takes 4000 ns. The second is when the frame starts behind it. The frame takes 336 ns and 500 ns to arrive,
/// and 564.002 ns to take effect. The usual rate applies to U, which therefore starts a packet every 1000 ns
/// from 40 us to 46 us, the last one a picosecond before the effect.
#[test]
fn the_headroom_is_exact_if_the_rate_of_the_link_changes() {
    let (topology, mut config) = blocked();
    let quarter = |ps| {
        let rate = Some(Rate::from_gbit(2));
        Event { rate, ..event(EventKind::Rate, "U", Time(ps), Time(2)) }
    };
    config.events = [40_599_999, 44_599_998].map(quarter).to_vec();
    let needed = 7_000;
    let mut with = |xoff, headroom: Option<u64>| {
        let response_time = Time(564_002);
        config.flow_control = FlowControl::Pfc(Pfc { response_time, ..pfc(Some(xoff), headroom) });
        let memory = pause_memory(&topology, &tables(&topology), &config).unwrap().unwrap();
        assert_eq!(u64::from(memory.headroom.1), headroom.unwrap_or(needed));
        try_run(&topology, &config)
    };
    assert!(with(60_000 - needed, None).is_ok());
    assert!(with(60_001 - needed, None).is_err());
    assert!(with(20_000, Some(needed)).is_ok());
    assert!(with(19_999, Some(needed - 1)).is_ok());
    let lacks = with(20_000, Some(needed - 1)).unwrap_err();
    assert!(matches!(lacks, ModelError::Overflow { .. }), "{lacks}");
}

/// U sends messages of one byte without gaps, each of which occupies a block of 64 bytes. With full packets
/// alone, the headroom would be 4096 bytes.
#[test]
fn the_headroom_holds_the_small_messages_of_lists_and_distributions() {
    let (topology, mut config) = blocked();
    config.packet.credit_block = Bytes(64);
    config.switch.buffer = Bytes(400_000);
    (config.host.buffer, config.host.drain_rate) = (Bytes(400_000), None);
    config.flow_control = FlowControl::Pfc(pfc(Some(20_000), None));
    config.flows.remove(0);
    // As in `blocked`, 3000 bytes may follow, and U is at port 1.
    let headroom = |config: &Config| {
        let memory = pause_memory(&topology, &tables(&topology), config).unwrap().unwrap();
        memory.headroom.1
    };
    assert_eq!(headroom(&config), 1_024 + (3_000_u32 * 1_024).div_ceil(1_000));
    let listed = ListedTransfer { from: 0, to: 1, bytes: 1, start: us(20), sl: 0 };
    let mut list = pattern(Pattern::Listed(Listed { file: "a.csv".to_owned(), starts_at: Time::ZERO }));
    list.hosts = Some(vec!["U".to_owned()]);
    list.loaded.transfers = Some(Arc::new(vec![listed; 10_000]));
    let mut drawn = pattern(Pattern::Hotspots { to: vec!["V".to_owned()] });
    drawn.hosts = Some(vec!["U".to_owned()]);
    drawn.start = us(20);
    drawn.sizes = Some(Sizes::File { file: "a.txt".to_owned() });
    // One message of a million is larger than a packet, so the mean is one byte more than that of the others.
    drawn.loaded.sizes = Some(Arc::new(Cdf::new(&[(1, 99.9999), (1_000_000, 100.0)]).unwrap()));
    for traffic in [list, drawn] {
        config.traffic = vec![traffic];
        assert_eq!(headroom(&config), 1_024 + 3_000 * 64);
        let outcome = try_run(&topology, &config).unwrap();
        let held = outcome.tables.iter().find(|table| table.name == "links").unwrap();
        let held = held.columns.iter().find(|column| column.name == "downstream_bytes").unwrap();
        let Values::U32(held) = &held.values else { panic!("no bytes") };
        let most = *held.iter().max().unwrap();
        assert!(most > 20_000 + 100_000, "the headroom is needed: {most} bytes");
    }
}

#[test]
fn a_frame_takes_time_on_the_link_and_effect_after_the_response_time() {
    let (topology, mut config) = blocked();
    config.flow_control = FlowControl::Pfc(pfc(Some(20_000), None));
    let frame_at = |outcome: &Outcome| (links(outcome), column(outcome, "first_ns"));
    // The packet is stored at 40.6 us. The frame waits for the packet of X, which started 1 ps earlier.
    let (link, first) = frame_at(&run(&topology, &config));
    assert_eq!(link, ["U->S:1"]);
    assert_near(first[0], 40_600.0 + 999.999 + 84.0 + 500.0 + 816.002, 1e-12, "the first pause");
    config.flows.pop();
    let outcome = run(&topology, &config);
    assert_near(frame_at(&outcome).1[0], 40_600.0 + 84.0 + 500.0 + 816.002, 1e-12, "the first pause");
    let sent = outcome.tables.iter().find(|table| table.name == "links").unwrap();
    let Values::Name { codes, names } = &sent.columns[1].values else { panic!("no names") };
    let Values::U64(bytes) = &sent.columns[2].values else { panic!("no bytes") };
    let back = codes.iter().zip(bytes).filter(|(code, _)| names[**code as usize] == "S:1->U");
    assert_eq!(back.map(|(_, bytes)| bytes).sum::<u64>(), 84, "one frame");
}

#[test]
fn only_the_lane_that_is_full_is_paused() {
    let (topology, mut config) = blocked();
    config.lanes.count = 2;
    config.switch.buffer = Bytes(120_000);
    config.flow_control = FlowControl::Pfc(pfc(Some(20_000), None));
    config.flows.push(Flow { sl: 1, ..flow("U", "X") });
    let outcome = run(&topology, &config);
    assert_eq!((links(&outcome), column(&outcome, "vl")), (vec!["U->S:1".to_owned()], vec![0.0]));
    let pauses = outcome.summary.pauses.as_ref().unwrap();
    assert_eq!((pauses.lanes, pauses.pause_frames), (1, 1));
    assert_eq!(pauses.longest_link.as_deref(), Some("U->S:1"));
    assert_eq!(pauses.paused_ns, column(&outcome, "paused_ns")[0]);
    // Until the pause, each lane has half of the link. Lane 1 then has all of it.
    let first = column(&outcome, "first_ns")[0];
    let rate = rates(&outcome)[3];
    assert_near(rate, 8.0 * (90_000.0 - (first - 20_000.0) / 2.0) / 90_000.0, 0.05, "the other lane");
}

#[test]
fn the_watchdog_warns_or_stops() {
    let (topology, mut config) = blocked();
    let mut with = |limit, watchdog_action| {
        let limits = Pfc { watchdog: Some(limit), watchdog_action, ..pfc(Some(20_000), None) };
        config.flow_control = FlowControl::Pfc(limits);
        try_run(&topology, &config)
    };
    let warned = with(us(30), WatchdogAction::Warn).unwrap();
    let since = column(&warned, "first_ns")[0];
    let longest = Time((90e6 - since * 1e3).round() as u64);
    assert_eq!(column(&warned, "longest_ns"), [longest.0 as f64 / 1e3], "a pause that has not ended counts");
    let warning = format!("Pause watchdog: U->S:1 (VL 0) was paused for {longest} without interruption.");
    assert!(warned.warnings.contains(&warning), "{:?}", warned.warnings);
    let stopped = with(us(30), WatchdogAction::Stop).unwrap_err();
    let begin = Time((since * 1e3).round() as u64);
    let expected = format!(
        "pause watchdog at {}: U->S:1 is paused on VL 0 since {begin}, and flow_control.watchdog is 30 us",
        begin + us(30)
    );
    assert_eq!(stopped.to_string(), expected);
    for action in [WatchdogAction::Warn, WatchdogAction::Stop] {
        let quiet = with(us(50), action).unwrap();
        assert!(!quiet.warnings.iter().any(|warning| warning.starts_with("Pause watchdog")));
    }
}

/// The watchdog ends the run with the same error for all sampling intervals, schedulers and numbers of
/// threads. It does so even if the pause, which lasts for less than 300 us, has ended before the next sample.
#[test]
fn the_watchdog_stops_the_run_when_the_time_is_up() {
    let stopped = |interval, threads, scheduler| {
        let (topology, mut config) = blocked();
        let limits =
            Pfc { watchdog: Some(us(20)), watchdog_action: WatchdogAction::Stop, ..pfc(Some(20_000), None) };
        config.flow_control = FlowControl::Pfc(limits);
        (config.measure.interval, config.duration, config.threads) = (interval, us(400), threads);
        let tables = tables(&topology);
        config.scheduler = scheduler;
        let mut simulation = Simulation::new(&topology, &tables, &config).unwrap();
        loop {
            match simulation.advance(1_000) {
                Ok(progress) => assert!(!progress.done, "the run ends"),
                Err(error) => break error.to_string(),
            }
        }
    };
    let expected = stopped(Time::from_ns(100), 1, Scheduler::EventOrdered);
    for interval in [Time(1_234_567), us(1), us(10), us(100), us(400)] {
        for threads in [1, 2, 3] {
            for scheduler in [Scheduler::EventOrdered, Scheduler::BinnedIfPossible] {
                assert_eq!(stopped(interval, threads, scheduler), expected, "{interval}, {threads} threads");
            }
        }
    }
}

#[test]
fn the_parking_lot_is_the_same_as_with_credits() {
    let (topology, mut config) = testbed(us(4_000));
    config.warmup = us(1_000);
    config.switch.arbitration = Some(Arbitration::RoundRobin);
    let credits = rates(&run(&topology, &config));
    for shared in [None, Some(SharedMemory { alpha_shift: 0, ..SharedMemory::default() })] {
        config.flow_control = FlowControl::Pfc(Pfc { shared, ..Pfc::default() });
        let paused = rates(&run(&topology, &config));
        for (with, without) in paused.iter().zip(&credits) {
            assert_near(*with, *without, 0.03, "rate of a flow");
        }
    }
}

/// With n inputs that share memory B above their reserves, k of which send to one output, each of them is
/// paused near the steady threshold T = a B / (1 + k a).
#[test]
fn incast_fills_shared_memory_to_the_steady_threshold() {
    const B: u64 = 900_000;
    for (shift, senders) in [(0, 4), (2, 4), (3, 8)] {
        let topology = topology(&format!(
            r#"{{"kind": "star", "hosts": {}, "link_rate": "8 Gbit/s", "link_delay": "100 ns"}}"#,
            senders + 1
        ));
        let mut config = config(us(4_000));
        config.packet.mtu = Bytes(500);
        config.packet.credit_block = Bytes(1);
        let headroom = 10_000;
        let shared = SharedMemory {
            memory: Some(Bytes(B + (headroom + 1_000) * (senders + 1))),
            alpha_shift: shift,
            reserve: Bytes(1_000),
            ..SharedMemory::default()
        };
        let headroom = Some(Bytes(headroom));
        config.flow_control = FlowControl::Pfc(Pfc { headroom, shared: Some(shared), ..Pfc::default() });
        config.flows = (2..=senders + 1).map(|host| flow(&format!("H{host}"), "H1")).collect();
        let outcome = run(&topology, &config);
        let a = 0.5f64.powi(shift.into());
        let law = a * B as f64 / (1.0 + senders as f64 * a) + 1_000.0;
        let table = outcome.tables.iter().find(|table| table.name == "links").unwrap();
        let Values::Name { codes, names } = &table.columns[1].values else { panic!("no names") };
        let held = table.columns.iter().find(|column| column.name == "downstream_bytes").unwrap();
        let Values::U32(held) = &held.values else { panic!("no bytes") };
        let last = codes.len() - names.len();
        for (code, held) in codes[last..].iter().zip(&held[last..]) {
            if names[*code as usize].starts_with("H2->") {
                // The tolerance covers the hysteresis and the packets on their way.
                let off = (f64::from(*held) - law).abs();
                assert!(off < 3_072.0 + 5.0 * 500.0 + 700.0, "{held} instead of {law}");
            }
        }
    }
}

#[test]
fn a_cycle_of_paused_lanes_is_a_deadlock() {
    let switches: Vec<String> =
        (1..=7).map(|switch| format!(r#"{{"name": "S{switch}", "ports": 3}}"#)).collect();
    let mut links = Vec::new();
    for at in 1..=7 {
        links.push(format!(r#"{{"from": "H{at}", "to": "S{at}:3"}}"#));
        links.push(format!(r#"{{"from": "S{at}:1", "to": "S{}:2"}}"#, at % 7 + 1));
    }
    let topology = topology(&format!(
        r#"{{"kind": "custom", "hosts": ["H1", "H2", "H3", "H4", "H5", "H6", "H7"], "switches": [{}], "links": [{}]}}"#,
        switches.join(","),
        links.join(",")
    ));
    let tables = serde_json::from_str::<RoutingSpec>(r#"{"kind": "shortest-path"}"#)
        .unwrap()
        .compute(&topology)
        .unwrap();
    let mut config = config(us(5_000));
    config.traffic = vec![pattern(Pattern::Shift { by: 3 })];
    for shared in [None, Some(SharedMemory::default())] {
        config.flow_control = FlowControl::Pfc(Pfc { shared, ..Pfc::default() });
        let error = run_with(&topology, &tables, &config).err();
        assert!(matches!(error, Some(ModelError::Deadlock { .. })), "{error:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    /// The derived headroom is always sufficient, and all packets arrive.
    #[test]
    fn all_packets_arrive_without_overflow(
        seed in prop::collection::vec(any::<u8>(), 40),
        (switches, hosts, lanes) in (1usize..5, 2usize..8, 1u8..4),
        (buffer, message) in (24_000u64..60_000, 1u64..9_000),
        (architecture, cc, block) in (0usize..3, any::<bool>(), any::<bool>()),
        (response, frame) in (0u64..2_000_000, 64u64..1_000),
        (is_shared, alpha_shift, reserve, resume_offset) in (any::<bool>(), -7i8..8, 0u64..4_000, 0u64..9_000),
        stores in any::<bool>(),
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
            if stores {
                config.switch.forwarding = ForwardingMode::StoreAndForward;
            }
            config.host.buffer = Bytes(60_000 * u64::from(lanes));
            config.packet.credit_block = Bytes(if block && message > 1_000 { 64 } else { 1 });
            let shared = is_shared.then(|| SharedMemory {
                memory: Some(Bytes(buffer * u64::from(lanes) * 24)),
                alpha_shift,
                alpha_by_rate: message % 2 == 0,
                reserve: Bytes(reserve),
                resume_offset: Bytes(resume_offset),
                headroom_pool: None,
            });
            config.flow_control = FlowControl::Pfc(Pfc {
                response_time: Time(response),
                frame: Bytes(frame),
                shared,
                ..Pfc::default()
            });
        });
        match outcome {
            Ok(outcome) => prop_assert_eq!(outcome.summary.packets_inside, 0),
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        }
    }
}
