//! A film in segments: the player that requests them and the server that sends them, i.e. both ends
//! of the flow.
//!
//! The client requests the next segment as soon as its buffer has room and the previous one has
//! arrived: one request at a time, as DASH players do over HTTP. A request is a small reliable
//! block towards the sender of the flow; when it arrives, the segment is offered.

mod player;

use rand_pcg::Pcg64Mcg;
use squall_units::{Rate, Ratio, Size, Span};

use self::player::Player;
use super::fields::{Checked, MAX_BLOCK, bytes_within, largest, millis, priority, require};
use super::source::{Kind, Outcome, Source, jittered};
use crate::offer::{Class, Offer};
use crate::result::Playback;

/// Shortest segment in microseconds.
const MIN_SEGMENT_US: u64 = 1_000;

/// Segments of a film and the player that requests them one after the other (NineTails §V-C, with
/// DASH over MPQUIC: 6,592 kbps, segments of 200 ms, a buffer of two).
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dash {
    /// Bitrate of the film.
    pub bitrate: Rate,
    /// Length of a segment.
    #[serde(default = "millis::<200>")]
    pub segment: Span,
    /// Capacity of the buffer as playing time, without the segment that is playing. Default: two
    /// segments.
    pub buffer: Option<Span>,
    /// Size of a request.
    #[serde(default = "request")]
    pub request: Size,
    /// Sizes of segments vary uniformly by up to this share in both directions.
    #[serde(default)]
    pub jitter: Ratio,
    /// Deadline after a segment is offered, if any. A segment that misses it is requested again.
    pub deadline: Option<Span>,
    /// Priority of segments and requests, 0 first.
    #[serde(default)]
    pub priority: u8,
}

fn request() -> Size {
    Size::from_bytes(300)
}

impl Dash {
    fn buffer_us(&self) -> u64 {
        self.buffer.map_or(2 * self.segment.micros(), Span::micros)
    }

    /// Mean size of a segment in bytes, at least 1.
    pub fn segment_size(&self) -> u64 {
        let bytes = u128::from(self.bitrate.bps()) * u128::from(self.segment.micros()) / 8_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX).max(1)
    }

    fn largest_segment(&self) -> u64 {
        (self.segment_size() as f64 * (1.0 + self.jitter.as_f64())) as u64
    }
}

impl Kind for Dash {
    fn kind(&self) -> &'static str {
        "dash"
    }

    fn validate(&self) -> Checked {
        require(self.bitrate.bps() > 0, "bitrate", "0 is no film")?;
        let segment_us = self.segment.micros();
        let words = format_args!("it must be at least {MIN_SEGMENT_US}us");
        require(segment_us >= MIN_SEGMENT_US, "segment", words)?;
        let whole = self.buffer_us() > 0 && self.buffer_us().is_multiple_of(segment_us);
        let words = format_args!("it must be a whole number of segments of {segment_us}us, at least one");
        require(whole, "buffer", words)?;
        bytes_within("request", self.request.bytes(), MAX_BLOCK)?;
        priority("priority", self.priority)?;
        largest("bitrate", "segment", self.largest_segment())
    }

    fn classes(&self) -> Vec<Class> {
        vec![Class::new("segment", true, self.priority)]
    }

    fn deadline(&self) -> Option<Span> {
        self.deadline
    }

    fn source(&self, rng: Pcg64Mcg, length_us: u64) -> Box<dyn Source> {
        Box::new(Streaming::new(self, length_us, rng))
    }
}

/// State of the flow between request and segment.
#[derive(Debug)]
struct Streaming {
    dash: Dash,
    classes: Vec<Class>,
    rng: Pcg64Mcg,
    /// End of the viewing, in microseconds from the start of the flow.
    length_us: u64,
    player: Player,
    stage: Stage,
    /// Number of blocks offered, requests included.
    offers: u64,
    /// Time at which the current segment was first requested.
    asked_us: Option<u64>,
    /// Times from request to arrival of all segments, in microseconds.
    fetches_us: Vec<u64>,
}

