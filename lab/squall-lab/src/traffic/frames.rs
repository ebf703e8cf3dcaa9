//! A film with recorded frame sizes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rand_pcg::Pcg64Mcg;
use squall_units::{Rate, Span};

use super::cycle::{Cycle, CycleFrame, Repeater};
use super::fields::{Checked, Invalid, largest, require, within};
use super::frame_trace::{FrameRow, FrameTrace};
use super::frame_type::{FrameType, Priorities, ReliableFrames};
use super::references::{Anchors, LAYERS, Layers};
use super::source::{Kind, Source};
use crate::offer::Class;

/// Frames of a recorded film, repeated to the end of the flow.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Frames {
    /// File with the frame sizes, as named in the scenario.
    pub file: PathBuf,
    /// Number of layers, if the classes are layers instead of frame types.
    pub layers: Option<u8>,
    /// Mean rate that the sizes are scaled to. Default: that of the file.
    pub bitrate: Option<Rate>,
    /// Deadline after a frame is offered.
    pub deadline: Option<Span>,
    /// Priorities of the classes, 0 first.
    #[serde(default)]
    pub priorities: Priorities,
    /// Reliability by frame type. For layers, the base layer is the reference.
    #[serde(default = "ReliableFrames::reference")]
    pub reliable: ReliableFrames,
    /// Content of the file. A film that is not loaded offers nothing.
    #[serde(skip)]
    pub trace: Option<Arc<FrameTrace>>,
}

impl Frames {
    /// Loads the file, which is relative to this folder.
    ///
    /// # Errors
    /// If the file is not a film or does not fit the other fields.
    pub fn load(&mut self, base: &Path) -> Checked {
        let invalid = |words| Invalid { field: "file", words };
        let trace = FrameTrace::load(&base.join(&self.file)).map_err(|error| invalid(error.to_string()))?;
        let words = format_args!("it has {} layers, so it needs `layers = {0}`", trace.layers());
        require(trace.layers() <= self.layers.unwrap_or(1), "file", words)?;
        let typed = trace.rows().iter().all(|row| row.frame_type.is_some());
        let words = "it does not give the types of all frames, so it needs `layers`";
        require(typed || self.layers.is_some(), "file", words)?;
        self.trace = Some(Arc::new(trace));
        largest("bitrate", "frame", self.largest_frame().unwrap_or(0))
    }

    /// Size of the largest frame in bytes, if the film is loaded.
    pub fn largest_frame(&self) -> Option<u64> {
        let trace = self.trace.as_ref()?;
        trace.rows().iter().map(|row| self.frame_size(trace, row.size)).max()
    }

    /// Returns the scaled size in bytes of a frame with this size in the file.
    fn frame_size(&self, trace: &FrameTrace, size: u64) -> u64 {
        let Some(bitrate) = self.bitrate else { return size };
        let bits = u128::from(bitrate.bps()) * u128::from(trace.duration_us());
        let scaled = u128::from(size) * bits / (u128::from(trace.bytes()) * 8_000_000);
        u64::try_from(scaled).unwrap_or(u64::MAX).max(1)
    }

