//! PATH_INFO: properties of a path that only one side has.

use super::{WireError, check_path, next};
use crate::{RateLimit, Role, varint};

const METERED: u64 = 0x01;
const BACKUP: u64 = 0x02;
const REPAIR: u64 = 0x04;

/// A side's declaration about a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathInfo {
    /// Number of the path.
    pub path: u32,
    /// Bytes on the path cost money.
    pub metered: bool,
    /// Role of the path.
    pub role: Role,
    /// Limit of the rate at which the peer sends on it.
    pub limit: Option<RateLimit>,
    /// Sequence number, which grows with each item of the session; an older one about the same path
    /// is ignored.
    pub sequence: u64,
}

impl PathInfo {
    pub(super) fn encode(&self, body: &mut Vec<u8>) {
        varint::write(body, self.path.into());
        let role = match self.role {
            Role::Primary => 0,
            Role::Backup => BACKUP,
            Role::Repair => REPAIR,
        };
        varint::write(body, role | if self.metered { METERED } else { 0 });
        varint::write(body, self.sequence);
        if let Some(RateLimit { bits_per_second, burst }) = self.limit {
            varint::write(body, bits_per_second.min(varint::MAX));
            varint::write(body, burst.min(varint::MAX));
        }
    }

    pub(super) fn decode(input: &mut &[u8]) -> Result<Self, WireError> {
        let path = check_path(next(input)?)?;
        // Bits without a meaning yet are reserved for later versions.
        let flags = next(input)?;
        let role = match flags & (BACKUP | REPAIR) {
            0 => Role::Primary,
            BACKUP => Role::Backup,
            _ => Role::Repair,
        };
        let (metered, sequence) = (flags & METERED != 0, next(input)?);
        // Peers of versions before the limits do not write the fields.
        let limit = match input.is_empty() {
            true => None,
            false => Some(RateLimit { bits_per_second: next(input)?, burst: next(input)? }),
        };
        Ok(Self { path, metered, role, limit, sequence })
    }
}
