//! Runs of jobs: closed forms, placement, several jobs at the same time, invalid jobs.

use std::path::Path;

use silvan_fabric::outcome::{JobSummary, Outcome, Values};
use silvan_scenario::Scenario;

use crate::common::runs::outcome;

/// Sixteen hosts at one switch: 100 ns in the switch, 20 ns on each link, 16 Gbit/s (500 ps per byte).
const STAR: &str = r#"
duration = "1 s"
topology = { kind = "star", hosts = 16, link_rate = "16 Gbit/s", link_delay = "20 ns" }
switch = { latency = "100 ns" }
measure = { interval = "10 ms", links = false, hosts = false, forest = false }
"#;

/// Time from sending to receiving the first byte, in ns.
const LATENCY: f64 = 140.0;
const NS_PER_BYTE: f64 = 0.5;
/// Time of a message without payload, which is one control packet of 64 bytes.
const EMPTY: f64 = LATENCY + 64.0 * NS_PER_BYTE;

fn scenario(text: &str) -> Scenario {
    Scenario::from_toml(text, "jobs.toml", Path::new("."), &[]).unwrap()
}

fn job(rest: &str) -> JobSummary {
    let outcome = outcome(&format!("{STAR}[[job]]\n{rest}"));
    outcome.summary.jobs[0].clone()
}

/// Checks that a job takes the expected number of nanoseconds, within a thousandth.
#[track_caller]
fn takes(job: &JobSummary, expected: f64) {
    let finished = job.finished_ns.unwrap();
    assert!((finished / expected - 1.0).abs() < 1e-3, "{finished} ns; {expected} are right");
}

fn bytes(bytes: u64) -> f64 {
    bytes as f64 * NS_PER_BYTE
}

/// Writes a GOAL file with ten messages of 100,000 bytes in alternating directions; returns the lines
/// after `[[job]]`.
fn ping_pong() -> String {
    use std::fmt::Write;
    let mut text = "num_ranks 2\n".to_owned();
    for rank in 0..2u32 {
        writeln!(text, "rank {rank} {{").unwrap();
        for number in 1..=10u32 {
            let (what, to) = if (number + rank) % 2 == 1 { ("send", "to") } else { ("recv", "from") };
            writeln!(text, "l{number}: {what} 100000b {to} {} tag 1", 1 - rank).unwrap();
            if number > 1 {
                writeln!(text, "l{number} requires l{}", number - 1).unwrap();
            }
        }
        text += "}\n";
    }
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ping-pong.goal");
    // Concurrent tests write the same file, so write it completely before renaming it.
    let own = file.with_extension(format!("{:?}", std::thread::current().id()));
    std::fs::write(&own, text).unwrap();
    std::fs::rename(&own, &file).unwrap();
    format!("program = {{ kind = \"trace\", file = \"{}\" }}", file.display())
}

#[test]
fn a_ping_pong_takes_its_latency_and_its_bytes() {
    let plain = job(&ping_pong());
    assert_eq!(plain.messages, 10);
    takes(&plain, 10.0 * (LATENCY + bytes(100_000)));
    assert_eq!(plain.slowdown, Some(1.0));
    assert_eq!(plain.message_slowdown_mean, Some(1.0));
    let costly = job(&format!("{}\noverhead = \"1 us\"\ncopy_rate = \"80 Gbit/s\"", ping_pong()));
    let cpu = 1_000.0 + 100_000.0 * 0.1;
    takes(&costly, 10.0 * (LATENCY + bytes(100_000) + 2.0 * cpu));
}

#[test]
fn a_rendezvous_sends_a_request_and_waits_for_the_answer() {
    let above =
        |size: u32| job(&format!("{}\noverhead = \"1 us\"\nrendezvous_above = \"{size} B\"", ping_pong()));
    takes(&above(99_999), 10.0 * (1_000.0 + EMPTY + EMPTY + LATENCY + bytes(100_000) + 1_000.0));
    // A message whose size equals the threshold is sent immediately.
    takes(&above(100_000), 10.0 * (2_000.0 + LATENCY + bytes(100_000)));
}

fn collective(operation: &str, ranks: u32, size: &str, algorithm: (&str, &str)) -> JobSummary {
    let (key, algorithm) = algorithm;
    job(&format!(
        "program = {{ kind = \"collective\", operation = \"{operation}\", ranks = {ranks}, {size} iterations = 3 }}\n\
         algorithms = {{ {key} = \"{algorithm}\" }}"
    ))
}

