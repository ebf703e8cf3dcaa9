//! A player with a buffer: room, playing times and stalls.

/// Plays segments of one length in order. Times are in microseconds from the start of the flow.
///
/// A segment leaves the buffer when it begins to play. Playback begins when the buffer is full for
/// the first time. If the buffer is empty at the end of a segment, the film stalls until the next
/// one arrives: a rebuffering.
#[derive(Debug, Clone)]
pub(super) struct Player {
    segment_us: u64,
    /// Capacity of the buffer in segments.
    capacity: u64,
    queued: u64,
    state: State,
    /// Start time of each segment.
    begun_us: Vec<u64>,
    /// Start and end of each stall.
    waits_us: Vec<(u64, u64)>,
}

/// Playback as seen by the viewer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Film {
    /// Start time of each segment.
    pub(super) begun_us: Vec<u64>,
    /// Start and end of each stall.
    pub(super) waits_us: Vec<(u64, u64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The buffer is filling for the first time.
    Filling,
    /// A segment plays until this time.
    Playing(u64),
    /// The buffer has been empty since this time.
    Empty(u64),
}

impl Player {
    pub(super) fn new(segment_us: u64, capacity: u64) -> Self {
        Self {
            segment_us,
            capacity,
            queued: 0,
            state: State::Filling,
            begun_us: Vec::new(),
            waits_us: Vec::new(),
        }
    }

    /// Returns the time at which there is room for one more segment if none arrives before:
    /// `now_us`, or the start of the next segment.
    pub(super) fn room_at(&mut self, now_us: u64) -> u64 {
        self.advance(now_us);
        match self.state {
            State::Playing(until) if self.queued >= self.capacity => until,
            _ => now_us,
        }
    }

    /// Called when the next segment arrives.
    pub(super) fn on_segment(&mut self, now_us: u64) {
        self.advance(now_us);
        self.queued += 1;
        match self.state {
            State::Filling if self.queued >= self.capacity => self.begin(now_us),
            State::Empty(since) => {
                self.waits_us.push((since, now_us));
                self.begin(now_us);
            }
            State::Filling | State::Playing(_) => {}
        }
    }

    /// Ends the playback.
    pub(super) fn finish(mut self, end_us: u64) -> Film {
        self.advance(end_us);
        if let State::Empty(since) = self.state {
            self.waits_us.push((since, end_us));
        }
        Film { begun_us: self.begun_us, waits_us: self.waits_us }
    }

    /// Plays up to `now_us`. A segment that arrives exactly when it is needed is in time, so the
    /// buffer becomes empty only after that time.
    fn advance(&mut self, now_us: u64) {
        while let State::Playing(until) = self.state {
            match self.queued {
                0 if until < now_us => self.state = State::Empty(until),
                1.. if until <= now_us => self.begin(until),
                _ => break,
            }
        }
    }

    fn begin(&mut self, at_us: u64) {
        self.queued -= 1;
        self.begun_us.push(at_us);
        self.state = State::Playing(at_us + self.segment_us);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn player() -> Player {
        Player::new(200, 2)
    }

    fn film(begun_us: &[u64], waits_us: &[(u64, u64)]) -> Film {
        Film { begun_us: begun_us.to_vec(), waits_us: waits_us.to_vec() }
    }

    /// Player after these arrivals.
    fn fed(arrivals: &[u64]) -> Player {
        let mut player = player();
        for at in arrivals {
            player.on_segment(*at);
        }
        player
    }

    #[test]
    fn it_begins_when_the_buffer_is_full() {
        let mut player = player();
        assert_eq!(player.room_at(0), 0);
        player.on_segment(50);
        assert_eq!(player.room_at(50), 50, "one of two");
        player.on_segment(90);
        // The first plays from 90 to 290 while the second waits: there is room for one.
        assert_eq!(player.room_at(90), 90);
        player.on_segment(120);
        assert_eq!(player.room_at(120), 290, "full until the second begins");
        assert_eq!(player.finish(300), film(&[90, 290], &[]));
    }

    #[test]
    fn an_empty_buffer_stops_the_film() {
        // Plays 10 to 210 and to 410, stalls to 500, plays to 700.
        let player = fed(&[0, 10, 500]);
        assert_eq!(player.clone().finish(600), film(&[10, 210, 500], &[(410, 500)]));
        assert_eq!(player.finish(730), film(&[10, 210, 500], &[(410, 500), (700, 730)]));
    }

    #[test]
    fn what_comes_just_in_time_is_in_time() {
        let player = fed(&[0, 10, 410]);
        assert_eq!(player.finish(610), film(&[10, 210, 410], &[]));
    }

    #[test]
    fn a_film_that_never_began_did_not_stop() {
        assert_eq!(fed(&[100]).finish(10_000), film(&[], &[]));
    }

    #[test]
    fn a_buffer_of_one_asks_while_a_segment_plays() {
        let mut player = Player::new(200, 1);
        player.on_segment(30);
        assert_eq!(player.room_at(30), 30);
        player.on_segment(60);
        assert_eq!(player.room_at(60), 230);
        assert_eq!(player.room_at(240), 240, "the second plays since 230");
    }

    proptest! {
        #[test]
        fn time_is_either_played_or_waited(gaps in proptest::collection::vec(0..1_000u64, 2..40), rest in 0..1_000u64) {
            let mut player = player();
            let mut now = 0;
            for gap in gaps {
                now = player.room_at(now) + gap;
                player.on_segment(now);
                prop_assert!(player.queued <= player.capacity);
            }
            let end = now + rest;
            let Film { begun_us, waits_us } = player.finish(end);
            let played: u64 = begun_us.iter().map(|at| (end - at).min(200)).sum();
            let waited: u64 = waits_us.iter().map(|(from, to)| to - from).sum();
            prop_assert_eq!(begun_us[0] + played + waited, end);
            prop_assert!(begun_us.windows(2).all(|pair| pair[1] >= pair[0] + 200));
        }
    }
}
