//! Protocol between the two ends of a tunnel: messages ([`control`]) and the blocks of flows
//! ([`frame`]), without the null packets of transport streams ([`nulls`]).

pub(crate) mod control;
pub(crate) mod frame;
pub(crate) mod nulls;
