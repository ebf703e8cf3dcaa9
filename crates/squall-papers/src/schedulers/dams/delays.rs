//! Delay of a path in addition to sending: its one-way delay, the queue that DAMS itself builds,
//! and the margin of DAMS-Robust.

use super::{Settings, deviation::Deviations};
use squall_sched::{Context, MAX_PATHS, PathView, SchedEvent, Span};

/// Measure of a path's delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// The smoothed one-way delay.
    Measured,
    /// The minimum one-way delay, plus the time that the bytes in flight take beyond the minimum
    /// round trip.
    InFlight,
}

impl std::str::FromStr for Delay {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "measured" => Ok(Self::Measured),
            "in-flight" => Ok(Self::InFlight),
            _ => Err("must be measured or in-flight"),
        }
    }
}

/// Longest queue of a path that delayed blocks may use; `None` means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold(pub Option<Span>);

impl std::str::FromStr for Hold {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let millis = |text: &str| text.parse().ok().filter(|ms| *ms <= 60_000);
        match text {
            "none" => Ok(Self(None)),
            _ => millis(text)
                .map(|ms| Self(Some(Span::from_millis(ms))))
                .ok_or("must be none, or from 0 to 60000"),
        }
    }
}

/// Delays of all paths.
#[derive(Clone, Debug)]
pub(super) struct Delays {
    delay: Delay,
    hold: Hold,
    alpha: f64,
    deviations: Deviations,
    /// Time by which deadlines are moved earlier on each path, by its id (Eq. 2).
    margins: [Span; MAX_PATHS],
    /// Minimum one-way delays, by path id.
    least_owd: [Span; MAX_PATHS],
    /// Minimum round trips, by path id.
    least_rtt: [Span; MAX_PATHS],
}

impl Delays {
    pub(super) fn new(settings: &Settings) -> Self {
        let Settings { delay, hold, alpha, window, .. } = *settings;
        Self {
            delay,
            hold,
            alpha,
            deviations: Deviations::new(window),
            margins: [Span::ZERO; MAX_PATHS],
            least_owd: [Span::MAX; MAX_PATHS],
            least_rtt: [Span::MAX; MAX_PATHS],
        }
    }

    pub(super) fn on_event(&mut self, event: &SchedEvent, cx: &Context<'_>) {
        if self.alpha > 0.0 {
            self.deviations.on_event(event, cx);
        }
        if let SchedEvent::PathChanged(path) = event
            && cx.path(*path).is_none()
        {
            let at = usize::from(path.0);
            (self.least_owd[at], self.least_rtt[at]) = (Span::MAX, Span::MAX);
        }
    }

    /// Updates the state of all paths.
    pub(super) fn observe(&mut self, cx: &Context<'_>) {
        self.deviations.forget(cx.now);
        for path in cx.paths {
            let at = usize::from(path.id.0);
            self.margins[at] = Span::from_micros((self.alpha * self.deviations.of(path.id) / 2.0) as u64);
            self.least_owd[at] = self.least_owd[at].min(path.owd);
            self.least_rtt[at] = self.least_rtt[at].min(path.latest_rtt);
        }
    }

    /// Returns the delay of a path in addition to sending, by which deadlines are checked.
    pub(super) fn of(&self, path: &PathView) -> Span {
        let delay = match self.delay {
            Delay::Measured => path.owd,
            Delay::InFlight => self.behind_flight(path),
        };
        delay + self.margins[usize::from(path.id.0)]
    }

    /// `true` if the queue of a path is longer than delayed blocks may use.
    pub(super) fn holds(&self, path: &PathView) -> bool {
        let queue = path.owd - self.least_owd[usize::from(path.id.0)];
        self.hold.0.is_some_and(|longest| queue > longest)
    }

    /// Returns the one-way delay behind the data in flight. Bytes that wait for the pacer are
    /// accounted for elsewhere.
    fn behind_flight(&self, path: &PathView) -> Span {
        let at = usize::from(path.id.0);
        let bits = u128::from(path.in_flight.saturating_sub(path.waiting)) * 8_000_000;
        let drained = bits.checked_div(u128::from(path.bandwidth)).unwrap_or(0).min(60_000_000);
        let drained = Span::from_micros(drained as u64);
        self.least_owd[at].min(path.owd) + (drained - self.least_rtt[at].min(path.srtt))
    }
}
