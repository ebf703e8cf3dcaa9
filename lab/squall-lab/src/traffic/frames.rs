//! A film whose frame sizes are recorded.

use rand_pcg::Pcg64Mcg;

use super::reel::{Projector, Reel, Shot};
use super::references::{Anchors, Layers};
use crate::flow::{Class, FrameClasses, FrameRow, FrameTrace, FrameType, Frames};

pub(super) fn film(frames: &Frames, classes: Vec<Class>, rng: Pcg64Mcg) -> Projector {
    let reel = frames.trace.as_ref().map_or_else(Reel::default, |trace| reel(frames, trace));
    Projector::new(reel, frames.deadline_us, 0.0, classes, rng)
}

/// The whole film once. The pictures are sent at the times at which they are shown, in the order in which they are
/// coded: the first sent at the first time, and so on. An encoder that reorders sends all of them later, by as long
/// as it holds back the first; a flow that does so starts later.
fn reel(frames: &Frames, trace: &FrameTrace) -> Reel {
    let mut pictures: Vec<&[FrameRow]> = trace.rows().chunk_by(|a, b| a.picture == b.picture).collect();
    let mut shown: Vec<usize> = (0..pictures.len()).collect();
    shown.sort_by_key(|picture| pictures[*picture][0].pts_us);
    let times: Vec<u64> = shown.iter().map(|picture| pictures[*picture][0].pts_us).collect();
    let mut places = vec![0; pictures.len()];
    for (place, picture) in shown.into_iter().enumerate() {
        places[picture] = place as u64;
    }
    let layered = matches!(frames.by, FrameClasses::Layers(_));
    if !layered && places.is_sorted() {
        pictures = in_coding_order(pictures);
    }
    let mut references = References::default();
    let mut shots: Vec<Shot> = Vec::with_capacity(trace.rows().len());
    for (rows, at_us) in pictures.into_iter().zip(times) {
        let picture = places[rows[0].picture];
        let key = shots.is_empty() || rows[0].frame_type == Some(FrameType::I);
        references.layers.begin(key);
        for (index, row) in rows.iter().enumerate() {
            let number = shots.len() as i64;
            let frame = if key { FrameType::I } else { row.frame_type.unwrap_or(FrameType::P) };
            let (class, needs) = if layered {
                (u16::from(row.layer), references.layers.needs(row.layer, number))
            } else {
                // The first frame needs none, whatever the file calls it.
                let class = row.frame_type.unwrap_or(frame) as u16;
                (class, references.anchors.needs(frame, number, picture as i64))
            };
            let size = frames.frame_size(trace, row.size);
            shots.push(Shot { at_us, size, class, picture, base: index == 0, needs });
        }
    }
    Reel { shots, pictures: trace.pictures() as u64, period_us: trace.duration_us() }
}

#[derive(Default)]
struct References {
    anchors: Anchors,
    layers: Layers,
}

/// Of pictures in the order of display: B frames after the I or P frame that follows them.
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
    use crate::flow::{ReliableFrames, Traffic};
    use crate::traffic::Offer;
    use crate::traffic::source::Source;

    fn frames(csv: &str, by: FrameClasses) -> Frames {
        Frames {
            file: "t.csv".into(),
            trace: Some(Arc::new(FrameTrace::parse(csv, "t.csv").expect("it is a trace"))),
            bitrate_bps: None,
            deadline_us: Some(100_000),
            by,
            reliable: ReliableFrames::Reference,
        }
    }

    fn offers(frames: &Frames, count: usize) -> Vec<Offer> {
        let mut film = film(frames, Traffic::Frames(frames.clone()).classes(), Pcg64Mcg::seed_from_u64(1));
        std::iter::from_fn(|| film.next()).take(count).collect()
    }

    const TYPES: FrameClasses = FrameClasses::Types([0, 1, 2]);
    const DISPLAYED: &str = "frame,pts_ms,type,layer,size_bytes\n\
        0,0,I,0,900\n1,40,B,0,100\n2,80,P,0,300\n3,120,B,0,110\n";

    #[test]
    fn a_film_in_the_order_of_display_is_sent_in_that_of_coding() {
        let offers = offers(&frames(DISPLAYED, TYPES), 8);
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
        assert_eq!(offers(&frames(coded, TYPES), 20), offers(&frames(DISPLAYED, TYPES), 20));
    }

    #[test]
    fn only_the_base_of_a_layered_picture_is_needed_to_show_it() {
        let csv = "frame,pts_ms,type,layer,size_bytes\n0,0,,0,500\n0,0,,1,700\n1,33.3,,0,50\n1,33.3,,1,70\n";
        let offers = offers(&frames(csv, FrameClasses::Layers(vec![0, 3])), 4);
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
            let film = Frames { bitrate_bps: Some(kbps * 1_000), ..frames(&csv, TYPES) };
            let offers = offers(&film, 3 * kinds.len());
            let bytes: u64 = offers.iter().map(|offer| offer.size).sum();
            let seconds = 3.0 * kinds.len() as f64 * 0.033;
            let kbps_sent = bytes as f64 * 8.0 / seconds / 1_000.0;
            // Sizes are whole, and never 0.
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
