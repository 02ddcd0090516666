//! Checks values against each other and against the limits of the model, as far as these do not
//! depend on the network; [`crate::network`] checks the rest.

use silvan_congestion::isolation::Isolation;
use silvan_congestion::reaction::Reaction;
use silvan_engine::{Bytes, Rate, Time};
use silvan_fabric::config::{Arbitration, Architecture, Assignment, FlowControl, Lanes, Packet, RoutePer};
use silvan_fabric::lane_tables::VlArbitration;
use silvan_fabric::queueing::{HostQueues, Memory, Queues};
use silvan_network::routing::RoutingSpec;
use silvan_network::topology::is_visible;
use silvan_network::traffic::forest::MOST_HOTSPOTS;
use silvan_network::traffic::{Arrivals, Forest, LARGEST_MESSAGE, Pattern, Traffic};

use crate::error::Fault;
use crate::jobs;
use crate::ports;
use crate::reduction;
use crate::spec::{RoutingSource, Spec};

mod adaptive;
mod congestion;
mod ecmp;
mod events;
pub(crate) mod flow_control;
mod link;
mod sources;
pub(crate) mod trimming;

/// The longest run, one hour of simulated time.
pub const LONGEST: Time = Time(3_600 * 1_000_000_000_000);
/// The longest single delay (switch latency, message overhead, injection rate delay).
const LONGEST_DELAY: Time = Time(1_000_000_000_000);
/// The largest buffer of a port.
const LARGEST_BUFFER: Bytes = Bytes(1 << 30);
/// Below this rate, the time of a large message would not fit the clock.
const SLOWEST: Rate = Rate(1_000);
type Check = Result<(), Fault>;

/// Fails with the message `what` unless `fine` is true.
pub(crate) fn ensure(fine: bool, path: &str, what: impl FnOnce() -> String) -> Check {
    if fine { Ok(()) } else { Err(Fault::new(path, what())) }
}

/// Runs all checks that do not depend on the network.
pub(crate) fn check(spec: &Spec) -> Check {
    names(spec)?;
    ensure(spec.duration > Time::ZERO && spec.duration <= LONGEST, "duration", || {
        "must be more than 0 s and at most 3600 s".to_owned()
    })?;
    ensure(spec.warmup < spec.duration, "warmup", || {
        format!("must be less than the duration, {}", spec.duration)
    })?;
    packet(&spec.packet)?;
    lanes(spec)?;
    switch(spec)?;
    host(spec)?;
    trimming::check(spec)?;
    congestion::check(spec)?;
    adaptive::check(spec)?;
    ecmp::check(spec)?;
    flow_control::check(spec)?;
    link::check(spec)?;
    events::check(spec)?;
    flows(spec)?;
    for (index, traffic) in spec.traffic.iter().enumerate() {
        check_traffic(traffic, spec, &format!("traffic.{index}"))?;
        sources::check(traffic, spec, &format!("traffic.{index}"))?;
    }
    jobs::check(spec)?;
    reduction::check(spec)?;
    ports::check(spec)?;
    ensure(spec.end_with_jobs || !spec.job.is_empty(), "end_with_jobs", || {
        "has no effect without a [[job]]".to_owned()
    })?;
    let sends =
        !spec.flow.is_empty() || !spec.traffic.is_empty() || !spec.job.is_empty() || spec.external.is_some();
    ensure(sends, "", || "no host sends: add at least one [[flow]], [[traffic]] or [[job]]".to_owned())?;
    delay("measure.interval", spec.measure.interval, LONGEST)?;
    ensure(spec.measure.interval > Time::ZERO, "measure.interval", || "must be more than 0 s".to_owned())
}

/// Checks that names can be shown anywhere: on a terminal, in a table, in a figure.
fn names(spec: &Spec) -> Check {
    let of = |list: &str, index: usize| format!("{list}.{index}.name");
    let all = std::iter::once(("name".to_owned(), &spec.name))
        .chain(spec.flow.iter().enumerate().map(|(index, flow)| (of("flow", index), &flow.name)))
        .chain(spec.traffic.iter().enumerate().map(|(index, traffic)| (of("traffic", index), &traffic.name)))
        .chain(spec.job.iter().enumerate().map(|(index, job)| (of("job", index), &job.name)))
        .chain(spec.event.iter().enumerate().map(|(index, event)| (of("event", index), &event.name)));
    let of_external = spec.external.as_ref().map(|external| Some(external.name.clone()));
    let all = all.chain(of_external.iter().map(|name| ("external.name".to_owned(), name)));
    for (path, name) in all {
        ensure(name.as_deref().is_none_or(is_visible), &path, || {
            "contains an invisible character: control characters, characters without width and those that change the \
             direction of text are not accepted in names"
                .to_owned()
        })?;
    }
    distinct_names(spec)
}

