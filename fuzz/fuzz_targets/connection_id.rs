//! See `harness/connection_id.rs`.

#![no_main]

#[path = "../harness/connection_id.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|input: &[u8]| harness::check(input));
