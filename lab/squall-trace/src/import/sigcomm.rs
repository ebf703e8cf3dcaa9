//! Walking loops of Narayanan et al., SIGCOMM 2021 (<https://github.com/SIGCOMM21-5G/artifact>, the
//! `merged-logs`): one row a second. The downlink is iPerf's receiver; the uplink is the interface's counter of
//! bytes, as iPerf's sender jumps at its start.
//!
//! The levels are those of 5G, told only while it is connected; else the row is of LTE, and has none. A rate
//! under 0.5 Mbit/s is an outage. A file with several runs has them as parts.

use super::{
    ImportError, Input, clock,
    log::{Log, Verdict},
    part,
};
use squall_signal::Technology;

use crate::{
    Quantity, Row, Tech, Trace, TraceError,
    sheet::{Cells, Sheet},
};

/// The columns by which these logs are known.
pub(super) const MARKS: &[&str] =
    &["timestamp", "nrStatus", "nr_ssRsrp", "nr_ssSinr", "Throughput", "direction", "run_number"];

/// Imports a log, or a part of one.
pub(super) fn import(input: &Input, wish: Option<&str>) -> Result<Trace, ImportError> {
    let run = part(&input.name, &runs(input)?, wish)?;
    let mut sheet = Sheet::with_commas(&input.name, &input.text)?;
    let columns = Columns::of(&sheet)?;
    let mut log = Log::new(&input.name);
    while let Some(cells) = sheet.next()? {
        if number(cells.text(columns.run)) == run {
            let text = cells.text(columns.time);
            let fault = || cells.fault(columns.time, format!("{text:?} is not a date and time"));
            let seconds = clock::numbers(text).ok_or_else(fault)?;
            log.push(cells.line, seconds * 1_000_000, columns.row(cells)?, None)?;
        }
    }
    let low = |row: &Row| row.down_mbps.or(row.up_mbps).is_some_and(|rate| rate < 0.5);
    log.judge(low, |_| Some(Verdict::Outage));
    Ok(log.finish()?)
}

/// The runs of a file.
fn runs(input: &Input) -> Result<Vec<String>, TraceError> {
    let mut sheet = Sheet::with_commas(&input.name, &input.text)?;
    let run = sheet.need("run_number")?;
    let mut runs: Vec<String> = Vec::new();
    while let Some(cells) = sheet.next()? {
        let name = number(cells.text(run));
        if runs.last().is_none_or(|last| last != name) && !runs.iter().any(|known| known == name) {
            runs.push(name.to_owned());
        }
    }
    Ok(runs)
}

/// Runs have whole numbers, but are written as `163.0`.
fn number(run: &str) -> &str {
    run.strip_suffix(".0").unwrap_or(run)
}

struct Columns {
    time: usize,
    run: usize,
    status: usize,
    rsrp: usize,
    sinr: usize,
    down: usize,
    up: usize,
    network: usize,
    direction: usize,
}

impl Columns {
    fn of(sheet: &Sheet<'_>) -> Result<Self, TraceError> {
        Ok(Self {
            time: sheet.need("timestamp")?,
            run: sheet.need("run_number")?,
            status: sheet.need("nrStatus")?,
            rsrp: sheet.need("nr_ssRsrp")?,
            sinr: sheet.need("nr_ssSinr")?,
            down: sheet.need("Throughput")?,
            up: sheet.need("uplink_mbps")?,
            network: sheet.need("network_type")?,
            direction: sheet.need("direction")?,
        })
    }

    fn row(&self, cells: Cells<'_>) -> Result<Row, TraceError> {
        let rates = match cells.text(self.direction) {
            "downlink" => (cells.quantity(self.down, Quantity::Down, 1.0)?, None),
            "uplink" => (None, cells.quantity(self.up, Quantity::Up, 1.0)?),
            other => {
                let problem = format!("{other:?} is neither downlink nor uplink");
                return Err(cells.fault(self.direction, problem));
            }
        };
        let row = Row { down_mbps: rates.0, up_mbps: rates.1, ..Row::default() };
        if cells.text(self.status) != "CONNECTED" {
            return Ok(Row { tech: Tech::from(Technology::Lte), ..row });
        }
        let standalone = cells.text(self.network).starts_with("SA");
        Ok(Row {
            rsrp: cells.level(self.rsrp, Quantity::Rsrp)?,
            sinr: cells.level(self.sinr, Quantity::Sinr)?,
            tech: Tech::from(if standalone { Technology::Nr } else { Technology::NrNsa }),
            ..row
        })
    }
}
