//! Small traces in all formats, with results that were verified manually.

use std::path::{Path, PathBuf};

use silvan_engine::Time;
use silvan_trace::check::{Contents, check, read_through};
use silvan_trace::collective::Choice;
use silvan_trace::execute::{Execution, Parameters, execute};
use silvan_trace::read::source::Source;
use silvan_trace::read::{Format, Options, detect, goal, goal_binary, hpcc, read, ti, vef};
use silvan_trace::trace::When;
use silvan_trace::write;
use silvan_trace::{Operation, Trace, TraceBuilder};

fn goal_of(text: &str) -> Trace {
    goal::read(Source::new(text.as_bytes(), "t.goal").unwrap(), &Options::default()).unwrap()
}

fn ti_of(text: &str, options: &Options) -> Trace {
    ti::read(1, &|_| Source::new(text.as_bytes(), "t.txt"), options).unwrap()
}

fn vef_of(text: &str) -> Trace {
    vef::read(Source::new(text.as_bytes(), "t.vef").unwrap(), &Options::default()).unwrap()
}

fn through_goal(trace: &Trace) -> [Trace; 2] {
    let mut written = Vec::new();
    write::text(trace, &mut written).unwrap();
    let text = goal_of(std::str::from_utf8(&written).unwrap());
    let mut written = Vec::new();
    write::binary(&text, &mut written).unwrap();
    let binary = goal_binary::read(std::io::Cursor::new(written), "t.bin", &Options::default()).unwrap();
    [text, binary]
}

/// Costs of all kinds. None of the times is a round number.
fn parameters() -> Parameters {
    Parameters {
        latency: Time(1_234_567),
        overhead: Time(345_671),
        gap: Time(76_543),
        gap_per_byte_fs: 80_123,
        overhead_per_byte_fs: 10_007,
        rendezvous_above: 8192,
    }
}

fn run(trace: &Trace) -> Execution {
    let done = execute(trace, &parameters()).unwrap();
    assert!(done.complete(), "{:?}", done.stuck);
    done
}

/// The time in ns at which each rank finishes if communication costs nothing.
fn ends(trace: &Trace) -> Vec<u64> {
    let done = execute(trace, &Parameters::default()).unwrap();
    assert!(done.complete(), "{:?}", done.stuck);
    done.finished.iter().map(|time| time.0 / 1000).collect()
}

const TI: &str = "\
0 init
1 init
2 init
0 compute 1e6
0 irecv 2 7 3000
0 isend 1 7 20000
1 recv 0 7 20000
1 compute 2.5e6
1 allreduce 5e4 5e5
0 wait 2 0 7
0 waitall
0 allreduce 5e4 5e5
2 send 0 7 3000
2 sleep 0.002
2 allreduce 5e4 5e5
0 sendRecv 100 1 200 2
1 sendRecv 300 2 100 0
2 sendRecv 200 0 300 1
0 barrier
1 barrier
2 barrier
0 alltoallv 600 0 100 200 900 0 300 400
1 alltoallv 600 300 0 50 900 100 0 60
2 alltoallv 600 400 60 0 900 200 50 0
0 finalize
1 finalize
2 finalize
";

#[test]
fn time_independent_through_goal_takes_the_same_time_to_the_picosecond() {
    for algorithm in ["recursive-doubling", "ring", "recursive-halving", "binomial"] {
        let mut algorithms = Choice::default();
        algorithms.set("all-reduce", algorithm).unwrap();
        let trace = ti_of(TI, &Options { algorithms, ..Options::default() });
        assert_eq!(trace.collectives[0].algorithm, algorithm);
        let first = run(&trace);
        assert!(first.span > Time(1_000_000));
        for again in through_goal(&trace) {
            let done = run(&again);
            assert_eq!((done.finished, done.messages), (first.finished.clone(), first.messages));
        }
    }
}

