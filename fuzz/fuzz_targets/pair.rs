//! See `crates/squall-proto/src/fuzz`.

#![no_main]

#[path = "../harness/known_panic.rs"]
mod known_panic;

libfuzzer_sys::fuzz_target!(init: known_panic::let_it_unwind(), |input: &[u8]| squall_proto::fuzz::pair(input));
