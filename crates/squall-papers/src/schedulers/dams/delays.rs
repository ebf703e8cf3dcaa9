//! What a path takes beyond sending: its delay, the queue that DAMS fills itself, and the margin of DAMS-Robust.

use super::{Settings, deviation::Deviations};
use squall_sched::{Context, MAX_PATHS, PathView, SchedEvent, Span};

/// What a path takes beyond sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// The smoothed one-way delay.
    Measured,
    /// The least one-way delay, and the time that the bytes in flight take beyond the least round trip.
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

/// The longest queue of a path that delayed blocks use; without one they use every path.
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

/// The delays of all paths.
#[derive(Clone, Debug)]
pub(super) struct Delays {
    delay: Delay,
    hold: Hold,
    alpha: f64,
    deviations: Deviations,
    /// By how much deadlines are moved earlier on each path, by its id (Eq. 2).
    margins: [Span; MAX_PATHS],
    /// The least one-way delays and round trips, by path id.
    least_owd: [Span; MAX_PATHS],
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

    /// Takes up what the paths are like now.
    pub(super) fn observe(&mut self, cx: &Context<'_>) {
        self.deviations.forget(cx.now);
        for path in cx.paths {
            let at = usize::from(path.id.0);
            self.margins[at] = Span::from_micros((self.alpha * self.deviations.of(path.id) / 2.0) as u64);
            self.least_owd[at] = self.least_owd[at].min(path.owd);
            self.least_rtt[at] = self.least_rtt[at].min(path.latest_rtt);
        }
    }

    /// What a path takes beyond sending, by which deadlines are kept.
    pub(super) fn of(&self, path: &PathView) -> Span {
        let delay = match self.delay {
            Delay::Measured => path.owd,
            Delay::InFlight => self.behind_flight(path),
        };
        delay + self.margins[usize::from(path.id.0)]
    }

    /// Whether a path has more of a queue than a delayed block may add to.
    pub(super) fn holds(&self, path: &PathView) -> bool {
        let queue = path.owd - self.least_owd[usize::from(path.id.0)];
        self.hold.0.is_some_and(|longest| queue > longest)
    }

    /// The one-way delay behind what is in flight. What waits for the pacer is reckoned with elsewhere.
    fn behind_flight(&self, path: &PathView) -> Span {
        let at = usize::from(path.id.0);
        let bits = u128::from(path.in_flight.saturating_sub(path.waiting)) * 8_000_000;
        let drained = bits.checked_div(u128::from(path.bandwidth)).unwrap_or(0).min(60_000_000);
        let drained = Span::from_micros(drained as u64);
        self.least_owd[at].min(path.owd) + (drained - self.least_rtt[at].min(path.srtt))
    }
}
