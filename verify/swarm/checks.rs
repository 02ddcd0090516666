//! Properties that every scenario must have; see `verify/README.md`, "The swarm".

use silvan_fabric::RunRecord;
use silvan_fabric::config::{FlowControl, Scheduler};
use silvan_fabric::outcome::{Outcome, Table as Rows, Values};
use silvan_scenario::jobs::Program;
use silvan_scenario::{Scenario, Threads};
use toml::Table;

use crate::case::{
    Case, End, Hash, OF_TREES, Run, digest_beside_older, digest_of, digests_of_trees, read, read_text, run,
    run_interrupted, run_recorded, run_with, simulation_with, summary,
};
use crate::{accounting, explained, finish, variants};

/// A failed check.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    pub check: &'static str,
    pub what: String,
    /// The scenario that fails, if it is a variant of the generated one.
    pub variant: Option<Variant>,
}

impl Failure {
    pub fn new(check: &'static str, what: impl Into<String>) -> Self {
        Self { check, what: what.into(), variant: None }
    }
}

/// All checks by name.
pub const CHECKS: [&str; 32] = [
    "panic",
    "broken",
    "deadlock",
    "stalled",
    "repeat",
    "engine",
    "threads",
    "recorded",
    "explained",
    "resume",
    "resolved",
    "defaults",
    "measure",
    "order",
    "prefix",
    "finish",
    "jobs",
    "skip",
    "skipped",
    "stored",
    "rdma",
    "ecmp",
    "sources",
    "trimming",
    "lids",
    "events",
    "books",
    "nan",
    "sums",
    "rates",
    "utilisation",
    "latency",
];

/// Fingerprint of a scenario's runs, for the comparison of two builds.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct Fingerprint {
    /// Hash over the summary and the tables that every build has.
    pub hash: u64,
    /// Hash by table of [`OF_TREES`].
    pub trees: [Option<u64>; OF_TREES.len()],
}

impl Fingerprint {
    fn of(base: &Run, drained: Option<&Run>) -> Self {
        let runs: Vec<&Run> = [base].into_iter().chain(drained).collect();
        let mut hash = Hash::new();
        runs.iter().for_each(|run| digest_beside_older(run, &mut hash));
        Self { hash: hash.0, trees: digests_of_trees(&runs) }
    }
}

/// Results of the checks of a scenario.
#[derive(Default)]
pub struct Findings {
    pub failures: Vec<Failure>,
    /// Checks that were made. Checks that do not apply to a scenario are not made.
    pub made: Vec<&'static str>,
    /// Results of the run and the drained run.
    pub ends: Vec<String>,
    /// Fingerprint of both runs.
    pub fingerprint: Fingerprint,
    /// The variant that is being checked.
    pub variant: Option<Variant>,
}

/// A scenario that was derived from a generated one.
#[derive(Debug, Clone, PartialEq)]
pub struct Variant {
    /// `plain`, or the check that makes the variant.
    pub kind: &'static str,
    pub table: Table,
}

/// Selects the checks.
pub struct Wanted<'w> {
    /// A single check, for minimizing.
    pub only: Option<&'static str>,
    /// Checks that are skipped.
    pub skip: &'w [String],
}

impl Wanted<'_> {
    fn has(&self, check: &str) -> bool {
        self.only.is_none_or(|only| only == check) && !self.skip.iter().any(|skip| skip == check)
    }
}

impl Findings {
    pub fn fail(&mut self, check: &'static str, what: impl Into<String>) {
        self.failures.push(Failure { variant: self.variant.clone(), ..Failure::new(check, what) });
    }

    pub fn ensure(&mut self, fine: bool, check: &'static str, what: impl FnOnce() -> String) {
        if !fine {
            self.fail(check, what());
        }
    }

    /// Records how a run ended; returns whether it can be compared with others.
    fn ended(&mut self, run: &Run, scenario: &Scenario, of: &str) -> bool {
        self.ends.push(format!("{of} {}", run.end.name()));
        match &run.end {
            End::Failed(check, what) => self.fail(check, format!("{of}: {what}")),
            // A routing without cycles cannot deadlock, and nothing else can block a packet permanently.
            End::Explained(check @ ("deadlock" | "stalled"), what)
                if !scenario.spec.routing.allow_deadlock =>
            {
                self.fail(check, format!("{of}: {what}"));
            }
            _ => {}
        }
        run.end == End::Done
    }
}

