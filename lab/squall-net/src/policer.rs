//! A policer: packets that exceed a rate are dropped at once, and none are queued.

use std::{fmt, str::FromStr};

use serde::Deserialize;
use squall_units::{Rate, Size, UnitError};

use crate::{rate::WORK_PER_BIT, time::Nanos};

/// A token bucket in front of a link, as used by mobile operators to enforce subscribers' rates
/// (RFC 2475 §2.3.3.4).
///
/// A packet passes at once if the bucket holds its bytes, and is dropped if not. The bucket fills
/// at the rate, is full at time 0, and never holds more than the burst.
///
/// In files and as text: `"20mbps:50kB"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct PolicerConfig {
    /// Long-term rate.
    pub rate: Rate,
    /// Burst that passes at once after a pause.
    pub burst: Size,
}

impl FromStr for PolicerConfig {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (rate, burst) = text
            .split_once(':')
            .ok_or_else(|| format!("\"{text}\" is not a rate and a burst such as \"20mbps:50kB\""))?;
        let text = |problem: UnitError| problem.to_string();
        Ok(Self { rate: rate.parse().map_err(text)?, burst: burst.parse().map_err(text)? })
    }
}

impl TryFrom<String> for PolicerConfig {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for PolicerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.rate, self.burst)
    }
}

/// The bucket of one link.
#[derive(Debug, Clone)]
pub(crate) struct Policer {
    rate: u128,
    /// Capacity of the bucket in billionths of a bit.
    most: u128,
    /// Current content in billionths of a bit.
    tokens: u128,
    at: Nanos,
}

impl Policer {
    pub(crate) fn new(config: PolicerConfig) -> Self {
        let most = work(config.burst.bytes());
        Self { rate: config.rate.bps().into(), most, tokens: most, at: 0 }
    }

    /// Returns `true` if a packet of this length passes, and takes its bytes from the bucket.
    pub(crate) fn passes(&mut self, now: Nanos, bytes: u32) -> bool {
        // The product of a rate and a time of 64 bits each does not overflow; its sum with the tokens may.
        self.tokens = (self.rate * u128::from(now - self.at)).saturating_add(self.tokens).min(self.most);
        self.at = now;
        let needed = work(bytes.into());
        let passes = needed <= self.tokens;
        if passes {
            self.tokens -= needed;
        }
        passes
    }
}

fn work(bytes: u64) -> u128 {
    u128::from(bytes) * 8 * u128::from(WORK_PER_BIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the bytes that pass within a second, if one packet of 1,000 bytes is sent in each
    /// millisecond.
    fn passed(policer: &mut Policer, second: u64) -> u64 {
        let millis = second * 1_000..(second + 1) * 1_000;
        millis.filter(|milli| policer.passes(milli * 1_000_000, 1_000)).count() as u64 * 1_000
    }

    #[test]
    fn the_burst_passes_at_once_and_the_rate_for_long() {
        let mut policer = Policer::new("4mbps:100kB".parse().unwrap());
        let at_once = (0..1_000).filter(|_| policer.passes(0, 1_000)).count();
        assert_eq!(at_once, 100, "nothing fills it meanwhile");
        assert_eq!(passed(&mut policer, 0), 499_000, "the first of each pair fails");
        assert_eq!(
            passed(&mut policer, 9),
            599_000,
            "what eight seconds filled is no more than the burst, and the last fails"
        );
    }

    #[test]
    fn it_does_not_overflow_and_a_rate_of_nothing_ends_with_the_burst() {
        let mut most =
            Policer::new(PolicerConfig { rate: Rate::from_bps(u64::MAX), burst: Size::from_bytes(u64::MAX) });
        assert!(most.passes(0, u32::MAX) && most.passes(u64::MAX, u32::MAX));
        let mut none = Policer::new("0bps:1kB".parse().unwrap());
        assert!(none.passes(0, 1_000) && !none.passes(u64::MAX, 1));
    }

    #[test]
    fn is_read_as_it_is_written() {
        let config: PolicerConfig = "20mbps:50kB".parse().unwrap();
        assert_eq!((config.rate.bps(), config.burst.bytes()), (20_000_000, 50_000));
        assert_eq!(config.to_string().parse(), Ok(config));
        let refused = |text: &str| text.parse::<PolicerConfig>().unwrap_err();
        assert_eq!(refused("20mbps"), "\"20mbps\" is not a rate and a burst such as \"20mbps:50kB\"");
        assert!(refused("fast:50kB").contains("fast") && refused("20mbps:much").contains("much"));
    }
}
