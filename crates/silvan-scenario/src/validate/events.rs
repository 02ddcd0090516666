//! Checks changes of links and hosts during a run: their times, and the settings that exclude them. The named
//! links, switches and hosts are checked later, with the network.

use silvan_congestion::isolation::Isolation;
use silvan_congestion::reaction::Reaction;
use silvan_engine::{Bytes, Time};
use silvan_fabric::config::{Assignment, FlowControl, PathBits, RoutePer};
use silvan_fabric::faults::{Event, EventKind, RecoveryKind, Rerouting};
use silvan_fabric::queueing::HostQueues;

use super::{Check, LONGEST, LONGEST_DELAY, SLOWEST, ensure};
use crate::error::Fault;
use crate::spec::Spec;

/// Number of packets before the newest one of which an acknowledgement states whether they have arrived.
const REPORTED_PACKETS: u64 = 64;

pub(super) fn check(spec: &Spec) -> Check {
    for (index, event) in spec.event.iter().enumerate() {
        let at = |key: &str| format!("event.{index}.{key}");
        let kind = event.kind.name();
        let (own, other) = match event.kind.is_of_hosts() {
            true => (event.hosts.is_empty(), !event.links.is_empty() || !event.switches.is_empty()),
            false => (event.links.is_empty() && event.switches.is_empty(), !event.hosts.is_empty()),
        };
        ensure(!other, &at(if event.kind.is_of_hosts() { "links" } else { "hosts" }), || {
            match event.kind.is_of_hosts() {
                true => format!(
                    "cannot be combined with kind = \"{kind}\", which concerns hosts; name them in hosts"
                ),
                false => format!(
                    "cannot be combined with kind = \"{kind}\", which concerns links; name them in links or switches"
                ),
            }
        })?;
        ensure(!own, &format!("event.{index}"), || match event.kind.is_of_hosts() {
            true => "changes nothing: name the hosts that it concerns".to_owned(),
            false => "changes nothing: name the links or the switches that it concerns".to_owned(),
        })?;
        width(event, &at)?;
        match (event.kind.has_rate() && event.width.is_none(), event.rate) {
            (true, None) => {
                let what =
                    format!("is missing, and needed by kind = \"{kind}\": the rate while the change lasts");
                return Err(Fault::new(at("rate"), what));
            }
            (true, Some(rate)) => {
                ensure(rate >= SLOWEST, &at("rate"), || format!("must be at least {SLOWEST}"))?
            }
            (false, Some(_)) if event.width.is_some() => {
                let what = "cannot be combined with width, which determines the rate; leave out one of them";
                return Err(Fault::new(at("rate"), what.to_owned()));
            }
            (false, rate) => ensure(rate.is_none(), &at("rate"), || {
                format!(
                    "has no effect with kind = \"{kind}\"; leave it out, or use kind = \"rate\" or \"drain\""
                )
            })?,
        }
        shared(spec, event, &at)?;
        let has_losses = event.kind == EventKind::Errors;
        ensure(!has_losses || event.loss_ppb.is_some(), &at("kind"), || {
            "needs loss_ppb, the mean number of packets that are lost, per billion".to_owned()
        })?;
        ensure(has_losses || event.loss_ppb.is_none(), &at("loss_ppb"), || {
            format!("has no effect with kind = \"{kind}\"; leave it out, or use kind = \"errors\"")
        })?;
        ensure(event.kind != EventKind::Stall || event.lasts.is_some(), &at("kind"), || {
            "needs event.lasts: hosts that never take packets again would fill the network; for hosts that fail for good, use \
             kind = \"stop\""
                .to_owned()
        })?;
        stop(event, &at)?;
        times(event, spec.duration, &at)?;
    }
    rerouting(spec)?;
    hosts(spec)?;
    recovery(spec)?;
    match spec.event.iter().position(|event| event.loses_packets(spec.link.retry.is_some())) {
        Some(index) => losses(spec, &format!("event.{index}.kind")),
        None => Ok(()),
    }
}

/// Checks that `width` is given only with `kind = "rate"`.
fn width(event: &Event, at: &dyn Fn(&str) -> String) -> Check {
    ensure(event.width.is_none() || event.kind == EventKind::Rate, &at("width"), || {
        format!("has no effect with kind = \"{}\"; leave it out, or use kind = \"rate\"", event.kind.name())
    })
}

/// Checks that hosts that fail do so once, and for the rest of the run.
fn stop(event: &Event, at: &dyn Fn(&str) -> String) -> Check {
    if event.kind != EventKind::Stop {
        return Ok(());
    }
    let times = [
        ("lasts", event.lasts),
        ("every", event.every),
        ("jitter", event.jitter),
        ("mean_time_between", event.mean_time_between),
    ];
    for (key, time) in times {
        ensure(time.is_none(), &at(key), || {
            "cannot be combined with kind = \"stop\", after which hosts do not come back; leave it out, or use kind = \"down\" with \
             the names of the hosts in links"
                .to_owned()
        })?;
    }
    Ok(())
}

