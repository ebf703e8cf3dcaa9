//! The model's rate beside the measured one.

use squall_net::radio::{CellularMap, Levels, WifiMap};
use squall_signal::{
    Micros, Reading, Technology,
    trace::{Trace, rank_correlation},
};

use super::bins::Compared;

/// How far the model is from a recording.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub(super) struct Judgement {
    /// Rows that have a rate and levels.
    pub(super) rows: usize,
    /// What stands for the rate of the link, in Mbit/s.
    pub(super) ceiling_mbps: f64,
    /// Spearman's rank correlation of the model's rate and the measured one; none if one of them never changes.
    pub(super) rank: Option<f64>,
    /// The lag in seconds at which that is highest; positive if the levels come first.
    pub(super) best_lag_s: Option<i64>,
    /// The correlation there.
    pub(super) best_rank: Option<f64>,
    /// Median of |model − measured| / measured, where at least [`WEAK`] was measured.
    pub(super) error: Option<f64>,
    /// Share of rows below [`WEAK`] by the model.
    pub(super) weak_by_model: f64,
    /// Share of rows below it as measured.
    pub(super) weak_measured: f64,
    /// The rows.
    #[serde(skip)]
    pub(super) compared: Vec<Compared>,
}

/// A rate that carries no video, in Mbit/s.
pub(super) const WEAK: f64 = 0.5;

/// Lags that are tried, in seconds.
const LAGS: std::ops::RangeInclusive<i64> = -2..=5;

impl Judgement {
    /// `None` if no row has both a rate and levels.
    pub(super) fn of(trace: &Trace, cellular: &CellularMap, wifi: &WifiMap) -> Option<Self> {
        let rates: Vec<(Micros, f64)> = trace.rates().collect();
        let readings: Vec<Reading> = trace.readings().collect();
        let share = |reading: &Reading| share(reading, cellular, wifi);
        let pairs = pairs(&rates, &readings, 0, trace.step());
        let ceiling = quantile(pairs.iter().map(|(_, rate)| *rate).collect(), 0.95)?;
        let compare = |(reading, rate): &(Reading, f64)| Compared {
            reading: *reading,
            rate: *rate,
            measured: rate / ceiling,
            model: share(reading),
        };
        let compared: Vec<Compared> = pairs.iter().map(compare).collect();
        let strong = compared.iter().filter(|row| row.rate >= WEAK);
        let errors = strong.map(|row| (row.model * ceiling - row.rate).abs() / row.rate).collect();
        let weak = |weak: &dyn Fn(&Compared) -> bool| {
            compared.iter().filter(|row| weak(row)).count() as f64 / compared.len() as f64
        };
        let ranks: Vec<(f64, f64)> = compared.iter().map(|row| (row.model, row.rate)).collect();
        let at_lag = |lag: i64| {
            let pairs = self::pairs(&rates, &readings, lag * 1_000_000, trace.step());
            let values: Vec<(f64, f64)> =
                pairs.iter().map(|(reading, rate)| (share(reading), *rate)).collect();
            Some((lag, rank_correlation(&values)?))
        };
        let best = LAGS.filter_map(at_lag).max_by(|one, other| one.1.total_cmp(&other.1));
        Some(Self {
            rows: compared.len(),
            ceiling_mbps: ceiling,
            rank: rank_correlation(&ranks),
            best_lag_s: best.map(|(lag, _)| lag),
            best_rank: best.map(|(_, rank)| rank),
            error: quantile(errors, 0.5),
            weak_by_model: weak(&|row| row.model * ceiling < WEAK),
            weak_measured: weak(&|row| row.rate < WEAK),
            compared,
        })
    }
}

/// What the model leaves of a link, after loss.
fn share(reading: &Reading, cellular: &CellularMap, wifi: &WifiMap) -> f64 {
    let Reading { rsrp, sinr, rssi, disconnected, .. } = *reading;
    let levels = Levels { rsrp, sinr, rssi, detached: disconnected, ..Levels::default() };
    let conditions = match reading.technology {
        Technology::Wifi => wifi.conditions(&levels),
        _ => cellular.conditions(&levels),
    };
    conditions.share.as_f64() * (1.0 - conditions.loss.as_f64())
}

/// Each rate with the reading that was made `lag` microseconds before it, to half a step.
fn pairs(rates: &[(Micros, f64)], readings: &[Reading], lag: i64, step: Micros) -> Vec<(Reading, f64)> {
    let nearest = |at: Micros| {
        let next = readings.partition_point(|reading| reading.at < at);
        let around = readings[next.saturating_sub(1)..readings.len().min(next + 1)].iter();
        around
            .min_by_key(|reading| reading.at.abs_diff(at))
            .filter(|reading| reading.at.abs_diff(at) * 2 <= step)
    };
    let pair = |&(at, rate): &(Micros, f64)| Some((*nearest(at.checked_add_signed(-lag)?)?, rate));
    rates.iter().filter_map(pair).collect()
}

/// The value that this share of the values does not exceed; `None` without values.
pub(super) fn quantile(mut values: Vec<f64>, share: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    Some(values[(last as f64 * share).round() as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(rows: &str) -> Option<Judgement> {
        let header = "time_s,down_mbps,up_mbps,rtt_ms,rsrp_dbm,rsrq_db,sinr_db,rssi_dbm,tech,event\n";
        let trace = Trace::parse("test.csv", &format!("{header}{rows}")).unwrap();
        Judgement::of(&trace, &CellularMap::default(), &WifiMap::default())
    }

    /// A minute of Wi-Fi whose rate is what the map gives, `lag` seconds after the level.
    fn wifi(lag: usize) -> String {
        let level = |second: usize| if second % 20 < 7 { -75 } else { -50 - (second % 11) as i32 };
        let map = WifiMap::default();
        let row = |second: usize| {
            let levels =
                Levels { rssi: Some(f64::from(level(second.saturating_sub(lag)))), ..Levels::default() };
            let rate = 48.0 * map.conditions(&levels).share.as_f64();
            format!("{second},{rate},,,,,,{},WiFi-5,\n", level(second))
        };
        (0..60).map(row).collect()
    }

    #[test]
    fn a_recording_that_follows_the_model_fits() {
        let fit = judge(&wifi(0)).unwrap();
        assert_eq!((fit.rows, fit.ceiling_mbps, fit.error), (60, 48.0, Some(0.0)));
        assert!(fit.rank.unwrap() > 0.999);
        assert_eq!(fit.best_lag_s, Some(0));
    }

    #[test]
    fn levels_that_come_first_have_a_positive_lag() {
        let fit = judge(&wifi(3)).unwrap();
        assert_eq!(fit.best_lag_s, Some(3));
        assert!(fit.best_rank.unwrap() > 0.999 && fit.rank.unwrap() < 0.9);
    }

    #[test]
    fn weak_times_are_counted_on_both_sides_and_gaps_on_none() {
        let fit = judge("0,20,,,-90,,20,,LTE,\n1,0.2,,,-90,,20,,LTE,\n2,9,,,,,,,LTE,\n3,,,,-90,,2,,LTE,\n4,9,,,-140,,2,,LTE,\n").unwrap();
        assert_eq!(fit.rows, 3);
        assert!((fit.weak_by_model - 1.0 / 3.0).abs() < 1e-9 && (fit.weak_measured - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!(judge("0,20,,,,,,,LTE,\n"), None);
    }
}
