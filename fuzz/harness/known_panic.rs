//! A known panic of noq, which a session catches and which must not end a fuzzer.

use std::panic;

/// Lets this panic unwind as outside of a fuzzer, whose hook ends the process. If another release
/// of noq has the panic on another line, the fuzzer finds it again.
pub fn let_it_unwind() {
    let end = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        let is_known = panic.location().is_some_and(|at| {
            at.file().ends_with("noq-proto-1.4.0/src/connection/mod.rs") && at.line() == 3568
        });
        if !is_known {
            end(panic);
        }
    }));
}
