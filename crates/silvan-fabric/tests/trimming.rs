//! Packet trimming: which packets are trimmed, that all payload arrives, and that threads and schedulers do
//! not change results.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::{config, flow, run, topology, us};
use silvan_congestion::marking::{Marking, Red};
use silvan_congestion::reaction::{Nscc, NsccRules, Rccc, Reaction};
use silvan_congestion::{AcknowledgeUnit, Congestion, Notification};
use silvan_engine::{Bytes, Rate, Time};
use silvan_fabric::config::{
    Arbitration, Architecture, Config, Delivery, Ecmp, Lanes, LinkConfig, LinkRetry, QueueOfRate, Scheduler,
    Spraying, Trimmed, Trimming,
};
use silvan_fabric::outcome::{Outcome, Values};
use silvan_fabric::queueing::{Memory, Queues};
use silvan_network::topology::Topology;
use silvan_network::traffic::Flow;

/// Hosts on one switch. Links carry 1 byte/ns and have a delay of 1 us.
fn star(hosts: usize) -> Topology {
    topology(&format!(
        r#"{{"kind": "star", "hosts": {hosts}, "link_rate": "8 Gbit/s", "link_delay": "1 us"}}"#
    ))
}

/// Switches without latency whose outputs have room for `queue` bytes on each lane, and packets of 1000
/// bytes.
fn trimming(duration: Time, queue: u64, which: Trimmed) -> Config {
    let mut config = config(duration);
    config.packet.mtu = Bytes(1_000);
    config.switch.latency = Time::ZERO;
    config.switch.arbitration = Some(Arbitration::Fcfs);
    config.switch.trimming =
        Some(Trimming { queue: Bytes(queue), rates: Vec::new(), size: Bytes(64), which: Some(which) });
    config.lanes = Lanes { count: 2, control: Some(1), control_priority: true, ..Lanes::default() };
    config.measure.interval = us(1);
    with(config, Notification::AckEach, Reaction::Nscc(Nscc::default()))
}

fn with(config: Config, notification: Notification, reaction: Reaction) -> Config {
    let (notification, reaction) = (Some(notification), Some(reaction));
    let congestion = Congestion { marking: Some(Marking::None), notification, reaction, ..config.congestion };
    Config { congestion, ..config }
}

/// A message from one host to another at time 0.
fn message(from: usize, to: usize, bytes: u64) -> Flow {
    let (message, total) = (Some(Bytes(bytes)), Some(Bytes(bytes)));
    Flow { message, total, ..flow(&format!("H{from}"), &format!("H{to}")) }
}

/// The time at which each flow was complete, in nanoseconds; `None` for unfinished flows.
fn completed(outcome: &Outcome) -> Vec<Option<u64>> {
    outcome.summary.flows.iter().map(|flow| flow.completed_ns).collect()
}

fn counts(outcome: &Outcome) -> (u64, u64) {
    let found = outcome.summary.trimming.as_ref().unwrap();
    (found.trimmed_packets, found.retransmitted_packets)
}

