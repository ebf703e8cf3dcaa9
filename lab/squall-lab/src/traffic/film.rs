//! A film that is really encoded, and its viewer: either generated and encoded for the run, or
//! frames of a given encode.
//!
//! The player shows each frame in its slot, a deadline after it was offered, if it can be decoded
//! by then, i.e. if the frame and its dependencies have arrived. Otherwise the previous picture
//! stays. Nothing is concealed, so after a lost reference the picture freezes until the next key
//! frame. A late frame is still decoded for those that depend on it, but not shown.
//! [`Playback`](crate::result::Playback) uses the same rule.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use rand_pcg::Pcg64Mcg;
use squall_media::encoder::EncodeError;
use squall_media::film::FilmError;
use squall_media::frame::frame_time_us;
use squall_media::quality::Likeness;
use squall_media::{ClipConfig, EncodedFrame, EncoderConfig, FrameKind};
use squall_units::{Rate, Span};

use super::cache::Cache;
use super::cycle::{Cycle, CycleFrame, Repeater};
use super::fields::{Checked, Invalid, frames_within, millis, number, priority, require};
use super::frame_type::{FrameType, ReliableFrames};
use super::source::{Allowed, Follow, Kind, Outcome, PictureError, Source};
use crate::offer::{Class, Offer};
use crate::parallel;
use crate::result::PictureQuality;

/// Maximum length of a round in microseconds, as it is kept in memory.
const MAX_LENGTH_US: u64 = 60_000_000;

/// Bitrates of an encoder that follows the session, as shares of the film's, the highest first.
const RUNGS: [f64; 5] = [1.0, 0.7, 0.5, 0.35, 0.2];

/// Key frames per second of an encoder that follows the session, because the bitrate can change
/// only at a key frame.
const KEYS_PER_SECOND: f64 = 3.0;

/// Share of the session's capacity that the encoder uses, because frame sizes vary around their
/// mean.
const USED: f64 = 0.85;

/// Class of key frames.
const KEY: u16 = 0;

/// Encoded films, by scene with encoding and by length in pictures.
static FILMS: Cache<(ClipConfig, u64), squall_media::Film> = Cache::new();

/// A generated moving scene, encoded with H.264 when the flow is first needed and repeated to the
/// end of the flow.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Film {
    /// Width in pixels.
    #[serde(default = "width")]
    pub width: u32,
    /// Height in pixels.
    #[serde(default = "height")]
    pub height: u32,
    /// Frames per second.
    #[serde(default = "number::<30, _>")]
    pub fps: u32,
    /// Target bitrate of the encoder.
    pub bitrate: Rate,
    /// Interval between key frames.
    #[serde(default = "millis::<2_000>")]
    pub keyframe_interval: Span,
    /// Every second frame is disposable: no other frame depends on it.
    #[serde(default)]
    pub disposable: bool,
    /// Length of a round.
    #[serde(default = "millis::<10_000>")]
    pub length: Span,
    /// Seed of the scene.
    #[serde(default = "number::<1, _>")]
    pub scene: u64,
    /// Time from offering a frame to showing it, i.e. its deadline.
    #[serde(default = "millis::<150>")]
    pub deadline: Span,
    /// Priority of key frames, 0 first.
    #[serde(default)]
    pub priority_key: u8,
    /// Priority of frames that others depend on, 0 first.
    #[serde(default = "number::<1, _>")]
    pub priority_delta: u8,
    /// Priority of disposable frames, 0 first.
    #[serde(default = "number::<2, _>")]
    pub priority_disposable: u8,
    /// Reliability by frame type.
    #[serde(default = "ReliableFrames::reference")]
    pub reliable: ReliableFrames,
    /// Interval at which pictures are compared with their sources, at least 1 (every picture). Not
    /// available in scenario files.
    #[serde(skip, default = "number::<1, _>")]
    pub compared_every: u32,
    /// The encoder follows the capacity of the session, up to the bitrate of the film. Not
    /// available in scenario files.
    #[serde(skip)]
    pub follow: bool,
}

