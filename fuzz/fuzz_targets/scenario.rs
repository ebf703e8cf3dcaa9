//! See `lab/squall-lab/src/fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| squall_lab::fuzz::scenario(input));
