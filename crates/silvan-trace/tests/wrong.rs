//! Error messages for invalid files and arguments. `wrong.txt` contains them; `SILVAN_UPDATE=1` updates that
//! file. Review the difference.

use std::io::Cursor;

use silvan_trace::collective::Choice;
use silvan_trace::error::TraceError;
use silvan_trace::execute::{Parameters, execute};
use silvan_trace::generate::{Kernels, Transformer};
use silvan_trace::read::source::{MAX_LINE_BYTES, Source};
use silvan_trace::read::{Format, Options, chakra, goal, goal_binary, hpcc, msccl, ti, vef, workload};
use silvan_trace::trace::MAX_ITEMS;
use silvan_trace::{Trace, write};

type Parsed = Result<Trace, TraceError>;

fn source(bytes: &[u8]) -> Source<'_> {
    Source::new(bytes, "t").unwrap()
}

fn goal_of(text: &str) -> Parsed {
    goal::read(source(text.as_bytes()), &Options::default())
}

fn in_rank(statement: &str) -> Parsed {
    goal_of(&format!("num_ranks 2\nrank 0 {{\nl1: calc 1\n{statement}\n}}\n"))
}

fn binary_of(bytes: &[u8]) -> Parsed {
    goal_binary::read(Cursor::new(bytes), "t", &Options::default())
}

/// A file with three operations of rank 0, of which the second waits for the first, and one operation of
/// rank 1.
fn valid() -> Vec<u8> {
    let text = "num_ranks 2\nrank 0 {\na: calc 1\nb: calc 2\nb requires a\nsend 1b to 1\n}\nrank 1 {\nrecv 1b from 0\n}";
    let mut bytes = Vec::new();
    write::binary(&goal_of(text).unwrap(), &mut bytes).unwrap();
    binary_of(&bytes).unwrap();
    bytes
}

/// Parses the valid file after `other` has replaced the bytes at `place`.
fn with(place: usize, other: &[u8]) -> Parsed {
    let mut bytes = valid();
    bytes[place..place + other.len()].copy_from_slice(other);
    binary_of(&bytes)
}

fn ti_of(text: &str) -> Parsed {
    ti::read(1, &|_| Ok(source(text.as_bytes())), &Options::default())
}

fn vef_of(text: &str) -> Parsed {
    vef::read(source(text.as_bytes()), &Options::default())
}

fn hpcc_of(line: &str) -> Parsed {
    let text = format!("# HPCC 1.5.0 section X, 2 ranks, one machine\n{line}\n");
    hpcc::read(source(text.as_bytes()), &Options::default())
}

fn chakra_of(bytes: &[u8]) -> Parsed {
    chakra::read(1, &|_| Ok((Box::new(Cursor::new(bytes)), "t".to_owned())), &Options::default())
}

fn workload_of(text: &str) -> Parsed {
    workload::read(source(text.as_bytes()), &Options::default())
}

fn small(options: Options) -> Options {
    Options { limit: Some(10), ..options }
}

/// The error message of a result, or "accepted" if there is no error.
fn message<T, E: ToString>(result: Result<T, E>) -> String {
    result.err().map_or("accepted".to_owned(), |error| error.to_string())
}

