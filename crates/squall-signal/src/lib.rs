//! Radio signal, for a transport that reacts to a fading network before it loses packets.
//!
//! The core turns readings of a radio into alerts, after STORM (§3.2): [`Reading`] →
//! [`QualityIndex`] (Eq. 1–3) → [`Watermark`] → [`Alert`]. It reads no clock and does no I/O; the time is an
//! argument.
//!
//! Readings come from a [`SignalSource`], which a [`Monitor`] reads, and reach senders over a [`board()`].
//!
//! Times are microseconds by the caller's clock. Levels are in dBm and dB, the index and its marks in 0…1,
//! losses are shares in 0…1.

#![forbid(unsafe_code)]

mod adapt;
mod board;
#[cfg(feature = "external")]
pub mod external;
#[cfg(all(
    any(test, fuzzing),
    feature = "modem",
    feature = "external",
    feature = "wifi",
    target_os = "linux"
))]
#[doc(hidden)]
pub mod fuzz;
#[cfg(all(feature = "modem", target_os = "linux"))]
mod modem;
mod monitor;
mod quality;
mod radios;
mod reading;
mod replay;
mod source;
mod watermark;
#[cfg(all(feature = "wifi", target_os = "linux"))]
mod wifi;

pub use adapt::Adaptation;
pub use board::{Publisher, Subscriber, board};
#[cfg(all(feature = "modem", target_os = "linux"))]
pub use modem::{Modem, ModemSource, modems};
pub use monitor::Monitor;
pub use quality::{QualityIndex, Range, Ranges, Weights};
pub use radios::{Radios, radio, radios};
pub use reading::{Reading, Technology};
pub use replay::{RecordedSource, Replay, ReplayError};
pub use source::{Clock, SignalSource, SourceError};
pub use squall_units::{Span, Time};
pub use watermark::{
    Alert, AlertKind, FactorMap, Marks, SignalState, Watermark, WatermarkConfig, WatermarkError,
};
#[cfg(all(feature = "wifi", target_os = "linux"))]
pub use wifi::{Station, WifiSource, wifi_interfaces};

/// Compiles and runs the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