    /// Returns one round of the film. The pictures are sent at the times at which they are shown,
    /// but in coding order: the first coded picture at the first time, and so on. A reordering
    /// encoder delays all pictures by the time for which it holds back the first; a flow with such
    /// an encoder should start later.
    fn cycle(&self, trace: &FrameTrace) -> Cycle {
        let mut pictures: Vec<&[FrameRow]> = trace.rows().chunk_by(|a, b| a.picture == b.picture).collect();
        let mut shown: Vec<usize> = (0..pictures.len()).collect();
        shown.sort_by_key(|picture| pictures[*picture][0].pts_us);
        let times: Vec<u64> = shown.iter().map(|picture| pictures[*picture][0].pts_us).collect();
        let mut places = vec![0; pictures.len()];
        for (place, picture) in shown.into_iter().enumerate() {
            places[picture] = place as u64;
        }
        if self.layers.is_none() && places.is_sorted() {
            pictures = in_coding_order(pictures);
        }
        let (mut anchors, mut layers) = (Anchors::default(), Layers::default());
        let mut frames: Vec<CycleFrame> = Vec::with_capacity(trace.rows().len());
        for (rows, at_us) in pictures.into_iter().zip(times) {
            let picture = places[rows[0].picture];
            let key = frames.is_empty() || rows[0].frame_type == Some(FrameType::I);
            layers.begin(key);
            for (index, row) in rows.iter().enumerate() {
                let number = frames.len() as i64;
                let frame = if key { FrameType::I } else { row.frame_type.unwrap_or(FrameType::P) };
                let (class, needs) = if self.layers.is_some() {
                    (u16::from(row.layer), layers.needs(row.layer, number))
                } else {
                    // The first frame has no dependencies, whatever its type in the file.
                    let class = row.frame_type.unwrap_or(frame) as u16;
                    (class, anchors.needs(frame, number, picture as i64))
                };
                let (size, deadline_us) = (self.frame_size(trace, row.size), self.deadline_us());
                frames.push(CycleFrame { at_us, deadline_us, size, class, picture, base: index == 0, needs });
            }
        }
        Cycle { frames, pictures: trace.pictures() as u64, period_us: trace.duration_us() }
    }
}

impl Kind for Frames {
    fn kind(&self) -> &'static str {
        "frames"
    }

    fn validate(&self) -> Checked {
        require(self.bitrate.is_none_or(|bitrate| bitrate.bps() > 0), "bitrate", "0 is no video")?;
        if let Some(layers) = self.layers {
            within("layers", layers, 1..=LAYERS as u8)?;
            let words = "layers are \"all\" so, or the base as \"reference\", or \"none\"";
            require(self.reliable != ReliableFrames::Key, "reliable", words)?;
        }
        self.priorities.check(self.layers)
    }

    fn classes(&self) -> Vec<Class> {
        self.priorities.classes(self.layers, self.reliable)
    }

    fn deadline(&self) -> Option<Span> {
        self.deadline
    }

    fn picture_us(&self) -> Option<u64> {
        self.trace.as_ref().map(|trace| trace.picture_us())
    }

    fn source(&self, rng: Pcg64Mcg, _length_us: u64) -> Box<dyn Source> {
        let cycle = self.trace.as_ref().map_or_else(Cycle::default, |trace| self.cycle(trace));
        Box::new(Repeater::new(cycle, 0.0, self.classes(), rng))
    }
}

