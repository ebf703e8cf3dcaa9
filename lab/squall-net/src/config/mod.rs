//! Links and paths as data: from TOML or JSON, or from a line of `key=value`.

mod patch;
mod path;

use std::path::Path;

use serde::Deserialize;
use squall_trace::TraceError;
use squall_units::{Rate, Ratio, Size};

use self::patch::LinkPatch;
pub use self::path::{Direction, PathConfig, PathEvent};
use crate::{
    delay::{DelayConfig, JitterConfig, bandwidth_delay_bytes},
    ecn::EcnTreatment,
    error::{ConfigError, EventError},
    loss::LossConfig,
    policer::PolicerConfig,
    queue::QueueConfig,
    rate::RateConfig,
    script::{LinkEvent, OutageMode, Script},
};

/// One direction of a link.
///
/// In TOML every field may be left out; as text it is `rate=20mbps,delay=15ms,queue=100kB,loss=0.1%`, with the
/// keys `rate`, `mahimahi` (a trace file), `delay`, `jitter`, `reorder`, `loss`, `duplicate`, `corrupt`, `ecn`,
/// `mtu`, `queue`, `policer`, `outage` and `delay_first`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "LinkPatch")]
pub struct LinkConfig {
    /// Rate of the serialiser. Default: unlimited.
    pub rate: RateConfig,
    /// Propagation delay. Default: none.
    pub delay: DelayConfig,
    /// Random change of the delay. Default: none.
    pub jitter: JitterConfig,
    /// Random loss. Default: none.
    pub loss: LossConfig,
    /// Share of packets that arrive twice. Default: none.
    pub duplicate: Ratio,
    /// Share of packets that arrive [damaged](crate::Damage). Default: none.
    pub corrupt: Ratio,
    /// Treatment of packets whose sender uses ECN. Default: the field is cleared, because
    /// acknowledgements that count marks are larger.
    pub ecn: EcnTreatment,
    /// Largest packet (IP size); larger ones are dropped. Default 1500 bytes, at most 65,535. A mahimahi trace
    /// takes no more than 1500.
    pub mtu: Size,
    /// The queue before the serialiser. Default: one and a half bandwidth-delay products, at least 30 kB.
    pub queue: QueueConfig,
    /// Drops packets beyond a rate before they reach the queue. Default: none.
    pub policer: Option<PolicerConfig>,
    /// Effect of outages on packets. Default: they are dropped.
    pub outage: OutageMode,
    /// The delay comes before queue and serialiser, as in a downlink behind a long path or in
    /// mpshell. Default: after them.
    pub delay_first: bool,
    /// Changes over time.
    pub events: Vec<LinkEvent>,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            rate: RateConfig::default(),
            delay: DelayConfig::default(),
            jitter: JitterConfig::default(),
            loss: LossConfig::default(),
            duplicate: Ratio::ZERO,
            corrupt: Ratio::ZERO,
            ecn: EcnTreatment::default(),
            mtu: Size::from_bytes(DEFAULT_MTU),
            queue: QueueConfig::default(),
            policer: None,
            outage: OutageMode::default(),
            delay_first: false,
            events: Vec::new(),
        }
    }
}

const DEFAULT_MTU: u64 = 1_500;

impl LinkConfig {
    /// Reads the files that rate, delay and loss name, relative to the folder `base`.
    ///
    /// # Errors
    ///
    /// The file that cannot be read, or its invalid line.
    pub fn load(&mut self, base: &Path) -> Result<(), TraceError> {
        self.rate.load(base)?;
        if let DelayConfig::Series(series) = &mut self.delay {
            series.load(base)?;
        }
        if let LossConfig::Series(series) = &mut self.loss {
            series.load(base)?;
        }
        Ok(())
    }

