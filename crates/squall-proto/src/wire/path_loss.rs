//! PATH_LOSS: fates of the packets that one side sent on a path.

use super::{WireError, check_path, next};
use crate::varint;

/// Fates of the sender's packets on a path. Both counts only grow: of two items about the same path
/// the one with larger counts is the later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathLoss {
    /// Number of the path.
    pub path: u32,
    /// Packets that were acknowledged.
    pub acked: u64,
    /// Packets that were lost.
    pub lost: u64,
}

impl PathLoss {
    pub(super) fn encode(&self, body: &mut Vec<u8>) {
        varint::write(body, self.path.into());
        varint::write(body, self.acked);
        varint::write(body, self.lost);
    }

    pub(super) fn decode(input: &mut &[u8]) -> Result<Self, WireError> {
        Ok(Self { path: check_path(next(input)?)?, acked: next(input)?, lost: next(input)? })
    }
}
