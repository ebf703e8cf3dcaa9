//! Codes of closed sessions. 0 is a normal end.

/// The peer broke the protocol.
pub(crate) const PROTOCOL: u32 = 16;
/// The peer presented a wrong token.
pub(crate) const TOKEN: u32 = 17;
/// The host of the peer presented too many wrong tokens.
pub(crate) const TOO_MANY: u32 = 18;
/// The peer has another version of the protocol.
pub(crate) const VERSION: u32 = 19;
/// The exit carries as many tunnels as it may.
pub(crate) const FULL: u32 = 20;
/// The peer sent no hello in time.
pub(crate) const SILENT: u32 = 21;
/// The exit is draining: it accepts no more sessions.
pub(crate) const DRAINING: u32 = 22;
/// The tenant was removed, or its token was changed.
pub(crate) const REMOVED: u32 = 23;
/// The tenant has used its bytes.
pub(crate) const BYTES: u32 = 24;
