//! One scenario and its runs: reading, advancing in slices, finishing, and hashing.

use std::cell::RefCell;
use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use serde_json::Value as Json;
use silvan_engine::Time;
use silvan_fabric::config::Scheduler;
use silvan_fabric::outcome::{Outcome, Table as Rows, Values};
use silvan_fabric::simulation::{ModelError, Simulation};
use silvan_fabric::{RecordPlan, RunRecord};
use silvan_scenario::checkpoint::{Checkpoint, Saver, Written};
use silvan_scenario::{Scenario, ScenarioError};
use toml::Table;

use crate::draw::{FABRICS, draw};

/// Random scenarios need far fewer events. A run that reaches this number is reported.
const MOST_EVENTS: u64 = 6_000_000;
const SLICE: u64 = 200_000;
/// Attempts per seed to generate a valid scenario.
const MOST_ATTEMPTS: u64 = 60;

/// The result of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// The run reached its duration.
    Done,
    /// The run stopped with a typed error that explains why it cannot continue.
    Explained(&'static str, String),
    /// The run failed in a way that must not happen: a panic or a broken invariant.
    Failed(&'static str, String),
    /// The run has reached `MOST_EVENTS`.
    Costly,
}

impl End {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Explained(name, _) | Self::Failed(name, _) => name,
            Self::Costly => "costly",
        }
    }
}

/// Result of a run.
pub struct Run {
    pub end: End,
    /// `None` if the run failed or stopped with an error.
    pub outcome: Option<Outcome>,
}

/// A random scenario that the loader accepted.
pub struct Case {
    pub attempt: u64,
    pub table: Table,
    pub scenario: Scenario,
    /// Reasons why earlier attempts were rejected.
    pub refused: Vec<String>,
}

thread_local! {
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Suppresses the output of panics in cases; their messages become part of the report.
pub fn install_hook() {
    std::panic::set_hook(Box::new(|info| {
        let text = info.to_string().replace('\n', " ");
        PANIC.with(|panic| *panic.borrow_mut() = Some(text));
    }));
}

/// Runs `work`; the error is the message of a panic.
pub fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| {
        let said = PANIC.with(|panic| panic.borrow_mut().take());
        said.unwrap_or_else(|| "panicked".to_owned())
    })
}

/// Reads a scenario. The outer error is a panic.
pub fn read(table: &Table) -> Result<Result<Scenario, String>, String> {
    let text = toml::to_string(table).unwrap_or_default();
    read_text(&text)
}

pub fn read_text(text: &str) -> Result<Result<Scenario, String>, String> {
    guarded(|| Scenario::from_toml(text, "swarm", Path::new(FABRICS), &[]).map_err(|error| error.to_string()))
}

/// Checks whether the scenario can be simulated. The outer error is a panic.
fn can_run(scenario: &Scenario) -> Result<Result<(), String>, String> {
    guarded(|| scenario.simulation().map(|_| ()).map_err(|error| error.to_string()))
}

/// The first valid scenario of a seed. The error is a failure: a panic on some input.
pub fn of_seed(seed: u64) -> Result<Option<Case>, (Table, String)> {
    let mut refused = Vec::new();
    for attempt in 0..MOST_ATTEMPTS {
        let table = draw(seed, attempt);
        match read(&table).map_err(|panic| (table.clone(), panic))? {
            Err(why) => refused.push(why),
            Ok(scenario) => match can_run(&scenario).map_err(|panic| (table.clone(), panic))? {
                Err(why) => refused.push(why),
                Ok(()) => return Ok(Some(Case { attempt, table, scenario, refused })),
            },
        }
    }
    Ok(None)
}

/// Runs a scenario to its end, with the binned scheduler if possible, regardless of the size of the network.
pub fn run(scenario: &Scenario) -> Run {
    run_with(scenario, Scheduler::BinnedIfPossible)
}

/// Creates a run with the given scheduler.
pub fn simulation_with(scenario: &Scenario, scheduler: Scheduler) -> Result<Simulation, ScenarioError> {
    let mut scenario = scenario.clone();
    scenario.spec.scheduler = scheduler;
    scenario.simulation()
}

/// Runs a scenario to its end with the given scheduler.
pub fn run_with(scenario: &Scenario, scheduler: Scheduler) -> Run {
    match guarded(|| advance(scenario, scheduler)) {
        Ok(run) => run,
        Err(panic) => Run { end: End::Failed("panic", panic), outcome: None },
    }
}

