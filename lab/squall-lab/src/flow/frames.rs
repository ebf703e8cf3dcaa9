//! A film whose frame sizes are recorded.

use std::path::PathBuf;
use std::sync::Arc;

use super::{Class, FrameTrace, FrameType, Kind, ReliableFrames};

/// The frames of a recorded film, over and over to the end of the flow.
#[derive(Debug, Clone, PartialEq)]
pub struct Frames {
    /// The file with their sizes, as the scenario names it.
    pub file: PathBuf,
    /// What it says, once it is loaded; a film that is not offers nothing.
    pub trace: Option<Arc<FrameTrace>>,
    /// Mean rate in bits per second that the sizes are scaled to, if not that of the file.
    pub bitrate_bps: Option<u64>,
    /// Deadline in microseconds after a frame is offered.
    pub deadline_us: Option<u64>,
    /// What its classes are.
    pub by: FrameClasses,
    /// Which frames are reliable. Of layers, the base is the reference.
    pub reliable: ReliableFrames,
}

/// By what frames are told apart, and the priority of each, 0 first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FrameClasses {
    /// By type: I, P and B.
    Types([u8; 3]),
    /// By layer: so many of them, the base first.
    Layers(Vec<u8>),
}

impl Frames {
    /// Largest frame in bytes, if the film is loaded.
    pub fn largest_frame(&self) -> Option<u64> {
        let trace = self.trace.as_ref()?;
        trace.rows().iter().map(|row| self.frame_size(trace, row.size)).max()
    }

    /// What a frame of this size has here, in bytes.
    pub(crate) fn frame_size(&self, trace: &FrameTrace, size: u64) -> u64 {
        let Some(bitrate_bps) = self.bitrate_bps else { return size };
        let bits = u128::from(bitrate_bps) * u128::from(trace.duration_us());
        let scaled = u128::from(size) * bits / (u128::from(trace.bytes()) * 8_000_000);
        u64::try_from(scaled).unwrap_or(u64::MAX).max(1)
    }
}

impl Kind for Frames {
    fn name(&self) -> &'static str {
        "frames"
    }

    fn classes(&self) -> Vec<Class> {
        match &self.by {
            FrameClasses::Types(priorities) => FrameType::classes(*priorities, self.reliable),
            FrameClasses::Layers(priorities) => {
                let class = |(layer, priority): (usize, &u8)| {
                    // Only the base is needed by what is not better than itself.
                    let like = if layer == 0 { FrameType::P } else { FrameType::B };
                    Class::new(&format!("L{layer}"), self.reliable.covers_type(like), *priority)
                };
                priorities.iter().enumerate().map(class).collect()
            }
        }
    }

    fn deadline_us(&self) -> Option<u64> {
        self.deadline_us
    }

    fn picture_us(&self) -> Option<u64> {
        self.trace.as_ref().map(|trace| trace.picture_us())
    }
}