fn goal_cases() -> Vec<(&'static str, String)> {
    vec![
        ("goal: nothing", message(goal_of(""))),
        ("goal: no num_ranks", message(goal_of("rank 0 {\n}\n"))),
        ("goal: no ranks", message(goal_of("num_ranks 0\n"))),
        ("goal: too many ranks", message(goal_of("num_ranks 99999999\n"))),
        ("goal: beyond 64 bits", message(goal_of("num_ranks 99999999999999999999\n"))),
        ("goal: rank out of range", message(goal_of("num_ranks 2\nrank 2 {\n}\n"))),
        ("goal: rank twice", message(goal_of("num_ranks 2\nrank 1 {\n}\nrank 1 {\n}\n"))),
        ("goal: no brace", message(goal_of("num_ranks 2\nrank 1\n"))),
        ("goal: no end", message(goal_of("num_ranks 1\nrank 0 {\ncalc 1\n"))),
        ("goal: unterminated comment", message(goal_of("num_ranks 1 /* one\n"))),
        ("goal: outside of a rank", message(goal_of("num_ranks 1\ncalc 1\n"))),
        ("goal: Portals", message(in_rank("l2: append 4b from 1"))),
        ("goal: Portals without label", message(in_rank("tput 4b to 1"))),
        ("goal: unknown operation", message(in_rank("l2: sned 4b to 1"))),
        ("goal: forward reference", message(in_rank("l1 requires l2"))),
        ("goal: no second label", message(in_rank("l1 requires"))),
        ("goal: a label alone", message(in_rank("l1"))),
        ("goal: a keyword as label", message(in_rank("send: calc 1"))),
        ("goal: long label", message(in_rank(&format!("{}: calc 1", "l".repeat(256))))),
        ("goal: size without b", message(in_rank("send 4 to 1"))),
        ("goal: from in a send", message(in_rank("send 4b from 1"))),
        ("goal: send to any", message(in_rank("send 4b to -1"))),
        ("goal: negative", message(in_rank("calc -5"))),
        ("goal: peer out of range", message(in_rank("send 4b to 7"))),
        ("goal: tag too large", message(in_rank("send 4b to 1 tag 4294967295"))),
        ("goal: cpu too large", message(in_rank("calc 4 cpu 256"))),
        ("goal: wrong order", message(in_rank("send 4b to 1 cpu 0 tag 3"))),
        ("goal: nic of a calc", message(in_rank("calc 4 nic 1"))),
        ("goal: two in a line", message(in_rank("calc 4 calc 5"))),
        ("goal: strange character", message(in_rank("calc 4;"))),
        ("goal: cycle", message(in_rank("l2: calc 1\nl1 requires l2\nl2 irequires l1"))),
        ("goal: of itself", message(in_rank("l1 requires l1"))),
        ("goal: not text", message(goal::read(source(b"num_ranks 1\n\xff\n"), &Options::default()))),
        ("goal: long line", message(goal_of(&"x".repeat(MAX_LINE_BYTES + 1)))),
        (
            "goal: more than allowed",
            message(goal::read(
                source(format!("num_ranks 1\nrank 0 {{\n{}}}\n", "calc 1\n".repeat(11)).as_bytes()),
                &small(Options::default()),
            )),
        ),
        ("gzip: damaged", message(goal::read(source(b"\x1f\x8b\x08\x00abc"), &Options::default()))),
    ]
}

fn binary_cases() -> Vec<(&'static str, String)> {
    // Rank 0 starts at byte 46 with a header of 8 bytes and 2 roots of 4 bytes. At byte 62, 3 operations of
    // 39 bytes follow.
    let (section, first, appendix) = (46, 62, 62 + 3 * 39);
    vec![
        ("binary: nothing", message(binary_of(b""))),
        ("binary: spoilt", message(with(0, &2342u64.to_le_bytes()))),
        ("binary: another number", message(with(0, &1u64.to_le_bytes()))),
        ("binary: no ranks", message(with(8, &[0; 4]))),
        ("binary: table beyond the end", message(with(8, &1000u32.to_le_bytes()))),
        ("binary: part beyond the end", message(with(22, &u64::MAX.to_le_bytes()))),
        ("binary: gap between ranks", message(with(14, &[39]))),
        ("binary: cut short", message(binary_of(&valid()[..valid().len() - 1]))),
        ("binary: something behind", message(binary_of(&[valid(), vec![0]].concat()))),
        ("binary: too many operations", message(with(section, &u32::MAX.to_le_bytes()))),
        ("binary: too many roots", message(with(section + 4, &1000u32.to_le_bytes()))),
        ("binary: another root", message(with(section + 8, &1u32.to_le_bytes()))),
        ("binary: unknown kind", message(with(first + 4, &[4]))),
        ("binary: peer out of range", message(with(first + 2 * 39 + 5, &[2]))),
        ("binary: any tag of a send", message(with(first + 2 * 39 + 17, &[255; 4]))),
        ("binary: wrong count", message(with(first, &1u32.to_le_bytes()))),
        ("binary: more successors than there are", message(with(first + 23, &2u32.to_le_bytes()))),
        ("binary: fewer successors than there are", message(with(first + 23, &0u32.to_le_bytes()))),
        ("binary: successor out of range", message(with(appendix, &3u32.to_le_bytes()))),
        ("binary: cycle", message(with(appendix, &0u32.to_le_bytes()))),
    ]
}