#[test]
fn a_ring_all_reduce_sends_twice_the_vector_less_one_block() {
    let job = collective("all-reduce", 16, "bytes = \"1 MiB\",", ("all_reduce", "ring"));
    let steps = 2.0 * 15.0;
    takes(&job, 3.0 * steps * (LATENCY + bytes(1 << 16)));
    assert_eq!(job.bytes, 3 * 16 * 2 * 15 * (1 << 16));
    let kind = &job.collectives[0];
    assert_eq!((kind.operation, kind.algorithm, kind.finished), ("all-reduce", "ring", 3));
    assert!((kind.mean_ns - steps * (LATENCY + bytes(1 << 16))).abs() < 1.0);
}

#[test]
fn recursive_doubling_sends_the_vector_in_every_round() {
    let job = collective("all-reduce", 16, "bytes = \"64 KiB\",", ("all_reduce", "recursive-doubling"));
    takes(&job, 3.0 * 4.0 * (LATENCY + bytes(1 << 16)));
}

#[test]
fn a_pairwise_all_to_all_keeps_every_link_busy() {
    let job = collective("all-to-all", 16, "bytes = \"32 KiB\",", ("all_to_all", "pairwise"));
    takes(&job, 3.0 * 15.0 * (LATENCY + bytes(1 << 15)));
    assert!(job.sending_share > 0.98 && job.blocked_share == 0.0 && job.throttled_share == 0.0);
}

#[test]
fn a_linear_all_to_all_is_limited_by_the_receive_rate() {
    let job = collective("all-to-all", 8, "bytes = \"32 KiB\",", ("all_to_all", "linear"));
    let least = 3.0 * 7.0 * bytes(1 << 15);
    let finished = job.finished_ns.unwrap();
    assert!(finished > least && finished < 1.5 * least, "{finished} ns, at least {least}");
}

#[test]
fn a_dissemination_barrier_takes_logarithmic_rounds() {
    let job = collective("barrier", 16, "", ("barrier", "dissemination"));
    takes(&job, 3.0 * 4.0 * EMPTY);
}

#[test]
fn computing_and_waiting_are_reported_separately() {
    let job = job(
        "program = { kind = \"collective\", operation = \"all-reduce\", ranks = 4, bytes = \"1 MiB\", compute = \"1 ms\" }",
    );
    let moves = 2.0 * (LATENCY + bytes(1 << 20));
    takes(&job, 1e6 + moves);
    let computing = 1e6 / (1e6 + moves);
    assert!((job.computing_share - computing).abs() < 1e-3 && (job.busy_share - computing).abs() < 1e-3);
    assert!((job.sending_share - 2.0 * bytes(1 << 20) / (1e6 + moves)).abs() < 2e-3);
}

fn numbers(outcome: &Outcome, table: &str, column: &str) -> Vec<f64> {
    let table = outcome.tables.iter().find(|known| known.name == table).unwrap();
    match &table.columns.iter().find(|known| known.name == column).unwrap().values {
        Values::F64(values) => values.clone(),
        Values::U64(values) => values.iter().map(|&value| value as f64).collect(),
        Values::U32(values) => values.iter().map(|&value| f64::from(value)).collect(),
        Values::Name { codes, .. } => codes.iter().map(|&code| f64::from(code)).collect(),
    }
}

#[test]
fn two_jobs_that_meet_slow_each_other_down() {
    let one = "program = { kind = \"collective\", operation = \"broadcast\", ranks = 2, bytes = \"1 MiB\", iterations = 8 }\n";
    let to_h3 =
        |name: &str, from: &str| format!("[[job]]\nname = \"{name}\"\nhosts = [\"{from}\", \"H3\"]\n{one}");
    let together = outcome(&format!("{STAR}{}{}", to_h3("a", "H1"), to_h3("b", "H2")));
    for job in &together.summary.jobs {
        let slowdown = job.slowdown.unwrap();
        assert!((1.9..2.1).contains(&slowdown), "{}: {slowdown}", job.job);
        assert!(job.blocked_share > 0.2, "{}: {}", job.job, job.blocked_share);
    }
    let separate = format!("{STAR}[[job]]\nname = \"a\"\n{one}[[job]]\nname = \"b\"\n{one}");
    for job in &outcome(&separate).summary.jobs {
        assert_eq!(job.slowdown, Some(1.0), "{}", job.job);
    }
}

