//! Chakra, in binary form and in JSON: two ranks, the second file after the first. A parsed trace can be run, and is
//! equal in GOAL.
#![no_main]

mod trace;

use std::io::Cursor;

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use silvan_engine::random::Stream;
use silvan_trace::read::chakra;

fn varint(mut number: u64, into: &mut Vec<u8>) {
    while number >= 0x80 {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

fn field(number: u64, bytes: &[u8], into: &mut Vec<u8>) {
    varint(number << 3 | 2, into);
    varint(bytes.len() as u64, into);
    into.extend(bytes);
}

/// A node with a number, a type, a duration, dependencies, and attributes.
fn node(id: u64, random: &mut Stream) -> Vec<u8> {
    let mut node = Vec::new();
    for (number, value) in [(1, id), (3, 1 + u64::from(random.below(8))), (7, u64::from(random.below(300)))] {
        varint(number << 3, &mut node);
        varint(value, &mut node);
    }
    if id > 0 && random.chance(2, 3) {
        field(5, &[random.below(id as u32) as u8], &mut node);
    }
    let names = ["comm_size", "comm_type", "comm_src", "comm_dst", "comm_tag", "is_cpu_op", "comm_root"];
    for name in names {
        if random.chance(3, 4) {
            let mut attribute = Vec::new();
            field(1, name.as_bytes(), &mut attribute);
            varint([7, 9, 11, 13, 17, 27][random.below(6) as usize] << 3, &mut attribute);
            varint(u64::from(random.below(if name == "comm_size" { 10_000 } else { 3 })), &mut attribute);
            field(10, &attribute, &mut node);
        }
    }
    if random.chance(1, 4) {
        let mut attribute = Vec::new();
        field(1, b"pg_name", &mut attribute);
        field(29, [&b"a"[..], b"b", b""][random.below(3) as usize], &mut attribute);
        field(10, &attribute, &mut node);
    }
    node
}

/// A file in JSON: a graph or messages, as a list or not.
fn json(random: &mut Stream) -> Vec<u8> {
    let form = random.below(3);
    let names = ["comm_size", "comm_type", "comm_src", "comm_dst", "comm_tag", "is_cpu_op", "comm_root"];
    let keys = ["int64Val", "uint32_val", "doubleVal", "stringVal", "boolList", "value"];
    let mut nodes = Vec::new();
    for id in 0..random.below(5) {
        let mut attributes = Vec::new();
        for name in names {
            if random.chance(3, 4) {
                let value = random.below(if name == "comm_size" { 10_000 } else { 3 });
                // Most keys are those of a number.
                let known = if random.chance(1, 20) { 6 } else { 3 };
                let key = keys[random.below(known) as usize];
                attributes.push(match form {
                    0 => format!("\"{name}\": {value}"),
                    _ => format!("{{\"name\": \"{name}\", \"{key}\": \"{value}\"}}"),
                });
            }
        }
        let (kind, micros, attributes) = (1 + random.below(8), random.below(300), attributes.join(", "));
        let after = if id > 0 { random.below(id).to_string() } else { String::new() };
        nodes.push(match form {
            0 => format!(
                "{{\"Id\": {id}, \"NodeType\": {kind}, \"runtime\": {micros}, \"data_deps\": [{after}], {attributes}}}"
            )
            .replace(", }", "}"),
            _ => format!(
                "{{\"id\": \"{id}\", \"type\": {kind}, \"durationMicros\": {micros}, \"dataDeps\": [{after}], \"attr\": [{attributes}]}}"
            ),
        });
    }
    let text = match form {
        0 => format!("{{\"workload_graph\": [{}]}}", nodes.join(",\n")),
        1 => format!("{{\"version\": \"1\"}}{}", nodes.concat()),
        _ => format!(
            "[{{\"version\": \"1\"}}{}]",
            nodes.iter().map(|node| format!(",\n{node}")).collect::<String>()
        ),
    };
    text.into_bytes()
}

fn draw(random: &mut Stream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut first = Vec::new();
    for file in 0..2 {
        if random.chance(1, 2) {
            bytes = json(random);
            if file == 0 {
                first = std::mem::take(&mut bytes);
            }
            continue;
        }
        bytes.push(0);
        for id in 0..u64::from(random.below(5)) {
            let node = node(id, random);
            varint(node.len() as u64, &mut bytes);
            bytes.extend(node);
        }
        if file == 0 {
            first = std::mem::take(&mut bytes);
        }
    }
    // The length of the first file precedes both.
    let length = (first.len() as u16).to_le_bytes();
    [&length[..], &first, &bytes].concat()
}

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let random = &mut Stream::new(u64::from(seed), "mutate", 0);
    if random.below(4) > 0 {
        return fuzzer_mutate(data, size, max_size);
    }
    let drawn = draw(random);
    let size = drawn.len().min(max_size);
    data[..size].copy_from_slice(&drawn[..size]);
    size
});

fuzz_target!(|bytes: &[u8]| {
    let Some((length, rest)) = bytes.split_first_chunk::<2>() else { return };
    let (first, second) = rest.split_at(usize::from(u16::from_le_bytes(*length)).min(rest.len()));
    let files = [first, second];
    let _ = chakra::detect(first);
    let read = chakra::read(
        2,
        &|rank| Ok((Box::new(Cursor::new(files[rank])), "fuzz".to_owned())),
        &trace::options(),
    );
    if let Ok(trace) = read {
        trace::check(&trace);
    }
});
