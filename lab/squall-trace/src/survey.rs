//! Summaries of recordings: capacity of the link, quality of the signal, and the alerts of
//! watermarks.

use std::collections::BTreeMap;

use squall_signal::{AlertKind, SignalState, Span, Time, Watermark, WatermarkConfig, WatermarkError};

use crate::{Event, Format, Gaps, Lag, Micros, Quantity, Recording, Supply, recording::measured};

/// Length of the windows for rates.
const WINDOW: Micros = 1_000_000;

/// Distribution of values. Quantiles are the nearest values that occur.
#[derive(Clone, Debug, PartialEq)]
pub struct Spread {
    /// Sorted; there is at least one.
    values: Vec<f64>,
}

impl Spread {
    /// Returns the distribution of these values; `None` if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_unstable_by(f64::total_cmp);
        (!values.is_empty()).then_some(Self { values })
    }

    /// Returns the number of values.
    pub fn count(&self) -> usize {
        self.values.len()
    }

    /// Returns the quantile of a share, 0…1: 0 is the minimum, 1 the maximum.
    pub fn at(&self, share: f64) -> f64 {
        self.values[(share * (self.values.len() - 1) as f64).round() as usize]
    }
}

/// Summary of a rate.
#[derive(Debug, Clone, PartialEq)]
pub struct RateSurvey {
    /// The rate.
    pub column: Quantity,
    /// Mean over the whole time, in Mbit/s.
    pub mean_mbps: f64,
    /// Means of windows of 1 s, in Mbit/s. A shorter one at the end does not count, unless it is
    /// the only one.
    pub windows: Spread,
    /// Share of the windows below 0.5 Mbit/s.
    pub below_half: f64,
    /// Share of the windows below 1 Mbit/s.
    pub below_one: f64,
    /// Lengths of the outages, in microseconds; see [`Supply::outages`].
    pub outages: Vec<Micros>,
}

/// Summary of a recorded link.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkSurvey {
    /// Format of the recording.
    pub format: Format,
    /// Length in microseconds.
    pub duration: Micros,
    /// Non-empty columns.
    pub columns: Vec<&'static str>,
    /// The selected rate, if there is one.
    pub rate: Option<RateSurvey>,
    /// Round trips in milliseconds.
    pub rtt: Option<Spread>,
    /// Mean of the shares of packets lost (`loss=`), over all rows; `None` if no row has one.
    pub loss: Option<f64>,
    /// Share of probes without an answer (`lost`); `None` if there is none.
    pub lost: Option<f64>,
    /// Number of occurrences of each event, by its name.
    pub events: BTreeMap<String, usize>,
}

impl LinkSurvey {
    /// Surveys a recording.
    pub fn of(recording: &Recording, gaps: Gaps) -> Self {
        let rtt = Spread::of(recording.numbers(Quantity::Rtt).map(|(_, rtt)| rtt));
        let rows = measured(recording.rows());
        let events = || rows.iter().flat_map(|row| &row.events);
        let losses: Vec<f64> = events()
            .filter_map(|event| if let Event::Loss(share) = event { Some(*share) } else { None })
            .collect();
        let lost = events().filter(|event| **event == Event::Lost).count();
        let answered = rtt.as_ref().map_or(0, Spread::count);
        let mut counts = BTreeMap::new();
        for event in events() {
            let token = event.to_string();
            let name = token.split(['=', ':']).next().unwrap_or_default();
            *counts.entry(name.to_owned()).or_default() += 1;
        }
        let supply = recording.supply(gaps).zip(recording.rate());
        Self {
            format: recording.format(),
            duration: recording.duration(),
            columns: recording.columns(),
            rate: supply.map(|(supply, column)| RateSurvey::of(&supply, column)),
            rtt,
            loss: (!losses.is_empty()).then(|| losses.iter().sum::<f64>() / rows.len() as f64),
            lost: (lost > 0).then(|| lost as f64 / (lost + answered) as f64),
            events: counts,
        }
    }
}

impl RateSurvey {
    fn of(supply: &Supply, column: Quantity) -> Self {
        let end = supply.end();
        let mbps = |time| supply.mean_bps(time) / 1e6;
        let mean_mbps = mbps(0..end);
        let windows: Vec<f64> =
            (0..end / WINDOW).map(|index| mbps(index * WINDOW..(index + 1) * WINDOW)).collect();
        let windows = if windows.is_empty() { vec![mean_mbps] } else { windows };
        let below =
            |limit: f64| windows.iter().filter(|rate| **rate < limit).count() as f64 / windows.len() as f64;
        Self {
            column,
            mean_mbps,
            below_half: below(0.5),
            below_one: below(1.0),
            outages: supply.outages().into_iter().map(|outage| outage.end - outage.start).collect(),
            windows: Spread::of(windows).expect("there is at least one window"),
        }
    }
}

