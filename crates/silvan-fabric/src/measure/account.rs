//! The account of a run in words, and warnings for whatever had no effect.

use silvan_engine::Time;

use crate::config::Config;
use crate::congestion::Parts;
use crate::congestion::marking::Marking;
use crate::congestion::reaction::Reaction;
use crate::core::Core;
use crate::measure::trees::{Part, Trees};
use crate::outcome::{FlowSummary, IsolationSummary, TriggerSummary};

/// Everything the account draws on.
pub(crate) struct Story<'a> {
    pub config: &'a Config,
    pub core: &'a Core,
    pub trees: &'a Trees,
    pub link_names: &'a [String],
    pub flows: &'a [FlowSummary],
    pub triggers: &'a [TriggerSummary],
    /// Payload received by all hosts, after the warm-up.
    pub throughput_gbit_s: f64,
    /// Data packets still inside.
    pub inside: u64,
    pub isolation: Option<&'a IsolationSummary>,
    pub stopped_early: bool,
}

fn share(part: u32, whole: u32) -> String {
    format!("{:.0} %", 100.0 * f64::from(part) / f64::from(whole.max(1)))
}

fn list(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_string(),
        [some @ .., last] if names.len() <= 6 => format!("{} and {last}", some.join(", ")),
        _ => format!("{} and {} others", names[..5].join(", "), names.len() - 5),
    }
}

/// The account and the warnings.
pub(crate) fn tell(story: &Story) -> (Vec<String>, Vec<String>) {
    let mut account = vec![format!(
        "In {} of simulated time {} data packets were sent and {} delivered, {:.3} Gbit/s in all; {} were \
         still inside at the end.",
        story.core.now,
        story.core.meters.packets_injected,
        story.core.meters.packets_delivered,
        story.throughput_gbit_s,
        story.inside
    )];
    account.extend(story.triggers.iter().filter_map(|trigger| {
        let started = Time::from_ns(trigger.started_ns?);
        Some(format!(
            "`{}` started at {started}, when {} packets had been delivered.",
            trigger.class, trigger.after_packets
        ))
    }));
    account.extend(roots(story));
    account.extend(roles(story));
    account.extend(control(story));
    account.extend(isolation(story));
    (account, warnings(story))
}

fn roots(story: &Story) -> Vec<String> {
    let trees = story.trees;
    let mut roots: Vec<(u32, usize)> = (0..trees.outputs.len())
        .map(|link| (trees.outputs[link].root, link))
        .filter(|&(samples, _)| 10 * samples > trees.samples)
        .collect();
    roots.sort_by_key(|&(samples, link)| (std::cmp::Reverse(samples), link));
    if roots.is_empty() {
        return vec!["No output was congested in more than a tenth of the samples.".into()];
    }
    let named: Vec<String> = roots
        .iter()
        .take(8)
        .map(|&(samples, link)| {
            format!("{} ({} of the samples)", story.link_names[link], share(samples, trees.samples))
        })
        .collect();
    let more = if roots.len() > 8 { format!(", and {} more", roots.len() - 8) } else { String::new() };
    let reach = match trees.most_branches {
        0 => "No tree grew beyond its root.".to_string(),
        1 => "At most one output was a branch of a tree at a time.".to_string(),
        n => format!("Up to {n} outputs were branches of a tree at a time."),
    };
    vec![format!("Roots of congestion: {}{more}. {reach}", named.join(", "))]
}

fn roles(story: &Story) -> Vec<String> {
    let of = |part| -> Vec<&str> {
        let flows = story.flows.iter().enumerate();
        flows.filter(|(at, _)| story.trees.role(*at) == part).map(|(_, flow)| flow.flow.as_str()).collect()
    };
    let (contributors, victims) = (of(Part::Contributor), of(Part::Victim));
    let mut lines = Vec::new();
    if !contributors.is_empty() {
        lines.push(format!("Contributors (through a root most of the time): {}.", list(&contributors)));
    }
    if !victims.is_empty() {
        lines.push(format!("Victims (held back by a branch, through no root): {}.", list(&victims)));
    }
    lines
}

