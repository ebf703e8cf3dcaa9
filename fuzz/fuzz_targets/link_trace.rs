//! See `lab/squall-trace/src/fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| squall_trace::fuzz::link_trace(input));