/// H1 and H2 send three packets each to H3. Times are in us; a packet takes 1 us and a header 0.064 us.
///
/// ```text
///  1      the first packets of both arrive; that of H1 leaves
///  2      the second packet of H1 fits behind the first one of H2; that of H2 does not. Its header leaves
///         before data
///  2.064  the first packet of H2 leaves, until 3.064
///  3      the third packet of H1 fits behind its second one; that of H2 does not
///  3.128  the second and the third packet of H1 leave after the header, and arrive at 5.128 and 6.128
/// ```
///
/// The headers arrive at 3.064 and 4.128. The acknowledgement of the packet that arrived just before delays
/// neither answer. The answers are at H2 2.064 us later. H2 sends its packets again at 5.128 and 6.192. Each
/// needs 3 us to H3.
#[test]
fn packets_that_do_not_fit_are_trimmed_and_sent_again() {
    let mut config = trimming(us(20), 2_000, Trimmed::Arriving);
    config.flows = vec![message(1, 3, 3_000), message(2, 3, 3_000)];
    let outcome = run(&star(3), &config);
    assert_eq!(counts(&outcome), (2, 2));
    assert_eq!(completed(&outcome), [Some(6_128), Some(9_192)]);
    let summary = &outcome.summary;
    assert_eq!((summary.packets_injected, summary.packets_delivered, summary.packets_inside), (8, 6, 0));
    assert_eq!(summary.trimming.as_ref().unwrap().most_header_bytes, 64);
    // Six packets, of which two are sent again after their payload was trimmed, and eight answers, each over
    // two links.
    assert_eq!(summary.packet_hops, 2 * 8 + 2 * 8);
    let table = outcome.tables.iter().find(|table| table.name == "trimming").unwrap();
    let Values::Name { codes, names } = &table.columns[0].values else { panic!("a name") };
    assert_eq!(codes.iter().map(|&code| names[code as usize].as_str()).collect::<Vec<_>>(), ["S1:3->H3"]);
    assert_eq!(table.columns[1].values, Values::U64(vec![2]));
}

/// With one packet per input, queues per input give the same result as one queue, because the turns of an
/// output follow the order of arrival.
#[test]
fn outputs_with_a_queue_per_input_trim_by_the_same_limit() {
    let mut config = trimming(us(20), 2_000, Trimmed::Arriving);
    config.switch.arbitration = Some(Arbitration::RoundRobin);
    config.flows = vec![message(1, 3, 3_000), message(2, 3, 3_000)];
    let outcome = run(&star(3), &config);
    assert_eq!(counts(&outcome), (2, 2));
    assert_eq!(completed(&outcome), [Some(6_128), Some(9_192)]);
}

/// Senders that wait for room in the buffer of link-level retry, not for credit, also send headers.
#[test]
fn headers_wait_for_the_retry_of_links() {
    use Architecture::{Cioq, Iq, Voq};
    let kinds = [
        (Voq, Queues::PerOutput, Arbitration::Fcfs),
        (Voq, Queues::PerOutput, Arbitration::RoundRobin),
        (Voq, Queues::Single, Arbitration::RoundRobin),
        (Iq, Queues::Single, Arbitration::RoundRobin),
        (Cioq, Queues::Single, Arbitration::RoundRobin),
    ];
    for (architecture, queues, arbitration) in kinds {
        let mut config = trimming(us(4_000), 2_999, Trimmed::Arriving);
        config.switch.arbitration = Some(arbitration);
        (config.switch.architecture, config.switch.queues) = (Some(architecture), Some(queues));
        let retry = LinkRetry { frames: 5, ack_spacing: Bytes(1), ..LinkRetry::default() };
        config.link = LinkConfig { error_rate_ppb: 0, retry: Some(retry) };
        let outcome = incast(5, 10_500, config);
        let what = format!("{architecture:?}, {queues:?}, {arbitration:?}");
        let inside = outcome.summary.packets_inside;
        assert!(
            completed(&outcome).iter().all(Option::is_some),
            "{what}: {:?}, {inside}, {:?}",
            completed(&outcome),
            counts(&outcome)
        );
        assert!(counts(&outcome).0 > 0, "{what}");
    }
}