fn ti_cases() -> Vec<(&'static str, String)> {
    vec![
        ("ti: nothing", message(ti_of("\n\n"))),
        ("ti: no rank", message(ti_of("zero init\n"))),
        ("ti: rank too large", message(ti_of("99999999 init\n"))),
        ("ti: a rank is missing", message(ti_of("0 init\n2 init\n"))),
        ("ti: no action", message(ti_of("0\n"))),
        ("ti: unknown action", message(ti_of("0 explode 5\n"))),
        ("ti: waitany", message(ti_of("0 waitany 5\n"))),
        ("ti: no such rank", message(ti_of("0 send 3 0 5\n"))),
        ("ti: no tag", message(ti_of("0 send 0\n"))),
        ("ti: not a count", message(ti_of("0 send 0 0 many\n"))),
        ("ti: not finite", message(ti_of("0 compute inf\n"))),
        ("ti: negative", message(ti_of("0 compute -1\n"))),
        ("ti: unknown type", message(ti_of("0 send 0 0 5 99\n"))),
        ("ti: too few counts", message(ti_of("0 reducescatter 5 6\n1 init\n2 init\n"))),
        ("ti: root out of range", message(ti_of("0 bcast 5 3\n"))),
        ("ti: to any", message(ti_of("0 isend -1 0 5\n"))),
    ]
}

fn vef_cases() -> Vec<(&'static str, String)> {
    let two = |rest: &str| vef_of(&format!("VEF 2 1 1 0 0 FALSE\nC0 0 1\n{rest}\n"));
    let part = |rest: &str| vef_of(&format!("VEF 2 0 1 1 2 FALSE\nC0 0 1\n{rest}\n"));
    vec![
        ("vef: nothing", message(vef_of(""))),
        ("vef: no flag", message(vef_of("VEF 2 1 1 0 0 MAYBE\n"))),
        ("vef: no tasks", message(vef_of("VEF 0 1 1 0 0 TRUE\n"))),
        ("vef: too few messages", message(vef_of("VEF 2 1 1 0 0 TRUE\nC0 0 1\n"))),
        ("vef: too many messages", message(two("0 0 1 5 0 1 -1\n1 0 1 5 0 1 -1"))),
        ("vef: no task 2", message(two("0 0 2 5 0 1 -1"))),
        ("vef: too few words", message(two("0 0 1 5 0 1"))),
        ("vef: dependency on something", message(two("0 0 1 5 0 1 7"))),
        ("vef: unknown dependency", message(two("0 0 1 5 4 1 7"))),
        ("vef: no such message", message(two("0 0 1 5 1 1 7"))),
        ("vef: of itself", message(two("0 0 1 5 1 1 0"))),
        ("vef: task twice", message(vef_of("VEF 2 0 1 0 0 TRUE\nC0 1 1\n"))),
        ("vef: unknown operation", message(part("G0 0 8 0 5 5 0 0 -1\nG0 0 8 1 5 5 0 0 -1"))),
        ("vef: no communicator", message(part("G0 1 2 0 5 5 0 0 -1\nG0 1 2 1 5 5 0 0 -1"))),
        ("vef: part twice", message(part("G0 0 2 0 5 5 0 0 -1\nG0 0 2 0 5 5 0 0 -1"))),
        ("vef: another operation", message(part("G0 0 2 0 5 5 0 0 -1\nG0 0 6 1 5 5 0 0 -1"))),
        ("vef: part missing", message(vef_of("VEF 2 0 1 1 1 TRUE\nC0 0 1\nG0 0 2 0 5 5 0 0 -1\n"))),
        ("vef: sizes differ", message(part("G0 0 2 0 5 5 0 0 -1\nG0 0 2 1 6 6 0 0 -1"))),
        ("vef: wrong dependency", message(part("G0 0 2 0 5 5 0 0 -1\nG0 0 2 1 5 5 3 0 4"))),
    ]
}