/// The base run and the drained run, for the fingerprint only.
pub fn fingerprint(case: &Case) -> Findings {
    let mut findings = Findings::default();
    let base = run(&case.scenario);
    findings.ended(&base, &case.scenario, "run");
    let drained = drain(&case.table, &case.scenario, &mut findings);
    findings.fingerprint = Fingerprint::of(&base, drained.as_ref());
    findings
}

fn drain(table: &Table, scenario: &Scenario, findings: &mut Findings) -> Option<Run> {
    let drained = read(&variants::drained(table, scenario));
    match drained {
        Ok(Ok(long)) => {
            let run = run(&long);
            findings.ended(&run, &long, "drain");
            if let Some(outcome) = &run.outcome
                && run.end == End::Done
            {
                for what in finish::unfinished(&long, outcome) {
                    findings.fail("finish", what);
                }
                findings.made.push("finish");
            }
            Some(run)
        }
        Ok(Err(why)) => {
            findings.ends.push(format!("drain refused: {why}"));
            None
        }
        Err(panic) => {
            findings.fail("panic", panic);
            None
        }
    }
}

/// Makes the checks of one scenario.
pub fn check(case: &Case, wanted: &Wanted<'_>) -> Findings {
    let mut findings = Findings::default();
    let (scenario, table) = (&case.scenario, &case.table);
    let base = run(scenario);
    let is_done = findings.ended(&base, scenario, "run");
    if matches!(base.end, End::Explained("refused", _)) {
        return findings;
    }
    let one = |name: &str| wanted.only == Some(name);
    if let (Some(outcome), true) = (&base.outcome, is_done) {
        accounting::check(scenario, outcome, &mut |check, what| findings.fail(check, what));
        findings.made.extend(["nan", "sums", "rates", "utilisation", "latency"]);
    }
    if wanted.has("repeat") {
        findings.made.push("repeat");
        same(&base, &run(scenario), "repeat", &mut findings);
    }
    if ["engine", "threads", "recorded", "explained"].into_iter().any(|name| wanted.has(name)) {
        schedulers(&base, scenario, wanted, &mut findings);
        plain(variants::plain(table, scenario), wanted, &mut findings);
    }
    if wanted.has("resume") {
        findings.made.push("resume");
        resumed(&base, scenario, Scheduler::BinnedIfPossible, &mut findings);
    }
    if wanted.has("resolved") {
        findings.made.push("resolved");
        resolved(&base, scenario, &mut findings);
    }
    if wanted.has("defaults")
        && let Some(other) = variants::with_defaults(table, scenario)
    {
        findings.made.push("defaults");
        // Some rules refuse rates of hosts.
        if let Ok(Ok(other)) = read(&other) {
            same(&base, &run(&other), "defaults", &mut findings);
        }
    }
    if is_done && wanted.has("measure") {
        measure(&base, (table, scenario), &mut findings);
    }
    if is_done && wanted.has("order") {
        let other = variants::reordered(table, scenario);
        order(&base, other, "order", &mut findings);
    }
    if is_done && wanted.has("prefix") {
        prefix(&base, (table, scenario), &mut findings);
    }
    if is_done {
        for (kind, with) in VARIANTS {
            if wanted.has(kind)
                && let Some(table) = with(table, scenario)
            {
                of_variant(Variant { kind, table }, wanted, &mut findings);
            }
        }
    }
    let all = wanted.only.is_none()
        || one("finish")
        || one("panic")
        || one("broken")
        || one("deadlock")
        || one("stalled");
    let drained = if all { drain(table, scenario, &mut findings) } else { None };
    findings.fingerprint = Fingerprint::of(&base, drained.as_ref());
    findings.failures.retain(|failure| wanted.has(failure.check));
    findings
}

/// Two runs that must be equal, including the number of events and the text of the account.
fn same(base: &Run, other: &Run, check: &'static str, findings: &mut Findings) {
    if base.end != other.end {
        let what = format!("ends differently: {:?}, then {:?}", base.end, other.end);
        return findings.fail(check, what);
    }
    let (Some(one), Some(two)) = (&base.outcome, &other.outcome) else { return };
    findings.ensure(digest_of(base) == digest_of(other), check, || difference(one, two));
    findings.ensure(one.summary.events == two.summary.events, check, || {
        format!("{} events, then {}", one.summary.events, two.summary.events)
    });
    findings.ensure(one.account == two.account, check, || "the account differs".to_owned());
}

