//! The protocol between the two ends of a tunnel: messages ([`control`]) and the blocks of flows ([`frame`]), in which null
//! packets of transport streams are left out ([`nulls`]).

pub(crate) mod control;
pub(crate) mod frame;
pub(crate) mod nulls;
