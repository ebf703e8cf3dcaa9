//! What the two ends of a tunnel send each other: messages ([`control`]) and the blocks of flows ([`frame`]), in which null
//! packets of transport streams are left out ([`nulls`]).

pub(crate) mod control;
pub(crate) mod frame;
pub(crate) mod nulls;