#[test]
fn types_of_data_have_their_sizes() {
    let bytes = |text: &str| {
        let trace = ti_of(text, &Options::default());
        Contents::of(&trace).bytes
    };
    assert_eq!(bytes("0 init\n1 init\n0 send 1 0 10\n1 recv 0 0 -1\n"), 10, "bytes");
    assert_eq!(bytes("0 init 1\n1 init 1\n0 send 1 0 10\n1 recv 0 0 10\n"), 80, "doubles");
    assert_eq!(bytes("0 init 1\n1 init\n0 send 1 0 10 3\n1 recv 0 0 -1\n"), 20, "shorts");
    assert_eq!(bytes("0 init\n1 init\n0 bcast 10 1 14\n1 bcast 10 1 14\n"), 160, "long doubles from rank 1");
}

#[test]
fn goal_dependencies_wildcards_and_cpus() {
    // b starts when a starts, and c after both have finished. The calc on cpu 1 runs concurrently.
    let trace = goal_of(
        "/* two\n lines */ num_ranks 2 // two\r\n\
         rank 0 {\r\n a: calc 100\n b: calc 50 cpu 1\nb irequires a\nc: calc 7\nc requires a\n c requires b\n\
         s: send 8 b to 1 tag 5\n s requires c }\n\
         rank 1 {\nrecv 8b from -1 tag -1 cpu 0 nic 0\n\ncalc 1000 cpu 3\n}",
    );
    assert_eq!(ends(&trace), [107, 1000]);
    assert_eq!(trace.dependencies(), 4);
    for again in through_goal(&trace) {
        assert_eq!(again, trace);
    }
    let scaled = Options { time_scale: 2.5, ..Options::default() };
    let trace =
        goal::read(Source::new(&b"num_ranks 1\nrank 0 {\ncalc 3\n}"[..], "t").unwrap(), &scaled).unwrap();
    assert_eq!(ends(&trace), [8], "7.5, rounded");
}

#[test]
fn ranks_in_any_order_and_without_schedule_are_noted() {
    let trace = goal_of("num_ranks 3\nrank 2 {\nl: calc 1\nl: calc 2\n}\nrank 0 {\n}\n");
    assert_eq!(
        trace.notes,
        [
            "ranks are not in the order 0, 1, 2, ...: other tools reject this",
            "1 of 3 ranks have no schedule: they do nothing",
            "label `l` of rank 2 is defined twice: the first definition is used",
        ]
    );
}

#[test]
fn messages_are_matched_first_in_first_out_per_source_and_tag() {
    // Two messages with tag 1 have one with tag 2 between them. The receive with tag 1 matches
    // the first message, and the receive with any tag matches the third.
    let trace = goal_of(
        "num_ranks 2\nrank 0 {\na: send 10b to 1 tag 1\nb: send 20b to 1 tag 2\nb requires a\n\
         c: send 30b to 1 tag 1\nc requires b\n}\n\
         rank 1 {\nw: calc 100\nx: recv 30b from 0 tag 1\nx requires w\ny: recv 20b from -1 tag 2\ny requires x\n\
         z: recv 10b from 0 tag -1\nz requires y\n}",
    );
    let done = execute(&trace, &Parameters::default()).unwrap();
    assert!(done.complete());
    // The first receive, of 30 bytes, matched the message of 10 bytes, and the last receive, of 10 bytes,
    // the message of 30 bytes.
    assert_eq!(done.truncated, (1, vec![(2, 6)]));
}

#[test]
fn a_rendezvous_does_not_overtake_an_eager_message() {
    // The request of the second message is smaller than the first message, but still matches after it.
    let trace = goal_of(
        "num_ranks 2\nrank 0 {\nsend 8000b to 1\nsend 9000b to 1\nsend 10b to 1\n}\n\
         rank 1 {\nrecv 8000b from 0\nrecv 9000b from 0\nrecv 10b from 0\n}\n",
    );
    for costs in [parameters(), Parameters { rendezvous_above: 8192, ..Parameters::default() }] {
        let done = execute(&trace, &costs).unwrap();
        assert!(done.complete() && done.truncated.0 == 0, "{:?}", done.truncated);
    }
}

