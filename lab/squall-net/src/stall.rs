//! Random stalls: intervals in which a path carries less, or nothing.
//!
//! If several clients share a Wi-Fi channel, the others occupy it now and then for tens to hundreds
//! of milliseconds; waiting packets are sent late, not lost. AUGUR (NSDI 2024) finds this behind
//! the tail of frame delays: the round trip is over 200 ms before half to two thirds of its late
//! frames (§2.2, Fig. 6), most packets of such frames are not lost (Fig. 7), and a degradation
//! makes frames late for hundreds of milliseconds (§3.6.2, Fig. 11).

use std::{fmt, str::FromStr};

use rand_pcg::{
    Pcg64Mcg,
    rand_core::{Rng, SeedableRng},
};
use serde::Deserialize;
use squall_trace::Micros;
use squall_units::{Ratio, Span};

use crate::{
    error::ConfigError,
    rate::RateConfig,
    time::{NEVER, Nanos, micros_before, nanos},
};

/// Minimum duration of a stall and of the time between two, so that a second has at most a thousand
/// changes.
const SHORTEST: Micros = 1_000;

/// Maximum duration of a stall, and of the mean time between two.
const LONGEST: Micros = 24 * 3_600 * 1_000_000;

/// Maximum number of kinds of stalls of a path.
pub const MAX_STALLS: usize = 8;

/// One kind of stall of a path. Stalls occur at random, after exponentially distributed times, and
/// simultaneously in both directions.
///
/// ```
/// let path: squall_net::PathConfig = toml::from_str(r#"
///     name = "wifi"
///     rate = "40mbps"
///     outage = "hold"
///     stalls = [
///         { every = "20s", length = "50ms..600ms" },
///         { every = "1min", length = "2s", left = "20%" },
///     ]
/// "#).unwrap();
/// assert_eq!(path.stalls[1].left.as_f64(), 0.2);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StallConfig {
    /// Mean time from the end of one to the start of the next, 1 ms to 24 h.
    pub every: Span,
    /// Duration.
    pub length: StallLength,
    /// Share of the rate that is left. Default: nothing, which is an outage and treats packets
    /// according to the link's `outage`.
    #[serde(default)]
    pub left: Ratio,
}

/// Duration of stalls: `"80ms"`, or `"50ms..400ms"` for a random one between these, uniform in the
/// logarithm: equally many from 50 to 100 ms as from 100 to 200.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct StallLength {
    /// Minimum, at least 1 ms.
    pub least: Span,
    /// Maximum, at most 24 h.
    pub most: Span,
}

impl FromStr for StallLength {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let span = |text: &str| {
            text.trim().parse::<Span>().map_err(|problem| ConfigError::Value(problem.to_string()))
        };
        let (least, most) = text.split_once("..").unwrap_or((text, text));
        Ok(Self { least: span(least)?, most: span(most)? })
    }
}

impl TryFrom<String> for StallLength {
    type Error = ConfigError;

    fn try_from(text: String) -> Result<Self, ConfigError> {
        text.parse()
    }
}

impl fmt::Display for StallLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.least == self.most {
            return write!(f, "{}", self.least);
        }
        write!(f, "{}..{}", self.least, self.most)
    }
}

impl StallConfig {
    /// Checks that the values are in range and possible with this rate.
    fn check(&self, rate: &RateConfig) -> Result<(), String> {
        let StallLength { least, most } = self.length;
        for (word, span) in [("every", self.every), ("length", least), ("length", most)] {
            if !(SHORTEST..=LONGEST).contains(&span.micros()) {
                return Err(format!("{word}: {span} is not within 1 ms and 24 h"));
            }
        }
        if least > most {
            return Err(format!("length: {least} is more than {most}"));
        }
        let shareable = matches!(rate, RateConfig::Fixed(_) | RateConfig::Series(_));
        if self.left > Ratio::ZERO && !shareable {
            return Err("left: there is a share only of a rate that is fixed or in steps".into());
        }
        Ok(())
    }
}

/// Returns the first error in the stalls of a path with these rates.
pub(crate) fn check(stalls: &[StallConfig], rates: [&RateConfig; 2]) -> Result<(), ConfigError> {
    let refuse = |problem| ConfigError::Field { field: "stalls".into(), problem };
    if stalls.len() > MAX_STALLS {
        return Err(refuse(format!("{} kinds, expected at most {MAX_STALLS}", stalls.len())));
    }
    for stall in stalls {
        rates.into_iter().try_for_each(|rate| stall.check(rate)).map_err(refuse)?;
    }
    Ok(())
}

/// All stalls of a path over time, drawn on demand.
#[derive(Debug, Clone)]
pub(crate) struct Stalls(Vec<Kind>);

#[derive(Debug, Clone)]
struct Kind {
    config: StallConfig,
    random: Pcg64Mcg,
    stalled: bool,
    /// Time of the next change.
    until: Micros,
}

impl Stalls {
    /// Creates stalls; the same seed gives the same ones.
    pub(crate) fn new(configs: &[StallConfig], seed: u64) -> Self {
        let kind = |(index, config): (usize, &StallConfig)| {
            let seed = seed.wrapping_mul(MAX_STALLS as u64).wrapping_add(index as u64);
            let mut random = Pcg64Mcg::seed_from_u64(seed);
            let until = gap(config, &mut random);
            Kind { config: *config, random, stalled: false, until }
        };
        Self(configs.iter().enumerate().map(kind).collect())
    }

    /// Returns the time of the next change.
    pub(crate) fn next(&self) -> Nanos {
        self.0.iter().map(|kind| nanos(kind.until)).min().unwrap_or(NEVER)
    }

