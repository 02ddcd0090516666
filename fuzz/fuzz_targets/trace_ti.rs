//! Time-independent traces: a parsed trace can be run, and is equal in both forms of GOAL.
#![no_main]

mod mutate;
mod trace;

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use silvan_trace::read::source::Source;
use silvan_trace::read::ti;

const FORMAT: mutate::Format = mutate::Format {
    draw: trace::draw_ti,
    words: &["init", "send", "isend", "recv", "irecv", "wait", "waitall", "test", "compute", "sleep", "sendRecv", "barrier", "bcast", "reduce", "allreduce", "alltoall", "alltoallv", "gather", "gatherv", "scatter", "scatterv", "allgather", "allgatherv", "reducescatter", "scan", "exscan", "finalize", "5e8", "1e18", "-1", "nan", "inf"],
};

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate::mutate(&FORMAT, data, size, max_size, seed)
});

fuzz_target!(|bytes: &[u8]| {
    let read = ti::read(1, &|_| Source::new(bytes, "fuzz"), &trace::options());
    if let Ok(trace) = read {
        trace::check(&trace);
    }
});
