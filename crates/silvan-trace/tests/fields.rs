//! Feeds the readers of VEF, binary GOAL, workloads, Chakra's messages in JSON, and algorithms of MSCCL a value that matters
//! for each field of their formats. A field that is used changes the result. A field that is ignored does not, and a note
//! names it.

use std::io::Cursor;

use silvan_trace::Trace;
use silvan_trace::error::TraceError;
use silvan_trace::read::fields::{CHAKRA, Fields, GOAL, GOAL_BINARY, Handling, MSCCL, TI, VEF, WORKLOAD};
use silvan_trace::read::source::Source;
use silvan_trace::read::{Options, chakra, goal, goal_binary, msccl, vef, workload};
use silvan_trace::write;

/// The result of a reader as text, and its notes.
type Outcome = Result<(String, Vec<String>), String>;

fn outcome(made: Result<Trace, TraceError>) -> Outcome {
    let made = made.map_err(|error| error.to_string())?;
    let mut text = Vec::new();
    write::text(&made, &mut text).unwrap();
    Ok((String::from_utf8(text).unwrap(), made.notes))
}

/// Compares what a reader does with a changed field with the table. `part` belongs to the note or the error.
fn compare(of: Fields, field: &str, part: &str, plain: &Outcome, changed: &Outcome) {
    let place = format!("{}: {field}: {changed:?}", of.format);
    let plain = plain.as_ref().unwrap();
    match (of.handling(field).unwrap(), changed) {
        // A value that makes the file inconsistent has an effect, too.
        (Handling::Used, Err(error)) => assert!(!part.is_empty() && error.contains(part), "{place}"),
        (Handling::Used, Ok((result, _))) => assert!(part.is_empty() && *result != plain.0, "{place}"),
        (Handling::Refused, Err(error)) => assert!(!part.is_empty() && error.contains(part), "{place}"),
        (Handling::Text, Ok(same)) => assert_eq!(same, plain, "{place}"),
        (Handling::Noted, Ok((result, notes))) => {
            assert_eq!(*result, plain.0, "{place}");
            assert!(notes.len() > plain.1.len() && notes.iter().any(|note| note.contains(part)), "{place}");
        }
        _ => panic!("{place}"),
    }
}

fn names(of: Fields) -> Vec<&'static str> {
    of.fields.iter().map(|field| field.name).collect()
}