fn width() -> u32 {
    1280
}

fn height() -> u32 {
    720
}

impl Film {
    /// Scene and encoding at the highest bitrate.
    fn clip(&self) -> ClipConfig {
        let encoder = EncoderConfig {
            width: self.width,
            height: self.height,
            fps: self.fps.into(),
            bitrate_bps: u32::try_from(self.bitrate.bps()).unwrap_or(u32::MAX),
            key_interval: frames_within(self.keyframe_interval, self.fps) as u32,
            disposable: self.disposable,
            quantiser: None,
        };
        ClipConfig { encoder, seed: self.scene }
    }

    /// All clips to encode, by falling bitrate.
    fn clips(&self) -> Vec<ClipConfig> {
        let clip = self.clip();
        if !self.follow {
            return vec![clip];
        }
        let encoder = &clip.encoder;
        // Even, which disposable frames require.
        let between_keys = 2 * (encoder.fps / KEYS_PER_SECOND / 2.0).round().max(1.0) as u32;
        let rung = |share: f64| EncoderConfig {
            bitrate_bps: (f64::from(encoder.bitrate_bps) * share) as u32,
            key_interval: between_keys.min(encoder.key_interval),
            ..encoder.clone()
        };
        RUNGS.iter().map(|share| ClipConfig { encoder: rung(*share), ..clip.clone() }).collect()
    }

    /// Number of pictures in a round.
    pub fn pictures(&self) -> u64 {
        frames_within(self.length, self.fps)
    }

    /// Returns the film as each of its clips, encoded on all processors unless cached. `progress`
    /// receives the number of encoded frames and of all frames.
    fn encoded(
        &self,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<Vec<Arc<squall_media::Film>>, FilmError> {
        let (clips, pictures, done) = (self.clips(), self.pictures(), AtomicU64::new(0));
        let all = pictures * clips.len() as u64;
        let count = |_, _| progress(done.fetch_add(1, Ordering::Relaxed) + 1, all);
        parallel::each(&clips, |clip| {
            let seconds = pictures as f64 / clip.encoder.fps;
            let make = || squall_media::Film::make_with(clip.clone(), seconds, count);
            FILMS.get(&(clip.clone(), pictures), make)
        })
    }

    /// Returns one round of the film.
    fn cycle(&self, frames: &[EncodedFrame]) -> Cycle {
        let mut reference = None;
        let frame = |(number, frame): (i64, &EncodedFrame)| {
            let need = reference.filter(|_| frame.kind != FrameKind::Key);
            if frame.kind != FrameKind::Disposable {
                reference = Some(number);
            }
            CycleFrame {
                at_us: frame.pts_us,
                deadline_us: self.deadline_us(),
                size: frame.data.len() as u64,
                class: match frame.kind {
                    FrameKind::Key => KEY,
                    FrameKind::Delta => 1,
                    FrameKind::Disposable => 2,
                },
                picture: frame.index,
                base: true,
                needs: [need, None],
            }
        };
        let frames: Vec<CycleFrame> = (0..).zip(frames).map(frame).collect();
        let pictures = frames.len() as u64;
        Cycle { frames, pictures, period_us: frame_time_us(pictures, self.fps.into()) }
    }

    fn viewer(&self, rng: &Pcg64Mcg) -> Viewer {
        let films =
            self.encoded(&|_, _| {}).expect("its settings are checked, and it was encoded before the run");
        let repeater = |film: &Arc<squall_media::Film>| {
            Repeater::new(self.cycle(film.frames()), 0.0, self.classes(), rng.clone())
        };
        let repeaters = films.iter().map(repeater).collect();
        Viewer { films, compared_every: self.compared_every as usize, ..Viewer::new(repeaters) }
    }
}

impl Kind for Film {
    fn kind(&self) -> &'static str {
        "film"
    }

