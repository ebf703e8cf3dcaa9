//! See `harness/wire.rs`.

#![no_main]

#[path = "../harness/wire.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|input: &[u8]| harness::check(input));