/// Compares with the event-ordered scheduler, if the binned one was used, with several threads, and with a run that records
/// departures.
fn schedulers(base: &Run, scenario: &Scenario, wanted: &Wanted<'_>, findings: &mut Findings) {
    let Ok(simulation) = simulation_with(scenario, Scheduler::BinnedIfPossible) else { return };
    let plain = |run: &Run| Run {
        end: run.end.clone(),
        outcome: run.outcome.clone().map(Outcome::regardless_of_scheduler),
    };
    if wanted.has("recorded") || wanted.has("explained") {
        findings.made.push("recorded");
        let (run, recording) = run_recorded(scenario, Scheduler::BinnedIfPossible);
        same(&plain(base), &plain(&run), "recorded", findings);
        if simulation.is_binned()
            && let Some(one) = &recording
            && let (_, Some(other)) = run_recorded(scenario, Scheduler::EventOrdered)
        {
            findings.ensure(*one == other, "recorded", || different_records(one, &other));
        }
        if let Some(recording) = recording.filter(|_| wanted.has("explained")) {
            explained::check(recording, scenario.spec.seed, findings);
        }
    }
    if simulation.is_binned() && wanted.has("engine") {
        findings.made.push("engine");
        let other = run_with(scenario, Scheduler::EventOrdered);
        same(&plain(base), &plain(&other), "engine", findings);
        if wanted.has("resume") {
            resumed(&other, scenario, Scheduler::EventOrdered, findings);
        }
    }
    if simulation.partitions().is_ok() && wanted.has("threads") {
        findings.made.push("threads");
        let mut other = scenario.clone();
        let counts = [2, 3, 5, 7];
        other.spec.threads = Threads::Count(counts[(scenario.spec.seed % 4) as usize]);
        let run = run(&other);
        same(base, &run, "threads", findings);
        if wanted.has("resume") {
            resumed(&run, &other, Scheduler::BinnedIfPossible, findings);
        }
    }
}

/// Where two recordings first differ.
fn different_records(one: &RunRecord, other: &RunRecord) -> String {
    fn first<T: PartialEq + std::fmt::Debug>(name: &str, one: &[T], other: &[T]) -> Option<String> {
        let same = one.iter().zip(other).take_while(|(one, other)| one == other).count();
        (one != other).then(|| {
            let rows = (one.get(same), other.get(same));
            format!("{name} {same} of {} and {}: {:?}, then {:?}", one.len(), other.len(), rows.0, rows.1)
        })
    }
    let by_time = |record: &RunRecord| {
        let mut hops = record.hops.clone();
        hops.sort_by_key(|hop| (hop.start, hop.channel));
        hops
    };
    first("departure", &by_time(one), &by_time(other))
        .or_else(|| first("packet", &one.packets, &other.packets))
        .or_else(|| first("drained packet", &one.drained, &other.drained))
        .or_else(|| first("loss", &one.losses, &other.losses))
        .or_else(|| first("notification", &one.reports, &other.reports))
        .or_else(|| first("wait", &one.waits, &other.waits))
        .or_else(|| first("message", &one.parcels, &other.parcels))
        .unwrap_or_else(|| "the recordings differ in other ways".to_owned())
}

/// Compares with the same run, saved and continued.
fn resumed(base: &Run, scenario: &Scenario, scheduler: Scheduler, findings: &mut Findings) {
    if let Some(outcome) = &base.outcome {
        let other = run_interrupted(scenario, scheduler, outcome.summary.events);
        same(base, &other, "resume", findings);
    }
}

/// Compares the schedulers with a scenario that the binned one supports.
fn plain(table: Table, wanted: &Wanted<'_>, findings: &mut Findings) {
    if let Ok(Ok(scenario)) = read(&table) {
        findings.variant = Some(Variant { kind: "plain", table });
        schedulers(&run(&scenario), &scenario, wanted, findings);
        findings.variant = None;
    }
}

