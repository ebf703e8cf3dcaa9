//! A recording as a radio.

use std::{thread, time::Duration};

use super::Trace;
use crate::{Clock, Micros, Reading, SignalSource, SourceError};

/// How a trace is replayed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Replay {
    /// How many times as fast as it was recorded, 0.01…1000. Default 1.
    pub speed: f64,
    /// Whether it begins again at its end. Default no.
    pub looped: bool,
}

impl Default for Replay {
    fn default() -> Self {
        Self { speed: 1.0, looped: false }
    }
}

/// Why a trace cannot be replayed.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum ReplayError {
    /// The speed is out of bounds.
    #[error("the speed must be 0.01 to 1000, not {0}")]
    Speed(f64),
    /// No row has a level or tells of a lost network.
    #[error("the recording tells nothing of a radio")]
    Silent,
}

/// A trace that is read as if it were a radio: its readings come at their times, counted from the first call.
#[derive(Debug)]
pub struct TraceSource {
    label: String,
    readings: Vec<Reading>,
    /// The last row holds as long as a usual one.
    length: Micros,
    replay: Replay,
    /// When the recording began, by the reader's clock.
    began: Option<Micros>,
    /// How many readings have been passed, over all rounds.
    passed: u64,
}

impl TraceSource {
    /// A trace as a radio; `label` is its name for people.
    ///
    /// # Errors
    /// If the speed is out of bounds, or the trace tells nothing of a radio.
    pub fn new(label: impl Into<String>, trace: &Trace, replay: Replay) -> Result<Self, ReplayError> {
        if !(0.01..=1000.0).contains(&replay.speed) {
            return Err(ReplayError::Speed(replay.speed));
        }
        let readings: Vec<Reading> = trace.readings().collect();
        if readings.is_empty() {
            return Err(ReplayError::Silent);
        }
        let length = trace.duration() + trace.step();
        Ok(Self { label: label.into(), readings, length, replay, began: None, passed: 0 })
    }

    /// A reading of the replay, with the time of the replay; `None` past the end.
    fn reading(&self, index: u64) -> Option<Reading> {
        let count = self.readings.len() as u64;
        let round = index / count;
        if round > 0 && !self.replay.looped {
            return None;
        }
        let reading = self.readings[usize::try_from(index % count).ok()?];
        let at = round.saturating_mul(self.length).saturating_add(reading.at);
        Some(Reading { at: self.paced(at), ..reading })
    }

    fn paced(&self, at: Micros) -> Micros {
        (at as f64 / self.replay.speed) as Micros
    }

    /// Takes what is due at a time of the replay, and returns the newest of it.
    fn take_due(&mut self, now: Micros) -> Option<Reading> {
        let mut newest = None;
        while let Some(reading) = self.reading(self.passed).filter(|reading| reading.at <= now) {
            newest = Some(reading);
            self.passed += 1;
        }
        newest
    }
}

impl SignalSource for TraceSource {
    fn label(&self) -> String {
        self.label.clone()
    }

    fn next(&mut self, clock: Clock, timeout: Duration) -> Result<Option<Reading>, SourceError> {
        let began = *self.began.get_or_insert_with(|| clock.now());
        let timeout = u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX);
        let until = (clock.now() - began).saturating_add(timeout);
        loop {
            let now = clock.now() - began;
            if let Some(reading) = self.take_due(now) {
                return Ok(Some(Reading { at: began + reading.at, ..reading }));
            }
            let next = self.reading(self.passed).map(|reading| reading.at);
            if next.is_none() && now >= self.paced(self.length) {
                return Err(SourceError::Ended(self.label.clone()));
            }
            if now >= until {
                return Ok(None);
            }
            let due = next.unwrap_or_else(|| self.paced(self.length));
            thread::sleep(Duration::from_micros(due.min(until).saturating_sub(now).max(1)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::trace::{Event, Row, Tech};

    fn trace() -> Trace {
        let row = |at, rssi, events| Row {
            at,
            rssi,
            events,
            tech: Tech::new("WiFi").expect("is a word"),
            ..Row::default()
        };
        let silent = row(20_000, None, Vec::new());
        let lost = row(30_000, None, vec![Event::Disconnected]);
        let rows = vec![row(0, Some(-50.0), Vec::new()), row(10_000, Some(-70.0), Vec::new()), silent, lost];
        Trace::new(rows).expect("is one")
    }

    fn source(replay: Replay) -> TraceSource {
        TraceSource::new("walk.csv", &trace(), replay).expect("can be replayed")
    }

    #[test]
    fn readings_are_taken_when_they_are_due() {
        let mut replay = source(Replay { speed: 2.0, ..Replay::default() });
        assert_eq!(replay.take_due(0).map(|reading| reading.rssi), Some(Some(-50.0)));
        assert_eq!(replay.take_due(4_999), None);
        assert_eq!(
            replay.take_due(5_000).map(|reading| (reading.at, reading.rssi)),
            Some((5_000, Some(-70.0)))
        );
        let lost = replay.take_due(1_000_000).expect("is told");
        assert!(lost.disconnected && lost.at == 15_000);
        assert_eq!(replay.take_due(2_000_000), None);
    }

    #[test]
    fn a_late_reader_gets_the_newest() {
        let mut replay = source(Replay::default());
        assert_eq!(replay.take_due(12_000).map(|reading| reading.rssi), Some(Some(-70.0)));
    }

    #[test]
    fn a_loop_holds_the_last_row_for_a_step() {
        let mut replay = source(Replay { looped: true, ..Replay::default() });
        assert!(replay.take_due(39_999).expect("is told").disconnected);
        assert_eq!(
            replay.take_due(40_000).map(|reading| (reading.at, reading.rssi)),
            Some((40_000, Some(-50.0)))
        );
        assert!(replay.take_due(40_000 * 1_000_000).is_some());
    }

    #[test]
    fn in_real_time_it_waits_and_ends() {
        let clock = Clock::new(Instant::now());
        let mut replay = source(Replay::default());
        let began = Instant::now();
        let mut told = Vec::new();
        let end = loop {
            match replay.next(clock, Duration::from_millis(2)) {
                Ok(reading) => told.extend(reading),
                Err(error) => break error,
            }
        };
        assert!(began.elapsed() >= Duration::from_millis(40));
        assert!(told.windows(2).all(|pair| pair[0].at < pair[1].at), "{told:?}");
        assert!(told.last().expect("something was told").disconnected);
        assert_eq!(end, SourceError::Ended("walk.csv".into()));
        assert_eq!(end.to_string(), "walk.csv: the recording is at its end");
    }

    #[test]
    fn what_cannot_be_replayed_is_refused() {
        for speed in [0.0, -1.0, f64::NAN, 1e9] {
            assert!(TraceSource::new("x", &trace(), Replay { speed, looped: false }).is_err());
        }
        let silent = Trace::new(vec![Row { down_mbps: Some(1.0), ..Row::default() }]).expect("is one");
        let error = TraceSource::new("x", &silent, Replay::default()).expect_err("is refused");
        assert_eq!(error, ReplayError::Silent);
    }
}
