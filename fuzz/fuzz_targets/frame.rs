//! See `harness/tunnel.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| squall_tunnel::fuzz::frame(input));
