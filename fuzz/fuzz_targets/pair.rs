//! See `crates/squall-proto/src/fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| squall_proto::fuzz::pair(input));
