//! Traffic that waits for other traffic, and traffic that did not start or arrive.

use schemars::JsonSchema;
use serde::Serialize;
use silvan_engine::Time;
use silvan_engine::saved::Saved;

use super::section::{Ending, Recording, Section, SectionResult};

/// Traffic that starts after a given number of data packets has been delivered in the whole network.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TriggerSummary {
    /// Name of the flow or traffic pattern.
    pub class: String,
    /// Number of delivered packets after which the traffic starts.
    pub after_packets: u64,
    /// Time at which the traffic started, ns; None if it did not start.
    pub started_ns: Option<u64>,
}

/// Starts of traffic.
#[derive(Saved)]
pub(crate) struct TriggerSection;

impl Section for TriggerSection {
    type Entry = Vec<TriggerSummary>;

    fn new(_: &Recording) -> Option<Self> {
        Some(Self)
    }

    fn close(self, end: &mut Ending) -> SectionResult<Self::Entry> {
        let classes = &end.view.totals.classes;
        // All partitions have the same triggers.
        let triggers = end.view.partitions.iter().take(1).flat_map(|partition| partition.triggers.iter());
        let triggers = triggers.map(|trigger| TriggerSummary {
            class: classes[usize::from(trigger.class)].name.clone(),
            after_packets: trigger.after_packets,
            started_ns: trigger.started.map(|time| time.0 / 1_000),
        });
        let entry: Vec<TriggerSummary> = triggers.collect();
        let started = entry.iter().filter_map(|trigger| {
            let (class, after) = (&trigger.class, trigger.after_packets);
            let started = Time::from_ns(trigger.started_ns?);
            Some(format!("`{class}` started at {started}, when {after} packets had been delivered."))
        });
        SectionResult {
            account: started.collect(),
            warnings: warnings(&entry, end),
            entry,
            ..SectionResult::default()
        }
    }
}

fn warnings(triggers: &[TriggerSummary], end: &Ending) -> Vec<String> {
    let meters = end.view.totals;
    let mut warnings = Vec::new();
    for (number, class) in meters.classes.iter().enumerate() {
        // Jobs are reported separately, and a job on a single host sends nothing over the network.
        if number >= usize::from(meters.jobs_from) {
            continue;
        }
        let waits = |trigger: &&TriggerSummary| trigger.class == class.name && trigger.started_ns.is_none();
        if let Some(trigger) = triggers.iter().find(waits) {
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
    if end.config.warmup == Time::ZERO
        && end.config.flows.is_empty()
        && end.config.measure.interval < end.config.duration
    {
        warnings.push("warmup is 0 s: the averages include the empty network's start.".into());
    }
    warnings
}
