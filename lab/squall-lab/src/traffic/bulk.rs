//! As many reliable blocks as the session accepts.

use rand_pcg::Pcg64Mcg;
use squall_units::{Size, Span};

use super::fields::{Checked, MAX_BLOCK, bytes_within, priority};
use super::source::{Kind, Source};
use crate::offer::{Class, Offer};

/// Maximum number of bytes that a session queues.
const MAX_BACKLOG: u64 = 64 << 20;

/// Reliable blocks without a deadline, always more than the paths can carry.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bulk {
    /// Size of a block.
    #[serde(default = "size")]
    pub size: Size,
    /// Bytes to keep queued in the session. Default: four blocks, but at least 2 MB.
    pub backlog: Option<Size>,
    /// Priority, 0 first.
    #[serde(default)]
    pub priority: u8,
}

fn size() -> Size {
    Size::from_bytes(64_000)
}

impl Bulk {
    fn queued(&self) -> u64 {
        self.backlog.map_or((self.size.bytes().saturating_mul(4)).max(2_000_000), Size::bytes)
    }
}

impl Kind for Bulk {
    fn kind(&self) -> &'static str {
        "bulk"
    }

    fn validate(&self) -> Checked {
        bytes_within("size", self.size.bytes(), MAX_BLOCK)?;
        bytes_within("backlog", self.queued(), MAX_BACKLOG)?;
        priority("priority", self.priority)
    }

    fn classes(&self) -> Vec<Class> {
        vec![Class::new("block", true, self.priority)]
    }

    fn deadline(&self) -> Option<Span> {
        None
    }

    fn backlog(&self) -> Option<u64> {
        Some(self.queued())
    }

    fn source(&self, _rng: Pcg64Mcg, _length_us: u64) -> Box<dyn Source> {
        Box::new(Endless(Offer::new(0, self.size.bytes(), 0, &self.classes()[0])))
    }
}

#[derive(Debug)]
struct Endless(Offer);

impl Source for Endless {
    fn next(&mut self) -> Option<Offer> {
        Some(self.0)
    }
}
