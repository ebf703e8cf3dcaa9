//! Observation of a tunnel: its [`Status`], also as [`metrics`] and as a page with a feed
//! ([`web`]), its events ([`journal`]), and its tasks, whose failures are events too
//! ([`supervise`]).
//!
//! All output is read from one snapshot, [`Status`], which a [`web::Source`] creates. It is
//! independent of how flows are carried.

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

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