/// Makes a variant of a scenario, if it has one.
type Make = fn(&Table, &Scenario) -> Option<Table>;

/// The checks of variants with other components, which need not be equal to the scenario.
const VARIANTS: [(&str, Make); 9] = [
    ("jobs", |table, scenario| variants::with_jobs(table, scenario).filter(|_| !may_deadlock(scenario))),
    ("skip", |table, scenario| {
        variants::with_repetitions(table, scenario).filter(|_| !may_deadlock(scenario))
    }),
    ("ports", |table, scenario| variants::with_ports(table, scenario).filter(|_| !may_deadlock(scenario))),
    ("rdma", |table, scenario| variants::with_rdma(table, scenario).filter(|_| !may_deadlock(scenario))),
    ("ecmp", variants::with_ecmp),
    ("trimming", variants::with_trimming),
    ("sources", variants::with_sources),
    ("lids", variants::with_lids),
    ("events", variants::with_events),
];

fn may_deadlock(scenario: &Scenario) -> bool {
    scenario.spec.routing.allow_deadlock
}

/// Makes the checks of a variant. Failures contain the variant.
fn of_variant(variant: Variant, wanted: &Wanted<'_>, findings: &mut Findings) {
    let Variant { kind, table } = variant.clone();
    match kind {
        "plain" => return plain(table, wanted, findings),
        "jobs" | "ports" => {
            findings.variant = Some(variant);
            jobs(&table, wanted, findings);
        }
        "skip" => {
            findings.variant = Some(variant);
            skips(&table, findings);
        }
        _ => {
            findings.variant = Some(variant);
            changed(&table, kind, wanted, findings);
        }
    }
    findings.variant = None;
}

/// Repeats the checks of a variant that failed, for minimizing.
pub fn check_variant(variant: &Variant) -> Findings {
    let mut findings = Findings::default();
    of_variant(variant.clone(), &Wanted { only: None, skip: &[] }, &mut findings);
    findings
}

/// Checks a variant with additional jobs: no data is lost, jobs end in a long run, and the scheduler does not
/// change results.
fn jobs(with: &Table, wanted: &Wanted<'_>, findings: &mut Findings) {
    let Some((jobs, outcome)) = variant(with, "jobs", findings) else { return };
    accounting::check(&jobs, &outcome, &mut |check, what| findings.fail(check, what));
    if let Some((_, long)) = variant(&variants::drained(with, &jobs), "jobs", findings) {
        for job in &long.summary.jobs {
            findings.ensure(job.finished_ns.is_some(), "jobs", || {
                format!("job {} has {} operations left", job.job, job.unfinished_operations)
            });
        }
        accounting::check_jobs(&long, &mut |check, what| findings.fail(check, what));
    }
    let base = Run { end: End::Done, outcome: Some(outcome) };
    if wanted.has("resume") {
        resumed(&base, &jobs, Scheduler::BinnedIfPossible, findings);
    }
    stored(&base, &jobs, findings);
    if let Ok(Ok(plain)) = read(&variants::plain(with, &jobs)) {
        let only = Wanted { only: wanted.only.map(|_| "engine"), skip: wanted.skip };
        schedulers(&run(&plain), &plain, &only, findings);
    }
    let only = Wanted { only: Some("threads"), skip: wanted.skip };
    schedulers(&base, &jobs, &only, findings);
}

/// Compares with the same run, in which the traces of jobs are in a temporary file.
fn stored(base: &Run, scenario: &Scenario, findings: &mut Findings) {
    let mut other = scenario.clone();
    let mut are_stored = false;
    for job in &mut other.spec.job {
        if let Program::Trace { in_memory, .. } = &mut job.program {
            *in_memory = Some(0);
            are_stored = true;
        }
    }
    if are_stored {
        findings.made.push("stored");
        same(base, &run(&other), "stored", findings);
    }
}

