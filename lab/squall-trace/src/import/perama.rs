//! Wi-Fi to a robot in a shipyard (Perama 2022, <https://github.com/minarady1/wifi_for_industrial_robotics>):
//! what `iperf3 --json` told of a TCP transfer, and a log of JSON lines with the output of `iw link` about
//! every half second. The two files are joined by their clocks, in whichever order they are named.
//!
//! A row is an interval of iPerf: rate, the kernel's round trip, retransmits, and the mean of the levels in
//! that time. `iw` said "not connected" each time: the station was not. iPerf counts what the application
//! wrote in blocks of 128 kB, so that single seconds without any are nothing; from 2 s on they are an outage.
//! iPerf tells its start in whole seconds: the levels may be early by up to one.

use serde::Deserialize;

use super::{
    ImportError, Input,
    feup::band,
    log::{Log, Verdict},
};
use crate::{Event, Quantity, Row, Tech, Trace, TraceError};

/// Whether a first line is of one of the two files.
pub(super) fn is_its(line: &str) -> bool {
    line.contains("\"start\"") || line.contains("\"phy\"") || line == "{"
}

/// Imports the two files.
pub(super) fn import(inputs: &[Input]) -> Result<Trace, ImportError> {
    let [transfer, radio] = in_order(inputs)?;
    let test: Test = serde_json::from_str(&transfer.text).map_err(|error| json(transfer, 0, &error))?;
    let mut looks = looks(radio)?;
    looks.sort_by(|a, b| a.at.total_cmp(&b.at));
    let began = test.start.timestamp.timesecs as f64;
    let down = test.start.test_start.reverse != 0;
    let mut log = Log::new(&transfer.name);
    let mut tech = looks.iter().find_map(|look| look.tech.clone()).unwrap_or_else(|| band(None));
    for (index, interval) in test.intervals.iter().enumerate() {
        let Sum { start, end, .. } = interval.sum;
        let before = |time: f64| looks.partition_point(|look| look.at < began + time);
        let seen = &looks[before(start)..before(end.max(start))];
        tech = seen.iter().rev().find_map(|look| look.tech.clone()).unwrap_or(tech);
        let row = interval.row(down, seen, tech.clone());
        let fault =
            |problem: String| TraceError::file(&transfer.name, format!("interval {}: {problem}", index + 1));
        let row = row.map_err(fault)?;
        let early = |_| fault("does not start after the one before".to_owned());
        log.push(1, (start * 1e6).round() as i64, row, None).map_err(early)?;
    }
    let low = |row: &Row| row.down_mbps.or(row.up_mbps) == Some(0.0);
    log.judge(low, |length| (length >= 1_900_000).then_some(Verdict::Outage));
    Ok(log.finish()?)
}

/// iPerf's file first.
fn in_order(inputs: &[Input]) -> Result<[&Input; 2], TraceError> {
    let is_radio = |input: &&Input| input.text.lines().next().is_some_and(|line| line.contains("\"phy\""));
    match inputs {
        [transfer, radio] if is_radio(&radio) && !is_radio(&transfer) => Ok([transfer, radio]),
        [radio, transfer] if is_radio(&radio) && !is_radio(&transfer) => Ok([transfer, radio]),
        _ => {
            let name = inputs.first().map_or("import", |input| &input.name);
            Err(TraceError::file(name, "one file must be of iPerf3 and the other of iw link"))
        }
    }
}

fn json(input: &Input, above: u64, error: &serde_json::Error) -> TraceError {
    TraceError::line(&input.name, above + error.line() as u64, error.to_string())
}

/// What is needed of iPerf's file.
#[derive(Deserialize)]
struct Test {
    start: Start,
    intervals: Vec<Interval>,
}

#[derive(Deserialize)]
struct Start {
    timestamp: Timestamp,
    test_start: TestStart,
}

#[derive(Deserialize)]
struct Timestamp {
    timesecs: u64,
}

#[derive(Deserialize)]
struct TestStart {
    #[serde(default)]
    reverse: u32,
}

#[derive(Deserialize)]
struct Interval {
    streams: Vec<Stream>,
    sum: Sum,
}

#[derive(Deserialize)]
struct Stream {
    /// In microseconds; only where this side sends.
    rtt: Option<f64>,
}

#[derive(Deserialize)]
struct Sum {
    start: f64,
    end: f64,
    bits_per_second: f64,
    retransmits: Option<u32>,
}

impl Interval {
    fn row(&self, down: bool, seen: &[Look], tech: Tech) -> Result<Row, String> {
        let rate = Some(Quantity::Up.check(self.sum.bits_per_second / 1e6)?);
        let rtt = self.streams.first().and_then(|stream| stream.rtt);
        let rtt_ms = rtt.map(|rtt| Quantity::Rtt.check(rtt / 1e3)).transpose()?;
        let levels: Vec<f64> = seen.iter().filter_map(|look| look.signal).collect();
        let rssi = (!levels.is_empty()).then(|| levels.iter().sum::<f64>() / levels.len() as f64);
        let mut events = Vec::new();
        if let Some(count) = self.sum.retransmits.filter(|&count| count > 0) {
            events.push(Event::Retransmits(count));
        }
        if !seen.is_empty() && seen.iter().all(|look| !look.connected) {
            events.push(Event::Disconnected);
        }
        let (down_mbps, up_mbps) = if down { (rate, None) } else { (None, rate) };
        Ok(Row { down_mbps, up_mbps, rtt_ms, rssi, tech, events, ..Row::default() })
    }
}

/// What `iw link` said once.
struct Look {
    /// Seconds since 1970.
    at: f64,
    connected: bool,
    signal: Option<f64>,
    tech: Option<Tech>,
}

#[derive(Deserialize)]
struct Line {
    /// Nanoseconds since 1970.
    timestamp: u64,
    payload: Payload,
}

#[derive(Deserialize)]
struct Payload {
    phy: String,
}

fn looks(input: &Input) -> Result<Vec<Look>, TraceError> {
    let lines = (0..).zip(input.text.lines()).filter(|(_, text)| !text.trim().is_empty());
    lines
        .map(|(above, text)| {
            let line: Line = serde_json::from_str(text).map_err(|error| json(input, above, &error))?;
            look(&line).map_err(|problem| TraceError::line(&input.name, above + 1, problem))
        })
        .collect()
}

fn look(line: &Line) -> Result<Look, String> {
    let said = &line.payload.phy;
    let connected = match said.split_whitespace().next() {
        Some("Connected") => true,
        Some("Not") => false,
        _ => return Err("phy: neither \"Connected\" nor \"Not connected\"".to_owned()),
    };
    let value = |name: &str| -> Result<Option<f64>, String> {
        let Some(rest) = said.lines().find_map(|line| line.trim().strip_prefix(name)) else {
            return Ok(None);
        };
        let word = rest.split_whitespace().next().unwrap_or_default();
        let number = word.parse::<f64>().ok().filter(|number| number.is_finite());
        number.map(Some).ok_or_else(|| format!("phy: {name} {word:?} is not a number"))
    };
    let signal = value("signal:")?.filter(|&signal| Quantity::Rssi.check(signal).is_ok());
    let tech = value("freq:")?.map(|frequency| band(Some(frequency)));
    Ok(Look { at: line.timestamp as f64 / 1e9, connected, signal, tech })
}