/// Current step of the exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Idle: the client requests a segment when there is room, but not before this time.
    Ask(u64),
    /// The request with this block index is in flight.
    Asked(u64),
    /// The server has received a request at this time.
    Serve(u64),
    /// The segment with this block index is in flight.
    Served(u64),
}

impl Streaming {
    fn new(dash: &Dash, length_us: u64, rng: Pcg64Mcg) -> Self {
        let segment_us = dash.segment.micros();
        Self {
            dash: dash.clone(),
            classes: dash.classes(),
            rng,
            length_us,
            player: Player::new(segment_us, dash.buffer_us() / segment_us),
            stage: Stage::Ask(0),
            offers: 0,
            asked_us: None,
            fetches_us: Vec::new(),
        }
    }

    fn offer(&mut self, offer: Offer, stage: fn(u64) -> Stage) -> Option<Offer> {
        self.stage = stage(self.offers);
        self.offers += 1;
        Some(offer)
    }
}

impl Source for Streaming {
    fn next(&mut self) -> Option<Offer> {
        match self.stage {
            Stage::Ask(from_us) => {
                let at_us = self.player.room_at(from_us);
                self.asked_us.get_or_insert(at_us);
                let request = Offer::new(at_us, self.dash.request.bytes(), Offer::REQUEST, &self.classes[0]);
                self.offer(request, Stage::Asked)
            }
            Stage::Serve(at_us) => {
                let size = jittered(self.dash.segment_size(), self.dash.jitter.as_f64(), &mut self.rng);
                let segment = Offer::new(at_us, size, 0, &self.classes[0]);
                self.offer(Offer { deadline_us: self.dash.deadline_us(), ..segment }, Stage::Served)
            }
            Stage::Asked(_) | Stage::Served(_) => None,
        }
    }

    fn on_delivered(&mut self, index: u64, at_us: u64) {
        if at_us >= self.length_us {
            return;
        }
        if self.stage == Stage::Asked(index) {
            self.stage = Stage::Serve(at_us);
        } else if self.stage == Stage::Served(index) {
            self.fetches_us.extend(self.asked_us.take().map(|asked| at_us - asked));
            self.player.on_segment(at_us);
            self.stage = Stage::Ask(at_us);
        }
    }

    /// Requests a lost segment again, or repeats a lost request, one segment later, when the path
    /// may have recovered.
    fn on_missed(&mut self, index: u64, at_us: u64) {
        if [Stage::Asked(index), Stage::Served(index)].contains(&self.stage) {
            self.stage = Stage::Ask(at_us + self.dash.segment.micros());
        }
    }

    fn on_ended(&mut self, index: u64, at_us: u64, delivered: bool) {
        if !delivered {
            self.on_missed(index, at_us);
        }
    }