    fn validate(&self) -> Checked {
        let length = (1..=MAX_LENGTH_US).contains(&self.length.micros());
        require(length, "length", "it must be above 0, and at most one minute")?;
        let encoder = self.clip().encoder.check();
        encoder.map_err(|error| Invalid { field: field(&error), words: error.to_string() })?;
        priority("priority_key", self.priority_key)?;
        priority("priority_delta", self.priority_delta)?;
        priority("priority_disposable", self.priority_disposable)
    }

    fn classes(&self) -> Vec<Class> {
        let class = |name, like, priority| Class::new(name, self.reliable.covers(like), priority);
        vec![
            class("key", FrameType::I, self.priority_key),
            class("delta", FrameType::P, self.priority_delta),
            class("disposable", FrameType::B, self.priority_disposable),
        ]
    }

    fn deadline(&self) -> Option<Span> {
        Some(self.deadline)
    }

    fn picture_us(&self) -> Option<u64> {
        Some((1e6 / f64::from(self.fps)).round() as u64)
    }

    fn follows(&self) -> Option<Follow> {
        self.follow.then_some(Follow::Safe { within_us: self.deadline.micros() })
    }

    fn prepare(&self, progress: &(dyn Fn(u64, u64) + Sync)) -> Result<Option<f64>, PictureError> {
        Ok(self.encoded(progress)?.first().map(|film| film.bitrate_bps()))
    }

    fn source(&self, rng: Pcg64Mcg, _length_us: u64) -> Box<dyn Source> {
        Box::new(self.viewer(&rng))
    }
}

/// Returns the field of the scenario that the encoder rejects.
fn field(error: &EncodeError) -> &'static str {
    match error {
        EncodeError::Setting { field: "fps", .. } => "fps",
        EncodeError::Setting { field: "bitrate_bps", .. } => "bitrate",
        EncodeError::Setting { field: "key_interval", .. } => "keyframe_interval",
        EncodeError::Setting { field: "height", .. } => "height",
        EncodeError::Size(size) if size.width.is_multiple_of(2) => "height",
        _ => "width",
    }
}

/// Frames of an encode, sent once from the first to the last in decoding order; not available in
/// scenario files. The contents stay with the caller, who decodes the frames that arrived in time:
/// [`FlowResult::arrivals_us`](crate::result::FlowResult::arrivals_us).
#[derive(Debug, Clone, PartialEq)]
pub struct Encoded {
    /// Frames in decoding order.
    pub frames: Arc<[CycleFrame]>,
    /// Classes; [`CycleFrame::class`] is an index into them.
    pub classes: Vec<Class>,
    /// Time from capturing a picture to showing it.
    pub latency: Span,
    /// Interval between pictures in microseconds.
    pub picture_us: u64,
}

impl Kind for Encoded {
    fn kind(&self) -> &'static str {
        "encoded"
    }

    fn validate(&self) -> Checked {
        Ok(())
    }

    fn classes(&self) -> Vec<Class> {
        self.classes.clone()
    }

    fn deadline(&self) -> Option<Span> {
        Some(self.latency)
    }

    fn picture_us(&self) -> Option<u64> {
        Some(self.picture_us)
    }

    fn source(&self, rng: Pcg64Mcg, _length_us: u64) -> Box<dyn Source> {
        let (frames, pictures) = (self.frames.to_vec(), self.frames.len() as u64);
        let cycle = Cycle { frames, pictures, period_us: u64::MAX };
        let repeater = Repeater::new(cycle, 0.0, self.classes(), rng);
        Box::new(Viewer::new(vec![repeater]))
    }
}

/// Offers the frames of a film and records their arrivals.
#[derive(Debug)]
struct Viewer {
    /// The film at falling bitrates, to evaluate the pictures; empty if the caller evaluates them.
    films: Vec<Arc<squall_media::Film>>,
    /// Frames of each of the films.
    repeaters: Vec<Repeater>,
    /// Index of the current bitrate.
    rung: usize,
    allowed_bps: u64,
    compared_every: usize,
    /// Frames in the order of the offers.
    frames: Vec<Sent>,
}

#[derive(Debug, Clone, Copy)]
struct Sent {
    rung: usize,
    due_us: u64,
    /// Earlier frame that this one depends on.
    needs: Option<u64>,
    arrived_us: Option<u64>,
}