#[test]
fn a_wildcard_does_not_match_a_message_of_a_collective_operation() {
    let text = |tag: u32| {
        format!("num_ranks 2\nrank 0 {{\nsend 1b to 1 tag {tag}\n}}\nrank 1 {{\nrecv 1b from 0 tag -1\n}}\n")
    };
    assert!(execute(&goal_of(&text((1 << 31) - 1)), &Parameters::default()).unwrap().complete());
    let trace = goal_of(&text(1 << 31));
    assert!(trace.notes[0].starts_with("a receive with any tag matches only tags below 2^31"));
    let done = execute(&trace, &Parameters::default()).unwrap();
    let told: Vec<String> = done.stuck.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        ["rank 1, operation 0: receive 1 bytes from rank 0, any tag: rank 0 has no matching send left"]
    );
    assert_eq!(done.unreceived, (1, vec![0]));
}

#[test]
fn a_wildcard_that_takes_the_message_of_another_receive_is_named() {
    // The first receive takes any tag, so it gets the message of the second one.
    let trace = goal_of(
        "num_ranks 2\nrank 0 {\na: send 64b to 1 tag 3\nb: send 8b to 1 tag 4\nb requires a\n}\n\
         rank 1 {\na: recv 8b from 0 tag -1\nb: recv 64b from 0 tag 3\nb requires a\n}\n",
    );
    let done = execute(&trace, &Parameters::default()).unwrap();
    let told: Vec<String> = done.stuck.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "rank 1, operation 1: receive 64 bytes from rank 0, tag 3: rank 0 has no matching send left; operation 0, a \
          receive with a wildcard, may have taken its message"
        ]
    );
}

#[test]
fn older_traces_of_simgrid_are_named() {
    let error = |text: &str| {
        let read = |_| Source::new(text.as_bytes(), "t");
        ti::read(1, &read, &Options::default()).unwrap_err().to_string()
    };
    let named = "this is the older form of SimGrid's traces";
    let process = error("p0 init\np1 init\n");
    assert!(process.starts_with("t:1: `p0` names a process") && process.contains(named), "{process}");
    let tagless = error("0 init\n0 send 1 1e6\n1 init\n1 recv 0 1e6\n");
    assert!(
        tagless.starts_with("t:2: `send` has a peer and a size, but no tag") && tagless.contains(named),
        "{tagless}"
    );
    // SMPI writes -555 for any source and -444 for any tag.
    let wild = ti_of("0 init\n1 init\n0 send 1 5 10\n1 recv -555 -444 10\n", &Options::default());
    assert!(run(&wild).complete());
}

#[test]
fn a_deadlock_is_reported_with_the_waiting_ranks() {
    // Three ranks send in a cycle before they receive: eager messages complete, and others do not.
    let text = "num_ranks 4\n\
        rank 0 {\na: send 9000b to 1\nb: recv 9000b from 2\nb requires a\n}\n\
        rank 1 {\na: send 9000b to 2\nb: recv 9000b from 0\nb requires a\n}\n\
        rank 2 {\na: send 9000b to 0\nb: recv 9000b from 1\nb requires a\n}\n\
        rank 3 {\nrecv 1b from 0\n}\n";
    let trace = goal_of(text);
    let eager = execute(&trace, &Parameters::default()).unwrap();
    assert_eq!((eager.unfinished, eager.circle.len()), (1, 0));
    let done = execute(&trace, &parameters()).unwrap();
    assert_eq!(done.unfinished, 7);
    assert_eq!(done.circle, [0, 1, 2]);
    let told: Vec<String> = done.stuck.iter().map(ToString::to_string).collect();
    assert_eq!(
        told[0],
        "rank 0, operation 0: send 9000 bytes to rank 1, tag 0: rank 1 never reaches its receive"
    );
    assert_eq!(
        told[3],
        "rank 3, operation 0: receive 1 bytes from rank 0, tag 0: rank 0 has no matching send left"
    );
}

