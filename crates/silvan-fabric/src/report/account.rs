//! Writes the account of a run, and warnings about settings that had no effect.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use silvan_congestion::Components;
use silvan_congestion::marking::Marking;
use silvan_congestion::reaction::Reaction;
use silvan_engine::Time;

use crate::config::{Arbitration, Config};
use crate::meters::Meters;
use crate::observe::{ChangeLog, Judged, Recovered, TreeKind, recovery_sentences};
use crate::outcome::{
    IsolationSummary, LossSummary, PauseSummary, RecoverySummary, RetrySummary, TriggerSummary,
};

/// Minimum share of its offered traffic that a class must lose to trees to be reported as a victim.
const WORTH_NAMING: f64 = 0.05;

/// The data that the account uses.
pub(crate) struct Story<'a> {
    pub config: &'a Config,
    /// The components of congestion management in effect.
    pub parts: &'a Components,
    pub now: Time,
    pub meters: &'a Meters,
    /// Congestion trees, if they were recorded.
    pub forest: Option<&'a Judged>,
    pub link_names: &'a [String],
    pub triggers: &'a [TriggerSummary],
    /// Payload received by all hosts, after the warm-up.
    pub throughput_gbit_s: f64,
    /// Data packets still inside the network.
    pub inside: u64,
    pub isolation: Option<&'a IsolationSummary>,
    pub pauses: Option<&'a PauseSummary>,
    pub retries: Option<&'a RetrySummary>,
    /// Changes of links and hosts, if there are any in the scenario.
    pub changes: Option<&'a ChangeLog>,
    pub losses: Option<&'a LossSummary>,
    pub recovered: &'a [Recovered],
    /// The packets and windows that wait indefinitely because packets were lost.
    pub stuck: Option<&'a str>,
    /// The lanes that the pause watchdog reports, with their longest pauses, the longest first.
    pub long_pauses: &'a [(String, Time)],
    pub stopped_early: bool,
}

fn share(count: u32, whole: u32) -> String {
    format!("{:.0} %", 100.0 * f64::from(count) / f64::from(whole.max(1)))
}

fn list(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [some @ .., last] if names.len() <= 6 => format!("{} and {last}", some.join(", ")),
        _ => format!("{} and {} others", names[..5].join(", "), names.len() - 5),
    }
}

