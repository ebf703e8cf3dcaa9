//! Groups of pictures with a pattern.

use rand_pcg::Pcg64Mcg;
use squall_units::{Rate, Ratio, Span};

use super::cycle::{Cycle, CycleFrame, Repeater};
use super::fields::{Checked, interval, largest, require};
use super::frame_type::{FrameType, Priorities, ReliableFrames};
use super::references::Anchors;
use super::source::{Kind, Source};
use crate::offer::Class;

/// Maximum number of frames in a group.
const MAX_PATTERN: usize = 1_000;

/// Groups of pictures with a fixed pattern: the toolkit of STORM's microbenchmark (§5.2), which
/// sends one I, three P and two B blocks every 100 ms.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gop {
    /// Frames in coding order, an I frame first. B frames are shown just before the latest I or P
    /// frame that was sent before them. So a group is closed, unless B frames follow its I frame:
    /// those also depend on the last P or I frame of the previous group.
    pub pattern: String,
    /// Interval between groups.
    pub interval: Span,
    /// Mean rate.
    pub bitrate: Rate,
    /// Sizes of frames relative to one another.
    #[serde(default)]
    pub sizes: FrameSizes,
    /// Sizes vary uniformly by up to this share in both directions.
    #[serde(default)]
    pub jitter: Ratio,
    /// Frames are spread evenly over the interval; otherwise all are sent at its start, as in the
    /// paper.
    #[serde(default)]
    pub spread: bool,
    /// Deadline after a frame is offered.
    pub deadline: Option<Span>,
    /// Priorities of I, P and B frames, 0 first.
    #[serde(default)]
    pub priorities: Priorities,
    /// Reliability by frame type.
    #[serde(default = "ReliableFrames::reference")]
    pub reliable: ReliableFrames,
}

/// Relative sizes of I, P and B frames, in any unit. The paper does not give those of STORM's
/// microbenchmark (§5.2); the defaults give its groups of pictures the published rate.
#[derive(Debug, Clone, Copy, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(non_snake_case, reason = "frame types are capital letters, in files too")]
pub struct FrameSizes {
    /// Size of I frames.
    pub I: f64,
    /// Size of P frames.
    pub P: f64,
    /// Size of B frames.
    pub B: f64,
}

impl Default for FrameSizes {
    fn default() -> Self {
        Self { I: 120.0, P: 60.0, B: 37.5 }
    }
}

impl FrameSizes {
    fn of(self, frame: FrameType) -> f64 {
        [self.I, self.P, self.B][frame as usize]
    }
}

impl Gop {
    /// Frames of the pattern, ignoring other letters.
    fn frames(&self) -> Vec<FrameType> {
        self.pattern.chars().filter_map(FrameType::of).collect()
    }

    /// Mean size of a frame in bytes, such that a group has the bitrate of the flow.
    pub fn frame_size(&self, frame: FrameType) -> u64 {
        let group: f64 = self.frames().into_iter().map(|frame| self.sizes.of(frame)).sum();
        let bytes = self.bitrate.bps() as f64 * self.interval.micros() as f64 / 8e6;
        // Rounded, so that sizes given in bytes come out as given.
        ((bytes * self.sizes.of(frame) / group).round() as u64).max(1)
    }

    /// Returns one group.
    fn cycle(&self) -> Cycle {
        let (frames, interval_us) = (self.frames(), self.interval.micros());
        let count = frames.len() as u64;
        let places = places(&frames);
        let mut anchors = Anchors::default();
        // The previous group, for B frames that follow the I frame.
        for (index, frame) in frames.iter().enumerate() {
            anchors.needs(*frame, index as i64 - count as i64, places[index] - count as i64);
        }
        let frame = |(index, frame): (usize, &FrameType)| CycleFrame {
            at_us: if self.spread { index as u64 * interval_us / count } else { 0 },
            deadline_us: self.deadline_us(),
            size: self.frame_size(*frame),
            class: *frame as u16,
            picture: places[index] as u64,
            base: true,
            needs: anchors.needs(*frame, index as i64, places[index]),
        };
        let frames = frames.iter().enumerate().map(frame).collect();
        Cycle { frames, pictures: count, period_us: interval_us }
    }
}