/// Checks a rate that both directions of a host share. It determines how fast packets pass, so no other limit may be lower.
fn shared(spec: &Spec, event: &Event, at: &dyn Fn(&str) -> String) -> Check {
    if !event.shared {
        return Ok(());
    }
    ensure(event.kind == EventKind::Drain, &at("shared"), || {
        format!("has no effect with kind = \"{}\"; leave it out, or use kind = \"drain\"", event.kind.name())
    })?;
    let limits = [("drain_rate", spec.host.drain_rate), ("injection_rate", spec.host.injection_rate)];
    for (key, limit) in limits {
        let Some(limit) = limit else { continue };
        ensure(event.rate.is_none_or(|rate| rate <= limit), &at("rate"), || {
            format!("must be at most host.{key}, {limit}, with shared = true")
        })?;
    }
    Ok(())
}

fn times(event: &Event, duration: Time, at: &dyn Fn(&str) -> String) -> Check {
    ensure(event.start < duration, &at("start"), || format!("must be less than the duration, {duration}"))?;
    ensure(event.lasts != Some(Time::ZERO), &at("lasts"), || "must be more than 0 s".to_owned())?;
    ensure(event.every.is_none() || event.mean_time_between.is_none(), &at("mean_time_between"), || {
        "cannot be combined with every; leave out one of them".to_owned()
    })?;
    for (key, time) in [("every", event.every), ("mean_time_between", event.mean_time_between)] {
        let Some(time) = time else { continue };
        ensure(event.lasts.is_some(), &at(key), || {
            format!(
                "needs event.lasts: without it, a change lasts until the end of the run, so {key} has no effect"
            )
        })?;
        ensure(time > Time::ZERO, &at(key), || "must be more than 0 s".to_owned())?;
    }
    ensure(event.jitter.is_none() || event.every.is_some(), &at("jitter"), || {
        "has an effect with every only; add it, or leave out jitter".to_owned()
    })?;
    if let (Some(every), Some(lasts)) = (event.every, event.lasts) {
        let longest = Time(lasts.0.saturating_add(event.jitter.unwrap_or_default().0));
        ensure(longest < every, &at("every"), || {
            format!("must be more than {longest}, the longest time until a change is over (lasts and jitter)")
        })?;
    }
    Ok(())
}

/// Checks that packets can be lost, and that hosts can send them again with the other settings.
fn recovery(spec: &Spec) -> Check {
    let Some(recovery) = &spec.recovery else { return Ok(()) };
    let drops = matches!(&spec.flow_control, FlowControl::Pfc(pfc) if !pfc.lossy_lanes.is_empty());
    let loses = |event: &Event| event.loses_packets(spec.link.retry.is_some());
    ensure(drops || spec.event.iter().any(loses), "recovery", || {
        "has no effect without an [[event]] of the kind \"down\", \"errors\" or \"stop\", or flow_control.lossy_lanes; add one, or leave it \
         out"
        .to_owned()
    })?;
    ensure(recovery.timeout > Time::ZERO, "recovery.timeout", || "must be more than 0 s".to_owned())?;
    super::delay("recovery.timeout", recovery.timeout, LONGEST_DELAY)?;
    ensure(spec.host.queues.is_none_or(|queues| queues == HostQueues::None), "host.queues", || {
        "cannot be combined with recovery, with which hosts keep packets until they know that these have arrived; use \"none\""
            .to_owned()
    })?;
    let components = spec.congestion.components(&spec.packet);
    ensure(components.isolation == Isolation::None, "recovery", || {
        "cannot be combined with special queues, which hosts have, too; use another congestion.mechanism"
            .to_owned()
    })?;
    if let Some(unit) = components.acknowledge {
        ensure(recovery.repeats_only_lost(), "congestion.acknowledge", || {
            "needs hosts that repeat single packets, of which acknowledgements tell them; use recovery.kind = \"selective-repeat\""
                .to_owned()
        })?;
        let most = Bytes(REPORTED_PACKETS * spec.packet.mtu.0);
        ensure(unit.bytes <= most, "congestion.acknowledge.bytes", || {
            format!(
                "must be at most {most} with recovery: an acknowledgement reports {REPORTED_PACKETS} packets that may have overtaken others"
            )
        })?;
    }
    if recovery.reordering.is_some() {
        let key = "recovery.reordering";
        ensure(recovery.repeats_only_lost(), key, || {
            "needs packets that may arrive in any order; use recovery.kind = \"selective-repeat\"".to_owned()
        })?;
        ensure(components.notification.acknowledges_each(), key, || {
            "needs an acknowledgement of each packet, which states when that packet was sent; set congestion.notification = \
             \"ack-each\" or \"ack-grant\", or leave the key out"
                .to_owned()
        })?;
    }
    if recovery.kind == RecoveryKind::GoBackN {
        let adapts = spec.adaptive_routing.as_ref();
        let adapts = adapts.is_some_and(|adaptive| adaptive.enabled && adaptive.is_per(RoutePer::Packet));
        let sprays = spec.ecmp.as_ref().is_some_and(|ecmp| ecmp.enabled && ecmp.spraying.is_on())
            || spec.routing.path_bits() == PathBits::PerPacket;
        ensure(!adapts && !sprays && spec.switch.trimming.is_none(), "recovery.kind", || {
            "needs packets that do not overtake each other, which spraying, adaptive routing per packet and packet trimming do not \
             guarantee; use \"selective-repeat\""
                .to_owned()
        })?;
    }
    Ok(())
}