/// A trace of two tasks with every kind of dependency and every operation.
fn vef_text() -> String {
    let mut text = "VEF 2 4 1 8 16 FALSE\nC0 0 1\n\
        0 0 1 100 0 1000 -1\n\
        1 1 0 200 2 50 0\n\
        2 1 0 300 1 70 1\n\
        G0 0 6 0 0 0 2 10 1\nG0 0 6 1 0 0 1 10 2\n\
        3 0 1 400 3 5 0\n"
        .to_owned();
    let sizes =
        ["64 0 0 64", "0 64 64 0", "8 8 8 8", "16 64 16 0", "64 16 0 32", "16 64 16 64", "", "128 1 128 1"];
    for (operation, sizes) in sizes.iter().enumerate().filter(|(_, sizes)| !sizes.is_empty()) {
        let words: Vec<&str> = sizes.split(' ').collect();
        let id = if operation < 6 { operation + 1 } else { operation };
        for task in 0..2 {
            let before = id - 1;
            text += &format!(
                "G{id} 0 {operation} {task} {} {} 3 1 {before}\n",
                words[2 * task],
                words[2 * task + 1]
            );
        }
    }
    text
}

#[test]
fn vef_with_every_dependency_and_every_operation() {
    let trace = vef_of(&vef_text());
    // 1000 + 50 + 70 to the last message, 10 more to the barrier, and 1 to each of the 7 collectives after
    // it; the message after the barrier does not take longer.
    assert_eq!(ends(&trace), [1137, 1137]);
    let by_name: Vec<(&str, u64)> = trace.collectives.iter().map(|one| (one.operation, one.calls)).collect();
    assert_eq!(
        by_name,
        [
            ("barrier", 2),
            ("broadcast", 2),
            ("reduce", 2),
            ("all-reduce", 2),
            ("gather", 2),
            ("scatter", 2),
            ("all-gather", 2),
            ("all-to-all", 2)
        ]
    );
    let first = run(&trace);
    for again in through_goal(&trace) {
        let done = run(&again);
        assert_eq!((done.finished, done.messages), (first.finished.clone(), first.messages));
    }
}

fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("silvan-trace-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn large_files_are_read_record_by_record() {
    let options = Options::default();
    let mut written = Vec::new();
    write::binary(&ti_of(TI, &options), &mut written).unwrap();
    let path = file("stream.bin", &written);
    let whole = check(&path, &options, &parameters()).unwrap();
    let streamed = read_through(&path, &options).unwrap();
    assert_eq!(streamed.contents, whole.contents);
    assert!(whole.run.unwrap().complete && streamed.run.is_none());
    let path = file("stream.vef", vef_text().as_bytes());
    let streamed = read_through(&path, &options).unwrap();
    assert_eq!((streamed.contents.sends, streamed.contents.bytes), (4, 1000));
    assert_eq!(streamed.contents.dependencies, 3 + 16);
    let path = file("stream.goal", b"num_ranks 1\n");
    let error = read_through(&path, &options).unwrap_err();
    assert!(error.to_string().ends_with("goal cannot be read record by record; goal-binary and vef can"));
}

#[test]
fn formats_are_detected_from_the_content() {
    let mut binary = Vec::new();
    write::binary(&goal_of("num_ranks 1\nrank 0 {\n}\n"), &mut binary).unwrap();
    for (name, bytes, format) in [
        ("a", &b"\n// a job\nnum_ranks 1\n"[..], Format::Goal),
        ("b", &binary, Format::GoalBinary),
        ("c", b"0 init\n", Format::Ti),
        ("d", vef_text().as_bytes(), Format::Vef),
        ("e", b"\x09\x0a\x070.0.4-a\x04\x08\x01\x18\x04", Format::Chakra),
        ("f", b"# HPCC 1.5.0 section MPIFFT, 8 ranks\n", Format::Hpcc),
        ("g", b"c\n", Format::Ti),
        ("h", b"MICRO\n1\n", Format::Workload),
    ] {
        assert_eq!(detect(&file(name, bytes)).unwrap(), format, "{name}");
    }
}

