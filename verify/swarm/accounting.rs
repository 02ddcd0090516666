//! Checks that the numbers of one run are consistent with each other.

use std::collections::HashMap;

use serde_json::Value as Json;
use silvan_congestion::isolation::Isolation;
use silvan_fabric::outcome::{Outcome, Table as Rows, Values};
use silvan_fabric::queueing::HostQueues;
use silvan_network::topology::{End, NodeRef, Topology};
use silvan_scenario::Scenario;

use crate::case::summary;

/// Receives failures: the name of the check, and a sentence.
type Fail<'f> = &'f mut dyn FnMut(&'static str, String);

/// Keys of the summary that may be null, if nothing was delivered, no message was completed, or no lane was
/// paused.
const OPTIONAL: [&str; 9] = [
    "completed_ns",
    "last_delivery_ns",
    "started_ns",
    "finished_ns",
    "slowdown",
    "message_slowdown_mean",
    "message_slowdown_p99",
    "longest_link",
    "longest_vl",
];
/// Columns whose values are missing if no packet was delivered.
const OF_PACKETS: [&str; 3] =
    ["mean_since_generation_ns", "mean_since_injection_ns", "max_since_generation_ns"];
/// Columns whose values may be missing, for example because an event has not happened.
const OF_EVENTS: [&str; 11] = [
    "left_ns",
    "delivered_ns",
    "start_ns",
    "end_ns",
    "crossbar_ns",
    "acked_ns",
    "ideal_acked_ns",
    "slowdown",
    "acked_slowdown",
    "recovered_ns",
    "victims",
];

/// Checks one run.
pub fn check(scenario: &Scenario, outcome: &Outcome, fail: Fail<'_>) {
    nan(&summary(outcome), "summary", fail);
    outcome.tables.iter().for_each(|table| nan_in_table(table, fail));
    sums(outcome, fail);
    logs(outcome, fail);
    latencies(outcome, fail);
    if let Ok((topology, _, _)) = scenario.build() {
        rates(scenario, &topology, outcome, fail);
    }
}

/// Checks that the congestion logs of switches count all marks, and contain the latest ones.
fn logs(outcome: &Outcome, fail: Fail<'_>) {
    let Some(logs) = &outcome.summary.congestion_log else { return };
    let events: u64 = logs.switches.iter().map(|switch| switch.events).sum();
    if events != outcome.summary.fecn_marks {
        fail("sums", format!("{events} events of switches and {} marks", outcome.summary.fecn_marks));
    }
    let listed = |name: &str| match named(outcome, name).and_then(|table| column(table, "sl")) {
        Some(Values::U32(levels)) => levels.len() as u64,
        _ => 0,
    };
    let kept: u64 = logs.switches.iter().map(|switch| switch.events.min(15)).sum();
    if listed("congestion_log_switches") != kept {
        fail("sums", format!("{} of {kept} events of switches", listed("congestion_log_switches")));
    }
    let kept: u64 = logs.hosts.iter().map(|host| host.events.min(13)).sum();
    if listed("congestion_log_hosts") != kept {
        fail("sums", format!("{} of {kept} events of hosts", listed("congestion_log_hosts")));
    }
}

/// Checks jobs that have all finished: all data has arrived, and no message was faster than possible, unless it may have moved to
/// ports that are nearer.
pub fn check_jobs(outcome: &Outcome, fail: Fail<'_>) {
    if let Some(table) = named(outcome, "ranks") {
        let sum = |name: &str| numbers(table, name).iter().sum::<u64>();
        let (sent, received) = (sum("sent_bytes"), sum("received_bytes"));
        if sent != received {
            fail("jobs", format!("{sent} bytes sent and {received} received"));
        }
    }
    let Some(table) = named(outcome, "messages") else { return };
    let times = |name: &str| match column(table, name) {
        Some(Values::F64(values)) => values.as_slice(),
        _ => &[],
    };
    let (handed, left) = (times("handed_ns"), times("left_ns"));
    let (there, alone) = (times("delivered_ns"), times("alone_ns"));
    let has_moved = outcome.summary.jobs.iter().any(|job| job.moved_bytes.is_some_and(|bytes| bytes > 0));
    for row in 0..handed.len() {
        // Allow for rounding of nanoseconds with many digits.
        let fine = (has_moved || there[row] - handed[row] >= alone[row] - 0.01)
            && handed[row] <= left[row]
            && left[row] <= there[row];
        if !fine {
            let times = [handed[row], left[row], there[row], alone[row]];
            fail("jobs", format!("message {row}: handed over, left, there, alone: {times:?} ns"));
            return;
        }
    }
}

fn nan(json: &Json, at: &str, fail: Fail<'_>) {
    match json {
        // JSON has no representation of NaN.
        Json::Null => fail("nan", format!("{at} is not a number")),
        Json::Object(keys) => {
            for (key, value) in
                keys.iter().filter(|(key, value)| !(value.is_null() && OPTIONAL.contains(&key.as_str())))
            {
                nan(value, &format!("{at}.{key}"), fail);
            }
        }
        Json::Array(values) => values.iter().for_each(|value| nan(value, at, fail)),
        _ => {}
    }
}

pub fn column<'t>(table: &'t Rows, name: &str) -> Option<&'t Values> {
    table.columns.iter().find(|column| column.name == name).map(|column| &column.values)
}