/// VOQ switches, input-queued switches with one or several queues, and switches with buffers on both sides of
/// a crossbar.
#[test]
fn switches_of_all_architectures_trim() {
    use Architecture::{Cioq, Iq, Voq};
    use Queues::{DestinationModulo, PerOutput, Single};
    for (architecture, queues) in [
        (Voq, PerOutput),
        (Voq, Single),
        (Iq, Single),
        (Iq, DestinationModulo),
        (Cioq, Single),
        (Cioq, PerOutput),
    ] {
        let mut config = trimming(us(2_000), 2_999, Trimmed::Arriving);
        config.switch.arbitration = Some(Arbitration::RoundRobin);
        (config.switch.architecture, config.switch.queues) = (Some(architecture), Some(queues));
        config.switch.memory = Some(Memory::Shared);
        let of = |threads| incast(9, 20_500, Config { threads, ..config.clone() });
        let outcome = of(1);
        let what = format!("{architecture:?}, {queues:?}");
        assert!(completed(&outcome).iter().all(Option::is_some), "{what}: {:?}", completed(&outcome));
        let (trimmed, resent) = counts(&outcome);
        assert!(trimmed > 0 && trimmed == resent, "{what}: {trimmed}, {resent}");
        let links = outcome.tables.iter().find(|table| table.name == "links").unwrap();
        let column = links.columns.iter().find(|column| column.name == "queued_bytes").unwrap();
        let Values::U32(bytes) = &column.values else { panic!("bytes") };
        let most = u64::from(*bytes.iter().max().unwrap());
        let headers = outcome.summary.trimming.as_ref().unwrap().most_header_bytes;
        assert!((1_500..=2_999 + headers.max(64 * 8)).contains(&most), "{what}: {most}");
        assert_eq!(outcome, of(2), "{what}: two threads");
    }
}

#[test]
fn a_queue_with_enough_room_trims_nothing() {
    let mut config = trimming(us(20), 4_000, Trimmed::Arriving);
    config.flows = vec![message(1, 3, 3_000), message(2, 3, 3_000)];
    let outcome = run(&star(3), &config);
    assert_eq!(counts(&outcome), (0, 0));
    // The switch sends the last of six packets from 6 to 7 us.
    assert_eq!(completed(&outcome).into_iter().max().unwrap(), Some(8_000));
}

/// A run in which all hosts except H1 send a message of `bytes` to H1.
fn incast(hosts: usize, bytes: u64, config: Config) -> Outcome {
    let flows = (2..=hosts).map(|host| message(host, 1, bytes)).collect();
    run(&star(hosts), &Config { flows, ..config })
}

#[test]
fn all_payload_arrives_with_every_control_of_sources_and_receivers() {
    let both = Rccc { nscc: Some(Nscc::default()), ..Rccc::default() };
    let strict = Rccc { idle_credit: false, grant_packets: 1, ..Rccc::default() };
    let reactions = [
        (Notification::AckEach, Reaction::Nscc(Nscc::default())),
        (Notification::AckGrant, Reaction::Rccc(Rccc::default())),
        (Notification::AckGrant, Reaction::Rccc(both)),
        (Notification::AckGrant, Reaction::Rccc(strict)),
    ];
    for (notification, reaction) in reactions {
        for which in [Trimmed::Either, Trimmed::Arriving] {
            for bytes in [700, 1_000, 20_500] {
                let config = trimming(us(2_000), 2_500, which);
                let outcome = incast(9, bytes, with(config, notification, reaction.clone()));
                let what = format!("{notification:?}, {reaction:?}, {which:?}, {bytes}");
                assert!(completed(&outcome).iter().all(Option::is_some), "{what}");
                let (trimmed, resent) = counts(&outcome);
                assert!(trimmed > 0 && trimmed == resent, "{what}: {trimmed}, {resent}");
            }
        }
    }
}

#[test]
fn a_warning_names_outputs_that_send_little_but_headers() {
    let warnings = |rule| {
        let config = trimming(us(2_000), 150_000, Trimmed::Arriving);
        let nscc = Nscc { rule, ..Nscc::default() };
        let mut config = with(config, Notification::AckEach, Reaction::Nscc(nscc));
        let small = |from: usize| Flow { message: Some(Bytes(100)), ..flow(&format!("H{from}"), "H1") };
        config.packet.mtu = Bytes(4_096);
        config.flows = (2..=65).map(small).collect();
        run(&star(65), &config).warnings
    };
    let found = warnings(NsccRules::Htsim);
    assert!(found.iter().any(|warning| warning.contains("took the time of outputs")), "{found:?}");
    assert_eq!(warnings(NsccRules::Spec), Vec::<String>::new());
}

