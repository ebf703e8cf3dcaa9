//! Squall's own table of a recording, as a CSV file.

use std::fmt::{self, Write};

use crate::{
    Event, Format, MAX_ROWS, Micros, Quantity, RecordingError, Row, Tech, TraceError,
    quantity::{TIMES, within},
    row::seconds,
    sheet::{Cells, Layout, Sheet},
};

/// Columns of a file. Its first line has the names; their case and order are free, and all but
/// `time_s` may be missing. A column with another name is rejected, since it could be one of these
/// with a misspelt name, unless the rate is requested by its column name. An unknown event is
/// rejected, too.
///
/// An empty cell means that nothing valid was measured. Events are joined by `;`.
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

/// Column requested by name; if there is one, unknown columns of the file are ignored.
#[derive(Clone, Copy)]
pub(crate) enum Asked<'n> {
    /// None: every column must be one of [`COLUMNS`].
    Nothing,
    /// A rate of a recording, in any unit.
    Rate,
    /// Exactly this column.
    Column(&'n str),
}

/// Passes each row of a file up to the time `longest` to `take`, with its cells.
pub(crate) fn each_row(
    file: &str,
    text: &str,
    asked: Asked<'_>,
    longest: Micros,
    mut take: impl FnMut(Cells<'_>, Row) -> Result<(), TraceError>,
) -> Result<(), TraceError> {
    let mut sheet = Sheet::open(file, text, Layout::Delimited)?;
    if !sheet.has(&[TIME])
        && let Some(other) = Format::detect(text).filter(|other| *other != Format::Csv)
    {
        return Err(sheet.fault_of_names(format!("there is no column {TIME:?}; {}", other.advice("csv"))));
    }
    sheet.need(&[TIME])?;
    let asked_name = if let Asked::Column(name) = asked { Some(name) } else { None };
    sheet.need(asked_name.as_slice())?;
    // A rate in two units would be present twice.
    let meaning =
        |name: &str| Quantity::of_column(name).map_or(name.to_ascii_lowercase(), |one| one.to_string());
    let is_known = |name: &String| COLUMNS.contains(&meaning(name).as_str());
    let counts =
        |name: &&String| is_known(name) || asked_name.is_some_and(|asked| asked.eq_ignore_ascii_case(name));
    let mut meanings: Vec<String> = Vec::new();
    for name in sheet.names().iter().filter(counts) {
        if meanings.contains(&meaning(name)) {
            return Err(sheet.fault_of_names(format!("there are two columns {:?}", meaning(name))));
        }
        meanings.push(meaning(name));
    }
    if matches!(asked, Asked::Nothing)
        && let Some(odd) = sheet.names().iter().find(|name| !is_known(name))
    {
        let known = COLUMNS.join(", ");
        let problem = format!(
            "there is no column {odd:?} in a trace; there are {known}; --column with the name of the rate passes over others"
        );
        return Err(sheet.fault_of_names(problem));
    }
    let (mut before, mut count) = (Row::default(), 0_usize);
    while let Some(cells) = sheet.next()? {
        let row = row(cells, &before, longest)?;
        count += 1;
        if count > MAX_ROWS {
            return Err(cells.fault_of_row(RecordingError::TooManyRows.to_string()));
        }
        before = Row { at: row.at, tech: row.tech.clone(), ..Row::default() };
        take(cells, row)?;
    }
    Ok(())
}

/// Reads the rows of a file.
pub(crate) fn read(
    file: &str,
    text: &str,
    asked: Asked<'_>,
    longest: Micros,
) -> Result<Vec<Row>, TraceError> {
    let mut rows = Vec::new();
    each_row(file, text, asked, longest, |_, row| {
        rows.push(row);
        Ok(())
    })?;
    Ok(rows)
}

fn row(cells: Cells<'_>, before: &Row, longest: Micros) -> Result<Row, TraceError> {
    let mut row = Row::new(time(cells, longest)?);
    for quantity in Quantity::ALL {
        row[quantity] = cells.number(quantity.name())?;
        for (name, units) in quantity.other_units() {
            row[quantity] = row[quantity].or(cells.number(name)?.map(|number| number / units));
        }
    }
    row.check(before.at).map_err(|problem| cells.fault_of_row(problem))?;
    // Words are shared between rows.
    let word = cells.text(TECH);
    row.tech = match &before.tech {
        same if same.word() == word => same.clone(),
        _ => Tech::new(word).map_err(|problem| cells.fault(TECH, problem))?,
    };
    let tokens = cells.text(EVENT).split(';').filter(|_| !cells.text(EVENT).is_empty());
    let events: Result<Vec<Event>, String> = tokens.map(|token| token.trim().parse()).collect();
    row.events = events.map_err(|problem| cells.fault(EVENT, problem))?;
    Ok(row)
}

fn time(cells: Cells<'_>, longest: Micros) -> Result<Micros, TraceError> {
    const REMEDY: &str = "write seconds since the start of the recording";
    let text = cells.text(TIME);
    let seconds =
        cells.number(TIME).map_err(|_| cells.fault(TIME, format!("{text:?} is not a number; {REMEDY}")))?;
    let seconds = seconds.ok_or_else(|| cells.fault(TIME, "is empty"))?;
    let bounds = *TIMES.start()..=TIMES.end().min(longest as f64 / 1e6);
    let seconds =
        within(seconds, &bounds).map_err(|problem| cells.fault(TIME, format!("{problem}; {REMEDY}")))?;
    Ok((seconds * 1e6).round() as Micros)
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
