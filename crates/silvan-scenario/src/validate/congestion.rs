//! Checks of congestion management: each component, and the combination of components.

use silvan_engine::{Bytes, Time};
use silvan_fabric::config::{Arbitration, Architecture};
use silvan_fabric::congestion::marking::{Fecn, FillMapping, Marking, Sampled};
use silvan_fabric::congestion::reaction::{Cct, CctTable, Lipd, Mvcm, Qcn, Reaction};
use silvan_fabric::congestion::{Feedback, Notification, Parts};
use silvan_fabric::queueing::{Isolation, Memory, Queues, SpecialArbitration, SpecialQueues};

use super::{Check, LONGEST_DELAY, delay, ensure};
use crate::error::Fault;
use crate::scenario::settings;
use crate::spec::Spec;

/// Entries of a congestion control table.
const CCT_ENTRIES: std::ops::RangeInclusive<usize> = 128..=16_384;

/// Checks all components.
pub(super) fn check(spec: &Spec) -> Check {
    let parts = spec.congestion.parts(&spec.packet);
    pairs(spec, &parts)?;
    // Checks what components require of switches and of each other, and the limits of buffers.
    silvan_fabric::check(&settings(spec))?;
    match &parts.marking {
        Marking::None | Marking::Ipm | Marking::Opm(_) | Marking::Mvpm(_) => {}
        Marking::Fecn(fecn) => check_fecn(fecn, spec)?,
        Marking::Sampled(sampled) => check_sampled(sampled, spec)?,
    }
    match &parts.reaction {
        Reaction::None => {}
        Reaction::Cct(cct) => check_cct(cct)?,
        Reaction::StaticWindow(window) => check_window("packets", Some(window.packets))?,
        Reaction::Aimd(control) | Reaction::Fimd(control) => check_window("window", control.window)?,
        Reaction::Lipd(lipd) => check_lipd(lipd)?,
        Reaction::Mvcm(mvcm) => check_mvcm(mvcm)?,
        Reaction::ExplicitRate(rates) => check_span("probe", Some(rates.probe))?,
        Reaction::Qcn(qcn) => check_qcn(qcn)?,
    }
    if let Isolation::SpecialQueues(special) = &parts.isolation {
        check_special(special, spec)?;
    }
    Ok(())
}

/// Checks combinations of components.
fn pairs(spec: &Spec, parts: &Parts) -> Check {
    let architecture = spec.switch.architecture(spec.congestion.mechanism);
    let cioq = architecture == Architecture::Cioq;
    ensure(!cioq || parts.isolation == Isolation::None, "switch.architecture", || {
        "has buffers at outputs, which cannot be combined with special queues; use \"voq\" or \"iq\", or \
         congestion.isolation = { kind = \"none\" }"
            .to_owned()
    })?;
    if spec.switch.arbitration == Arbitration::Fcfs {
        let sum = match &parts.marking {
            Marking::Fecn(fecn) => fecn.fill == FillMapping::Sum,
            _ => true,
        };
        ensure(sum, "congestion.marking.fill", || {
            "measures input queues, which switches with arbitration \"fcfs\" do not have; use \"sum\""
                .to_owned()
        })?;
        ensure(parts.isolation == Isolation::None, "switch.arbitration", || {
            "cannot be combined with special queues, which define their own order; use \"round-robin\""
                .to_owned()
        })?;
    }
    if let Some(coalescing) = parts.coalescing {
        ensure(parts.notification == Notification::Cnp, "congestion.coalescing", || {
            "applies to notification packets (\"cnp\") only; acknowledgements are not coalesced".to_owned()
        })?;
        ensure(coalescing.interval > Time::ZERO, "congestion.coalescing.interval", || {
            "must be more than 0 s".to_owned()
        })?;
        delay("congestion.coalescing.interval", coalescing.interval, LONGEST_DELAY)?;
    }
    let by_buffers = parts.marking.needs_output_buffers();
    ensure(!by_buffers || parts.notification != Notification::Backward, "congestion.notification", || {
        "must be \"cnp\", \"ack\" or \"ack-each\" with this congestion.marking, whose marks stay with packets \
         that wait"
            .to_owned()
    })?;
    ensure(!by_buffers || parts.feedback == Feedback::Binary, "congestion.feedback", || {
        "must be \"binary\" with this congestion.marking, whose marks are single bits; \"fecn\" and \"sampled\" can report \
         how severe congestion is"
            .to_owned()
    })
}

fn at(key: &str) -> String {
    format!("congestion.reaction.{key}")
}

fn check_window(key: &str, window: Option<u16>) -> Check {
    ensure(window.is_none_or(|packets| packets > 0), &at(key), || {
        "must be at least 1; with 0, no packet could be sent".to_owned()
    })
}

fn check_lipd(lipd: &Lipd) -> Check {
    check_window("window", lipd.window)?;
    check_span("delay", lipd.delay)
}

fn check_qcn(qcn: &Qcn) -> Check {
    for (key, rate) in [
        ("min_rate", qcn.min_rate),
        ("active_increase", qcn.active_increase),
        ("hyper_increase", qcn.hyper_increase),
    ] {
        ensure(rate.0 > 0, &at(key), || {
            "must be more than 0 bit/s; with 0, flows do not recover".to_owned()
        })?;
    }
    ensure((1..=1 << 30).contains(&qcn.cycle_bytes.0), &at("cycle_bytes"), || {
        "must be 1 B to 1 GiB".to_owned()
    })?;
    check_span("cycle_time", Some(qcn.cycle_time))
}

