//! Quantities: a parsed quantity is equal after printing and parsing it again, with and without cycles.
#![no_main]

use std::fmt::Display;
use std::str::FromStr;

use libfuzzer_sys::fuzz_target;
use silvan_engine::units::InCycles;
use silvan_engine::{Bytes, Rate, Time};

/// Parses a text with and without a cycle, and checks that printed values are exact.
fn again<Q: InCycles + FromStr + Display + PartialEq + std::fmt::Debug>(text: &str, cycle: Time) {
    for read in [Q::read(text, Some(cycle)).ok(), text.parse::<Q>().ok()].into_iter().flatten() {
        assert_eq!(read.to_string().parse().ok(), Some(read), "{text}");
    }
}

fuzz_target!(|text: &str| {
    let number = text.bytes().take(5).fold(0, |sum, byte| sum * 256 + u64::from(byte));
    let cycle = Time(number % 1_000_000_000_000 + 1);
    again::<Time>(text, cycle);
    again::<Rate>(text, cycle);
    let size = text.parse::<Bytes>();
    assert!(size.is_err() || size == size.clone().and_then(|size| size.to_string().parse()), "{text}");
});