#[test]
fn a_hotspot_slows_a_job_and_congestion_control_speeds_it_up() {
    let job = "[[job]]\nhosts = [\"H1\", \"H2\", \"H3\", \"H4\"]\nprogram = { kind = \"collective\", operation = \"all-gather\", ranks = 4, bytes = \"256 KiB\", iterations = 4 }\n";
    let hot = "[[traffic]]\nhosts = [\"H1\", \"H2\", \"H5\", \"H6\", \"H7\"]\npattern = { kind = \"hotspots\", to = [\"H16\"] }\n";
    let slowdown = |text: &str| outcome(text).summary.jobs[0].slowdown.unwrap();
    let off = slowdown(&format!("{STAR}{job}{hot}"));
    let on = slowdown(&format!("{STAR}congestion = {{ mechanism = \"ib-cc\" }}\n{job}{hot}"));
    assert!(off > 1.1, "{off}");
    assert!(on < off, "{on} with control, {off} without");
}

#[test]
fn ranks_are_placed_as_configured() {
    const TREE: &str = "duration = \"1 s\"\ntopology = { kind = \"pgft\", m = [2, 4], w = [1, 2] }\nmeasure = { interval = \"10 ms\" }\n";
    let hosts = |rest: &str| {
        let program = "program = { kind = \"collective\", operation = \"barrier\", ranks = 4 }";
        let report = scenario(&format!("{TREE}[[job]]\n{program}\n{rest}")).check().unwrap();
        report.jobs[0].hosts.join(" ")
    };
    assert_eq!(hosts(""), "H1 H2 H3 H4");
    assert_eq!(hosts("placement = \"round-robin\""), "H1 H3 H5 H7");
    assert_eq!(hosts("ranks_per_host = 2"), "H1 H2");
    assert_eq!(hosts("ranks_per_host = 2\nsharing = \"cyclic\""), "H1 H2 H1 H2");
    assert_eq!(hosts("hosts = [\"H8\", \"H2\", \"H5\", \"H1\"]"), "H8 H2 H5 H1");
    let random = hosts("placement = \"random\"");
    assert_eq!(random, hosts("placement = \"random\""));
    assert!(random != "H1 H2 H3 H4" && random.split(' ').count() == 4, "{random}");
}

#[test]
fn messages_within_a_host_use_no_network() {
    let job = job(
        "program = { kind = \"collective\", operation = \"all-reduce\", ranks = 8, bytes = \"1 MiB\", compute = \"1 us\" }\nranks_per_host = 8",
    );
    assert_eq!((job.messages, job.finished_ns), (0, Some(1_000.0)));
}

#[test]
fn the_run_ends_with_its_jobs_unless_configured_otherwise() {
    let text = format!(
        "{STAR}[[job]]\nprogram = {{ kind = \"collective\", operation = \"barrier\", ranks = 4 }}\n[[flow]]\nfrom = \"H9\"\nto = \"H10\"\n"
    );
    let ends = outcome(&text);
    assert_eq!(ends.summary.simulated_ns, 10_000_000);
    let goes_on = outcome(&format!("end_with_jobs = false\n{}", text.replace("1 s", "50 ms")));
    assert_eq!(goes_on.summary.simulated_ns, 50_000_000);
}

#[test]
fn an_unfinished_job_is_reported() {
    let text = format!(
        "{}[[job]]\nname = \"long\"\nprogram = {{ kind = \"collective\", operation = \"all-reduce\", ranks = 4, bytes = \"64 MiB\" }}\n",
        STAR.replace("1 s", "20 ms")
    );
    let outcome = outcome(&text);
    let job = &outcome.summary.jobs[0];
    assert!(job.finished_ns.is_none() && job.slowdown.is_none() && job.unfinished_operations > 0);
    assert!(
        outcome.warnings.iter().any(|line| line.contains("job `long` did not finish")),
        "{:?}",
        outcome.warnings
    );
}

