//! The results of a run: a summary, tables, and an account in sentences. The list at the end of this file
//! names all [`Section`]s.

mod announced;
mod base;
mod congestion_log;
mod control;
mod faults;
mod ideal;
mod isolation;
mod jobs;
mod pauses;
mod reordering;
mod retries;
mod section;
mod skipping;
mod transfers;
mod trees;
mod triggers;
mod trimming;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use silvan_engine::saved::Saved;

pub use base::{ClassSummary, FlowSummary, GroupSummary, HostSummary, MachineSummary, jain};
pub(crate) use base::{Findings, Group, HostPorts, overview};
pub use faults::LossSummary;
pub(crate) use pauses::overflow_in_words;
pub use retries::RetrySummary;
use section::Section;
pub(crate) use section::{ChangeLog, Ending, Recording, TransferPlan};
pub use section::{Expected, Spared};
pub use skipping::{SkippedInterval, SkippingSummary};

pub use crate::jobs::JobSummary;
pub use crate::observe::LatencySummary;
use crate::observe::{LATENCY, SERIES};
use crate::partition::View;
use crate::table::Described;
pub use crate::table::{Column, ColumnDescription, Table, TableDescription, Values};

/// The results of a completed run.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Totals and averages.
    pub summary: Summary,
    /// Time series, histograms, and the tables of the sections.
    pub tables: Vec<Table>,
    /// A description of the run in sentences.
    pub account: Vec<String>,
    /// Warnings, for example about settings that had no effect.
    pub warnings: Vec<String>,
}

impl Outcome {
    /// The results without what states which repeated work was skipped.
    #[must_use]
    pub fn regardless_of_skipping(mut self) -> Self {
        if let Some(skipping) = self.summary.skipping.take() {
            let sentence = skipping.sentence();
            self.account.retain(|other| *other != sentence);
        }
        self
    }

    /// The results without the parts that depend on the scheduler: its name, the reason for its choice, the
    /// sentence about it, and the number of events.
    #[must_use]
    pub fn regardless_of_scheduler(mut self) -> Self {
        let sentence = self.summary.scheduler.sentence();
        self.account.retain(|line| *line != sentence);
        self.summary.scheduler = SchedulerSummary::default();
        self.summary.events = 0;
        self
    }
}

/// The scheduler that ran the switches.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct SchedulerSummary {
    /// `binned` or `event-ordered`.
    pub kind: &'static str,
    /// Why the event-ordered scheduler ran the switches, as a clause that follows "because"; None otherwise.
    pub reason: Option<&'static str>,
}

impl SchedulerSummary {
    /// A sentence for the account.
    pub(crate) fn sentence(&self) -> String {
        let because = self.reason.map(|reason| format!(", because {reason}")).unwrap_or_default();
        format!("The {} scheduler ran the switches{because}.", self.kind)
    }
}

/// The JSON Schema of the summary as it is serialized.
#[must_use]
pub fn summary_schema() -> schemars::Schema {
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<Summary>()
}

/// Tables that a run has either all or none of.
#[derive(Debug, Clone, Serialize)]
pub struct TableGroup {
    /// Which runs have them, as a clause that follows "a run has it"; empty if all runs do.
    pub when: &'static str,
    /// The tables, in order.
    pub tables: Vec<TableDescription>,
}

/// An entry of the summary that only some runs have.
trait SummaryEntry {
    fn is_absent(&self) -> bool;
}