fn workload_cases() -> Vec<(&'static str, String)> {
    const LAYER: &str = "a -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 8 1";
    let headed = |header: &str| workload_of(&format!("{header}\n1\n{LAYER}\n"));
    let grouped = |sizes: &str| headed(&format!("HYBRID_TRANSFORMER model_parallel_NPU_group: {sizes}"));
    let again = |lists: &str| {
        headed(&format!("HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 1 all_gpus: 2 {lists}"))
    };
    let layer = |line: &str| {
        workload_of(&format!("HYBRID_TRANSFORMER model_parallel_NPU_group: 2 all_gpus: 2\n1\n{line}\n"))
    };
    let data = |line: &str| workload_of(&format!("DATA all_gpus: 2\n1\n{line}\n"));
    let limited = |text: &str| message(workload::read(source(text.as_bytes()), &small(Options::default())));
    let other_ranks = Options { ranks: Some(4), ..Options::default() };
    vec![
        ("workload: nothing", message(workload_of("\n"))),
        ("workload: unknown policy", message(headed("HYBRID all_gpus: 2"))),
        ("workload: data and model", message(headed("HYBRID_DATA_MODEL all_gpus: 2"))),
        ("workload: customized", message(headed("HYBRID_CUSTOMIZED all_gpus: 2"))),
        ("workload: DLRM", message(headed("HYBRID_DLRM DLRM_LAST_BOTTOM_LAYER: 5"))),
        ("workload: no ranks", message(headed("DATA"))),
        ("workload: other ranks", message(workload::read(source(b"DATA all_gpus: 2\n1\n"), &other_ranks))),
        ("workload: zero ranks", message(headed("DATA all_gpus: 0"))),
        ("workload: too many ranks", message(headed("DATA all_gpus: 2000000"))),
        ("workload: unknown key", message(headed("DATA all_gpus: 2 tp: 4"))),
        ("workload: no value", message(headed("DATA all_gpus:"))),
        ("workload: negative bytes between stages", message(headed("DATA all_gpus: 2 pp_comm -1"))),
        ("workload: no size of groups", message(headed("HYBRID_TRANSFORMER all_gpus: 2"))),
        ("workload: groups of other sizes", message(grouped("3 pp: 2 all_gpus: 8"))),
        ("workload: groups of experts of another size", message(grouped("2 ep: 3 all_gpus: 8"))),
        ("workload: too few checkpoints", message(again("checkpoints: 2 0"))),
        ("workload: checkpoint beyond the end", message(again("checkpoints: 1 7"))),
        ("workload: no checkpoint", message(again("checkpoint_initiates: 1 0"))),
        ("workload: no number of layers", message(workload_of("MICRO all_gpus: 2\n"))),
        ("workload: not a number of layers", message(workload_of("MICRO all_gpus: 2\na -1\n"))),
        ("workload: too few layers", message(workload_of("MICRO all_gpus: 2\n2\n"))),
        ("workload: too many layers", message(layer(&format!("{LAYER}\n{LAYER}")))),
        ("workload: too few words", message(layer("a"))),
        ("workload: too many words", message(layer(&format!("{LAYER} DATA")))),
        ("workload: dependency", message(layer(&LAYER.replace("-1", "b")))),
        ("workload: negative duration", message(layer(&LAYER.replace("-1 1", "-1 -1")))),
        ("workload: bytes with decimals", message(layer(&LAYER.replace("8 1", "8.5 1")))),
        ("workload: unknown operation", message(layer(&LAYER.replace("REDUCE", "REDUCEALLTOALL")))),
        ("workload: operation of activations", message(data(&LAYER.replacen("NONE", "ALLGATHER", 1)))),
        ("workload: operation of experts", message(data(&LAYER.replace("REDUCE", "REDUCE_EP")))),
        (
            "workload: more layers than allowed",
            limited(&format!("DATA all_gpus: 2\n99\n{}", format!("{LAYER}\n").repeat(11))),
        ),
        ("workload: more than allowed", limited(&format!("DATA all_gpus: 8\n1\n{LAYER}\n"))),
        (
            "workload: more repetitions than allowed",
            limited(&format!(
                "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 1 all_gpus: 1 checkpoints: 1 0 \
                 checkpoint_initiates: 5 1 2 3 4 5\n6\n{}",
                "a -1 0 NONE 0 0 NONE 0 0 NONE 0 0\n".repeat(6)
            )),
        ),
    ]
}

