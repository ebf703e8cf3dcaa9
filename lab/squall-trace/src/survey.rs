//! A trace in figures: what it has, how good the signal was, and what the watermarks would have said.

use super::{Lag, Quantity, Trace};
use squall_signal::{AlertKind, SignalState, Watermark, WatermarkConfig, WatermarkError};
use squall_units::Micros;

/// How values are spread. Quantiles are the nearest values that occur.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// How many there are.
    pub count: usize,
    /// The least.
    pub min: f64,
    /// A tenth are no greater.
    pub p10: f64,
    /// Half are no greater.
    pub median: f64,
    /// Nine tenths are no greater.
    pub p90: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// The spread of these; `None` if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_unstable_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let at = |share: f64| values[(share * last as f64).round() as usize];
        let (min, max) = (values[0], values[last]);
        Some(Self { count: values.len(), min, p10: at(0.1), median: at(0.5), p90: at(0.9), max })
    }
}

/// How long the watermarks were in each state, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct States {
    /// In [`SignalState::Clear`].
    pub clear: Micros,
    /// In [`SignalState::Warned`].
    pub warned: Micros,
    /// In [`SignalState::Out`].
    pub out: Micros,
}

impl States {
    /// How long one was.
    pub fn of(&self, state: SignalState) -> Micros {
        match state {
            SignalState::Clear => self.clear,
            SignalState::Warned => self.warned,
            SignalState::Out => self.out,
        }
    }

    fn add(&mut self, state: SignalState, time: Micros) {
        match state {
            SignalState::Clear => self.clear += time,
            SignalState::Warned => self.warned += time,
            SignalState::Out => self.out += time,
        }
    }
}

/// A trace in figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Survey {
    /// How many rows it has.
    pub rows: usize,
    /// From time 0 to its last row, in microseconds.
    pub duration: Micros,
    /// What it has, and how that is spread; what it has not is left out.
    pub numbers: Vec<(Quantity, Spread)>,
    /// The quality index of its readings, without loss.
    pub quality: Option<Spread>,
    /// How many readings were of a radio in no network.
    pub disconnected: usize,
    /// How many times the watermarks would have given each alert: warning, outage, recovery.
    pub alerts: [usize; 3],
    /// How long they would have been in each state, from the first reading to the last row.
    pub states: States,
    /// Whether the signal leads the rate.
    pub lags: Vec<Lag>,
}

impl Survey {
    /// The kinds of alerts, in the order of [`Self::alerts`].
    pub const ALERTS: [AlertKind; 3] = [AlertKind::Warning, AlertKind::Outage, AlertKind::Recovery];

    /// Surveys a trace with watermarks of this kind, which are told no losses.
    ///
    /// # Errors
    /// If there are no watermarks of this kind.
    pub fn of(trace: &Trace, config: WatermarkConfig) -> Result<Self, WatermarkError> {
        use Quantity::{Down, Rsrp, Rsrq, Rssi, Rtt, Sinr, Up};
        let spread = |quantity: Quantity| Spread::of(trace.rows().iter().filter_map(|row| row.get(quantity)));
        let numbers = [Down, Up, Rtt, Rsrp, Rsrq, Sinr, Rssi];
        let (alerts, states) = watch(trace, config)?;
        Ok(Self {
            rows: trace.rows().len(),
            duration: trace.duration(),
            numbers: numbers.into_iter().filter_map(|one| Some((one, spread(one)?))).collect(),
            quality: Spread::of(trace.readings().filter_map(|reading| config.index.base(&reading))),
            disconnected: trace.readings().filter(|reading| reading.disconnected).count(),
            alerts,
            states,
            lags: trace.lags(&config.index),
        })
    }

    /// The lag with the highest correlation, the first of equals.
    pub fn best_lag(&self) -> Option<Lag> {
        let told = self.lags.iter().filter(|lag| lag.correlation.is_some());
        told.copied()
            .max_by(|a, b| a.correlation.partial_cmp(&b.correlation).unwrap_or(std::cmp::Ordering::Equal))
    }
}

