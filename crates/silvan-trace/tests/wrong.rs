//! What is said of wrong files. The messages stand in `wrong.txt`; with `SILVAN_UPDATE=1` they are written
//! there anew: look at the difference.
#![allow(clippy::unwrap_used)]

use std::io::Cursor;

use silvan_trace::collective::Choice;
use silvan_trace::error::TraceError;
use silvan_trace::execute::{Parameters, execute};
use silvan_trace::generate::{Kernels, Transformer};
use silvan_trace::read::source::{MAX_LINE_BYTES, Source};
use silvan_trace::read::{Format, Options, chakra, goal, goal_binary, hpcc, ti, vef};
use silvan_trace::trace::MAX_ITEMS;
use silvan_trace::{Trace, write};

type Told = Result<Trace, TraceError>;

fn source(bytes: &[u8]) -> Source<'_> {
    Source::new(bytes, "t").unwrap()
}

fn goal_of(text: &str) -> Told {
    goal::read(source(text.as_bytes()), &Options::default())
}

fn in_rank(statement: &str) -> Told {
    goal_of(&format!("num_ranks 2\nrank 0 {{\nl1: calc 1\n{statement}\n}}\n"))
}

fn binary_of(bytes: &[u8]) -> Told {
    goal_binary::read(Cursor::new(bytes), "t", &Options::default())
}

/// Three operations of rank 0, of which the second waits for the first; nothing of rank 1.
fn sound() -> Vec<u8> {
    let text = "num_ranks 2\nrank 0 {\na: calc 1\nb: calc 2\nb requires a\nsend 1b to 1\n}\nrank 1 {\nrecv 1b from 0\n}";
    let mut bytes = Vec::new();
    write::binary(&goal_of(text).unwrap(), &mut bytes).unwrap();
    binary_of(&bytes).unwrap();
    bytes
}

/// With other bytes from some place on.
fn with(place: usize, other: &[u8]) -> Told {
    let mut bytes = sound();
    bytes[place..place + other.len()].copy_from_slice(other);
    binary_of(&bytes)
}

fn ti_of(text: &str) -> Told {
    ti::read(1, &|_| Ok(source(text.as_bytes())), &Options::default())
}

fn vef_of(text: &str) -> Told {
    vef::read(source(text.as_bytes()), &Options::default())
}

fn hpcc_of(line: &str) -> Told {
    let text = format!("# HPCC 1.5.0 section X, 2 ranks, one machine\n{line}\n");
    hpcc::read(source(text.as_bytes()), &Options::default())
}

fn chakra_of(bytes: &[u8]) -> Told {
    chakra::read(1, &|_| Ok((Box::new(Cursor::new(bytes)), "t".to_owned())), &Options::default())
}

fn small(options: Options) -> Options {
    Options { limit: 10, ..options }
}

/// Messages of what is refused for other reasons than what a file holds.
fn told<T, E: ToString>(result: Result<T, E>) -> String {
    result.err().map_or("accepted".to_owned(), |error| error.to_string())
}

