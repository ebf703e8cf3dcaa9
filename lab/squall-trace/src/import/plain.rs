//! Lines of two numbers, the time in seconds and the downlink's rate in Mbit/s, separated by a
//! space, a tab, a comma or a semicolon: the Lumos5G traces (IMC 2020) as in
//! <https://github.com/SIGCOMM21-5G/artifact>, Zhuge, Solis, Pensieve. The first line may have
//! names: the unit of the rate, `kbps`, `bps` or `Mbps`, in the second, and `_ms` at the end of the
//! first.
//!
//! A rate of 0 is an outage. Of several rows with one time the first counts. Such a log does not
//! contain the technology: it is `cellular` unless another word is requested.

use std::ops::RangeInclusive;

use super::{
    input::Input,
    log::{Log, Low},
};
use crate::{Quantity, Recording, Row, Tech, TraceError, quantity::within, sheet::lines};

/// Maximum rate in Mbit/s of a log without a unit: more than a phone has reached in any published
/// log.
const MAX_WITHOUT_UNIT: f64 = 4e3;

/// Returns `true` if a first line belongs to such a log.
pub(crate) fn is_its(first: &str) -> bool {
    match words(first)[..] {
        [time, rate] => {
            number(time, first).is_some() == number(rate, first).is_some()
                && (number(time, first).is_some() || unit(rate).is_some())
        }
        _ => false,
    }
}

/// Reads a log.
pub(super) fn read(input: &Input) -> Result<Recording, TraceError> {
    let tech = Tech::of("cellular");
    let mut log = Log::new(&input.name);
    let (mut named, mut per_second) = (None, 1.0);
    for (index, (line, text)) in lines(&input.text).enumerate() {
        let fault = |problem: String| TraceError::line(&input.name, line, problem);
        let words = words(text);
        if index == 0 && words.iter().all(|word| number(word, text).is_none()) {
            named = words.last().and_then(|name| unit(name));
            let first = words.first().map(|name| name.to_ascii_lowercase()).unwrap_or_default();
            per_second =
                if ["_ms", "(ms)", "[ms]"].iter().any(|end| first.ends_with(end)) { 1e3 } else { 1.0 };
            continue;
        }
        let [time, rate] = words[..] else {
            return Err(fault(format!("{} words instead of a time and a rate", words.len())));
        };
        let read = |word: &str| number(word, text).ok_or_else(|| fault(format!("{word:?} is not a number")));
        let time = within(read(time)? / per_second, &CLOCKS)
            .map_err(|problem| fault(format!("time: {problem}; write seconds")))?;
        let rate = read(rate)? / named.unwrap_or(1.0);
        let rate =
            within(rate, &Quantity::Down.bounds()).map_err(|problem| fault(format!("rate: {problem}")))?;
        if named.is_none() && rate > MAX_WITHOUT_UNIT {
            let gigabits = rate / 1e3;
            return Err(fault(format!(
                "rate: {rate} is {gigabits} Gbit/s if it is in Mbit/s; which unit is it? A first line \"time kbps\", \"time bps\" or \"time Mbps\" names it"
            )));
        }
        let clock = (time * 1e6).round() as i64;
        if log.last() != Some(clock) {
            let row = Row { tech: tech.clone(), ..Row::default() };
            log.push(line, clock, row.with(Quantity::Down, rate), None)?;
        }
    }
    log.mark_where(|row| row[Quantity::Down] == Some(0.0), |_| Some(Low::Outage));
    log.finish()
}

/// Times in seconds, which may count from 1970.
const CLOCKS: RangeInclusive<f64> = 0.0..=1e10;

fn words(line: &str) -> Vec<&str> {
    let delimiter = |c: char| c.is_whitespace() || c == ';' || (c == ',' && !line.contains([';', '\t']));
    line.split(delimiter).map(|word| word.trim_matches('"')).filter(|word| !word.is_empty()).collect()
}

/// Parses a word as a number; with a decimal comma if words are not separated by commas.
fn number(word: &str, line: &str) -> Option<f64> {
    let point = line.contains([';', '\t']).then(|| word.replacen(',', ".", 1));
    point.as_deref().unwrap_or(word).parse().ok()
}

/// Returns the number of units at the end of a name in 1 Mbit/s.
fn unit(name: &str) -> Option<f64> {
    let name = name.to_ascii_lowercase();
    let has = |words: [&str; 2]| words.iter().any(|word| name.contains(word));
    [(["mbps", "mbit"], 1.0), (["kbps", "kbit"], 1e3), (["bps", "bit/s"], 1e6)]
        .into_iter()
        .find(|(words, _)| has(*words))
        .map(|(_, per)| per)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;

    #[test]
    fn two_columns_may_have_a_comma_and_names() {
        let plain = |text: &str| read(&Input::new("log", text));
        let log = plain("time,Mbps\n10,4.5\n10.2,0\n").unwrap();
        let rows: Vec<_> = log.rows().iter().map(|row| (row.at, row[Quantity::Down])).collect();
        assert_eq!(rows, [(0, Some(4.5)), (200_000, Some(0.0))]);
        assert_eq!(plain("0 4\n1 5\n").unwrap().rows().len(), 2);
        let refused = |text: &str| plain(text).unwrap_err().to_string();
        assert_eq!(refused("t,r\n0,1\n1,x\n"), "log:3: \"x\" is not a number");
        assert_eq!(refused("0,1\n\n2\n"), "log:3: 1 words instead of a time and a rate");
    }
    #[test]
    fn a_rate_that_no_phone_has_needs_its_unit() {
        let rates = |text: &str| -> Vec<f64> {
            let log = read(&Input::new("log", text)).expect("is a log");
            log.rows().iter().filter_map(|row| row[Quantity::Down]).collect()
        };
        let text = "0.0\t5000\n0.5\t3000\n";
        let refused = read(&Input::new("log", text)).unwrap_err().to_string();
        assert_eq!(
            refused,
            "log:1: rate: 5000 is 5 Gbit/s if it is in Mbit/s; which unit is it? A first line \"time kbps\", \"time bps\" or \
             \"time Mbps\" names it"
        );
        for (names, expected) in [("time kbps", 5.0), ("t,rate_bps", 0.005), ("time\tMbps", 5_000.0)] {
            let text = format!("{names}\n{text}");
            assert_eq!((Format::detect(&text), rates(&text)[0]), (Some(Format::Plain), expected), "{names}");
        }
        assert_eq!(rates("time;Mbit/s\n0,0;4,5\n"), [4.5]);
        let log = read(&Input::new("log", "time_ms,rate_kbps\n1700000000000,5\n1700000000500,6\n"))
            .expect("is a log");
        assert_eq!(log.rows().iter().map(|row| row.at).collect::<Vec<_>>(), [0, 500_000]);
    }
}
