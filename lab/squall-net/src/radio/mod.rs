//! Radios: levels over time, what the link makes of them, and what the radio reports of them.
//!
//! A path may have a radio ([`RadioConfig`]). Its *levels* (RSRP, SINR, RSSI) come from a series of measured
//! values or from a seeded scene: a walk through a building, a street canyon, a tunnel, a train. Two things
//! follow them, apart from one another in time by the *lead*:
//!
//! - The link: a map ([`CellularMap`], [`WifiMap`]) makes of the levels a share of the link's rate, a loss, or
//!   an outage ([`Conditions`]). The rate of the link in the configuration is what the best levels give.
//! - The reports: what a radio would report to its host, with noise, in whole decibels, at the pace and with the
//!   delay of a real one ([`Network::report`](crate::Network::report),
//!   [`Network::poll_report`](crate::Network::poll_report)).
//!
//! With a lead L the link at time t follows the levels of t − L, and the reports those of t: a radio that sees
//! a fade before packets feel it has a positive lead. A trace ([`Source::Trace`]) has no map: its link follows a
//! rate that was measured beside the levels, and L moves the levels.
//!
//! Everything is computed as time passes, in steps of 20 ms, from one seed: nothing is stored, no clock is
//! read, and the same seed gives the same radio whatever packets are sent.

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