fn numbers<'t>(table: &'t Rows, name: &str) -> &'t [u64] {
    match column(table, name) {
        Some(Values::U64(values)) => values,
        _ => &[],
    }
}

fn named<'o>(outcome: &'o Outcome, name: &str) -> Option<&'o Rows> {
    outcome.tables.iter().find(|table| table.name == name)
}

fn nan_in_table(table: &Rows, fail: Fail<'_>) {
    let packets = numbers(table, "delivered_packets");
    for column in &table.columns {
        let Values::F64(values) = &column.values else { continue };
        let may_miss = OF_PACKETS.contains(&column.name);
        if OF_EVENTS.contains(&column.name) {
            continue;
        }
        let wrong = values.iter().enumerate().find(|(row, value)| {
            let missing = may_miss && value.is_nan() && packets.get(*row) == Some(&0);
            !(value.is_finite() || missing)
        });
        if let Some((row, value)) = wrong {
            fail("nan", format!("{}.{} is {value} in row {row}", table.name, column.name));
        }
    }
}

/// Compares quantities that are counted in several places.
fn sums(outcome: &Outcome, fail: Fail<'_>) {
    let summary = &outcome.summary;
    let mut equal = |what: &str, one: u64, two: u64| {
        if one != two {
            fail("sums", format!("{what}: {one} and {two}"));
        }
    };
    let of_classes: u64 = summary.classes.iter().map(|class| class.delivered_packets).sum();
    equal("packets delivered, by class", summary.packets_delivered, of_classes);
    let trimmed = summary.trimming.as_ref().map_or(0, |trimming| trimming.trimmed_packets);
    let losses = summary.losses.unwrap_or_default();
    let recovery = losses.recovery.unwrap_or_default();
    let gone = trimmed + losses.data_packets + recovery.discarded_packets;
    let balance = summary.packets_delivered + summary.packets_inside + gone;
    equal("packets injected, and delivered or in the network", summary.packets_injected, balance);
    let total = |table: &str, column: &str| {
        named(outcome, table).map_or(0, |table| numbers(table, column).iter().sum::<u64>())
    };
    equal("packets trimmed, by output", trimmed, total("trimming", "trimmed_packets"));
    equal("data packets lost, by link", losses.data_packets, total("losses", "data_packets"));
    equal("control packets lost, by link", losses.control_packets, total("losses", "control_packets"));
    let dropped = losses.dropped_packets.unwrap_or_default();
    equal("packets dropped, by link", dropped, total("losses", "dropped_packets"));
    let resent = summary.trimming.as_ref().map_or(0, |trimming| trimming.retransmitted_packets);
    let most = trimmed + recovery.resent_packets;
    equal("packets sent again, and trimmed or repeated", resent, resent.min(most));
    let received = total("network", "received_bytes");
    if named(outcome, "hosts").is_some_and(|table| !numbers(table, "time_ns").is_empty()) {
        equal("bytes received, by host", received, total("hosts", "received_bytes"));
    }
    let of_flows: u64 = summary.flows.iter().map(|flow| flow.received_bytes).sum();
    equal("bytes of flows, over time and in total", total("flows", "received_bytes"), of_flows);
    equal("notifications, over time and in total", total("network", "becn_received"), summary.becn_received);
    // The summary also counts marks at the end of the run, which belong to no sampling interval.
    let marks = total("network", "fecn_marks");
    equal("marks, over time and in total", marks, marks.min(summary.fecn_marks));
    for class in &summary.classes {
        if class.marked_packets > class.delivered_packets || class.validated_packets > class.marked_packets {
            equal(&format!("marked of {}", class.class), class.delivered_packets, class.marked_packets);
        }
    }
}

