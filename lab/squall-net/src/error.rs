//! Errors in the configuration of links, paths and events.

use squall_units::{Rate, Size, Span};

/// Error in the configuration of a link or path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// An invalid value.
    #[error("{0}")]
    Value(String),
    /// A field has an invalid value.
    #[error("{field}: {problem}")]
    Field {
        /// Name of the field.
        field: String,
        /// Description of the error.
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
        /// Name of the field.
        field: &'static str,
    },
    /// The MTU is 0 or above 65,535 bytes.
    #[error("mtu: {0} is not between 1B and 65.535kB")]
    Mtu(Size),
    /// An event is invalid.
    #[error("events: {0}")]
    Event(#[from] EventError),
    /// A path is invalid.
    #[error("path \"{path}\": {problem}")]
    Path {
        /// Name of the path.
        path: String,
        /// Its error.
        problem: Box<ConfigError>,
    },
    /// `bottleneck` names no other path, or one that itself uses another's bottleneck.
    #[error("bottleneck: \"{0}\" is not another path with a bottleneck of its own")]
    Bottleneck(String),
    /// A path that uses another's bottleneck has a rate, a queue or a serialiser order of its own.
    #[error("bottleneck: rate and queue are those of path \"{0}\" and cannot be set again, nor delay_first")]
    Shared(String),
    /// A path with a radio has a rate of which the radio cannot take a share.
    #[error(
        "radio: its map gives a share of a rate, so {direction} needs one that is fixed or in steps, not {rate}"
    )]
    Ceiling {
        /// `up` or `down`.
        direction: &'static str,
        /// The rate of that direction.
        rate: &'static str,
    },
    /// A path with a radio uses another's bottleneck.
    #[error("radio: the rate is that of path \"{0}\", which may have a radio instead")]
    SharedRadio(String),
    /// Two paths have the same name.
    #[error("two paths are called \"{0}\"")]
    Twice(String),
}

/// Error in an event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// The event changes nothing.
    #[error(
        "event at {at}: it changes nothing (give rate, delay, loss, ecn, mtu, outage or, for a path, rebind)"
    )]
    Nothing {
        /// Time of the event.
        at: Span,
    },
    /// `over` without a rate or delay to move to.
    #[error("event at {at}: over needs a rate or a delay to move to")]
    Over {
        /// Time of the event.
        at: Span,
    },
    /// A ramp starts at an unlimited rate.
    #[error("event at {at}: a rate cannot move evenly from unlimited to {rate}")]
    FromUnlimited {
        /// Time of the event.
        at: Span,
        /// The rate to reach.
        rate: Rate,
    },
    /// The MTU is 0 or above 65,535 bytes.
    #[error("event at {at}: mtu: {mtu} is not between 1B and 65.535kB")]
    Mtu {
        /// Time of the event.
        at: Span,
        /// The given MTU.
        mtu: Size,
    },
    /// The loss is read from a file, which is not possible in an event.
    #[error("event at {at}: loss from a file is only possible for a whole run")]
    LossFile {
        /// Time of the event.
        at: Span,
    },
}
