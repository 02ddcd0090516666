//! Checks that the components of congestion management are compatible, and checks isolation. The other components
//! check their own parameters.

use silvan_congestion::isolation::{Isolation, IsolationThresholds, SpecialArbitration, SpecialQueues};
use silvan_congestion::marking::Marking;
use silvan_congestion::reaction::Reaction;
use silvan_congestion::{Components, Feedback, Mechanism, Notification};
use silvan_engine::{Bytes, Time};
use silvan_fabric::config::{Arbitration, Architecture};
use silvan_fabric::queueing::{Memory, Queues};
use silvan_network::routing::RoutingSpec;

use super::{Check, LONGEST_DELAY, delay, ensure};
use crate::error::Fault;
use crate::scenario::settings;
use crate::spec::{RoutingSource, Spec};

/// Checks all components.
pub(super) fn check(spec: &Spec) -> Check {
    let components = spec.congestion.components(&spec.packet);
    link_layers(spec)?;
    // The model checks the requirements of components, the buffer space, and the components' own parameters.
    pairs(spec, &components)
        .and_then(|()| Ok(silvan_fabric::check(&settings(spec))?))
        .map_err(|fault| other_mechanism(spec, &fault).unwrap_or(fault))?;
    if let Isolation::SpecialQueues(special) = &components.isolation {
        check_special(special, spec)?;
    }
    Ok(())
}

/// Rejects a component that belongs to another link layer than the mechanism, unless the scenario also sets marks,
/// answers and reaction, so that only the isolation of the mechanism remains.
fn link_layers(spec: &Spec) -> Check {
    let given = &spec.congestion;
    let Some(own) = given.mechanism.link_layer() else { return Ok(()) };
    if given.marking.is_some() && given.notification.is_some() && given.reaction.is_some() {
        return Ok(());
    }
    let marking = given.marking.as_ref().map(|part| ("marking".to_owned(), part.kind(), part.link_layer()));
    let reaction = given
        .reaction
        .as_ref()
        .map(|part| ("reaction".to_owned(), part.kind(), part.properties().link_layer));
    let of_hosts = given.hosts.iter().enumerate().map(|(at, host)| {
        (format!("hosts.{at}.reaction"), host.reaction.kind(), host.reaction.properties().link_layer)
    });
    for (part, kind, layer) in marking.into_iter().chain(reaction).chain(of_hosts) {
        let Some(layer) = layer.filter(|&layer| layer != own) else { continue };
        let same = Mechanism::ALL.into_iter().find(|mechanism| mechanism.name() == kind);
        let change = match same {
            Some(same) => format!("set congestion.mechanism = \"{}\"", same.name()),
            None => "leave it out".to_owned(),
        };
        return Err(Fault::new(
            format!("congestion.{part}.kind"),
            format!(
                "is a component of {layer}, and congestion.mechanism = \"{}\" is one of {own}; {change}, or for a hybrid give \
                 congestion.marking, notification and reaction, each with its kind",
                given.mechanism.name()
            ),
        ));
    }
    Ok(())
}

/// Explains a fault of marks or notifications that do not fit the reaction, if the scenario selects only the
/// reaction of another mechanism.
fn other_mechanism(spec: &Spec, fault: &Fault) -> Option<Fault> {
    let given = &spec.congestion;
    let is_about =
        ["congestion.notification", "congestion.marking"].iter().any(|key| fault.path.starts_with(key));
    let kind = given.reaction.as_ref().map(Reaction::kind)?;
    let own = given.mechanism;
    let other = Mechanism::ALL.into_iter().find(|&other| other.name() == kind && other != own)?;
    let is_partial = given.marking.is_none() || given.notification.is_none();
    (is_about && is_partial && own.link_layer().is_some()).then(|| {
        Fault::new(
            "congestion.reaction.kind",
            format!(
                "needs other marks or notifications than congestion.mechanism = \"{}\"; set congestion.mechanism = \"{}\", \
                 or give congestion.marking, notification and reaction, each with its kind",
                own.name(),
                other.name()
            ),
        )
    })
}

