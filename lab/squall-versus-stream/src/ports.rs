//! Where carriers listen.

/// Where the source's packets go on the client side, and where the sink waits on the server side.
pub const SOURCE_PORT: u16 = 5_000;
/// See [`SOURCE_PORT`].
pub const SINK_PORT: u16 = 6_000;

/// Where carriers listen on the server side.
pub const PORT: u16 = 7_000;