/// Checks that no two flows, traffic patterns and jobs have the same name, because tables, comparisons and figures
/// identify them by their names.
fn distinct_names(spec: &Spec) -> Check {
    let flows = spec.flow.iter().enumerate().map(|(at, flow)| (format!("flow.{at}"), flow.shown_name()));
    let traffic = spec.traffic.iter().enumerate();
    let traffic = traffic.map(|(at, one)| (format!("traffic.{at}"), one.shown_name(at)));
    let jobs = spec.job.iter().enumerate().map(|(at, job)| (format!("job.{at}"), jobs::name(job, at)));
    let mut known = std::collections::HashMap::new();
    let external = spec.external.iter().map(|external| ("external".to_owned(), external.name.clone()));
    for (place, name) in flows.chain(traffic).chain(jobs).chain(external) {
        if let Some(first) = known.insert(name.clone(), place.clone()) {
            let what = format!(
                "{name} is also the name of {first}; each flow, traffic pattern and job must have a unique name"
            );
            return Err(Fault::new(format!("{place}.name"), what));
        }
    }
    Ok(())
}

fn delay(path: &str, time: Time, most: Time) -> Check {
    ensure(time <= most, path, || format!("must be at most {most}"))
}

fn rate(path: &str, rate: Option<Rate>) -> Check {
    ensure(rate.is_none_or(|rate| rate >= SLOWEST), path, || format!("must be at least {SLOWEST}"))
}

/// Checks sizes, so that later sums and products cannot overflow.
pub(crate) fn packet(packet: &Packet) -> Check {
    ensure((1..=65_536).contains(&packet.mtu.0), "packet.mtu", || "must be 1 B to 64 KiB".to_owned())?;
    ensure(packet.header.0 <= 4_096, "packet.header", || "must be 0 B to 4 KiB".to_owned())?;
    let full = packet.mtu.0 + packet.header.0;
    ensure((1..=full).contains(&packet.control.0), "packet.control", || {
        format!("must be 1 B to {full} B, the size of a full packet (packet.mtu + packet.header)")
    })?;
    ensure((1..=65_536).contains(&packet.credit_block.0), "packet.credit_block", || {
        "must be 1 B to 64 KiB; InfiniBand's is 64 B".to_owned()
    })
}

fn lanes(spec: &Spec) -> Check {
    let count = spec.lanes.count;
    ensure(spec.lanes.control.is_none_or(|lane| lane < count), "lanes.control", || {
        format!("must be 0 to {}, as lanes.count is {count}", count - 1)
    })?;
    ensure(!spec.lanes.control_priority || spec.lanes.control.is_some(), "lanes.control_priority", || {
        "needs lanes.control, the lane of control packets".to_owned()
    })?;
    ensure(!spec.lanes.control_priority || count > 1, "lanes.control_priority", || {
        "has no effect: there is one lane; set lanes.count to 2 or more".to_owned()
    })?;
    lane_tables(spec)?;
    path_lanes(spec)?;
    let Some(map) = &spec.lanes.sl_to_vl else { return Ok(()) };
    ensure((1..=16).contains(&map.len()), "lanes.sl_to_vl", || {
        "must have 1 to 16 entries, one for each service level".to_owned()
    })?;
    for (sl, vl) in map.iter().enumerate() {
        ensure(*vl < count, &format!("lanes.sl_to_vl.{sl}"), || {
            format!("must be 0 to {}, as lanes.count is {count}", count - 1)
        })?;
    }
    Ok(())
}

