//! UDP and TCP ports of sources, sinks and carriers.

/// Port on the client side to which the source sends its packets.
pub const SOURCE_PORT: u16 = 5_000;
/// Port on the server side on which the sink receives.
pub const SINK_PORT: u16 = 6_000;

/// Port on the server side on which carriers listen.
pub const PORT: u16 = 7_000;
