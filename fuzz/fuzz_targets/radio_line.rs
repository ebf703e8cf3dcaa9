//! See `crates/squall-signal/src/fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| squall_signal::fuzz::radio_line(input));