/// Runs the watermarks over the trace.
fn watch(trace: &Trace, config: WatermarkConfig) -> Result<([usize; 3], States), WatermarkError> {
    let mut watch =
        Watch { watermark: Watermark::new(config)?, alerts: [0; 3], states: States::default(), now: None };
    for reading in trace.readings() {
        watch.advance(reading.at);
        let alert = watch.watermark.update(reading.at, &reading, None);
        watch.count(alert.map(|alert| alert.kind));
    }
    watch.advance(trace.duration());
    Ok((watch.alerts, watch.states))
}

struct Watch {
    watermark: Watermark,
    alerts: [usize; 3],
    states: States,
    /// The time of the first reading, then of the last change.
    now: Option<Micros>,
}

impl Watch {
    /// Goes on to a time, with what happens on the way when the radio is silent for long.
    fn advance(&mut self, to: Micros) {
        while let Some(silent) = self.watermark.timeout().filter(|&silent| silent <= to) {
            self.pass(silent);
            let alert = self.watermark.on_time(silent);
            self.count(alert.map(|alert| alert.kind));
        }
        self.pass(to);
    }

    fn pass(&mut self, to: Micros) {
        let since = self.now.replace(to).unwrap_or(to);
        self.states.add(self.watermark.state(), to.saturating_sub(since));
    }

    fn count(&mut self, alert: Option<AlertKind>) {
        let place = alert.and_then(|kind| Survey::ALERTS.iter().position(|&known| known == kind));
        if let Some(place) = place {
            self.alerts[place] += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Event, Row, Tech};

    #[test]
    fn quantiles_are_values_that_occur() {
        let spread = Spread::of((0..=10).map(f64::from)).expect("there are values");
        assert_eq!((spread.count, spread.min, spread.max), (11, 0.0, 10.0));
        assert_eq!((spread.p10, spread.median, spread.p90), (1.0, 5.0, 9.0));
        assert_eq!(Spread::of([]), None);
    }

    /// A Wi-Fi at these levels, one a second.
    fn wifi(levels: &[f64]) -> Vec<Row> {
        let tech = Tech::new("WiFi").expect("is a word");
        let row = |(second, &level): (usize, &f64)| Row {
            at: second as Micros * 1_000_000,
            rssi: Some(level),
            tech: tech.clone(),
            ..Row::default()
        };
        levels.iter().enumerate().map(row).collect()
    }

    fn survey(rows: Vec<Row>) -> Survey {
        let trace = Trace::new(rows).expect("is one");
        Survey::of(&trace, WatermarkConfig::default()).expect("the defaults are sound")
    }

    #[test]
    fn alerts_and_states_are_those_of_the_watermarks() {
        // Good, weak (index 0.28), out (0.18), good again at once.
        let told = survey(wifi(&[-60.0, -60.0, -77.0, -81.0, -81.0, -60.0, -60.0]));
        assert_eq!(told.alerts, [1, 1, 1]);
        assert_eq!(told.states, States { clear: 3_000_000, warned: 1_000_000, out: 2_000_000 });
        assert_eq!((told.rows, told.duration, told.disconnected), (7, 6_000_000, 0));
        assert_eq!(told.numbers.len(), 1);
    }

    #[test]
    fn a_silent_radio_ends_the_alert() {
        let mut rows = wifi(&[-60.0, -85.0]);
        rows.push(Row { at: 20_000_000, ..Row::default() });
        let told = survey(rows);
        assert_eq!(told.alerts, [0, 1, 1]);
        assert_eq!(told.states, States { clear: 15_000_000, warned: 0, out: 5_000_000 });
    }

    #[test]
    fn a_lost_network_is_out() {
        let mut rows = wifi(&[-60.0, -60.0]);
        rows[1].events = vec![Event::Disconnected];
        let told = survey(rows);
        assert_eq!((told.disconnected, told.alerts), (1, [0, 1, 0]));
        assert_eq!(told.quality.expect("there is one").min, 0.0);
    }
}
