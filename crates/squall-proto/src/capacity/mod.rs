//! What a session can carry, now and over the next second: the rate for an encoder.
//!
//! `rate` turns what a path's congestion control says into a rate, `forecast` keeps the history of that rate and what it
//! says of the next second, `changes` decides when a change is worth an event. The session adds up the paths by the
//! [`Sharing`](squall_sched::Sharing) of its scheduler.

mod changes;
mod forecast;
mod rate;

use squall_sched::PathId;

pub(crate) use self::{
    changes::Changes,
    forecast::Forecast,
    rate::{is_unmeasured, link_rate, predicted_rate},
};

/// What a session can carry. Rates are in bits per second.
///
/// `now` and `safe` count bytes of blocks, without the headers of packets. Only paths in use have a rate: one that is not
/// validated, suspected, disabled by its radio or without budget has none, and gets its own back once it is readmitted.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Capacity {
    /// What the session carries at present, if it is given enough, and no more than the receiver wants.
    pub now: u64,
    /// What it carries over the next second with a probability of nine in ten, judged by the last minute; never more
    /// than `now`. Three quarters of `now` until ten seconds are known. Warnings of radios lower it, and a path that
    /// carried nothing for a while counts less.
    pub safe: u64,
    /// Share of the forecasts of the last minute that held, 0 to 1: as much was carried over the second after as `safe`
    /// had said. 0.9 is what to expect; 0 before the first second is over.
    pub confidence: f64,
    /// What the networks carry at present with the headers of packets: UDP payload.
    pub link: u64,
    /// Bytes of blocks that were handed over and wait to leave.
    pub waiting: u64,
    /// What keeps the session from carrying more.
    pub limit: Limit,
    /// The same of each path that is open, by ascending id. Schedulers that send everything on one path, or on all,
    /// do not carry the sum of them.
    pub paths: Vec<PathCapacity>,
}

/// What a path can carry. Rates are in bits per second, as in [`Capacity`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct PathCapacity {
    /// Which path.
    pub id: PathId,
    /// What it carries at present, if it is given enough.
    pub now: u64,
    /// What it carries over the next second with a probability of nine in ten.
    pub safe: u64,
    /// Share of the forecasts of the last minute that held.
    pub confidence: f64,
    /// `now` with the headers of packets.
    pub link: u64,
    /// What keeps it from carrying more.
    pub limit: Limit,
}

/// What keeps a path or a session from carrying more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// No path is in use: not validated, suspected, or passing small packets only. Other than the next three, it ends
    /// without anything being done about it.
    #[default]
    OutOfUse,
    /// A radio announces that the link fades or is gone.
    Radio,
    /// Its budget is used up, or leaves less than a second at the present rate; or its rate limit is below what it carries.
    Budget,
    /// The network, by the window of the congestion control: four fifths or more of what it carries is used.
    Network,
    /// The application offers less.
    Application,
    /// The receiver wants no more; of sessions only.
    Receiver,
}

impl Limit {
    /// Its name, as in logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::OutOfUse => "out-of-use",
            Self::Radio => "radio",
            Self::Budget => "budget",
            Self::Network => "network",
            Self::Application => "application",
            Self::Receiver => "receiver",
        }
    }

    /// What limits a session whose paths are limited by these: with room on one of them the application, else the first
    /// cause that could be lifted.
    pub(crate) fn of_session(paths: impl Iterator<Item = Self>) -> Self {
        let rank = |limit: &Self| match limit {
            Self::Application | Self::Receiver => 4,
            Self::Network => 3,
            Self::Budget => 2,
            Self::Radio => 1,
            Self::OutOfUse => 0,
        };
        paths.max_by_key(rank).unwrap_or_default()
    }
}
