//! Helpers of the tests: the programs, run as by a user.

#![allow(dead_code, unused_imports, reason = "every test file uses its own part")]

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use squall_testkit::program::is_root;
pub(crate) use squall_testkit::program::{Scratch, ends_within, failure, signal};

/// The laboratory.
pub(crate) const LAB: &str = env!("CARGO_BIN_EXE_squall-lab");

/// The laboratory's program.
pub(crate) fn lab() -> Command {
    Command::new(LAB)
}

/// The product's program.
pub(crate) fn squall() -> PathBuf {
    squall_testkit::program::sibling(LAB, "squall")
}

/// Runs the laboratory's program to its end.
pub(crate) fn run<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Output {
    lab().args(args).output().expect("the program starts")
}

/// `true` if shells are possible on this system. Required for root with the device; otherwise the
/// missing requirement is printed.
pub(crate) fn shell_is_possible() -> bool {
    let (said, code) = failure(&run(["shell", "-q", "--link", "delay=1ms", "--", "true"]));
    if code != Some(0) {
        assert!(!(Path::new("/dev/net/tun").exists() && is_root()), "{said}");
        squall_testkit::skipped(&said);
    }
    code == Some(0)
}
