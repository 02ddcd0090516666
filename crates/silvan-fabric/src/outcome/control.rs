//! How switches served and marked packets, and settings of congestion control that had no effect.

use silvan_congestion::Components;
use silvan_congestion::marking::Marking;
use silvan_congestion::reaction::Reaction;
use silvan_congestion::round_trip::RoundTrip;
use silvan_engine::saved::Saved;

use super::section::{Ending, Recording, Section, SectionResult};
use crate::config::Arbitration;

/// Congestion control.
#[derive(Saved)]
pub(crate) struct ControlSection;

impl Section for ControlSection {
    type Entry = ();

    fn new(_: &Recording) -> Option<Self> {
        Some(Self)
    }

    fn close(self, end: &mut Ending) -> SectionResult<()> {
        let account = arbitration(end)
            .into_iter()
            .chain(hybrid(end))
            .chain(end.round_trip.map(|trip| round_trip(trip, end)))
            .chain(marks(end))
            .collect();
        SectionResult { account, warnings: warnings(end), ..SectionResult::default() }
    }
}

/// Describes how outputs served packets, if the scenario has a component of Ethernet.
fn arbitration(end: &Ending) -> Option<String> {
    let component = end.config.ethernet()?;
    Some(match end.config.arbitration() {
        Arbitration::Fcfs => format!(
            "Outputs of switches served packets in the order of their arrival (\"fcfs\"), as on Ethernet ({component})."
        ),
        Arbitration::RoundRobin => format!(
            "Outputs of switches did not serve packets in the order of their arrival, unlike those of Ethernet ({component}): \
             switch.arbitration is \"round-robin\"."
        ),
    })
}

/// Names the marking rule and the reaction if they belong to different link layers.
fn hybrid(end: &Ending) -> Option<String> {
    let Components { marking, reaction, .. } = end.parts;
    let (marks, reacts) = (marking.link_layer()?, reaction.properties().link_layer?);
    let (marking, reaction) = (marking.kind(), reaction.kind());
    (marks != reacts).then(|| {
        format!("This is a hybrid: the marking rule `{marking}` is one of {marks}, and the reaction `{reaction}` one of {reacts}.")
    })
}

/// Names the longest of the round trips that determine default values.
fn round_trip((longest, groups): (RoundTrip, usize), end: &Ending) -> String {
    let RoundTrip { shortest, pair: (from, to), .. } = longest;
    let host = |host: u32| end.names.hosts[host as usize].as_str();
    let which = match groups {
        1 => "the longest one".to_owned(),
        count => format!("the longest one of {count} groups of hosts without traffic between them"),
    };
    format!(
        "Default values of congestion control follow from round trips on the empty network; {which} takes {shortest}, from {} to \
         {} and back.",
        host(from),
        host(to)
    )
}

fn marks(end: &Ending) -> Vec<String> {
    let meters = end.view.totals;
    if end.parts.marking == Marking::None {
        return Vec::new();
    }
    if end.parts.marking.stamps() {
        return vec![
            "Switches wrote telemetry into data packets, and acknowledgements returned it.".to_owned(),
        ];
    }
    let percent = |packets: u64| 100.0 * packets as f64 / meters.packets_delivered.max(1) as f64;
    let validated = if end.parts.marking.validates() {
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

fn warnings(end: &Ending) -> Vec<String> {
    let meters = end.view.totals;
    let Components { marking, reaction, .. } = end.parts;
    let mut warnings = Vec::new();
    let (marks, reacts) = (*marking != Marking::None, *reaction != Reaction::None);
    let properties = reaction.properties();
    if marking.stamps() && !properties.reads_telemetry {
        warnings.push("Telemetry had no effect: congestion.reaction does not use it.".into());
    }
    if !marks && reacts && !properties.acts_without_marks {
        warnings
            .push("The reaction had no effect: congestion.marking is none, so no source is notified.".into());
    }
    if marks && !marking.stamps() && !properties.reads_marks {
        warnings.push("Marks had no effect: congestion.reaction does not use them.".into());
    }
    if marks && !marking.stamps() && meters.fecn_marks == 0 {
        let what = if properties.acts_without_marks { "Marks" } else { "Congestion control" };
        warnings.push(format!("{what} had no effect: no packet was marked."));
    } else if meters.fecn_marks > 0 && meters.becn_received == 0 {
        warnings.push("No notification reached its source before the end of the run.".into());
    }
    warnings
}