/// Compares what a reader of text does with each change: the field, an old text, a new one, and a part of the note or error.
fn compare_all(
    of: Fields,
    text: &str,
    changes: &[(&'static str, &str, &str, &str)],
    read: impl Fn(&str) -> Outcome,
) {
    let plain = read(text);
    assert_eq!(changes.iter().map(|change| change.0).collect::<Vec<_>>(), names(of));
    for &(field, old, new, part) in changes {
        assert!(text.contains(old), "{field}");
        compare(of, field, part, &plain, &read(&text.replacen(old, new, 1)));
    }
}

const OF_VEF: &str = "VEF 3 2 1 2 6 FALSE\nC0 0 1 2\n0 0 1 100 0 1000 -1\n1 1 0 200 2 50 0\n\
    G0 0 0 0 64 0 1 10 0\nG0 0 0 1 0 64 1 10 1\nG0 0 0 2 0 64 0 5 -1\n\
    G1 0 1 0 0 32 3 1 0\nG1 0 1 1 32 0 3 1 0\nG1 0 1 2 32 0 3 1 0\n";

/// The field, an old text, a new one, and a part of the note or error.
const CHANGES_OF_VEF: [(&str, &str, &str, &str); 20] = [
    ("tasks", "VEF 3", "VEF 4", ""),
    ("messages", "VEF 3 2", "VEF 3 3", "declares 3 messages"),
    ("communicators", "3 2 1 2", "3 2 2 2", "declares 2 communicators"),
    ("collectives", "3 2 1 2", "3 2 1 3", "declares 3 collectives"),
    ("local collectives", "2 6 FALSE", "2 7 FALSE", "declares 7 local collectives"),
    ("onlySend", "FALSE", "TRUE", "not used: onlySend"),
    ("tasks of a communicator", "C0 0 1 2", "C0 0 1", "task 2 is not in C0"),
    ("message", "\n0 0 1 100", "\n7 0 1 100", "there is no message 0"),
    ("source", "\n0 0 1 100", "\n0 2 1 100", "there is no message 0 sent by task 0"),
    ("destination", "\n0 0 1 100", "\n0 0 2 100", "there is no message 0 received by task 1"),
    ("bytes", " 100 ", " 101 ", ""),
    ("dependency", "200 2 50 0", "200 1 50 0", "there is no message 0 sent by task 1"),
    ("time", "1000", "1001", ""),
    ("of", "200 2 50 0", "200 2 50 1", "there is no message 1 received by task 1"),
    ("collective", "G0", "G5", "declares 2 collectives"),
    ("communicator", "G0 0 0 0", "G0 1 0 0", "G0 is broadcast on C1"),
    ("operation", "G0 0 0 0", "G0 0 1 0", "G0 is reduce on C0"),
    ("task", "G0 0 0 2", "G0 0 0 1", "two records of task 1"),
    ("bytes that determine the operation", "G1 0 1 0 0 32", "G1 0 1 0 0 33", ""),
    ("other bytes of the operation", "G0 0 0 2 0 64", "G0 0 0 2 0 65", "bytes in 1 records of collective"),
];

#[test]
fn each_field_of_vef_is_used_or_noted() {
    let read =
        |text: &str| outcome(vef::read(Source::new(text.as_bytes(), "t").unwrap(), &Options::default()));
    assert_eq!(read(OF_VEF).unwrap().1, Vec::<String>::new());
    compare_all(VEF, OF_VEF, &CHANGES_OF_VEF, read);
}

#[test]
fn contradictory_bytes_of_collectives_are_counted() {
    // Operation, bytes sent and received by three tasks, and the number of records that contradict the others.
    let cases = [
        (0, [(64, 0), (0, 64), (0, 0)], 0),
        (0, [(64, 0), (64, 64), (0, 60)], 2),
        (1, [(0, 64), (64, 0), (64, 0)], 0),
        (1, [(32, 64), (64, 64), (60, 0)], 3),
        (2, [(8, 8), (8, 0), (8, 9)], 1),
        (3, [(16, 48), (16, 0), (16, 1)], 1),
        (4, [(48, 16), (0, 16), (7, 16)], 1),
        (5, [(16, 48), (16, 16), (16, 40)], 1),
        (6, [(0, 0), (0, 0), (0, 0)], 0),
        (6, [(5, 0), (5, 0), (5, 5)], 3),
        (7, [(9, 9), (9, 27), (9, 1)], 0),
        (7, [(9, 9), (9, 10), (9, 1)], 1),
    ];
    for (operation, bytes, expected) in cases {
        let mut text = "VEF 3 0 1 1 3 FALSE\nC0 0 1 2\n".to_owned();
        for (task, (sent, received)) in bytes.iter().enumerate() {
            text += &format!("G0 0 {operation} {task} {sent} {received} 0 0 -1\n");
        }
        let (_, notes) =
            outcome(vef::read(Source::new(text.as_bytes(), "t").unwrap(), &Options::default())).unwrap();
        let stated = format!("not used: bytes in {expected} records of collective operations");
        assert_eq!(notes.len(), usize::from(expected > 0), "{text}{notes:?}");
        assert!(notes.iter().all(|note| note.starts_with(&stated)), "{text}{notes:?}");
    }
}

/// The field, a position in the file, the bytes there, and a part of the note or error.
const CHANGES_OF_GOAL: [(&str, usize, &[u8], &str); 16] = [
    ("number of ranks", 8, &[3], "it must start where the previous one ends"),
    ("highest cpu", 12, &[0], "0 as the highest cpu in the header; operations have cpu 1"),
    ("highest nic", 13, &[0], "0 as the highest nic in the header; operations have nic 1"),
    ("start of a rank", 14, &[40], "rank 0 is from 40"),
    ("end of a rank", 22, &[174], "rank 1 is from 175"),
    ("number of operations", 46, &[2], "2 operations and 1 roots take 90 of 137 bytes"),
    ("roots", 54, &[1], "the roots are not"),
    ("number of dependencies", 97, &[0], "the operation has 0 dependencies"),
    ("kind", 62, &[9], "kind 9"),
    ("peer", 102, &[0], ""),
    ("size", 106, &[9], ""),
    ("tag", 114, &[4], ""),
    ("cpu", 118, &[0], ""),
    ("nic", 119, &[0], ""),
    ("operations that wait", 81, &[0], "the appendix has 2"),
    ("appendix", 175, &[2], "but 0 operations list it"),
];

#[test]
fn each_field_of_binary_goal_is_used_or_noted() {
    let text = "num_ranks 2\nrank 0 {\na: calc 1\nb: send 8b to 1 tag 3 cpu 1 nic 1\nb requires a\nc: calc 5\nc irequires a\n}\n\
                rank 1 {\nrecv 8b from 0 tag 3\n}\n";
    let made = goal::read(Source::new(text.as_bytes(), "t").unwrap(), &Options::default()).unwrap();
    let mut bytes = Vec::new();
    write::binary(&made, &mut bytes).unwrap();
    let read = |bytes: &[u8]| outcome(goal_binary::read(Cursor::new(bytes), "t", &Options::default()));
    let plain = read(&bytes);
    assert_eq!(plain.as_ref().unwrap().1, Vec::<String>::new());
    assert_eq!(CHANGES_OF_GOAL.map(|change| change.0).to_vec(), names(GOAL_BINARY));
    for (field, at, new, part) in CHANGES_OF_GOAL {
        let mut changed = bytes.clone();
        changed[at..at + new.len()].copy_from_slice(new);
        compare(GOAL_BINARY, field, part, &plain, &read(&changed));
    }
}

const OF_WORKLOAD: &str = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 2 pp: 2 all_gpus: 16 \
    checkpoints: 1 0 checkpoint_initiates: 1 1\n2\na -1 11 ALLREDUCE 64 12 ALLTOALL 65 13 ALLGATHER_EP 66 14\n\
    b -1 21 NONE 0 22 NONE 0 23 ALLREDUCE 67 24\n";

/// The field, an old text, a new one, and a part of the note or error.
const CHANGES_OF_WORKLOAD: [(&str, &str, &str, &str); 25] = [
    ("policy", "HYBRID_TRANSFORMER_FWD_IN_BCKWD", "HYBRID_TRANSFORMER", ""),
    ("model_parallel_NPU_group", "group: 2", "group: 4", ""),
    ("ep", "ep: 2", "ep: 1", ""),
    ("pp", "pp: 2", "pp: 1", ""),
    ("vpp", "pp: 2", "pp: 2 vpp: 3", "not used: vpp"),
    ("ga", "pp: 2", "pp: 2 ga: 3", "not used: ga"),
    ("pp_comm", "pp: 2", "pp: 2 pp_comm 3", "not used: pp_comm"),
    ("all_gpus", "all_gpus: 16", "all_gpus: 8", ""),
    ("checkpoints", "checkpoints: 1 0", "checkpoints: 2 0 1", ""),
    ("checkpoint_initiates", "initiates: 1 1", "initiates: 0", ""),
    (
        "DLRM_LAST_BOTTOM_LAYER",
        "ep: 2",
        "DLRM_LAST_BOTTOM_LAYER: 2",
        "is not one of model_parallel_NPU_group",
    ),
    ("number of layers", "\n2\n", "\n3\n", "3 layers are declared, but there are 2"),
    ("name", "\na ", "\nc ", ""),
    ("dependency", "a -1", "a 0", "not used: dependency"),
    ("forward compute", " 11 ", " 10 ", ""),
    ("forward collective", "ALLREDUCE", "ALLTOALL", ""),
    ("forward bytes", " 64 ", " 60 ", ""),
    ("input-gradient compute", " 12 ", " 10 ", ""),
    ("input-gradient collective", "ALLTOALL", "ALLREDUCE", ""),
    ("input-gradient bytes", " 65 ", " 60 ", ""),
    ("weight-gradient compute", " 13 ", " 10 ", ""),
    ("weight-gradient collective", "GATHER_EP", "GATHER", ""),
    ("weight-gradient bytes", " 66 ", " 60 ", ""),
    ("update", " 14\n", " 10\n", ""),
    ("policy of a layer", " 14\n", " 14 DATA\n", "a layer has 12 words"),
];

#[test]
fn each_field_of_workloads_is_used_or_noted() {
    let read =
        |text: &str| outcome(workload::read(Source::new(text.as_bytes(), "t").unwrap(), &Options::default()));
    compare_all(WORKLOAD, OF_WORKLOAD, &CHANGES_OF_WORKLOAD, read);
}

const OF_MESSAGES: &str = r#"{"version": "1"}
{"id": "1", "name": "n", "type": "COMP_NODE", "durationMicros": "3"}
{"id": "2", "type": "COMP_NODE", "dataDeps": ["1"], "attr": [{"name": "is_cpu_op", "boolVal": true},
 {"name": "num_ops", "int64Val": "5000"}, {"name": "tensor_size", "uint64Val": "100"}]}
{"id": "3", "type": "MEM_LOAD_NODE", "attr": [{"name": "tensor_size", "uint64Val": "4000"}]}
{"id": "4", "type": "COMM_COLL_NODE", "attr": [{"name": "comm_type", "int64Val": "0"},
 {"name": "comm_size", "int64Val": "1000"}, {"name": "pg_name", "stringVal": "a"},
 {"name": "involved_dim", "boolList": {"values": [true]}}]}
{"id": "5", "type": "COMM_SEND_NODE", "attr": [{"name": "comm_dst", "int32Val": 0},
 {"name": "comm_size", "int64Val": "100"}, {"name": "comm_tag", "int32Val": 3}]}
{"id": "6", "type": "COMM_RECV_NODE", "attr": [{"name": "comm_src", "int32Val": 0},
 {"name": "comm_size", "int64Val": "100"}, {"name": "comm_tag", "int32Val": 3}]}
"#;

/// The field, an old text, a new one, and a part of the note or error.
const CHANGES_OF_MESSAGES: [(&str, &str, &str, &str); 28] = [
    ("id", r#""id": "2""#, r#""id": "1""#, "t:3: node 1 is defined twice"),
    ("name", r#""n""#, r#""m""#, ""),
    ("Name", r#""id": "3""#, r#""Name": "m", "id": "3""#, ""),
    ("workload_name", r#""id": "3""#, r#""workload_name": "m", "id": "3""#, ""),
    ("version", r#""version": "1""#, r#""version": "2""#, ""),
    ("doc_string", r#""int64Val": "5000""#, r#""docString": "x", "int64Val": "5000""#, ""),
    ("type", "MEM_LOAD_NODE", "COMP_NODE", ""),
    ("ctrl_deps", r#""id": "2""#, r#""ctrlDeps": ["1"], "id": "2""#, "not used: ctrl_deps"),
    ("data_deps", r#""dataDeps": ["1"]"#, r#""dataDeps": []"#, ""),
    ("start_time_micros", r#""id": "2""#, r#""startTimeMicros": "7", "id": "2""#, "used: start_time_micros"),
    ("duration_micros", r#"Micros": "3""#, r#"Micros": "4""#, ""),
    ("inputs", r#""id": "2""#, r#""inputs": {"values": "[]"}, "id": "2""#, "not used: inputs"),
    ("outputs", r#""id": "2""#, r#""outputs": {"values": "[]"}, "id": "2""#, "not used: outputs"),
    ("is_cpu_op", "true}", "false}", ""),
    ("num_ops", "5000", "6000", ""),
    ("tensor_size", "4000", "5000", ""),
    ("comm_size", r#""100"}, {"name": "comm_tag""#, r#""200"}, {"name": "comm_tag""#, ""),
    ("comm_type", r#""int64Val": "0""#, r#""int64Val": "17""#, "t:6: node 4: comm_type 17 is not one of"),
    ("comm_src", r#"comm_src", "int32Val": 0"#, r#"comm_src", "int32Val": 7"#, "7"),
    ("comm_dst", r#"comm_dst", "int32Val": 0"#, r#"comm_dst", "int32Val": 7"#, "7"),
    ("comm_tag", r#""int32Val": 3"#, r#""int32Val": 4"#, ""),
    ("comm_root", r#""0"}"#, r#""5"}, {"name": "comm_root", "int32Val": 3}"#, "3"),
    ("root", r#""0"}"#, r#""5"}, {"name": "root", "int32Val": 3}"#, "3"),
    (
        "pg_name",
        r#""stringVal": "a"},"#,
        r#""stringVal": ""}, {"name": "involved_dim", "boolList": {"values": [false]}},"#,
        "by pg_name",
    ),
    (
        "involved_dim",
        r#""stringVal": "a"},"#,
        r#""stringVal": ""}, {"name": "involved_dim", "boolList": {"values": [false]}},"#,
        "involved_dim",
    ),
    (
        "comm_priority",
        r#"{"name": "num_ops""#,
        r#"{"name": "comm_priority", "int32Val": 2}, {"name": "num_ops""#,
        "not used: comm_priority",
    ),
    (
        "tensor_loc",
        r#"{"name": "num_ops""#,
        r#"{"name": "tensor_loc", "int32Val": 2}, {"name": "num_ops""#,
        "not used: tensor_loc",
    ),
    (
        "storage",
        r#""id": "2""#,
        r#""storage": {"level": "STORAGE_LEVEL_FS"}, "id": "2""#,
        "not used: storage",
    ),
];

#[test]
fn each_field_of_messages_in_json_is_used_or_noted() {
    let options = Options {
        host_flops: Some(1e9),
        host_bandwidth: Some("8 Gbit/s".parse().unwrap()),
        ..Options::default()
    };
    let read = |text: &str| {
        let open = |_| -> Result<(Box<dyn std::io::BufRead>, String), TraceError> {
            Ok((Box::new(Cursor::new(text.as_bytes().to_vec())), "t".to_owned()))
        };
        outcome(chakra::read(1, &open, &options))
    };
    compare_all(CHAKRA, OF_MESSAGES, &CHANGES_OF_MESSAGES, read);
}

const OF_MSCCL: &str = r#"<algo name="a" coll="custom" ngpus="3" nchannels="2" nchunksperloop="4">
<gpu id="0" i_chunks="4" o_chunks="4" s_chunks="1">
<tb id="0" send="1" recv="-1" chan="0">
<step s="0" type="s" srcbuf="i" srcoff="2" dstbuf="o" dstoff="0" cnt="2" depid="-1" deps="-1" hasdep="1"/>
<step s="1" type="nop" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="0" depid="-1" deps="-1" hasdep="0"/></tb>
<tb id="1" send="2" recv="-1" chan="1">
<step s="0" type="re" srcbuf="s" srcoff="0" dstbuf="o" dstoff="3" cnt="1" depid="0" deps="0" hasdep="0"/></tb></gpu>
<gpu id="1" i_chunks="4" o_chunks="4" s_chunks="0">
<tb id="0" send="-1" recv="0" chan="0">
<step s="0" type="r" srcbuf="i" srcoff="2" dstbuf="o" dstoff="0" cnt="2" depid="-1" deps="-1" hasdep="0"/></tb></gpu>
<gpu id="2" i_chunks="1" o_chunks="1" s_chunks="0"/></algo>
"#;

/// The field, an old text, a new one, and a part of the note or error.
const CHANGES_OF_MSCCL: [(&str, &str, &str, &str); 29] = [
    ("algo.name", "\"a\"", "\"b\"", ""),
    ("algo.coll", "custom", "allreduce", ""),
    ("algo.ngpus", "ngpus=\"3\"", "ngpus=\"4\"", "GPU 3 is missing"),
    ("algo.nchannels", "nchannels=\"2\"", "nchannels=\"1\"", "there is no channel 1"),
    ("algo.nchunksperloop", "loop=\"4\"", "loop=\"8\"", ""),
    ("algo.proto", "coll=", "proto=\"LL\" coll=", "not used: algo.proto"),
    ("algo.minBytes", "coll=", "minBytes=\"801\" coll=", "not used: algo.minBytes"),
    ("algo.maxBytes", "coll=", "maxBytes=\"799\" coll=", "not used: algo.maxBytes"),
    ("algo.inplace", "coll=", "inplace=\"1\" coll=", ""),
    ("algo.outofplace", "coll=", "outofplace=\"1\" coll=", ""),
    ("algo.redop", "coll=", "redop=\"sum\" coll=", "not used: algo.redop"),
    ("gpu.id", "id=\"2\" i_", "id=\"1\" i_", "there is a second GPU 1"),
    ("gpu.i_chunks", "i_chunks=\"4\"", "i_chunks=\"3\"", "2 chunks from 2 on exceed buffer i, which has 3"),
    ("gpu.o_chunks", "o_chunks=\"4\"", "o_chunks=\"3\"", "1 chunks from 3 on exceed buffer o, which has 3"),
    ("gpu.s_chunks", "s_chunks=\"1\"", "s_chunks=\"0\"", "1 chunks from 0 on exceed buffer s, which has 0"),
    ("tb.id", "<tb id=\"1\"", "<tb id=\"2\"", "thread block 2 follows 1 thread blocks"),
    ("tb.send", "send=\"1\"", "send=\"-1\"", "send of thread block 0 is -1, but step 0 needs it"),
    (
        "tb.recv",
        "recv=\"0\"",
        "recv=\"2\"",
        "1 messages are sent from GPU 0 to GPU 1 on channel 0, but 0 are received",
    ),
    ("tb.chan", "chan=\"0\"", "chan=\"1\"", "on channel 0, but 1 are received"),
    ("step.s", "s=\"0\" type=\"s\"", "s=\"1\" type=\"s\"", "step 1 follows step 1"),
    (
        "step.type",
        "type=\"r\"",
        "type=\"cpy\"",
        "1 messages are sent from GPU 0 to GPU 1 on channel 0, but 0 are received",
    ),
    ("step.srcbuf", "srcbuf=\"i\"", "srcbuf=\"s\"", "exceed buffer s"),
    ("step.srcoff", "srcoff=\"2\"", "srcoff=\"3\"", "2 chunks from 3 on exceed buffer i"),
    (
        "step.dstbuf",
        "dstbuf=\"o\" dstoff=\"3\"",
        "dstbuf=\"s\" dstoff=\"3\"",
        "1 chunks from 3 on exceed buffer s",
    ),
    ("step.dstoff", "dstoff=\"3\"", "dstoff=\"4\"", "1 chunks from 4 on exceed buffer o"),
    (
        "step.cnt",
        "cnt=\"2\"",
        "cnt=\"1\"",
        "1 chunks are sent from GPU 0 to GPU 1 on channel 0, but line 10 receives 2",
    ),
    ("step.depid", "depid=\"0\"", "depid=\"-1\"", ""),
    ("step.deps", "deps=\"0\"", "deps=\"1\"", ""),
    ("step.hasdep", "hasdep=\"1\"", "hasdep=\"0\"", ""),
];

#[test]
fn each_field_of_algorithms_is_used_or_noted() {
    let options = Options { bytes: Some(800), ..Options::default() };
    let read = |text: &str| outcome(msccl::read(text.as_bytes(), "t", &options));
    assert_eq!(read(OF_MSCCL).unwrap().1, Vec::<String>::new());
    compare_all(MSCCL, OF_MSCCL, &CHANGES_OF_MSCCL, read);
}

#[test]
fn the_page_lists_all_fields() {
    let page = include_str!("../../../docs/traces.md");
    for of in [CHAKRA, GOAL, GOAL_BINARY, MSCCL, TI, VEF, WORKLOAD] {
        let with = |handling: Handling| {
            let names: Vec<&str> =
                of.fields.iter().filter(|field| field.handling == handling).map(|field| field.name).collect();
            names.join(", ")
        };
        let kinds = [Handling::Used, Handling::Noted, Handling::Refused, Handling::Text].map(with);
        let row = format!("| `{}` | {} |", of.format, kinds.join(" | "))
            .replace("|  |", "| |")
            .replace("|  |", "| |");
        assert!(page.contains(&row), "docs/traces.md has no row\n{row}");
    }
}