/// Checks the tables by which outputs select lanes.
fn lane_tables(spec: &Spec) -> Check {
    const KEY: &str = "lanes.arbitration";
    let count = spec.lanes.count;
    let Some(tables) = &spec.lanes.arbitration else { return Ok(()) };
    ensure(count > 1, KEY, || "has no effect: there is one lane; set lanes.count to 2 or more".to_owned())?;
    ensure(!spec.lanes.control_priority, KEY, || {
        "cannot be combined with lanes.control_priority: the tables determine when control packets are sent"
            .to_owned()
    })?;
    for (name, table) in [("high", &tables.high), ("low", &tables.low)] {
        ensure(table.len() <= VlArbitration::MOST_ENTRIES, &format!("{KEY}.{name}"), || {
            format!("must have at most {} entries, as in InfiniBand", VlArbitration::MOST_ENTRIES)
        })?;
        for (at, (vl, _)) in table.iter().enumerate() {
            ensure(*vl < count, &format!("{KEY}.{name}.{at}"), || {
                format!("must name a lane from 0 to {}, as lanes.count is {count}", count - 1)
            })?;
        }
    }
    let missing = (0..count).find(|vl| tables.entries().all(|(of, _)| of != *vl));
    ensure(missing.is_none(), KEY, || {
        let vl = missing.unwrap_or_default();
        format!("has no entry for lane {vl} with a weight above 0, so its packets would never be sent")
    })
}

/// Checks the assignment of lanes by paths or by routing, and the settings that these assignments exclude.
fn path_lanes(spec: &Spec) -> Check {
    let Lanes { assignment, path_levels, tables, control, .. } = &spec.lanes;
    let is_by_path = *assignment == Assignment::Paths;
    let is_by_routing = *assignment == Assignment::Routing;
    let detours = match spec.routing.source {
        RoutingSource::Computed(RoutingSpec::Valiant(_)) => Some("valiant"),
        RoutingSource::Computed(RoutingSpec::Ugal(_)) => Some("ugal"),
        _ => None,
    };
    ensure(is_by_routing || detours.is_none(), "lanes.assignment", || {
        let kind = detours.unwrap_or_default();
        format!("must be \"routing\" for routing.kind = \"{kind}\", which chooses the lanes with the routes")
    })?;
    for (key, file) in [("path_levels", path_levels), ("tables", tables)] {
        ensure(is_by_path || file.is_none(), &format!("lanes.{key}"), || {
            "has no effect; set lanes.assignment = \"paths\"".to_owned()
        })?;
    }
    if !is_by_path && !is_by_routing {
        return Ok(());
    }
    ensure(is_by_routing || path_levels.is_some() || tables.is_some(), "lanes.assignment", || {
        "needs lanes.path_levels, lanes.tables or both".to_owned()
    })?;
    ensure(control.is_none(), "lanes.control", || {
        "cannot be combined with lanes.assignment = \"paths\": control packets have the service level of their own path".to_owned()
    })?;
    let mechanism = spec.congestion.mechanism;
    let switch = &spec.switch;
    let is_plain = switch.has_plain_queues(mechanism)
        && switch.arbitration != Some(Arbitration::Fcfs)
        && matches!(spec.flow_control, FlowControl::Credits(_));
    ensure(is_plain, "lanes.assignment", || {
        "by paths or routing needs switches of architecture \"voq\" with queues \"per-output\" in shared memory, arbitration \
         \"round-robin\" and credits"
            .to_owned()
    })?;
    ensure(!switch.control_first(mechanism), "switch.control_first", || {
        "cannot be combined with lanes by paths or routing, whose switches have no separate queues for control packets"
            .to_owned()
    })?;
    let announces = spec.adaptive_routing.as_ref().is_some_and(|adaptive| adaptive.is_per(RoutePer::Flow))
        || matches!(spec.congestion.components(&spec.packet).reaction, Reaction::ExplicitRate(_));
    let special = spec.congestion.components(&spec.packet).isolation != Isolation::None;
    ensure(!announces && !special && spec.host.queues.is_none(), "lanes.assignment", || {
        "by paths or routing cannot be combined with announced flows, special queues or output buffers of hosts".to_owned()
    })
}

