//! Files and videos between two machines.

pub(crate) mod message;
