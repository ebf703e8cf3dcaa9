//! Mahimahi's packet-delivery traces.
//!
//! A trace has one whole number of milliseconds per line, never decreasing: each line is one
//! opportunity to send 1,504 bytes (a packet of 1,500 and the 4 bytes of its TUN header). Small
//! packets share an opportunity, a packet may need several, and the unused part of an opportunity
//! is lost. After the last line the trace restarts at the time of the last line.

use std::{fmt::Write as _, str::FromStr, sync::Arc};

use crate::{Format, LONGEST, MAX_OPPORTUNITIES, RecordingError, TraceError, sheet::lines};

/// Bytes one opportunity carries.
pub const OPPORTUNITY: u64 = 1_504;

/// Bytes that mahimahi adds to the IP size of each packet: the header of its TUN device.
pub const TUN_HEADER: u64 = 4;

/// A parsed trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    millis: Arc<[u64]>,
}

impl FromStr for Trace {
    type Err = RecordingError;

    fn from_str(text: &str) -> Result<Self, RecordingError> {
        let mut millis: Vec<u64> = Vec::new();
        for (line, text) in lines(text) {
            let line = usize::try_from(line).unwrap_or(usize::MAX);
            let fault = |problem: String| Err(RecordingError::Opportunity { line, problem });
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            let Some(now) = text.parse().ok().filter(|_| digits) else {
                return fault(format!("{text:?} is not a whole number of milliseconds"));
            };
            let before = millis.last().copied().unwrap_or(0);
            if now < before {
                return fault(format!("{now} ms is earlier than {before} ms on the line before"));
            }
            if now > MAX_MILLIS {
                return fault(format!("{now} ms is later than 7 days; {REMEDY}"));
            }
            if millis.len() as u64 == MAX_OPPORTUNITIES {
                return fault(format!("there are more than {MAX_OPPORTUNITIES} lines"));
            }
            millis.push(now);
        }
        Self::new(millis)
    }
}

/// Maximum time in milliseconds.
const MAX_MILLIS: u64 = LONGEST / 1_000;

const REMEDY: &str = "write milliseconds since the start of the recording";

impl Trace {
    /// Creates a trace of these opportunities, in milliseconds.
    ///
    /// # Errors
    /// If there are none, they go back in time, end at 0, or later than a week.
    pub fn new(millis: Vec<u64>) -> Result<Self, RecordingError> {
        let fault = |line: usize, problem: String| Err(RecordingError::Opportunity { line, problem });
        if let Some(index) = millis.windows(2).position(|pair| pair[1] < pair[0]) {
            let (before, now) = (millis[index], millis[index + 1]);
            return fault(index + 2, format!("{now} ms is earlier than {before} ms on the line before"));
        }
        match millis.last() {
            None => fault(1, "the trace is empty".to_owned()),
            Some(0) => fault(millis.len(), "the last time must be above 0".to_owned()),
            Some(now) if *now > MAX_MILLIS => {
                fault(millis.len(), format!("{now} ms is later than 7 days; {REMEDY}"))
            }
            Some(_) => Ok(Self { millis: millis.into() }),
        }
    }

    /// Parses the text of a file; `file` is its name in errors. Empty lines and comments, which
    /// begin with `#`, are skipped.
    ///
    /// # Errors
    /// As [`Self::new`], if a line is not a whole number of milliseconds, or if there are more than [`MAX_OPPORTUNITIES`].
    pub fn parse(file: &str, text: &str) -> Result<Self, TraceError> {
        text.parse().map_err(|error| match error {
            RecordingError::Opportunity { line, problem } => {
                let other = Format::detect(text).filter(|other| *other != Format::Mahimahi);
                let advice = other.map(|other| format!("; {}", other.advice("mahimahi"))).unwrap_or_default();
                TraceError::line(file, line as u64, format!("{problem}{advice}"))
            }
            error => TraceError::file(file, error.to_string()),
        })
    }

    /// Returns the opportunities of one round, in milliseconds.
    pub fn millis(&self) -> &[u64] {
        &self.millis
    }

    /// Returns the text of a file.
    pub fn text(&self) -> String {
        let mut text = String::with_capacity(self.millis.len() * 7);
        for millis in &*self.millis {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{millis}");
        }
        text
    }

    /// Returns the period of the trace in milliseconds: the time of its last line.
    pub fn period(&self) -> u64 {
        self.millis[self.millis.len() - 1]
    }

    /// Returns the average bits per second of a round, of which 4 in 1,504 are TUN headers.
    pub fn mean_bps(&self) -> u64 {
        self.millis.len() as u64 * OPPORTUNITY * 8 * 1_000 / self.period()
    }

    /// Returns the opportunities in the first `millis` milliseconds of the endlessly repeated
    /// trace, including those at `millis`: the most that the link could have sent, over
    /// [`OPPORTUNITY`].
    pub fn opportunities_until(&self, millis: u64) -> u64 {
        let (period, count) = (self.period(), self.millis.len() as u64);
        let at_most = |local: u64| self.millis.partition_point(|&at| at <= local) as u64;
        let (rounds, local) = (millis / period, millis % period);
        // The end of each round coincides with the opportunities at 0 of the next.
        rounds * count + at_most(local)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn errors_name_the_line() {
        let error = |text: &str| text.parse::<Trace>().unwrap_err().to_string();
        assert_eq!(error(""), "line 1: the trace is empty");
        assert_eq!(error("1\n\n2.5\n"), "line 3: \"2.5\" is not a whole number of milliseconds");
        assert_eq!(error("+1\n"), "line 1: \"+1\" is not a whole number of milliseconds");
        assert_eq!(error("5\n4\n"), "line 2: 4 ms is earlier than 5 ms on the line before");
        let week =
            "line 2: 604800001 ms is later than 7 days; write milliseconds since the start of the recording";
        assert_eq!(error("1\n604800001\n"), week);
        let table = Trace::parse("t.csv", "time_s,down_mbps\n0,1\n").unwrap_err().to_string();
        let advice = "this is csv, of which `squall-lab trace convert --to mahimahi` makes such a file";
        assert_eq!(
            table,
            format!("t.csv:1: \"time_s,down_mbps\" is not a whole number of milliseconds; {advice}")
        );
        let many = "1\n".repeat(MAX_OPPORTUNITIES as usize + 1);
        assert_eq!(error(&many), "line 10000001: there are more than 10000000 lines");
        assert_eq!(error("0\n0\n"), "line 2: the last time must be above 0");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[0-9\n .-]{0,40}") {
            let _ = text.parse::<Trace>();
        }
    }
}