fn switch(spec: &Spec) -> Check {
    let switch = &spec.switch;
    delay("switch.latency", switch.latency, LONGEST_DELAY)?;
    let mechanism = spec.congestion.mechanism;
    let architecture = switch.architecture(mechanism);
    let iq = architecture == Architecture::Iq;
    let plain = switch.has_plain_queues(mechanism);
    ensure(plain || switch.arbitration != Some(Arbitration::Fcfs), "switch.arbitration", || {
        "needs switches of architecture \"voq\" with queues \"per-output\" in shared memory".to_owned()
    })?;
    let queues = switch.queues(mechanism);
    let modulo = matches!(queues, Queues::DestinationModulo | Queues::OutputModulo);
    let divided = switch.memory(mechanism) == Memory::Divided;
    ensure(!divided || queues != Queues::Single, "switch.memory", || {
        "has no effect with one queue per input; leave it out, or choose other switch.queues".to_owned()
    })?;
    ensure(divided || switch.queue_buffer.is_none(), "switch.queue_buffer", || {
        "has no effect if queues share the memory of their input; set switch.memory = \"divided\"".to_owned()
    })?;
    let host_modulo = spec.host.queues == Some(HostQueues::DestinationModulo);
    let usual = silvan_fabric::config::SwitchConfig::default().queue_count;
    ensure(modulo || host_modulo || switch.queue_count == usual, "switch.queue_count", || {
        "has no effect: only queues \"destination-modulo\" and \"output-modulo\" have a configurable number"
            .to_owned()
    })?;
    ensure(architecture != Architecture::Voq || switch.crossbar.is_none(), "switch.crossbar", || {
        "has no effect with switch.architecture = \"voq\", where every queue has its own read port; use \
         architecture \"iq\" or \"cioq\""
            .to_owned()
    })?;
    if switch.output_buffer.is_some() {
        ensure(architecture == Architecture::Cioq, "switch.output_buffer", || {
            "has no effect: only switches of architecture \"cioq\" have buffers at outputs".to_owned()
        })?;
    }
    rate("switch.crossbar", switch.crossbar)?;
    ensure(iq || switch.islip_iterations == 1, "switch.islip_iterations", || {
        "has an effect with switch.architecture = \"iq\" only; leave it out, or use this architecture"
            .to_owned()
    })?;
    let cell = switch.islip_cell;
    let is_usual = cell == silvan_fabric::config::SwitchConfig::default().islip_cell;
    ensure(iq || is_usual, "switch.islip_cell", || {
        "has an effect with switch.architecture = \"iq\" only; leave it out, or use this architecture"
            .to_owned()
    })?;
    ensure(cell.0 <= 65_536, "switch.islip_cell", || "must be at most 64 KiB".to_owned())
}

fn host(spec: &Spec) -> Check {
    let host = &spec.host;
    rate("host.injection_rate", host.injection_rate)?;
    ensure(
        !host.injection_includes_control || host.injection_rate.is_some(),
        "host.injection_includes_control",
        || "has no effect without host.injection_rate".to_owned(),
    )?;
    rate("host.drain_rate", host.drain_rate)?;
    delay("host.message_overhead", host.message_overhead, LONGEST_DELAY)?;
    let components = spec.congestion.components(&spec.packet);
    let special = components.isolation != Isolation::None;
    let buffered = match host.queues {
        Some(queues) => queues != HostQueues::None,
        None => special,
    };
    ensure(
        buffered || host.output_buffer == silvan_fabric::config::HostConfig::default().output_buffer,
        "host.output_buffer",
        || "has no effect: hosts have no output buffer; set host.queues".to_owned(),
    )?;
    let retains = |reaction: &Reaction| matches!(reaction, Reaction::ExplicitRate(rates) if rates.retain);
    ensure(!buffered || !components.reactions().any(retains), "congestion.reaction.retain", || {
        "cannot be combined with output buffers of hosts, where data of a flow may still wait when its announcement \
         is removed; set host.queues = \"none\" without special queues"
            .to_owned()
    })
}

fn flows(spec: &Spec) -> Check {
    for (index, flow) in spec.flow.iter().enumerate() {
        let at = format!("flow.{index}");
        ensure(flow.from != flow.to, &format!("{at}.to"), || {
            format!(
                "is also the sender; a flow needs two different hosts, so choose a host other than {}",
                flow.from
            )
        })?;
        common(&at, flow.start, flow.stop, flow.message, flow.rate)?;
        has_lane(&at, flow.sl, &spec.lanes)?;
        trigger(&at, flow.start_after_packets, flow.start)?;
        ensure(flow.total != Some(Bytes(0)), &format!("{at}.total"), || {
            "must be at least 1 B; leave it out for an unlimited flow".to_owned()
        })?;
    }
    Ok(())
}

