//! One column of any table, by the unit at the end of its name.

use squall_units::{Rate, Ratio, Span};

use crate::{
    LONGEST, TraceError, own,
    sheet::{Layout, Sheet},
};

/// A quantity that can be read from a number in a column of a table.
pub trait Sample: Copy {
    /// Converts a number in the column's unit (the ending of its name). Returns `None` if that unit
    /// does not suit or the number is out of range.
    fn from_column(value: f64, column: &str) -> Option<Self>;
}

impl Sample for Rate {
    fn from_column(value: f64, column: &str) -> Option<Self> {
        whole(value, column, [("bps", 1.0), ("kbps", 1e3), ("mbps", 1e6)]).map(Self::from_bps)
    }
}

impl Sample for Span {
    fn from_column(value: f64, column: &str) -> Option<Self> {
        whole(value, column, [("us", 1.0), ("ms", 1e3), ("s", 1e6)]).map(Self::from_micros)
    }
}

impl Sample for Ratio {
    fn from_column(value: f64, _: &str) -> Option<Self> {
        Self::from_f64(value)
    }
}

/// Returns the nearest whole number of the smallest unit. `None` if the column has another unit, or
/// the value is negative or too large for a double to represent every integer.
fn whole(value: f64, column: &str, units: [(&str, f64); 3]) -> Option<u64> {
    let unit = column.rsplit('_').next()?;
    let (_, factor) = units.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    let value = value * factor;
    (0.0..9e15).contains(&value).then(|| value.round() as u64)
}

/// Returns the values of a column of a table, times `scale`, with their times from the column
/// `time_s`. Rows with an empty value are left out, so there may be none. `file` is the name of the
/// file in errors.
///
/// # Errors
/// As [`Recording::load`](crate::Recording::load) of a table whose rate has this name; also if the
/// unit at its end does not suit.
pub fn column<V: Sample>(
    file: &str,
    text: &str,
    name: &str,
    scale: f64,
) -> Result<Vec<(Span, V)>, TraceError> {
    let mut steps: Vec<(Span, V)> = Vec::new();
    own::each_row(file, text, own::Asked::Column(name), LONGEST, |cells, row| {
        let Some(number) = cells.number(name)? else { return Ok(()) };
        let range =
            || cells.fault(name, format!("{} is out of range or of the wrong unit", cells.text(name)));
        let value = V::from_column(number * scale, name).ok_or_else(range)?;
        steps.push((Span::from_micros(row.at), value));
        Ok(())
    })?;
    Ok(steps)
}

/// Returns `true` if a table has a column of that name.
pub fn has_column(text: &str, name: &str) -> bool {
    Sheet::open("", text, Layout::Delimited).is_ok_and(|sheet| sheet.has(&[name]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_column_by_its_unit() {
        let text = "time_s,down_mbps,rtt_ms\n0,12.5,\n1,,40\n2.5,0,\n";
        let rates: Vec<(Span, Rate)> = column("x.csv", text, "down_mbps", 1.0).unwrap();
        let expected = [
            (Span::from_micros(0), Rate::from_bps(12_500_000)),
            (Span::from_millis(2500), Rate::from_bps(0)),
        ];
        assert_eq!(rates, expected);
        let delays: Vec<(Span, Span)> = column("x.csv", text, "rtt_ms", 0.5).unwrap();
        assert_eq!(delays, [(Span::from_millis(1_000), Span::from_millis(20))]);
        assert!(has_column(text, "rtt_ms") && !has_column(text, "up_mbps"));
    }

    #[test]
    fn errors_name_line_and_column() {
        let error = |text: &str| column::<Rate>("x.csv", text, "down_mbps", 1.0).unwrap_err().to_string();
        assert_eq!(error("time_s,up_mbps\n"), "x.csv:1: there is no column \"down_mbps\"");
        assert_eq!(error("time_s,down_mbps\n0,1\n1,fast\n"), "x.csv:3: down_mbps: \"fast\" is not a number");
        assert_eq!(error("time_s,down_mbps\n2,1\n1,1\n"), "x.csv:3: time_s: 1 is before the row above, 2");
        assert_eq!(error("time_s,down_mbps\n0,-3\n"), "x.csv:2: down_mbps: -3 is not within 0…10000");
        let unit = column::<Rate>("x.csv", "time_s,down_ms\n0,3\n", "down_ms", 1.0).unwrap_err().to_string();
        assert_eq!(unit, "x.csv:2: down_ms: 3 is out of range or of the wrong unit");
    }
}
