//! A recorded link in figures.

use std::collections::BTreeMap;

use crate::Event;
use squall_units::Micros;

use super::{Column, Format, Gaps, Recording, Supply};

/// The windows over which a rate is looked at.
const WINDOW: Micros = 1_000_000;

/// How values are spread. Percentiles are the nearest values that occur.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Percentiles {
    /// How many values there are.
    pub count: usize,
    /// The least.
    pub min: f64,
    /// 5 % are no greater.
    pub p5: f64,
    /// 25 % are no greater.
    pub p25: f64,
    /// Half are no greater.
    pub p50: f64,
    /// 75 % are no greater.
    pub p75: f64,
    /// 95 % are no greater.
    pub p95: f64,
    /// 99 % are no greater.
    pub p99: f64,
    /// The greatest.
    pub max: f64,
}

impl Percentiles {
    /// Of these; `None` if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_unstable_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let at = |share: f64| values[(share * last as f64).round() as usize];
        let [p5, p25, p50, p75, p95, p99] = [0.05, 0.25, 0.5, 0.75, 0.95, 0.99].map(at);
        Some(Self { count: values.len(), min: values[0], p5, p25, p50, p75, p95, p99, max: values[last] })
    }
}

/// The times in which nothing got through; see [`Supply::outages`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outages {
    /// How many there are.
    pub count: usize,
    /// The longest, in microseconds.
    pub longest: Micros,
    /// All together, in microseconds.
    pub total: Micros,
}

/// A rate in figures.
#[derive(Debug, Clone, PartialEq)]
pub struct RateSurvey {
    /// Which.
    pub column: Column,
    /// The mean over the whole time, in Mbit/s.
    pub mean_mbps: f64,
    /// The means of windows of 1 s, in Mbit/s. A shorter one at the end does not count, unless it is the only one.
    pub windows: Percentiles,
    /// The share of the windows below 0.5 Mbit/s.
    pub below_half: f64,
    /// The share of the windows below 1 Mbit/s.
    pub below_one: f64,
    /// The times in which nothing got through.
    pub outages: Outages,
}

/// A recorded link in figures.
#[derive(Debug, Clone, PartialEq)]
pub struct Survey {
    /// How it was written.
    pub format: Format,
    /// How long it is, in microseconds.
    pub duration: Micros,
    /// The columns that have something in them.
    pub columns: Vec<&'static str>,
    /// The rate that counts, if there is one.
    pub rate: Option<RateSurvey>,
    /// The round trips in milliseconds.
    pub rtt: Option<Percentiles>,
    /// The mean of the shares of packets lost (`loss=`), over all rows; `None` if no row tells of one.
    pub loss: Option<f64>,
    /// The share of probes without an answer (`lost`); `None` if there is none.
    pub lost: Option<f64>,
    /// How often each event occurs, by its name.
    pub events: BTreeMap<String, usize>,
}

impl Survey {
    /// Surveys a recording.
    pub fn of(recording: &Recording, gaps: Gaps) -> Self {
        let rtt = Percentiles::of(recording.rtts().into_iter().map(|(_, rtt)| rtt));
        let losses: Vec<f64> = recording
            .events()
            .filter_map(|event| if let Event::Loss(share) = event { Some(*share) } else { None })
            .collect();
        let lost = recording.events().filter(|event| **event == Event::Lost).count();
        let answered = rtt.map_or(0, |rtt| rtt.count);
        let mut events = BTreeMap::new();
        for event in recording.events() {
            let token = event.to_string();
            let name = token.split(['=', ':']).next().unwrap_or_default();
            *events.entry(name.to_owned()).or_default() += 1;
        }
        Self {
            format: recording.format(),
            duration: recording.duration(),
            columns: recording.columns(),
            rate: recording
                .supply(gaps)
                .zip(recording.column())
                .map(|(supply, column)| RateSurvey::of(&supply, column)),
            rtt,
            loss: (!losses.is_empty()).then(|| losses.iter().sum::<f64>() / recording.rows() as f64),
            lost: (lost > 0).then(|| lost as f64 / (lost + answered) as f64),
            events,
        }
    }
}

impl RateSurvey {
    fn of(supply: &Supply, column: Column) -> Self {
        let end = supply.end();
        let mbps = |time| supply.mean_bps(time) / 1e6;
        let mean_mbps = mbps(0..end);
        let windows: Vec<f64> =
            (0..end / WINDOW).map(|index| mbps(index * WINDOW..(index + 1) * WINDOW)).collect();
        let windows = if windows.is_empty() { vec![mean_mbps] } else { windows };
        let below =
            |limit: f64| windows.iter().filter(|rate| **rate < limit).count() as f64 / windows.len() as f64;
        let lengths = || supply.outages().into_iter().map(|outage| outage.end - outage.start);
        Self {
            column,
            mean_mbps,
            below_half: below(0.5),
            below_one: below(1.0),
            outages: Outages {
                count: lengths().count(),
                longest: lengths().max().unwrap_or_default(),
                total: lengths().sum(),
            },
            windows: Percentiles::of(windows).expect("there is at least one window"),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Input;

    use super::*;
    use crate::link::Wishes;

    fn survey(text: &str) -> Survey {
        let input = Input { name: "log".into(), text: text.into() };
        Survey::of(&Recording::parse(input, &Wishes::default()).unwrap(), Gaps::Hold)
    }

    #[test]
    fn a_table_in_figures() {
        let told = survey(
            "time_s,down_mbps,rtt_ms,event\n0,4,20,loss=0.5\n1,0.6,,lost\n2,0,40,ho\n3,0.4,,ho;loss=0.1\n3.5,,,\n",
        );
        let rate = told.rate.unwrap();
        assert_eq!((rate.column, rate.windows.count, rate.windows.max), (Column::Down, 3, 4.0));
        assert!((rate.mean_mbps - 4.8 / 3.5).abs() < 1e-9);
        assert_eq!((rate.below_half, rate.below_one), (1.0 / 3.0, 2.0 / 3.0));
        assert_eq!(rate.outages, Outages { count: 1, longest: 1_000_000, total: 1_000_000 });
        assert_eq!(told.rtt.map(|rtt| (rtt.min, rtt.max)), Some((20.0, 40.0)));
        assert_eq!((told.loss, told.lost), (Some(0.15), Some(1.0 / 3.0)));
        let events: Vec<_> = told.events.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        assert_eq!(events, [("ho", 2), ("loss", 2), ("lost", 1)]);
    }

    #[test]
    fn a_short_list_in_figures() {
        let told = survey("0\n300\n");
        let rate = told.rate.unwrap();
        assert_eq!((told.duration, told.rtt, told.loss, told.lost), (300_000, None, None, None));
        assert_eq!((rate.windows.count, rate.mean_mbps), (1, 0.08));
        assert_eq!(rate.outages, Outages { count: 1, longest: 300_000, total: 300_000 });
    }

    #[test]
    fn percentiles_are_values_that_occur() {
        let all = Percentiles::of((0..=100).map(f64::from)).unwrap();
        assert_eq!(
            (all.count, all.p5, all.p25, all.p50, all.p75, all.p95, all.p99),
            (101, 5.0, 25.0, 50.0, 75.0, 95.0, 99.0)
        );
        assert_eq!(Percentiles::of([]), None);
    }
}
