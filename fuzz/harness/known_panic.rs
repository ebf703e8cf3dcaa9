//! The panic of noq that a session contains, which does not end a fuzzer.

use std::panic;

/// Has that panic unwind as it does outside a fuzzer, whose hook ends the process. Another release of noq has it, if at all, on
/// another line, and the fuzzer finds it again.
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