/// Runs a scenario to its end, and records all departures of packets. There is no recording of a run with an error.
pub fn run_recorded(scenario: &Scenario, scheduler: Scheduler) -> (Run, Option<RunRecord>) {
    let mut scenario = scenario.clone();
    scenario.spec.scheduler = scheduler;
    let plan = RecordPlan { from: Time::ZERO, until: Time::NEVER, most: usize::MAX };
    let mut recording = None;
    let mut take = |simulation: &mut Simulation| recording = Some(simulation.take_recording());
    let run = match guarded(|| scenario.recorded(plan).map(|simulation| ends(simulation, &mut take))) {
        Ok(Ok(run)) => run,
        Ok(Err(error)) => Run { end: End::Explained("refused", error.to_string()), outcome: None },
        Err(panic) => Run { end: End::Failed("panic", panic), outcome: None },
    };
    (run, recording)
}

fn advance(scenario: &Scenario, scheduler: Scheduler) -> Run {
    match simulation_with(scenario, scheduler) {
        Ok(simulation) => to_the_end(simulation),
        Err(error) => Run { end: End::Explained("refused", error.to_string()), outcome: None },
    }
}

fn to_the_end(simulation: Simulation) -> Run {
    ends(simulation, &mut |_| ())
}

/// Runs to the end, and calls a function with the state there.
fn ends(mut simulation: Simulation, last: &mut dyn FnMut(&mut Simulation)) -> Run {
    let end = loop {
        match simulation.advance(SLICE) {
            Ok(progress) if progress.done => break End::Done,
            Ok(progress) if progress.events > MOST_EVENTS => break End::Costly,
            Ok(_) => {}
            Err(error) => return Run { end: explained(&error), outcome: None },
        }
    };
    last(&mut simulation);
    closed(simulation, end)
}

/// Runs a scenario like [`run_with`], but twice saves the run and continues the saved copy. The seed
/// determines the first place. `events` is the number of events of the whole run.
pub fn run_interrupted(scenario: &Scenario, scheduler: Scheduler, events: u64) -> Run {
    let mut scenario = scenario.clone();
    scenario.spec.scheduler = scheduler;
    match guarded(|| interrupt(&scenario, events)) {
        Ok(run) => run,
        Err(panic) => Run { end: End::Failed("panic", panic), outcome: None },
    }
}

fn interrupt(scenario: &Scenario, events: u64) -> Run {
    let refused = |error: ScenarioError| Run { end: End::Failed("resume", error.to_string()), outcome: None };
    let written = Written {
        text: String::new(),
        origin: "swarm".to_owned(),
        base_dir: FABRICS.to_owned(),
        overrides: Vec::new(),
    };
    let (mut simulation, mut saver) = match Saver::of(scenario, written) {
        Ok(run) => run,
        Err(error) => return Run { end: End::Explained("refused", error.to_string()), outcome: None },
    };
    // The fraction of the golden ratio spreads consecutive seeds evenly.
    let share = scenario.spec.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44;
    let first = (events * share) >> 20;
    for slice in [first, (events - first) / 2] {
        match simulation.advance(slice) {
            Ok(progress) if progress.done => return closed(simulation, End::Done),
            Ok(_) => {}
            Err(error) => return Run { end: explained(&error), outcome: None },
        }
        let mut bytes = Vec::new();
        if let Err(error) = saver.write(&simulation, &mut bytes) {
            return Run { end: End::Failed("resume", error.to_string()), outcome: None };
        }
        let read = Checkpoint::read(Box::new(Cursor::new(bytes)), Path::new("checkpoint"));
        (simulation, saver) = match read.and_then(|checkpoint| checkpoint.resume(scenario)) {
            Ok(run) => run,
            Err(error) => return refused(error),
        };
    }
    to_the_end(simulation)
}

fn closed(simulation: Simulation, end: End) -> Run {
    match simulation.finish() {
        Ok(outcome) => Run { end, outcome: Some(outcome) },
        Err(error) => Run { end: explained(&error), outcome: None },
    }
}