#[test]
fn the_files_of_other_ranks_are_found() {
    let first = file("job0.txt", b"0 init\n0 send 1 0 5\n");
    file("job1.txt", b"1 init\n1 recv 0 0 5\n");
    let index = file("job.index", b"job0.txt\njob1.txt\n");
    for path in [first, index] {
        let made = read(&path, &Options::default()).unwrap();
        assert_eq!((made.files.len(), made.trace.ranks()), (2, 2));
        assert!(run(&made.trace).complete());
    }
}

/// A protobuf message with number fields and byte fields.
fn message(numbers: &[(u8, u64)], parts: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let varint = |mut number: u64, into: &mut Vec<u8>| {
        while number >= 0x80 {
            into.push(number as u8 | 0x80);
            number >>= 7;
        }
        into.push(number as u8);
    };
    for &(field, number) in numbers {
        varint(u64::from(field) << 3, &mut bytes);
        varint(number, &mut bytes);
    }
    for (field, part) in parts {
        varint(u64::from(*field) << 3 | 2, &mut bytes);
        varint(part.len() as u64, &mut bytes);
        bytes.extend(part);
    }
    bytes
}

fn number_of(name: &str, number: u64) -> (u8, Vec<u8>) {
    (10, message(&[(13, number)], &[(1, name.into())]))
}

fn node(id: u64, kind: u64, micros: u64, waits_for: &[u8], attributes: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut parts = attributes.to_vec();
    if !waits_for.is_empty() {
        parts.push((5, waits_for.to_vec()));
    }
    message(&[(1, id), (3, kind), (7, micros)], &parts)
}

fn stream(messages: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = vec![0];
    for one in messages {
        assert!(one.len() < 128);
        bytes.push(one.len() as u8);
        bytes.extend(one);
    }
    bytes
}

#[test]
fn chakra_nodes_wait_for_their_data() {
    let group = |name: &str| (10, message(&[], &[(1, b"pg_name".to_vec()), (29, name.into())]));
    // Rank 0 computes and sends to rank 1, both execute an all-reduce, and only rank 1 belongs to group "b".
    let zero = stream(&[
        node(1, 4, 3, &[], &[]),
        node(
            2,
            5,
            0,
            &[1],
            &[number_of("comm_dst", 1), number_of("comm_size", 500), number_of("comm_tag", 4)],
        ),
        node(3, 7, 0, &[2], &[number_of("comm_type", 0), number_of("comm_size", 1000), group("a")]),
        node(4, 4, 2, &[3], &[number_of("is_cpu_op", 1)]),
    ]);
    let one = stream(&[
        node(9, 7, 0, &[8], &[number_of("comm_type", 0), number_of("comm_size", 1000), group("a")]),
        node(
            8,
            6,
            0,
            &[],
            &[number_of("comm_src", 0), number_of("comm_size", 500), number_of("comm_tag", 4)],
        ),
        node(7, 7, 0, &[9], &[number_of("comm_type", 2), number_of("comm_size", 9), group("b")]),
    ]);
    let path = file("step.0.et", &zero);
    file("step.1.et", &one);
    let made = read(&path, &Options::default()).unwrap();
    assert_eq!((made.files.len(), made.format), (2, Format::Chakra));
    assert_eq!(ends(&made.trace), [5000, 3000]);
    assert_eq!(Contents::of(&made.trace).bytes, 500 + 2 * 1000);
    assert_eq!(made.trace.notes, ["1 collective operations have only one rank, and take no time"]);
}

