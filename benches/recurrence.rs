//! Measures how often the relative state of a network recurs where jobs begin to repeat parts of their programs, and what
//! differs if it does not.
//!
//! ```text
//! cargo run --release -p silvan-scenario --example recurrence -- SCENARIO [KEY=VALUE...]
//! ```
//!
//! Each run prints a row: the scenario, the number of boundaries (docs/internals.md), the number of those that equal one of the
//! eight boundaries before at which as many operations are repeated, the fields that differ at the other boundaries with the
//! number of boundaries, and the reason why nothing can be skipped, if there is one. `...` follows a field after which the states
//! were not compared further.

use std::collections::BTreeMap;
use std::error::Error;
use std::process::ExitCode;

use silvan_scenario::Scenario;

/// Fields that a sample between the boundaries changes. They do not count, because repetitions are searched for between samples.
const OF_SAMPLES: [&str; 3] = ["Handling.next_sample", "Meters.next_sample", "Outputs.next_sample"];

/// Maximum number of fields in a row.
const SHOWN: usize = 20;

fn measure(path: &str, settings: &[(String, String)]) -> Result<(), Box<dyn Error>> {
    let mut settings = settings.to_vec();
    settings.push(("engine.skip".to_owned(), "true".to_owned()));
    let mut simulation = Scenario::load(path, &settings)?.simulation()?;
    let obstacle = simulation.skipped().and_then(|skipped| skipped.obstacle.clone());
    simulation.explain_boundaries();
    while !simulation.advance(1 << 20)?.done {}
    let (mut equal, mut fields) = (0, BTreeMap::<String, u32>::new());
    let boundaries = simulation.explained_boundaries().unwrap_or_default();
    // The first one has no earlier one.
    for boundary in boundaries.iter().skip(1) {
        let found = boundary.iter().filter(|(label, _)| !OF_SAMPLES.contains(label));
        let found: Vec<String> =
            found.map(|(label, ends)| format!("{label}{}", if *ends { "..." } else { "" })).collect();
        equal += u32::from(found.is_empty());
        found.into_iter().for_each(|label| *fields.entry(label).or_default() += 1);
    }
    let mut fields: Vec<(String, u32)> = fields.into_iter().collect();
    fields.sort_by_key(|(label, count)| (std::cmp::Reverse(*count), label.clone()));
    let shown: Vec<String> =
        fields.iter().take(SHOWN).map(|(label, count)| format!("{label} ({count})")).collect();
    let more = fields.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(", {more} others") } else { String::new() };
    println!(
        "| {path} | {} | {equal} | {}{more} | {} |",
        boundaries.len(),
        shown.join(", "),
        obstacle.unwrap_or_default()
    );
    Ok(())
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(path) = arguments.next() else {
        eprintln!("recurrence: give the file of a scenario, and perhaps KEY=VALUE");
        return ExitCode::from(2);
    };
    let settings: Option<Vec<(String, String)>> = arguments
        .map(|one| one.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned())))
        .collect();
    let Some(settings) = settings else {
        eprintln!("recurrence: settings have the form KEY=VALUE");
        return ExitCode::from(2);
    };
    match measure(&path, &settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("recurrence: {error}");
            ExitCode::FAILURE
        }
    }
}
