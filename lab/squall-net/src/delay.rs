//! The path after the serialiser: delay, jitter and the packets in flight.

use std::collections::VecDeque;

use rand_pcg::{Pcg64Mcg, rand_core::Rng};
use serde::Deserialize;
use squall_units::{Rate, Span};

use crate::{
    form::{TextOrTable, text_or_table},
    series::{Series, SeriesTable},
    time::{NANOS_PER_MILLI, NEVER, Nanos, micros_before, nanos},
};

/// One-way propagation delay. Default: none.
///
/// In files: `"15ms"`, `{ steps = [["0s", "15ms"], ["5s", "40ms"]] }` or
/// `{ csv = "ping.csv", column = "rtt_ms", scale = 0.5 }`.
#[derive(Debug, Clone, PartialEq)]
pub enum DelayConfig {
    /// Always this delay.
    Fixed(Span),
    /// The delay changes in steps; a packet keeps the delay of the time at which it left the
    /// serialiser.
    Series(Series<Span>),
}

impl Default for DelayConfig {
    fn default() -> Self {
        Self::Fixed(Span::default())
    }
}

text_or_table!(DelayConfig, JitterConfig);

impl TextOrTable for DelayConfig {
    const EXPECTED: &'static str = "a delay such as \"15ms\", or a table with steps or csv";

    type Table = SeriesTable<Span>;

    fn from_text(text: &str) -> Result<Self, String> {
        text.parse().map(Self::Fixed).map_err(|error: squall_units::UnitError| error.to_string())
    }

    fn from_table(table: Self::Table) -> Result<Self, String> {
        table.series()?.map(Self::Series).ok_or_else(|| "a delay is given by steps or csv".to_owned())
    }
}

impl DelayConfig {
    /// Returns the delay at time 0 (zero if a file has not been loaded).
    pub fn initial(&self) -> Span {
        match self {
            Self::Fixed(delay) => *delay,
            Self::Series(series) => series.steps().first().map_or_else(Span::default, |(_, delay)| *delay),
        }
    }
}

/// Random change of each packet's delay. Default: none.
///
/// In files: `"3ms"` (uniform, in order), or `{ normal = "3ms", reorder = true }`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JitterConfig {
    /// Distribution of the change.
    pub shape: JitterShape,
    /// Size: the bound of a uniform change, the standard deviation of a normal one.
    pub size: Span,
    /// A packet may overtake another. Otherwise it waits for those before it.
    pub reorder: bool,
}

/// Distribution of jitter around the delay. The sum is never below zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JitterShape {
    /// Evenly between minus and plus the size.
    #[default]
    Uniform,
    /// Normal with the size as its standard deviation, cut at six standard deviations.
    Normal,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JitterTable {
    uniform: Option<Span>,
    normal: Option<Span>,
    #[serde(default)]
    reorder: bool,
}

impl TextOrTable for JitterConfig {
    const EXPECTED: &'static str = "a jitter such as \"3ms\", or a table with uniform or normal, and reorder";

    type Table = JitterTable;

    fn from_text(text: &str) -> Result<Self, String> {
        let (shape, text) = match text.trim().split_once(':') {
            Some(("normal", text)) => (JitterShape::Normal, text),
            Some(("uniform", text)) => (JitterShape::Uniform, text),
            _ => (JitterShape::Uniform, text),
        };
        let size = text.parse().map_err(|error: squall_units::UnitError| error.to_string())?;
        Ok(Self { shape, size, reorder: false })
    }

    fn from_table(table: JitterTable) -> Result<Self, String> {
        let reorder = table.reorder;
        match (table.uniform, table.normal) {
            (Some(size), None) => Ok(Self { shape: JitterShape::Uniform, size, reorder }),
            (None, Some(size)) => Ok(Self { shape: JitterShape::Normal, size, reorder }),
            _ => Err("a jitter is given by either uniform or normal".to_owned()),
        }
    }
}

/// Delay as a function of time.
#[derive(Debug, Clone)]
pub(crate) enum Delay {
    Fixed(Span),
    Series(Series<Span>),
    Ramp { from: Span, to: Span, start: Nanos, end: Nanos },
}

impl Delay {
    /// Returns `None` if a series has not been loaded.
    pub(crate) fn new(config: &DelayConfig) -> Option<Self> {
        match config {
            DelayConfig::Fixed(delay) => Some(Self::Fixed(*delay)),
            DelayConfig::Series(series) if series.unread().is_some() => None,
            DelayConfig::Series(series) => Some(Self::Series(series.clone())),
        }
    }

    /// Returns the least delay from `now` until a later time, and that time. A ramp is reported in
    /// steps of a millisecond.
    pub(crate) fn outlook(&self, now: Nanos) -> (Nanos, Nanos) {
        match self {
            Self::Series(series) => (self.at(now), series.at(micros_before(now)).1.map_or(NEVER, nanos)),
            Self::Ramp { end, .. } if now < *end => {
                let until = now.saturating_add(NANOS_PER_MILLI).min(*end);
                (self.at(now).min(self.at(until)), until)
            }
            Self::Fixed(_) | Self::Ramp { .. } => (self.at(now), NEVER),
        }
    }

    pub(crate) fn at(&self, now: Nanos) -> Nanos {
        match self {
            Self::Fixed(delay) => nanos(delay.micros()),
            Self::Series(series) => nanos(series.at(micros_before(now)).0.micros()),
            Self::Ramp { to, end, .. } if now >= *end => nanos(to.micros()),
            Self::Ramp { from, to, start, end } => {
                let (from, to) = (i128::from(nanos(from.micros())), i128::from(nanos(to.micros())));
                // The result lies between two 64-bit values.
                (from + (to - from) * i128::from(now - start) / i128::from(end - start)) as Nanos
            }
        }
    }
}

