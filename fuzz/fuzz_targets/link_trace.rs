//! See `lab/squall-net/src/fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| squall_net::fuzz::link_trace(input));
