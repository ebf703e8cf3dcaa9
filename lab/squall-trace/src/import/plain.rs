//! Lines of two numbers, the time in seconds and the downlink's rate in Mbit/s, with a space or a comma between them: the
//! Lumos5G traces (IMC 2020) as <https://github.com/SIGCOMM21-5G/artifact> has them, Zhuge, Solis, Pensieve. The first line
//! may have names.
//!
//! A rate of 0 is an outage. Of several rows of one time the first counts. Such a log does not have the
//! technology: it is `cellular` unless another word is wished for.

use super::{
    Input,
    log::{Log, Low},
};
use crate::{
    Quantity, Recording, Row, Tech, TraceError,
    quantity::{TIMES, within},
};

/// Reads a log.
pub(super) fn read(input: &Input) -> Result<Recording, TraceError> {
    let tech = Tech::of("cellular");
    let mut log = Log::new(&input.name);
    let lines = (1..).zip(input.text.lines()).filter(|(_, text)| !text.trim().is_empty());
    for (index, (line, text)) in lines.enumerate() {
        let fault = |problem: String| TraceError::line(&input.name, line, problem);
        let words: Vec<&str> = text.split([',', ' ', '\t']).filter(|word| !word.trim().is_empty()).collect();
        if index == 0 && words.iter().all(|word| word.parse::<f64>().is_err()) {
            continue;
        }
        let [time, rate] = words[..] else {
            return Err(fault(format!("{} words instead of a time and a rate", words.len())));
        };
        let number =
            |word: &str| word.trim().parse::<f64>().map_err(|_| fault(format!("{word:?} is not a number")));
        let time = within(number(time)?, &TIMES).map_err(|problem| fault(format!("time: {problem}")))?;
        let rate =
            Quantity::Down.check(number(rate)?).map_err(|problem| fault(format!("rate: {problem}")))?;
        let clock = (time * 1e6).round() as i64;
        if log.last() != Some(clock) {
            let row = Row { tech: tech.clone(), ..Row::default() };
            log.push(line, clock, row.with(Quantity::Down, rate), None)?;
        }
    }
    log.mark_where(|row| row[Quantity::Down] == Some(0.0), |_| Some(Low::Outage));
    log.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_columns_may_have_a_comma_and_names() {
        let plain = |text: &str| read(&Input::new("log", text));
        let log = plain("time,Mbps\n10,4.5\n10.2,0\n").unwrap();
        let rows: Vec<_> = log.rows().iter().map(|row| (row.at, row[Quantity::Down])).collect();
        assert_eq!(rows, [(0, Some(4.5)), (200_000, Some(0.0))]);
        assert_eq!(plain("0 4\n1 5\n").unwrap().rows().len(), 2);
        let refused = |text: &str| plain(text).unwrap_err().to_string();
        assert_eq!(refused("t,r\n0,1\n1,x\n"), "log:3: \"x\" is not a number");
        assert_eq!(refused("0,1\n2\n"), "log:2: 1 words instead of a time and a rate");
    }
}