/// Checks a variant with a job that repeats itself: skipping repeated work does not change results.
fn skips(with: &Table, findings: &mut Findings) {
    let Ok(Ok(mut scenario)) = read(with) else { return };
    let whole = run_with(&scenario, Scheduler::EventOrdered);
    scenario.spec.engine.skip = true;
    let skipped = run_with(&scenario, Scheduler::EventOrdered);
    // A run that is stopped because it has too many events stops elsewhere if it skips some.
    let is_costly = [&whole, &skipped].iter().any(|run| run.end == End::Costly);
    if is_costly || judged(&whole.end, "skip") == Err(None) {
        return;
    }
    findings.made.push("skip");
    if let Some(outcome) = &skipped.outcome {
        let summary = outcome.summary.skipping.as_ref();
        findings.ensure(summary.is_some(), "skip", || "no result states what was skipped".to_owned());
        if summary.is_some_and(|summary| summary.skipped_periods > 0) {
            findings.made.push("skipped");
        }
    }
    let rest = Run { outcome: skipped.outcome.map(Outcome::regardless_of_skipping), ..skipped };
    same(&whole, &rest, "skip", findings);
}

/// Checks a variant with other components: sums are correct, all traffic ends unless links lose packets, and
/// neither the scheduler nor the number of threads changes results.
fn changed(with: &Table, check: &'static str, wanted: &Wanted<'_>, findings: &mut Findings) {
    let Some((other, outcome)) = variant(with, check, findings) else { return };
    accounting::check(&other, &outcome, &mut |check, what| findings.fail(check, what));
    let base = Run { end: End::Done, outcome: Some(outcome) };
    let made = findings.made.len();
    let all = Wanted { only: None, skip: wanted.skip };
    schedulers(&base, &other, &all, findings);
    resolved(&base, &other, findings);
    if wanted.has("resume") {
        resumed(&base, &other, Scheduler::BinnedIfPossible, findings);
    }
    let retries = other.spec.link.retry.is_some();
    let is_lossy = matches!(&other.spec.flow_control, FlowControl::Pfc(pfc) if !pfc.lossy_lanes.is_empty());
    let may_lose = is_lossy || other.spec.event.iter().any(|event| event.loses_packets(retries));
    if !may_lose && let Some((long, drained)) = variant(&variants::drained(with, &other), check, findings) {
        for what in finish::unfinished(&long, &drained) {
            findings.fail(check, what);
        }
    }
    findings.made.truncate(made);
}

fn resolved(base: &Run, scenario: &Scenario, findings: &mut Findings) {
    let text = match scenario.to_toml() {
        Ok(text) => text,
        Err(error) => return findings.fail("resolved", error.to_string()),
    };
    match read_text(&text) {
        Err(panic) => findings.fail("panic", panic),
        Ok(Err(why)) => findings.fail("resolved", format!("is refused: {why}")),
        Ok(Ok(again)) => {
            findings
                .ensure(again == *scenario, "resolved", || "reads back as a different scenario".to_owned());
            same(base, &run(&again), "resolved", findings);
        }
    }
}

/// Interprets the end of a variant. An error with a text is a failure of the model. `Err(None)` means that
/// the variant cannot be judged: it was rejected, or, in some checks, a pause watchdog stopped it or it
/// reached the limit of events.
fn judged(end: &End, check: &str) -> Result<(), Option<String>> {
    let may_stop = matches!(check, "jobs" | "sources" | "trimming" | "events");
    match end {
        End::Done => Ok(()),
        End::Explained("refused", _) => Err(None),
        End::Explained("watchdog", _) if may_stop => Err(None),
        End::Costly if may_stop || matches!(check, "rdma" | "ecmp") => Err(None),
        other => Err(Some(format!("ends differently: {other:?}"))),
    }
}

/// Runs a variant; returns `None` if it cannot be compared.
fn variant(table: &Table, check: &'static str, findings: &mut Findings) -> Option<(Scenario, Outcome)> {
    let scenario = match read(table) {
        Ok(scenario) => scenario.ok()?,
        Err(panic) => {
            findings.fail("panic", panic);
            return None;
        }
    };
    let other = run(&scenario);
    let ended = judged(&other.end, check);
    if ended == Err(None) {
        return None;
    }
    findings.made.push(check);
    if let Err(Some(what)) = ended {
        findings.fail(check, what);
        return None;
    }
    Some((scenario, other.outcome?))
}

/// Events without those of sampling.
fn model_events(scenario: &Scenario, outcome: &Outcome) -> u64 {
    let samples = (scenario.spec.duration.0 / scenario.spec.measure.interval.0).max(1);
    outcome.summary.events - samples
}

