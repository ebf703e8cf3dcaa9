//! The three watermarks, with fast suppression and slow recovery (STORM §3.2.3).

use crate::{Adaptation, QualityIndex, Reading, Span, Time};

/// The watermarks, as levels of the quality index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Marks {
    /// Strong signal. Default 0.45.
    pub good: f64,
    /// The signal is weak below this level. Default 0.32.
    pub warning: f64,
    /// The link is practically down below this level. Default 0.21.
    pub outage: f64,
}

impl Default for Marks {
    fn default() -> Self {
        Self { good: 0.45, warning: 0.32, outage: 0.21 }
    }
}

/// Settings of a [`Watermark`]. The defaults are those of STORM's Table 2, where it has one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WatermarkConfig {
    /// Computation of the index from readings.
    pub index: QualityIndex,
    /// Initial marks.
    pub marks: Marks,
    /// Adaptation of the marks to observed losses; `None` for fixed marks. Default: adaptive.
    pub adaptation: Option<Adaptation>,
    /// T_rec: time for which the index must stay at or above Warning before the path recovers, over
    /// at least two measurements of the radio ([`Reading::at`]). Above Good an outage ends at once.
    /// Default 400 ms.
    pub recovery: Span,
    /// Map from an alert to the factor of its path. Default [`FactorMap::Share`].
    pub factor: FactorMap,
    /// Time without a reading after which the state is stale: an alert ends, and only the
    /// transport's own observations of the path apply. A single reading at or above Warning that
    /// stands for this long ends an alert as well, since many radios report only changes. Not in
    /// the paper. Default 5 s, several reports of the slowest source.
    pub stale: Span,
}

impl Default for WatermarkConfig {
    fn default() -> Self {
        Self {
            index: QualityIndex::default(),
            marks: Marks::default(),
            adaptation: Some(Adaptation::default()),
            recovery: Span::from_millis(400),
            factor: FactorMap::default(),
            stale: Span::from_secs(5),
        }
    }
}

/// Map from the index to F of STORM's Eq. 4. The paper states only that a greater gap lowers it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FactorMap {
    /// Ratio of the index to the Warning mark: from 1 to about two thirds under a warning.
    #[default]
    Share,
    /// Position of the index between the Outage and the Warning mark: from 1 to almost 0.
    Band,
}

/// Reason why a configuration is invalid.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum WatermarkError {
    /// The marks are not in order.
    #[error(
        "watermarks: 0 < outage < warning < good <= 1 is needed, not outage {outage}, warning {warning}, good {good}"
    )]
    Marks {
        /// The Outage mark.
        outage: f64,
        /// The Warning mark.
        warning: f64,
        /// The Good mark.
        good: f64,
    },
    /// A range of levels is empty or has a bound that is not finite.
    #[error("the range of {0} must rise from low to high")]
    Range(&'static str),
    /// A weight is out of range.
    #[error("the weight {0} must be {1}")]
    Weight(&'static str, &'static str),
    /// A setting of the adaptation is out of range.
    #[error("adaptation: {0}")]
    Adaptation(&'static str),
}

impl WatermarkConfig {
    /// Returns F of STORM's Eq. 4 under an alert, in (0, 1].
    pub fn factor(&self, alert: &Alert) -> f64 {
        let band = self.marks.warning - self.marks.outage;
        match (self.factor, alert.kind) {
            (FactorMap::Share, _) | (_, AlertKind::Recovery) => alert.factor(),
            (FactorMap::Band, _) => (1.0 - alert.gap / band).clamp(LEAST_FACTOR, 1.0),
        }
    }

    /// Validates the settings.
    ///
    /// # Errors
    /// The first invalid setting, and its valid range.
    pub fn check(&self) -> Result<(), WatermarkError> {
        let Marks { good, warning, outage } = self.marks;
        if !(0.0 < outage && outage < warning && warning < good && good <= 1.0) {
            return Err(WatermarkError::Marks { outage, warning, good });
        }
        let ranges = &self.index.ranges;
        for (name, range) in [
            ("RSSI", ranges.rssi),
            ("mobile RSSI", ranges.mobile_rssi),
            ("RSRP", ranges.rsrp),
            ("SINR", ranges.sinr),
        ] {
            if !range.is_valid() {
                return Err(WatermarkError::Range(name));
            }
        }
        let weights = &self.index.weights;
        for (name, weight) in [("w_rsrp", weights.rsrp), ("w_sinr", weights.sinr)] {
            if !(weight > 0.0 && weight <= 1.0) {
                return Err(WatermarkError::Weight(name, "above 0 and at most 1"));
            }
        }
        if !(0.0..1.0).contains(&weights.gamma) {
            return Err(WatermarkError::Weight("gamma", "0 or more and below 1"));
        }
        self.adaptation.map_or(Ok(()), |adaptation| adaptation.check(&self.marks))
    }
}

/// State of a path by its watermarks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SignalState {
    /// No alert.
    #[default]
    Clear,
    /// The signal is weak: less data on the path.
    Warned,
    /// The link is practically down: no new data on the path.
    Out,
}