impl Viewer {
    fn new(repeaters: Vec<Repeater>) -> Self {
        Self { films: Vec::new(), repeaters, rung: 0, allowed_bps: 0, compared_every: 1, frames: Vec::new() }
    }

    /// Computes the quality of these pictures, each in its slot.
    fn judge(&self, shown: &[Option<u64>]) -> Vec<Likeness> {
        let rung_of = |shown: Option<u64>| shown.map_or(0, |shown| self.frames[shown as usize].rung);
        let slots: Vec<_> = shown.iter().copied().zip(0..).step_by(self.compared_every).collect();
        let mut seen: Vec<Vec<Likeness>> = Vec::new();
        for (rung, film) in self.films.iter().enumerate() {
            let own = slots.iter().copied().filter(|(shown, _)| rung_of(*shown) == rung);
            let mut own = film.judge(own).expect("the decoder takes what the encoder makes");
            own.reverse();
            seen.push(own);
        }
        slots.iter().filter_map(|(shown, _)| seen[rung_of(*shown)].pop()).collect()
    }

    /// Returns the picture shown in each slot that ended before `end_us`, if any.
    fn shown(&self, end_us: u64) -> Vec<Option<u64>> {
        let mut ready: Vec<Option<u64>> = Vec::with_capacity(self.frames.len());
        let mut shown = None;
        let mut slots = Vec::new();
        for (index, frame) in (0..).zip(&self.frames).take_while(|(_, frame)| frame.due_us < end_us) {
            let needed = frame.needs.map_or(Some(0), |need| ready[need as usize]);
            let now = frame.arrived_us.zip(needed).map(|(arrived, needed)| arrived.max(needed));
            if now.is_some_and(|now| now <= frame.due_us) {
                shown = Some(index);
            }
            ready.push(now);
            slots.push(shown);
        }
        slots
    }
}

impl Source for Viewer {
    fn next(&mut self) -> Option<Offer> {
        let offers: Option<Vec<Offer>> = self.repeaters.iter_mut().map(Source::next).collect();
        let mut offers = offers?;
        // Frames with dependencies stay on the same rung.
        if offers[self.rung].class == KEY {
            let room = USED * self.allowed_bps as f64;
            let fits = self.films.iter().position(|film| film.bitrate_bps() <= room);
            self.rung = fits.unwrap_or(self.repeaters.len() - 1);
        }
        let offer = offers.swap_remove(self.rung);
        let needs = offer.frame.and_then(|frame| frame.needs[0]);
        let due_us = offer.at_us.saturating_add(offer.deadline_us.unwrap_or(0));
        self.frames.push(Sent { rung: self.rung, due_us, needs, arrived_us: None });
        Some(offer)
    }

    fn data(&self, index: u64) -> Option<Bytes> {
        let frames = self.films.get(self.frames.get(index as usize)?.rung)?.frames();
        Some(frames[index as usize % frames.len()].data.clone())
    }

    fn on_allowed(&mut self, _at_us: u64, allowed: Allowed) {
        self.allowed_bps = allowed.bps;
    }

    fn on_delivered(&mut self, index: u64, at_us: u64) {
        if let Some(frame) = self.frames.get_mut(index as usize) {
            frame.arrived_us.get_or_insert(at_us);
        }
    }

