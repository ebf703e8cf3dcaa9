//! Numbers passed to callers. Their documentation is written for `squall.h`, which is generated
//! from this file too.

/// Result of a call. Errors are negative; squall_last_error explains them.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Success.
    Ok = 0,
    /// Success, but nothing arrived before the timeout.
    Nothing = 1,
    /// An argument is invalid: NULL where it must not be, text that is not UTF-8, a number out of
    /// range, a file that cannot be read.
    ErrorArgument = -1,
    /// The number does not refer to an endpoint or a session: it was freed, or never existed.
    ErrorHandle = -2,
    /// The size field of a struct is wrong, a buffer is too small, or a block too large.
    ErrorSize = -3,
    /// There is no room. After squall_send, SQUALL_EVENT_WRITABLE follows when there is.
    ErrorFull = -4,
    /// The session has ended.
    ErrorClosed = -5,
    /// The session that squall_connect_start began is not connected yet.
    ErrorConnecting = -6,
    /// No connection: no answer, no usable interface, an unknown host, or the server refused it.
    ErrorConnect = -7,
    /// The certificate of the server is not trusted, or is not the pinned one.
    ErrorTrust = -8,
    /// The endpoint cannot listen.
    ErrorListen = -9,
    /// No path uses this interface now; or the session was accepted, and its peer selects the
    /// interfaces.
    ErrorInterface = -10,
    /// The timeout has expired.
    ErrorTimeout = -11,
    /// The system has no descriptors or threads left.
    ErrorSystem = -12,
    /// A defect in the library.
    ErrorInternal = -13,
    /// The endpoint or session belongs to the process that this one was forked from.
    ErrorForked = -14,
}

/// Kind of an event. A later release can add kinds: ignore unknown ones.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// None: the struct was cleared by squall_event_free.
    None = 0,
    /// The session started by squall_connect_start is connected.
    Connected = 1,
    /// A block of the peer arrived: block, channel, priority, data, len, missing, missing_count,
    /// elapsed_us (from its first byte to its end), remaining_us (until its deadline; negative
    /// after it).
    Received = 2,
    /// A block of the peer will not arrive: block, channel, priority, text.
    Missed = 3,
    /// The peer received the whole block: block, elapsed_us (from squall_send until its last byte
    /// left first), text. This and the next four are the outcomes of blocks that were sent with
    /// report_outcome.
    Delivered = 4,
    /// The deadline passed, or the paths could not meet it: block, bytes (that arrived).
    Expired = 5,
    /// The block is unreliable and part of it was lost: block, bytes (that arrived).
    Lost = 6,
    /// squall_cancel or the scheduler cancelled the block, or the session ended first: block, text.
    Cancelled = 7,
    /// The peer refused the block: block, text.
    Refused = 8,
    /// There is room to send again, after SQUALL_ERROR_FULL.
    Writable = 9,
    /// A path is up: path, text.
    PathUp = 10,
    /// A path is silent and not used: path, elapsed_us (of silence), text.
    PathSuspected = 11,
    /// A suspected path works again: path, elapsed_us (without it), text.
    PathReadmitted = 12,
    /// The radio of a path reports a fade or its end: path, text.
    PathSignal = 13,
    /// A path has another address of the peer: path, text.
    PathRebound = 14,
    /// A path was closed: path.
    PathDown = 15,
    /// The capacity changed: see squall_get_capacity. Further changes are merged into this event
    /// until it is taken.
    Capacity = 16,
    /// The session has ended, or could not be set up: cause, code (of the peer), text. The last
    /// event.
    Closed = 17,
}

/// Cause of the end of a session.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Not ended.
    None = 0,
    /// This side closed it.
    Local = 1,
    /// The peer closed it.
    Peer = 2,
    /// Nothing was received for idle_timeout_us.
    Timeout = 3,
    /// The last path has used its budget.
    Budget = 4,
    /// The peer broke the protocol.
    Protocol = 5,
    /// An error of QUIC or TLS.
    Transport = 6,
    /// The session could not be set up.
    Connect = 7,
    /// The certificate of the server is not trusted.
    Trust = 8,
}
