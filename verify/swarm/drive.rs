//! The tasks: a swarm over many seeds, one case repeated, fingerprints.

use std::collections::HashMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use toml::Table;

use crate::case::{Case, OF_TREES, guarded, of_seed, read, read_text};
use crate::checks::{
    CHECKS, Failure, Findings, Fingerprint, Variant, Wanted, check, check_variant, fingerprint,
};
use crate::coverage::{self, of_scenario};
use crate::draw::draw;
use crate::minimize::minimize;
use crate::options::Options;
use crate::state::{Listed, State, build};
use crate::watch::Watch;

/// Number of seeds that are processed and recorded together.
const CHUNK: u64 = 25;
/// Number of cases per check that are minimized; the others are only listed by seed.
const MINIMIZED_PER_CHECK: usize = 16;
/// Checks that apply to every run.
const OF_ENDS: [&str; 4] = ["panic", "broken", "deadlock", "stalled"];
const MINIMIZE_FOR: Duration = Duration::from_secs(20);

type Done = Result<bool, Box<dyn Error>>;

/// Runs the swarm; returns true if nothing failed.
pub fn swarm(options: &Options) -> Done {
    fs::create_dir_all(options.out.join("failures"))?;
    let books = options.books.as_ref().map(|path| path.display().to_string());
    let of = format!(
        "{} from {} books {books:?} / {} without {:?}",
        build(),
        options.first,
        options.books_every,
        options.skip
    );
    let mut state = State::load(&options.out, &of);
    if options.fresh {
        state = State { of, ..State::default() };
    }
    if !state.done.is_empty() {
        println!("resuming after {} scenarios", state.scenarios);
    }
    let chunks = options.count.div_ceil(CHUNK);
    let (next, state) = (AtomicU64::new(0), Mutex::new(state));
    let started = Instant::now();
    let watch = Watch::default();
    let result = thread::scope(|scope| {
        scope.spawn(|| watch.look());
        let work = || -> Result<(), String> {
            loop {
                let chunk = next.fetch_add(1, Ordering::Relaxed);
                if chunk >= chunks {
                    return Ok(());
                }
                if locked(&state).done.contains(&chunk) {
                    continue;
                }
                let brought =
                    one_chunk(chunk, options, (&state, &watch)).map_err(|error| error.to_string())?;
                let mut state = locked(&state);
                state.merge(chunk, brought);
                state.save(&options.out).map_err(|error| error.to_string())?;
            }
        };
        let threads: Vec<_> = (0..options.threads).map(|_| scope.spawn(work)).collect();
        let _end = watch.ends_with_this();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|_| Err("a thread panicked".to_owned())))
    });
    result?;
    let state = locked(&state);
    report(&state, started.elapsed());
    Ok(state.failures.is_empty())
}

