//! Checks of equal-cost multipath, several LIDs per host, packet spraying, and the delivery of packets that overtake each other.

use silvan_congestion::marking::Marking;
use silvan_congestion::reaction::Reaction;
use silvan_congestion::{Components, Notification};
use silvan_engine::Time;
use silvan_fabric::config::{Assignment, Delivery, Ecmp, PathBits, RoutePer, Selection, Spraying};
use silvan_fabric::queueing::{Memory, Queues};
use silvan_network::routing::RoutingSpec;

use super::{Check, LONGEST_DELAY, ensure};
use crate::spec::{RoutingSource, Spec};

/// Checks `[ecmp]` and `routing.path_bits` with the settings that exclude them, and the key `host.delivery`.
pub(super) fn check(spec: &Spec) -> Check {
    delivery(spec)?;
    path_bits(spec)?;
    let Some(ecmp) = &spec.ecmp else { return Ok(()) };
    ensure(ecmp.values.is_power_of_two(), "ecmp.values", || {
        let below = 1 << ecmp.values.max(1).ilog2();
        format!(
            "must be a power of two, because rounds invert bits of the values; {below} is the next lower one"
        )
    })?;
    ensure(ecmp.spraying.is_on() || ecmp.values == Ecmp::default().values, "ecmp.values", || {
        "has no effect: packets have no entropy values; set ecmp.spraying".to_owned()
    })?;
    ensure(ecmp.spraying.is_on() || ecmp.selection == Selection::Hash, "ecmp.selection", || {
        "has no effect: packets have no entropy values; set ecmp.spraying".to_owned()
    })?;
    retirement(spec, ecmp)?;
    if !ecmp.enabled {
        return Ok(());
    }
    check_routes(spec, "ecmp")?;
    let parts = spec.congestion.components(&spec.packet);
    if ecmp.spraying.is_on() { check_spraying(ecmp.spraying, &parts) } else { Ok(()) }
}

/// Checks that packets can overtake each other if hosts do not deliver them in order.
fn delivery(spec: &Spec) -> Check {
    let adapts = spec.adaptive_routing.as_ref().is_some_and(|adaptive| adaptive.is_per(RoutePer::Packet));
    let sprays = spec.ecmp.as_ref().is_some_and(|ecmp| ecmp.enabled && ecmp.spraying.is_on());
    let detours = matches!(spec.routing.source, RoutingSource::Computed(RoutingSpec::Ugal(_)));
    let rotates = spec.routing.path_bits() == PathBits::PerPacket;
    let may_reorder = adapts || sprays || detours || rotates || spec.switch.trimming.is_some();
    ensure(spec.host.delivery == Delivery::InOrder || may_reorder, "host.delivery", || {
        "has no effect: the packets of a flow take one route and arrive in order; set ecmp.spraying or \
         adaptive_routing.per = \"packet\""
            .to_owned()
    })
}

/// Checks the settings that exclude several LIDs per host.
fn path_bits(spec: &Spec) -> Check {
    let (path_bits, key) = (spec.routing.path_bits(), "routing.path_bits");
    if !path_bits.is_used() {
        return Ok(());
    }
    ensure(spec.ecmp.as_ref().is_none_or(|ecmp| !ecmp.enabled), key, || {
        "cannot be combined with [ecmp]: switches either use the routes of LIDs or hash packets; leave one of them out"
            .to_owned()
    })?;
    check_routes(spec, key)?;
    let parts = spec.congestion.components(&spec.packet);
    let is_free = path_bits == PathBits::PerFlow
        || !parts.reactions().any(|reaction| reaction.properties().needs_one_route);
    ensure(is_free, key, || {
        "\"per-packet\" cannot be combined with this congestion.reaction, which compares the telemetry of one route; set \
         \"per-flow\""
            .to_owned()
    })
}

