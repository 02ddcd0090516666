//! Store-and-forward switches: when packets leave and arrive, to the picosecond.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::sync::Arc;

use crate::common::*;
use silvan_congestion::receiver::Notification;
use silvan_engine::{Bytes, Rate, Time};
use silvan_fabric::RoundTrips;
use silvan_fabric::config::{Architecture, Config, ForwardingMode, Scheduler};
use silvan_fabric::faults::EventKind;
use silvan_fabric::outcome::{Outcome, Values};
use silvan_network::topology::Topology;
use silvan_network::traffic::{Flow, Job, QueuePairs, Sends};
use silvan_trace::execute::Parameters;
use silvan_trace::sequence::Sequence;
use silvan_trace::{Operation, TraceBuilder};

/// Bits per second and picoseconds of delay of a link.
type Line<'a> = &'a [(u64, u64)];

/// A - S1 - S2 - ... - B.
fn line(links: Line) -> Topology {
    let switches: Vec<String> =
        (1..links.len()).map(|at| format!(r#"{{"name": "S{at}", "ports": 2}}"#)).collect();
    let name = |at: usize, port: u32| match at {
        0 => "A".to_owned(),
        at if at == links.len() => "B".to_owned(),
        at => format!("S{at}:{port}"),
    };
    let link = |(at, (rate, delay)): (usize, &(u64, u64))| {
        let (from, to) = (name(at, 2), name(at + 1, 1));
        format!(r#"{{"from": "{from}", "to": "{to}", "rate": "{rate} bit/s", "delay": "{delay} ps"}}"#)
    };
    let links: Vec<String> = links.iter().enumerate().map(link).collect();
    topology(&format!(
        r#"{{"kind": "custom", "hosts": ["A", "B"], "switches": [{}], "links": [{}]}}"#,
        switches.join(", "),
        links.join(", ")
    ))
}

fn storing(duration: Time) -> Config {
    let mut config = config(duration);
    config.switch.forwarding = ForwardingMode::StoreAndForward;
    (config.packet.mtu, config.packet.header) = (Bytes(1_000), Bytes(0));
    config.measure.transfers = Some(true);
    config
}

/// A message of `bytes` bytes from A to B at the start of the run.
fn message(config: &mut Config, bytes: u64) {
    config.flows = vec![Flow { message: Some(Bytes(bytes)), total: Some(Bytes(bytes)), ..flow("A", "B") }];
}

/// The times in picoseconds of the only transfer, in a column.
fn time(outcome: &Outcome, name: &str) -> u64 {
    let table = outcome.tables.iter().find(|table| table.name == "transfers").unwrap();
    let Values::F64(values) = &table.columns.iter().find(|column| column.name == name).unwrap().values else {
        panic!("{name} has no numbers");
    };
    assert_eq!(values.len(), 1);
    (values[0] * 1_000.0).round() as u64
}

/// Picoseconds of a number of bytes at a rate.
fn span(bytes: u64, rate: u64) -> u64 {
    Rate(rate).pace().time(bytes as u32).0
}

/// Links of one rate, of increasing and decreasing rates, and of rates at which a byte takes no whole number of
/// picoseconds, with up to five switches.
const LINES: [Line; 6] = [
    &[(8_000_000_000, 100_000), (8_000_000_000, 3)],
    &[(100_000_000_000, 1_000_000), (400_000_000_000, 500_000), (100_000_000_000, 1)],
    &[(10_000_000_000, 7), (40_000_000_000, 11), (160_000_000_000, 13), (20_000_000_000, 17)],
    &[(54_540_000_000, 333), (7_000_000_000, 20_001), (13_000_000_000, 1)],
    &[(40_000_000_000, 1_000), (10_000_000_000, 1_000)],
    &[
        (7_000_000_000, 1),
        (7_000_000_000, 2),
        (7_000_000_000, 3),
        (7_000_000_000, 4),
        (7_000_000_000, 5),
        (7_000_000_000, 6),
    ],
];

/// Without other traffic, a packet takes the delay of each link, its transmission time on each link, and the latency of
/// each switch.
#[test]
fn a_packet_takes_its_transmission_time_on_each_link() {
    for links in LINES {
        for (bytes, latency) in [(1_000, 0), (1_000, 250_000), (1, 333), (777, 100_000)] {
            let mut config = storing(us(20));
            config.switch.latency = Time(latency);
            message(&mut config, bytes);
            let each = links.iter().map(|&(rate, delay)| delay + span(bytes, rate)).sum::<u64>();
            let expected = each + (links.len() as u64 - 1) * latency;
            for (name, outcome) in run_in_all_switches(&line(links), &config) {
                let found = (time(&outcome, "delivered_ns"), time(&outcome, "ideal_ns"));
                assert_eq!(found, (expected, expected), "{name}: {links:?}, {bytes} bytes, {latency} ps");
            }
        }
    }
}

/// Each of three packets starts on a link when it has been stored before that link, and the previous packet has left.
#[test]
fn packets_of_a_message_follow_each_other_through_stores() {
    for links in LINES {
        let latency = 250_000;
        let mut config = storing(us(40));
        config.switch.latency = Time(latency);
        message(&mut config, 2_100);
        let mut ready = [0; 3];
        let mut tails = [0; 3];
        for &(rate, delay) in links {
            let mut free = 0;
            for ((ready, tail), bytes) in ready.iter_mut().zip(&mut tails).zip([1_000, 1_000, 100]) {
                free = free.max(*ready) + span(bytes, rate);
                *tail = free + delay;
                *ready = *tail + latency;
            }
        }
        for (name, outcome) in run_in_all_switches(&line(links), &config) {
            assert_eq!(time(&outcome, "delivered_ns"), tails[2], "{name}: {links:?}");
            assert_eq!(time(&outcome, "ideal_ns"), tails[2], "{name}: {links:?}");
        }
    }
}

/// The credit of the first packet returns when it has been read. The second one starts then, and is stored 1,000 ns later.
#[test]
fn a_crossbar_reads_stored_packets() {
    let links: Line = &[(8_000_000_000, 1_000), (8_000_000_000, 1_000)];
    for gbit in [8, 16] {
        let mut config = storing(us(20));
        (config.switch.architecture, config.switch.latency) = (Some(Architecture::Iq), Time::ZERO);
        config.switch.crossbar = Some(Rate::from_gbit(gbit));
        // There is room for one packet.
        config.switch.buffer = Bytes(1_024);
        message(&mut config, 2_000);
        let outcome = run(&line(links), &config);
        let hop = span(1_000, 8_000_000_000) + 1_000;
        let credit = hop + span(1_000, gbit * 1_000_000_000) + 1_000;
        assert_eq!(time(&outcome, "delivered_ns"), credit + 2 * hop, "{gbit} Gbit/s");
    }
}

/// The packet is on the first link from 0 to 1,000 ns. Its tail has arrived after 1,100 ns, and is ready after 1,150 ns.
#[test]
fn a_packet_is_lost_if_its_link_is_down_before_its_tail_is_ready() {
    let links: Line = &[(8_000_000_000, 100_000), (8_000_000_000, 100_000)];
    let mut config = storing(us(20));
    config.switch.latency = Time::from_ns(50);
    message(&mut config, 1_000);
    let ready = Time::from_ns(1_150);
    for (start, lost) in [(Time::from_ns(160), 1), (ready.saturating_sub(Time(1)), 1), (ready, 0)] {
        config.events = vec![event(EventKind::Down, "S1:1", start, us(1))];
        for (name, outcome) in run_in_all_switches(&line(links), &config) {
            assert_eq!(outcome.summary.losses.unwrap().data_packets, lost, "{name}: {start}");
            assert_eq!(outcome.summary.packets_delivered, 1 - lost, "{name}: {start}");
        }
    }
}

/// The memory of a packet that was lost is free when its tail was ready.
#[test]
fn the_credit_of_a_lost_packet_returns_when_its_tail_was_ready() {
    let links: Line = &[(8_000_000_000, 100_000), (8_000_000_000, 100_000)];
    let mut config = storing(us(20));
    config.switch.latency = Time::from_ns(50);
    // There is room for one packet.
    config.switch.buffer = Bytes(1_024);
    message(&mut config, 2_000);
    config.events = vec![event(EventKind::Down, "S1:1", Time::from_ns(1_100), Time(1))];
    let kinds = [Architecture::Voq, Architecture::Iq, Architecture::Cioq];
    for (architecture, scheduler) in
        kinds.map(|kind| (kind, Scheduler::EventOrdered)).into_iter().chain([(kinds[0], Scheduler::Binned)])
    {
        (config.switch.architecture, config.scheduler) = (Some(architecture), scheduler);
        let outcome = run(&line(links), &config);
        assert_eq!(outcome.summary.losses.unwrap().data_packets, 1, "{architecture:?} {scheduler:?}");
        // The second packet starts at 1,150 + 100 ns.
        let latency = outcome.summary.latency.iter().find(|one| one.since == "generation").unwrap();
        assert_eq!((latency.count, latency.max_ns), (1, 1_250 + 2_250), "{architecture:?} {scheduler:?}");
    }
}

/// The round trip from which windows are derived is that of a packet and its acknowledgement.
#[test]
fn the_round_trip_contains_each_transmission() {
    for links in [LINES[0], LINES[5]] {
        let mut config = storing(us(40));
        config.packet.control = Bytes(64);
        config.congestion.notification = Some(Notification::AckEach);
        message(&mut config, 1_000);
        let topology = line(links);
        let trip = RoundTrips::new(&topology, &tables(&topology), &config).longest().shortest;
        let outcome = run(&topology, &config);
        assert_eq!((time(&outcome, "acked_ns"), time(&outcome, "ideal_acked_ns")), (trip.0, trip.0));
    }
}

/// The times of a message from one rank to another: measured, and on an ideal crossbar, in picoseconds.
fn message_of_job(links: Line, bytes: u64, injection_rate: Option<Rate>) -> (u64, u64) {
    let mut build = TraceBuilder::new(2, 1 << 12).unwrap();
    Sequence::new(0).blocking(&mut build, Operation::send(1, bytes, 0)).unwrap();
    Sequence::new(1).blocking(&mut build, Operation::recv(0, bytes, 0)).unwrap();
    let mut config = storing(us(40));
    config.measure.transfers = None;
    config.host.injection_rate = injection_rate;
    config.jobs = vec![Job {
        name: "job".into(),
        trace: Arc::new(build.finish().unwrap()),
        hosts: vec![0, 1],
        units: 0,
        ports: None,
        parameters: Parameters::default(),
        start: Time::ZERO,
        sends: Sends::default(),
        queue_pairs: QueuePairs::default(),
        memory_rate: None,
        sl: 0,
    }];
    let outcome = run(&line(links), &config);
    let job = &outcome.summary.jobs[0];
    let ps = |ns: f64| (ns * 1_000.0).round() as u64;
    (ps(job.finished_ns.unwrap()), ps(job.crossbar_ns))
}

/// The slowest link is at either end, or all links are alike.
#[test]
fn messages_of_jobs_take_what_an_ideal_crossbar_takes() {
    let (fast, slow) = ((16_000_000_000, 10_000), (8_000_000_000, 10_000));
    for links in [[fast, fast, fast], [fast, fast, slow], [slow, fast, fast]] {
        for packets in [1, 3] {
            let slowest = links.iter().map(|&(rate, _)| span(1_000, rate)).max().unwrap();
            let each = links.iter().map(|&(rate, delay)| span(1_000, rate) + delay).sum::<u64>();
            let expected = each + 200_000 + (packets - 1) * slowest;
            let found = message_of_job(&links, 1_000 * packets, None);
            assert_eq!(found, (expected, expected), "{links:?}, {packets} packets");
        }
    }
}

/// The host starts the second packet, of 100 bytes, 2,000 ns after the first one, which it does not meet any more.
#[test]
fn a_slow_host_separates_the_packets_of_a_job() {
    let links: Line = &[(16_000_000_000, 10_000); 3];
    let expected = 2_000_000 + 3 * (50_000 + 10_000) + 200_000;
    assert_eq!(message_of_job(links, 1_100, Some(Rate::from_gbit(4))), (expected, expected));
}

/// A packet is stored for longer than the usual ring of 256 bins covers.
#[test]
fn the_binned_scheduler_waits_for_large_packets_on_slow_links() {
    let mut config = storing(us(1_000));
    (config.packet.mtu, config.switch.latency) = (Bytes(32_768), Time::from_ns(100));
    (config.switch.buffer, config.host.buffer) = (Bytes(131_072), Bytes(131_072));
    config.scheduler = Scheduler::Binned;
    message(&mut config, 32_768);
    let links: Line = &[(2_000_000_000, 100_000_000); 3];
    let outcome = run(&line(links), &config);
    assert_eq!(time(&outcome, "delivered_ns"), 3 * (131_072_000 + 100_000_000) + 2 * 100_000);
}
