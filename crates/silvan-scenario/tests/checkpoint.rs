//! Checkpoints: a run that is saved and continued gives the results of an uninterrupted run, and a checkpoint
//! that does not match the scenario or the build is rejected.

use std::io::{Cursor, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use silvan_fabric::config::Scheduler;
use silvan_fabric::outcome::Outcome;
use silvan_fabric::simulation::Simulation;
use silvan_scenario::checkpoint::{Checkpoint, Part, Saver, Written};
use silvan_scenario::{Scenario, ScenarioError};

/// A tree of three levels in which four hosts overload another one.
const TREE: &str = r#"duration = "120 us"
seed = 3
topology = { kind = "k-ary-n-tree", k = 2, n = 3 }
measure = { interval = "5 us", forest = true, classes = true, links = true }
[[traffic]]
name = "background"
pattern = { kind = "uniform" }
load_percent = 60
[[traffic]]
name = "hot"
pattern = { kind = "hotspots", to = ["H8"] }
hosts = ["H1", "H2", "H3", "H5"]
"#;

const MAGIC: &[u8] = b"Silvan checkpoint\n";

fn scenario(text: &str) -> Scenario {
    Scenario::from_toml(text, "a.toml", Path::new("."), &[]).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn written(text: &str) -> Written {
    let (origin, base_dir) = ("a.toml".to_owned(), ".".to_owned());
    Written { text: text.to_owned(), origin, base_dir, overrides: Vec::new() }
}

/// A run of a scenario after a number of events, and its checkpoint.
fn saved(text: &str, scenario: &Scenario, events: u64) -> (Simulation, Vec<u8>) {
    let (mut simulation, saver) = Saver::of(scenario, written(text)).unwrap();
    assert!(!simulation.advance(events).unwrap().done, "the run ends before it is saved");
    let mut bytes = Vec::new();
    saver.write(&simulation, &mut bytes).unwrap();
    (simulation, bytes)
}

fn resume(bytes: &[u8], scenario: &Scenario) -> Result<Simulation, ScenarioError> {
    let checkpoint = Checkpoint::read(Box::new(Cursor::new(bytes.to_vec())), Path::new("a.checkpoint"))?;
    checkpoint.resume(scenario).map(|(simulation, _)| simulation)
}

fn to_the_end(mut simulation: Simulation) -> Outcome {
    while !simulation.advance(1_000_000).unwrap().done {}
    simulation.finish().unwrap()
}

fn message(result: Result<Simulation, ScenarioError>) -> String {
    result.err().map_or_else(|| "accepted".to_owned(), |error| error.to_string())
}

/// The content of a checkpoint without the checksum.
fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    GzDecoder::new(&bytes[MAGIC.len()..]).read_to_end(&mut content).unwrap();
    content
}

fn packed(content: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(MAGIC.to_vec(), Compression::fast());
    packed.write_all(content).unwrap();
    packed.finish().unwrap()
}

#[test]
fn a_run_continues_with_every_kind_of_switch() {
    let kinds = [
        r#"congestion = { mechanism = "ib-cc" }"#,
        r#"congestion = { mechanism = "fbicm" }"#,
        r#"congestion = { mechanism = "ccfit" }"#,
        r#"congestion = { mechanism = "ecocc" }"#,
        r#"congestion = { mechanism = "mvcm" }"#,
        r#"congestion = { mechanism = "qcn" }"#,
        r#"congestion = { mechanism = "hpcc" }"#,
        r#"congestion = { mechanism = "rccc" }"#,
        r#"switch = { architecture = "iq", queues = "single" }"#,
        r#"switch = { architecture = "iq", queues = "per-destination" }"#,
        r#"switch = { architecture = "cioq" }"#,
        "[flow_control]\nkind = \"pfc\"\n[congestion]\nmechanism = \"dcqcn\"",
        "[lanes]\ncount = 2\ncontrol = 1\ncontrol_priority = true\n[switch.trimming]\nqueue = \"20 KB\"\n[congestion]\nmechanism = \"nscc\"\nnotification = \"ack-each\"",
    ];
    for (kind, scheduler) in kinds
        .into_iter()
        .flat_map(|kind| [Scheduler::BinnedIfPossible, Scheduler::EventOrdered].map(|s| (kind, s)))
    {
        let text = match kind.starts_with('[') {
            true => format!("{TREE}{kind}\n"),
            false => TREE.replacen("seed = 3\n", &format!("seed = 3\n{kind}\n"), 1),
        };
        let mut scenario = scenario(&text);
        scenario.spec.scheduler = scheduler;
        let whole = to_the_end(scenario.simulation().unwrap());
        let (simulation, bytes) = saved(&text, &scenario, whole.summary.events / 2);
        assert_eq!(to_the_end(simulation), whole, "{kind}: the run itself");
        assert_eq!(
            to_the_end(resume(&bytes, &scenario).unwrap()),
            whole,
            "{kind}: the run that was continued"
        );
    }
}

/// A run can continue from a checkpoint before or after changes of the forwarding tables.
/// A message per flow and a small output buffer for each destination, under overload: hosts keep many flows that the
/// buffer refuses, and skip them until it has room.
#[test]
fn a_run_continues_with_flows_that_output_buffers_refuse() {
    let text = r#"duration = "60 us"
topology = { kind = "dumbbell", left = 7 }
host = { queues = "per-destination", output_buffer = "9 KB" }
packet = { mtu = "1.618 KB", credit_block = "3 KB" }
congestion = { mechanism = "saa" }
switch = { architecture = "iq", arbitration = "round-robin", buffer = "180 KB" }
measure = { interval = "5 us" }
[[traffic]]
pattern = { kind = "uniform" }
sizes = { kind = "rpc" }
load_percent = 100
"#;
    let scenario = scenario(text);
    let whole = to_the_end(scenario.simulation().unwrap());
    assert!(whole.summary.packets_delivered > 100, "{}", whole.summary.packets_delivered);
    for part in 1..4 {
        let (simulation, bytes) = saved(text, &scenario, whole.summary.events * part / 4);
        assert_eq!(to_the_end(simulation), whole, "the run itself");
        assert_eq!(
            to_the_end(resume(&bytes, &scenario).unwrap()),
            whole,
            "continued after {part} of 4 parts"
        );
    }
}

#[test]
fn a_run_continues_after_routes_have_changed() {
    let more = r#"[routing]
kind = "up-down"
allow_deadlock = true
[rerouting]
delay = "1 us"
[[event]]
kind = "down"
links = ["L1.1:3"]
start = "30 us"
lasts = "60 us"
"#;
    for kind in ["", "adaptive_routing = { per = \"packet\" }\n", "ecmp = {}\n"] {
        let text = format!("{}{more}", TREE.replacen("seed = 3\n", &format!("seed = 3\n{kind}"), 1));
        let own = scenario(&text);
        let whole = to_the_end(own.simulation().unwrap());
        for part in [2, 4, 8] {
            let (_, bytes) = saved(&text, &own, whole.summary.events * part / 10);
            assert_eq!(to_the_end(resume(&bytes, &own).unwrap()), whole, "{kind}: {part} tenths");
        }
    }
}

#[test]
fn a_run_continues_with_its_threads_whatever_the_scenario_says_now() {
    for threads in [1, 2, 3] {
        let text = TREE.replacen("seed = 3", &format!("seed = 3\nthreads = {threads}"), 1);
        let own = scenario(&text);
        let whole = to_the_end(own.simulation().unwrap());
        let (_, bytes) = saved(&text, &own, whole.summary.events / 3);
        let continued = resume(&bytes, &scenario(TREE)).unwrap();
        assert_eq!(continued.partitions(), own.simulation().unwrap().partitions());
        assert_eq!(to_the_end(continued), whole, "{threads} threads");
    }
}

#[test]
fn a_checkpoint_contains_its_scenario() {
    let (_, bytes) = saved(TREE, &scenario(TREE), 1_000);
    let checkpoint = Checkpoint::read(Box::new(Cursor::new(bytes)), Path::new("a.checkpoint")).unwrap();
    assert_eq!(checkpoint.written(), &written(TREE));
    assert_eq!(checkpoint.scenario().unwrap(), scenario(TREE));
    assert!(checkpoint.now().0 > 0);
}

#[test]
fn other_scenarios_are_rejected_with_the_line_that_differs() {
    let (_, bytes) = saved(TREE, &scenario(TREE), 1_000);
    let other = scenario(&TREE.replacen("load_percent = 60", "load_percent = 61", 1));
    let error = message(resume(&bytes, &other));
    assert!(error.starts_with("a.checkpoint: belongs to another scenario than a.toml: line "), "{error}");
    assert!(
        error.contains("is `load_percent = 60` in the checkpoint, but `load_percent = 61` here"),
        "{error}"
    );
}

#[test]
fn other_versions_and_builds_are_rejected() {
    let (_, bytes) = saved(TREE, &scenario(TREE), 1_000);
    let content = unpacked(&bytes);
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(&content[8..8 + version.len()], version.as_bytes());
    let mut other = content.clone();
    other[8] = b'9';
    let error = message(resume(&packed(&other), &scenario(TREE)));
    let expected =
        format!("a.checkpoint: was written by Silvan 9{}, but this is Silvan {version}", &version[1..]);
    assert!(error.starts_with(&expected), "{error}");
    let mut other = content;
    other[8 + version.len()] ^= 1;
    let error = message(resume(&packed(&other), &scenario(TREE)));
    assert!(
        error.starts_with(&format!("a.checkpoint: was written by another build of Silvan {version}")),
        "{error}"
    );
}

#[test]
fn files_that_are_no_checkpoints_are_rejected() {
    for bytes in [&b""[..], b"Silvan", TREE.as_bytes()] {
        let error = message(resume(bytes, &scenario(TREE)));
        assert_eq!(error, "a.checkpoint: is not a checkpoint; `silvan run --checkpoint` writes them");
    }
}

#[test]
fn files_that_have_changed_since_are_rejected() {
    let folder = std::env::temp_dir().join(format!("silvan-checkpoint-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let list = folder.join("list.csv");
    let text = r#"duration = "50 us"
topology = { kind = "star", hosts = 3 }
[[traffic]]
name = "listed"
pattern = { kind = "listed", file = "list.csv" }
"#;
    let read = || Scenario::from_toml(text, "a.toml", &folder, &[]).unwrap();
    std::fs::write(&list, "from,to,bytes,start_ns\nH1,H2,500000,0\n").unwrap();
    let (_, bytes) = saved(text, &read(), 50);
    assert!(resume(&bytes, &read()).is_ok());
    std::fs::write(&list, "from,to,bytes,start_ns\nH1,H2,500001,0\n").unwrap();
    let error = message(resume(&bytes, &read()));
    assert!(error.contains("belongs to other files than the scenario names now"), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn truncated_and_corrupted_checkpoints_are_rejected() {
    let own = scenario(TREE);
    let (_, bytes) = saved(TREE, &own, 1_000);
    for length in (0..bytes.len()).step_by(bytes.len() / 40) {
        let error = message(resume(&bytes[..length], &own));
        assert!(error.starts_with("a.checkpoint: is "), "{length} of {} bytes: {error}", bytes.len());
    }
    for at in (0..bytes.len()).step_by(bytes.len() / 40) {
        let mut other = bytes.clone();
        other[at] ^= 0x10;
        let found = message(resume(&other, &own));
        // Some bytes of gzip's header, such as the time, and some bits of the compressed data do not affect
        // the content.
        assert!(found != "accepted" || unpacked(&other) == unpacked(&bytes), "byte {at}");
    }
    let mut longer = unpacked(&bytes);
    longer.push(0);
    assert_ne!(message(resume(&packed(&longer), &own)), "accepted");
    for more in [&b"\0"[..], &bytes[MAGIC.len()..]] {
        let error = message(resume(&[&bytes[..], more].concat(), &own));
        assert!(error.contains("bytes follow the end of the state"), "{error}");
    }
}

/// A small file that stands for gigabytes is rejected before memory is allocated for them: in the text of the scenario,
/// whose length is limited, and in the lists of the state, whose memory is limited by the size of the file.
#[test]
fn small_files_that_take_all_memory_are_rejected() {
    let own = scenario(TREE);
    let (_, bytes) = saved(TREE, &own, 1_000);
    let content = unpacked(&bytes);
    let version = &content[..8 + env!("CARGO_PKG_VERSION").len()];
    for (start, most) in [(&content[..0], "64"), (&content[..version.len() + 8], "16777216")] {
        let mut bomb = GzEncoder::new(MAGIC.to_vec(), Compression::fast());
        bomb.write_all(start).unwrap();
        bomb.write_all(&(8_u64 << 30).to_le_bytes()).unwrap();
        bomb.write_all(&vec![b' '; 1 << 20]).unwrap();
        let error = message(resume(&bomb.finish().unwrap(), &own));
        assert!(error.contains(&format!("a text of 8589934592 bytes is longer than {most}")), "{error}");
    }
    // The overrides are a list without a fixed length.
    let base = content.windows(9).position(|bytes| bytes == [1, 0, 0, 0, 0, 0, 0, 0, b'.']).unwrap() + 9;
    let mut bomb = GzEncoder::new(MAGIC.to_vec(), Compression::fast());
    bomb.write_all(&content[..base]).unwrap();
    bomb.write_all(&(1_u64 << 33).to_le_bytes()).unwrap();
    for _ in 0..64 {
        bomb.write_all(&vec![0; 1 << 20]).unwrap();
    }
    let error = message(resume(&bomb.finish().unwrap(), &own));
    assert!(error.contains("its values take more memory than a file of this size describes"), "{error}");
}

#[test]
fn a_run_names_the_builds_of_its_parts_and_other_builds_are_rejected() {
    let own = scenario(TREE);
    let (mut simulation, mut saver) = Saver::of(&own, written(TREE)).unwrap();
    let write = |simulation: &Simulation, saver: &Saver| {
        let mut bytes = Vec::new();
        saver.write(simulation, &mut bytes).unwrap();
        Checkpoint::read(Box::new(Cursor::new(bytes)), Path::new("a.checkpoint")).unwrap()
    };
    simulation.advance(1_000).unwrap();
    saver.describe_part("one", 1.5);
    let read = write(&simulation, &saver);
    read.refuse_other_builds("one", "-").unwrap();
    let error = read.refuse_other_builds("two", "use --any").unwrap_err().to_string();
    assert!(error.starts_with("a.checkpoint: was written by another build of Silvan "), "{error}");
    assert!(error.contains("(one; this is two)") && error.ends_with("or use --any"), "{error}");
    let (mut simulation, mut saver) = read.resume(&own).unwrap();
    let at = simulation.now();
    simulation.advance(1_000).unwrap();
    saver.describe_part("two", 0.25);
    let parts = [
        Part { at: silvan_engine::Time::ZERO, build: "one".into(), wall_s: 1.5 },
        Part { at, build: "two".into(), wall_s: 0.25 },
    ];
    assert_eq!(saver.parts(), parts);
    // The run is not that of the second build alone.
    assert!(write(&simulation, &saver).refuse_other_builds("two", "-").is_err());
}

/// A state with a valid checksum can contain any values. Reading it must neither panic nor allocate much
/// memory, even if the number of an enum's variant or the length of a list was overwritten. The run then ends
/// with a result, an error or a panic, but not with its process.
#[test]
fn a_state_with_wrong_values_is_read_without_panic() {
    // Packets take different ways, so receivers restore their order.
    let text = TREE.replacen("seed = 3\n", "seed = 3\nadaptive_routing = { per = \"packet\" }\n", 1);
    let own = scenario(&text);
    let (_, bytes) = saved(&text, &own, 1_000);
    let content = unpacked(&bytes);
    let (mut rejected, mut continued) = (0, 0);
    for (at, value) in
        (0..content.len()).step_by(content.len() / 120).zip([0xff, 0x01, 0x80].into_iter().cycle())
    {
        let mut other = content.clone();
        let end = (at + 8).min(other.len());
        other[at..end].fill(value);
        let Ok(mut simulation) = resume(&packed(&other), &own) else {
            rejected += 1;
            continue;
        };
        let _ = catch_unwind(AssertUnwindSafe(|| simulation.advance_to_sample(20_000)));
        continued += 1;
    }
    assert!(rejected > 5, "only {rejected} are rejected");
    assert!(continued > 5, "only {continued} are continued");
}
