//! Binary GOAL: a parsed trace can be run, and is equal after writing and parsing it again.
#![no_main]

mod trace;

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use silvan_engine::random::Stream;
use silvan_trace::read::source::Source;
use silvan_trace::read::{goal, goal_binary};

// Random bytes never contain a valid table of ranks, so schedules are generated and then damaged.
fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let random = &mut Stream::new(u64::from(seed), "mutate", 0);
    let mut bytes = data[..size].to_vec();
    if random.chance(1, 4) {
        let text = trace::draw_goal(random);
        let source = Source::new(text.as_bytes(), "drawn").expect("memory can be read");
        if let Ok(drawn) = goal::read(source, &trace::options()) {
            bytes.clear();
            silvan_trace::write::binary(&drawn, &mut bytes).expect("writing to memory succeeds");
        }
    }
    for _ in 0..random.below(3) {
        let place = random.below(bytes.len() as u32) as usize;
        if let Some(byte) = bytes.get_mut(place) {
            *byte = [0, 1, 2, 3, 255, byte.wrapping_add(1)][random.below(6) as usize];
        }
    }
    let size = bytes.len().min(max_size);
    data[..size].copy_from_slice(&bytes[..size]);
    if random.chance(1, 4) { fuzzer_mutate(data, size, max_size) } else { size }
});

fuzz_target!(|bytes: &[u8]| {
    if let Ok(trace) = goal_binary::read(std::io::Cursor::new(bytes), "fuzz", &trace::options()) {
        trace::check(&trace);
    }
});
