//! Groups of pictures with a pattern.

use super::{Class, FrameType, Kind, ReliableFrames};

/// One group of pictures after the other, all of the same pattern: the toolkit of STORM's microbenchmark (§5.2),
/// which sends one I, three P and two B blocks every 100 ms.
#[derive(Debug, Clone, PartialEq)]
pub struct Gop {
    /// Its frames in the order in which they are sent, an I frame first. B frames are shown just before the I or P
    /// frame that was sent last before them. So a group is closed, unless B frames follow its I frame: those need
    /// the last P or I frame of the group before.
    pub pattern: Vec<FrameType>,
    /// Time from one group to the next, in microseconds.
    pub interval_us: u64,
    /// Mean rate, in bits per second.
    pub bitrate_bps: u64,
    /// Sizes of I, P and B frames relative to one another, above 0.
    pub sizes: [f64; 3],
    /// Sizes vary uniformly by up to this share in both directions, 0 to 1.
    pub size_jitter: f64,
    /// Whether the frames are spread evenly over the interval, or come all at its start as in the paper.
    pub spread: bool,
    /// Deadline in microseconds after a frame is offered.
    pub deadline_us: Option<u64>,
    /// Priorities of I, P and B frames, 0 first.
    pub priorities: [u8; 3],
    /// Which frames are reliable.
    pub reliable: ReliableFrames,
}

impl Gop {
    /// Mean size of a frame in bytes, such that a group has the bitrate of the flow.
    pub fn frame_size(&self, frame: FrameType) -> u64 {
        let weight = |frame: &FrameType| self.sizes[*frame as usize];
        let group: f64 = self.pattern.iter().map(weight).sum();
        let bytes = self.bitrate_bps as f64 * self.interval_us as f64 / 8e6;
        // Rounded, so that sizes given in bytes come out as given.
        ((bytes * weight(&frame) / group).round() as u64).max(1)
    }

    /// Largest frame in bytes.
    pub fn largest_frame(&self) -> u64 {
        let largest = self.pattern.iter().map(|frame| self.frame_size(*frame)).max().unwrap_or(0);
        (largest as f64 * (1.0 + self.size_jitter)) as u64
    }
}

impl Kind for Gop {
    fn name(&self) -> &'static str {
        "gop"
    }

    fn classes(&self) -> Vec<Class> {
        FrameType::classes(self.priorities, self.reliable)
    }

    fn deadline_us(&self) -> Option<u64> {
        self.deadline_us
    }

    fn picture_us(&self) -> Option<u64> {
        Some(self.interval_us / self.pattern.len().max(1) as u64)
    }
}