/// Rejects components that are not compatible.
fn pairs(spec: &Spec, components: &Components) -> Check {
    let architecture = spec.switch.architecture(spec.congestion.mechanism);
    let cioq = architecture == Architecture::Cioq;
    ensure(!cioq || components.isolation == Isolation::None, "switch.architecture", || {
        "has buffers at outputs, which cannot be combined with special queues; use \"voq\" or \"iq\", or \
         congestion.isolation = { kind = \"none\" }"
            .to_owned()
    })?;
    if spec.switch.arbitration == Some(Arbitration::Fcfs) {
        ensure(!components.marking.needs_input_queues(), "congestion.marking.fill", || {
            "measures input queues, which switches with arbitration \"fcfs\" do not have; use \"sum\""
                .to_owned()
        })?;
        ensure(components.isolation == Isolation::None, "switch.arbitration", || {
            "cannot be combined with special queues, which define their own order; use \"round-robin\""
                .to_owned()
        })?;
    }
    if let Some(coalescing) = components.coalescing {
        ensure(components.notification.notifies(), "congestion.coalescing", || {
            "applies to notification packets (\"cnp\") only; acknowledgements are not coalesced".to_owned()
        })?;
        ensure(coalescing.interval > Time::ZERO, "congestion.coalescing.interval", || {
            "must be more than 0 s".to_owned()
        })?;
        delay("congestion.coalescing.interval", coalescing.interval, LONGEST_DELAY)?;
    }
    if let Some(delay_of) = spec.congestion.notification_delay {
        ensure(components.notification.notifies(), "congestion.notification_delay", || {
            "applies to notification packets (\"cnp\") only; acknowledgements are not delayed".to_owned()
        })?;
        delay("congestion.notification_delay", delay_of, LONGEST_DELAY)?;
    }
    if let Some(unit) = components.acknowledge {
        ensure(components.notification.acknowledges_each(), "congestion.acknowledge", || {
            "needs congestion.notification = \"ack-each\" or \"ack-grant\", whose acknowledgements it combines".to_owned()
        })?;
        let single = components.reactions().find(|reaction| !reaction.properties().counts_bytes);
        if let Some(reaction) = single {
            let what = format!(
                "cannot be combined with the reaction \"{}\", which counts the acknowledgements of single packets; use \"nscc\" \
                 or \"rccc\"",
                reaction.kind()
            );
            return Err(Fault::new("congestion.acknowledge", what));
        }
        ensure(unit.bytes > Bytes(0), "congestion.acknowledge.bytes", || "must be more than 0 B".to_owned())?;
        ensure(unit.within > Time::ZERO, "congestion.acknowledge.within", || {
            "must be more than 0 s".to_owned()
        })?;
        delay("congestion.acknowledge.within", unit.within, LONGEST_DELAY)?;
    }
    ensure(
        !components.marking.stamps() || components.notification.acknowledges_each(),
        "congestion.notification",
        || {
            "must be \"ack-each\" with congestion.marking.kind = \"telemetry\", which acknowledgements return"
                .to_owned()
        },
    )?;
    let marks = components.marking != Marking::None && !components.marking.stamps();
    ensure(!spec.measure.congestion_log || marks, "measure.congestion_log", || {
        "needs switches that mark packets; set congestion.mechanism = \"ib-cc\", or a congestion.marking other than \
         \"none\" and \"telemetry\""
            .to_owned()
    })?;
    let is_ugal = matches!(spec.routing.source, RoutingSource::Computed(RoutingSpec::Ugal(_)));
    ensure(
        !is_ugal || !components.reactions().any(|reaction| reaction.properties().needs_one_route),
        "routing.kind",
        || {
            "\"ugal\" cannot be combined with this congestion.reaction, which compares the telemetry of one route; use \
         \"minimal\" or \"valiant\""
            .to_owned()
        },
    )?;
    let by_buffers = components.marking.needs_output_buffers();
    ensure(
        !by_buffers || components.notification != Notification::Backward,
        "congestion.notification",
        || {
            "must be \"cnp\", \"ack\", \"ack-message\" or \"ack-each\" with this congestion.marking, whose marks stay with packets \
         that wait"
            .to_owned()
        },
    )?;
    let is_fine = components.marking.has_severities() || components.feedback == Feedback::Binary;
    ensure(is_fine, "congestion.feedback", || {
        "must be \"binary\" with this congestion.marking, whose marks are single bits; \"fecn\" and \"sampled\" can report \
         how severe congestion is"
            .to_owned()
    })
}

fn check_span(at: &str, span: Option<Time>) -> Check {
    ensure(span != Some(Time::ZERO), at, || "must be more than 0 s".to_owned())?;
    delay(at, span.unwrap_or(Time::ZERO), LONGEST_DELAY)
}

fn check_special(special: &SpecialQueues, spec: &Spec) -> Check {
    let at = |key: &str| format!("congestion.isolation.{key}");
    let mechanism = spec.congestion.mechanism;
    ensure((1..=65_536).contains(&special.message.0), &at("message"), || "must be 1 B to 64 KiB".to_owned())?;
    let full = spec.packet.mtu.0 + spec.packet.header.0;
    let IsolationThresholds { detection, stop, go } = special.thresholds(full);
    let share = Bytes(spec.switch.buffer.0 / u64::from(spec.lanes.count.max(1)));
    for (key, threshold) in [("detection", detection), ("stop", stop)] {
        ensure(threshold < share, &at(key), || {
            format!("can never be exceeded: a virtual lane has {share} of the input buffer")
        })?;
    }
    check_span(&at("longest_wait"), special.longest_wait)?;
    let is_strict = special.arbitration == SpecialArbitration::Strict;
    ensure(is_strict || special.longest_wait.is_none(), &at("longest_wait"), || {
        "has no effect without congestion.isolation.arbitration = \"strict\"".to_owned()
    })?;
    ensure(go < stop, &at("go"), || format!("must be less than the stop threshold, {stop}"))?;
    let queues = spec.switch.queues(mechanism);
    ensure(matches!(queues, Queues::Single | Queues::PerOutput), "switch.queues", || {
        "cannot be combined with special queues; use \"single\" or \"per-output\"".to_owned()
    })?;
    ensure(spec.switch.memory(mechanism) == Memory::Shared, "switch.memory", || {
        "must be \"shared\" with special queues, which allocate memory as needed".to_owned()
    })?;
    ensure(special.at_root || queues == Queues::PerOutput, &at("at_root"), || {
        "must be true with one normal queue per input, because that queue does not belong to one root; or use switch.queues = \"per-output\""
            .to_owned()
    })
}
