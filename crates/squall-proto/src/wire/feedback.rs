//! FEEDBACK: a receiver's report.

use super::{Stamp, WireError, check_path, next, read_u24, write_u24};
use crate::varint;

/// Largest number of path samples in a feedback item.
pub(super) const MAX_SAMPLES: usize = 16;

/// A receiver's measurements of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Number of the path.
    pub path: u32,
    /// Delay of the newest packet in ticks modulo 2²⁴: arrival by the receiver's clock minus
    /// departure by the sender's.
    pub delay: u32,
    /// Departure of that packet, by which its sender recognizes it; `None` from peers of earlier
    /// versions.
    pub departure: Option<Stamp>,
    /// DATA items received on the path since the previous feedback.
    pub received: u32,
}

/// A receiver's report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Feedback {
    /// Sequence number, which grows by one with each report; an older report that arrives late is
    /// ignored.
    pub sequence: u64,
    /// Bytes of blocks that the receiver accepts, counted over all blocks begun and not finished,
    /// in KiB.
    pub credit: u64,
    /// Bytes that arrived in vain since the session began: duplicates, and bytes of ended blocks.
    pub duplicates: u64,
    /// Blocks that missed their deadline while incomplete, since the session began.
    pub expired: u64,
    /// A sample for each path with arrivals since the previous feedback; at most 16 are sent.
    pub samples: Vec<Sample>,
    /// Largest rate of blocks that the receiver requests, in bits per second; `None` for no limit.
    pub wanted: Option<u64>,
}

impl Feedback {
    pub(super) fn encode(&self, body: &mut Vec<u8>) {
        varint::write(body, self.sequence);
        varint::write(body, self.credit);
        varint::write(body, self.duplicates);
        varint::write(body, self.expired);
        // More paths than that within two reports can only be caused by the peer.
        let samples = &self.samples[..self.samples.len().min(MAX_SAMPLES)];
        varint::write(body, samples.len() as u64);
        for sample in samples {
            varint::write(body, sample.path.into());
            write_u24(body, sample.delay);
            varint::write(body, sample.received.into());
        }
        // Behind the fields that peers of earlier versions read.
        for departure in samples.iter().map_while(|sample| sample.departure) {
            write_u24(body, departure.0);
        }
        // Behind all departures, as nothing else marks their end.
        if let Some(wanted) = self.wanted.filter(|_| samples.iter().all(|sample| sample.departure.is_some()))
        {
            varint::write(body, wanted.min(varint::MAX));
        }
    }

    pub(super) fn decode(input: &mut &[u8]) -> Result<Self, WireError> {
        let (sequence, credit, duplicates, expired) =
            (next(input)?, next(input)?, next(input)?, next(input)?);
        let count = next(input)?;
        if count > MAX_SAMPLES as u64 {
            return Err(WireError::TooManySamples(count));
        }
        let mut samples = (0..count)
            .map(|_| {
                let path = check_path(next(input)?)?;
                let delay = read_u24(input)?;
                let received = u32::try_from(next(input)?).unwrap_or(u32::MAX);
                Ok(Sample { path, delay, departure: None, received })
            })
            .collect::<Result<Vec<_>, _>>()?;
        for sample in &mut samples {
            sample.departure = read_u24(input).ok().map(Stamp);
        }
        let with_departures = samples.iter().all(|sample| sample.departure.is_some());
        let wanted = if with_departures { next(input).ok() } else { None };
        Ok(Self { sequence, credit, duplicates, expired, samples, wanted })
    }
}