/// Checks the settings that cannot be combined with changes of hosts.
fn hosts(spec: &Spec) -> Check {
    let is_slower = |event: &Event| matches!(event.kind, EventKind::Stall | EventKind::Drain);
    let Some(index) = spec.event.iter().position(is_slower) else { return Ok(()) };
    let at = format!("event.{index}.kind");
    ensure(spec.switch.trimming.is_none(), &at, || {
        "cannot be combined with switch.trimming: nothing would stop packets that a slower host cannot accept"
            .to_owned()
    })?;
    ensure(!waits_for_deliveries(spec), &at, || {
        "cannot be combined with start_after_packets, because the times of deliveries must be known in advance; use start"
            .to_owned()
    })
}

fn waits_for_deliveries(spec: &Spec) -> bool {
    let of_flows = spec.flow.iter().map(|flow| flow.start_after_packets);
    let mut all = of_flows.chain(spec.traffic.iter().map(|traffic| traffic.start_after_packets));
    all.any(|after| after.is_some())
}

/// Checks that links go down during the run, and that no setting excludes changes of routes.
fn rerouting(spec: &Spec) -> Check {
    let Rerouting { delay, port_delay, .. } = spec.rerouting;
    let has_tables = spec.rerouting.tables.is_some();
    ensure(delay.is_some() || !has_tables, "rerouting.tables", || {
        "needs rerouting.delay, the time from a change to these tables".to_owned()
    })?;
    let key = if delay.is_some() { "rerouting.delay" } else { "rerouting.port_delay" };
    if spec.rerouting.is_off() {
        return Ok(());
    }
    ensure(spec.event.iter().any(|event| event.kind.takes_down()), key, || {
        "has no effect without an [[event]] of the kind \"down\" or \"stop\"; add one, or leave it out"
            .to_owned()
    })?;
    for (key, time) in [("rerouting.delay", delay), ("rerouting.port_delay", port_delay)] {
        super::delay(key, time.unwrap_or_default(), LONGEST)?;
    }
    ensure(!matches!(spec.lanes.assignment, Assignment::Paths | Assignment::Routing), key, || {
        "cannot be combined with lanes.assignment = \"paths\" or \"routing\", whose lanes follow from the routes at the start"
            .to_owned()
    })?;
    let adapts = spec.adaptive_routing.as_ref();
    let chooses = adapts.is_some_and(|adaptive| adaptive.enabled && adaptive.is_per(RoutePer::Packet))
        || spec.ecmp.as_ref().is_some_and(|ecmp| ecmp.enabled);
    ensure(!has_tables || !chooses, "rerouting.tables", || {
        "cannot be combined with [ecmp] and adaptive_routing.per = \"packet\", whose groups of ports are computed; leave it out"
            .to_owned()
    })?;
    ensure(port_delay.is_none() || chooses, "rerouting.port_delay", || {
        "has an effect only if packets can choose among ports; use [ecmp] or adaptive_routing.per = \"packet\", or rerouting.delay"
            .to_owned()
    })
}

/// Checks that no setting of the scenario requires that all packets arrive.
pub(super) fn losses(spec: &Spec, at: &str) -> Check {
    ensure(spec.external.is_none() || spec.recovery.is_some(), at, || {
        "loses packets, so a program may wait forever for its messages; add [recovery], which sends them again".to_owned()
    })?;
    ensure(spec.job.is_empty() || spec.recovery.is_some(), at, || {
        "loses packets, for which the ranks of a [[job]] would wait; add [recovery], which sends them again"
            .to_owned()
    })?;
    ensure(!waits_for_deliveries(spec), at, || {
        "loses packets, so the number of deliveries that start_after_packets waits for may not be reached; use start"
            .to_owned()
    })?;
    let adapts = spec.adaptive_routing.as_ref();
    let is_per_flow = adapts.is_some_and(|adaptive| adaptive.enabled && adaptive.is_per(RoutePer::Flow));
    let components = spec.congestion.components(&spec.packet);
    let announces = components.reactions().any(|reaction| matches!(reaction, Reaction::ExplicitRate(_)));
    ensure(!is_per_flow && !announces, at, || {
        "loses packets, also those that announce flows: it cannot be combined with adaptive_routing.per = \"flow\" and the \
         reaction \"explicit-rate\""
            .to_owned()
    })
}