fn msccl_cases() -> Vec<(&'static str, String)> {
    const ALGO: &str = "<algo ngpus=\"2\" nchannels=\"1\" nchunksperloop=\"2\">\n";
    const GPU: &str = "<gpu id=\"0\" i_chunks=\"2\" o_chunks=\"2\" s_chunks=\"0\">\n";
    const STEP: &str = "<step s=\"0\" type=\"s\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"o\" dstoff=\"0\" cnt=\"1\" depid=\"-1\" deps=\"-1\"/>\n";
    let of = |text: &str, bytes: Option<u64>| {
        message(msccl::read(text.as_bytes(), "t", &Options { bytes, ..Options::default() }))
    };
    let all = |text: &str| of(text, Some(8));
    let algo = |old: &str, new: &str| all(&format!("{}{GPU}</gpu></algo>", ALGO.replace(old, new)));
    let block = |line: &str| all(&format!("{ALGO}{GPU}{line}</tb></gpu></algo>"));
    let steps = |steps: &str| {
        all(&format!("{ALGO}{GPU}<tb id=\"0\" send=\"1\" recv=\"-1\" chan=\"0\">\n{steps}</tb></gpu></algo>"))
    };
    let step = |old: &str, new: &str| steps(&STEP.replace(old, new));
    let many = "<tb id=\"0\" send=\"1\" recv=\"-1\" chan=\"0\">\n";
    vec![
        ("msccl: nothing", all("")),
        ("msccl: not text", message(msccl::read(&b"<algo>\n\xff"[..], "t", &Options::default()))),
        ("msccl: no size", of(ALGO, None)),
        ("msccl: a size that cannot be divided", of(ALGO, Some(7))),
        ("msccl: no bytes", of(ALGO, Some(0))),
        ("msccl: another element", all("<algorithm>\n</algorithm>")),
        ("msccl: an element in a wrong place", all(&format!("{ALGO}{STEP}</algo>"))),
        ("msccl: an element in a step", steps(&STEP.replace("/>", "><step/></step>"))),
        ("msccl: cut short", all(&format!("{ALGO}{GPU}"))),
        ("msccl: wrong end", all(&format!("{ALGO}</gpu>"))),
        ("msccl: text", all(&format!("{ALGO}x</algo>"))),
        ("msccl: document type", all("<!DOCTYPE algo [<!ENTITY a \"b\">]>\n<algo/>")),
        ("msccl: two algorithms", all(&format!("{}</algo>{ALGO}</algo>", ALGO.replace('2', "1")))),
        ("msccl: attribute without value", algo("ngpus=\"2\"", "ngpus")),
        ("msccl: attribute twice", algo("ngpus=\"2\"", "ngpus=\"2\" ngpus=\"2\"")),
        ("msccl: no number of GPUs", algo("ngpus=\"2\"", "")),
        ("msccl: no GPUs", algo("ngpus=\"2\"", "ngpus=\"0\"")),
        ("msccl: too many GPUs", algo("ngpus=\"2\"", "ngpus=\"4000000000\"")),
        ("msccl: not a number", algo("ngpus=\"2\"", "ngpus=\"two\"")),
        ("msccl: a GPU is missing", algo("", "")),
        ("msccl: no such GPU", all(&format!("{ALGO}{}", GPU.replace("id=\"0\"", "id=\"2\"")))),
        ("msccl: GPU twice", all(&format!("{ALGO}{GPU}</gpu>{GPU}</gpu></algo>"))),
        ("msccl: thread block 1 first", block("<tb id=\"1\" send=\"-1\" recv=\"-1\" chan=\"0\">")),
        ("msccl: no such channel", block("<tb id=\"0\" send=\"-1\" recv=\"-1\" chan=\"1\">")),
        ("msccl: no such peer", block("<tb id=\"0\" send=\"2\" recv=\"-1\" chan=\"0\">")),
        ("msccl: its own peer", block("<tb id=\"0\" send=\"0\" recv=\"-1\" chan=\"0\">")),
        ("msccl: peer below -1", block("<tb id=\"0\" send=\"-2\" recv=\"-1\" chan=\"0\">")),
        ("msccl: connection twice", block(&format!("{many}</tb>\n{}", many.replacen('0', "1", 1)))),
        ("msccl: unknown type", step("type=\"s\"", "type=\"t\"")),
        ("msccl: no peer", step("type=\"s\"", "type=\"r\"")),
        ("msccl: unknown buffer", step("srcbuf=\"i\"", "srcbuf=\"x\"")),
        ("msccl: beyond a buffer", step("srcoff=\"0\"", "srcoff=\"2\"")),
        ("msccl: steps out of order", steps(&format!("{STEP}{STEP}"))),
        ("msccl: waits for nothing", step("depid=\"-1\" deps=\"-1\"", "depid=\"1\" deps=\"0\"")),
        ("msccl: waits for no step", step("depid=\"-1\"", "depid=\"0\"")),
        (
            "msccl: of itself",
            all(&format!(
                "{}{GPU}{}{}</tb></gpu></algo>",
                ALGO.replacen('2', "1", 1),
                many.replace("send=\"1\"", "send=\"-1\""),
                STEP.replace("type=\"s\"", "type=\"cpy\"").replace("\"-1\"", "\"0\"")
            )),
        ),
        (
            "msccl: never received",
            all(&format!(
                "{ALGO}{GPU}{many}{STEP}</tb></gpu>{}</gpu></algo>",
                GPU.replace("id=\"0\"", "id=\"1\"")
            )),
        ),
        (
            "msccl: more than allowed",
            message(msccl::read(
                format!(
                    "{ALGO}{GPU}{many}{}",
                    (0..12).map(|s| STEP.replace("s=\"0\"", &format!("s=\"{s}\""))).collect::<String>()
                )
                .as_bytes(),
                "t",
                &small(Options { bytes: Some(8), ..Options::default() }),
            )),
        ),
    ]
}

