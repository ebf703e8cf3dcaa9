//! See `harness/session.rs`.

#![no_main]

#[path = "../harness/session.rs"]
mod harness;
#[path = "../harness/known_panic.rs"]
mod known_panic;

libfuzzer_sys::fuzz_target!(init: known_panic::let_it_unwind(), |input: &[u8]| harness::check(input));
