//! The network traces of Sabre, a simulator of adaptive streaming (Spiteri et al., MMSys 2018,
//! <https://github.com/UMass-LIDS/sabre>), which has the logs of Oslo and Ghent in this form.
//!
//! A JSON list of intervals: `duration_ms` and `bandwidth_kbps`, one after the other from time 0. `latency_ms`
//! counts as a round trip unless it is the same everywhere: then it was set, and not measured.

use crate::{Input, Quantity, Row, Trace, TraceError};
use serde::Deserialize;
use squall_units::Micros;

use crate::link::recording::Table;

#[derive(Deserialize)]
struct Interval {
    duration_ms: Milliseconds,
    bandwidth_kbps: Rate,
    latency_ms: Option<Rtt>,
}

/// A number that is checked while its line is known.
macro_rules! checked {
    ($name:ident, $what:literal, $quantity:expr, $per:literal) => {
        #[derive(Clone, Copy, Deserialize, PartialEq)]
        #[serde(try_from = "f64")]
        struct $name(f64);

        impl TryFrom<f64> for $name {
            type Error = String;

            fn try_from(value: f64) -> Result<Self, String> {
                let within = $quantity.bounds().contains(&(value / $per));
                within
                    .then_some(Self(value / $per))
                    .ok_or_else(|| format!("{} {value} is out of range", $what))
            }
        }
    };
}

checked!(Milliseconds, "duration_ms", Quantity::Time, 1e3);
checked!(Rate, "bandwidth_kbps", Quantity::Down, 1e3);
checked!(Rtt, "latency_ms", Quantity::Rtt, 1.0);

/// Reads a list.
pub(in crate::link) fn sabre(input: &Input) -> Result<Table, TraceError> {
    let fault = |problem: String| TraceError::File { file: input.name.clone(), problem };
    let intervals: Vec<Interval> = serde_json::from_str(&input.text).map_err(|error| {
        let words = error.to_string();
        let problem = words.split(" at line ").next().unwrap_or_default().to_owned();
        TraceError::Line { file: input.name.clone(), line: error.line() as u64, problem }
    })?;
    let measured = intervals.iter().any(|interval| interval.latency_ms != intervals[0].latency_ms);
    let mut end: Micros = 0;
    let row = |interval: &Interval| {
        let at = end;
        end += (interval.duration_ms.0 * 1e6).round() as Micros;
        let rtt_ms = interval.latency_ms.filter(|_| measured).map(|rtt| rtt.0);
        Row { at, down_mbps: Some(interval.bandwidth_kbps.0), rtt_ms, ..Row::default() }
    };
    let trace = Trace::new(intervals.iter().map(row).collect()).map_err(|error| fault(error.to_string()))?;
    if end == 0 {
        return Err(fault("its intervals have no length".to_owned()));
    }
    Ok(Table { rows: trace.rows().to_vec(), end, step: trace.step() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Table, TraceError> {
        sabre(&Input { name: "bus.json".into(), text: text.into() })
    }

    #[test]
    fn intervals_follow_each_other() {
        let one = "{\"duration_ms\": 500, \"bandwidth_kbps\": 1500, \"latency_ms\": 20}";
        let text = format!("[{one},\n{{\"duration_ms\": 1001, \"bandwidth_kbps\": 0, \"latency_ms\": 20}}]");
        let table = read(&text).unwrap();
        let rows: Vec<_> = table.rows.iter().map(|row| (row.at, row.down_mbps, row.rtt_ms)).collect();
        assert_eq!((rows, table.end), (vec![(0, Some(1.5), None), (500_000, Some(0.0), None)], 1_501_000));
        let measured = read(&text.replace("0, \"latency_ms\": 20}]", "0, \"latency_ms\": 30}]")).unwrap();
        assert_eq!(measured.rows[1].rtt_ms, Some(30.0));
    }

    #[test]
    fn errors_name_the_line() {
        let told = |text: &str| read(text).map(drop).unwrap_err().to_string();
        let bad =
            "[\n{\"duration_ms\": 5, \"bandwidth_kbps\": 1},\n{\"duration_ms\": -5, \"bandwidth_kbps\": 1}]";
        assert_eq!(told(bad), "bus.json:3: duration_ms -5 is out of range");
        assert_eq!(told("[{\"duration_ms\": 5}]"), "bus.json:1: missing field `bandwidth_kbps`");
        assert_eq!(told("[]"), "bus.json: there are no rows");
        assert_eq!(
            told("[{\"duration_ms\": 0, \"bandwidth_kbps\": 1}]"),
            "bus.json: its intervals have no length"
        );
    }
}
