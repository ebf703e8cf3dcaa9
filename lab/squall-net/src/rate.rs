//! Rate of a link: fixed, following a series or a ramp, or a mahimahi trace.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use squall_trace::{TraceError, mahimahi::Trace, read_text};
use squall_units::{Rate, Ratio, Span};

use crate::{
    form::{TextOrTable, text_or_table},
    opportunities::Opportunities,
    series::{Series, SeriesTable},
    time::{NANOS_PER_MILLI, NEVER, Nanos, micros_before, nanos},
};

/// The rate of one direction of a link. Default: unlimited.
///
/// In files: `"20mbps"`, `"unlimited"`, `{ mahimahi = "lte.down", once = false }`,
/// `{ steps = [["0s", "20mbps"], ["5s", "2mbps"]], repeat = "10s" }` or
/// `{ csv = "drive.csv", column = "down_mbps" }`.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum RateConfig {
    /// Sending takes no time.
    #[default]
    Unlimited,
    /// A constant rate; 0 stops the link until an event changes it.
    Fixed(Rate),
    /// The rate changes in steps, and a packet that is being sent at a step is served at both
    /// rates.
    Series(Series<Rate>),
    /// Packets leave at the opportunities of a mahimahi trace.
    Mahimahi {
        /// File that [`load`](crate::LinkConfig::load) reads, if any.
        file: Option<PathBuf>,
        /// The trace, once loaded.
        trace: Option<Trace>,
        /// The link ends with the trace instead of restarting it.
        once: bool,
    },
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RateTable {
    mahimahi: Option<PathBuf>,
    millis: Option<Vec<u64>>,
    #[serde(default)]
    once: bool,
    steps: Option<Vec<(Span, Rate)>>,
    csv: Option<PathBuf>,
    column: Option<String>,
    scale: Option<f64>,
    repeat: Option<Span>,
}

text_or_table!(RateConfig);

impl TextOrTable for RateConfig {
    const EXPECTED: &'static str =
        "a rate such as \"20mbps\", \"unlimited\", or a table with mahimahi, steps or csv";

    type Table = RateTable;

    fn from_text(text: &str) -> Result<Self, String> {
        match text.trim() {
            "unlimited" => Ok(Self::Unlimited),
            text => text.parse().map(Self::Fixed).map_err(|error: squall_units::UnitError| error.to_string()),
        }
    }

    fn from_table(table: RateTable) -> Result<Self, String> {
        let RateTable { mahimahi, millis, once, steps, csv, column, scale, repeat } = table;
        let series = SeriesTable { steps, csv, column, scale, repeat }.series()?;
        match (mahimahi, millis, series) {
            (Some(file), None, None) => Ok(Self::Mahimahi { file: Some(file), trace: None, once }),
            (None, Some(millis), None) => {
                let trace = Trace::new(millis).map_err(|error| error.to_string())?;
                Ok(Self::Mahimahi { file: None, trace: Some(trace), once })
            }
            (None, None, Some(series)) if !once => Ok(Self::Series(series)),
            _ => {
                Err("a rate is given by one of mahimahi, millis, steps or csv (once goes with the first two)"
                    .to_owned())
            }
        }
    }
}

impl RateConfig {
    /// Reads the trace or series from its file, unless it has been read already.
    pub(crate) fn load(&mut self, base: &Path) -> Result<(), TraceError> {
        match self {
            Self::Series(series) => series.load(base),
            Self::Mahimahi { file: Some(file), trace: trace @ None, .. } => {
                let file = base.join(file);
                *trace = Some(Trace::parse(&file.display().to_string(), &read_text(&file)?)?);
                Ok(())
            }
            Self::Unlimited | Self::Fixed(_) | Self::Mahimahi { .. } => Ok(()),
        }
    }

    /// Returns the average rate in bits per second over one round of the series or trace; `None` if
    /// it is unlimited or not loaded.
    pub fn mean_bps(&self) -> Option<u64> {
        match self {
            Self::Unlimited => None,
            Self::Fixed(rate) => Some(rate.bps()),
            Self::Series(series) => mean(series.steps()),
            Self::Mahimahi { trace, .. } => trace.as_ref().map(Trace::mean_bps),
        }
    }
}

/// Returns the time-weighted mean of the steps up to the last; for a single step, its value.
fn mean(steps: &[(Span, Rate)]) -> Option<u64> {
    let (first, last) = (steps.first()?, steps.last()?);
    let length = u128::from(last.0.micros() - first.0.micros());
    if length == 0 {
        return Some(last.1.bps());
    }
    let area = steps
        .windows(2)
        .map(|pair| u128::from(pair[1].0.micros() - pair[0].0.micros()) * u128::from(pair[0].1.bps()));
    // A weighted mean is at most the largest of its values, which are 64 bits.
    Some((area.sum::<u128>() / length) as u64)
}

