//! Checks of adaptive routing, per flow and per packet.

use silvan_congestion::Components;
use silvan_congestion::isolation::Isolation;
use silvan_congestion::reaction::Reaction;
use silvan_engine::Bytes;
use silvan_fabric::config::{AdaptiveRouting, Assignment, Pinned, RoutePer};
use silvan_fabric::queueing::{Memory, Queues};

use super::{Check, LARGEST_BUFFER, ensure};
use crate::spec::Spec;

/// Checks the table, even if adaptive routing is not enabled.
pub(super) fn check(spec: &Spec) -> Check {
    let Some(adaptive) = &spec.adaptive_routing else { return Ok(()) };
    match adaptive.per {
        RoutePer::Flow => of_flows(adaptive),
        RoutePer::Packet => of_packets(adaptive, spec),
    }
}

fn of_flows(adaptive: &AdaptiveRouting) -> Check {
    let given = [
        ("grade", adaptive.grade.is_some()),
        ("levels", adaptive.levels.is_some()),
        ("pinned", !adaptive.pinned.is_empty()),
    ];
    for (key, is_given) in given {
        ensure(!is_given, &format!("adaptive_routing.{key}"), || {
            "has no effect when switches choose per flow; set adaptive_routing.per = \"packet\"".to_owned()
        })?;
    }
    Ok(())
}

fn of_packets(adaptive: &AdaptiveRouting, spec: &Spec) -> Check {
    for (key, is_given) in [("heuristic", adaptive.heuristic.is_some()), ("cache", adaptive.cache.is_some())]
    {
        ensure(!is_given, &format!("adaptive_routing.{key}"), || {
            "has no effect when switches choose per packet; set adaptive_routing.per = \"flow\"".to_owned()
        })?;
    }
    let grades = Bytes(1)..=LARGEST_BUFFER;
    ensure(adaptive.grade.is_none_or(|grade| grades.contains(&grade)), "adaptive_routing.grade", || {
        format!("must be 1 B to {LARGEST_BUFFER}")
    })?;
    if let Some(levels) = &adaptive.levels {
        ensure(!levels.is_empty(), "adaptive_routing.levels", || {
            "names no service level; leave it out for all, or set adaptive_routing.enabled = false".to_owned()
        })?;
    }
    let parts = spec.congestion.components(&spec.packet);
    if adaptive.enabled { check_components(adaptive, spec, &parts) } else { Ok(()) }
}

/// Checks the components that adaptive routing needs or excludes.
fn check_components(adaptive: &AdaptiveRouting, spec: &Spec, components: &Components) -> Check {
    ensure(
        !adaptive.pins(Pinned::Throttled)
            || components.reactions().any(|reaction| *reaction != Reaction::None),
        "adaptive_routing.pinned",
        || "names flows that are throttled, but congestion.reaction throttles none".to_owned(),
    )?;
    ensure(
        !adaptive.pins(Pinned::Isolated) || components.isolation != Isolation::None,
        "adaptive_routing.pinned",
        || "names destinations that are isolated, but congestion.isolation has no special queues".to_owned(),
    )?;
    ensure(!matches!(components.reaction, Reaction::ExplicitRate(_)), "adaptive_routing.per", || {
        "\"packet\" cannot be combined with explicit rates, which apply to one route; use \"flow\"".to_owned()
    })?;
    ensure(
        !components.reactions().any(|reaction| reaction.properties().needs_one_route),
        "adaptive_routing.per",
        || {
            "\"packet\" cannot be combined with this congestion.reaction, which compares the telemetry of one route; \
         use \"flow\""
            .to_owned()
        },
    )?;
    let by_way = matches!(spec.lanes.assignment, Assignment::Paths | Assignment::Routing);
    ensure(!by_way, "adaptive_routing.per", || {
        "\"packet\" cannot be combined with lanes by paths or routing, which apply to one route".to_owned()
    })?;
    let (switch, mechanism) = (&spec.switch, spec.congestion.mechanism);
    let by_output = matches!(switch.queues(mechanism), Queues::PerOutput | Queues::OutputModulo);
    ensure(!by_output || switch.memory(mechanism) == Memory::Shared, "adaptive_routing.per", || {
        "\"packet\" needs switch.memory = \"shared\" with these queues: a sender cannot know through which \
         output of the next switch a packet will leave, so it does not know which share of the memory the packet needs"
            .to_owned()
    })
}