#[test]
fn ranks_finish_in_the_table_and_messages_add_up() {
    let text = format!(
        "{STAR}[[job]]\nprogram = {{ kind = \"transformer\", layers = 4, hidden = 256, sequence = 128, micro_batches = 2, tensor = 2, pipeline = 2, data = 2 }}\n"
    );
    let outcome = outcome(&text);
    let job = &outcome.summary.jobs[0];
    let finished = numbers(&outcome, "ranks", "last_finished_ns");
    assert_eq!(finished.iter().copied().fold(0.0, f64::max), job.finished_ns.unwrap());
    let sum = |table: &str, column: &str| numbers(&outcome, table, column).iter().sum::<f64>();
    assert_eq!(sum("messages", "bytes"), job.bytes as f64);
    assert_eq!(sum("ranks", "sent_bytes"), job.bytes as f64);
    assert_eq!(sum("ranks", "received_bytes"), job.bytes as f64);
    assert_eq!(numbers(&outcome, "messages", "bytes").len() as u64, job.messages);
    let calls = numbers(&outcome, "collectives", "end_ns");
    assert!(!calls.is_empty() && calls.iter().all(|end| *end <= job.finished_ns.unwrap()));
}

/// Invalid scenarios: the lines after `[[job]]`, and a part of the error message.
const WRONG: [(&str, &str); 48] = [
    ("", "job.0.program: missing, and needed"),
    ("program = 3", "job.0.program"),
    ("program = { kind = \"mpi\" }", "must be one of `trace`, `collective`, `hpc-challenge`"),
    ("program = { kind = \"trace\" }", "job.0.program.file: missing"),
    ("program = { kind = \"trace\", file = \"nowhere.goal\" }", "nowhere.goal"),
    ("program = { kind = \"trace\", file = \"x\", format = \"otf2\" }", "job.0.program.format"),
    ("program = { kind = \"trace\", file = \"x\", time_scale = -1 }", "time_scale"),
    ("program = { kind = \"trace\", file = \"x\", compute_scale = inf }", "must be 0 to 1e12"),
    ("program = { kind = \"trace\", file = \"x\", host_flops = 0 }", "must be 1 or more"),
    ("program = { kind = \"trace\", file = \"x\", ranks = 0 }", "must be 1 or more"),
    ("program = { kind = \"trace\", file = \"x\", in_memory = -1 }", "job.0.program.in_memory"),
    ("program = { kind = \"collective\", ranks = 4, bytes = \"1 KiB\" }", "operation: missing"),
    ("program = { kind = \"collective\", operation = \"all-reduce\", bytes = \"1 KiB\" }", "ranks: missing"),
    ("program = { kind = \"collective\", operation = \"all-reduce\", ranks = 4 }", "bytes"),
    (
        "program = { kind = \"collective\", operation = \"allreduce\", ranks = 4, bytes = \"1 KiB\" }",
        "did you mean",
    ),
    (
        "program = { kind = \"collective\", operation = \"barrier\", ranks = 4, bytes = \"1 KiB\" }",
        "a barrier carries no bytes",
    ),
    (
        "program = { kind = \"collective\", operation = \"all-reduce\", ranks = 0, bytes = \"1 KiB\" }",
        "1 or more",
    ),
    (
        "program = { kind = \"collective\", operation = \"all-reduce\", ranks = 17, bytes = \"1 KiB\" }",
        "17 ranks need 17",
    ),
    (
        "program = { kind = \"collective\", operation = \"all-reduce\", ranks = 6, groups = 4, bytes = \"1 KiB\" }",
        "cannot be divided",
    ),
    (
        "program = { kind = \"collective\", operation = \"all-reduce\", ranks = 4, bytes = 1024 }",
        "a size with its unit",
    ),
    (
        "program = { kind = \"collective\", operation = \"all-reduce\", ranks = 4, bytes = \"1 KiB\", compute = \"1 ps\" }",
        "whole nanoseconds",
    ),
    (
        "program = { kind = \"collective\", operation = \"all-reduce\", ranks = 6, bytes = \"1 KiB\" }\nalgorithms = { all_reduce = \"bruck\" }",
        "job.0.algorithms.all_reduce",
    ),
    (
        "program = { kind = \"collective\", operation = \"all-gather\", ranks = 6, bytes = \"1 KiB\" }\nalgorithms = { all_gather = \"recursive-doubling\" }",
        "recursive-doubling",
    ),
    ("program = { kind = \"hpc-challenge\", kernel = \"stream\" }", "job.0.program.kernel"),
    ("program = { kind = \"hpc-challenge\", flops = 0.5 }", "flops"),
    (
        "program = { kind = \"transformer\", layers = 3, pipeline = 2, tensor = 1, data = 1 }",
        "cannot be divided",
    ),
    ("program = { kind = \"transformer\", tensors = 2 }", "unknown key"),
    ("program = { kind = \"moe\", experts = 100 }", "100 experts cannot be divided among 16 ranks"),
    ("program = { kind = \"moe\", dispatch = \"host\" }", "set job.ranks_per_host"),
    ("program = { kind = \"moe\", shared_gradients = \"1 MiB\" }", "set backward = true"),
    (
        "program = { kind = \"moe\" }\nalgorithms = { channels = 4 }",
        "job.0.algorithms.channels = 4: has no effect unless",
    ),
    (
        "program = { kind = \"moe\" }\nalgorithms = { all_reduce = \"ring\", channels = 65 }",
        "job.0.algorithms.channels = 65: must be 1 to 64",
    ),
    (
        "program = { kind = \"moe\" }\nalgorithms = { all_reduce = \"ring\", channels = 4 }\nnccl = {}",
        "use nccl.channels",
    ),
    ("program = { kind = \"moe\" }\nnccl = { channels = 65 }", "job.0.nccl.channels = 65: must be 1 to 64"),
    ("program = { kind = \"moe\" }\nnccl = { protocols = [] }", "job.0.nccl.protocols"),
    ("program = { kind = \"moe\" }\nnccl = { bandwidth = \"0 Gbit/s\" }", "job.0.nccl.bandwidth"),
    (
        "program = { kind = \"moe\" }\nnccl = {}\nprotocol = \"ll\"",
        "job.0.protocol = \"ll\": cannot be combined with `nccl`",
    ),
    (
        "program = { kind = \"moe\" }\nnccl = {}\nranks_per_host = 2\nsharing = \"cyclic\"",
        "job.0.sharing = \"cyclic\": must be \"block\"",
    ),
    ("program = { kind = \"inference\", output = 0 }", "output = 0: must be 1 to 1048576"),
    (
        "program = { kind = \"moe\", dispatch = \"host\" }\nranks_per_host = 4\nsharing = \"cyclic\"",
        "job.0.sharing = \"cyclic\": must be \"block\"",
    ),
    (
        "program = { kind = \"collective\", operation = \"all-reduce\", ranks = 6, bytes = \"1 KiB\" }\n\
         algorithms = { all_reduce = \"hierarchical\" }\nranks_per_host = 4",
        "the first host has 4; use `ring`",
    ),
    (
        "program = { kind = \"collective\", operation = \"barrier\", ranks = 4 }\nalgorithms = { chunk = \"1 KiB\" }",
        "has no effect unless all_reduce = \"double-tree\"",
    ),
    (
        "program = { kind = \"collective\", operation = \"barrier\", ranks = 4 }\nprotocol = \"ll\"\n\
         algorithms = { barrier = \"in-network\" }",
        "job.0.protocol = \"ll\": must be \"simple\"",
    ),
    (
        "program = { kind = \"collective\", operation = \"barrier\", ranks = 4 }\nhosts = [\"H1\", \"H99\"]",
        "job.0.hosts.1",
    ),
    (
        "program = { kind = \"collective\", operation = \"barrier\", ranks = 4 }\nhosts = [\"H1\", \"H1\"]",
        "is in the list twice",
    ),
    (
        "program = { kind = \"collective\", operation = \"barrier\", ranks = 4 }\nhosts = [\"H1\", \"H2\"]",
        "2 are given, but 4 ranks need 4",
    ),
    (
        "program = { kind = \"collective\", operation = \"barrier\", ranks = 4 }\nranks_per_host = 0",
        "ranks_per_host",
    ),
    (
        "program = { kind = \"collective\", operation = \"barrier\", ranks = 4 }\nstart = \"2 s\"",
        "before the end of the run",
    ),
];