fn measure(base: &Run, (table, scenario): (&Table, &Scenario), findings: &mut Findings) {
    let Some(outcome) = &base.outcome else { return };
    let other = variants::measured(table, scenario);
    let Some((other_scenario, other)) = variant(&other, "measure", findings) else { return };
    let (one, two) = (summary(outcome), summary(&other));
    findings.ensure(one == two, "measure", || first_difference(&one, &two));
    let events = (model_events(scenario, outcome), model_events(&other_scenario, &other));
    findings.ensure(events.0 == events.1, "measure", || {
        format!("{} events of the model, then {}", events.0, events.1)
    });
    let latency = |outcome: &Outcome| outcome.tables.iter().find(|table| table.name == "latency").cloned();
    findings.ensure(latency(outcome) == latency(&other), "measure", || "latencies differ".to_owned());
}

fn order(base: &Run, other: Option<Table>, check: &'static str, findings: &mut Findings) {
    let Some(outcome) = &base.outcome else { return };
    let Some(other) = other else { return };
    let Some((_, other)) = variant(&other, check, findings) else { return };
    let (one, two) = (by_name(outcome), by_name(&other));
    findings.ensure(one == two, check, || first_difference(&one, &two));
    for (one, two) in outcome.tables.iter().zip(&other.tables) {
        let fine = one == two || rows_by_name(one) == rows_by_name(two);
        findings.ensure(fine, check, || format!("the table {} differs", one.name));
    }
}

/// The summary with its lists sorted by name; otherwise they are in the order of the file.
fn by_name(outcome: &Outcome) -> serde_json::Value {
    let mut json = summary(outcome);
    // A sum of the same numbers in another order may differ in the last bit.
    if let Some(keys) = json.as_object_mut() {
        keys.remove("jain_flows");
        for list in ["flows", "classes", "latency", "triggers"] {
            if let Some(serde_json::Value::Array(list)) = keys.get_mut(list) {
                list.sort_by_key(ToString::to_string);
            }
        }
    }
    json
}

fn rows_by_name(table: &Rows) -> Vec<String> {
    let rows = table.columns.first().map_or(0, |column| length(&column.values));
    let cell = |values: &Values, row: usize| match values {
        Values::U64(values) => values[row].to_string(),
        Values::U32(values) => values[row].to_string(),
        Values::F64(values) => values[row].to_string(),
        Values::Name { codes, names } => names[codes[row] as usize].clone(),
    };
    let line =
        |row| table.columns.iter().map(|column| cell(&column.values, row)).collect::<Vec<_>>().join(" ");
    let mut lines: Vec<String> = (0..rows).map(line).collect();
    lines.sort();
    lines
}

fn length(values: &Values) -> usize {
    match values {
        Values::U64(values) => values.len(),
        Values::U32(values) => values.len(),
        Values::F64(values) => values.len(),
        Values::Name { codes, .. } => codes.len(),
    }
}

fn prefix(base: &Run, (table, scenario): (&Table, &Scenario), findings: &mut Findings) {
    let Some(outcome) = &base.outcome else { return };
    let Some(short) = variants::shortened(table, scenario) else { return };
    let Some((_, short)) = variant(&short, "prefix", findings) else { return };
    for (long, short) in outcome.tables.iter().zip(&short.tables) {
        if long.columns.first().is_none_or(|column| column.name != "time_ns") {
            continue;
        }
        for (one, two) in short.columns.iter().zip(&long.columns) {
            let fine = begins_like(&one.values, &two.values);
            findings.ensure(fine, "prefix", || {
                format!("the column {} of {} differs from the start of a longer run", one.name, long.name)
            });
        }
    }
}

fn begins_like(short: &Values, long: &Values) -> bool {
    fn starts<T: PartialEq>(short: &[T], long: &[T]) -> bool {
        long.get(..short.len()) == Some(short)
    }
    match (short, long) {
        (Values::U64(short), Values::U64(long)) => starts(short, long),
        (Values::U32(short), Values::U32(long)) => starts(short, long),
        (Values::F64(short), Values::F64(long)) => {
            let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
            starts(&bits(short), &bits(long))
        }
        (Values::Name { codes, names }, Values::Name { codes: long, names: long_names }) => {
            starts(codes, long) && names == long_names
        }
        _ => false,
    }
}