fn check_traffic(traffic: &Traffic, spec: &Spec, at: &str) -> Check {
    if let Pattern::Forest(forest) = &traffic.pattern {
        check_forest(forest, spec.duration, &format!("{at}.pattern"))?;
        let others = [
            ("start_after_packets", traffic.start_after_packets.is_some()),
            ("packets_per_host", traffic.packets_per_host.is_some()),
            ("message_max", traffic.message_max.is_some()),
        ];
        for (key, given) in others {
            ensure(!given, &format!("{at}.{key}"), || {
                "cannot be combined with a forest; leave it out, or use another pattern".to_owned()
            })?;
        }
        ensure(traffic.arrivals == Arrivals::Periodic, &format!("{at}.arrivals"), || {
            "has no effect on a forest, whose hosts send whenever they may; leave it out".to_owned()
        })?;
    }
    common(at, traffic.start, traffic.stop, traffic.message, traffic.rate)?;
    has_lane(at, traffic.sl, &spec.lanes)?;
    trigger(at, traffic.start_after_packets, traffic.start)?;
    ensure(traffic.packets_per_host != Some(0), &format!("{at}.packets_per_host"), || {
        "must be at least 1; leave it out for unlimited traffic".to_owned()
    })?;
    let least = traffic.message.unwrap_or(spec.packet.mtu);
    let sizes = least..=LARGEST_MESSAGE;
    ensure(
        traffic.message_max.is_none_or(|most| sizes.contains(&most)),
        &format!("{at}.message_max"),
        || format!("must be {least}, the size of the smallest message, to {LARGEST_MESSAGE}"),
    )?;
    ensure(traffic.hosts.as_ref().is_none_or(|hosts| !hosts.is_empty()), &format!("{at}.hosts"), || {
        "is empty; leave it out for all hosts".to_owned()
    })
}

fn check_forest(forest: &Forest, duration: Time, at: &str) -> Check {
    let at = |key: &str| format!("{at}.{key}");
    let roles = [("contributors", forest.contributors), ("victims", forest.victims), ("mixed", forest.mixed)];
    let mut sum = 0;
    for (key, percent) in roles {
        ensure(percent <= 100 - sum, &at(key), || {
            format!("makes more than 100 percent of the hosts; must be at most {}", 100 - sum)
        })?;
        sum += percent;
    }
    ensure(sum > 0, &at("contributors"), || {
        "no host sends: set a percentage of contributors, victims or mixed hosts".to_owned()
    })?;
    ensure(forest.p == 0 || forest.mixed > 0, &at("p"), || {
        "has no effect without mixed hosts; leave it out, or set mixed".to_owned()
    })?;
    let Some(lifetime) = forest.lifetime else { return Ok(()) };
    let least = u128::from(duration.0) * u128::from(forest.hotspots) / u128::from(MOST_HOTSPOTS);
    let least = Time(u64::try_from(least).unwrap_or(u64::MAX).max(1_000_000));
    ensure(lifetime >= least, &at("lifetime"), || {
        format!("must be at least {least}, so that a run has at most {MOST_HOTSPOTS} hotspots in all")
    })
}

/// Checks that a service level in use has a virtual lane, if service levels determine lanes.
fn has_lane(at: &str, sl: u8, lanes: &Lanes) -> Check {
    let Some(map) = &lanes.sl_to_vl else { return Ok(()) };
    let entries = map.len();
    ensure(
        lanes.assignment != Assignment::ServiceLevel || usize::from(sl) < entries,
        &format!("{at}.sl"),
        || {
            format!(
                "has no virtual lane: lanes.sl_to_vl has {entries} entries, for service levels 0 to {}; give it one for each \
             service level that is used, or use another level",
                entries - 1
            )
        },
    )
}

/// Checks that a source that starts after a number of packets has no other start time.
fn trigger(at: &str, after: Option<u64>, start: Time) -> Check {
    ensure(after != Some(0), &format!("{at}.start_after_packets"), || {
        "must be at least 1; leave it out to start immediately".to_owned()
    })?;
    ensure(after.is_none() || start == Time::ZERO, &format!("{at}.start"), || {
        "cannot be combined with start_after_packets, which determines the start; leave out one of them"
            .to_owned()
    })
}

fn common(at: &str, start: Time, stop: Option<Time>, message: Option<Bytes>, offered: Option<Rate>) -> Check {
    delay(&format!("{at}.start"), start, LONGEST)?;
    let at_stop = format!("{at}.stop");
    ensure(stop.is_none_or(|stop| stop > start), &at_stop, || {
        format!("must be later than the start, {start}")
    })?;
    delay(&at_stop, stop.unwrap_or(Time::ZERO), LONGEST)?;
    ensure(message.is_none_or(|m| m.0 > 0 && m <= LARGEST_MESSAGE), &format!("{at}.message"), || {
        format!("must be 1 B to {LARGEST_MESSAGE}")
    })?;
    rate(&format!("{at}.rate"), offered)
}