/// Checks how entropy values are retired.
fn retirement(spec: &Spec, ecmp: &Ecmp) -> Check {
    let Some(retirement) = &ecmp.retirement else { return Ok(()) };
    ensure(ecmp.spraying == Spraying::PathStates, "ecmp.retirement", || {
        "has no effect: no values are retired; set ecmp.spraying = \"path-states\"".to_owned()
    })?;
    ensure(spec.recovery.is_some(), "ecmp.retirement", || {
        "has no effect without [recovery]: hosts do not know which packets are lost; add it, or leave the key out".to_owned()
    })?;
    let least = retirement.least_active.unwrap_or(1);
    ensure((1..=ecmp.values).contains(&least), "ecmp.retirement.least_active", || {
        format!("must be between 1 and ecmp.values, {}", ecmp.values)
    })?;
    super::delay("ecmp.retirement.probe_interval", retirement.probe_interval, LONGEST_DELAY)?;
    ensure(retirement.probe_interval > Time::ZERO, "ecmp.retirement.probe_interval", || {
        "must be more than 0 s".to_owned()
    })
}

fn check_routes(spec: &Spec, key: &str) -> Check {
    let adapts = spec.adaptive_routing.as_ref().is_some_and(|adaptive| adaptive.enabled);
    ensure(!adapts, key, || {
        "cannot be combined with [adaptive_routing]: a switch either hashes packets or selects ports by state; leave one \
         of them out"
            .to_owned()
    })?;
    let by_way = matches!(spec.lanes.assignment, Assignment::Paths | Assignment::Routing);
    ensure(!by_way, key, || {
        "cannot be combined with lanes by paths or routing, which apply to one route; set lanes.assignment = \
         \"service-level\""
            .to_owned()
    })?;
    let parts = spec.congestion.components(&spec.packet);
    ensure(!matches!(parts.reaction, Reaction::ExplicitRate(_)), key, || {
        "cannot be combined with explicit rates, whose announcements follow the forwarding tables; choose another \
         congestion.reaction"
            .to_owned()
    })?;
    let (switch, mechanism) = (&spec.switch, spec.congestion.mechanism);
    let by_output = matches!(switch.queues(mechanism), Queues::PerOutput | Queues::OutputModulo);
    ensure(!by_output || switch.memory(mechanism) == Memory::Shared, key, || {
        "needs switch.memory = \"shared\" with these queues: a sender knows neither the salt nor the output of the next \
         switch, so it does not know which share of the memory the packet needs"
            .to_owned()
    })
}

/// Checks that the reaction permits several routes, and that answers contain what the rule needs.
fn check_spraying(spraying: Spraying, parts: &Components) -> Check {
    ensure(!parts.reaction.properties().needs_one_route, "ecmp.spraying", || {
        "cannot be combined with this congestion.reaction, which compares the telemetry of one route; leave it out, so \
         that each flow has one route"
            .to_owned()
    })?;
    if !spraying.reads_marks() {
        return Ok(());
    }
    let marks = parts.marking != Marking::None && !parts.marking.stamps();
    ensure(marks, "ecmp.spraying", || {
        "avoids values whose packets were marked, but congestion.marking marks none; set congestion.marking, or choose \
         \"oblivious\" or \"random\""
            .to_owned()
    })?;
    let each = parts.notification.acknowledges_each();
    ensure(each || !spraying.reuses_values(), "ecmp.spraying", || {
        "reuses the values of packets that were acknowledged without a mark; set congestion.notification = \"ack-each\" \
         or \"ack-grant\", or choose \"bitmap\""
            .to_owned()
    })?;
    let names_packet = !matches!(parts.notification, Notification::Backward | Notification::AckMessage);
    ensure(names_packet, "ecmp.spraying", || {
        "needs answers that return the entropy value of each marked packet; set congestion.notification = \"ack-each\", \
         \"ack-grant\", \"ack\" or \"cnp\", or choose \"oblivious\" or \"random\""
            .to_owned()
    })
}