fn goal_cases() -> Vec<(&'static str, String)> {
    vec![
        ("goal: nothing", told(goal_of(""))),
        ("goal: no num_ranks", told(goal_of("rank 0 {\n}\n"))),
        ("goal: no ranks", told(goal_of("num_ranks 0\n"))),
        ("goal: too many ranks", told(goal_of("num_ranks 99999999\n"))),
        ("goal: beyond 64 bits", told(goal_of("num_ranks 99999999999999999999\n"))),
        ("goal: rank out of range", told(goal_of("num_ranks 2\nrank 2 {\n}\n"))),
        ("goal: rank twice", told(goal_of("num_ranks 2\nrank 1 {\n}\nrank 1 {\n}\n"))),
        ("goal: no brace", told(goal_of("num_ranks 2\nrank 1\n"))),
        ("goal: no end", told(goal_of("num_ranks 1\nrank 0 {\ncalc 1\n"))),
        ("goal: comment without end", told(goal_of("num_ranks 1 /* one\n"))),
        ("goal: outside of a rank", told(goal_of("num_ranks 1\ncalc 1\n"))),
        ("goal: Portals", told(in_rank("l2: append 4b from 1"))),
        ("goal: Portals without label", told(in_rank("tput 4b to 1"))),
        ("goal: unknown operation", told(in_rank("l2: sned 4b to 1"))),
        ("goal: forward reference", told(in_rank("l1 requires l2"))),
        ("goal: no second label", told(in_rank("l1 requires"))),
        ("goal: a label alone", told(in_rank("l1"))),
        ("goal: a keyword as label", told(in_rank("send: calc 1"))),
        ("goal: long label", told(in_rank(&format!("{}: calc 1", "l".repeat(256))))),
        ("goal: size without b", told(in_rank("send 4 to 1"))),
        ("goal: from in a send", told(in_rank("send 4b from 1"))),
        ("goal: send to any", told(in_rank("send 4b to -1"))),
        ("goal: negative", told(in_rank("calc -5"))),
        ("goal: peer out of range", told(in_rank("send 4b to 7"))),
        ("goal: tag too large", told(in_rank("send 4b to 1 tag 4294967295"))),
        ("goal: cpu too large", told(in_rank("calc 4 cpu 256"))),
        ("goal: wrong order", told(in_rank("send 4b to 1 cpu 0 tag 3"))),
        ("goal: nic of a calc", told(in_rank("calc 4 nic 1"))),
        ("goal: two in a line", told(in_rank("calc 4 calc 5"))),
        ("goal: strange character", told(in_rank("calc 4;"))),
        ("goal: circle", told(in_rank("l2: calc 1\nl1 requires l2\nl2 irequires l1"))),
        ("goal: of itself", told(in_rank("l1 requires l1"))),
        ("goal: not text", told(goal::read(source(b"num_ranks 1\n\xff\n"), &Options::default()))),
        ("goal: long line", told(goal_of(&"x".repeat(MAX_LINE_BYTES + 1)))),
        (
            "goal: more than allowed",
            told(goal::read(
                source(format!("num_ranks 1\nrank 0 {{\n{}}}\n", "calc 1\n".repeat(11)).as_bytes()),
                &small(Options::default()),
            )),
        ),
        ("gzip: damaged", told(goal::read(source(b"\x1f\x8b\x08\x00abc"), &Options::default()))),
    ]
}

fn binary_cases() -> Vec<(&'static str, String)> {
    // Rank 0 begins at byte 46: 3 operations, 2 roots of 4 bytes, then from 62 on 39 bytes each.
    let (section, first, appendix) = (46, 62, 62 + 3 * 39);
    vec![
        ("binary: nothing", told(binary_of(b""))),
        ("binary: spoilt", told(with(0, &2342u64.to_le_bytes()))),
        ("binary: another number", told(with(0, &1u64.to_le_bytes()))),
        ("binary: no ranks", told(with(8, &[0; 4]))),
        ("binary: table beyond the end", told(with(8, &1000u32.to_le_bytes()))),
        ("binary: part beyond the end", told(with(22, &u64::MAX.to_le_bytes()))),
        ("binary: parts apart", told(with(14, &[39]))),
        ("binary: cut short", told(binary_of(&sound()[..sound().len() - 1]))),
        ("binary: something behind", told(binary_of(&[sound(), vec![0]].concat()))),
        ("binary: too many operations", told(with(section, &u32::MAX.to_le_bytes()))),
        ("binary: too many roots", told(with(section + 4, &1000u32.to_le_bytes()))),
        ("binary: another root", told(with(section + 8, &1u32.to_le_bytes()))),
        ("binary: unknown kind", told(with(first + 4, &[4]))),
        ("binary: peer out of range", told(with(first + 2 * 39 + 5, &[2]))),
        ("binary: any tag of a send", told(with(first + 2 * 39 + 17, &[255; 4]))),
        ("binary: wrong count", told(with(first, &1u32.to_le_bytes()))),
        ("binary: more successors than there are", told(with(first + 23, &2u32.to_le_bytes()))),
        ("binary: fewer successors than there are", told(with(first + 23, &0u32.to_le_bytes()))),
        ("binary: successor out of range", told(with(appendix, &3u32.to_le_bytes()))),
        ("binary: circle", told(with(appendix, &0u32.to_le_bytes()))),
    ]
}

