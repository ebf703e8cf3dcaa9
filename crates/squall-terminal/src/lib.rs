//! Shared parts of Squall's commands: errors in one line ([`error`]), output files that are
//! complete or absent ([`output`]), progress on standard error ([`progress`]), which no reader can
//! block ([`lines`]), input files and lists ([`input`], [`list`]), requests to end ([`interrupt`]),
//! and wrapped lines ([`wrap`]).

#![forbid(unsafe_code)]
// A line that cannot be written, on a full disk or to a reader that has gone, must not end the
// program.
#![deny(clippy::print_stderr)]

pub mod error;
pub mod input;
pub mod interrupt;
pub mod lines;
pub mod list;
#[cfg(feature = "man")]
pub mod manual;
pub mod output;
pub mod progress;
pub mod wrap;

/// Writes a line to standard error. If it cannot be written, it is lost and the program continues.
#[macro_export]
macro_rules! note {
    ($($words:tt)*) => {
        $crate::output::on_stderr(&format!("{}\n", format_args!($($words)*)))
    };
}

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