fn explained(error: &ModelError) -> End {
    match error {
        ModelError::Broken { .. } => End::Failed("broken", error.to_string()),
        // Random scenarios have at least the derived headroom.
        ModelError::Overflow { .. } => End::Failed("overflow", error.to_string()),
        ModelError::PausedTooLong { .. } => End::Explained("watchdog", error.to_string()),
        ModelError::Deadlock { .. } => End::Explained("deadlock", error.to_string()),
        ModelError::Stalled { .. } => End::Explained("stalled", error.to_string()),
        // Random scenarios permit far more replays than errors can cause.
        ModelError::LinkFailed { .. } => End::Failed("link failed", error.to_string()),
        ModelError::Configuration(_) => End::Explained("refused", error.to_string()),
    }
}

/// A hash that does not depend on the platform (FNV-1a).
#[derive(Clone, Copy)]
pub struct Hash(pub u64);

impl Hash {
    pub fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

/// The summary without quantities that depend on the simulator (such as wall time).
pub fn summary(outcome: &Outcome) -> Json {
    let mut json = serde_json::to_value(&outcome.summary).unwrap_or_default();
    if let Json::Object(keys) = &mut json {
        // `remove` would change the order of the other keys.
        keys.shift_remove("scheduler");
        keys.remove("events");
    }
    json
}

/// Tables about congestion trees. Older builds do not have them.
pub const OF_TREES: [&str; 5] = ["trees", "tree_links", "contributors", "victims", "wiring"];

/// The prefix of the tables and of the entry of the summary about congestion logs. Older builds do not have
/// them.
const LOGS: &str = "congestion_log";

/// Adds the summary and tables to a hash, except those that older builds do not have.
pub fn digest_beside_older(run: &Run, hash: &mut Hash) {
    hash.add(run.end.name().as_bytes());
    let Some(outcome) = &run.outcome else { return };
    let mut summary = summary(outcome);
    if let Json::Object(keys) = &mut summary {
        keys.remove(LOGS);
    }
    hash.add(summary.to_string().as_bytes());
    let is_newer = |table: &&Rows| OF_TREES.contains(&table.name) || table.name.starts_with(LOGS);
    outcome.tables.iter().filter(|table| !is_newer(table)).for_each(|table| add_table(table, hash));
}

fn add_table(table: &Rows, hash: &mut Hash) {
    hash.add(table.name.as_bytes());
    for column in &table.columns {
        hash.add(column.name.as_bytes());
        match &column.values {
            Values::U64(values) => values.iter().for_each(|value| hash.add(&value.to_le_bytes())),
            Values::U32(values) => values.iter().for_each(|value| hash.add(&value.to_le_bytes())),
            Values::F64(values) => {
                // All NaN values represent missing data, whatever their bits.
                let bits = |value: &f64| if value.is_nan() { u64::MAX } else { value.to_bits() };
                values.iter().for_each(|value| hash.add(&bits(value).to_le_bytes()));
            }
            Values::Name { codes, names } => {
                codes.iter().for_each(|value| hash.add(&value.to_le_bytes()));
                names.iter().for_each(|name| hash.add(name.as_bytes()));
            }
        }
    }
}

/// A hash for each table about congestion trees, over several runs of one scenario; `None` for a table that
/// no run has.
pub fn digests_of_trees(runs: &[&Run]) -> [Option<u64>; OF_TREES.len()] {
    let tables = runs.iter().filter_map(|run| run.outcome.as_ref()).flat_map(|outcome| &outcome.tables);
    let tables: Vec<&Rows> = tables.collect();
    OF_TREES.map(|name| {
        let mut own = tables.iter().filter(|table| table.name == name).peekable();
        own.peek()?;
        let mut hash = Hash::new();
        own.for_each(|table| add_table(table, &mut hash));
        Some(hash.0)
    })
}

/// A hash of the summary and all tables of a run. It is equal if everything users can see is equal.
pub fn digest_of(run: &Run) -> u64 {
    let mut hash = Hash::new();
    digest_beside_older(run, &mut hash);
    if let Some(outcome) = &run.outcome {
        let is_newer = |table: &&Rows| OF_TREES.contains(&table.name) || table.name.starts_with(LOGS);
        outcome.tables.iter().filter(is_newer).for_each(|table| add_table(table, &mut hash));
        if let Some(logs) = &outcome.summary.congestion_log {
            hash.add(serde_json::to_string(logs).unwrap_or_default().as_bytes());
        }
    }
    hash.0
}