#[test]
fn a_queue_never_exceeds_its_limit() {
    for which in [Trimmed::Either, Trimmed::Arriving] {
        let outcome = incast(9, 20_500, trimming(us(500), 2_999, which));
        let links = outcome.tables.iter().find(|table| table.name == "links").unwrap();
        let column = links.columns.iter().find(|column| column.name == "queued_bytes").unwrap();
        let Values::U32(bytes) = &column.values else { panic!("bytes") };
        let headers = outcome.summary.trimming.as_ref().unwrap().most_header_bytes;
        let most = u64::from(*bytes.iter().max().unwrap());
        assert!((1_500..=2_999 + headers).contains(&most), "{most}, of which headers at most {headers}");
    }
}

/// If only the arriving packet is trimmed, a sender whose packets always arrive last delivers no payload.
/// With a random choice, such a sender delivers some.
#[test]
fn a_random_choice_treats_senders_alike() {
    let first = |which| {
        let mut config = trimming(us(8), 1_000, which);
        config.flows = vec![message(1, 3, 8_000), message(2, 3, 8_000)];
        let outcome = run(&star(3), &config);
        outcome.summary.flows.iter().map(|flow| flow.received_bytes).collect::<Vec<_>>()
    };
    assert_eq!(first(Trimmed::Arriving)[1], 0);
    assert!(first(Trimmed::Either)[1] > 0);
}

#[test]
fn threads_and_schedulers_do_not_matter() {
    let tree = topology(
        r#"{"kind": "three-level-fat-tree", "radix": 4, "link_rate": "8 Gbit/s", "link_delay": "1 us"}"#,
    );
    let outcome = |threads, scheduler| {
        let mut config = trimming(us(400), 3_000, Trimmed::Either);
        (config.threads, config.scheduler) = (threads, scheduler);
        config.host.delivery = Delivery::OutOfOrder;
        config.ecmp = Some(Ecmp { spraying: Spraying::Mixed, values: 16, ..Ecmp::default() });
        let rccc = Rccc { nscc: Some(Nscc::default()), ..Rccc::default() };
        let mut config = with(config, Notification::AckGrant, Reaction::Rccc(rccc));
        let red = Red { min: Bytes(500), max: Bytes(2_500), percent: 100, ..Red::default() };
        config.congestion.marking = Some(Marking::Red(red));
        config.flows = (2..=16).map(|host| message(host, 1 + host % 3, 15_300)).collect();
        config.flows.retain(|flow| flow.from != flow.to);
        run(&tree, &config).regardless_of_scheduler()
    };
    let one = outcome(1, Scheduler::EventOrdered);
    assert!(counts(&one).0 > 50 && one.summary.fecn_marks > 0);
    assert!(completed(&one).iter().all(Option::is_some));
    for threads in [1, 2, 3] {
        for scheduler in [Scheduler::EventOrdered, Scheduler::Binned] {
            assert_eq!(one, outcome(threads, scheduler), "{threads} threads, {scheduler:?}");
        }
    }
}