    /// Returns the share of the rate from `at` on, which must not decrease: the least that any kind
    /// leaves.
    pub(crate) fn left(&mut self, at: Nanos) -> Ratio {
        let now = micros_before(at);
        self.0.iter_mut().map(|kind| kind.left(now)).min().unwrap_or(Ratio::ONE)
    }
}

impl Kind {
    fn left(&mut self, now: Micros) -> Ratio {
        while self.until <= now {
            self.stalled = !self.stalled;
            let config = &self.config;
            let length =
                if self.stalled { length(config, &mut self.random) } else { gap(config, &mut self.random) };
            self.until = self.until.saturating_add(length);
        }
        if self.stalled { self.config.left } else { Ratio::ONE }
    }
}

/// Draws an exponentially distributed duration, by inversion.
fn gap(config: &StallConfig, random: &mut Pcg64Mcg) -> Micros {
    let drawn = -(1.0 - uniform(random)).ln() * config.every.micros() as f64;
    (drawn as Micros).max(SHORTEST)
}

fn length(config: &StallConfig, random: &mut Pcg64Mcg) -> Micros {
    let (least, most) = (config.length.least.micros(), config.length.most.micros());
    let drawn = least as f64 * (most as f64 / least as f64).powf(uniform(random));
    (drawn as Micros).clamp(least, most)
}

/// Draws from 0 (inclusive) to 1 (exclusive): the 53 bits that a double holds.
fn uniform(random: &mut Pcg64Mcg) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn config(every: u64, least: u64, most: u64) -> StallConfig {
        let span = Span::from_millis;
        StallConfig {
            every: span(every),
            length: StallLength { least: span(least), most: span(most) },
            left: Ratio::ZERO,
        }
    }

    /// Returns start and end of every stall up to a time.
    fn drawn(configs: &[StallConfig], seed: u64, end: Micros) -> Vec<(Micros, Micros)> {
        let mut stalls = Stalls::new(configs, seed);
        let (mut found, mut begin) = (Vec::new(), None);
        while stalls.next() < nanos(end) {
            let at = stalls.next();
            match (stalls.left(at) < Ratio::ONE, begin) {
                (true, None) => begin = Some(micros_before(at)),
                (false, Some(from)) => {
                    found.push((from, micros_before(at)));
                    begin = None;
                }
                _ => {}
            }
        }
        found
    }

    proptest! {
        #[test]
        fn stalls_keep_to_their_bounds(
            every in 1u64..5_000, least in 1u64..500, more in 0u64..2_000, seed in any::<u64>()
        ) {
            let config = config(every, least, least + more);
            let stalls = drawn(&[config], seed, 60_000_000);
            prop_assert_eq!(&stalls, &drawn(&[config], seed, 60_000_000));
            for (from, to) in &stalls {
                prop_assert!((least * 1_000..=(least + more) * 1_000).contains(&(to - from)));
            }
            for pair in stalls.windows(2) {
                prop_assert!(pair[1].0 >= pair[0].1 + SHORTEST);
            }
        }

        #[test]
        fn lengths_read_as_they_are_written(least in 1u64..1_000_000, more in 0u64..1_000_000) {
            let length = StallLength { least: Span::from_micros(least), most: Span::from_micros(least + more) };
            prop_assert_eq!(length.to_string().parse::<StallLength>().unwrap(), length);
        }
    }

    #[test]
    fn they_are_as_frequent_and_as_long_as_said() {
        let stalls = drawn(&[config(2_000, 100, 400)], 7, 40_000_000_000);
        let lengths: Vec<f64> = stalls.iter().map(|(from, to)| (to - from) as f64 / 1e3).collect();
        let mean = lengths.iter().sum::<f64>() / lengths.len() as f64;
        // (400 − 100) / ln 4, and half of them below the geometric mean.
        assert!((mean - 216.4).abs() < 3.0, "{mean}");
        let short = lengths.iter().filter(|length| **length < 200.0).count() as f64 / lengths.len() as f64;
        assert!((short - 0.5).abs() < 0.02, "{short}");
        let expected = 40_000.0 / (2.0 + 0.2164);
        assert!((stalls.len() as f64 / expected - 1.0).abs() < 0.03, "{} of {expected}", stalls.len());
    }

    #[test]
    fn of_several_kinds_the_worst_counts() {
        let half = StallConfig { left: Ratio::from_f64(0.5).unwrap(), ..config(1, 1_000_000, 1_000_000) };
        let mut stalls = Stalls::new(&[half, config(10_000, 100, 100)], 1);
        let mut seen = Vec::new();
        while stalls.next() < nanos(100_000_000) {
            seen.push(stalls.left(stalls.next()).as_f64());
        }
        seen.sort_by(f64::total_cmp);
        seen.dedup();
        assert_eq!(seen, [0.0, 0.5], "the first begins within the first milliseconds and never ends");
    }

    #[test]
    fn nonsense_is_refused() {
        let fixed: RateConfig = RateConfig::Fixed(squall_units::Rate::from_bps(1));
        let refused =
            |stall: StallConfig, rate: &RateConfig| check(&[stall], [rate, rate]).unwrap_err().to_string();
        assert_eq!(refused(config(0, 1, 1), &fixed), "stalls: every: 0us is not within 1 ms and 24 h");
        assert_eq!(refused(config(1, 5, 1), &fixed), "stalls: length: 5ms is more than 1ms");
        let share = StallConfig { left: Ratio::from_f64(0.5).unwrap(), ..config(1, 1, 1) };
        assert!(refused(share, &RateConfig::Unlimited).starts_with("stalls: left: there is a share only of"));
        assert!("5ms..x".parse::<StallLength>().is_err());
    }
}