fn control(story: &Story) -> Vec<String> {
    let meters = &story.core.meters;
    if story.config.parts().marking == Marking::None {
        return Vec::new();
    }
    let percent = |packets: u64| 100.0 * packets as f64 / meters.packets_delivered.max(1) as f64;
    let validated = if story.config.parts().marking.validates() {
        format!(" and validated {} of them ({:.2} %)", meters.validations, percent(meters.validations))
    } else {
        String::new()
    };
    vec![format!(
        "Switches marked {} packets ({:.2} % of those delivered){validated}; {} notifications reached their \
         sources.",
        meters.fecn_marks,
        percent(meters.fecn_marks),
        meters.becn_received
    )]
}

fn isolation(story: &Story) -> Option<String> {
    let isolation = story.isolation?;
    let short = match isolation.exhausted {
        0 => "none was ever missing".to_string(),
        times => format!("one was missing {times} times"),
    };
    Some(format!(
        "Special queues were taken {} times, for {:.1} us on average, and {short}; {} notifications \
         went upstream.",
        isolation.allocations,
        isolation.mean_life_ns / 1_000.0,
        isolation.allocate + isolation.stop + isolation.go + isolation.release
    ))
}

fn warnings(story: &Story) -> Vec<String> {
    let meters = &story.core.meters;
    let Parts { marking, reaction, .. } = story.config.parts();
    let mut warnings = Vec::new();
    if story.stopped_early {
        warnings.push(format!(
            "The run was stopped at {} of {}: averages cover what there is.",
            story.core.now, story.config.duration
        ));
    }
    match (&marking, &reaction) {
        (Marking::None, Reaction::None) => {}
        // Windows hold back without marks.
        (Marking::None, Reaction::Cct(_)) => {
            warnings.push(
                "The reaction had no effect: congestion.marking is none, so no source is notified.".into(),
            );
        }
        (Marking::None, _) => {}
        (_, Reaction::None | Reaction::StaticWindow(_)) => {
            warnings.push("Marks had no effect: congestion.reaction does not look at them.".into());
        }
        _ => {}
    }
    if marking != Marking::None && meters.fecn_marks == 0 {
        warnings.push("Congestion control had no effect: no packet was marked.".into());
    } else if meters.fecn_marks > 0 && meters.becn_received == 0 {
        warnings.push("No notification reached its source before the end of the run.".into());
    }
    if let Some(forest) = story.trees.forest.as_ref().filter(|forest| forest.unrecorded > 0) {
        warnings.push(format!(
            "The table tree_links was full after {} of {} samples; give measure.interval more, or switch off \
             measure.forest.",
            story.trees.samples - forest.unrecorded,
            story.trees.samples
        ));
    }
    warnings.extend(story.config.announced_packets());
    if story.isolation.is_some_and(|isolation| isolation.allocate == 0) {
        warnings.push("Isolation had no effect: no queue was ever above its thresholds.".into());
    }
    for (number, class) in meters.classes.iter().enumerate() {
        // Jobs are told of apart; one on a single host sends nothing over the network.
        if number >= usize::from(meters.jobs_from) {
            continue;
        }
        let waits = |trigger: &&TriggerSummary| trigger.class == class.name && trigger.started_ns.is_none();
        if let Some(trigger) = story.triggers.iter().find(waits) {
            warnings.push(format!(
                "`{}` never started: it waits for {} packets to be delivered, and {} were.",
                class.name, trigger.after_packets, meters.packets_delivered
            ));
        } else if class.injected_bytes == 0 {
            warnings.push(format!(
                "`{}` never sent: it starts after the end, or its hosts were blocked.",
                class.name
            ));
        } else if class.delivered_bytes == 0 {
            warnings.push(format!("Nothing of `{}` arrived before the end of the run.", class.name));
        }
    }
    if story.config.warmup == Time::ZERO
        && story.config.flows.is_empty()
        && story.config.measure.interval < story.config.duration
    {
        warnings.push("warmup is 0 s: the averages include the empty network's start.".into());
    }
    warnings
}