fn other_cases() -> Vec<(&'static str, String)> {
    let length_without_end = [0xff; 11];
    // Node 1, a computation, followed by the name of a process group.
    let named = b"\x00\x94\x02\x08\x01\x18\x04\x52\x8d\x02\x0a\x07pg_name\xea\x01\x80\x02";
    let too_long = Kernels { n: 1, ..Kernels::default() };
    let kernel = |kernels: Kernels| message(kernels.trace(&Choice::default(), MAX_ITEMS));
    let model = |model: Transformer| message(model.trace(&Choice::default(), MAX_ITEMS));
    let mut choice = Choice::default();
    let days = goal_of("num_ranks 1\nrank 0 {\ncalc 18446744073709551615\n}\n").unwrap();
    vec![
        (
            "vef: more than allowed",
            message(vef::read(
                source(b"VEF 11 0 1 0 0 TRUE\nC0 0 1 2 3 4 5 6 7 8 9 10\n"),
                &small(Options::default()),
            )),
        ),
        (
            "hpcc: more than allowed",
            message(hpcc::read(
                source(b"# 11 ranks\n0 1 2 Barrier comm 0 size 11\n"),
                &small(Options::default()),
            )),
        ),
        ("hpcc: no ranks", message(hpcc::read(source(b"# HPCC\n"), &Options::default()))),
        ("hpcc: too few words", message(hpcc_of("0 1"))),
        ("hpcc: backwards", message(hpcc_of("0 5 4 Barrier comm 0 size 2"))),
        ("hpcc: no such rank", message(hpcc_of("2 4 5 Barrier comm 0 size 2"))),
        ("hpcc: unknown call", message(hpcc_of("0 4 5 Alltoallw comm 0 size 2"))),
        ("hpcc: no communicator", message(hpcc_of("0 4 5 Barrier comm 3 size 2"))),
        ("hpcc: no bytes", message(hpcc_of("0 4 5 Send dst 1 tag 5 comm 0"))),
        ("hpcc: no value", message(hpcc_of("0 4 5 Send dst 1 bytes 4 comm 0 tag"))),
        ("hpcc: not a member", message(hpcc_of("0 4 5 Comm_split parent 0 new 3 members 1"))),
        ("hpcc: a communicator with an invalid member", message(hpcc_of("COMM 3 members 5"))),
        ("hpcc: a communicator without members", message(hpcc_of("COMM 3"))),
        ("chakra: nothing", message(chakra_of(b""))),
        ("chakra: unterminated length", message(chakra_of(&length_without_end))),
        ("chakra: too large", message(chakra_of(b"\x00\xff\xff\xff\xff\x0f"))),
        ("chakra: cut short", message(chakra_of(b"\x00\x05\x08\x01"))),
        ("chakra: no kind", message(chakra_of(b"\x00\x02\x08\x01"))),
        ("chakra: unknown kind", message(chakra_of(b"\x00\x04\x08\x01\x18\x0b"))),
        ("chakra: a send without size", message(chakra_of(b"\x00\x04\x08\x01\x18\x05"))),
        ("chakra: waits for nothing", message(chakra_of(b"\x00\x06\x08\x01\x18\x04\x28\x07"))),
        ("chakra: twice", message(chakra_of(b"\x00\x04\x08\x01\x18\x04\x04\x08\x01\x18\x04"))),
        ("chakra: long name", message(chakra_of(&[&named[..], &[b'g'; 256]].concat()))),
        ("chakra: unknown field", message(chakra_of(b"\x00\x02\x0b\x01"))),
        ("format: unknown", message(Format::by_name("dumpi"))),
        ("algorithm: of another", message(choice.set("all-to-all", "ring"))),
        ("algorithm: unknown operation", message(choice.set("allreduce", "ring"))),
        ("run: out of range", message(execute(&days, &Parameters::default()))),
        (
            "kernel: n below nb",
            kernel(Kernels { kernel: silvan_trace::generate::Kernel::Ptrans, ..too_long }),
        ),
        ("kernel: one rank", kernel(Kernels { ranks: 1, ..Kernels::default() })),
        ("kernel: no speed", kernel(Kernels { flops: 0.0, ..Kernels::default() })),
        ("model: layers", model(Transformer { layers: 25, ..Transformer::default() })),
        ("model: width", model(Transformer { hidden: 2049, ..Transformer::default() })),
        ("model: context", model(Transformer { context: 3, ..Transformer::default() })),
        ("model: no ranks", model(Transformer { data: 0, ..Transformer::default() })),
    ]
}

#[test]
fn errors_of_invalid_inputs_are_pinned() {
    let lists = [
        goal_cases(),
        binary_cases(),
        ti_cases(),
        vef_cases(),
        workload_cases(),
        msccl_cases(),
        other_cases(),
    ];
    let cases: Vec<(&str, String)> = lists.into_iter().flatten().collect();
    assert!(cases.len() >= 40);
    for (name, message) in &cases {
        assert_ne!(message, "accepted", "{name}");
    }
    let found: String = cases.iter().map(|(name, message)| format!("{name}\n    {message}\n")).collect();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/wrong.txt");
    if std::env::var_os("SILVAN_UPDATE").is_some() {
        std::fs::write(path, &found).unwrap();
    }
    let wanted = std::fs::read_to_string(path).unwrap();
    for (found, wanted) in found.lines().zip(wanted.lines()) {
        assert_eq!(found, wanted);
    }
    assert_eq!(found.lines().count(), wanted.lines().count());
}
