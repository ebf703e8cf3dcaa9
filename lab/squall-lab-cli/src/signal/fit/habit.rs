//! What levels do over time: how often they are low, for how long, and how fast they change.

use squall_net::{
    Network, PathConfig,
    radio::{Canyon, RadioConfig, Rail, Source, Tunnel, Walk, WifiEdge},
};
use squall_signal::{Marks, Micros, QualityIndex, Reading, Technology, trace::Trace};
use squall_terminal::error::whole;
use squall_units::Span;

use super::judgement::quantile;

/// The ways of a level.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub(super) struct Habit {
    /// Readings that have a quality index.
    pub(super) readings: usize,
    /// Share of them below the mark Good.
    pub(super) below_good: f64,
    /// Below Warning.
    pub(super) below_warning: f64,
    /// Below Outage.
    pub(super) below_outage: f64,
    /// Fades below Warning in a minute.
    pub(super) fades_per_minute: f64,
    /// Their median length in seconds.
    pub(super) fade_s: Option<f64>,
    /// Standard deviation of the level in dB: RSSI of Wi-Fi, else RSRP, else SINR.
    pub(super) deviation_db: Option<f64>,
    /// After how many seconds the level keeps less than 1/e of its correlation.
    pub(super) decorrelation_s: Option<f64>,
}

impl Habit {
    /// `None` if no row has levels.
    pub(super) fn of_trace(trace: &Trace) -> Option<Self> {
        Self::of(&[trace.readings().collect()], trace.step())
    }

    /// Of readings with this usual step; each list for itself.
    fn of(runs: &[Vec<Reading>], step: Micros) -> Option<Self> {
        let index = QualityIndex::default();
        let Marks { good, warning, outage } = Marks::default();
        let quality = |run: &Vec<Reading>| run.iter().filter_map(|reading| index.base(reading)).collect();
        let qualities: Vec<Vec<f64>> = runs.iter().map(quality).collect();
        let all: Vec<f64> = qualities.iter().flatten().copied().collect();
        if all.is_empty() {
            return None;
        }
        let step = step as f64 / 1e6;
        let share =
            |mark: f64| all.iter().filter(|quality| **quality < mark).count() as f64 / all.len() as f64;
        let fades: Vec<f64> = qualities.iter().flat_map(|run| fades(run, warning)).collect();
        let levels: Vec<Vec<f64>> =
            runs.iter().map(|run| run.iter().filter_map(main_level).collect()).collect();
        let moments = Moments::of(&levels);
        Some(Self {
            readings: all.len(),
            below_good: share(good),
            below_warning: share(warning),
            below_outage: share(outage),
            fades_per_minute: fades.len() as f64 * 60.0 / (all.len() as f64 * step),
            fade_s: quantile(fades, 0.5).map(|steps| steps * step),
            deviation_db: moments.as_ref().map(|moments| moments.variance.sqrt()),
            decorrelation_s: moments
                .and_then(|moments| moments.decorrelation(&levels))
                .map(|steps| steps * step),
        })
    }
}

/// Lengths in steps of the times below a mark.
fn fades(run: &[f64], mark: f64) -> Vec<f64> {
    let parts = run.chunk_by(|one, other| (*one < mark) == (*other < mark));
    parts.filter(|part| part[0] < mark).map(|part| part.len() as f64).collect()
}

fn main_level(reading: &Reading) -> Option<f64> {
    match reading.technology {
        Technology::Wifi => reading.rssi,
        _ => reading.rsrp.or(reading.sinr).or(reading.rssi),
    }
}

/// Mean and variance over all runs.
struct Moments {
    mean: f64,
    variance: f64,
}

impl Moments {
    fn of(runs: &[Vec<f64>]) -> Option<Self> {
        let count = runs.iter().map(Vec::len).sum::<usize>();
        if count < 2 {
            return None;
        }
        let mean = runs.iter().flatten().sum::<f64>() / count as f64;
        let squares = runs.iter().flatten().map(|level| (level - mean).powi(2)).sum::<f64>();
        Some(Self { mean, variance: squares / count as f64 })
    }

