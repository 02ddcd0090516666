//! Quantized congestion notification at one bottleneck (IEEE 802.1Qau): the queue converges to its set
//! point, the link stays busy, and the sources share the link fairly in the long run.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::{self, config, flow, topology, us};
use silvan_congestion::marking::{Marking, Sampled};
use silvan_congestion::{Congestion, Feedback, Mechanism, Notification};
use silvan_engine::{Bytes, Time};
use silvan_fabric::config::Config;
use silvan_fabric::outcome::{Outcome, Values};

/// A network in which `sources` hosts send to one host at full rate, with 10 Gbit/s links and Ethernet
/// packets. The first 200 ms are warm-up.
fn bottleneck(sources: usize, duration: Time) -> (silvan_network::topology::Topology, Config) {
    let hosts = sources + 1;
    let topology = topology(&format!(r#"{{"kind": "star", "hosts": {hosts}, "link_rate": "10 Gbit/s"}}"#));
    let mut config = config(duration);
    config.packet.mtu = Bytes(1_500);
    config.warmup = us(200_000);
    config.measure.interval = us(100);
    config.switch.buffer = Bytes(256 * 1_024);
    config.congestion = Congestion { mechanism: Mechanism::Qcn, ..Congestion::default() };
    config.flows = (2..=hosts)
        .map(|host| {
            let flow = flow(&format!("H{host}"), "H1");
            silvan_network::traffic::Flow { start: us(host as u64 * 7_919 % 1_000), ..flow }
        })
        .collect();
    (topology, config)
}

fn rates(outcome: &Outcome) -> Vec<f64> {
    outcome.summary.flows.iter().map(|flow| flow.received_gbit_s).collect()
}

/// Bytes that wait for the link to H1 at the end of each sampling interval after the warm-up.
fn queue(outcome: &Outcome) -> Vec<f64> {
    let links = outcome.tables.iter().find(|table| table.name == "links").unwrap();
    let column = |name: &str| &links.columns.iter().find(|column| column.name == name).unwrap().values;
    let (Values::Name { codes, names }, Values::U32(bytes), Values::U64(times)) =
        (column("link"), column("queued_bytes"), column("time_ns"))
    else {
        panic!("the columns of `links` have other types");
    };
    let rows = codes.iter().zip(bytes).zip(times);
    rows.filter(|((code, _), time)| names[**code as usize] == "S1:1->H1" && **time > 200_000_000)
        .map(|((_, bytes), _)| f64::from(*bytes))
        .collect()
}

#[test]
fn the_queue_converges_to_its_set_point_and_the_link_stays_busy() {
    for sources in [2, 8, 32, 64] {
        let (topology, config) = bottleneck(sources, us(600_000));
        let outcome = common::run(&topology, &config);
        let sum: f64 = rates(&outcome).iter().sum();
        assert!(sum > 9.98, "{sources} sources send {sum} Gbit/s");
        let bytes = queue(&outcome);
        let mean = bytes.iter().sum::<f64>() / bytes.len() as f64;
        assert!((0.85 * 26_000.0..1.1 * 26_000.0).contains(&mean), "{sources} sources: {mean} bytes wait");
        let summary = &outcome.summary;
        assert!(summary.fecn_marks > 500 && summary.becn_received + 2 >= summary.fecn_marks);
    }
}

/// Rates diverge and converge again over several seconds. With more sources, fairness needs a longer
/// average (docs/questions/feedback.md uses ten seconds).
#[test]
fn sources_share_the_link_in_the_long_run() {
    let (topology, config) = bottleneck(2, us(4_000_000));
    let rates = rates(&common::run(&topology, &config));
    assert!(rates.iter().all(|rate| (4.5..5.5).contains(rate)), "{rates:?}");
}

/// Notifications from the switch arrive earlier than those that pass through the receiver.
#[test]
fn both_notifications_and_both_kinds_of_marks_limit_the_queue() {
    for (notification, feedback) in [
        (Notification::Backward, Feedback::Binary),
        (Notification::Cnp, Feedback::Binary),
        (Notification::Cnp, Feedback::Quantized),
    ] {
        let (topology, mut config) = bottleneck(4, us(400_000));
        config.congestion.notification = Some(notification);
        config.congestion.feedback = Some(feedback);
        config.congestion.marking = Some(Marking::Sampled(Sampled::default()));
        let outcome = common::run(&topology, &config);
        let bytes = queue(&outcome);
        let mean = bytes.iter().sum::<f64>() / bytes.len() as f64;
        // Without control, all buffers of the sources fill up: 4 x 256 KiB.
        assert!(mean < 100_000.0, "{notification:?}, {feedback:?}: {mean} bytes wait");
        assert!(
            rates(&outcome).iter().sum::<f64>() > 7.0,
            "{notification:?}, {feedback:?}: {:?}",
            rates(&outcome)
        );
    }
}
