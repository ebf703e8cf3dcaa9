//! Wi-Fi to a robot in a shipyard (Perama 2022,
//! <https://github.com/minarady1/wifi_for_industrial_robotics>): the output of `iperf3 --json` for
//! a TCP transfer, and a log of JSON lines with the output of `iw link` about every half second.
//! The two files are joined by their clocks, in either order.
//!
//! A row is an interval of iPerf: rate, the kernel's round trip, retransmits, and the mean of the
//! levels in that time. If `iw` reported "not connected" each time, the station was disconnected.
//! iPerf counts the bytes that the application wrote in blocks of 128 kB, so that single seconds
//! without any are normal; from 2 s on they are an outage. iPerf records its start in whole
//! seconds: the levels may be early by up to one.

use serde_json::Value;

use super::{
    feup::band,
    input::Input,
    log::{Log, Low},
};
use crate::{Event, Quantity, Recording, Row, Tech, TraceError};

/// Returns `true` if a first line belongs to one of the two files.
pub(crate) fn is_its(line: &str) -> bool {
    line.contains("\"start\"") || line.contains("\"phy\"") || line == "{"
}

/// Reads the two files.
pub(super) fn read(inputs: &[Input]) -> Result<Recording, TraceError> {
    let [transfer, radio] = in_order(inputs)?;
    let fault = |problem: String| TraceError::file(&transfer.name, problem);
    let test: Value = serde_json::from_str(&transfer.text).map_err(|error| json(transfer, 0, &error))?;
    let mut looks = looks(radio)?;
    looks.sort_by(|a, b| a.at.total_cmp(&b.at));
    let began = number(&test, "/start/timestamp/timesecs").map_err(fault)?;
    let down = test.pointer("/start/test_start/reverse").and_then(Value::as_u64).unwrap_or(0) != 0;
    let intervals = test["intervals"].as_array().ok_or_else(|| fault("there are no intervals".to_owned()))?;
    let mut log = Log::new(&transfer.name);
    let mut tech = looks.iter().find_map(|look| look.tech.clone()).unwrap_or_else(|| band(None));
    for (index, interval) in intervals.iter().enumerate() {
        let fault = |problem: String| fault(format!("interval {}: {problem}", index + 1));
        let start = number(interval, "/sum/start").map_err(fault)?;
        let end = number(interval, "/sum/end").map_err(fault)?;
        let before = |time: f64| looks.partition_point(|look| look.at < began + time);
        let seen = &looks[before(start)..before(end.max(start))];
        tech = seen.iter().rev().find_map(|look| look.tech.clone()).unwrap_or(tech);
        let row = row(interval, down, seen, tech.clone()).map_err(fault)?;
        let early = |_: TraceError| fault("does not start after the one before".to_owned());
        log.push(1, (start * 1e6).round() as i64, row, None).map_err(early)?;
    }
    let low = |row: &Row| row[Quantity::Down].or(row[Quantity::Up]) == Some(0.0);
    log.mark_where(low, |length| (length >= 1_900_000).then_some(Low::Outage));
    log.finish()
}

/// Returns iPerf's file first.
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

/// Returns the row of an interval of iPerf, without the technology of its levels.
fn row(interval: &Value, down: bool, seen: &[Look], tech: Tech) -> Result<Row, String> {
    let rate = Quantity::Up.check(number(interval, "/sum/bits_per_second")? / 1e6)?;
    // In microseconds; present only if this side sends.
    let rtt = interval.pointer("/streams/0/rtt").and_then(Value::as_f64);
    let rtt_ms = rtt.map(|rtt| Quantity::Rtt.check(rtt / 1e3)).transpose()?;
    let levels: Vec<f64> = seen.iter().filter_map(|look| look.signal).collect();
    let rssi = (!levels.is_empty()).then(|| levels.iter().sum::<f64>() / levels.len() as f64);
    let mut events = Vec::new();
    let again = interval.pointer("/sum/retransmits").and_then(Value::as_u64).unwrap_or(0);
    if let Some(count) = u32::try_from(again).ok().filter(|&count| count > 0) {
        events.push(Event::Retransmits(count));
    }
    if !seen.is_empty() && seen.iter().all(|look| !look.connected) {
        events.push(Event::Disconnected);
    }
    let direction = if down { Quantity::Down } else { Quantity::Up };
    let row = Row { tech, events, ..Row::default() };
    Ok(row.with(direction, rate).with(Quantity::Rtt, rtt_ms).with(Quantity::Rssi, rssi))
}

/// Returns a number in iPerf's file.
fn number(value: &Value, pointer: &str) -> Result<f64, String> {
    let number = value.pointer(pointer).and_then(Value::as_f64);
    number.ok_or_else(|| format!("there is no number at {pointer}"))
}

/// One report of `iw link`.
struct Look {
    /// Seconds since 1970.
    at: f64,
    connected: bool,
    signal: Option<f64>,
    tech: Option<Tech>,
}

fn looks(input: &Input) -> Result<Vec<Look>, TraceError> {
    let lines = (0..).zip(input.text.lines()).filter(|(_, text)| !text.trim().is_empty());
    lines
        .map(|(above, text)| {
            let line: Value = serde_json::from_str(text).map_err(|error| json(input, above, &error))?;
            look(&line).map_err(|problem| TraceError::line(&input.name, above + 1, problem))
        })
        .collect()
}

fn look(line: &Value) -> Result<Look, String> {
    let nanos = line["timestamp"].as_u64().ok_or("there is no timestamp")?;
    let said = line.pointer("/payload/phy").and_then(Value::as_str).ok_or("there is no /payload/phy")?;
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
    Ok(Look { at: nanos as f64 / 1e9, connected, signal, tech })
}