/// A rate as a function of time.
#[derive(Debug, Clone)]
pub(crate) enum Pace {
    Unlimited,
    Fixed(u64),
    Series(Series<Rate>),
    /// From one rate to another between two times, in steps of a millisecond.
    Ramp {
        from: u64,
        to: u64,
        start: Nanos,
        end: Nanos,
    },
}

impl Pace {
    /// Returns the bits per second at `now` (`None`: unlimited), and the time until which they
    /// hold.
    fn at(&self, now: Nanos) -> (Option<u64>, Nanos) {
        match self {
            Self::Unlimited => (None, NEVER),
            Self::Fixed(bps) => (Some(*bps), NEVER),
            Self::Series(series) => {
                let (rate, change) = series.at(micros_before(now));
                (Some(rate.bps()), change.map_or(NEVER, nanos))
            }
            Self::Ramp { from, to, start, end } => ramp(*from, *to, *start, *end, now),
        }
    }
}

fn ramp(from: u64, to: u64, start: Nanos, end: Nanos, now: Nanos) -> (Option<u64>, Nanos) {
    if now >= end {
        return (Some(to), NEVER);
    }
    let tick = (now - start) / NANOS_PER_MILLI * NANOS_PER_MILLI;
    let (from, to) = (i128::from(from), i128::from(to));
    let value = from + (to - from) * i128::from(tick) / i128::from(end - start);
    // The value lies between `from` and `to`, both of which are 64 bits.
    (Some(value as u64), (start + tick + NANOS_PER_MILLI).min(end))
}

/// Work of one bit; a rate of r bits per second does r units of work each nanosecond.
pub(crate) const WORK_PER_BIT: u64 = 1_000_000_000;

/// Sends one packet after the other at a rate that may change in the middle of a packet.
///
/// Completion times are rounded up to a nanosecond. The unused part of a packet's last nanosecond
/// is credited to a packet that follows immediately: a saturated link keeps its rate exactly.
#[derive(Debug, Clone)]
pub(crate) struct Fluid {
    pace: Pace,
    /// Share of the pace that is available.
    share: Ratio,
    bps: Option<u64>,
    until: Nanos,
    busy: bool,
    left: u64,
    spare: u64,
    since: Nanos,
    /// Time at which the packet is complete or the rate changes.
    event: Nanos,
}

impl Fluid {
    pub(crate) fn new(pace: Pace, share: Ratio, now: Nanos) -> Self {
        let (bps, until) = scaled(&pace, share, now);
        Self { pace, share, bps, until, busy: false, left: 0, spare: 0, since: now, event: NEVER }
    }

    /// Continues at another share of its pace. No packet may be in service, unless it is paused.
    pub(crate) fn set_share(&mut self, now: Nanos, share: Ratio) {
        self.share = share;
        (self.bps, self.until) = scaled(&self.pace, share, now);
        self.refresh(now);
    }

    /// Starts to send a packet.
    pub(crate) fn begin(&mut self, now: Nanos, bytes: u64) {
        if now != self.since {
            self.spare = 0;
        }
        self.resume(now, (bytes * 8 * WORK_PER_BIT).saturating_sub(self.spare));
        self.spare = 0;
    }

    /// Continues with a packet that has `left` work to do.
    pub(crate) fn resume(&mut self, now: Nanos, left: u64) {
        self.left = left;
        self.busy = true;
        self.since = now;
        self.refresh(now);
    }

    /// Returns the time of the next call of [`run`](Self::run).
    pub(crate) fn event(&self) -> Nanos {
        self.event
    }

    /// Serves until `now`, at most [`event`](Self::event); returns `true` if the packet is
    /// complete.
    pub(crate) fn run(&mut self, now: Nanos) -> bool {
        let done = match self.bps {
            None => u128::from(self.left),
            Some(bps) => u128::from(bps) * u128::from(now - self.since),
        };
        self.since = now;
        let finished = done >= u128::from(self.left);
        if finished {
            // Less than one nanosecond's work, because `event` is the first nanosecond that suffices.
            self.spare = (done - u128::from(self.left)) as u64;
            (self.left, self.busy) = (0, false);
        } else {
            self.left -= done as u64;
        }
        self.refresh(now);
        finished
    }

    /// Stops in the middle of a packet and returns its remaining work.
    pub(crate) fn pause(&mut self, now: Nanos) -> Option<u64> {
        if !self.busy || self.run(now) {
            return None;
        }
        self.busy = false;
        self.event = NEVER;
        Some(self.left)
    }

    /// Returns the bits per second at `now`; `None` means unlimited.
    pub(crate) fn rate(&self, now: Nanos) -> Option<u64> {
        self.outlook(now).0
    }

    /// Returns the rate at `now`, and the time until which it holds.
    pub(crate) fn outlook(&self, now: Nanos) -> (Option<u64>, Nanos) {
        scaled(&self.pace, self.share, now)
    }

