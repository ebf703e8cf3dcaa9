//! See `harness/inbox.rs`.

#![no_main]

#[path = "../harness/inbox.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|input: &[u8]| harness::check(input));
