//! The network traces of Sabre, a simulator of adaptive streaming (Spiteri et al., MMSys 2018,
//! <https://github.com/UMass-LIDS/sabre>), which includes the logs of Oslo and Ghent in this form.
//!
//! A JSON list of intervals: `duration_ms` and `bandwidth_kbps`, one after another from time 0.
//! `latency_ms` counts as a round trip unless it is constant: then it was configured, and not
//! measured.

use serde::Deserialize;

use super::{input::Input, log::recording};
use crate::{Micros, Quantity, Recording, Row, TraceError, quantity::TIMES};

#[derive(Deserialize)]
struct Interval {
    duration_ms: Milliseconds,
    bandwidth_kbps: Rate,
    latency_ms: Option<Rtt>,
}

/// Defines a number that is checked during parsing, so that an error has its line.
macro_rules! checked {
    ($name:ident, $what:literal, $bounds:expr, $per:literal) => {
        #[derive(Clone, Copy, Deserialize, PartialEq)]
        #[serde(try_from = "f64")]
        struct $name(f64);

        impl TryFrom<f64> for $name {
            type Error = String;

            fn try_from(value: f64) -> Result<Self, String> {
                let within = $bounds.contains(&(value / $per));
                within
                    .then_some(Self(value / $per))
                    .ok_or_else(|| format!("{} {value} is out of range", $what))
            }
        }
    };
}

checked!(Milliseconds, "duration_ms", TIMES, 1e3);
checked!(Rate, "bandwidth_kbps", Quantity::Down.bounds(), 1e3);
checked!(Rtt, "latency_ms", Quantity::Rtt.bounds(), 1.0);

/// Reads a list.
pub(super) fn read(input: &Input) -> Result<Recording, TraceError> {
    let intervals: Vec<Interval> = serde_json::from_str(&input.text).map_err(|error| {
        let words = error.to_string();
        let problem = words.split(" at line ").next().unwrap_or_default();
        TraceError::line(&input.name, error.line() as u64, problem)
    })?;
    let is_measured = intervals.iter().any(|interval| interval.latency_ms != intervals[0].latency_ms);
    let mut end: Micros = 0;
    let row = |interval: &Interval| {
        let at = end;
        end += (interval.duration_ms.0 * 1e6).round() as Micros;
        let rtt = interval.latency_ms.filter(|_| is_measured).map(|rtt| rtt.0);
        Row::new(at).with(Quantity::Down, interval.bandwidth_kbps.0).with(Quantity::Rtt, rtt)
    };
    let recording = recording(&input.name, intervals.iter().map(row).collect())?;
    if end == 0 {
        return Err(TraceError::file(&input.name, "its intervals have no length"));
    }
    Ok(recording.ending(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::measured;

    fn list(text: &str) -> Result<Recording, TraceError> {
        read(&Input::new("bus.json", text))
    }

    #[test]
    fn intervals_follow_each_other() {
        let one = "{\"duration_ms\": 500, \"bandwidth_kbps\": 1500, \"latency_ms\": 20}";
        let text = format!("[{one},\n{{\"duration_ms\": 1001, \"bandwidth_kbps\": 0, \"latency_ms\": 20}}]");
        let table = list(&text).unwrap();
        let rows: Vec<_> = measured(table.rows())
            .iter()
            .map(|row| (row.at, row[Quantity::Down], row[Quantity::Rtt]))
            .collect();
        assert_eq!(
            (rows, table.duration()),
            (vec![(0, Some(1.5), None), (500_000, Some(0.0), None)], 1_501_000)
        );
        let measured = list(&text.replace("0, \"latency_ms\": 20}]", "0, \"latency_ms\": 30}]")).unwrap();
        assert_eq!(measured.rows()[1][Quantity::Rtt], Some(30.0));
    }

    #[test]
    fn errors_name_the_line() {
        let refused = |text: &str| list(text).map(drop).unwrap_err().to_string();
        let bad =
            "[\n{\"duration_ms\": 5, \"bandwidth_kbps\": 1},\n{\"duration_ms\": -5, \"bandwidth_kbps\": 1}]";
        assert_eq!(refused(bad), "bus.json:3: duration_ms -5 is out of range");
        assert_eq!(refused("[{\"duration_ms\": 5}]"), "bus.json:1: missing field `bandwidth_kbps`");
        assert_eq!(refused("[]"), "bus.json: there are no rows");
        assert_eq!(
            refused("[{\"duration_ms\": 0, \"bandwidth_kbps\": 1}]"),
            "bus.json: its intervals have no length"
        );
    }
}