impl SignalState {
    /// Returns the state in one lower-case word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Clear => "clear",
            Self::Warned => "warning",
            Self::Out => "outage",
        }
    }
}

/// Change for the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AlertKind {
    /// The index fell below Warning, or moved further below it.
    Warning,
    /// The index fell below Outage.
    Outage,
    /// The path may be used without restriction again.
    Recovery,
}

impl AlertKind {
    /// Returns the kind in one lower-case word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Outage => "outage",
            Self::Recovery => "recovery",
        }
    }

    /// Returns the state of a path after such an alert.
    pub const fn state(self) -> SignalState {
        match self {
            Self::Warning => SignalState::Warned,
            Self::Outage => SignalState::Out,
            Self::Recovery => SignalState::Clear,
        }
    }
}

/// Feedback to the sender.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alert {
    /// Kind of the change.
    pub kind: AlertKind,
    /// The quality index, 0…1.
    pub quality: f64,
    /// Distance of the index below the Warning mark; 0 if it is not below.
    pub gap: f64,
}

/// Lower bound of [`Alert::factor`], so that a path in use keeps a share of the data.
const LEAST_FACTOR: f64 = 0.05;

impl Alert {
    /// Returns F of STORM's Eq. 4, in (0, 1]: the factor for the path's bandwidth when data is
    /// divided. The paper states only that a greater gap lowers it; here it is the ratio of the
    /// index to the Warning mark.
    pub fn factor(&self) -> f64 {
        let mark = self.quality + self.gap;
        match self.kind {
            AlertKind::Recovery => 1.0,
            _ if mark > 0.0 => (self.quality / mark).clamp(LEAST_FACTOR, 1.0),
            _ => LEAST_FACTOR,
        }
    }
}

/// Smallest move of the index below Warning that raises another alert. Rises are reported as soon
/// as falls: with rises of 0.05 that last for T_rec, 99 of 100 packets of `storm` at the edge of
/// Wi-Fi took up to 136 instead of 125 ms.
const GAP_STEP: f64 = 0.02;

/// Largest distance of two windows whose losses are compared.
const COMPARABLE: Span = Span::from_secs(2);

/// Watches the radio of one path.
#[derive(Clone, Debug)]
pub struct Watermark {
    config: WatermarkConfig,
    marks: Marks,
    state: SignalState,
    quality: Option<f64>,
    /// Start of the time at or above Warning, and the radio's measurement time of its first
    /// reading.
    above_since: Option<(Time, Time)>,
    /// Gap of the last warning.
    warned_gap: f64,
    /// Time of the last reading.
    received: Option<Time>,
    /// End of the last window of losses, and the share lost in it.
    loss: Option<(Time, f64)>,
    /// Quiet time counted by the adaptation: under a warning without a burst of losses, or without
    /// alert and loss.
    calm: Span,
}

impl Watermark {
    /// Creates a watermark without a reading.
    ///
    /// # Errors
    /// See [`WatermarkConfig::check`].
    pub fn new(config: WatermarkConfig) -> Result<Self, WatermarkError> {
        config.check()?;
        Ok(Self {
            config,
            marks: config.marks,
            state: SignalState::Clear,
            quality: None,
            above_since: None,
            warned_gap: 0.0,
            received: None,
            loss: None,
            calm: Span::ZERO,
        })
    }

