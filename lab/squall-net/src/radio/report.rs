//! Reports of a radio: late, noisy, in whole decibels.

use rand_pcg::{Pcg64Mcg, rand_core::SeedableRng};
use squall_signal::{Reading, Technology};
use squall_trace::Micros;
use squall_units::Time;

use super::{
    Air, Follower, Lead, Parts, RadioConfig, Source,
    course::Course,
    scene::{Drift, gauss},
};

/// The radio of a path, as seen by its host.
#[derive(Debug, Clone)]
pub(crate) struct Radio {
    /// Source of [`poll_report`](Self::poll_report), which returns every report at its time.
    queue: Reporter,
    /// Source of [`report`](Self::report), which returns the newest; separate, so that neither
    /// affects the other.
    board: Reporter,
    newest: Option<Reading>,
    truth: Follower,
}

impl Radio {
    /// Returns `None` if a file has not been loaded. `seed` is that of the levels, `noise` that of
    /// the noise.
    pub(crate) fn new(config: &RadioConfig, seed: u64, noise: u64) -> Option<Self> {
        let reporter = Reporter::new(config, seed, noise)?;
        Some(Self {
            board: reporter.clone(),
            queue: reporter,
            newest: None,
            truth: Follower::new(config, seed, Parts::All)?,
        })
    }

    /// Returns the time of the next report; `None` after the last.
    pub(crate) fn next_report(&self) -> Option<Micros> {
        self.queue.pending.map(|(due, _)| due)
    }

    /// Returns the next report, if it has arrived by `now`.
    pub(crate) fn poll_report(&mut self, now: Micros) -> Option<Reading> {
        self.queue.take(now)
    }

    /// Returns the newest report that has arrived by `now`; `None` before the first, and from the
    /// time at which the one after the last would have been due.
    pub(crate) fn report(&mut self, now: Micros) -> Option<Reading> {
        while let Some(reading) = self.board.take(now) {
            self.newest = Some(reading);
        }
        self.newest.filter(|_| self.board.silent_from.is_none_or(|end| now < end))
    }

    pub(crate) fn air(&mut self, now: Micros) -> Air {
        self.truth.air(now)
    }
}

/// Readings in order of time.
#[derive(Debug, Clone)]
struct Reporter {
    course: Course,
    technology: Technology,
    /// Time by which the reports are later than the levels; negative if earlier.
    shift: Lead,
    capture: Micros,
    granularity: Micros,
    late: Micros,
    quantum: f64,
    noise: [Drift; 3],
    random: Pcg64Mcg,
    /// Number of queries so far.
    asked: u64,
    /// Last measurement.
    measured: Option<Reading>,
    /// The next report, and its time of arrival.
    pending: Option<(Micros, Reading)>,
    /// Time at which the report after the last one would have arrived.
    silent_from: Option<Micros>,
}

impl Reporter {
    fn new(config: &RadioConfig, seed: u64, noise: u64) -> Option<Self> {
        let mut random = Pcg64Mcg::seed_from_u64(noise);
        let mut drift = || Drift::new(config.noise, gauss(&mut random));
        let noise = [drift(), drift(), drift()];
        let shift = match config.source {
            Source::Trace(_) => config.lead,
            _ => Lead::default(),
        };
        let mut reporter = Self {
            course: Course::new(&config.source, seed)?,
            technology: config.technology(),
            shift,
            capture: config.capture.micros(),
            granularity: config.granularity.micros(),
            late: config.late.micros(),
            quantum: config.quantum,
            noise: noise.map(|drift| drift.keeping(config.noise_correlation)),
            random,
            asked: 0,
            measured: None,
            pending: None,
            silent_from: None,
        };
        reporter.prepare();
        Some(reporter)
    }

    fn take(&mut self, now: Micros) -> Option<Reading> {
        let (_, reading) = self.pending.filter(|(due, _)| *due <= now)?;
        self.prepare();
        Some(reading)
    }

    /// Queries the radio once more.
    fn prepare(&mut self) {
        let at = self.asked.saturating_mul(self.capture);
        self.asked += 1;
        let due = at.saturating_add(self.late);
        self.pending = self.ask(at).map(|reading| (due, reading));
        self.silent_from = self.pending.is_none().then_some(due);
    }

    fn ask(&mut self, at: Micros) -> Option<Reading> {
        // The radio reports its last measurement, which it takes at its own interval.
        let measuring = if self.granularity == 0 { at } else { at - at % self.granularity };
        if self.measured.is_none_or(|reading| reading.at.micros() < measuring) {
            let air = self.shift.after(measuring);
            if self.course.end().is_some_and(|end| air > end) {
                return None;
            }
            self.measured = Some(self.measure(measuring, air));
        }
        self.measured
    }

    fn measure(&mut self, at: Micros, air: Micros) -> Reading {
        let passed = self.measured.map_or(0, |last| at - last.at.micros());
        let (levels, _) = self.course.at(air);
        let mut reading = levels.reading(Time::from_micros(at), self.technology);
        let reported = [&mut reading.rsrp, &mut reading.sinr, &mut reading.rssi];
        for (level, noise) in reported.into_iter().zip(&mut self.noise) {
            let off = noise.pass(passed, &mut self.random);
            let quantum = self.quantum;
            *level = level.map(|level| {
                let level = level + off;
                if quantum > 0.0 { (level / quantum).round() * quantum } else { level }
            });
        }
        reading
    }
}
