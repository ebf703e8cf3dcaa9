//! Configuration of a radio.

use std::path::Path;

use serde::{Deserialize, Deserializer, de};
use squall_signal::Technology;
use squall_trace::TraceError;
use squall_units::Span;

use super::{
    Canyon, CellularMap, Handover, Lead, LevelSeries, Rail, Source, Tunnel, Walk, WifiEdge, WifiMap,
    model::within,
};
use crate::error::ConfigError;

/// The radio of a path.
///
/// In TOML one of `series`, `trace`, `walk`, `wifi_edge`, `canyon`, `tunnel`, `rail` and `handover`
/// selects the source of the levels; all other fields are optional.
///
/// ```
/// let path: squall_net::PathConfig = toml::from_str(r#"
///     name = "wifi"
///     rate = "60mbps"
///     [radio]
///     lead = "500ms"
///     walk = { far = 40.0 }
///     wifi = { margin = 3.0 }
/// "#).unwrap();
/// assert_eq!(path.radio.unwrap().lead.micros(), 500_000);
/// ```
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "RadioTable")]
pub struct RadioConfig {
    /// Source of the levels.
    pub source: Source,
    /// Technology that the radio reports, which also selects the map. Default: Wi-Fi for `walk` and
    /// `wifi_edge` and for a series of RSSI alone, LTE for the others.
    pub technology: Option<Technology>,
    /// Time by which the reports are ahead of the link. Default 0.
    pub lead: Lead,
    /// Interval at which the host queries the radio, at least 1 ms. Default 100 ms, as in STORM
    /// (§3.2.2).
    pub capture: Span,
    /// Interval of the radio's own measurements; more frequent queries get the previous value.
    /// ModemManager has one second. Default 0: a measurement for each query.
    pub granularity: Span,
    /// Delay between a query and its answer. Default 0.
    pub late: Span,
    /// Standard deviation of the reported from the true level, in dB. Default 0.
    pub noise: f64,
    /// Time within which the correlation of that noise falls to 1/e. Default 0: independent
    /// measurements.
    pub noise_correlation: Span,
    /// Rounding of reported levels, in dB; 0 for no rounding. Default 1, as chips report it.
    pub quantum: f64,
    /// Seed of the levels. Default: one for each path, from the seed of the network. The noise
    /// always follows the seed of the network.
    pub seed: Option<u64>,
    /// Map from levels to conditions for mobile networks.
    pub cellular: CellularMap,
    /// Map from levels to conditions for Wi-Fi.
    pub wifi: WifiMap,
}

const CAPTURE: Span = Span::from_millis(100);
const QUANTUM: f64 = 1.0;

impl RadioConfig {
    /// Creates a radio with this source of levels, and otherwise the defaults.
    pub fn new(source: Source) -> Self {
        Self {
            source,
            technology: None,
            lead: Lead::default(),
            capture: CAPTURE,
            granularity: Span::default(),
            late: Span::default(),
            noise: 0.0,
            noise_correlation: Span::default(),
            quantum: QUANTUM,
            seed: None,
            cellular: CellularMap::default(),
            wifi: WifiMap::default(),
        }
    }

    /// Returns the technology in effect.
    pub fn technology(&self) -> Technology {
        self.technology.unwrap_or_else(|| match &self.source {
            Source::Series(series) | Source::Trace(series) => series.technology(),
            Source::Walk(_) | Source::WifiEdge(_) => Technology::Wifi,
            Source::Canyon(_) | Source::Tunnel(_) | Source::Rail(_) | Source::Handover(_) => Technology::Lte,
        })
    }

    /// `true` if the link has a measured rate, so that no map applies.
    pub fn is_trace(&self) -> bool {
        matches!(self.source, Source::Trace(_))
    }

    /// Reads the file of the levels, if there is one.
    pub(crate) fn load(&mut self, base: &Path) -> Result<(), TraceError> {
        match &mut self.source {
            Source::Series(series) | Source::Trace(series) => series.load(base),
            _ => Ok(()),
        }
    }

    /// Checks that all values are in range.
    ///
    /// # Errors
    ///
    /// The first invalid field.
    pub fn check(&self) -> Result<(), ConfigError> {
        within("radio.noise", self.noise, 0.0, 40.0)?;
        within("radio.quantum", self.quantum, 0.0, 20.0)?;
        let seconds = |span: Span| span.duration().as_secs_f64();
        within("radio.capture in s", seconds(self.capture), 0.001, 3_600.0)?;
        within("radio.granularity in s", seconds(self.granularity), 0.0, 3_600.0)?;
        within("radio.late in s", seconds(self.late), 0.0, 60.0)?;
        self.cellular.check()?;
        self.wifi.check()?;
        self.source.check()
    }
}

/// The file form of a radio.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RadioTable {
    series: Option<LevelSeries>,
    trace: Option<LevelSeries>,
    walk: Option<Walk>,
    wifi_edge: Option<WifiEdge>,
    canyon: Option<Canyon>,
    tunnel: Option<Tunnel>,
    rail: Option<Rail>,
    handover: Option<Handover>,
    technology: Option<Named>,
    lead: Option<Lead>,
    capture: Option<Span>,
    granularity: Option<Span>,
    late: Option<Span>,
    noise: Option<f64>,
    noise_correlation: Option<Span>,
    quantum: Option<f64>,
    seed: Option<u64>,
    cellular: Option<CellularMap>,
    wifi: Option<WifiMap>,
}

/// A technology, parsed from its name.
#[derive(Debug, Clone, Copy)]
struct Named(Technology);

impl<'de> Deserialize<'de> for Named {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map(Self).map_err(de::Error::custom)
    }
}

impl TryFrom<RadioTable> for RadioConfig {
    type Error = String;

    fn try_from(table: RadioTable) -> Result<Self, String> {
        let given = [
            table.series.map(Source::Series),
            table.trace.map(Source::Trace),
            table.walk.map(Source::Walk),
            table.wifi_edge.map(Source::WifiEdge),
            table.canyon.map(Source::Canyon),
            table.tunnel.map(Source::Tunnel),
            table.rail.map(Source::Rail),
            table.handover.map(Source::Handover),
        ];
        let mut given = given.into_iter().flatten();
        let (Some(source), None) = (given.next(), given.next()) else {
            let kinds = "series, trace, walk, wifi_edge, canyon, tunnel, rail and handover";
            return Err(format!("a radio needs exactly one of {kinds}"));
        };
        let config = Self {
            source,
            technology: table.technology.map(|named| named.0),
            lead: table.lead.unwrap_or_default(),
            capture: table.capture.unwrap_or(CAPTURE),
            granularity: table.granularity.unwrap_or_default(),
            late: table.late.unwrap_or_default(),
            noise: table.noise.unwrap_or_default(),
            noise_correlation: table.noise_correlation.unwrap_or_default(),
            quantum: table.quantum.unwrap_or(QUANTUM),
            seed: table.seed,
            cellular: table.cellular.unwrap_or_default(),
            wifi: table.wifi.unwrap_or_default(),
        };
        // Check here already, so that the error has the line of the file.
        config.check().map_err(|problem| problem.to_string())?;
        Ok(config)
    }
}
