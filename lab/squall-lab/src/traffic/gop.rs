//! Groups of pictures with a pattern.

use rand_pcg::Pcg64Mcg;

use super::reel::{Projector, Reel, Shot};
use super::references::Anchors;
use crate::flow::{Class, FrameType, Gop};

pub(super) fn film(gop: &Gop, classes: Vec<Class>, rng: Pcg64Mcg) -> Projector {
    Projector::new(reel(gop), gop.deadline_us, gop.size_jitter, classes, rng)
}

/// One group.
fn reel(gop: &Gop) -> Reel {
    let count = gop.pattern.len() as u64;
    let places = places(&gop.pattern);
    let mut anchors = Anchors::default();
    // The group before, for B frames that follow the I frame.
    for (index, frame) in gop.pattern.iter().enumerate() {
        anchors.needs(*frame, index as i64 - count as i64, places[index] - count as i64);
    }
    let shot = |(index, frame): (usize, &FrameType)| Shot {
        at_us: if gop.spread { index as u64 * gop.interval_us / count } else { 0 },
        size: gop.frame_size(*frame),
        class: *frame as u16,
        picture: places[index] as u64,
        base: true,
        needs: anchors.needs(*frame, index as i64, places[index]),
    };
    let shots = gop.pattern.iter().enumerate().map(shot).collect();
    Reel { shots, pictures: count, period_us: gop.interval_us }
}

/// When each frame is shown, counted from 0: B frames just before the I or P frame that was sent last.
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
    use crate::flow::{ReliableFrames, Traffic};
    use crate::traffic::Offer;
    use crate::traffic::source::Source;

    fn offers(pattern: &str, spread: bool, count: usize) -> Vec<Offer> {
        let gop = Gop {
            pattern: pattern.chars().filter_map(FrameType::of).collect(),
            interval_us: 100_000,
            bitrate_bps: 30_000_000,
            sizes: [120.0, 60.0, 37.5],
            size_jitter: 0.0,
            spread,
            deadline_us: Some(300_000),
            priorities: [0, 1, 2],
            reliable: ReliableFrames::Reference,
        };
        let mut film = film(&gop, Traffic::Gop(gop.clone()).classes(), Pcg64Mcg::seed_from_u64(1));
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
        // The B frames are shown before the third P frame.
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
