//! Recordings of MPI calls: a parsed trace can be run, and is equal in both forms of GOAL.
#![no_main]

mod mutate;
mod trace;

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use silvan_trace::read::source::Source;
use silvan_trace::read::hpcc;

const FORMAT: mutate::Format = mutate::Format {
    draw: trace::draw_hpcc,
    words: &["Send", "Recv", "Isend", "Irecv", "Wait", "Waitall", "Sendrecv", "Allreduce", "Bcast", "Reduce", "Alltoall", "Allgather", "Barrier", "Comm_split", "comm", "req", "bytes", "maxbytes", "tag", "src", "dst", "root", "members", "new", "parent", "-5"],
};

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate::mutate(&FORMAT, data, size, max_size, seed)
});

fuzz_target!(|bytes: &[u8]| {
    let Ok(source) = Source::new(bytes, "fuzz") else { return };
    let read = hpcc::read(source, &trace::options());
    if let Ok(trace) = read {
        trace::check(&trace);
    }
});