fn locked(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn one_chunk(
    chunk: u64,
    options: &Options,
    (all, watch): (&Mutex<State>, &Watch),
) -> Result<State, Box<dyn Error>> {
    let started = Instant::now();
    let first = options.first + chunk * CHUNK;
    let last = (first + CHUNK).min(options.first + options.count);
    let mut brought = State::default();
    let theirs = match &options.books {
        Some(program) if chunk.is_multiple_of(options.books_every) => {
            ask_debug_build(program, first, last - first)?
        }
        _ => HashMap::new(),
    };
    let wanted = Wanted { only: None, skip: &options.skip };
    for seed in first..last {
        watch.begin(seed);
        let case = match of_seed(seed) {
            Ok(Some(case)) => case,
            Ok(None) => {
                brought.refused += 1;
                continue;
            }
            Err((table, panic)) => {
                let failure = Failure::new("panic", format!("reading: {panic}"));
                keep(seed, &table, &[failure], options, all, &mut brought)?;
                continue;
            }
        };
        let mut findings = guarded(|| check(&case, &wanted)).unwrap_or_else(|panic| Findings {
            failures: vec![Failure::new("panic", panic)],
            ..Findings::default()
        });
        if let Some(said) = theirs.get(&seed) {
            findings.made.push("books");
            if *said != line(case.attempt, &findings) && !options.skip.iter().any(|skip| skip == "books") {
                findings.failures.push(Failure::new("books", format!("the debug build reports {said}")));
            }
        }
        note(&case, &findings, &mut brought);
        if !findings.failures.is_empty() {
            keep(seed, &case.table, &findings.failures, options, all, &mut brought)?;
        }
    }
    brought.busy_ms = started.elapsed().as_millis() as u64;
    Ok(brought)
}

/// Records the contents and results of a case.
fn note(case: &Case, findings: &Findings, brought: &mut State) {
    brought.scenarios += 1;
    brought.refused += case.refused.len() as u64;
    let mut count = |name: String| *brought.reasons.entry(name).or_default() += 1;
    case.refused.iter().for_each(|why| count(reason(why)));
    // Names of hosts and numeric values are too numerous to be counted.
    let spoken = |name: &String| {
        name.split_once('=')
            .is_none_or(|(_, value)| !value.contains(|c: char| c.is_ascii_digit() || c == ' '))
    };
    for name in of_scenario(&case.table).into_iter().filter(spoken) {
        *brought.drawn.entry(name).or_default() += 1;
    }
    findings.made.iter().for_each(|name| *brought.made.entry((*name).to_owned()).or_default() += 1);
    findings.ends.iter().for_each(|name| *brought.ends.entry(name.clone()).or_default() += 1);
    let spec = &case.scenario.spec;
    let mechanism = format!("{:?}", spec.congestion.mechanism).to_lowercase();
    let architecture = spec.switch.architecture(spec.congestion.mechanism);
    *brought
        .pairs
        .entry(format!("{mechanism} {}", format!("{architecture:?}").to_lowercase()))
        .or_default() += 1;
}

/// The reason of a rejection, without values.
fn reason(why: &str) -> String {
    let (place, rest) = why.split_once(": ").unwrap_or(("", why));
    let key = rest.split(" = ").next().unwrap_or(place);
    let key: String = key.chars().filter(|c| !c.is_ascii_digit()).take(60).collect();
    let what: String =
        why.rsplit(": ").next().unwrap_or("").chars().filter(|c| !c.is_ascii_digit()).take(50).collect();
    format!("{key}: {what}")
}

/// Lists failures, and writes the first few of each check as minimized scenarios.
fn keep(
    seed: u64,
    table: &Table,
    failures: &[Failure],
    options: &Options,
    all: &Mutex<State>,
    brought: &mut State,
) -> Result<(), Box<dyn Error>> {
    let mut listed: Vec<&str> = Vec::new();
    for failure in failures {
        if listed.contains(&failure.check) {
            continue;
        }
        listed.push(failure.check);
        let of_check = |state: &State| state.failures.iter().filter(|one| one.check == failure.check).count();
        let known = of_check(&locked(all)) + of_check(brought);
        println!("seed {seed}: {}: {}", failure.check, shorten(&failure.what));
        brought.failures.push(Listed { seed, check: failure.check.to_owned(), what: failure.what.clone() });
        if known < MINIMIZED_PER_CHECK {
            let small = minimized(failure, table, MINIMIZE_FOR, options);
            let name = if listed.len() == 1 {
                format!("{seed}.toml")
            } else {
                format!("{seed}-{}.toml", failure.check)
            };
            write_case(&options.out.join("failures").join(name), seed, failure, &small)?;
        }
    }
    Ok(())
}

fn write_case(file: &Path, seed: u64, failure: &Failure, table: &Table) -> Result<(), Box<dyn Error>> {
    let what = shorten(&failure.what);
    let of = failure.variant.as_ref().map(|variant| format!(" of the variant {}", variant.kind));
    let of = of.unwrap_or_default();
    let text = format!("# seed {seed}{of}, {}: {what}\n{}", failure.check, toml::to_string(table)?);
    Ok(fs::write(file, text)?)
}

fn shorten(text: &str) -> String {
    text.replace('\n', " ").chars().take(300).collect()
}

fn case_of(table: &Table) -> Option<Case> {
    let scenario = read(table).ok()?.ok()?;
    Some(Case { attempt: 0, table: table.clone(), scenario, refused: Vec::new() })
}

/// The smallest scenario, or variant if a variant fails, that is found to fail the same check.
fn minimized(failure: &Failure, table: &Table, limit: Duration, options: &Options) -> Table {
    let check = failure.check;
    match &failure.variant {
        Some(Variant { kind, table }) => {
            minimize(table, limit, &mut |table| variant_still_fails(kind, table, check))
        }
        None => minimize(table, limit, &mut |table| still_fails(table, check, options)),
    }
}

/// Whether a variant fails the same check.
fn variant_still_fails(kind: &'static str, table: &Table, name: &'static str) -> bool {
    let variant = Variant { kind, table: table.clone() };
    match guarded(|| check_variant(&variant)) {
        Ok(findings) => findings.failures.iter().any(|failure| failure.check == name),
        Err(_) => name == "panic",
    }
}

/// Whether a scenario fails the same check.
fn still_fails(table: &Table, name: &'static str, options: &Options) -> bool {
    if name == "books" {
        return case_of(table).is_some_and(|case| debug_build_differs(&case, options).unwrap_or(false));
    }
    let Some(case) = case_of(table) else { return name == "panic" && read(table).is_err() };
    let wanted = Wanted { only: Some(name), skip: &[] };
    match guarded(|| check(&case, &wanted)) {
        Ok(findings) => findings.failures.iter().any(|failure| failure.check == name),
        Err(_) => name == "panic",
    }
}

fn debug_build_differs(case: &Case, options: &Options) -> Result<bool, Box<dyn Error>> {
    let Some(program) = &options.books else { return Ok(false) };
    let file =
        options.out.join(format!("candidate-{:?}.toml", thread::current().id()).replace(['(', ')'], ""));
    fs::write(&file, toml::to_string(&case.table)?)?;
    let theirs = Command::new(program).arg("--fingerprint-of").arg(&file).output()?;
    fs::remove_file(&file)?;
    Ok(String::from_utf8_lossy(&theirs.stdout).trim() != line(0, &fingerprint(case)))
}

/// Runs the debug build for a range of seeds; returns its line for each seed.
fn ask_debug_build(program: &Path, first: u64, count: u64) -> Result<HashMap<u64, String>, Box<dyn Error>> {
    let mut command = Command::new(program);
    command.arg("--fingerprints").arg(first.to_string()).arg(count.to_string());
    let output = command.output().map_err(|error| format!("{}: {error}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: HashMap<u64, String> = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(seed, rest)| Some((seed.parse().ok()?, rest.to_owned())))
        .collect();
    if lines.len() as u64 != count {
        let died = first + lines.len() as u64;
        return Err(format!("{} ended at seed {died}: {}", program.display(), output.status).into());
    }
    Ok(lines)
}

/// The attempt, the hash over the data that every build has, how the runs ended, and the hash of each table
/// about congestion trees. If a build does not print the latter, the rest can still be compared.
fn line(attempt: u64, findings: &Findings) -> String {
    let said: Vec<&str> = findings
        .failures
        .iter()
        .filter(|failure| is_of_ends(failure))
        .map(|failure| failure.what.as_str())
        .collect();
    let said = if said.is_empty() { String::new() } else { format!(": {}", shorten(&said.join("; "))) };
    let Fingerprint { hash, trees } = findings.fingerprint;
    let digest = |hash: Option<u64>| hash.map_or_else(|| "-".to_owned(), |hash| format!("{hash:016x}"));
    let tables = OF_TREES.iter().zip(trees).map(|(name, hash)| format!("{name} {}", digest(hash)));
    let tables: Vec<String> = tables.collect();
    format!("{attempt} {hash:016x} {}{said} | {}", findings.ends.join(", "), tables.join(" "))
}

/// Whether a failure concerns the end of a run, which both builds report, and not a check.
fn is_of_ends(failure: &Failure) -> bool {
    ["panic", "broken"].contains(&failure.check)
}

/// Prints a line per seed.
pub fn fingerprints(first: u64, count: u64) -> Done {
    for seed in first..first + count {
        match of_seed(seed) {
            Ok(Some(case)) => println!("{seed} {}", line(case.attempt, &fingerprint(&case))),
            Ok(None) => println!("{seed} refused"),
            Err((_, panic)) => println!("{seed} panic: {}", shorten(&panic)),
        }
    }
    Ok(true)
}

/// Prints the line of a file.
pub fn fingerprint_of(file: &Path) -> Done {
    let case = case_of(&fs::read_to_string(file)?.parse::<Table>()?).ok_or("is refused")?;
    println!("{}", line(0, &fingerprint(&case)));
    Ok(true)
}

/// Prints a generated scenario.
pub fn show(seed: u64, attempt: u64) -> Done {
    let table = draw(seed, attempt);
    println!("{}", toml::to_string(&table)?);
    match read(&table) {
        Ok(Ok(_)) => println!("# read"),
        Ok(Err(why)) => println!("# refused: {why}"),
        Err(panic) => println!("# panic: {panic}"),
    }
    Ok(true)
}

/// Repeats the case of one seed and prints it.
pub fn replay(seed: u64, options: &Options) -> Done {
    match of_seed(seed) {
        Ok(Some(case)) => print_case(seed, &case, options),
        Ok(None) => Err("no scenario of this seed is accepted".into()),
        Err((table, panic)) => {
            println!("{}# panic: {panic}", toml::to_string(&table)?);
            Ok(false)
        }
    }
}

/// Checks a file.
pub fn replay_file(file: &PathBuf, options: &Options) -> Done {
    let text = fs::read_to_string(file)?;
    let scenario = read_text(&text)??;
    let case = Case { attempt: 0, table: text.parse()?, scenario, refused: Vec::new() };
    print_case(0, &case, options)
}

fn print_case(seed: u64, case: &Case, options: &Options) -> Done {
    println!("{}", toml::to_string(&case.table)?);
    let started = Instant::now();
    let mut findings = guarded(|| check(case, &Wanted { only: None, skip: &options.skip }))?;
    println!("# {} ms", started.elapsed().as_millis());
    if debug_build_differs(case, options)? {
        findings.failures.push(Failure::new("books", "the debug build differs"));
    }
    findings.made.dedup();
    println!("# checks made: {}", findings.made.join(", "));
    println!("# ends: {}", findings.ends.join(", "));
    for failure in &findings.failures {
        println!("# FAILS {}: {}", failure.check, failure.what);
        if let Some(variant) = &failure.variant {
            println!("# the variant {} that fails:\n{}", variant.kind, toml::to_string(&variant.table)?);
        }
        if options.minimise {
            let small = minimized(failure, &case.table, MINIMIZE_FOR * 3, options);
            println!("# short:\n{}", toml::to_string(&small)?);
        }
    }
    println!("# fingerprint {seed} {}", line(case.attempt, &findings));
    Ok(findings.failures.is_empty())
}

fn report(state: &State, elapsed: Duration) {
    println!("generated, in {} scenarios:", state.scenarios);
    coverage::report(&state.drawn).iter().for_each(|line| println!("{line}"));
    let list = |counts: &coverage::Counts| {
        let list: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
        list.join(", ")
    };
    println!("mechanism and architecture: {}", list(&state.pairs));
    println!("ends: {}", list(&state.ends));
    let draws = state.scenarios + state.refused;
    println!(
        "{} of {draws} generated scenarios accepted; most frequent reasons for rejection:",
        state.scenarios
    );
    let mut reasons: Vec<(&String, &u64)> = state.reasons.iter().collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    reasons.iter().take(6).for_each(|(why, count)| println!("  {count} {why}"));
    println!("checks:");
    let failed = state.by_check();
    for name in CHECKS {
        let failures = failed.get(name).map_or(0, Vec::len);
        let made = state.made.get(name).copied().unwrap_or(if OF_ENDS.contains(&name) {
            state.scenarios
        } else {
            0
        });
        println!("  {name}: {made} made, {failures} failed");
    }
    for (name, failures) in &failed {
        let seeds: Vec<String> = failures.iter().take(20).map(|failure| failure.seed.to_string()).collect();
        println!("{name} fails for {}: seeds {}", failures.len(), seeds.join(" "));
    }
    let busy = state.busy_ms as f64 / 1e3;
    println!(
        "{} scenarios, {} failures; {:.0} s of thread time in total, {:.1} scenarios per second of one thread; {:.0} s in this session",
        state.scenarios,
        state.failures.len(),
        busy,
        state.scenarios as f64 / busy.max(1e-3),
        elapsed.as_secs_f64()
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mechanisms_are_counted_with_the_architecture_that_they_use() {
        let pair = |more: &str| {
            let text = format!(
                "duration = \"10 us\"\n[topology]\nkind = \"star\"\nhosts = 3\n\
                 [[flow]]\nfrom = \"H1\"\nto = \"H2\"\n[congestion]\n{more}\n"
            );
            let case = case_of(&text.parse().unwrap()).unwrap();
            let mut brought = State::default();
            note(&case, &Findings::default(), &mut brought);
            brought.pairs.into_keys().collect::<Vec<_>>()
        };
        assert_eq!(pair("mechanism = \"ib-cc\""), ["ibcc voq"]);
        assert_eq!(pair("mechanism = \"fbicm\""), ["fbicm iq"]);
        assert_eq!(pair("mechanism = \"renato\""), ["renato cioq"]);
        assert_eq!(pair("mechanism = \"ib-cc\"\n[switch]\narchitecture = \"iq\""), ["ibcc iq"]);
    }
}
