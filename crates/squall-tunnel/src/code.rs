//! Close codes of sessions. 0 is a normal end.

/// Protocol violation by the peer.
pub(crate) const PROTOCOL: u32 = 16;
/// Wrong token.
pub(crate) const TOKEN: u32 = 17;
/// Too many wrong tokens from the host of the peer.
pub(crate) const TOO_MANY: u32 = 18;
/// Other version of the protocol.
pub(crate) const VERSION: u32 = 19;
/// The exit carries its maximum number of tunnels.
pub(crate) const FULL: u32 = 20;
/// No hello from the peer in time.
pub(crate) const SILENT: u32 = 21;
/// The exit is draining: it accepts no more sessions.
pub(crate) const DRAINING: u32 = 22;
/// The tenant was removed, or its token was changed.
pub(crate) const REMOVED: u32 = 23;
/// The byte limit of the tenant is used up.
pub(crate) const BYTES: u32 = 24;
