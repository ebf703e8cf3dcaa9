//! PATH_INFO: properties of a path that only one side has.

use super::{WireError, check_path, next};
use crate::varint;

const METERED: u64 = 0x01;

/// What a side declares of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathInfo {
    /// Number of the path.
    pub path: u32,
    /// Whether its bytes cost money.
    pub metered: bool,
    /// Grows with each item of the session; an older one about the same path is ignored.
    pub sequence: u64,
}

impl PathInfo {
    pub(super) fn encode(&self, body: &mut Vec<u8>) {
        varint::write(body, self.path.into());
        varint::write(body, if self.metered { METERED } else { 0 });
        varint::write(body, self.sequence);
    }

    pub(super) fn decode(input: &mut &[u8]) -> Result<Self, WireError> {
        let path = check_path(next(input)?)?;
        // Bits without a meaning yet are left to later versions.
        let metered = next(input)? & METERED != 0;
        Ok(Self { path, metered, sequence: next(input)? })
    }
}