    fn outcome(&self, end_us: u64) -> Outcome {
        if self.films.is_empty() {
            let arrivals_us = self.frames.iter().map(|frame| frame.arrived_us).collect();
            return Outcome { arrivals_us, ..Outcome::default() };
        }
        let shown = self.shown(end_us);
        let intact: Vec<Option<u64>> = (0..shown.len() as u64).map(Some).collect();
        let pictures = PictureQuality::of(&self.judge(&shown), &self.judge(&intact));
        Outcome { pictures, ..Outcome::default() }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;
    use crate::offer::Frame;

    fn film(disposable: bool) -> Film {
        let fields = "width = 160\nheight = 90\nbitrate = \"600kbps\"\nkeyframe_interval = \"333ms\"\n\
                      length = \"1s\"\ndeadline = \"100ms\"";
        Film { disposable, ..toml::from_str(fields).expect("its fields are right") }
    }

    fn viewer(film: &Film) -> Viewer {
        film.viewer(&Pcg64Mcg::seed_from_u64(1))
    }

    /// Two seconds of a film whose frames arrive with this delay after their offer, or are lost.
    fn viewed(film: &Film, delay_us: impl Fn(u64) -> Option<u64>) -> (Viewer, PictureQuality) {
        let mut viewer = viewer(film);
        for index in 0..60 {
            let offer = viewer.next().expect("a film goes on");
            if let Some(delay_us) = delay_us(index) {
                viewer.on_delivered(index, offer.at_us + delay_us);
            }
        }
        let pictures = viewer.outcome(10_000_000).pictures.expect("pictures were shown");
        (viewer, pictures)
    }

    #[test]
    fn frames_are_offered_as_they_are_encoded() {
        let film = film(true);
        let mut viewer = viewer(&film);
        let encoded = viewer.films[0].clone();
        let offers: Vec<Offer> = std::iter::from_fn(|| viewer.next()).take(60).collect();
        let sizes: Vec<u64> = encoded.frames().iter().map(|frame| frame.data.len() as u64).collect();
        assert!(offers.iter().map(|offer| offer.size).eq(sizes.iter().chain(&sizes).copied()));
        assert_eq!(offers[..5].iter().map(|offer| offer.class).collect::<Vec<_>>(), [0, 2, 1, 2, 1]);
        let needs: Vec<_> = offers[30..36].iter().filter_map(|offer| Some(offer.frame?.needs[0])).collect();
        assert_eq!(needs, [None, Some(30), Some(30), Some(32), Some(32), Some(34)]);
        assert_eq!((offers[31].at_us, offers[31].reliable, offers[32].reliable), (1_033_333, false, true));
    }

    #[test]
    fn key_frames_are_as_far_apart_as_the_scenario_says() {
        let film: Film = toml::from_str("bitrate = \"6mbps\"\nfps = 25").expect("its fields are right");
        let encoder = film.clip().encoder;
        assert_eq!((encoder.key_interval, encoder.width, encoder.bitrate_bps), (50, 1280, 6_000_000));
        assert_eq!(film.pictures(), 250);
    }

    #[test]
    fn perfect_delivery_loses_nothing() {
        let (viewer, pictures) = viewed(&film(false), |_| Some(20_000));
        assert_eq!((pictures.compared, pictures.psnr_loss, pictures.ssim_loss), (60, 0.0, 0.0));
        let all: Vec<_> = (0..60).map(Some).collect();
        let decoded = viewer.judge(&all);
        assert_eq!(Some(pictures), PictureQuality::of(&decoded, &decoded));
    }

    #[test]
    fn a_lost_reference_stands_until_the_next_key_frame() {
        let (viewer, pictures) = viewed(&film(false), |index| (index != 13).then_some(20_000));
        let expected: Vec<_> =
            (0..60).map(|slot| Some(if (13..20).contains(&slot) { 12 } else { slot })).collect();
        assert_eq!(viewer.shown(10_000_000), expected);
        assert!(pictures.psnr_loss > 0.5 && pictures.ssim_loss > 0.0, "{pictures:?}");
        assert!(pictures.psnr.p5 < pictures.psnr.median - 3.0, "{pictures:?}");
    }

    #[test]
    fn a_lost_disposable_frame_costs_one_picture() {
        let (viewer, _) = viewed(&film(true), |index| (index != 13).then_some(20_000));
        let expected: Vec<_> = (0..60).map(|slot| Some(if slot == 13 { 12 } else { slot })).collect();
        assert_eq!(viewer.shown(10_000_000), expected);
    }

    #[test]
    fn what_is_late_is_decoded_and_not_shown() {
        // The 13th arrives 110 ms after its offer, 10 ms after its slot and 23 ms before the next
        // one.
        let (viewer, _) = viewed(&film(false), |index| Some(if index == 13 { 110_000 } else { 20_000 }));
        let shown = viewer.shown(10_000_000);
        assert_eq!(shown[12..15], [Some(12), Some(12), Some(14)]);
        assert_eq!(viewer.shown(500_000).len(), 12, "due before half a second");
    }

    #[test]
    fn before_the_first_picture_it_is_dark() {
        let (viewer, pictures) = viewed(&film(false), |index| (index > 0).then_some(20_000));
        assert_eq!(viewer.shown(10_000_000)[..11], [vec![None; 10], vec![Some(10)]].concat());
        assert!(pictures.psnr.p5 < 15.0, "{pictures:?}");
    }

    #[test]
    fn an_encode_is_offered_once_and_its_arrivals_are_recorded() {
        let frame = |at_us, deadline_us, class, picture, needs| CycleFrame {
            at_us,
            deadline_us: Some(deadline_us),
            size: 9,
            class,
            picture,
            base: true,
            needs,
        };
        let film = Encoded {
            frames: [
                frame(40, 60, 0, 0, [None; 2]),
                frame(80, 100, 0, 2, [Some(0), None]),
                frame(120, 20, 1, 1, [Some(1), Some(0)]),
            ]
            .into(),
            classes: vec![Class::new("needed", true, 0), Class::new("disposable", false, 1)],
            latency: Span::from_micros(100),
            picture_us: 40,
        };
        let mut source = film.source(Pcg64Mcg::seed_from_u64(1), u64::MAX);
        let offers: Vec<Offer> = std::iter::from_fn(|| source.next()).collect();
        let fields = |offer: &Offer| (offer.at_us, offer.deadline_us, offer.reliable, offer.frame);
        let needs = [Some(0), None];
        let second = Frame { picture: 2, base: true, needs };
        assert_eq!(fields(&offers[1]), (80, Some(100), true, Some(second)));
        assert_eq!((offers[2].at_us, offers[2].deadline_us, offers[2].reliable), (120, Some(20), false));
        assert_eq!(offers.len(), 3);

        source.on_delivered(1, 150);
        source.on_delivered(1, 160);
        source.on_delivered(7, 160);
        assert_eq!(source.outcome(500).arrivals_us, [None, Some(150), None]);
    }

    #[test]
    fn the_bitrate_steps_at_key_frames_and_nowhere_else() {
        let film = Film { follow: true, ..film(false) };
        let mut viewer = viewer(&film);
        let rates: Vec<f64> = viewer.films.iter().map(|film| film.bitrate_bps()).collect();
        assert!(rates.is_sorted_by(|high, low| high > low), "{rates:?}");
        let mut rung = |bps: f64| {
            viewer.on_allowed(0, Allowed { bps: bps as u64, frame: u64::MAX });
            let offer = viewer.next().expect("a film goes on");
            let index = viewer.frames.len() - 1;
            let rung = viewer.frames[index].rung;
            let frame = &viewer.films[rung].frames()[index % 30];
            assert_eq!(viewer.data(index as u64), Some(frame.data.clone()));
            assert_eq!(offer.size, frame.data.len() as u64);
            (offer.class, rung)
        };
        assert_eq!(rung(0.0), (0, 4), "nothing is known of the network yet");
        assert_eq!(rung(1e9), (1, 4), "it needs the frame before");
        let later: Vec<_> = (2..10).map(|_| rung(1e9)).collect();
        assert!(later.iter().all(|frame| *frame == (1, 4)), "{later:?}");
        assert_eq!(rung(1e9), (0, 0));
        for _ in 11..20 {
            rung(0.0);
        }
        assert_eq!(rung(rates[2] / USED + 1.0), (0, 2));
        for index in 0..21 {
            viewer.on_delivered(index, viewer.frames[index as usize].due_us - 80_000);
        }
        let pictures = viewer.outcome(10_000_000).pictures.expect("pictures were shown");
        assert_eq!((pictures.compared, pictures.psnr_loss), (21, 0.0));
    }
}