/// Packets of H2, H3 and H4, which cross one switch each, reach an output at the same instant. The output has room for one,
/// which is that of the lowest input, regardless of the order in which a scheduler runs the switches.
#[test]
fn of_packets_of_one_instant_the_lowest_input_is_first() {
    for (inputs, first) in [([1, 2, 3], 0), ([2, 1, 3], 1), ([2, 3, 1], 2), ([3, 2, 1], 2), ([3, 1, 2], 1)] {
        let link = |from: &str, to: &str| {
            format!(r#"{{"from": "{from}", "to": "{to}", "rate": "8 Gbit/s", "delay": "1 us"}}"#)
        };
        let mut links = vec![link("H1", "L:4")];
        for ((host, switch), input) in [("H2", "A"), ("H3", "B"), ("H4", "C")].into_iter().zip(inputs) {
            links.push(link(host, &format!("{switch}:1")));
            links.push(link(&format!("{switch}:2"), &format!("L:{input}")));
        }
        let switch = |name: &str, ports: u32| format!(r#"{{"name": "{name}", "ports": {ports}}}"#);
        let switches = [switch("B", 2), switch("L", 4), switch("A", 2), switch("C", 2)].join(", ");
        let network = topology(&format!(
            r#"{{"kind": "custom", "hosts": ["H1", "H2", "H3", "H4"], "switches": [{switches}], "links": [{}]}}"#,
            links.join(", ")
        ));
        let mut config = trimming(us(30), 1_500, Trimmed::Arriving);
        config.switch.arbitration = Some(Arbitration::RoundRobin);
        config.switch.memory = Some(Memory::Shared);
        config.flows = (2..5).map(|from| message(from, 1, 1_000)).collect();
        let done = [Scheduler::EventOrdered, Scheduler::Binned]
            .map(|scheduler| completed(&run(&network, &Config { scheduler, ..config.clone() })));
        assert_eq!(done[0], done[1], "{inputs:?}");
        let earliest = done[0].iter().enumerate().min_by_key(|(_, time)| time.unwrap()).unwrap().0;
        assert_eq!(earliest, first, "{inputs:?}: {:?}", done[0]);
    }
}

/// A queue limit for the rate of the links replaces the general limit: the results equal those of a run with
/// the same limit for all rates.
#[test]
fn a_rate_may_have_a_queue_of_its_own() {
    let of = |queue, own: &[u64]| {
        let mut config = trimming(us(500), queue, Trimmed::Either);
        let rates =
            own.iter().map(|&queue| QueueOfRate { rate: Rate::from_gbit(8), queue: Bytes(queue) }).collect();
        if let Some(trimming) = &mut config.switch.trimming {
            trimming.rates = rates;
        }
        let outcome = incast(9, 20_500, config);
        (completed(&outcome), counts(&outcome))
    };
    assert_eq!(of(9_000, &[2_999]), of(2_999, &[]));
    assert_ne!(of(9_000, &[2_999]), of(9_000, &[]));
    assert_eq!(of(9_000, &[9_000]), of(9_000, &[]));
}

/// With a unit of one byte, each packet is acknowledged, and with larger units, fewer acknowledgements are
/// sent. All messages arrive, although no packet follows the last one that an acknowledgement must cover.
#[test]
fn acknowledgements_of_several_packets_complete_all_messages() {
    for (notification, reaction) in [
        (Notification::AckEach, Reaction::Nscc(Nscc::default())),
        (Notification::AckGrant, Reaction::Rccc(Rccc::default())),
        (Notification::AckGrant, Reaction::Rccc(Rccc { nscc: Some(Nscc::default()), ..Rccc::default() })),
    ] {
        let of = |bytes: Option<u64>| {
            let mut config =
                with(trimming(us(2_000), 2_999, Trimmed::Either), notification, reaction.clone());
            config.congestion.marking = Some(Marking::Red(Red { max: Bytes(9_000), ..Red::default() }));
            config.congestion.acknowledge =
                bytes.map(|bytes| AcknowledgeUnit { bytes: Bytes(bytes), ..AcknowledgeUnit::default() });
            let outcome = incast(9, 120_500, config);
            assert!(completed(&outcome).iter().all(Option::is_some), "{bytes:?} {reaction:?}");
            (completed(&outcome), counts(&outcome), outcome.summary.packet_hops)
        };
        let each = of(None);
        assert_eq!(of(Some(1)), each, "{reaction:?}");
        let many = of(Some(4_000));
        assert!(many.2 < each.2, "{reaction:?}: {} and {} hops", many.2, each.2);
    }
}
