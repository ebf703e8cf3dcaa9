//! Bandwidth logs of commutes: HSDPA in Oslo (Riiser et al., MMSys 2013,
//! <https://datasets.simula.no/hsdpa-tcp-logs/>) and 4G in Ghent (van der Hooft et al., IEEE Communications
//! Letters 2016, <https://users.ugent.be/~jvdrhoof/dataset-4g/>).
//!
//! Six numbers per line: a clock since 1970 (seconds in the first, milliseconds in the second), a
//! clock in milliseconds from any start, latitude and longitude in degrees, the bytes received in
//! the interval that ends here, and its length in milliseconds. The second clock is used. The rate
//! of an interval is assigned to its beginning; the position is dropped. A time that belongs to no
//! interval, and is longer than three usual ones, is a gap.

use super::{input::Input, log::recording};
use crate::{
    Event, MAX_ROWS, Micros, Quantity, Recording, RecordingError, Row, TraceError, row::usual_step,
    sheet::lines,
};

/// An interval of a log, in microseconds of its own clock.
struct Interval {
    start: f64,
    end: f64,
    mbps: f64,
}

/// Reads a log.
pub(super) fn read(input: &Input) -> Result<Recording, TraceError> {
    let mut intervals: Vec<Interval> = Vec::new();
    for (line, text) in lines(&input.text) {
        let fault = |problem: String| TraceError::line(&input.name, line, problem);
        let Some(interval) = interval(text).map_err(fault)? else { continue };
        if intervals.last().is_some_and(|last| interval.start < last.start) {
            return Err(fault("its interval begins before that of the line above".to_owned()));
        }
        if intervals.len() == MAX_ROWS {
            return Err(fault(RecordingError::TooManyRows.to_string()));
        }
        intervals.push(interval);
    }
    let (Some(first), Some(last)) = (intervals.first(), intervals.last()) else {
        return Err(TraceError::file(&input.name, "has no intervals"));
    };
    let since = |time: f64| ((time - first.start) * 1e3).round() as Micros;
    let row = |interval: &Interval| Row::new(since(interval.start)).with(Quantity::Down, interval.mbps);
    let mut rows: Vec<Row> = intervals.iter().map(row).collect();
    let most = 3 * usual_step(&rows);
    for (row, before) in rows.iter_mut().skip(1).zip(&intervals) {
        if row.at.saturating_sub(since(before.end)) > most {
            row.events.push(Event::Gap);
        }
    }
    Ok(recording(&input.name, rows)?.ending(since(last.end)))
}

/// Parses the interval of a line; `None` if the line is empty, or its interval has no length.
fn interval(text: &str) -> Result<Option<Interval>, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.is_empty() {
        return Ok(None);
    }
    let [_, clock, _, _, bytes, length] = words[..] else {
        return Err(format!("{} words instead of six numbers", words.len()));
    };
    // Up to 1e12 a double resolves thousandths.
    let number = |what: &str, word: &str| {
        let number = word.parse().ok().filter(|number: &f64| (0.0..=1e12).contains(number));
        number.ok_or_else(|| format!("{what} \"{word}\" is not a number from 0 to 1000000000000"))
    };
    let (end, bytes, length) = (number("time", clock)?, number("bytes", bytes)?, number("length", length)?);
    if length == 0.0 && bytes == 0.0 {
        return Ok(None);
    }
    let mbps = Quantity::Down.bounds().contains(&(bytes * 8e-3 / length)).then(|| bytes * 8e-3 / length);
    let mbps = mbps.ok_or_else(|| format!("{bytes} bytes in {length} ms is not a rate"))?;
    Ok(Some(Interval { start: end - length, end, mbps: (mbps * 1e6).round() / 1e6 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(text: &str) -> Result<Recording, TraceError> {
        read(&Input::new("bus.log", text))
    }

    #[test]
    fn a_rate_stands_where_its_interval_begins() {
        let text = "1 5000 59.9 10.7 125000 1000\n\n2 5500 59.9 10.7 0 0500\n3 5500 59.9 10.7 0 0\n\
                    4 6500 59.9 10.7 0 1000\n9 12000 59.9 10.7 250000 1000\n";
        let log = log(text).unwrap();
        let rows: Vec<_> =
            log.rows().iter().map(|row| (row.at, row[Quantity::Down], row.events.len())).collect();
        assert_eq!(
            rows,
            [
                (0, Some(1.0), 0),
                (1_000_000, Some(0.0), 0),
                (1_500_000, Some(0.0), 0),
                (7_000_000, Some(2.0), 1)
            ]
        );
        assert_eq!((log.duration(), &log.rows()[3].events), (8_000_000, &vec![Event::Gap]));
    }

    #[test]
    fn errors_name_the_line() {
        let refused = |text: &str| log(text).map(drop).unwrap_err().to_string();
        assert_eq!(refused("1 2 3 4 5\n"), "bus.log:1: 5 words instead of six numbers");
        assert_eq!(
            refused("1 9 3 4 5 1\n1 9 3 4 x 1\n"),
            "bus.log:2: bytes \"x\" is not a number from 0 to 1000000000000"
        );
        assert_eq!(
            refused("1 9 3 4 5 1\n1 8 3 4 5 1\n"),
            "bus.log:2: its interval begins before that of the line above"
        );
        assert_eq!(refused("1 9 3 4 5 0\n"), "bus.log:1: 5 bytes in 0 ms is not a rate");
        assert_eq!(refused("1 9 3 4 0 0\n"), "bus.log: has no intervals");
    }
}