#[test]
fn chakra_traces_in_json_are_the_same() {
    // The trace of the test above. Numbers may be in quotes, and other keys have no effect
    // but a note.
    let zero = r#"{
  "workload_name": "step", "ngpus": 2,
  "workload_graph": [
    {"Id": 1, "Name": "a \"b\" {", "NodeType": 4, "runtime": 3, "data_deps": [], "ctrlDeps": [7], "is_cpu_op": false},
    {"Id": "2", "NodeType": 5, "data_deps": [1], "comm_dst": 1, "comm_size": "500", "comm_tag": 4},
    {"Id": 3, "NodeType": 7, "data_deps": [2], "comm_type": 0, "comm_size": 1000.0, "pg_name": "a"},
    {"Id": 4, "NodeType": 4, "runtime": 2, "data_deps": [3], "is_cpu_op": true}
  ], "soc": ["x", {"y": null}]
}"#;
    let one = r#"{"workload_graph": [
    {"Id": 9, "NodeType": 7, "data_deps": [8], "comm_type": 0, "comm_size": 1000, "pg_name": "a"},
    {"Id": 8, "NodeType": 6, "comm_src": 0, "comm_size": 500, "comm_tag": 4},
    {"Id": 7, "NodeType": 7, "data_deps": [9], "comm_type": 2, "comm_size": 9, "pg_name": "b"}]}"#;
    let path = file("graph.0.json", zero.as_bytes());
    let other = file("graph.1.json", one.as_bytes());
    for path in [&path, &other] {
        assert_eq!(detect(path).unwrap(), Format::Chakra);
        let made = read(path, &Options::default()).unwrap();
        assert_eq!((made.files.len(), made.format), (2, Format::Chakra));
        assert_eq!(ends(&made.trace), [5000, 3000]);
        assert_eq!(Contents::of(&made.trace).bytes, 500 + 2 * 1000);
        assert_eq!(
            made.trace.notes,
            [
                "1 collective operations have only one rank, and take no time",
                "not used: ctrl_deps, ngpus, soc"
            ]
        );
    }
}

/// A trace of one rank in binary form: a computation, a load of memory, and a computation that takes 3 us.
fn work_in_binary() -> PathBuf {
    let of =
        |operations: u64, bytes: u64| [number_of("num_ops", operations), number_of("tensor_size", bytes)];
    let last = [number_of("num_ops", 7), number_of("comm_priority", 2)];
    let nodes = [
        node(1, 4, 0, &[], &of(1_000_000_000_000, 1_000_000)),
        node(2, 2, 0, &[1], &of(0, 4_000_000)[1..]),
        node(3, 4, 3, &[2], &last),
    ];
    file("work.et", &stream(&nodes))
}

/// The same trace in JSON.
fn work_in_json() -> PathBuf {
    let text = r#"{"workload_graph": [
    {"Id": 1, "NodeType": 4, "num_ops": 1000000000000, "tensor_size": 1000000, "data_deps": []},
    {"Id": 2, "NodeType": 2, "tensor_size": 4000000, "data_deps": [1]},
    {"Id": 3, "NodeType": 4, "runtime": 3, "num_ops": 7, "comm_priority": 2, "data_deps": [2]}]}"#;
    file("work.json", text.as_bytes())
}

#[test]
fn chakra_nodes_without_a_duration_take_the_time_of_their_work() {
    for path in [work_in_binary(), work_in_json()] {
        let with = |host_flops, bandwidth: Option<&str>| {
            let host_bandwidth = bandwidth.map(|rate| rate.parse().unwrap());
            read(&path, &Options { host_flops, host_bandwidth, ..Options::default() })
        };
        let error = |host_flops, bandwidth| with(host_flops, bandwidth).unwrap_err().to_string();
        let missing = error(None, None);
        assert!(
            missing.contains(": 1 computations state operations (num_ops), but no duration; "),
            "{missing}"
        );
        assert!(missing.ends_with("`host_flops` in a scenario; the first is node 1 of rank 0"), "{missing}");
        let missing = error(Some(1e12), None);
        assert!(
            missing.contains(": 1 nodes state bytes of memory (tensor_size), but no duration; "),
            "{missing}"
        );
        // 1 s, 4 MB at 2 GB/s, and the stated 3 us.
        let made = with(Some(1e12), Some("2 GB/s")).unwrap();
        assert_eq!(ends(&made.trace), [1_000_000_000 + 2_000_000 + 3_000]);
        assert_eq!(
            made.trace.notes,
            [
                "2 nodes have no duration; it was computed with 1e12 flop/s (host_flops) and 16 Gbit/s of memory (host_bandwidth)",
                "not used: comm_priority"
            ]
        );
        // 1 MB at 100 kB/s takes longer than the operations; the load takes 40 s.
        let slow = with(Some(1e12), Some("100 kB/s")).unwrap();
        assert_eq!(ends(&slow.trace), [10_000_000_000 + 40_000_000_000 + 3_000]);
    }
}