/// Summary of a recorded radio.
#[derive(Clone, Debug, PartialEq)]
pub struct SignalSurvey {
    /// Number of rows.
    pub rows: usize,
    /// From time 0 to its last row, in microseconds.
    pub duration: Micros,
    /// Available quantities with their distributions.
    pub numbers: Vec<(Quantity, Spread)>,
    /// Distribution of the quality index of its readings, without loss.
    pub quality: Option<Spread>,
    /// Number of readings of a radio without a network.
    pub disconnected: usize,
    /// Number of alerts of each kind that the watermarks would have raised: warning, outage,
    /// recovery.
    pub alerts: [usize; 3],
    /// Durations of the states clear, warned and out, from the first reading to the last row, in
    /// microseconds.
    pub states: [Span; 3],
    /// Correlation of the signal with the rate at each lag.
    pub lags: Vec<Lag>,
}

impl SignalSurvey {
    /// The kinds of alerts, in the order of [`Self::alerts`].
    pub const ALERTS: [AlertKind; 3] = [AlertKind::Warning, AlertKind::Outage, AlertKind::Recovery];

    /// The states, in the order of [`Self::states`].
    pub const STATES: [SignalState; 3] = [SignalState::Clear, SignalState::Warned, SignalState::Out];

    /// Surveys a recording with watermarks of this kind, without losses.
    ///
    /// # Errors
    /// If there are no watermarks of this kind.
    pub fn of(recording: &Recording, config: WatermarkConfig) -> Result<Self, WatermarkError> {
        let spread = |one| Some((one, Spread::of(recording.numbers(one).map(|(_, value)| value))?));
        let (alerts, states) = watch(recording, config)?;
        Ok(Self {
            rows: recording.rows().len(),
            duration: recording.last(),
            numbers: Quantity::ALL.into_iter().filter_map(spread).collect(),
            quality: Spread::of(recording.readings().filter_map(|reading| config.index.base(&reading))),
            disconnected: recording.readings().filter(|reading| reading.disconnected).count(),
            alerts,
            states,
            lags: recording.lags(&config.index),
        })
    }

    /// Returns the lag with the highest correlation, the first of equals.
    pub fn best_lag(&self) -> Option<Lag> {
        let known = self.lags.iter().filter(|lag| lag.correlation.is_some());
        known
            .copied()
            .max_by(|a, b| a.correlation.partial_cmp(&b.correlation).unwrap_or(std::cmp::Ordering::Equal))
    }
}

/// Runs the watermarks over the recording.
fn watch(recording: &Recording, config: WatermarkConfig) -> Result<([usize; 3], [Span; 3]), WatermarkError> {
    let mut watch =
        Watch { watermark: Watermark::new(config)?, alerts: [0; 3], states: [Span::ZERO; 3], now: None };
    for reading in recording.readings() {
        watch.advance(reading.at);
        let alert = watch.watermark.update(reading.at, &reading, None);
        watch.count(alert.map(|alert| alert.kind));
    }
    watch.advance(Time::from_micros(recording.last()));
    Ok((watch.alerts, watch.states))
}

struct Watch {
    watermark: Watermark,
    alerts: [usize; 3],
    states: [Span; 3],
    /// The time of the first reading, then of the last change.
    now: Option<Time>,
}

impl Watch {
    /// Advances to a time, with the alerts raised meanwhile if the radio is silent for long.
    fn advance(&mut self, to: Time) {
        while let Some(silent) = self.watermark.timeout().filter(|&silent| silent <= to) {
            self.pass(silent);
            let alert = self.watermark.on_time(silent);
            self.count(alert.map(|alert| alert.kind));
        }
        self.pass(to);
    }

    fn pass(&mut self, to: Time) {
        let since = self.now.replace(to).unwrap_or(to);
        let state = SignalSurvey::STATES.iter().position(|state| *state == self.watermark.state());
        self.states[state.unwrap_or(0)] += to - since;
    }

