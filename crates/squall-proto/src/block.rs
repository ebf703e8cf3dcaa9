//! Blocks from the application, and the types of their options.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use squall_sched::{BlockId, PRIORITIES};

use crate::wire::MAX_CHANNELS;

/// A block to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Bytes of the block; at least one, at most [`Config::max_block`](crate::Config::max_block).
    pub data: Bytes,
    /// Options of the block.
    pub options: BlockOptions,
}

impl Block {
    /// Creates a reliable block without a deadline.
    pub fn new(data: impl Into<Bytes>) -> Self {
        Self::with(data, BlockOptions::new())
    }

    /// Creates a block with options.
    pub fn with(data: impl Into<Bytes>, options: BlockOptions) -> Self {
        Self { data: data.into(), options }
    }
}

/// Options of a block, sent whole or [opened](crate::Session::open) before its bytes exist.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct BlockOptions {
    /// Time from sending or opening until the block is worthless; bytes still missing then are not
    /// sent. Default: `None`, for never.
    pub deadline: Option<Duration>,
    /// Importance. Default: 3, like the urgency of RFC 9218.
    pub priority: Priority,
    /// Lost bytes are sent again. Default: `true`. A block that is not reliable ends when bytes of
    /// it are lost before all of it was sent, unless it is [partial](Self::partial).
    pub reliable: bool,
    /// The receiver gets the bytes that arrived if the block ends incomplete: at its deadline, when
    /// it is cancelled, or, if it is not reliable, when all of it was sent and each byte was
    /// acknowledged or lost. [`Received::missing`](crate::Received::missing) lists the others.
    /// Default: `false`. A block that is refused, or of which nothing arrived, is still missed. Not
    /// applied before the peer's hello has arrived, nor if it lacks the ability.
    pub partial: bool,
    /// Channel of the block. Default: 0.
    pub channel: Channel,
    /// The receiver gets the block after the previous ordered block on this channel. Default:
    /// `false`.
    pub ordered: bool,
    /// Expected length in bytes of an opened block, for schedulers that plan; the block may get any
    /// length. Default: `None`, for the mean of the latest blocks on its channel with its priority.
    /// Not used for a block sent whole.
    pub expected_len: Option<u32>,
    /// Loss to the receiver if only this block is missing, relative to other blocks; for schedulers
    /// that choose. Default: `None`, for that of its priority: 1 for the last, four times as much
    /// per step towards the first, 16,384 for the first.
    pub value: Option<u16>,
    /// Blocks without which this one is useless. Default: none. The session still delivers it; a
    /// scheduler may skip it when one of them is missing.
    pub depends: Depends,
    /// Paths that it takes. Default: `None`, for any.
    pub hint: Option<PathHint>,
}

impl BlockOptions {
    /// Creates the options of a reliable block without a deadline.
    pub const fn new() -> Self {
        Self {
            deadline: None,
            priority: Priority::DEFAULT,
            reliable: true,
            partial: false,
            channel: Channel(0),
            ordered: false,
            expected_len: None,
            value: None,
            depends: Depends::Nothing,
            hint: None,
        }
    }

    /// Sets the [deadline](Self::deadline).
    pub fn deadline(self, deadline: impl Into<Option<Duration>>) -> Self {
        Self { deadline: deadline.into(), ..self }
    }

    /// Sets the [priority](Self::priority).
    pub fn priority(self, priority: Priority) -> Self {
        Self { priority, ..self }
    }

    /// Sets whether lost bytes are [sent again](Self::reliable).
    pub fn reliable(self, reliable: bool) -> Self {
        Self { reliable, ..self }
    }

    /// Sets whether an incomplete block is [delivered in part](Self::partial).
    pub fn partial(self, partial: bool) -> Self {
        Self { partial, ..self }
    }

    /// Sets the [channel](Self::channel).
    pub fn channel(self, channel: Channel) -> Self {
        Self { channel, ..self }
    }

    /// Sets whether it is delivered [in order](Self::ordered).
    pub fn ordered(self, ordered: bool) -> Self {
        Self { ordered, ..self }
    }

    /// Sets the [expected length](Self::expected_len).
    pub fn expected_len(self, bytes: impl Into<Option<u32>>) -> Self {
        Self { expected_len: bytes.into(), ..self }
    }

    /// Sets the [value](Self::value).
    pub fn value(self, value: impl Into<Option<u16>>) -> Self {
        Self { value: value.into(), ..self }
    }

    /// Sets the blocks that it [depends on](Self::depends).
    pub fn depends(self, depends: Depends) -> Self {
        Self { depends, ..self }
    }

    /// Sets the [hint](Self::hint) for a path.
    pub fn hint(self, hint: impl Into<Option<PathHint>>) -> Self {
        Self { hint: hint.into(), ..self }
    }
}

impl Default for BlockOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Paths that a block takes, whatever the scheduler. A path is selected by the name of its
/// interface or network at this side, by its local address, or by its [id](squall_sched::PathId) as
/// `#2`; several paths may have the same name. A hint overrides the [role](crate::Role) of a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PathHint {
    pub(crate) kind: HintKind,
    pub(crate) path: Arc<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum HintKind {
    Prefer,
    Avoid,
    Only,
}