fn ti_cases() -> Vec<(&'static str, String)> {
    vec![
        ("ti: nothing", told(ti_of("\n\n"))),
        ("ti: no rank", told(ti_of("zero init\n"))),
        ("ti: rank too large", told(ti_of("99999999 init\n"))),
        ("ti: a rank is missing", told(ti_of("0 init\n2 init\n"))),
        ("ti: no action", told(ti_of("0\n"))),
        ("ti: unknown action", told(ti_of("0 explode 5\n"))),
        ("ti: waitany", told(ti_of("0 waitany 5\n"))),
        ("ti: nobody there", told(ti_of("0 send 3 0 5\n"))),
        ("ti: no tag", told(ti_of("0 send 0\n"))),
        ("ti: not a count", told(ti_of("0 send 0 0 many\n"))),
        ("ti: not finite", told(ti_of("0 compute inf\n"))),
        ("ti: negative", told(ti_of("0 compute -1\n"))),
        ("ti: unknown type", told(ti_of("0 send 0 0 5 99\n"))),
        ("ti: too few counts", told(ti_of("0 reducescatter 5 6\n1 init\n2 init\n"))),
        ("ti: root out of range", told(ti_of("0 bcast 5 3\n"))),
        ("ti: to any", told(ti_of("0 isend -1 0 5\n"))),
    ]
}

fn vef_cases() -> Vec<(&'static str, String)> {
    let two = |rest: &str| vef_of(&format!("VEF 2 1 1 0 0 FALSE\nC0 0 1\n{rest}\n"));
    let part = |rest: &str| vef_of(&format!("VEF 2 0 1 1 2 FALSE\nC0 0 1\n{rest}\n"));
    vec![
        ("vef: nothing", told(vef_of(""))),
        ("vef: no flag", told(vef_of("VEF 2 1 1 0 0 MAYBE\n"))),
        ("vef: no tasks", told(vef_of("VEF 0 1 1 0 0 TRUE\n"))),
        ("vef: too few messages", told(vef_of("VEF 2 1 1 0 0 TRUE\nC0 0 1\n"))),
        ("vef: too many messages", told(two("0 0 1 5 0 1 -1\n1 0 1 5 0 1 -1"))),
        ("vef: no task 2", told(two("0 0 2 5 0 1 -1"))),
        ("vef: too few words", told(two("0 0 1 5 0 1"))),
        ("vef: dependency on something", told(two("0 0 1 5 0 1 7"))),
        ("vef: unknown dependency", told(two("0 0 1 5 4 1 7"))),
        ("vef: no such message", told(two("0 0 1 5 1 1 7"))),
        ("vef: of itself", told(two("0 0 1 5 1 1 0"))),
        ("vef: task twice", told(vef_of("VEF 2 0 1 0 0 TRUE\nC0 1 1\n"))),
        ("vef: unknown operation", told(part("G0 0 8 0 5 5 0 0 -1\nG0 0 8 1 5 5 0 0 -1"))),
        ("vef: no communicator", told(part("G0 1 2 0 5 5 0 0 -1\nG0 1 2 1 5 5 0 0 -1"))),
        ("vef: part twice", told(part("G0 0 2 0 5 5 0 0 -1\nG0 0 2 0 5 5 0 0 -1"))),
        ("vef: another operation", told(part("G0 0 2 0 5 5 0 0 -1\nG0 0 6 1 5 5 0 0 -1"))),
        ("vef: part missing", told(vef_of("VEF 2 0 1 1 1 TRUE\nC0 0 1\nG0 0 2 0 5 5 0 0 -1\n"))),
        ("vef: sizes differ", told(part("G0 0 2 0 5 5 0 0 -1\nG0 0 2 1 6 6 0 0 -1"))),
        ("vef: wrong dependency", told(part("G0 0 2 0 5 5 0 0 -1\nG0 0 2 1 5 5 3 0 4"))),
    ]
}

