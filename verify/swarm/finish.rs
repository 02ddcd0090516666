//! Checks that all generated traffic was delivered, in a scenario whose traffic has an end.

use silvan_engine::Time;
use silvan_fabric::outcome::{ClassSummary, Outcome, Values};
use silvan_network::traffic::{Arrivals, Flow, Pattern, Traffic};
use silvan_scenario::Scenario;

use crate::accounting::column;
use crate::variants::LONG_S;

/// Traffic that was not delivered, as sentences. Sources whose trigger never fires are ignored.
pub fn unfinished(scenario: &Scenario, outcome: &Outcome) -> Vec<String> {
    let (spec, summary) = (&scenario.spec, &outcome.summary);
    let mut found = Vec::new();
    if headers_use_a_link_alone(scenario, outcome) {
        return found;
    }
    if summary.packets_inside > 0 && !may_repeat_longer(scenario) {
        found.push(format!("{} packets never leave the network", summary.packets_inside));
    }
    if needs_longer(scenario, outcome) || may_repeat_longer(scenario) {
        return found;
    }
    // Results contain the whole nanoseconds of the time at which a trigger fired.
    let started = |class: &str, start: Time| {
        let (first, last) = match summary.triggers.iter().find(|trigger| trigger.class == class) {
            Some(trigger) => trigger.started_ns.map(|ns| (ns * 1_000, ns * 1_000 + 999))?,
            None => (0, 0),
        };
        Some((start.0.max(first), start.0.max(last)))
    };
    for (flow, result) in spec.flow.iter().zip(&summary.flows) {
        let Some(start) = started(&result.flow, flow.start) else { continue };
        if let Some(what) = of_flow(flow, start, scenario, result.received_bytes) {
            found.push(format!("flow {}: {what}", result.flow));
        }
    }
    let mut classes = summary.classes.iter().skip(spec.flow.len());
    let hosts = summary.hosts.len();
    for traffic in &spec.traffic {
        if matches!(traffic.pattern, Pattern::Forest(_)) {
            // A forest has a class for each role. Only whole messages can be checked.
            break;
        }
        let Some(class) = classes.next() else { break };
        let Some(start) = started(&class.class, traffic.start) else { continue };
        let names: Vec<&str> = summary.hosts.iter().map(|host| host.host.as_str()).collect();
        debug_assert_eq!(names.len(), hosts);
        if let Some(what) = of_pattern(traffic, start, scenario, (class, &names)) {
            found.push(format!("{}: {what}", class.class));
        }
    }
    found
}

/// Whether flows may still be throttled at the end of a run whose length is limited: reactions without a
/// limit (delays that grow with each mark, MVCM's waiting slots) can take any time.
fn needs_longer(scenario: &Scenario, outcome: &Outcome) -> bool {
    let network = outcome.tables.iter().find(|table| table.name == "network");
    let throttled = network.and_then(|table| column(table, "throttled_flows"));
    let left =
        matches!(throttled, Some(Values::U32(counts)) if counts.last().is_some_and(|&count| count > 0));
    left && is_limited(scenario)
}

/// Whether links may still repeat lost packets at the end of a run whose length is limited: each loss costs a retry timer.
fn may_repeat_longer(scenario: &Scenario) -> bool {
    let spec = &scenario.spec;
    spec.link.retry.is_some() && is_limited(scenario)
}

/// Whether the headers of trimmed packets use all of the rate of a slow link, which they do if they precede data and
/// sources send again at once. The link then sends no data, and the same packets are trimmed again and again.
fn headers_use_a_link_alone(scenario: &Scenario, outcome: &Outcome) -> bool {
    let trimmed = outcome.summary.trimming.as_ref().map_or(0, |trimming| trimming.trimmed_packets);
    scenario.spec.lanes.control_priority && trimmed > 1_000 * outcome.summary.packets_delivered.max(1)
}

/// Whether a run ends before the longest time, because its hotspots move too often.
fn is_limited(scenario: &Scenario) -> bool {
    scenario.spec.duration.0 < LONG_S * 1_000_000_000_000
}

/// The least and the most messages of `bytes` bytes that a source may generate periodically to before `stop`, if it starts
/// between two times.
fn messages((first, last): (u64, u64), stop: u64, bytes: u64, rate: u64) -> (u64, u64) {
    let from = |start| {
        let span = u128::from(stop.saturating_sub(start));
        let count = span * u128::from(rate) / (u128::from(bytes) * 8_000_000_000_000);
        u64::try_from(count).unwrap_or(u64::MAX - 2)
    };
    (from(last).saturating_sub(1), from(first) + 2)
}

fn of_flow(flow: &Flow, start: (u64, u64), scenario: &Scenario, received: u64) -> Option<String> {
    let message = flow.message.unwrap_or(scenario.spec.packet.mtu).0;
    let total = flow.total.map_or(u64::MAX, |total| total.0);
    let Some(stop) = flow.stop else {
        return (received != total).then(|| format!("{received} of {total} bytes came"));
    };
    if received > total {
        return Some(format!("{received} bytes arrived, more than {total}"));
    }
    if received != total && !received.is_multiple_of(message) {
        return Some(format!(
            "{received} bytes arrived, which is not a whole number of messages of {message}"
        ));
    }
    let rate = flow.rate.filter(|_| flow.arrivals == Arrivals::Periodic)?;
    let (least, most) = messages(start, stop.0, message, rate.0);
    let of_total = |messages: u64| total.min(messages.saturating_mul(message));
    (received < of_total(least) || received > of_total(most))
        .then(|| format!("{received} bytes arrived of {least} to {most} messages of {message} bytes"))
}

fn of_pattern(
    traffic: &Traffic,
    start: (u64, u64),
    scenario: &Scenario,
    (class, names): (&ClassSummary, &[&str]),
) -> Option<String> {
    let spec = &scenario.spec;
    let senders = senders(traffic, names);
    let delivered = class.delivered_packets;
    if let Some(each) = traffic.packets_per_host {
        let most = each * senders;
        if delivered > most || (traffic.stop.is_none() && delivered != most) {
            return Some(format!("{delivered} of {most} packets came"));
        }
    }
    let message = traffic.message.unwrap_or(spec.packet.mtu).0;
    if traffic.packets_per_host.is_some() || traffic.message_max.is_some_and(|most| most.0 != message) {
        return None;
    }
    let packets = message.div_ceil(spec.packet.mtu.0);
    if !delivered.is_multiple_of(packets) {
        return Some(format!(
            "{delivered} packets arrived, which is not a whole number of messages of {packets}"
        ));
    }
    let rate = traffic.rate.filter(|_| traffic.arrivals == Arrivals::Periodic)?;
    let (least, most) = messages(start, traffic.stop?.0, message, rate.0);
    let each = senders * packets;
    (delivered < least.saturating_mul(each) || delivered > most.saturating_mul(each)).then(|| {
        format!("{delivered} packets arrived, but {senders} hosts sent {least} to {most} messages of {packets} each")
    })
}

/// Number of hosts that send, without those that would send only to themselves.
fn senders(traffic: &Traffic, names: &[&str]) -> u64 {
    let all: Vec<&str> = match &traffic.hosts {
        Some(hosts) => hosts.iter().map(String::as_str).collect(),
        None => names.to_vec(),
    };
    match &traffic.pattern {
        Pattern::Hotspots { to } => {
            all.iter().zip(to.iter().cycle()).filter(|(from, to)| *from != to).count() as u64
        }
        _ => all.len() as u64,
    }
}
