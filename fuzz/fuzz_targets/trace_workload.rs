//! Text workloads of SimAI and ASTRA-sim: a parsed trace can be run, and is equal in both forms of GOAL.
#![no_main]

mod mutate;
mod trace;

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use silvan_trace::read::source::Source;
use silvan_trace::read::workload;

const FORMAT: mutate::Format = mutate::Format {
    draw: trace::draw_workload,
    words: &["HYBRID_TRANSFORMER", "HYBRID_TRANSFORMER_FWD_IN_BCKWD", "DATA", "MODEL", "MICRO", "DISTRIBUTED_INFERENCE", "model_parallel_NPU_group:", "ep:", "pp:", "vpp:", "ga:", "all_gpus:", "checkpoints:", "checkpoint_initiates:", "pp_comm", "NONE", "ALLREDUCE", "ALLGATHER", "REDUCESCATTER", "ALLTOALL", "BROADCAST", "ALLREDUCE_EP", "ALLTOALL_DP_EP", "1.5"],
};

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate::mutate(&FORMAT, data, size, max_size, seed)
});

fuzz_target!(|bytes: &[u8]| {
    let Ok(source) = Source::new(bytes, "fuzz") else { return };
    let read = workload::read(source, &trace::options());
    if let Ok(trace) = read {
        trace::check(&trace);
    }
});