impl<T> SummaryEntry for Option<T> {
    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl<T> SummaryEntry for Vec<T> {
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

/// Defines the summary from the keys that all runs have, and a list of sections: `name: section`, followed,
/// if the summary has a key of that name, by `=>`, the documentation of the key, and its type.
macro_rules! sections {
    (
        $(#[$doc:meta])*
        always { $($always:tt)* }
        $($name:ident: $section:ty $(=> $(#[$of_key:meta])* $entry:ty)?;)*
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
        pub struct Summary {
            $($always)*
            $($(
                $(#[$of_key])*
                #[serde(skip_serializing_if = "SummaryEntry::is_absent")]
                pub $name: $entry,
            )?)*
        }

        /// The sections of a run.
        #[derive(Default, Saved)]
        pub(crate) struct Sections {
            $(pub $name: Option<$section>,)*
        }

        impl Sections {
            pub fn new(of: &Recording) -> Self {
                Self { $($name: <$section>::new(of),)* }
            }

            /// Records the interval that ends now.
            pub fn sample(&mut self, view: View) {
                $(if let Some(section) = &mut self.$name {
                    section.sample(view);
                })*
            }

            /// Adds the results of all sections.
            pub fn close(self, end: &mut Ending, outcome: &mut Outcome) {
                $(if let Some(section) = self.$name {
                    let part = section.close(end);
                    $(outcome.summary.$name = { let entry: $entry = part.entry; entry };)?
                    outcome.tables.extend(part.tables);
                    outcome.account.extend(part.account);
                    outcome.warnings.extend(part.warnings);
                })*
            }
        }

        /// All tables of results.
        #[must_use]
        pub fn tables() -> Vec<TableGroup> {
            let of = |when, tables: &[&dyn Described]| TableGroup {
                when,
                tables: tables.iter().map(|table| table.describe()).collect(),
            };
            let mut groups = vec![of("", &[&SERIES[..], &[&LATENCY]].concat())];
            groups.extend([$(of(<$section>::WHEN, <$section>::TABLES)),*].into_iter().filter(|group| !group.tables.is_empty()));
            groups
        }
    };
}

sections! {
    /// Totals over a run, and averages from the end of the warm-up to its end.
    always {
        /// Simulated time, ns.
        pub simulated_ns: u64,
        /// Start of the time that averages cover, ns; 0 if the run ended during the warm-up. This time lasts
        /// until the end of the run.
        pub averages_from_ns: u64,
        /// The scheduler that ran the switches. Of the other results, only the number of events depends on
        /// it.
        pub scheduler: SchedulerSummary,
        /// Number of processed events.
        pub events: u64,
        /// Number of packet hops: each packet counts once per link that it crosses.
        pub packet_hops: u64,
        /// Number of injected data packets.
        pub packets_injected: u64,
        /// Number of delivered data packets.
        pub packets_delivered: u64,
        /// Number of data packets inside the network at the end.
        pub packets_inside: u64,
        /// Payload that all hosts together received on average, Gbit/s.
        pub throughput_gbit_s: f64,
        /// Jain's index of the received throughput of hosts that are destinations; 1 without any.
        pub jain_hosts: f64,
        /// Jain's index of the throughput of named flows that have no total and do not stop before the end; 1
        /// without any.
        pub jain_flows: f64,
        /// Number of data packets that switches marked (FECN).
        pub fecn_marks: u64,
        /// Number of notifications that reached their source (BECN).
        pub becn_received: u64,
        /// Received and sent throughput per host.
        pub hosts: Vec<HostSummary>,
        /// Received throughput per named flow.
        pub flows: Vec<FlowSummary>,
        /// Delivered traffic per class.
        pub classes: Vec<ClassSummary>,
        /// Latency per class of traffic.
        pub latency: Vec<LatencySummary>,
        /// Averages over groups of hosts, such as the hotspots or the victims of a forest.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub groups: Vec<GroupSummary>,
        /// Averages of hosts with several ports. The other results refer to their ports.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub machines: Vec<MachineSummary>,
        /// Repeated work that was skipped, with `engine.skip`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub skipping: Option<SkippingSummary>,
    }

    triggers: triggers::TriggerSection =>
        /// Traffic that starts after a given number of deliveries.
        Vec<triggers::TriggerSummary>;
    trees: trees::TreeSection;
    control: control::ControlSection;
    isolation: isolation::IsolationSection =>
        /// Use of special queues, if there are any.
        Option<isolation::IsolationSummary>;
    pauses: pauses::PauseSection =>
        /// Pauses of virtual lanes, with pause frames or on/off messages.
        Option<pauses::PauseSummary>;
    retries: retries::RetrySection =>
        /// Frames that were sent again, with link-level retry.
        Option<RetrySummary>;
    events: faults::ChangeSection;
    losses: faults::LossSection =>
        /// Packets that were lost, if links may lose packets during the run or lanes are lossy.
        Option<LossSummary>;
    recoveries: faults::RecoverySection;
    reordering: reordering::ReorderingSection =>
        /// Packet reordering, if packets of a flow may overtake each other.
        Option<reordering::ReorderingSummary>;
    trimming: trimming::TrimmingSection =>
        /// Packets that switches trimmed, with packet trimming.
        Option<trimming::TrimmingSummary>;
    jobs: jobs::JobSection =>
        /// Results of each job.
        Vec<JobSummary>;
    announced: announced::AnnouncedSection =>
        /// Flows that are announced before they start, if there are such flows.
        Option<announced::AnnouncedSummary>;
    transfers: transfers::Completions =>
        /// Completion times of transfers, if they are recorded.
        Option<transfers::TransferSummary>;
    congestion_log: congestion_log::LogSection =>
        /// Totals of the congestion logs, if there are such logs.
        Option<congestion_log::CongestionLogSummary>;
}