    /// The first lag in steps at which less than 1/e of the correlation is left.
    fn decorrelation(&self, runs: &[Vec<f64>]) -> Option<f64> {
        let longest = runs.iter().map(Vec::len).max()?;
        let correlation = |lag: usize| {
            let products = runs.iter().flat_map(|run| run.iter().zip(run.iter().skip(lag)));
            let (sum, count) = products.fold((0.0, 0u32), |(sum, count), (one, other)| {
                (sum + (one - self.mean) * (other - self.mean), count + 1)
            });
            sum / f64::from(count) / self.variance
        };
        let lag = (1..longest).find(|&lag| correlation(lag) < (-1f64).exp())?;
        Some(lag as f64)
    }
}

/// Seeds that each scene is run with.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=8;

/// How long each of them is watched.
const WATCHED: Micros = 600_000_000;

/// What the levels do in each random scene with its defaults, read once a second like the recordings.
pub(super) fn scenes() -> anyhow::Result<Vec<(&'static str, Option<Habit>)>> {
    let scenes = [
        ("scene: walk", Source::Walk(Walk::default())),
        ("scene: wifi_edge", Source::WifiEdge(WifiEdge::default())),
        ("scene: canyon", Source::Canyon(Canyon::default())),
        ("scene: tunnel", Source::Tunnel(Tunnel::default())),
        ("scene: rail", Source::Rail(Rail::default())),
    ];
    scenes.into_iter().map(|(name, source)| Ok((name, watch(source)?))).collect()
}

fn watch(source: Source) -> anyhow::Result<Option<Habit>> {
    let capture = Span::from_millis(1_000);
    let mut path: PathConfig = "rate=20mbps".parse().map_err(whole)?;
    path.radio = Some(RadioConfig { capture, ..RadioConfig::new(source) });
    let mut runs = Vec::new();
    for seed in SEEDS {
        let mut network = Network::<()>::new(std::slice::from_ref(&path), seed).map_err(whole)?;
        runs.push(std::iter::from_fn(|| network.poll_report(WATCHED)).map(|(_, reading)| reading).collect());
    }
    Ok(Habit::of(&runs, capture.micros()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fades_are_counted_with_their_length() {
        // −75 dBm is 0.33, −76 dBm 0.305.
        let levels = [-60.0, -76.0, -76.0, -60.0, -60.0, -85.0, -60.0, -60.0];
        let readings =
            levels.iter().enumerate().map(|(second, level)| Reading::wifi(second as u64 * 1_000_000, *level));
        let habit = Habit::of(&[readings.collect()], 1_000_000).unwrap();
        assert_eq!((habit.below_warning, habit.below_outage), (0.375, 0.125));
        assert_eq!((habit.fades_per_minute, habit.fade_s), (15.0, Some(2.0)));
        assert_eq!(Habit::of(&[Vec::new()], 1), None);
    }

    #[test]
    fn a_square_wave_forgets_within_a_quarter_of_its_period() {
        let level = |second: u64| if second % 40 < 20 { -50.0 } else { -70.0 };
        let readings: Vec<Reading> =
            (0..4_000).map(|second| Reading::wifi(second * 1_000_000, level(second))).collect();
        let habit = Habit::of(&[readings], 1_000_000).unwrap();
        assert!((habit.deviation_db.unwrap() - 10.0).abs() < 1e-9);
        // Its correlation falls evenly from 1 to −1 within 20 s: 1 − t/10 is below 1/e from 6.3 s on.
        assert_eq!(habit.decorrelation_s, Some(7.0));
    }

    #[test]
    fn every_scene_is_watched() {
        for (name, habit) in scenes().unwrap() {
            let habit = habit.unwrap();
            assert_eq!(habit.readings, 8 * 601, "{name}");
            assert!(habit.deviation_db.unwrap() > 1.0, "{name}");
        }
    }
}