fn difference(one: &Outcome, two: &Outcome) -> String {
    let (a, b) = (summary(one), summary(two));
    if a != b {
        return first_difference(&a, &b);
    }
    let table = one.tables.iter().zip(&two.tables).find(|(one, two)| one != two);
    table.map_or_else(
        || "the tables differ".to_owned(),
        |(table, _)| format!("the table {} differs", table.name),
    )
}

/// The first key that differs, with both values.
fn first_difference(one: &serde_json::Value, two: &serde_json::Value) -> String {
    use serde_json::Value as Json;
    match (one, two) {
        (Json::Object(one), Json::Object(two)) => {
            for (key, value) in one {
                match two.get(key) {
                    Some(other) if other == value => {}
                    Some(other) => return format!("{key}: {}", first_difference(value, other)),
                    None => return format!("{key} is missing"),
                }
            }
            "more keys".to_owned()
        }
        (Json::Array(one), Json::Array(two)) if one.len() == two.len() => {
            let at = one.iter().zip(two).position(|(one, two)| one != two).unwrap_or(0);
            format!("{at}: {}", first_difference(&one[at], &two[at]))
        }
        _ => format!("{one}, then {two}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_of(table: &str, values: Vec<u64>) -> Run {
        let text = "duration = \"1 us\"\ntopology = { kind = \"star\", hosts = 2 }\n[[flow]]\nfrom = \"H1\"\nto = \"H2\"\n";
        let mut base = run(&read_text(text).unwrap().unwrap());
        let columns = vec![silvan_fabric::outcome::Column { name: "bytes", values: Values::U64(values) }];
        base.outcome.as_mut().unwrap().tables.iter_mut().filter(|known| known.name == table).for_each(
            |known| {
                known.columns.clone_from(&columns);
            },
        );
        base
    }

    /// A variant that the pause watchdog stops ends with an error. The failure contains the variant, and the
    /// check of the variant finds the error again.
    #[test]
    fn failures_of_variants_carry_the_variant() {
        let text = "
            duration = \"1 ms\"
            topology = { kind = \"star\", hosts = 3 }
            flow_control = { kind = \"pfc\", watchdog = \"1 ns\", watchdog_action = \"stop\" }
            [[flow]]
            from = \"H1\"
            to = \"H3\"
            [[flow]]
            from = \"H2\"
            to = \"H3\"
        ";
        let table: Table = toml::from_str(text).unwrap();
        let variant = Variant { kind: "rdma", table };
        let findings = check_variant(&variant);
        let Some(failure) = findings.failures.first() else { panic!("nothing fails") };
        assert_eq!((failure.check, failure.variant.as_ref()), ("rdma", Some(&variant)), "{}", failure.what);
        assert_eq!(findings.variant, None);
    }

    #[test]
    fn a_variant_with_more_to_do_may_take_too_many_events() {
        assert_eq!(judged(&End::Done, "jobs"), Ok(()));
        assert_eq!(judged(&End::Costly, "rdma"), Err(None));
        assert_eq!(judged(&End::Costly, "measure"), Err(Some("ends differently: Costly".to_owned())));
        assert_eq!(judged(&End::Explained("refused", String::new()), "measure"), Err(None));
        let stuck = End::Explained("deadlock", "a cycle".to_owned());
        assert!(judged(&stuck, "jobs").is_err_and(|what| what.is_some()), "{stuck:?}");
    }

    #[test]
    fn fingerprints_have_a_digest_of_each_table_about_trees() {
        let plain = Fingerprint::of(&run_of("", vec![]), None);
        assert!(plain.trees.iter().all(Option::is_some), "{plain:?}");
        for (at, name) in OF_TREES.iter().enumerate() {
            let other = Fingerprint::of(&run_of(name, vec![7]), None);
            assert_eq!(other.hash, plain.hash, "the hash of the other tables is unchanged");
            let differing: Vec<usize> =
                (0..OF_TREES.len()).filter(|&i| other.trees[i] != plain.trees[i]).collect();
            assert_eq!(differing, [at], "{name}");
        }
        let drained = Fingerprint::of(&run_of("", vec![]), Some(&run_of("trees", vec![7])));
        assert_ne!(drained.trees[0], plain.trees[0]);
    }
}
