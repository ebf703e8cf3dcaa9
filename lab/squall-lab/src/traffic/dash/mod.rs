//! A player that asks for segments, and the server that sends them: both ends of the flow.
//!
//! The client asks for the next segment as soon as its buffer has room and the one before it is there: one request at
//! a time, as DASH players do over HTTP. A request is a small reliable block towards the sender of the flow; when it is
//! there, the segment is offered.

mod player;

use rand_pcg::Pcg64Mcg;

use self::player::Player;
use super::Offer;
use super::source::{Outcome, Source, jittered};
use crate::flow::{Class, Dash};
use crate::result::Playback;

/// The flow from request to request.
#[derive(Debug)]
pub(super) struct Streaming {
    dash: Dash,
    classes: Vec<Class>,
    rng: Pcg64Mcg,
    /// When the viewer leaves, in microseconds from the start of the flow.
    length_us: u64,
    player: Player,
    stage: Stage,
    /// Blocks offered, requests included.
    offers: u64,
    /// When the segment under way was first asked for.
    asked_us: Option<u64>,
    /// From each request to its segment, in microseconds.
    fetches_us: Vec<u64>,
}

/// What is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing: the client asks when there is room, but not before this time.
    Ask(u64),
    /// A request, which block it is.
    Asked(u64),
    /// Nothing: the server has got a request at this time.
    Serve(u64),
    /// A segment, which block it is.
    Served(u64),
}

impl Streaming {
    pub(super) fn new(dash: &Dash, classes: Vec<Class>, length_us: u64, rng: Pcg64Mcg) -> Self {
        Self {
            dash: dash.clone(),
            classes,
            rng,
            length_us,
            player: Player::new(dash.segment_us, dash.buffer),
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
                let request = Offer::new(at_us, self.dash.request, Offer::REQUEST, &self.classes[0]);
                self.offer(request, Stage::Asked)
            }
            Stage::Serve(at_us) => {
                let size = jittered(self.dash.segment_size(), self.dash.size_jitter, &mut self.rng);
                let segment = Offer::new(at_us, size, 0, &self.classes[0]);
                self.offer(Offer { deadline_us: self.dash.deadline_us, ..segment }, Stage::Served)
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

    /// What does not arrive is asked for again. Whoever could not be sent to now may be a segment later.
    fn on_missed(&mut self, index: u64, at_us: u64) {
        if [Stage::Asked(index), Stage::Served(index)].contains(&self.stage) {
            self.stage = Stage::Ask(at_us + self.dash.segment_us);
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
            self.dash.segment_us,
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
    use crate::flow::Traffic;

    const LENGTH: u64 = 60_000_000;

    fn dash() -> Dash {
        Dash {
            bitrate_bps: 8_000_000,
            segment_us: 200_000,
            buffer: 2,
            request: 300,
            size_jitter: 0.0,
            deadline_us: None,
            priority: 1,
        }
    }

    fn streaming(dash: &Dash) -> Streaming {
        let classes = Traffic::Dash(dash.clone()).classes();
        Streaming::new(dash, classes, LENGTH, Pcg64Mcg::seed_from_u64(1))
    }

    /// Fetches a segment: `up_us` to the server, `down_us` back. Returns when it was asked for.
    fn fetch(streaming: &mut Streaming, up_us: u64, down_us: u64) -> u64 {
        let request = streaming.next().expect("there is room some time");
        assert!(request.is_request() && request.size == 300 && request.reliable);
        assert_eq!(streaming.next(), None, "the server knows of nothing");
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
        // Asked at 0, there at 50 ms; at 50, there at 100: the film begins. At 100 for the third, there at 150. The
        // fourth has to wait until the second segment begins to play at 300, the fifth until 500.
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
        // Asked at 300 ms, when the second began; the third ends at 700.
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
        let again = streaming.next().expect("a segment that was given up is nobody's");
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
            let dash = Dash { size_jitter: jitter, ..dash() };
            let classes = Traffic::Dash(dash.clone()).classes();
            let mut streaming = Streaming::new(&dash, classes, u64::MAX, Pcg64Mcg::seed_from_u64(seed));
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
