//! A radio that is being watched.

use std::time::Duration;

use squall_signal::{
    Alert, Clock, Monitor, Reading, SignalSource, SignalState, SourceError, Time, Watermark, WatermarkConfig,
};

/// A radio, its last reading, and the state of its watermarks.
pub(super) struct Watched {
    monitor: Monitor,
    watermark: Watermark,
    /// Latest reading.
    pub(super) reading: Option<Reading>,
    /// Latest alert.
    pub(super) alert: Option<Raised>,
    /// Last reported error; each error is reported once.
    reported: Option<SourceError>,
}

/// An alert and its time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Raised {
    pub(super) at: Time,
    pub(super) alert: Alert,
    /// The alert only ends an older one because the radio fell silent.
    pub(super) silent: bool,
}

impl Watched {
    /// Starts to read.
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

    /// Returns a note about the radio to show at the start, with its name.
    pub(super) fn note(&self) -> Option<String> {
        Some(format!("{}: {}", self.name(), self.monitor.note()?))
    }

    /// Processes a reading.
    pub(super) fn on_reading(&mut self, reading: &Reading, now: Time) -> Option<Raised> {
        self.reading = Some(*reading);
        let alert = self.watermark.update(now, reading, None)?;
        self.remember(Raised { at: now, alert, silent: false })
    }

    /// Ends the alert of a radio that has been silent for too long.
    pub(super) fn on_time(&mut self, now: Time) -> Option<Raised> {
        let alert = self.watermark.on_time(now)?;
        self.remember(Raised { at: now, alert, silent: true })
    }

    fn remember(&mut self, raised: Raised) -> Option<Raised> {
        self.alert = Some(raised);
        self.alert
    }

    /// Returns the quality index of the last reading.
    pub(super) fn quality(&self) -> Option<f64> {
        self.watermark.quality()
    }

    pub(super) fn state(&self) -> SignalState {
        self.watermark.state()
    }

    /// Returns the reason why no new readings arrive.
    pub(super) fn error(&self) -> Option<SourceError> {
        self.monitor.error()
    }

    /// Returns each error once. The end of a recording is not an error.
    pub(super) fn new_error(&mut self) -> Option<SourceError> {
        let error = self.error().filter(|error| !matches!(error, SourceError::Ended(_)));
        let is_new = error != self.reported;
        self.reported.clone_from(&error);
        error.filter(|_| is_new)
    }

    /// `true` if no more readings will arrive.
    pub(super) fn is_over(&self) -> bool {
        self.error().is_some_and(|error| error.is_lasting())
    }
}