fn other_cases() -> Vec<(&'static str, String)> {
    let length_without_end = [0xff; 11];
    // Node 1, which computes, with the name of a process group behind.
    let named = b"\x00\x94\x02\x08\x01\x18\x04\x52\x8d\x02\x0a\x07pg_name\xea\x01\x80\x02";
    let too_long = Kernels { n: 1, ..Kernels::default() };
    let kernel = |kernels: Kernels| told(kernels.trace(&Choice::default(), MAX_ITEMS));
    let model = |model: Transformer| told(model.trace(&Choice::default(), MAX_ITEMS));
    let mut choice = Choice::default();
    let days = goal_of("num_ranks 1\nrank 0 {\ncalc 18446744073709551615\n}\n").unwrap();
    vec![
        (
            "vef: more than allowed",
            told(vef::read(
                source(b"VEF 11 0 1 0 0 TRUE\nC0 0 1 2 3 4 5 6 7 8 9 10\n"),
                &small(Options::default()),
            )),
        ),
        (
            "hpcc: more than allowed",
            told(hpcc::read(
                source(b"# 11 ranks\n0 1 2 Barrier comm 0 size 11\n"),
                &small(Options::default()),
            )),
        ),
        ("hpcc: no ranks", told(hpcc::read(source(b"# HPCC\n"), &Options::default()))),
        ("hpcc: too few words", told(hpcc_of("0 1"))),
        ("hpcc: backwards", told(hpcc_of("0 5 4 Barrier comm 0 size 2"))),
        ("hpcc: no such rank", told(hpcc_of("2 4 5 Barrier comm 0 size 2"))),
        ("hpcc: unknown call", told(hpcc_of("0 4 5 Alltoallw comm 0 size 2"))),
        ("hpcc: no communicator", told(hpcc_of("0 4 5 Barrier comm 3 size 2"))),
        ("hpcc: no bytes", told(hpcc_of("0 4 5 Send dst 1 tag 5 comm 0"))),
        ("hpcc: no value", told(hpcc_of("0 4 5 Send dst 1 bytes 4 comm 0 tag"))),
        ("hpcc: not a member", told(hpcc_of("0 4 5 Comm_split parent 0 new 3 members 1"))),
        ("hpcc: a communicator of nobody", told(hpcc_of("COMM 3 members 5"))),
        ("hpcc: a communicator without members", told(hpcc_of("COMM 3"))),
        ("chakra: nothing", told(chakra_of(b""))),
        ("chakra: length without end", told(chakra_of(&length_without_end))),
        ("chakra: too large", told(chakra_of(b"\x00\xff\xff\xff\xff\x0f"))),
        ("chakra: cut short", told(chakra_of(b"\x00\x05\x08\x01"))),
        ("chakra: no kind", told(chakra_of(b"\x00\x02\x08\x01"))),
        ("chakra: unknown kind", told(chakra_of(b"\x00\x04\x08\x01\x18\x0b"))),
        ("chakra: a send without size", told(chakra_of(b"\x00\x04\x08\x01\x18\x05"))),
        ("chakra: waits for nothing", told(chakra_of(b"\x00\x06\x08\x01\x18\x04\x28\x07"))),
        ("chakra: twice", told(chakra_of(b"\x00\x04\x08\x01\x18\x04\x04\x08\x01\x18\x04"))),
        ("chakra: long name", told(chakra_of(&[&named[..], &[b'g'; 256]].concat()))),
        ("chakra: unknown field", told(chakra_of(b"\x00\x02\x0b\x01"))),
        ("format: unknown", told(Format::by_name("dumpi"))),
        ("algorithm: of another", told(choice.set("all-to-all", "ring"))),
        ("algorithm: unknown operation", told(choice.set("allreduce", "ring"))),
        ("run: out of range", told(execute(&days, &Parameters::default()))),
        (
            "kernel: n below nb",
            kernel(Kernels { kernel: silvan_trace::generate::Kernel::Ptrans, ..too_long }),
        ),
        ("kernel: one rank", kernel(Kernels { ranks: 1, ..Kernels::default() })),
        ("kernel: no speed", kernel(Kernels { flops: 0.0, ..Kernels::default() })),
        ("model: layers", model(Transformer { layers: 25, ..Transformer::default() })),
        ("model: width", model(Transformer { hidden: 2049, ..Transformer::default() })),
        ("model: no ranks", model(Transformer { data: 0, ..Transformer::default() })),
    ]
}

#[test]
fn what_is_said_of_wrong_inputs() {
    let lists = [goal_cases(), binary_cases(), ti_cases(), vef_cases(), other_cases()];
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