/// Draws the jitter of each packet.
#[derive(Debug, Clone)]
pub(crate) struct Jitter {
    config: JitterConfig,
    random: Pcg64Mcg,
}

impl Jitter {
    pub(crate) fn new(config: JitterConfig, random: Pcg64Mcg) -> Self {
        Self { config, random }
    }

    /// Returns `delay` changed by one draw.
    pub(crate) fn apply(&mut self, delay: Nanos) -> Nanos {
        let size = nanos(self.config.size.micros());
        if size == 0 {
            return delay;
        }
        let change = match self.config.shape {
            JitterShape::Uniform => self.uniform() * size as f64,
            // A draw from -1..1 halved has variance 1/12: the sum of twelve is close to normal with
            // variance 1, and, unlike logarithms and cosines, identical on every platform.
            JitterShape::Normal => (0..12).map(|_| self.uniform()).sum::<f64>() / 2.0 * size as f64,
        };
        (delay as f64 + change).max(0.0) as Nanos
    }

    /// Returns the least result that any draw can have for `delay`.
    pub(crate) fn least(&self, delay: Nanos) -> Nanos {
        let size = nanos(self.config.size.micros());
        let most = match self.config.shape {
            JitterShape::Uniform => size,
            JitterShape::Normal => size.saturating_mul(6),
        };
        delay.saturating_sub(most)
    }

    /// Returns a uniform draw from -1..1.
    fn uniform(&mut self) -> f64 {
        const SCALE: f64 = 1.0 / (1u64 << 52) as f64;
        (self.random.next_u64() >> 11) as f64 * SCALE - 1.0
    }
}

/// Items in transit, each due at its own time. Items due at the same time stay in the order of
/// entry.
#[derive(Debug, Clone)]
pub(crate) struct Line<P> {
    flying: VecDeque<(Nanos, P)>,
    reorder: bool,
}

impl<P> Line<P> {
    pub(crate) fn new(reorder: bool) -> Self {
        Self { flying: VecDeque::new(), reorder }
    }

    /// Adds an item due at `due`, or with its predecessor if that is later and overtaking is not
    /// allowed.
    pub(crate) fn enter(&mut self, due: Nanos, thing: P) {
        match self.flying.back() {
            Some((last, _)) if *last > due => {
                let last = *last;
                if self.reorder {
                    let place = self.flying.partition_point(|(at, _)| *at <= due);
                    self.flying.insert(place, (due, thing));
                } else {
                    self.flying.push_back((last, thing));
                }
            }
            _ => self.flying.push_back((due, thing)),
        }
    }

    pub(crate) fn next(&self) -> Nanos {
        self.flying.front().map_or(NEVER, |(due, _)| *due)
    }

    pub(crate) fn pop(&mut self) -> Option<(Nanos, P)> {
        self.flying.pop_front()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &P> {
        self.flying.iter().map(|(_, thing)| thing)
    }

    pub(crate) fn len(&self) -> usize {
        self.flying.len()
    }

    /// `true` if the next item is certain: none that enters later can be due before it.
    pub(crate) fn settled(&self) -> bool {
        !self.reorder && !self.flying.is_empty()
    }
}

/// Bytes that fill `rate` for a round trip of twice `delay`.
pub(crate) fn bandwidth_delay_bytes(rate: Rate, delay: Span) -> u64 {
    let bytes = u128::from(rate.bps()) * 2 * u128::from(delay.micros()) / 8_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use rand_pcg::rand_core::SeedableRng;

    use super::*;

    fn draws(text: &str) -> Vec<f64> {
        let mut jitter = Jitter::new(text.parse().unwrap(), Pcg64Mcg::seed_from_u64(7));
        (0..20_000).map(|_| jitter.apply(nanos(50_000)) as f64 / 1e6 - 50.0).collect()
    }

    fn deviation(values: &[f64]) -> f64 {
        (values.iter().map(|value| value * value).sum::<f64>() / values.len() as f64).sqrt()
    }

    #[test]
    fn uniform_jitter_fills_its_range() {
        let draws = draws("3ms");
        assert!(draws.iter().all(|draw| draw.abs() <= 3.0));
        assert!((deviation(&draws) - 3.0 / 3f64.sqrt()).abs() < 0.03, "{}", deviation(&draws));
    }

    #[test]
    fn normal_jitter_has_its_deviation() {
        let deviation = deviation(&draws("normal:3ms"));
        assert!((deviation - 3.0).abs() < 0.06, "{deviation}");
    }

    #[test]
    fn only_a_reordering_line_lets_overtake() {
        for (reorder, expected) in [(false, ["slow", "quick"]), (true, ["quick", "slow"])] {
            let mut line = Line::new(reorder);
            line.enter(9, "slow");
            line.enter(5, "quick");
            assert_eq!([line.pop().unwrap().1, line.pop().unwrap().1], expected);
        }
    }

    #[test]
    fn a_ramp_passes_its_middle() {
        let delay =
            Delay::Ramp { from: Span::from_millis(10), to: Span::from_millis(30), start: 0, end: 100 };
        assert_eq!([delay.at(0), delay.at(50), delay.at(100)], [10_000_000, 20_000_000, 30_000_000]);
    }
}
