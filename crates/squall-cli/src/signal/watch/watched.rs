//! A radio that is watched.

use std::time::Duration;

use squall_signal::{
    Alert, Clock, Monitor, Reading, SignalSource, SignalState, SourceError, Time, Watermark, WatermarkConfig,
};

/// A radio, what it said last, and what the watermarks make of it.
pub(super) struct Watched {
    monitor: Monitor,
    watermark: Watermark,
    /// Its latest reading.
    pub(super) reading: Option<Reading>,
    /// The latest alert.
    pub(super) alert: Option<Raised>,
    /// The error that was reported last, so that it is reported once.
    reported: Option<SourceError>,
}

/// An alert and when it came.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Raised {
    pub(super) at: Time,
    pub(super) alert: Alert,
    /// Whether it ends an older one only because the radio fell silent.
    pub(super) silent: bool,
}

impl Watched {
    /// Begins to read.
    pub(super) fn start(
        source: Box<dyn SignalSource>,
        clock: Clock,
        period: Duration,
        on_reading: impl FnMut(&Reading) + Send + 'static,
    ) -> anyhow::Result<Self> {
        let watermark = Watermark::new(WatermarkConfig::default())?;
        let monitor = Monitor::start_with(source, clock, period, on_reading)?;
        Ok(Self { monitor, watermark, reading: None, alert: None, reported: None })
    }

    pub(super) fn name(&self) -> &str {
        self.monitor.label()
    }

    /// What is to be known beforehand, with the radio's name.
    pub(super) fn note(&self) -> Option<String> {
        Some(format!("{}: {}", self.name(), self.monitor.note()?))
    }

    /// Takes a reading in.
    pub(super) fn on_reading(&mut self, reading: &Reading, now: Time) -> Option<Raised> {
        self.reading = Some(*reading);
        let alert = self.watermark.update(now, reading, None)?;
        self.remember(Raised { at: now, alert, silent: false })
    }

    /// Ends an alert of a radio that has been silent for too long.
    pub(super) fn on_time(&mut self, now: Time) -> Option<Raised> {
        let alert = self.watermark.on_time(now)?;
        self.remember(Raised { at: now, alert, silent: true })
    }

    fn remember(&mut self, raised: Raised) -> Option<Raised> {
        self.alert = Some(raised);
        self.alert
    }

    /// The quality index of the last reading.
    pub(super) fn quality(&self) -> Option<f64> {
        self.watermark.quality()
    }

    pub(super) fn state(&self) -> SignalState {
        self.watermark.state()
    }

    /// Why no new readings come.
    pub(super) fn error(&self) -> Option<SourceError> {
        self.monitor.error()
    }

    /// The same once for each error; that a recording ends is none.
    pub(super) fn new_error(&mut self) -> Option<SourceError> {
        let error = self.error().filter(|error| !matches!(error, SourceError::Ended(_)));
        let is_new = error != self.reported;
        self.reported.clone_from(&error);
        error.filter(|_| is_new)
    }

    /// Whether it will say nothing more.
    pub(super) fn is_over(&self) -> bool {
        self.error().is_some_and(|error| error.is_lasting())
    }
}