fn latencies(outcome: &Outcome, fail: Fail<'_>) {
    for latency in &outcome.summary.latency {
        let sorted = latency.p50_ns <= latency.p99_ns && latency.p99_ns <= latency.max_ns;
        let mean = latency.mean_ns <= latency.max_ns as f64 + 1.0;
        if !(sorted && mean) {
            fail("latency", format!("{} since {} is out of order", latency.class, latency.since));
        }
    }
}

/// Rates of directed links, by their names in results.
fn link_rates(topology: &Topology) -> HashMap<String, u64> {
    let name = |end: End| match end.node {
        NodeRef::Host(_) => topology.name_of(end.node).to_string(),
        NodeRef::Switch(_) => format!("{}:{}", topology.name_of(end.node), end.port),
    };
    let channels = topology.links.iter().flat_map(|link| link.channels().map(|ends| (ends, link.rate.0)));
    channels.map(|((from, to), rate)| (format!("{}->{}", name(from), name(to)), rate)).collect()
}

/// Checks that no link or host carries more than its rate plus the packet in transmission.
fn rates(scenario: &Scenario, topology: &Topology, outcome: &Outcome, fail: Fail<'_>) {
    let spec = &scenario.spec;
    let full = (spec.packet.mtu.0 + spec.packet.header.0).max(spec.packet.control.0);
    let links = link_rates(topology);
    let mut hosts: HashMap<String, (u64, u64)> = HashMap::new();
    for (name, rate) in &links {
        let Some((from, to)) = name.split_once("->") else { continue };
        hosts.entry(from.to_owned()).or_default().0 += rate;
        hosts.entry(to.to_owned()).or_default().1 += rate;
    }
    // Packets that have passed the injection limit may wait in a buffer and then leave at the rate of the
    // link.
    let special = spec.congestion.components(&spec.packet).isolation != Isolation::None;
    let has_buffer = spec.host.queues.map_or(special, |queues| queues != HostQueues::None);
    let injection = spec.host.injection_rate.filter(|_| !has_buffer).map_or(u64::MAX, |rate| rate.0);
    if let Some(table) = named(outcome, "links") {
        let rate = |name: &str| links.get(name).copied().unwrap_or(0);
        bounded(table, "link", "sent_bytes", full, &rate, fail);
        if let Some(Values::F64(values)) = column(table, "utilisation")
            && let Some(most) = values.iter().copied().reduce(f64::max)
            && most > 1.0 + 1e-9
        {
            fail("utilisation", format!("a link's utilisation is {most}"));
        }
    }
    if let Some(table) = named(outcome, "hosts") {
        let sent = |name: &str| hosts.get(name).map_or(0, |rates| rates.0.min(injection));
        bounded(table, "host", "sent_bytes", full, &sent, fail);
        let drain = spec.host.drain_rate.map_or(u64::MAX, |rate| rate.0);
        let received = |name: &str| hosts.get(name).map_or(0, |rates| rates.1.min(drain));
        // Packets that waited for an earlier packet are delivered at the same time.
        let held = outcome.summary.reordering.as_ref().map_or(0, |found| found.most_held_bytes);
        bounded(table, "host", "received_bytes", full + held, &received, fail);
    }
}

fn bounded(table: &Rows, key: &str, bytes: &str, full: u64, rate: &dyn Fn(&str) -> u64, fail: Fail<'_>) {
    let Some(Values::Name { codes, names }) = column(table, key) else { return };
    let times = numbers(table, "time_ns");
    let (mut now, mut before) = (0, 0);
    for ((time, code), bytes_of_row) in times.iter().zip(codes).zip(numbers(table, bytes)) {
        if *time != now {
            (before, now) = (now, *time);
        }
        let name = &names[*code as usize];
        // Times are truncated to whole nanoseconds.
        let most =
            u128::from(rate(name)) * u128::from(now - before + 1) / 8_000_000_000 + u128::from(full) + 1;
        if u128::from(*bytes_of_row) > most {
            return fail(
                "rates",
                format!("{name}: {bytes} = {bytes_of_row} by {now} ns, at most {most} fit"),
            );
        }
    }
}
