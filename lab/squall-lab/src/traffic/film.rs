//! A film that is really encoded, and its viewer.
//!
//! The viewer's player shows each frame in its slot, a deadline after it was offered, if it can be decoded by then:
//! it and all that it needs are there. Else the picture before stays. Nothing is concealed, so after a lost reference
//! the picture stands until the next key frame; what is late is decoded for those that need it, and not shown. The
//! same rule makes the flow's [`Playback`](crate::result::Playback).

use std::sync::Arc;

use rand_pcg::Pcg64Mcg;
use squall_media::film::FilmError;
use squall_media::frame::frame_time_us;
use squall_media::{EncodedFrame, FrameKind};

use super::Offer;
use super::reel::{Projector, Reel, Shot};
use super::shelf::Shelf;
use super::source::{Outcome, Source};
use crate::flow::{Class, Film};
use crate::result::PictureQuality;

static FILMS: Shelf<Film, squall_media::Film> = Shelf::new();

/// The film, encoded: now, if it was not before.
///
/// # Errors
/// When the codec fails.
pub(super) fn encoded(film: &Film) -> Result<Arc<squall_media::Film>, FilmError> {
    // How it is sent does not matter.
    let key = Film {
        deadline_us: 0,
        priorities: [0; 3],
        reliable: crate::flow::ReliableFrames::All,
        ..film.clone()
    };
    FILMS.get(&key, || squall_media::Film::make(film.clip.clone(), film.seconds()))
}

/// The film, and what becomes of its frames.
#[derive(Debug)]
pub(super) struct Screening {
    film: Arc<squall_media::Film>,
    projector: Projector,
    deadline_us: u64,
    /// In the order of the offers, which is that of the pictures.
    frames: Vec<Frame>,
}

#[derive(Debug, Clone, Copy)]
struct Frame {
    at_us: u64,
    /// The frame before it that it needs.
    needs: Option<u64>,
    arrived_us: Option<u64>,
}

impl Screening {
    pub(super) fn new(film: &Film, classes: Vec<Class>, rng: Pcg64Mcg) -> Self {
        let encoded = encoded(film).expect("its settings are checked, and it was encoded before the run");
        let reel = reel(encoded.frames(), film.clip.encoder.fps);
        let projector = Projector::new(reel, Some(film.deadline_us), 0.0, classes, rng);
        Self { film: encoded, projector, deadline_us: film.deadline_us, frames: Vec::new() }
    }

    /// For each slot that ended before `end_us`, the picture that stood in it, if there was one.
    fn shown(&self, end_us: u64) -> Vec<Option<u64>> {
        let mut ready: Vec<Option<u64>> = Vec::with_capacity(self.frames.len());
        let mut shown = None;
        let mut slots = Vec::new();
        for (index, frame) in (0..).zip(&self.frames) {
            let due_us = frame.at_us + self.deadline_us;
            if due_us >= end_us {
                break;
            }
            let needed = frame.needs.map_or(Some(0), |need| ready[need as usize]);
            let now = frame.arrived_us.zip(needed).map(|(arrived, needed)| arrived.max(needed));
            if now.is_some_and(|now| now <= due_us) {
                shown = Some(index);
            }
            ready.push(now);
            slots.push(shown);
        }
        slots
    }
}

/// One round of the film.
fn reel(frames: &[EncodedFrame], fps: f64) -> Reel {
    let mut reference = None;
    let shot = |(number, frame): (i64, &EncodedFrame)| {
        let need = reference.filter(|_| frame.kind != FrameKind::Key);
        if frame.kind != FrameKind::Disposable {
            reference = Some(number);
        }
        Shot {
            at_us: frame.pts_us,
            size: frame.data.len() as u64,
            class: Film::class(frame.kind),
            picture: frame.index,
            base: true,
            needs: [need, None],
        }
    };
    let shots: Vec<Shot> = (0..).zip(frames).map(shot).collect();
    let pictures = shots.len() as u64;
    Reel { shots, pictures, period_us: frame_time_us(pictures, fps) }
}

impl Source for Screening {
    fn next(&mut self) -> Option<Offer> {
        let offer = self.projector.next()?;
        let needs = offer.frame.and_then(|frame| frame.needs[0]);
        self.frames.push(Frame { at_us: offer.at_us, needs, arrived_us: None });
        Some(offer)
    }

    fn on_delivered(&mut self, index: u64, at_us: u64) {
        if let Some(frame) = self.frames.get_mut(index as usize) {
            frame.arrived_us.get_or_insert(at_us);
        }
    }

