//! PATH_ALERT: the report of one side's radio about a path.

use squall_signal::{Alert, AlertKind};

use super::{WireError, check_path, next};
use crate::varint;

/// A report of the radio behind one end of a path about it (STORM §3.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathAlert {
    /// Number of the path.
    pub path: u32,
    /// Change for the sender.
    pub kind: AlertKind,
    /// The quality index in thousandths, at most 1000.
    pub quality: u16,
    /// Distance of the index below the Warning mark, in thousandths, at most 1000.
    pub gap: u16,
    /// Sequence number, which grows with each alert of the session; an older alert about the same
    /// path is ignored.
    pub sequence: u64,
}

const KINDS: [AlertKind; 3] = [AlertKind::Warning, AlertKind::Outage, AlertKind::Recovery];

impl PathAlert {
    pub(crate) fn new(path: u32, alert: &Alert, sequence: u64) -> Self {
        let thousandths = |share: f64| (share.clamp(0.0, 1.0) * 1000.0).round() as u16;
        let (quality, gap) = (thousandths(alert.quality), thousandths(alert.gap));
        Self { path, kind: alert.kind, quality, gap, sequence }
    }

    /// Returns the alert without the fields of the session.
    pub fn alert(&self) -> Alert {
        let share = |thousandths: u16| f64::from(thousandths) / 1000.0;
        Alert { kind: self.kind, quality: share(self.quality), gap: share(self.gap) }
    }

    pub(super) fn encode(&self, body: &mut Vec<u8>) {
        varint::write(body, self.path.into());
        varint::write(body, KINDS.iter().position(|kind| *kind == self.kind).unwrap_or(0) as u64);
        varint::write(body, self.quality.into());
        varint::write(body, self.gap.into());
        varint::write(body, self.sequence);
    }

    pub(super) fn decode(input: &mut &[u8]) -> Result<Self, WireError> {
        let path = check_path(next(input)?)?;
        let number = next(input)?;
        let kind = usize::try_from(number).ok().and_then(|number| KINDS.get(number));
        let kind = *kind.ok_or(WireError::BadAlert(number))?;
        let quality = thousandths(next(input)?)?;
        Ok(Self { path, kind, quality, gap: thousandths(next(input)?)?, sequence: next(input)? })
    }
}

fn thousandths(value: u64) -> Result<u16, WireError> {
    u16::try_from(value).ok().filter(|value| *value <= 1000).ok_or(WireError::BadQuality(value))
}