#[test]
fn bytes_of_a_computation_need_no_bandwidth() {
    let path = file(
        "speed.json",
        br#"{"workload_graph": [{"Id": 1, "NodeType": 4, "num_ops": 5000, "tensor_size": 100}]}"#,
    );
    let made = read(&path, &Options { host_flops: Some(1e9), ..Options::default() }).unwrap();
    assert_eq!(ends(&made.trace), [5_000]);
    let note = "the tensor_size of 1 computations has no effect, because host_bandwidth is not given";
    assert_eq!(made.trace.notes[1], note);
}

#[test]
fn a_recording_is_trimmed_to_the_calls_that_all_ranks_have() {
    // Rank 1 arrives late at an earlier barrier; at the end, rank 0 sends a message that is not received.
    let text = "# HPCC 1.5.0 section X, 2 ranks, one machine\n\
        0 10 20 Comm_split parent 0 new 3 members 1 0\n\
        0 30 40 Isend dst 1 bytes 100 tag 7 comm 3 req a\n\
        0 45 50 Allreduce bytes 8 comm 3 size 2\n\
        0 60 70 Waitall n 1 a\n\
        0 170 180 Send dst 1 bytes 5 tag 1 comm 0\n\
        1 -50 5 Barrier comm 0 size 2\n\
        1 6 20 Comm_split parent 0 new 3 members 1 0\n\
        1 22 30 Allreduce bytes 8 comm 3 size 2\n\
        1 31 60 Recv src 0 bytes 100 tag 7 comm 3\n";
    let trace = hpcc::read(Source::new(text.as_bytes(), "x.txt").unwrap(), &Options::default()).unwrap();
    assert_eq!(trace.notes, ["2 calls at the ends were left out: their other side is not recorded"]);
    // Rank 0 computes 10 + 10 + 5 + 10 + 100 ns. Waiting for rank 1 adds no time.
    assert_eq!(ends(&trace)[0], 135);
}

#[test]
fn a_recording_may_name_communicators_before_and_all_operations() {
    let calls = [
        "Gather root 1 bytes 10 comm 2 size 2",
        "Scatter root 0 bytes 10 comm 2 size 2",
        "Scan bytes 10 comm 2 size 2",
        "Reduce_scatter_block bytes 10 comm 2 size 2",
        "Allgather bytes 10 comm 2 size 2",
        "Reduce root 1 bytes 10 comm 2 size 2",
        "Waitall n 0",
    ];
    let mut text = "# Recorded, 3 ranks\nCOMM 2 members 2 0\n".to_owned();
    for (number, call) in calls.iter().enumerate() {
        text += &format!("0 {0} {0} {call}\n2 {0} {0} {call}\n", 10 * number);
    }
    let trace = hpcc::read(Source::new(text.as_bytes(), "x.txt").unwrap(), &Options::default()).unwrap();
    assert_eq!(ends(&trace), [60, 0, 60]);
    // Each call sends one message, or two if both ranks send. For example, the gather to member 1, which is
    // rank 0, sends one.
    assert_eq!(Contents::of(&trace).bytes, 10 * (1 + 1 + 1 + 2 + 2 + 1));
    assert_eq!((trace.operation(0).peer, trace.operation(0).kind), (2, silvan_trace::Kind::Recv));
}

/// The time at which rank 0 ends: as the trace is, and after it has been written and read in both formats.
fn ends_as_written(build: TraceBuilder) -> [u64; 3] {
    let trace = build.finish().unwrap();
    let (mut text, mut binary) = (Vec::new(), Vec::new());
    write::text(&trace, &mut text).unwrap();
    write::binary(&trace, &mut binary).unwrap();
    let text = goal::read(Source::new(&text[..], "x").unwrap(), &Options::default()).unwrap();
    let binary = goal_binary::read(std::io::Cursor::new(binary), "x", &Options::default()).unwrap();
    [&trace, &text, &binary].map(|trace| ends(trace)[0])
}