    /// Processes a reading, and returns the change for the sender. `loss` is the share of the
    /// path's packets lost in a window that ends now, 0…1; `None` while too few were sent. It is
    /// compared with the window before, if that ended no longer than two seconds ago.
    ///
    /// A reading without levels is ignored.
    pub fn update(&mut self, now: Time, reading: &Reading, loss: Option<f64>) -> Option<Alert> {
        let base = self.config.index.base(reading)?;
        let grown = self.grown(now, base, loss);
        let quality = base * self.config.index.loss_factor(grown);
        self.received = Some(now);
        self.quality = Some(quality);
        if quality < self.marks.warning {
            self.above_since = None;
            self.suppress(quality)
        } else {
            let (since, first) = *self.above_since.get_or_insert((now, reading.at));
            let held = now - since;
            // A reading is repeated until the radio has another one: a repetition proves nothing
            // about the time in between.
            let lasting = held >= self.config.recovery && (reading.at != first || held >= self.config.stale);
            let strong = self.state == SignalState::Out && quality > self.marks.good;
            (self.state != SignalState::Clear && (strong || lasting)).then(|| self.recover(quality))
        }
    }

    /// Returns the growth of the loss since the window before. Moves the marks.
    fn grown(&mut self, now: Time, base: f64, loss: Option<f64>) -> f64 {
        let Some(loss) = loss else { return 0.0 };
        let before = self.loss.replace((now, loss));
        let since = before.map_or(Span::ZERO, |(at, _)| now - at);
        if let Some(adaptation) = self.config.adaptation {
            let (marks, start, calm) = (&mut self.marks, &self.config.marks, &mut self.calm);
            adaptation.adapt(marks, start, self.state, base, loss, since, calm);
        }
        before.filter(|_| since <= COMPARABLE).map_or(0.0, |(_, before)| loss - before)
    }

    /// Ends an alert of a radio that has become silent. Call it at [`Self::timeout`], or at any
    /// time.
    pub fn on_time(&mut self, now: Time) -> Option<Alert> {
        (self.timeout()? <= now).then(|| {
            (self.above_since, self.received, self.loss) = (None, None, None);
            let quality = self.quality.take().unwrap_or(0.0);
            self.recover(quality)
        })
    }

    /// Returns the time at which the radio is considered silent; `None` without an alert.
    pub fn timeout(&self) -> Option<Time> {
        let received = self.received.filter(|_| self.state != SignalState::Clear)?;
        Some(received + self.config.stale)
    }

    /// Returns the state of the path.
    pub fn state(&self) -> SignalState {
        self.state
    }

    /// Returns the index of the last reading; `None` before the first, and after a long silence.
    pub fn quality(&self) -> Option<f64> {
        self.quality
    }

    /// Returns the present marks.
    pub fn marks(&self) -> Marks {
        self.marks
    }

    /// Handles an index below Warning. Fast suppression: a change for the worse is reported at
    /// once.
    fn suppress(&mut self, quality: f64) -> Option<Alert> {
        let gap = self.marks.warning - quality;
        if quality < self.marks.outage {
            return (self.state != SignalState::Out).then(|| self.alert(AlertKind::Outage, quality, gap));
        }
        let news = match self.state {
            SignalState::Clear => true,
            SignalState::Warned => (gap - self.warned_gap).abs() >= GAP_STEP,
            // On the way up: the index has not been above Warning for long enough.
            SignalState::Out => false,
        };
        news.then(|| self.alert(AlertKind::Warning, quality, gap))
    }

    fn recover(&mut self, quality: f64) -> Alert {
        let gap = (self.marks.warning - quality).max(0.0);
        self.alert(AlertKind::Recovery, quality, gap)
    }

    fn alert(&mut self, kind: AlertKind, quality: f64, gap: f64) -> Alert {
        self.state = kind.state();
        self.warned_gap = gap;
        Alert { kind, quality, gap }
    }
}

#[cfg(test)]
mod tests;