#[test]
fn errors_name_their_key() {
    for (rest, expected) in WRONG {
        let text = format!("{STAR}[[job]]\n{rest}\n");
        let built = Scenario::from_toml(&text, "jobs.toml", Path::new("."), &[])
            .and_then(|scenario| scenario.simulation().map(|_| ()));
        let error = built.expect_err(rest).to_string();
        assert!(error.contains(expected), "{rest}\n  says: {error}\n  wanted: {expected}");
        assert!(error.starts_with("jobs.toml"), "{error}");
    }
    let twice =
        "[[job]]\nname = \"a\"\nprogram = { kind = \"collective\", operation = \"barrier\", ranks = 2 }\n";
    let error = Scenario::from_toml(&format!("{STAR}{twice}{twice}"), "a.toml", Path::new("."), &[]);
    assert!(error.unwrap_err().to_string().contains("job.1.name"), "duplicate name");
    let none = Scenario::from_toml(
        &format!("{STAR}end_with_jobs = false\n[[flow]]\nfrom = \"H1\"\nto = \"H2\"\n"),
        "a.toml",
        Path::new("."),
        &[],
    );
    assert!(none.unwrap_err().to_string().contains("has no effect without a [[job]]"));
}

#[test]
fn a_trace_that_deadlocks_is_rejected_with_the_blocked_ranks() {
    let folder = std::env::temp_dir().join(format!("silvan-jobs-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(
        folder.join("stuck.goal"),
        "num_ranks 2\nrank 0 {\nl1: recv 8b from 1 tag 1\n}\nrank 1 {\nl1: recv 8b from 0 tag 1\n}\n",
    )
    .unwrap();
    let text =
        format!("{STAR}[[job]]\nname = \"stuck\"\nprogram = {{ kind = \"trace\", file = \"stuck.goal\" }}\n");
    let error = Scenario::from_toml(&text, "a.toml", &folder, &[])
        .unwrap()
        .simulation()
        .map(|_| ())
        .unwrap_err()
        .to_string();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(
        error.contains("job `stuck`") && error.contains("rank 0, operation 0: receive 8 bytes from rank 1"),
        "{error}"
    );
}

#[test]
fn a_trace_in_a_file_gives_the_results_of_one_in_memory() {
    let program = ping_pong();
    let of = |in_memory: u64| {
        let program = program.replace(" }", &format!(", in_memory = {in_memory} }}"));
        outcome(&format!("{STAR}[[job]]\n{program}"))
    };
    let stored = of(0);
    takes(&stored.summary.jobs[0], 10.0 * (LATENCY + bytes(100_000)));
    // The trace has 20 operations and 18 dependencies.
    assert_eq!(stored, of(37));
    assert_eq!(stored, of(38));
    assert_eq!(stored, outcome(&format!("{STAR}[[job]]\n{program}")));
}

#[test]
fn a_limit_has_no_effect_on_traces_that_are_always_in_memory() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("two.txt");
    std::fs::write(&file, "0 init\n1 init\n0 send 1 0 8\n1 recv 0 0 8\n").unwrap();
    let text = format!(
        "{STAR}[[job]]\nprogram = {{ kind = \"trace\", file = \"{}\", in_memory = 5 }}\n",
        file.display()
    );
    let built = scenario(&text).simulation().map(|_| ());
    let expected =
        "job.0.program.in_memory = 5: has no effect: a trace of the format \"ti\" is always in memory";
    assert!(built.unwrap_err().to_string().contains(expected));
}

#[test]
fn ranks_that_share_a_host_do_not_block_each_other() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("four.goal");
    let text = "num_ranks 4\nrank 0 {\nl1: send 1000000b to 2\n}\nrank 1 {\nl1: calc 1000\nl2: send 1000b to 3\nl2 requires l1\n}\nrank 2 {\nl1: recv 1000000b from 0\n}\nrank 3 {\nl1: recv 1000b from 1\n}\n";
    std::fs::write(&file, text).unwrap();
    let outcome = outcome(&format!(
        "{STAR}[[job]]\nprogram = {{ kind = \"trace\", file = \"{}\" }}\nranks_per_host = 2\n",
        file.display()
    ));
    let delivered = numbers(&outcome, "messages", "delivered_ns");
    let bytes = numbers(&outcome, "messages", "bytes");
    let small = bytes.iter().position(|&bytes| bytes == 1000.0).unwrap();
    // The message waits for the packet in transmission and for its turn, but not for the message of a
    // megabyte.
    assert!(delivered[small] < 1_000.0 + 3.0 * 2048.0 * NS_PER_BYTE, "{}", delivered[small]);
}