/// Sorts pictures from display order to coding order: B frames after the I or P frame that follows
/// them.
fn in_coding_order(pictures: Vec<&[FrameRow]>) -> Vec<&[FrameRow]> {
    let mut coded = Vec::with_capacity(pictures.len());
    let mut waiting = Vec::new();
    for picture in pictures {
        if picture[0].frame_type == Some(FrameType::B) {
            waiting.push(picture);
        } else {
            coded.push(picture);
            coded.append(&mut waiting);
        }
    }
    coded.append(&mut waiting);
    coded
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use rand::SeedableRng;

    use super::*;
    use crate::offer::Offer;

    fn frames(csv: &str, fields: &str) -> Frames {
        let frames: Frames = toml::from_str(&format!("file = \"t.csv\"\ndeadline = \"100ms\"\n{fields}"))
            .expect("its fields are right");
        let trace = FrameTrace::parse(csv, "t.csv").expect("it is a trace");
        Frames { trace: Some(Arc::new(trace)), ..frames }
    }

    fn offers(frames: &Frames, count: usize) -> Vec<Offer> {
        let mut film = frames.source(Pcg64Mcg::seed_from_u64(1), u64::MAX);
        std::iter::from_fn(|| film.next()).take(count).collect()
    }

    const DISPLAYED: &str = "frame,pts_ms,type,layer,size_bytes\n\
        0,0,I,0,900\n1,40,B,0,100\n2,80,P,0,300\n3,120,B,0,110\n";

    #[test]
    fn a_film_in_the_order_of_display_is_sent_in_that_of_coding() {
        let offers = offers(&frames(DISPLAYED, ""), 8);
        let sent: Vec<_> = offers.iter().map(|o| (o.at_us, o.size, o.class)).collect();
        assert_eq!(sent[..4], [(0, 900, 0), (40_000, 300, 1), (80_000, 100, 2), (120_000, 110, 2)]);
        assert_eq!(sent[4..6], [(160_000, 900, 0), (200_000, 300, 1)], "and again");
        let frames: Vec<_> = offers.iter().filter_map(|offer| offer.frame).collect();
        assert_eq!(frames.iter().map(|frame| frame.picture).collect::<Vec<_>>(), [0, 2, 1, 3, 4, 6, 5, 7]);
        assert_eq!(frames[2].needs, [Some(1), Some(0)]);
        assert_eq!(frames[3].needs, [Some(1), None], "the last one has no neighbour after it");
        assert_eq!((frames[4].needs, frames[5].needs), ([None, None], [Some(4), None]));
    }

    #[test]
    fn both_orders_of_a_file_are_the_same_film() {
        let coded = "frame,pts_ms,type,size_bytes\n0,0,I,900\n2,80,P,300\n1,40,B,100\n3,120,B,110\n";
        assert_eq!(offers(&frames(coded, ""), 20), offers(&frames(DISPLAYED, ""), 20));
    }

    #[test]
    fn only_the_base_of_a_layered_picture_is_needed_to_show_it() {
        let csv = "frame,pts_ms,type,layer,size_bytes\n0,0,,0,500\n0,0,,1,700\n1,33.3,,0,50\n1,33.3,,1,70\n";
        let offers = offers(&frames(csv, "layers = 2\npriorities = { L1 = 3 }"), 4);
        let frames: Vec<_> = offers.iter().filter_map(|offer| offer.frame).collect();
        assert_eq!(
            frames.iter().map(|f| (f.picture, f.base)).collect::<Vec<_>>(),
            [(0, true), (0, false), (1, true), (1, false)]
        );
        assert_eq!(frames[3].needs, [Some(2), Some(1)]);
        let manners: Vec<_> = offers.iter().map(|o| (o.at_us, o.class, o.priority, o.reliable)).collect();
        assert_eq!(manners[2..], [(33_300, 0, 0, true), (33_300, 1, 3, false)]);
    }

    proptest! {
        #[test]
        fn any_film_repeats_and_keeps_its_rate(
            kinds in prop::collection::vec((0usize..3, 1u64..50_000), 2..60), kbps in 100u64..20_000,
        ) {
            let rows: String = kinds
                .iter()
                .enumerate()
                .map(|(n, (kind, size))| format!("{n},{},{},0,{size}\n", n * 33, FrameType::ALL[*kind].letter()))
                .collect();
            let csv = format!("frame,pts_ms,type,layer,size_bytes\n{rows}");
            let film = Frames { bitrate: Some(Rate::from_bps(kbps * 1_000)), ..frames(&csv, "") };
            let offers = offers(&film, 3 * kinds.len());
            let bytes: u64 = offers.iter().map(|offer| offer.size).sum();
            let seconds = 3.0 * kinds.len() as f64 * 0.033;
            let kbps_sent = bytes as f64 * 8.0 / seconds / 1_000.0;
            // Sizes are integers and at least 1.
            let whole = 8.0 / 33.0;
            prop_assert!((kbps_sent - kbps as f64).abs() <= whole + kbps as f64 * 0.001, "{kbps_sent} {kbps}");
            prop_assert!(offers.is_sorted_by_key(|offer| offer.at_us));
            let mut pictures: Vec<u64> = offers.iter().filter_map(|o| Some(o.frame?.picture)).collect();
            pictures.sort_unstable();
            prop_assert!(pictures.into_iter().eq(0..offers.len() as u64));
            for (index, offer) in offers.iter().enumerate() {
                let frame = offer.frame.expect("a film has pictures");
                prop_assert!(frame.needs.iter().flatten().all(|need| *need < index as u64));
            }
        }
    }
}
