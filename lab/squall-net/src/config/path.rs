//! A path: two links, and the events of both.

use std::{path::Path, str::FromStr};

use serde::{Deserialize, Serialize};
use squall_trace::TraceError;
use squall_units::{Rate, Ratio, Role, Size, Span};

use super::{
    LinkConfig, pairs,
    patch::{LinkPatch, flag},
};
use crate::{
    delay::{DelayConfig, JitterConfig},
    ecn::EcnTreatment,
    error::ConfigError,
    form::{self, TextOrTable},
    loss::LossConfig,
    policer::PolicerConfig,
    queue::QueueConfig,
    radio::{RadioConfig, Source},
    rate::RateConfig,
    script::{LinkEvent, OutageMode},
    stall::{self, StallConfig},
};

/// One of the two directions of a path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From the client to the server.
    Up,
    /// From the server to the client, the direction of most flows.
    #[default]
    Down,
}

/// A path between client and server.
///
/// In TOML the fields of a link may stand next to the name and then apply to both directions; `up`
/// and `down` override them. As text: `name=wifi,rate=20mbps,up.rate=5mbps,metered`.
///
/// ```
/// let path: squall_net::PathConfig = toml::from_str(r#"
///     name = "wifi"
///     rate = "20mbps"
///     delay = "15ms"
///     up = { rate = "5mbps" }
///     events = [{ at = "5s", outage = "3s" }, { at = "16s", rebind = true }]
/// "#).unwrap();
/// assert_eq!(path.up.rate.mean_bps(), Some(5_000_000));
/// ```
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "PathTable")]
pub struct PathConfig {
    /// Name in reports. Default: empty, which a network replaces by `path0`, `path1`, ...
    pub name: String,
    /// From the client to the server.
    pub up: LinkConfig,
    /// From the server to the client.
    pub down: LinkConfig,
    /// Traffic on the path costs money. Default: no.
    pub metered: bool,
    /// Role of the path in sessions. It does not affect the links. Default: primary.
    pub role: Role,
    /// Limit of the rate at which each side of a session sends on the path. It does not affect the
    /// links. Default: no limit.
    pub rate_limit: Option<Rate>,
    /// Burst in bytes allowed under `rate_limit`. Default: 100 ms at that rate, at least 15 kB.
    pub rate_burst: Option<Size>,
    /// Bytes that a session may send and receive on the path in each `quota_period`. Default: no quota.
    pub quota: Option<Size>,
    /// Period of `quota`, from the start of the run. Default: the whole run.
    pub quota_period: Option<Span>,
    /// Name of another path whose queue and serialiser the packets of this path pass, in both
    /// directions, before their own loss and delay. Default: none.
    pub bottleneck: Option<String>,
    /// Radio that both directions depend on. The rate of the link is then that of the best
    /// conditions. Default: none.
    pub radio: Option<RadioConfig>,
    /// Random intervals in which both directions carry less, or nothing. Not allowed with a shared
    /// bottleneck. Default: none.
    pub stalls: Vec<StallConfig>,
    /// Changes over time, in one or both directions.
    pub events: Vec<PathEvent>,
}

/// An event of a path at a given time. One event may change several things.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathEvent {
    /// Time from the start of the run.
    pub at: Span,
    /// Affected direction. Default: both.
    pub direction: Option<Direction>,
    /// As [`LinkEvent::rate`].
    pub rate: Option<Rate>,
    /// As [`LinkEvent::delay`].
    pub delay: Option<Span>,
    /// As [`LinkEvent::over`].
    pub over: Option<Span>,
    /// As [`LinkEvent::loss`].
    pub loss: Option<LossConfig>,
    /// As [`LinkEvent::ecn`].
    pub ecn: Option<EcnTreatment>,
    /// As [`LinkEvent::mtu`].
    pub mtu: Option<Size>,
    /// As [`LinkEvent::outage`].
    pub outage: Option<Span>,
    /// A NAT on the path drops its mapping: from now on the server sees the client at another port,
    /// and packets to the old one are lost. Default: no.
    #[serde(default)]
    pub rebind: bool,
}

impl PathEvent {
    /// Returns the part of the event that concerns links. `None` for a mere rebinding. An empty
    /// event is kept, so that the link rejects it.
    fn for_link(&self) -> Option<LinkEvent> {
        let Self { at, rate, delay, over, loss, ecn, mtu, outage, rebind, .. } = self.clone();
        let event = LinkEvent { at, rate, delay, over, loss, ecn, mtu, outage };
        let only_rebind = rebind && event == LinkEvent { at, ..LinkEvent::default() };
        (!only_rebind).then_some(event)
    }
}

/// `"none"` is for experiments whose points set the radio of a path that has none.
impl TextOrTable for Option<RadioConfig> {
    const EXPECTED: &'static str = "the table of a radio, or \"none\"";

    type Table = RadioConfig;

    fn from_text(text: &str) -> Result<Self, String> {
        if text == "none" { Ok(None) } else { Err(format!("{text:?} is no radio: a table, or \"none\"")) }
    }

    fn from_table(table: RadioConfig) -> Result<Self, String> {
        Ok(Some(table))
    }
}

/// The file form of a path: the fields of a link next to those of the path.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct PathTable {
    name: String,
    metered: bool,
    role: Role,
    rate_limit: Option<Rate>,
    rate_burst: Option<Size>,
    quota: Option<Size>,
    quota_period: Option<Span>,
    bottleneck: Option<String>,
    #[serde(deserialize_with = "form::deserialize")]
    radio: Option<RadioConfig>,
    stalls: Vec<StallConfig>,
    up: LinkPatch,
    down: LinkPatch,
    events: Vec<PathEvent>,
    rate: Option<RateConfig>,
    delay: Option<DelayConfig>,
    jitter: Option<JitterConfig>,
    loss: Option<LossConfig>,
    duplicate: Option<Ratio>,
    corrupt: Option<Ratio>,
    ecn: Option<EcnTreatment>,
    mtu: Option<Size>,
    queue: Option<QueueConfig>,
    policer: Option<PolicerConfig>,
    outage: Option<OutageMode>,
    delay_first: Option<bool>,
}