impl PathHint {
    /// Prefers this path while it is usable and delivers the block before its deadline, else takes
    /// any.
    pub fn prefer(path: impl Into<Arc<str>>) -> Self {
        Self { kind: HintKind::Prefer, path: path.into() }
    }

    /// Prefers the other paths while one of them is usable and delivers the block before its
    /// deadline, else takes any.
    pub fn avoid(path: impl Into<Arc<str>>) -> Self {
        Self { kind: HintKind::Avoid, path: path.into() }
    }

    /// Takes only this path. While the path is not usable the block waits for it. After three
    /// seconds of waiting, or at its deadline, it ends: with
    /// [`Outcome::Cancelled`](crate::Outcome::Cancelled), whose reason says so, or
    /// [`Outcome::Expired`](crate::Outcome::Expired).
    pub fn only(path: impl Into<Arc<str>>) -> Self {
        Self { kind: HintKind::Only, path: path.into() }
    }

    /// Returns the path, as it was named.
    pub fn path(&self) -> &str {
        &self.path
    }
}

/// Blocks without which a block is useless, as pictures of a video are without those they refer to.
/// The session passes them to its scheduler; the receiver is not informed of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Depends {
    /// None. No [`Self::Reference`] refers to it. The default.
    #[default]
    Nothing,
    /// None. It starts a group of blocks on its channel, as a key frame does.
    Key,
    /// The last [`Self::Key`] or [`Self::Reference`] before it on its channel, if there is one.
    /// Later blocks need it.
    Reference,
    /// The last [`Self::Key`] or [`Self::Reference`] before it on its channel, if there is one.
    /// Later blocks do not need it.
    Disposable,
    /// These blocks of the session, by the ids that sending them returned. Blocks that were not
    /// handed over before are ignored. Later blocks do not need it, unless they name it.
    On([Option<BlockId>; 2]),
}

/// Importance of a block: 0 (first) to 7 (last). Default: 3, like the urgency of RFC 9218.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Priority(u8);

impl Priority {
    /// The highest priority, 0.
    pub const FIRST: Self = Self(0);
    /// The lowest priority, 7.
    pub const LAST: Self = Self(PRIORITIES - 1);
    const DEFAULT: Self = Self(3);

    /// Creates a priority from 0 (first) to 7 (last). Use `Priority::try_from` for untrusted
    /// numbers.
    ///
    /// # Panics
    /// Above 7; in a constant, when it is compiled.
    #[track_caller]
    pub const fn new(priority: u8) -> Self {
        assert!(priority < PRIORITIES, "priorities are 0 to 7");
        Self(priority)
    }

    /// Returns the number, 0 to 7.
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl TryFrom<u8> for Priority {
    type Error = OptionError;

    fn try_from(priority: u8) -> Result<Self, OptionError> {
        if priority < PRIORITIES { Ok(Self(priority)) } else { Err(OptionError::Priority(priority)) }
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A sequence of blocks within a session, 0 to 1,023: ordered blocks wait for those before them on their channel only,
/// and channels can have weights. Default: 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Channel(u16);

impl Channel {
    /// Creates a channel from 0 to 1,023. Use `Channel::try_from` for untrusted numbers.
    ///
    /// # Panics
    /// Above 1,023; in a constant, when it is compiled.
    #[track_caller]
    pub const fn new(channel: u16) -> Self {
        assert!(channel < MAX_CHANNELS, "channels are 0 to 1023");
        Self(channel)
    }

    /// Returns the number, 0 to 1,023.
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl TryFrom<u16> for Channel {
    type Error = OptionError;

    fn try_from(channel: u16) -> Result<Self, OptionError> {
        if channel < MAX_CHANNELS { Ok(Self(channel)) } else { Err(OptionError::Channel(channel)) }
    }
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A number that is no priority, or no channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionError {
    /// The number is no priority.
    #[error("there is no priority {0}: priorities are 0 to 7")]
    Priority(u8),
    /// The number is no channel.
    #[error("there is no channel {0}: channels are 0 to 1023")]
    Channel(u16),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_outside_the_ranges_are_refused_by_name() {
        assert_eq!(Priority::try_from(7), Ok(Priority::LAST));
        assert_eq!(Channel::try_from(1023).map(Channel::get), Ok(1023));
        assert_eq!(Priority::try_from(8), Err(OptionError::Priority(8)));
        let error = Channel::try_from(1024).expect_err("is none");
        assert_eq!(error.to_string(), "there is no channel 1024: channels are 0 to 1023");
    }

    #[test]
    #[should_panic(expected = "priorities are 0 to 7")]
    fn a_priority_out_of_range_fails_where_it_is_named() {
        let _ = Priority::new(8);
    }

    #[test]
    #[should_panic(expected = "channels are 0 to 1023")]
    fn a_channel_out_of_range_fails_where_it_is_named() {
        let _ = Channel::new(1024);
    }
}
