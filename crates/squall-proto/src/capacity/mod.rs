//! Capacity of a session, now and over the next second: the rate for an encoder.
//!
//! `rate` converts the state of a path's congestion control to a rate, `forecast` keeps the history
//! of that rate and predicts the next second, `changes` decides which changes become events. The
//! session combines the paths by the [`Sharing`](squall_sched::Sharing) of its scheduler.

mod changes;
mod forecast;
mod rate;

use squall_sched::PathId;

pub(crate) use self::{
    changes::Changes,
    forecast::Forecast,
    rate::{is_unmeasured, link_rate, predicted_rate},
};

/// Capacity of a session. Rates are in bits per second.
///
/// `now` and `safe` count bytes of blocks, without the headers of packets. Only paths in use have a
/// rate: one that is not validated, suspected, disabled by its radio or without budget has none,
/// and gets its own back once it is readmitted.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Capacity {
    /// Present rate of the session, if it is given enough, limited to the rate that the receiver
    /// requests.
    pub now: u64,
    /// Rate over the next second with a probability of nine in ten, judged by the last minute;
    /// never more than `now`. Three quarters of `now` during the first ten seconds. Warnings of
    /// radios lower it, and a path that carried nothing for a while counts less.
    pub safe: u64,
    /// Share of the forecasts of the last minute that held, 0 to 1: at least `safe` was carried
    /// over the second after. 0.9 is expected; 0 before the first second is over.
    pub confidence: f64,
    /// Present rate of the networks including the headers of packets: UDP payload.
    pub link: u64,
    /// Bytes of blocks that were handed over and wait to leave.
    pub waiting: u64,
    /// Cause that keeps the session from carrying more.
    pub limit: Limit,
    /// Capacity of each open path, by ascending id. Schedulers that send everything on one path, or
    /// on all, do not carry the sum of them.
    pub paths: Vec<PathCapacity>,
}

/// Capacity of a path. Rates are in bits per second, as in [`Capacity`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct PathCapacity {
    /// Id of the path.
    pub id: PathId,
    /// Present rate, if it is given enough.
    pub now: u64,
    /// Rate over the next second with a probability of nine in ten.
    pub safe: u64,
    /// Share of the forecasts of the last minute that held.
    pub confidence: f64,
    /// `now` including the headers of packets.
    pub link: u64,
    /// Cause that keeps the path from carrying more.
    pub limit: Limit,
}

/// Cause that keeps a path or a session from carrying more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// No path is in use: not validated, suspected, or passing small packets only. Unlike the next
    /// three, it ends without any action.
    #[default]
    OutOfUse,
    /// A radio announces that the link fades or is gone.
    Radio,
    /// The budget is used up, or leaves less than a second at the present rate; or the rate limit
    /// is below the path's rate.
    Budget,
    /// The network, by the window of the congestion control: four fifths or more of its rate is
    /// used.
    Network,
    /// The application offers less.
    Application,
    /// The receiver requests no more; for sessions only.
    Receiver,
}

impl Limit {
    /// Returns its name in logs and metrics.
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

    /// Returns the limit of a session whose paths have these limits: with room on one of them the
    /// application, else the first cause that could be removed.
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