/// Writes the account and the warnings.
pub(crate) fn tell(story: &Story) -> (Vec<String>, Vec<String>) {
    let mut account = vec![format!(
        "In {} of simulated time {} data packets were sent and {} delivered, {:.3} Gbit/s in all; {} were \
         still inside at the end.",
        story.now,
        story.meters.packets_injected,
        story.meters.packets_delivered,
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
    match story.forest {
        Some(forest) => account.extend(trees(story, forest)),
        None => account.push("Congestion trees were not recorded (measure.forest).".into()),
    }
    account.extend(arbitration(story));
    account.extend(hybrid(story));
    account.extend(control(story));
    account.extend(isolation(story));
    account.extend(pauses(story));
    account.extend(retries(story));
    account.extend(story.changes.into_iter().flat_map(|changes| changes.sentences(story.now)));
    account.extend(losses(story));
    account.extend(recovery_sentences(story.recovered));
    account.extend(reordering(story));
    account.extend(trimming(story));
    (account, warnings(story))
}

/// Describes the roots of congestion trees, and the contributors and victims of trees that were not
/// short-lived.
fn trees(story: &Story, judged: &Judged) -> Vec<String> {
    let samples = judged.forest.samples;
    let mut by_root: BTreeMap<u32, u32> = BTreeMap::new();
    judged.trees().for_each(|(root, samples, _)| *by_root.entry(root).or_default() += samples);
    by_root.retain(|_, seen| 10 * *seen > samples);
    if by_root.is_empty() {
        return vec![
            "No output was the root of a congestion tree in more than a tenth of the samples.".into(),
        ];
    }
    let mut roots: Vec<(u32, u32)> = by_root.iter().map(|(&link, &seen)| (link, seen)).collect();
    roots.sort_by_key(|&(link, seen)| (Reverse(seen), link));
    let named: Vec<String> = roots
        .iter()
        .take(8)
        .map(|&(link, seen)| {
            format!("{} ({} of the samples)", story.link_names[link as usize], share(seen, samples))
        })
        .collect();
    let more = if roots.len() > 8 { format!(", and {} more", roots.len() - 8) } else { String::new() };
    let reach = match judged.forest.most_branches {
        0 => "No tree grew beyond its root.".to_string(),
        1 => "At most one link waited for a root at a time.".to_string(),
        n => format!("Up to {n} links waited for a root at a time."),
    };
    let mut lines = vec![format!("Roots of congestion trees: {}{more}. {reach}", named.join(", "))];
    lines
        .extend(roles(story, judged.trees().filter(|tree| by_root.contains_key(&tree.0)).map(|tree| tree.2)));
    lines
}

/// Lists the contributors and the victims of these trees.
fn roles<'a>(story: &Story, trees: impl Iterator<Item = &'a TreeKind>) -> Vec<String> {
    let mut feeding: BTreeMap<u16, BTreeSet<u32>> = BTreeMap::new();
    let mut waiting: BTreeMap<u16, (BTreeSet<u32>, f64, f64)> = BTreeMap::new();
    for tree in trees {
        for (who, _) in &tree.contributors {
            feeding.entry(who.class).or_default().insert(who.host);
        }
        for (who, suffered) in &tree.victims {
            let (hosts, lost, offered) = waiting.entry(who.class).or_default();
            hosts.insert(who.host);
            *lost += suffered.lost_bytes;
            *offered += suffered.offered_bytes;
        }
    }
    let is_flow = |class: u16| usize::from(class) < story.config.flows.len();
    let called = |class: u16, hosts: &BTreeSet<u32>| {
        let name = &story.meters.classes[usize::from(class)].name;
        match hosts.len() {
            _ if is_flow(class) => name.clone(),
            1 => format!("1 host of `{name}`"),
            n => format!("{n} hosts of `{name}`"),
        }
    };
    let contributors: Vec<String> = feeding.iter().map(|(&class, hosts)| called(class, hosts)).collect();
    let victims: Vec<String> = waiting
        .iter()
        .filter(|(_, (_, lost, offered))| *lost >= WORTH_NAMING * offered && *lost > 0.0)
        .map(|(&class, (hosts, lost, offered))| {
            format!(
                "{} (sent {:.0} % less than offered meanwhile)",
                called(class, hosts),
                100.0 * lost / offered
            )
        })
        .collect();
    let mut lines = Vec::new();
    if !contributors.is_empty() {
        lines.push(format!("Contributors (they send through a root): {}.", list(&contributors)));
    }
    if !victims.is_empty() {
        lines.push(format!(
            "Victims (held back by a tree whose root they do not send through): {}.",
            list(&victims)
        ));
    }
    lines
}

/// How outputs served packets, if the scenario has a component of Ethernet.
fn arbitration(story: &Story) -> Option<String> {
    let component = story.config.ethernet()?;
    Some(match story.config.arbitration() {
        Arbitration::Fcfs => format!(
            "Outputs of switches served packets in the order of their arrival (\"fcfs\"), as on Ethernet ({component})."
        ),
        Arbitration::RoundRobin => format!(
            "Outputs of switches did not serve packets in the order of their arrival, unlike those of Ethernet ({component}): \
             switch.arbitration is \"round-robin\"."
        ),
    })
}

/// Names the components if their link layers differ.
fn hybrid(story: &Story) -> Option<String> {
    let Components { marking, reaction, .. } = story.parts;
    let (marks, reacts) = (marking.link_layer()?, reaction.properties().link_layer?);
    let (marking, reaction) = (marking.kind(), reaction.kind());
    (marks != reacts).then(|| {
        format!("This is a hybrid: the marking rule `{marking}` is one of {marks}, and the reaction `{reaction}` one of {reacts}.")
    })
}

fn control(story: &Story) -> Vec<String> {
    let meters = story.meters;
    if story.parts.marking == Marking::None {
        return Vec::new();
    }
    if story.parts.marking.stamps() {
        return vec![
            "Switches wrote telemetry into data packets, and acknowledgements returned it.".to_owned(),
        ];
    }
    let percent = |packets: u64| 100.0 * packets as f64 / meters.packets_delivered.max(1) as f64;
    let validated = if story.parts.marking.validates() {
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

fn pauses(story: &Story) -> Option<String> {
    let pauses = story.pauses?;
    let Some(link) = &pauses.longest_link else { return Some("No lane was paused.".into()) };
    let lanes = if pauses.lanes == 1 { "one lane".to_owned() } else { format!("{} lanes", pauses.lanes) };
    let times =
        if pauses.pause_frames == 1 { "once".to_owned() } else { format!("{} times", pauses.pause_frames) };
    let longest = pauses.longest_ns / 1_000.0;
    Some(format!("Pause frames stopped {lanes} {times}; the longest pause, of {link}, took {longest:.1} us."))
}

fn retries(story: &Story) -> Option<String> {
    let RetrySummary { frames, replayed, bad, timeouts, .. } = *story.retries?;
    let expired = if timeouts == 1 { "once".to_owned() } else { format!("{timeouts} times") };
    Some(format!(
        "Of {frames} frames on links, {bad} were bad; {replayed} were sent again, and timers of links expired {expired}."
    ))
}

fn losses(story: &Story) -> Option<String> {
    let LossSummary { links, data_packets, control_packets, payload_bytes, recovery, dropped_packets } =
        *story.losses?;
    let again = match recovery {
        None => "; they were not sent again".to_owned(),
        Some(RecoverySummary { resent_packets, discarded_packets, timeouts, .. }) => format!(
            "; {resent_packets} packets were sent again, {discarded_packets} were discarded by receivers, and timeouts expired \
             {timeouts} times"
        ),
    };
    let dropped = dropped_packets.map(|count| format!("; {count} of them were dropped at full buffers"));
    let dropped = dropped.unwrap_or_default();
    let stuck = story.stuck.map(|what| format!(" At the end, this waited indefinitely: {what}."));
    if links == 0 && recovery.is_none_or(|recovery| recovery.resent_packets == 0) {
        return Some(format!("No packet was lost.{}", stuck.unwrap_or_default()));
    }
    Some(format!(
        "{data_packets} data packets with {payload_bytes} B of payload and {control_packets} control packets were lost on {links} \
         links, of which each direction counts{dropped}{again}.{}",
        stuck.unwrap_or_default()
    ))
}

fn reordering(story: &Story) -> Option<String> {
    if !story.config.may_reorder() {
        return None;
    }
    let (found, delivered) = (story.meters.reordering, story.meters.packets_delivered.max(1));
    Some(format!(
        "{} packets arrived after a later packet of their flow ({:.2} % of those delivered); hosts held up to {} bytes \
         until earlier packets had arrived.",
        found.late,
        100.0 * found.late as f64 / delivered as f64,
        found.most_bytes
    ))
}

fn trimming(story: &Story) -> Option<String> {
    story.config.switch.trimming.as_ref()?;
    let meters = story.meters;
    if meters.trimmed == 0 {
        return Some("No packet was trimmed.".into());
    }
    Some(format!(
        "Switches trimmed {} data packets ({:.2} % of those injected), and sources sent {} packets again; up to {} bytes of \
         headers and other control packets waited for one output.",
        meters.trimmed,
        100.0 * meters.trimmed as f64 / meters.packets_injected.max(1) as f64,
        meters.resent,
        meters.most_header_bytes
    ))
}

/// With selective repeat, only lost packets and those whose receipts were lost should be sent again.
fn too_short_timeout(story: &Story) -> Option<String> {
    let (losses, recovery) = (story.losses?, story.config.recovery.as_ref()?);
    let resent = losses.recovery?.resent_packets;
    let needed = losses.data_packets + losses.control_packets;
    (recovery.repeats_only_lost() && resent > 2 * needed).then(|| {
        format!(
            "Of {resent} packets that were sent again, at most {needed} were lost or lost their receipt: recovery.timeout ({}) \
             is shorter than packets and receipts wait.",
            recovery.timeout
        )
    })
}

fn warnings(story: &Story) -> Vec<String> {
    let meters = story.meters;
    let Components { marking, reaction, .. } = story.parts;
    let mut warnings = Vec::new();
    if story.stopped_early {
        warnings.push(format!(
            "The run was stopped at {} of {}: averages cover the completed part.",
            story.now, story.config.duration
        ));
    }
    let (marks, reacts) = (*marking != Marking::None, *reaction != Reaction::None);
    if marking.stamps() && !reaction.properties().reads_telemetry {
        warnings.push("Telemetry had no effect: congestion.reaction does not use it.".into());
    }
    if !marks && reacts && !reaction.properties().acts_without_marks {
        warnings
            .push("The reaction had no effect: congestion.marking is none, so no source is notified.".into());
    }
    if marks && !marking.stamps() && !reaction.properties().reads_marks {
        warnings.push("Marks had no effect: congestion.reaction does not use them.".into());
    }
    if marks && !marking.stamps() && meters.fecn_marks == 0 {
        warnings.push("Congestion control had no effect: no packet was marked.".into());
    } else if meters.fecn_marks > 0 && meters.becn_received == 0 {
        warnings.push("No notification reached its source before the end of the run.".into());
    }
    for (number, class) in meters.classes.iter().enumerate() {
        // Jobs are reported separately, and a job on a single host sends nothing over the network.
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
    if let Some(forest) = story.forest.map(|judged| &judged.forest).filter(|forest| forest.unrecorded > 0) {
        warnings.push(format!(
            "The table tree_links was full after {} of {} samples; increase measure.interval, or switch off \
             measure.forest.",
            forest.samples - forest.unrecorded,
            forest.samples
        ));
    }
    if story.isolation.is_some_and(|isolation| isolation.allocate == 0) {
        warnings.push("Isolation had no effect: no queue was ever above its thresholds.".into());
    }
    if let [(first, longest), others @ ..] = story.long_pauses {
        let others = match others.len() {
            0 => String::new(),
            1 => ", and one other lane was paused for longer than flow_control.watchdog, too".to_owned(),
            count => {
                format!(", and {count} other lanes were paused for longer than flow_control.watchdog, too")
            }
        };
        warnings
            .push(format!("Pause watchdog: {first} was paused for {longest} without interruption{others}."));
    }
    warnings.extend(too_short_timeout(story));
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_name_six_or_the_first_five() {
        let names = |count: usize| (1..=count).map(|at| format!("n{at}")).collect::<Vec<_>>();
        let listed = [0, 1, 2, 3, 6, 7].map(|count| list(&names(count)));
        let expected = [
            "",
            "n1",
            "n1 and n2",
            "n1, n2 and n3",
            "n1, n2, n3, n4, n5 and n6",
            "n1, n2, n3, n4, n5 and 2 others",
        ];
        assert_eq!(listed, expected);
        assert_eq!((share(1, 4).as_str(), share(0, 0).as_str()), ("25 %", "0 %"));
    }
}
