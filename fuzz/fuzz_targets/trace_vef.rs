//! VEF: a parsed trace can be run, and is equal in both forms of GOAL.
#![no_main]

mod mutate;
mod trace;

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use silvan_trace::read::source::Source;
use silvan_trace::read::vef;

const FORMAT: mutate::Format = mutate::Format {
    draw: trace::draw_vef,
    words: &["VEF", "TRUE", "FALSE", "C0", "C1", "G0", "G1", "-1", "0", "1", "2", "3", "7"],
};

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate::mutate(&FORMAT, data, size, max_size, seed)
});

fuzz_target!(|bytes: &[u8]| {
    let Ok(source) = Source::new(bytes, "fuzz") else { return };
    let read = vef::read(source, &trace::options());
    if let Ok(trace) = read {
        trace::check(&trace);
    }
});