    /// Checks that all values are in range and consistent.
    ///
    /// # Errors
    ///
    /// The first invalid field.
    pub fn check(&self) -> Result<(), ConfigError> {
        if !(1..=u64::from(u16::MAX)).contains(&self.mtu.bytes()) {
            return Err(ConfigError::Mtu(self.mtu));
        }
        Script::new(&self.events)?;
        let mut rates: Vec<_> =
            self.events.iter().filter_map(|event| Some((event.at, event.over, event.rate?))).collect();
        rates.sort_by_key(|(at, ..)| *at);
        match (rates.first(), &self.rate) {
            (Some(&(at, Some(_), rate)), RateConfig::Unlimited) => {
                Err(EventError::FromUnlimited { at, rate }.into())
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn effective_mtu(&self) -> u32 {
        // `check` keeps the MTU within 16 bits.
        (self.mtu.bytes() as u32).min(self.mtu_bound())
    }

    /// Upper bound of the MTU, which no event of the link can exceed.
    pub(crate) fn mtu_bound(&self) -> u32 {
        let mahimahi = matches!(self.rate, RateConfig::Mahimahi { .. });
        if mahimahi { DEFAULT_MTU as u32 } else { u16::MAX.into() }
    }

    /// Default size of the queue: one and a half bandwidth-delay products, at least 30 kB.
    pub fn default_queue_bytes(&self) -> u64 {
        const LEAST: u64 = 30_000;
        let Some(bps) = self.rate.mean_bps() else { return u64::MAX };
        let product = bandwidth_delay_bytes(Rate::from_bps(bps), self.delay.initial());
        product.saturating_add(product / 2).max(LEAST)
    }
}

impl std::str::FromStr for LinkConfig {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let mut patch = LinkPatch::default();
        for (key, value) in pairs(text)? {
            patch.set(key, value)?;
        }
        Ok(patch.into())
    }
}

/// Splits a comma-separated text into `key=value` pairs; a key alone means `true`.
fn pairs(text: &str) -> Result<impl Iterator<Item = (&str, &str)>, ConfigError> {
    if text.trim().contains(char::is_control) {
        return Err(ConfigError::Value("a link is described in one line of plain text".into()));
    }
    Ok(text.split(',').map(str::trim).filter(|pair| !pair.is_empty()).map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, "true"));
        (key.trim(), value.trim())
    }))
}

#[cfg(test)]
mod tests {
    use squall_units::Span;

    use super::*;

    #[test]
    fn reads_the_comma_form() {
        let link: LinkConfig = "rate=20mbps,delay=15ms,queue=100kB,loss=0.1%".parse().unwrap();
        assert_eq!(link.rate, RateConfig::Fixed(Rate::from_bps(20_000_000)));
        assert_eq!(link.delay, DelayConfig::Fixed(Span::from_millis(15)));
        assert_eq!(link.queue, "100kB".parse().unwrap());
        assert_eq!(link.loss, LossConfig::Bernoulli(Ratio::from_billionths(1_000_000)));
        assert_eq!(link.mtu.bytes(), 1_500);
    }

    #[test]
    fn errors_name_the_key() {
        let error = |text: &str| text.parse::<LinkConfig>().unwrap_err().to_string();
        assert_eq!(
            error("rate=20mpbs"),
            "rate: \"20mpbs\" is not a rate: the unit must be one of bps, kbps, mbps or gbps"
        );
        assert_eq!(error("reorder=maybe"), "reorder: \"maybe\" is not true or false");
        assert!(error("speed=3").starts_with("unknown key \"speed\""));
        assert_eq!(error("spe\ned=3"), "a link is described in one line of plain text");
        let link: LinkConfig = "mtu=70000".parse().unwrap();
        assert_eq!(link.check().unwrap_err().to_string(), "mtu: 70kB is not between 1B and 65.535kB");
    }

    #[test]
    fn the_default_queue_follows_rate_and_delay() {
        let bytes = |text: &str| text.parse::<LinkConfig>().unwrap().default_queue_bytes();
        assert_eq!(bytes("rate=20mbps,delay=15ms"), 112_500);
        assert_eq!(bytes("rate=1mbps,delay=15ms"), 30_000);
        assert_eq!(bytes("delay=15ms"), u64::MAX);
    }
}