fn check_span(key: &str, span: Option<Time>) -> Check {
    check_span_at(&at(key), span)
}

fn check_span_at(at: &str, span: Option<Time>) -> Check {
    ensure(span != Some(Time::ZERO), at, || "must be more than 0 s".to_owned())?;
    delay(at, span.unwrap_or(Time::ZERO), LONGEST_DELAY)
}

fn check_mvcm(mvcm: &Mvcm) -> Check {
    check_window("window", mvcm.window)?;
    check_span("slot", mvcm.slot)?;
    ensure(mvcm.limit != Some(0), &at("limit"), || {
        "must be at least 1; without waiting slots, use a static-window reaction".to_owned()
    })?;
    ensure(mvcm.limited || mvcm.limit.is_none(), &at("limit"), || {
        "has no effect with limited = false; leave one of them out".to_owned()
    })
}

fn check_special(special: &SpecialQueues, spec: &Spec) -> Check {
    let at = |key: &str| format!("congestion.isolation.{key}");
    let mechanism = spec.congestion.mechanism;
    ensure((1..=65_536).contains(&special.message.0), &at("message"), || "must be 1 B to 64 KiB".to_owned())?;
    let full = spec.packet.mtu.0 + spec.packet.header.0;
    let (detection, stop, go) = special.thresholds(full);
    let share = Bytes(spec.switch.buffer.0 / u64::from(spec.lanes.count.max(1)));
    for (key, threshold) in [("detection", detection), ("stop", stop)] {
        ensure(threshold < share, &at(key), || {
            format!("can never be exceeded: a virtual lane has {share} of the input buffer")
        })?;
    }
    check_span_at(&at("longest_wait"), special.longest_wait)?;
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

fn check_fecn(fecn: &Fecn, spec: &Spec) -> Check {
    const AT: &str = "congestion.marking";
    let at = |key: &str| format!("{AT}.{key}");
    let share = spec.switch.buffer.0 / u64::from(spec.lanes.count);
    if let Some(upper) = fecn.upper {
        ensure(upper.0 <= share, &at("upper"), || {
            format!("can never be exceeded: a virtual lane has {} of the input buffer", Bytes(share))
        })?;
    }
    Ok(())
}

fn check_sampled(sampled: &Sampled, spec: &Spec) -> Check {
    let at = |key: &str| format!("congestion.marking.{key}");
    let (full, most) = (spec.packet.mtu.0 + spec.packet.header.0, 1u64 << 30);
    ensure((1..=most).contains(&sampled.set_point.0), &at("set_point"), || {
        "must be 1 B to 1 GiB".to_owned()
    })?;
    ensure((full..=most).contains(&sampled.sample.0), &at("sample"), || {
        format!("must be {} (a full packet) to 1 GiB", Bytes(full))
    })
}

fn check_cct(cct: &Cct) -> Check {
    const AT: &str = "congestion.reaction";
    let at = |key: &str| format!("{AT}.{key}");
    let entries = cct_table(&cct.table)?;
    index_bounds(AT, cct.ccti_limit, cct.ccti_min, entries)?;
    ensure(cct.ccti_timer > 0, &at("ccti_timer"), || "must be at least 1 (unit 1.024 us)".to_owned())?;
    for (index, own) in cct.per_sl.iter().enumerate() {
        let at = format!("{AT}.per_sl.{index}");
        let first = cct.per_sl.iter().position(|other| other.sl == own.sl).unwrap_or(index);
        ensure(first == index, &format!("{at}.sl"), || format!("is already given by {AT}.per_sl.{first}"))?;
        let (limit, min) = (own.ccti_limit.unwrap_or(cct.ccti_limit), own.ccti_min.unwrap_or(cct.ccti_min));
        index_bounds(&at, limit, min, entries)?;
        ensure(own.ccti_timer != Some(0), &format!("{at}.ccti_timer"), || {
            "must be at least 1 (unit 1.024 us)".to_owned()
        })?;
    }
    Ok(())
}

fn index_bounds(at: &str, limit: u16, min: u16, entries: usize) -> Check {
    ensure(usize::from(limit) < entries, &format!("{at}.ccti_limit"), || {
        format!("must be 0 to {}, as the table has {entries} entries", entries - 1)
    })?;
    ensure(min <= limit, &format!("{at}.ccti_min"), || format!("must be at most ccti_limit, {limit}"))
}

/// Checks the congestion control table and gives its number of entries.
fn cct_table(table: &CctTable) -> Result<usize, Fault> {
    let at = |key: &str| format!("congestion.reaction.table.{key}");
    let count = |key: &str, entries: usize| {
        ensure(CCT_ENTRIES.contains(&entries), &at(key), || {
            format!("must have {} to {} entries", CCT_ENTRIES.start(), CCT_ENTRIES.end())
        })
    };
    match table {
        CctTable::Quadratic { divisor, scale, entries } => {
            let last = u128::from(*entries) - 1;
            let largest = u128::from(*scale) * last * last * 7_000_000 / (u128::from(*divisor).pow(2));
            ensure(largest <= u128::from(LONGEST_DELAY.0), &at("scale"), || {
                format!("gives a last delay of {} s; must be at most 1 s", largest / 1_000_000_000_000)
            })?;
            Ok(usize::from(*entries))
        }
        CctTable::Linear { entries, .. } => Ok(usize::from(*entries)),
        CctTable::List { delays_ns } => {
            count("delays_ns", delays_ns.len())?;
            Ok(delays_ns.len())
        }
        CctTable::Iba { entries } => {
            count("entries", entries.len())?;
            Ok(entries.len())
        }
    }
}
