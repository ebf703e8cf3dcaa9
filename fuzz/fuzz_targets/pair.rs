//! See `harness/pair.rs`.

#![no_main]

#[path = "../harness/pair.rs"]
mod harness;
#[path = "../harness/known_panic.rs"]
mod known_panic;

libfuzzer_sys::fuzz_target!(init: known_panic::let_it_unwind(), |input: &[u8]| harness::check(input));
