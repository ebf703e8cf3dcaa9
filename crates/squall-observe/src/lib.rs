//! How a tunnel is observed: its [`Status`], the same as [`metrics`] and as a page with a feed ([`web`]), its events
//! ([`journal`]), and its tasks, whose failures are events too ([`supervise`]).
//!
//! Everything that is shown is read from one snapshot, [`Status`], which a [`web::Source`] makes. It is independent of how
//! flows are carried.

#![forbid(unsafe_code)]

pub mod clock;
pub mod journal;
pub mod machine;
pub mod metrics;
pub mod places;
pub mod status;
pub mod supervise;
pub mod throttle;
pub mod totals;
pub mod wait;
pub mod web;

pub use status::Status;

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
