//! Radios: levels over time, the resulting conditions of the link, and the reports of the radio.
//!
//! A path may have a radio ([`RadioConfig`]). Its *levels* (RSRP, SINR, RSSI) come from a series of
//! measured values or from a seeded scene: a walk through a building, a street canyon, a tunnel, a
//! train. Two things follow them, offset in time by the *lead*:
//!
//! - The link: a map ([`CellularMap`], [`WifiMap`]) turns the levels into a share of the link's
//!   rate, a loss, or an outage ([`Conditions`]). The configured rate of the link is that at the
//!   best levels.
//! - The reports: the values that a radio would report to its host, with noise, in whole decibels,
//!   at the interval and with the delay of a real one ([`Network::report`](crate::Network::report),
//!   [`Network::poll_report`](crate::Network::poll_report)).
//!
//! With a lead L the link at time t follows the levels of t − L, and the reports those of t: a
//! radio that reports a fade before packets are affected has a positive lead. A trace
//! ([`Source::Trace`]) has no map: its link follows a rate that was measured together with the
//! levels, and L moves the levels.
//!
//! Everything is computed on demand, in steps of 20 ms, from one seed: nothing is stored, no clock
//! is read, and the same seed gives the same radio, independent of the packets sent.

mod cellular;
mod conditions;
mod config;
mod course;
mod follower;
mod lead;
mod levels;
mod model;
mod report;
mod scene;
mod source;
mod wifi;

pub use self::{
    cellular::CellularMap,
    conditions::{Air, Conditions},
    config::RadioConfig,
    lead::{Lead, LeadError},
    levels::{Level, LevelSeries, Levels},
    scene::{Canyon, Handover, Rail, Tunnel, Walk, WifiEdge},
    source::Source,
    wifi::WifiMap,
};
pub(crate) use self::{
    follower::{Follower, Parts},
    report::Radio,
};
