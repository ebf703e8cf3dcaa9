//! See `lab/squall-media/src/fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| squall_media::fuzz::annexb(input));