    fn outcome(&self, end_us: u64) -> Outcome {
        let end_us = end_us.min(self.length_us);
        let film = self.player.clone().finish(end_us);
        let playback = Playback::of_segments(
            self.dash.segment.micros(),
            &film.begun_us,
            &film.waits_us,
            &self.fetches_us,
            end_us,
        );
        Outcome { playback: Some(playback), ..Outcome::default() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng;

    use super::*;

    const LENGTH: u64 = 60_000_000;

    fn dash() -> Dash {
        toml::from_str("bitrate = \"8mbps\"\npriority = 1").expect("its fields are right")
    }

    fn streaming(dash: &Dash) -> Streaming {
        Streaming::new(dash, LENGTH, Pcg64Mcg::seed_from_u64(1))
    }

    /// Fetches a segment with `up_us` to the server and `down_us` back. Returns the time of the
    /// request.
    fn fetch(streaming: &mut Streaming, up_us: u64, down_us: u64) -> u64 {
        let request = streaming.next().expect("there is room some time");
        assert!(request.is_request() && request.size == 300 && request.reliable);
        assert_eq!(streaming.next(), None, "the server has no request");
        streaming.on_delivered(streaming.offers - 1, request.at_us + up_us);
        let segment = streaming.next().expect("the server answers");
        assert_eq!((segment.at_us, segment.size, segment.class), (request.at_us + up_us, 200_000, 0));
        assert_eq!(streaming.next(), None, "one at a time");
        streaming.on_delivered(streaming.offers - 1, segment.at_us + down_us);
        request.at_us
    }

    #[test]
    fn a_segment_is_asked_for_when_there_is_room() {
        let mut streaming = streaming(&dash());
        // Requested at 0, arrived at 50 ms; requested at 50, arrived at 100: the film begins. The
        // third is requested at 100 and arrives at 150. The fourth has to wait until the second
        // segment begins to play at 300, the fifth until 500.
        let asked: Vec<u64> = (0..5).map(|_| fetch(&mut streaming, 10_000, 40_000) / 1_000).collect();
        assert_eq!(asked, [0, 50, 100, 300, 500]);
        let playback = streaming.outcome(650_000).playback.expect("it is a film");
        assert_eq!((playback.pictures, playback.stalls), (3, 0));
        assert_eq!(playback.picture_latency.map(|all| (all.count, all.max_us)), Some((5, 50_000)));
    }

    #[test]
    fn a_slow_segment_stops_the_film() {
        let mut streaming = streaming(&dash());
        for _ in 0..3 {
            fetch(&mut streaming, 10_000, 40_000);
        }
        // Requested at 300 ms, when the second segment began; the third ends at 700.
        assert_eq!(fetch(&mut streaming, 10_000, 640_000), 300_000);
        let playback = streaming.outcome(1_000_000).playback.expect("it is a film");
        assert_eq!((playback.stalls, playback.rebuffering_us, playback.pictures), (1, 250_000, 4));
    }

    #[test]
    fn what_is_lost_is_asked_for_again() {
        let mut streaming = streaming(&dash());
        streaming.next();
        streaming.on_ended(0, 5_000, false);
        let again = streaming.next().expect("it asks again");
        assert_eq!((again.at_us, again.is_request()), (205_000, true));
        streaming.on_delivered(1, 210_000);
        streaming.next();
        streaming.on_ended(2, 400_000, false);
        streaming.on_delivered(2, 410_000);
        let again = streaming.next().expect("a lost segment is requested again");
        assert_eq!((again.at_us, again.is_request()), (600_000, true));
        streaming.on_ended(1, 610_000, true);
        assert_eq!(streaming.next(), None, "that request was answered long ago");
    }

    #[test]
    fn what_comes_after_the_end_is_not_seen() {
        let mut streaming = streaming(&dash());
        streaming.next();
        streaming.on_delivered(0, LENGTH - 10);
        streaming.next();
        streaming.on_delivered(1, LENGTH);
        assert_eq!((streaming.next(), streaming.fetches_us.len()), (None, 0));
    }

    proptest! {
        #[test]
        fn it_is_never_stuck(
            seed: u64,
            jitter in 0.0..1.0f64,
            fates in proptest::collection::vec((1..400_000u64, 0..4u8), 1..200),
        ) {
            let dash = Dash { jitter: Ratio::from_f64(jitter).expect("it is a share"), ..dash() };
            let mut streaming = Streaming::new(&dash, u64::MAX, Pcg64Mcg::seed_from_u64(seed));
            let mut last = 0;
            for (index, (time, fate)) in (0..).zip(fates) {
                let offer = streaming.next();
                prop_assert!(offer.is_some(), "nothing is under way");
                let offer = offer.expect("just seen");
                prop_assert!(offer.at_us >= last);
                prop_assert!((1..=dash.largest_segment()).contains(&offer.size));
                last = offer.at_us + time;
                if fate > 0 {
                    streaming.on_delivered(index, last);
                }
                streaming.on_ended(index, last, fate > 0);
            }
        }
    }
}
