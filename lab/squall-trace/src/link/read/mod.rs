//! One file for each format of recordings: who writes it, what its numbers mean, and what is made of them.

mod hsdpa;
mod sabre;
mod saturatr;

use crate::{Format as Log, ImportError, Input, Row, Trace, TraceError, Wishes, import};
use squall_units::{Rate, Span};

use super::{
    Column, Format, Recording,
    recording::{Content, List, Table},
};

pub(super) use hsdpa::hsdpa;
pub(super) use sabre::sabre;
pub(super) use saturatr::saturatr;

/// Reads a trace of mahimahi.
pub(super) fn mahimahi(input: &Input) -> Result<List, TraceError> {
    let trace = crate::mahimahi::Trace::parse(&input.name, &input.text)?;
    Ok(List { end: trace.period() * 1_000, millis: trace.millis().to_vec(), rtts: Vec::new() })
}

/// Reads a measurement log. Two columns may have a comma between them, and a line of names.
pub(super) fn log(log: Log, input: &Input) -> Result<Trace, ImportError> {
    if log != Log::Plain {
        return import(Some(log), std::slice::from_ref(input), &Wishes::default());
    }
    let is_data = |line: &str| line.split([',', ' ', '\t']).any(|word| word.parse::<f64>().is_ok());
    let mut lines: Vec<String> = input.text.lines().map(|line| line.replace(',', " ")).collect();
    // The line stays, so that the others keep their numbers.
    if let Some(names) = lines.iter_mut().find(|line| !line.trim().is_empty()).filter(|line| !is_data(line)) {
        names.clear();
    }
    let input = Input { name: input.name.clone(), text: lines.join("\n") };
    import(Some(log), &[input], &Wishes::default())
}

/// Reads a column of a CSV file that traces do not have, as the rate of the downlink.
pub(super) fn column(input: &Input, format: Format, name: &str) -> Result<Recording, TraceError> {
    if format != Format::Csv {
        let problem = format!("there is no column \"{name}\" in {format}");
        return Err(TraceError::Line { file: input.name.clone(), line: 1, problem });
    }
    let steps: Vec<(Span, Rate)> = crate::column(&input.name, &input.text, name, 1.0)?;
    let row = |&(at, rate): &(Span, Rate)| Row {
        at: at.micros(),
        down_mbps: Some(rate.bps() as f64 / 1e6),
        ..Row::default()
    };
    let trace = Trace::new(steps.iter().map(row).collect());
    let fault = |problem: String| TraceError::File { file: input.name.clone(), problem };
    let table = Table::of(&trace.map_err(|error| fault(error.to_string()))?);
    Ok(Recording { format, content: Content::Table(table), column: Some(Column::Down) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> Result<Trace, ImportError> {
        log(Log::Plain, &Input { name: "log".into(), text: text.into() })
    }

    #[test]
    fn two_columns_may_have_a_comma_and_names() {
        let trace = plain("time,Mbps\n10,4.5\n10.2,0\n").unwrap();
        let rows: Vec<_> = trace.rows().iter().map(|row| (row.at, row.down_mbps)).collect();
        assert_eq!(rows, [(0, Some(4.5)), (200_000, Some(0.0))]);
        assert_eq!(plain("0 4\n1 5\n").unwrap().rows().len(), 2);
        assert_eq!(plain("t,r\n0,1\n1,x\n").unwrap_err().to_string(), "log:3: \"x\" is not a number");
        assert_eq!(plain("0,1\n2\n").unwrap_err().to_string(), "log:2: 1 words instead of a time and a rate");
    }
}