#[test]
fn delays_that_overlap_are_written_on_cpus_that_are_free() {
    // A long delay, and next to it more short ones than there are CPUs. The last one begins before the long
    // delay ends, and ends later.
    for leaves in [false, true] {
        let mut build = TraceBuilder::new(1, 1 << 12).unwrap();
        build.push(0, Operation::delay(10_000)).unwrap();
        let mut last = build.push(0, Operation::calc(0)).unwrap();
        for length in (0..300).map(|_| 10).chain([8_000]) {
            let delay = build.push(0, Operation::delay(length)).unwrap();
            build.wait(0, delay, last, When::Finish).unwrap();
            if leaves {
                let leaf = build.push(0, Operation::calc(0)).unwrap();
                build.wait(0, leaf, delay, When::Finish).unwrap();
            }
            last = delay;
        }
        assert_eq!(ends_as_written(build), [11_000; 3], "{leaves}");
    }
    // A delay that waits only for the start of another one overlaps with it.
    let mut build = TraceBuilder::new(1, 10).unwrap();
    let one = build.push(0, Operation::delay(500)).unwrap();
    let other = build.push(0, Operation::delay(400)).unwrap();
    build.wait(0, other, one, When::Start).unwrap();
    assert_eq!(ends_as_written(build), [500; 3]);
    // All delays of two that share an earlier one overlap.
    let mut build = TraceBuilder::new(1, 10).unwrap();
    let first = build.push(0, Operation::delay(100)).unwrap();
    for _ in 0..2 {
        let later = build.push(0, Operation::delay(300)).unwrap();
        build.wait(0, later, first, When::Finish).unwrap();
    }
    assert_eq!(ends_as_written(build), [400; 3]);
}

/// The notes about a recording of two ranks.
fn notes_of(calls: &str) -> Vec<String> {
    let text = format!("# HPCC 1.5.0 section X, 2 ranks, one machine\n{calls}");
    hpcc::read(Source::new(text.as_bytes(), "x.txt").unwrap(), &Options::default()).unwrap().notes
}

#[test]
fn recordings_whose_calls_do_not_fit_have_a_note() {
    let sends = "0 10 20 Send dst 1 bytes 100 tag 7 comm 0\n0 30 40 Send dst 1 bytes 50 tag 7 comm 0\n";
    let receives = |first: u32, second: u32| {
        format!(
            "1 10 20 Recv src 0 bytes {first} tag 7 comm 0\n1 30 40 Recv src 0 bytes {second} tag 7 comm 0\n"
        )
    };
    assert_eq!(notes_of(&format!("{sends}{}", receives(100, 50))), [""; 0]);
    let large = "on 1 channels (sender, receiver, communicator, tag), some messages are larger than their receives \
                 however they are aligned, so messages may be matched wrongly";
    assert_eq!(notes_of(&format!("{sends}{}", receives(100, 49))), [large]);
    let collective =
        |other: &str| notes_of(&format!("0 10 20 Barrier comm 0 size 2\n1 10 20 {other} comm 0 size 2\n"));
    assert_eq!(collective("Barrier"), [""; 0]);
    let differ = "in 1 communicators, the collective calls of the ranks differ however they are aligned, so calls may \
                  be matched wrongly";
    assert_eq!(collective("Allreduce bytes 8"), [differ]);
}

#[test]
fn recordings_of_hpc_challenge_run_to_completion() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/traces/hpcc-8");
    for (name, messages) in [("hpl", 969), ("mpifft", 384), ("ptrans", 1855)] {
        let path = folder.join(format!("{name}-8ranks.txt.gz"));
        let done = check(&path, &Options::default(), &parameters()).unwrap();
        assert_eq!((done.format, done.contents.ranks), (Format::Hpcc, 8));
        let ran = done.run.unwrap();
        assert!(ran.complete && ran.warnings.is_empty(), "{name}: {:?} {:?}", ran.stuck, ran.warnings);
        assert_eq!(ran.messages, messages, "{name}");
    }
}
