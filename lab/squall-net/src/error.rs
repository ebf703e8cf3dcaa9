//! Why links, paths and their events cannot be built.

use squall_units::{Rate, Size, Span};

/// Why a link or path cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A value by itself is wrong.
    #[error("{0}")]
    Value(String),
    /// The value of a field is wrong.
    #[error("{field}: {problem}")]
    Field {
        /// The field.
        field: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The text has a key that a link (or path) does not have.
    #[error(
        "unknown key \"{0}\" (a link has rate, mahimahi, delay, jitter, reorder, loss, duplicate, corrupt, ecn, mtu, \
         queue, policer, outage and delay_first; a path also name, metered, bottleneck, and up. and down. before a link's key)"
    )]
    Key(String),
    /// A trace file was named but not read.
    #[error("{field}: the trace has not been loaded")]
    NotLoaded {
        /// The field.
        field: &'static str,
    },
    /// The MTU is 0 or above 65,535 bytes.
    #[error("mtu: {0} is not between 1B and 65.535kB")]
    Mtu(Size),
    /// An event makes no sense.
    #[error("events: {0}")]
    Event(#[from] EventError),
    /// A mistake in the path of this name.
    #[error("path \"{path}\": {problem}")]
    Path {
        /// The path.
        path: String,
        /// What is wrong with it.
        problem: Box<ConfigError>,
    },
    /// `bottleneck` names no other path, or one that itself uses another's bottleneck.
    #[error("bottleneck: \"{0}\" is not another path with a bottleneck of its own")]
    Bottleneck(String),
    /// A path that uses another's bottleneck has a rate, a queue or a serialiser order of its own.
    #[error("bottleneck: rate and queue are those of path \"{0}\" and cannot be set again, nor delay_first")]
    Shared(String),
    /// A path with a radio has a rate that no share can be taken of.
    #[error(
        "radio: its map gives a share of a rate, so {direction} needs one that is fixed or in steps, not {rate}"
    )]
    Ceiling {
        /// Up or down.
        direction: &'static str,
        /// What it has instead.
        rate: &'static str,
    },
    /// A path with a radio uses another's bottleneck.
    #[error("radio: the rate is that of path \"{0}\", which may have a radio instead")]
    SharedRadio(String),
    /// Two paths have the same name.
    #[error("two paths are called \"{0}\"")]
    Twice(String),
}

/// Why an event makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// It changes nothing.
    #[error(
        "event at {at}: it changes nothing (give rate, delay, loss, ecn, mtu, outage or, for a path, rebind)"
    )]
    Nothing {
        /// Its time.
        at: Span,
    },
    /// `over` without a rate or delay to move to.
    #[error("event at {at}: over needs a rate or a delay to move to")]
    Over {
        /// Its time.
        at: Span,
    },
    /// A ramp that starts at an unlimited rate.
    #[error("event at {at}: a rate cannot move evenly from unlimited to {rate}")]
    FromUnlimited {
        /// Its time.
        at: Span,
        /// The rate to reach.
        rate: Rate,
    },
    /// An MTU that no link can have.
    #[error("event at {at}: mtu: {mtu} is not between 1B and 65.535kB")]
    Mtu {
        /// Its time.
        at: Span,
        /// What it gives.
        mtu: Size,
    },
    /// Loss that depends on a file, which an event cannot load.
    #[error("event at {at}: loss from a file is only possible for a whole run")]
    LossFile {
        /// Its time.
        at: Span,
    },
}