    fn outcome(&self, end_us: u64) -> Outcome {
        let shown = self.shown(end_us);
        let intact: Vec<Option<u64>> = (0..shown.len() as u64).map(Some).collect();
        let pictures = PictureQuality::of(&self.film.judge(&shown), &self.film.judge(&intact));
        Outcome { pictures, ..Outcome::default() }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use squall_media::{ClipConfig, EncoderConfig};

    use super::*;
    use crate::flow::{ReliableFrames, Traffic};

    fn film(disposable: bool) -> Film {
        let encoder = EncoderConfig {
            width: 160,
            height: 90,
            bitrate_bps: 600_000,
            key_interval: 10,
            disposable,
            ..EncoderConfig::default()
        };
        Film {
            clip: ClipConfig { encoder, seed: 1 },
            pictures: 30,
            deadline_us: 100_000,
            priorities: [0, 1, 2],
            reliable: ReliableFrames::Reference,
        }
    }

    /// Two seconds of a film whose frames arrive this long after they are offered, or not.
    fn viewed(film: &Film, delay_us: impl Fn(u64) -> Option<u64>) -> (Screening, PictureQuality) {
        let classes = Traffic::Film(film.clone()).classes();
        let mut screening = Screening::new(film, classes, Pcg64Mcg::seed_from_u64(1));
        for index in 0..60 {
            let offer = screening.next().expect("a film goes on");
            if let Some(delay_us) = delay_us(index) {
                screening.on_delivered(index, offer.at_us + delay_us);
            }
        }
        let pictures = screening.outcome(10_000_000).pictures.expect("pictures were shown");
        (screening, pictures)
    }

    #[test]
    fn frames_are_offered_as_they_are_encoded() {
        let film = film(true);
        let encoded = encoded(&film).expect("it can be encoded");
        let mut screening =
            Screening::new(&film, Traffic::Film(film.clone()).classes(), Pcg64Mcg::seed_from_u64(1));
        let offers: Vec<Offer> = std::iter::from_fn(|| screening.next()).take(60).collect();
        let sizes: Vec<u64> = encoded.frames().iter().map(|frame| frame.data.len() as u64).collect();
        assert!(offers.iter().map(|offer| offer.size).eq(sizes.iter().chain(&sizes).copied()));
        assert_eq!(offers[..5].iter().map(|offer| offer.class).collect::<Vec<_>>(), [0, 2, 1, 2, 1]);
        let needs: Vec<_> = offers[30..36].iter().filter_map(|offer| Some(offer.frame?.needs[0])).collect();
        assert_eq!(needs, [None, Some(30), Some(30), Some(32), Some(32), Some(34)]);
        assert_eq!((offers[31].at_us, offers[31].reliable, offers[32].reliable), (1_033_333, false, true));
    }

    #[test]
    fn perfect_delivery_loses_nothing() {
        let (screening, pictures) = viewed(&film(false), |_| Some(20_000));
        assert_eq!((pictures.compared, pictures.psnr_loss, pictures.ssim_loss), (60, 0.0, 0.0));
        let all: Vec<_> = (0..60).map(Some).collect();
        let decoded = screening.film.judge(&all);
        assert_eq!(Some(pictures), PictureQuality::of(&decoded, &decoded));
    }

    #[test]
    fn a_lost_reference_stands_until_the_next_key_frame() {
        let (screening, pictures) = viewed(&film(false), |index| (index != 13).then_some(20_000));
        let expected: Vec<_> =
            (0..60).map(|slot| Some(if (13..20).contains(&slot) { 12 } else { slot })).collect();
        assert_eq!(screening.shown(10_000_000), expected);
        assert!(pictures.psnr_loss > 0.5 && pictures.ssim_loss > 0.0, "{pictures:?}");
        assert!(pictures.psnr.p5 < pictures.psnr.median - 3.0, "{pictures:?}");
    }

    #[test]
    fn a_lost_disposable_frame_costs_one_picture() {
        let (screening, _) = viewed(&film(true), |index| (index != 13).then_some(20_000));
        let expected: Vec<_> = (0..60).map(|slot| Some(if slot == 13 { 12 } else { slot })).collect();
        assert_eq!(screening.shown(10_000_000), expected);
    }

    #[test]
    fn what_is_late_is_decoded_and_not_shown() {
        // The 13th comes 110 ms after it was offered, 10 ms after its slot and 23 ms before the next.
        let (screening, _) = viewed(&film(false), |index| Some(if index == 13 { 110_000 } else { 20_000 }));
        let shown = screening.shown(10_000_000);
        assert_eq!(shown[12..15], [Some(12), Some(12), Some(14)]);
        assert_eq!(screening.shown(500_000).len(), 12, "due before half a second");
    }

    #[test]
    fn before_the_first_picture_it_is_dark() {
        let (screening, pictures) = viewed(&film(false), |index| (index > 0).then_some(20_000));
        assert_eq!(screening.shown(10_000_000)[..11], [vec![None; 10], vec![Some(10)]].concat());
        assert!(pictures.psnr.p5 < 15.0, "{pictures:?}");
    }
}