impl From<PathTable> for PathConfig {
    fn from(table: PathTable) -> Self {
        let both = LinkPatch {
            rate: table.rate,
            delay: table.delay,
            jitter: table.jitter,
            loss: table.loss,
            duplicate: table.duplicate,
            corrupt: table.corrupt,
            ecn: table.ecn,
            mtu: table.mtu,
            queue: table.queue,
            policer: table.policer,
            outage: table.outage,
            delay_first: table.delay_first,
            ..LinkPatch::default()
        };
        Self {
            name: table.name,
            up: table.up.or(both.clone()).into(),
            down: table.down.or(both).into(),
            metered: table.metered,
            role: table.role,
            rate_limit: table.rate_limit,
            rate_burst: table.rate_burst,
            quota: table.quota,
            quota_period: table.quota_period,
            bottleneck: table.bottleneck,
            radio: table.radio,
            stalls: table.stalls,
            events: table.events,
        }
    }
}

impl FromStr for PathConfig {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let (mut table, mut both) = (PathTable::default(), LinkPatch::default());
        for (key, value) in pairs(text)? {
            match key.split_once('.') {
                Some(("up", key)) => table.up.set(key, value)?,
                Some(("down", key)) => table.down.set(key, value)?,
                _ if key == "name" => value.clone_into(&mut table.name),
                _ if key == "metered" => table.metered = flag(key, value)?,
                _ if key == "bottleneck" => table.bottleneck = Some(value.to_owned()),
                _ => both.set(key, value)?,
            }
        }
        table.up = table.up.or(both.clone());
        table.down = table.down.or(both);
        Ok(table.into())
    }
}

impl PathConfig {
    /// Creates a path with the same link in both directions.
    pub fn symmetric(name: impl Into<String>, link: LinkConfig) -> Self {
        Self {
            name: name.into(),
            up: link.clone(),
            down: link,
            metered: false,
            role: Role::Primary,
            rate_limit: None,
            rate_burst: None,
            quota: None,
            quota_period: None,
            bottleneck: None,
            radio: None,
            stalls: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Returns the path with its script delayed by this time: until then links and radio have their
    /// initial state. Levels that repeat or are random, and traces, have no start and are left as
    /// they are.
    #[must_use]
    pub fn delayed(&self, by: Span) -> Self {
        let mut path = self.clone();
        let links = [&mut path.up.events, &mut path.down.events].into_iter().flatten();
        let times = path.events.iter_mut().map(|event| &mut event.at);
        for at in times.chain(links.map(|event| &mut event.at)) {
            *at = Span::from_micros(at.micros() + by.micros());
        }
        let source = path.radio.as_mut().map(|radio| &mut radio.source);
        if let Some(Source::Series(levels) | Source::Trace(levels)) = source {
            levels.delay(by);
        }
        path
    }

    /// Returns one direction with the path's events that concern it.
    pub fn link(&self, direction: Direction) -> LinkConfig {
        let mut link = match direction {
            Direction::Up => self.up.clone(),
            Direction::Down => self.down.clone(),
        };
        let concerned = self.events.iter().filter(|event| event.direction.is_none_or(|one| one == direction));
        link.events.extend(concerned.filter_map(PathEvent::for_link));
        link
    }

    /// Returns the times of NAT rebinding, in order.
    pub fn rebinds(&self) -> Vec<Span> {
        let mut times: Vec<Span> =
            self.events.iter().filter(|event| event.rebind).map(|event| event.at).collect();
        times.sort_unstable();
        times
    }

    /// Reads the files that both links and the radio name, relative to the folder `base`.
    ///
    /// # Errors
    ///
    /// The file that cannot be read, or its invalid line.
    pub fn load(&mut self, base: &Path) -> Result<(), TraceError> {
        self.up.load(base)?;
        self.down.load(base)?;
        self.radio.as_mut().map_or(Ok(()), |radio| radio.load(base))
    }

    /// Checks that the values of both directions, the radio and the stalls are in range and
    /// consistent.
    ///
    /// # Errors
    ///
    /// The first invalid field, with the path's name.
    pub fn check(&self) -> Result<(), ConfigError> {
        [Direction::Up, Direction::Down]
            .into_iter()
            .try_for_each(|direction| self.link(direction).check())
            .and_then(|()| self.check_radio())
            .and_then(|()| stall::check(&self.stalls, [&self.up.rate, &self.down.rate]))
            .map_err(|problem| ConfigError::Path { path: self.name.clone(), problem: Box::new(problem) })
    }

    /// Checks the radio, also in combination with the links.
    pub(crate) fn check_radio(&self) -> Result<(), ConfigError> {
        let Some(radio) = &self.radio else { return Ok(()) };
        radio.check()?;
        if radio.is_trace() {
            return Ok(());
        }
        if let Some(owner) = &self.bottleneck {
            return Err(ConfigError::SharedRadio(owner.clone()));
        }
        for (direction, link) in [("up", &self.up), ("down", &self.down)] {
            let rate = match link.rate {
                RateConfig::Fixed(_) | RateConfig::Series(_) => continue,
                RateConfig::Unlimited => "none",
                RateConfig::Mahimahi { .. } => "a mahimahi trace",
            };
            return Err(ConfigError::Ceiling { direction, rate });
        }
        Ok(())
    }
}