    fn count(&mut self, alert: Option<AlertKind>) {
        let kind = alert.and_then(|kind| SignalSurvey::ALERTS.iter().position(|&known| known == kind));
        if let Some(kind) = kind {
            self.alerts[kind] += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Input, Row, Tech, Wishes};

    #[test]
    fn quantiles_are_values_that_occur() {
        let spread = Spread::of((0..=100).map(f64::from)).expect("there are values");
        assert_eq!((spread.count(), spread.at(0.0), spread.at(1.0)), (101, 0.0, 100.0));
        assert_eq!([0.05, 0.1, 0.25, 0.5, 0.99].map(|share| spread.at(share)), [5.0, 10.0, 25.0, 50.0, 99.0]);
        assert_eq!(Spread::of([]), None);
    }

    fn link(text: &str) -> LinkSurvey {
        let recording = Recording::parse(&[Input::new("log", text)], &Wishes::default());
        LinkSurvey::of(&recording.expect("is read"), Gaps::Hold)
    }

    #[test]
    fn a_table_in_figures() {
        let survey = link(
            "time_s,down_mbps,rtt_ms,event\n0,4,20,loss=0.5\n1,0.6,,lost\n2,0,40,ho\n3,0.4,,ho;loss=0.1\n3.5,,,\n",
        );
        let rate = survey.rate.unwrap();
        assert_eq!((rate.column, rate.windows.count(), rate.windows.at(1.0)), (Quantity::Down, 3, 4.0));
        assert!((rate.mean_mbps - 4.8 / 3.5).abs() < 1e-9);
        assert_eq!((rate.below_half, rate.below_one), (1.0 / 3.0, 2.0 / 3.0));
        assert_eq!(rate.outages, [1_000_000]);
        assert_eq!(survey.rtt.map(|rtt| (rtt.at(0.0), rtt.at(1.0))), Some((20.0, 40.0)));
        assert_eq!((survey.loss, survey.lost), (Some(0.15), Some(1.0 / 3.0)));
        let events: Vec<_> = survey.events.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        assert_eq!(events, [("ho", 2), ("loss", 2), ("lost", 1)]);
    }

    #[test]
    fn a_short_list_in_figures() {
        let survey = link("0\n300\n");
        let rate = survey.rate.unwrap();
        assert_eq!((survey.duration, survey.rtt, survey.loss, survey.lost), (300_000, None, None, None));
        assert_eq!((rate.windows.count(), rate.mean_mbps), (1, 0.08));
        assert_eq!(rate.outages, [300_000]);
    }

    /// Returns the rows of a Wi-Fi at these levels, one a second.
    fn wifi(levels: &[f64]) -> Vec<Row> {
        let tech = Tech::new("WiFi").expect("is a word");
        let row = |(second, &level): (usize, &f64)| Row {
            tech: tech.clone(),
            ..Row::new(second as Micros * 1_000_000).with(Quantity::Rssi, level)
        };
        levels.iter().enumerate().map(row).collect()
    }

    fn survey(rows: Vec<Row>) -> SignalSurvey {
        let recording = Recording::new(rows).expect("is one");
        SignalSurvey::of(&recording, WatermarkConfig::default()).expect("the defaults are sound")
    }

    #[test]
    fn alerts_and_states_are_those_of_the_watermarks() {
        // Good, weak (index 0.28), out (0.18), good again immediately.
        let survey = survey(wifi(&[-60.0, -60.0, -77.0, -81.0, -81.0, -60.0, -60.0]));
        assert_eq!(survey.alerts, [1, 1, 1]);
        assert_eq!(survey.states, [3, 1, 2].map(Span::from_secs));
        assert_eq!((survey.rows, survey.duration, survey.disconnected), (7, 6_000_000, 0));
        assert_eq!(survey.numbers.len(), 1);
    }

    #[test]
    fn a_silent_radio_ends_the_alert() {
        let mut rows = wifi(&[-60.0, -85.0]);
        rows.push(Row::new(20_000_000));
        let survey = survey(rows);
        assert_eq!(survey.alerts, [0, 1, 1]);
        assert_eq!(survey.states, [15, 0, 5].map(Span::from_secs));
    }

    #[test]
    fn a_lost_network_is_out() {
        let mut rows = wifi(&[-60.0, -60.0]);
        rows[1].events = vec![Event::Disconnected];
        let survey = survey(rows);
        assert_eq!((survey.disconnected, survey.alerts), (1, [0, 1, 0]));
        assert_eq!(survey.quality.expect("there is one").at(0.0), 0.0);
    }
}
