//! Bytes into text: plain, gzip, or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use silvan_scenario::import::decode;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = decode(bytes, "fuzz") {
        assert!(bytes.starts_with(&[0x1f, 0x8b]) || text.as_bytes() == bytes);
    }
});
