//! Squall's own table of a recording, as a CSV file.

use std::fmt::{self, Write};

use squall_units::Micros;

use crate::{
    Event, Quantity, Row, Tech, TraceError,
    quantity::TIMES,
    sheet::{Cells, Layout, Sheet},
};

/// The columns of a file. Its first line has the names; the order is free, and all but `time_s` may be missing. A column
/// of another name is refused, since it could be one of these with a mistake in its name. So is an unknown event.
///
/// An empty cell means that nothing was measured, or nothing valid. Events are joined by `;`.
pub const COLUMNS: [&str; 10] = [
    TIME,
    Quantity::Down.name(),
    Quantity::Up.name(),
    Quantity::Rtt.name(),
    Quantity::Rsrp.name(),
    Quantity::Rsrq.name(),
    Quantity::Sinr.name(),
    Quantity::Rssi.name(),
    TECH,
    EVENT,
];

pub(crate) const TIME: &str = "time_s";
const TECH: &str = "tech";
const EVENT: &str = "event";

/// The rows of a file.
pub(crate) fn read(file: &str, text: &str) -> Result<Vec<Row>, TraceError> {
    let mut sheet = Sheet::open(file, text, Layout::Commas)?;
    if let Some(odd) = sheet.names().iter().find(|name| !COLUMNS.contains(&name.as_str())) {
        let known = COLUMNS.join(", ");
        return Err(TraceError::line(
            file,
            1,
            format!("there is no column {odd:?} in a trace; there are {known}"),
        ));
    }
    sheet.need(&[TIME])?;
    let mut rows: Vec<Row> = Vec::new();
    while let Some(cells) = sheet.next()? {
        let row = row(cells, rows.last())?;
        rows.push(row);
    }
    Ok(rows)
}

fn row(cells: Cells<'_>, before: Option<&Row>) -> Result<Row, TraceError> {
    let mut row = Row::new((cells.given(TIME, &TIMES)? * 1e6).round() as Micros);
    for quantity in Quantity::ALL {
        row[quantity] = cells.number(quantity.name())?;
    }
    row.check(before.map_or(0, |before| before.at)).map_err(|problem| cells.fault_of_row(problem))?;
    // Words are shared from row to row.
    let word = cells.text(TECH);
    row.tech = match before.map(|before| &before.tech).filter(|tech| tech.word() == word) {
        Some(same) => same.clone(),
        None => Tech::new(word).map_err(|problem| cells.fault(TECH, problem))?,
    };
    let tokens = cells.text(EVENT).split(';').filter(|_| !cells.text(EVENT).is_empty());
    let events: Result<Vec<Event>, String> = tokens.map(|token| token.trim().parse()).collect();
    row.events = events.map_err(|problem| cells.fault(EVENT, problem))?;
    Ok(row)
}

/// Writes all columns, in the order of [`COLUMNS`]. No cell needs quotes.
pub(crate) fn write(rows: &[Row], f: &mut impl Write) -> fmt::Result {
    writeln!(f, "{}", COLUMNS.join(","))?;
    for row in rows {
        f.write_str(&seconds(row.at))?;
        for quantity in Quantity::ALL {
            match row[quantity] {
                Some(value) => write!(f, ",{value}")?,
                None => f.write_char(',')?,
            }
        }
        let events: Vec<String> = row.events.iter().map(Event::to_string).collect();
        writeln!(f, ",{},{}", row.tech, events.join(";"))?;
    }
    Ok(())
}

/// Seconds with as many decimals as are needed.
pub(crate) fn seconds(at: Micros) -> String {
    let text = format!("{}.{:06}", at / 1_000_000, at % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
