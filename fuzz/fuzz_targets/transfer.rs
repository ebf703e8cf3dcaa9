//! See `crates/squall-cli/src/transfer/message.rs`, which is part of a program and not of a library.

#![no_main]

#[path = "../../crates/squall-cli/src/transfer/message.rs"]
#[allow(dead_code, unreachable_pub, reason = "the program uses the rest")]
mod message;

libfuzzer_sys::fuzz_target!(|input: &[u8]| message::fuzz::transfer(input));
