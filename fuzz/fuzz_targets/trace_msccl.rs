//! Algorithms of MSCCL with a total size of 5,040 bytes. A parsed trace can be run, and is equal in GOAL.
#![no_main]

mod trace;

use libfuzzer_sys::fuzz_target;
use silvan_trace::read::{Options, msccl};

fuzz_target!(|bytes: &[u8]| {
    let _ = msccl::looks_like(&String::from_utf8_lossy(bytes));
    // The size can be divided by all small numbers of chunks.
    let options = Options { bytes: Some(5_040), ..trace::options() };
    if let Ok(trace) = msccl::read(bytes, "fuzz", &options) {
        trace::check(&trace);
    }
});