impl Kind for Gop {
    fn kind(&self) -> &'static str {
        "gop"
    }

    fn validate(&self) -> Checked {
        interval(self.interval)?;
        require(self.bitrate.bps() > 0, "bitrate", "0 is no video")?;
        let frames = self.frames();
        let known = frames.len() == self.pattern.chars().count() && frames.first() == Some(&FrameType::I);
        let words = format_args!("{:?} is not an I followed by any of I, P and B", self.pattern);
        require(known, "pattern", words)?;
        let most = MAX_PATTERN.min(self.interval.micros() as usize);
        let words = format_args!("{} frames are more than {most}", frames.len());
        require(frames.len() <= most, "pattern", words)?;
        for size in FrameType::ALL.map(|frame| self.sizes.of(frame)) {
            let words = format_args!("{size} is not within 0.000001 and 1e9");
            require((1e-6..=1e9).contains(&size), "sizes", words)?;
        }
        self.priorities.check(None)?;
        let bytes = frames.into_iter().map(|frame| self.frame_size(frame)).max().unwrap_or(0);
        largest("bitrate", "frame", (bytes as f64 * (1.0 + self.jitter.as_f64())) as u64)
    }

    fn classes(&self) -> Vec<Class> {
        self.priorities.classes(None, self.reliable)
    }

    fn deadline(&self) -> Option<Span> {
        self.deadline
    }

    fn picture_us(&self) -> Option<u64> {
        Some(self.interval.micros() / self.frames().len().max(1) as u64)
    }

    fn source(&self, rng: Pcg64Mcg, _length_us: u64) -> Box<dyn Source> {
        Box::new(Repeater::new(self.cycle(), self.jitter.as_f64(), self.classes(), rng))
    }
}

/// Returns the display position of each frame: B frames just before the I or P frame that was sent
/// last.
fn places(pattern: &[FrameType]) -> Vec<i64> {
    let mut order: Vec<usize> = Vec::with_capacity(pattern.len());
    for (index, frame) in pattern.iter().enumerate() {
        let last = order.len().saturating_sub(usize::from(!frame.is_reference()));
        order.insert(last, index);
    }
    let mut places = vec![0; pattern.len()];
    for (place, index) in order.into_iter().enumerate() {
        places[index] = place as i64;
    }
    places
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;
    use crate::offer::Offer;

    fn offers(pattern: &str, spread: bool, count: usize) -> Vec<Offer> {
        let gop = Gop {
            pattern: pattern.into(),
            interval: Span::from_millis(100),
            bitrate: Rate::from_bps(30_000_000),
            sizes: FrameSizes::default(),
            jitter: Ratio::ZERO,
            spread,
            deadline: Some(Span::from_millis(300)),
            priorities: Priorities::default(),
            reliable: ReliableFrames::Reference,
        };
        let mut film = gop.source(Pcg64Mcg::seed_from_u64(1), u64::MAX);
        std::iter::from_fn(|| film.next()).take(count).collect()
    }

    #[test]
    fn the_papers_group_is_as_in_the_paper() {
        let offers = offers("IPPPBB", false, 12);
        let sizes: Vec<_> = offers[..6].iter().map(|offer| offer.size).collect();
        assert_eq!(sizes, [120_000, 60_000, 60_000, 60_000, 37_500, 37_500]);
        assert!(offers.iter().enumerate().all(|(index, offer)| offer.at_us == index as u64 / 6 * 100_000));
        let manners: Vec<_> = offers[6..].iter().map(|o| (o.class, o.priority, o.reliable)).collect();
        assert_eq!(manners[..2], [(0, 0, true), (1, 1, true)]);
        assert_eq!(manners[4..], [(2, 2, false), (2, 2, false)]);
        let frames: Vec<_> = offers[6..].iter().filter_map(|offer| offer.frame).collect();
        // The B frames are displayed before the third P frame.
        assert_eq!(frames.iter().map(|frame| frame.picture).collect::<Vec<_>>(), [6, 7, 8, 11, 9, 10]);
        assert_eq!((frames[0].needs, frames[3].needs), ([None, None], [Some(8), None]));
        assert_eq!(frames[4].needs, [Some(9), Some(8)]);
    }

    #[test]
    fn an_open_group_leans_on_the_one_before() {
        let offers = offers("IBPB", true, 8);
        let times: Vec<_> = offers.iter().map(|offer| offer.at_us).collect();
        assert_eq!(times, [0, 25_000, 50_000, 75_000, 100_000, 125_000, 150_000, 175_000]);
        let frames: Vec<_> = offers.iter().filter_map(|offer| offer.frame).collect();
        assert_eq!(frames.iter().map(|frame| frame.picture).collect::<Vec<_>>(), [1, 0, 3, 2, 5, 4, 7, 6]);
        assert_eq!(frames[1].needs, [Some(0), None], "there is no group before");
        assert_eq!(frames[5].needs, [Some(4), Some(2)], "the P frame of the group before");
    }
}
