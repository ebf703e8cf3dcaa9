//! Walking loops of Narayanan et al., SIGCOMM 2021 (<https://github.com/SIGCOMM21-5G/artifact>, the
//! `merged-logs`): one row a second. The downlink is iPerf's receiver; the uplink is the interface's counter of
//! bytes, as iPerf's sender jumps at its start.
//!
//! The levels are those of 5G, measured only while it is connected; otherwise the row is of LTE,
//! and has none. A rate under 0.5 Mbit/s is an outage. Runs in one file are its parts.

use squall_signal::Technology;

use super::{
    clock,
    input::Input,
    log::{Log, Low},
    parts::part,
};
use crate::{
    Quantity, Recording, Row, Tech, TraceError,
    sheet::{Cells, Layout, Sheet},
};

/// Columns that identify these logs.
pub(crate) const MARKS: &[&str] =
    &["timestamp", "nrStatus", "nr_ssRsrp", "nr_ssSinr", "Throughput", "direction", "run_number"];

/// Further columns that are read.
const MORE: &[&str] = &["uplink_mbps", "network_type"];

/// Reads a log, or a part of one.
pub(super) fn read(input: &Input, wish: Option<&str>) -> Result<Recording, TraceError> {
    // Runs have whole numbers, but are written as `163.0`.
    let run = |cells: Cells<'_>| {
        let run = cells.text("run_number");
        run.strip_suffix(".0").unwrap_or(run).to_owned()
    };
    let wanted = part(input, &[MARKS, MORE].concat(), run, wish)?;
    let mut sheet = Sheet::open(&input.name, &input.text, Layout::Delimited)?;
    let mut log = Log::new(&input.name);
    while let Some(cells) = sheet.next()? {
        if run(cells) == wanted {
            let at = clock::date(cells, "timestamp")?;
            let row = row(cells)?;
            log.push(cells.line, at, row, None)?;
        }
    }
    for direction in Quantity::RATES {
        log.mark(direction, 0.5, |_| Some(Low::Outage));
    }
    log.finish()
}

fn row(cells: Cells<'_>) -> Result<Row, TraceError> {
    let (rate, column) = match cells.text("direction") {
        "downlink" => (Quantity::Down, "Throughput"),
        "uplink" => (Quantity::Up, "uplink_mbps"),
        other => {
            return Err(cells.fault("direction", format!("{other:?} is neither downlink nor uplink")));
        }
    };
    let row = Row::default().with(rate, cells.quantity(column, rate, 1.0)?);
    if cells.text("nrStatus") != "CONNECTED" {
        return Ok(Row { tech: Tech::from(Technology::Lte), ..row });
    }
    let is_standalone = cells.text("network_type").starts_with("SA");
    let tech = Tech::from(if is_standalone { Technology::Nr } else { Technology::NrNsa });
    Ok(Row { tech, ..row }
        .with(Quantity::Rsrp, cells.quantity("nr_ssRsrp", Quantity::Rsrp, 1.0)?)
        .with(Quantity::Sinr, cells.quantity("nr_ssSinr", Quantity::Sinr, 1.0)?))
}
