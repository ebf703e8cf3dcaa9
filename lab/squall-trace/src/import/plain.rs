//! Lines of two numbers, the time in seconds and the downlink's rate in Mbit/s, with spaces between them: the
//! Lumos5G traces (IMC 2020) as <https://github.com/SIGCOMM21-5G/artifact> has them, and others.
//!
//! A rate of 0 is an outage. Of several rows of one time the first counts. Such a log does not tell the
//! technology: it is `cellular` unless another word is wished for.

use super::{
    ImportError, Input,
    log::{Log, Verdict},
};
use crate::{Quantity, Row, Tech, Trace, TraceError};

/// Imports a log.
pub(super) fn import(input: &Input, tech: Option<&Tech>) -> Result<Trace, ImportError> {
    let tech = tech.cloned().unwrap_or_else(|| Tech::of("cellular"));
    let mut log = Log::new(&input.name);
    for (line, text) in (1..).zip(input.text.lines()) {
        let fault = |problem: String| TraceError::line(&input.name, line, problem);
        let words: Vec<&str> = text.split_whitespace().collect();
        let (time, rate) = match words[..] {
            [] => continue,
            [time, rate] => (time, rate),
            _ => return Err(fault(format!("{} words instead of a time and a rate", words.len())).into()),
        };
        let number = |word: &str| word.parse::<f64>().map_err(|_| fault(format!("{word:?} is not a number")));
        let time =
            Quantity::Time.check(number(time)?).map_err(|problem| fault(format!("time: {problem}")))?;
        let rate =
            Quantity::Down.check(number(rate)?).map_err(|problem| fault(format!("rate: {problem}")))?;
        let clock = (time * 1e6).round() as i64;
        if log.last() != Some(clock) {
            log.push(line, clock, Row { down_mbps: Some(rate), tech: tech.clone(), ..Row::default() }, None)?;
        }
    }
    log.judge(|row| row.down_mbps == Some(0.0), |_| Some(Verdict::Outage));
    Ok(log.finish()?)
}