    fn refresh(&mut self, now: Nanos) {
        if now >= self.until {
            (self.bps, self.until) = scaled(&self.pace, self.share, now);
        }
        self.event = match self.bps {
            _ if !self.busy => NEVER,
            None => now,
            Some(0) => self.until,
            Some(bps) => self.until.min(now.saturating_add(self.left.div_ceil(bps))),
        };
    }
}

/// Returns the share of a pace at `now`, and the time until which it holds.
fn scaled(pace: &Pace, share: Ratio, now: Nanos) -> (Option<u64>, Nanos) {
    let (bps, until) = pace.at(now);
    if share == Ratio::ONE {
        return (bps, until);
    }
    let part = |bps| u128::from(bps) * u128::from(share.billionths()) / u128::from(Ratio::ONE.billionths());
    // The result is at most the pace itself, which is 64 bits.
    (bps.map(|bps: u64| part(bps) as u64), until)
}

/// Service of the queue.
#[derive(Debug, Clone)]
pub(crate) enum Server {
    Fluid(Fluid),
    Opportunities(Opportunities),
}

impl Server {
    /// Returns `None` if a trace has not been loaded.
    pub(crate) fn new(config: &RateConfig) -> Option<Self> {
        let pace = match config {
            RateConfig::Unlimited => Pace::Unlimited,
            RateConfig::Fixed(rate) => Pace::Fixed(rate.bps()),
            RateConfig::Series(series) if series.unread().is_some() => return None,
            RateConfig::Series(series) => Pace::Series(series.clone()),
            RateConfig::Mahimahi { trace, once, .. } => {
                return Some(Self::Opportunities(Opportunities::new(trace.clone()?, *once)));
            }
        };
        Some(Self::Fluid(Fluid::new(pace, Ratio::ONE, 0)))
    }

    /// Returns the bits per second at `now`; `None` means unlimited.
    pub(crate) fn rate(&self, now: Nanos) -> Option<u64> {
        match self {
            Self::Fluid(fluid) => fluid.rate(now),
            Self::Opportunities(trace) => Some(trace.rate_around(now)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finish(fluid: &mut Fluid) -> Nanos {
        loop {
            let at = fluid.event();
            if fluid.run(at) {
                return at;
            }
        }
    }

    #[test]
    fn a_packet_that_meets_a_step_is_served_at_both_rates() {
        let steps = vec![
            (Span::from_micros(0), Rate::from_bps(12_000_000)),
            (Span::from_micros(500), Rate::from_bps(6_000_000)),
        ];
        let mut fluid = Fluid::new(Pace::Series(Series::new(steps, None).unwrap()), Ratio::ONE, 0);
        fluid.begin(0, 1_500);
        assert_eq!(finish(&mut fluid), 1_500_000, "half at 12 Mbit/s in 0.5 ms, half at 6 Mbit/s in 1 ms");
    }

    #[test]
    fn a_busy_link_does_not_drift_by_rounding() {
        let mut fluid = Fluid::new(Pace::Fixed(7_000_001), Ratio::ONE, 0);
        let (packets, mut now) = (10_000u64, 0);
        for _ in 0..packets {
            fluid.begin(now, 1_111);
            now = finish(&mut fluid);
        }
        assert_eq!(now, (packets * 1_111 * 8 * WORK_PER_BIT).div_ceil(7_000_001));
    }

    #[test]
    fn a_ramp_sends_its_area() {
        let second = 1_000_000_000;
        let mut fluid =
            Fluid::new(Pace::Ramp { from: 0, to: 20_000_000, start: 0, end: second }, Ratio::ONE, 0);
        fluid.begin(0, 1_250_000);
        let took = finish(&mut fluid);
        // Ten megabits are the area under the whole ramp; the steps of 1 ms lag it by 0.05 %.
        assert!(took > second && took < second + second / 1_000, "{took}");
    }

    #[test]
    fn a_rate_of_nothing_waits_for_the_next_step() {
        let steps = vec![
            (Span::from_micros(0), Rate::from_bps(0)),
            (Span::from_millis(5), Rate::from_bps(8_000_000)),
        ];
        let mut fluid = Fluid::new(Pace::Series(Series::new(steps, None).unwrap()), Ratio::ONE, 0);
        fluid.begin(0, 1_000);
        assert_eq!(finish(&mut fluid), 6_000_000);
    }

    #[test]
    fn the_mean_rate_weighs_by_time() {
        let config: RateConfig = "20mbps".parse().unwrap();
        assert_eq!(config.mean_bps(), Some(20_000_000));
        let at = Span::from_millis;
        let steps =
            vec![(at(0), Rate::from_bps(10)), (at(30), Rate::from_bps(50)), (at(40), Rate::from_bps(9))];
        assert_eq!(mean(&steps), Some(20));
    }
}
