//! Logs of the Android application G-NetTrack, in the two forms in which they were published.
//!
//! - UCC (<https://github.com/uccmisl/5Gdataset>, and one log of the 4G dataset in
//!   <https://github.com/uccmisl/goDASHbed>): a download of large files. A rate under 0.1 Mbit/s for at most
//!   2 s is the boundary of two files; longer, it is an outage.
//! - Kingston (4G LTE measurements on a bus, re-published by hanifnew on GitHub): short downloads and uploads
//!   by turns, so that the rates are lower bounds. While the uplink has 0.1 Mbit/s and more, a downlink under
//!   1 Mbit/s is the application's doing, and so is a time of up to 3 s where both are low; longer, it is an
//!   outage.
//!
//! Both have several rows a second, and rates in kbit/s. A second becomes one row: the means of the rates, the
//! levels of its last row, its last ping.

use super::{
    ImportError, Input, clock,
    log::{Log, Verdict},
};
use squall_signal::Technology;

use crate::{
    Event, Quantity, Row, Tech, Trace, TraceError,
    sheet::{Cells, Sheet},
};

/// The columns by which UCC's logs are known.
pub(super) const UCC: &[&str] = &["Timestamp", "NetworkMode", "RSRP", "DL_bitrate", "UL_bitrate"];

/// The columns by which Kingston's logs are known.
pub(super) const KINGSTON: &[&str] = &["Timestamp", "LAC", "LTERSSI", "RSRP", "DL_bitrate", "UL_bitrate"];

const SECOND: u64 = 1_000_000;

/// Imports a log of UCC.
pub(super) fn ucc(input: &Input) -> Result<Trace, ImportError> {
    let mut sheet = Sheet::with_commas(&input.name, &input.text)?;
    let columns = Columns::of(
        &sheet,
        "RSSI",
        if sheet.column("RAWCELLID").is_some() { &["RAWCELLID"] } else { &["CellID"] },
    )?;
    let mut log = seconds(&mut sheet, &columns, &input.name)?;
    let low = |row: &Row| row.down_mbps.is_some_and(|rate| rate < 0.1);
    log.judge(low, |length| Some(if length > 2 * SECOND { Verdict::Outage } else { Verdict::Idle }));
    Ok(log.finish()?)
}

/// Imports a log of Kingston.
pub(super) fn kingston(input: &Input) -> Result<Trace, ImportError> {
    let mut sheet = Sheet::with_commas(&input.name, &input.text)?;
    let columns = Columns::of(&sheet, "LTERSSI", &["LAC", "CellID"])?;
    let mut log = seconds(&mut sheet, &columns, &input.name)?;
    let slow = |row: &Row| row.down_mbps.is_some_and(|rate| rate < 1.0);
    let sends = |row: &Row| row.up_mbps.is_some_and(|rate| rate >= 0.1);
    log.judge(|row| slow(row) && sends(row), |_| Some(Verdict::Idle));
    log.judge(
        |row| slow(row) && !sends(row),
        |length| Some(if length > 3 * SECOND { Verdict::Outage } else { Verdict::Idle }),
    );
    Ok(log.finish()?)
}

/// Which column is where.
struct Columns {
    time: usize,
    down: usize,
    up: usize,
    rsrp: usize,
    rsrq: usize,
    snr: usize,
    rssi: usize,
    /// Together they name the serving cell.
    cell: Vec<usize>,
    mode: Option<usize>,
    ping: Option<usize>,
    ping_loss: Option<usize>,
}

impl Columns {
    fn of(sheet: &Sheet<'_>, rssi: &str, cell: &[&str]) -> Result<Self, TraceError> {
        Ok(Self {
            time: sheet.need("Timestamp")?,
            down: sheet.need("DL_bitrate")?,
            up: sheet.need("UL_bitrate")?,
            rsrp: sheet.need("RSRP")?,
            rsrq: sheet.need("RSRQ")?,
            snr: sheet.need("SNR")?,
            rssi: sheet.need(rssi)?,
            cell: cell.iter().map(|name| sheet.need(name)).collect::<Result<_, _>>()?,
            mode: sheet.column("NetworkMode"),
            ping: sheet.column("PINGAVG"),
            ping_loss: sheet.column("PINGLOSS"),
        })
    }

    fn time(&self, cells: Cells<'_>) -> Result<i64, TraceError> {
        let text = cells.text(self.time);
        let fault = || cells.fault(self.time, format!("{text:?} is not a date and time"));
        clock::numbers(text).and_then(|seconds| seconds.checked_mul(1_000_000)).ok_or_else(fault)
    }

    /// What the radio said in a row of the log.
    fn radio(&self, cells: Cells<'_>) -> Result<Row, TraceError> {
        let tech = match self.mode {
            Some(mode) if cells.text(mode) == "-" => Tech::default(),
            Some(mode) => Tech::new(cells.text(mode)).map_err(|problem| cells.fault(mode, problem))?,
            None => Tech::from(Technology::Lte),
        };
        let rsrp = cells.level(self.rsrp, Quantity::Rsrp)?.filter(|&rsrp| rsrp != UNKNOWN_RSRP);
        if tech.technology() == Technology::Umts {
            // The RSCP is in the place of the RSRP; the others are left over from LTE.
            return Ok(Row { rsrp, tech, ..Row::default() });
        }
        Ok(Row {
            rsrp,
            rsrq: cells.level(self.rsrq, Quantity::Rsrq)?,
            sinr: cells.level(self.snr, Quantity::Sinr)?,
            rssi: cells.level(self.rssi, Quantity::Rssi)?,
            tech,
            ..Row::default()
        })
    }

    fn cell(&self, cells: Cells<'_>) -> Option<String> {
        let parts: Vec<&str> = self.cell.iter().map(|&column| cells.text(column)).collect();
        let told = |part: &&str| !part.is_empty() && *part != "-" && *part != UNKNOWN_CELL;
        parts.iter().all(told).then(|| parts.join("/"))
    }

    /// The round trip of a burst of pings in ms, and what share of it was lost.
    fn ping(&self, cells: Cells<'_>) -> Result<(Option<f64>, Option<f64>), TraceError> {
        let rtt = self.ping.map_or(Ok(None), |column| cells.quantity(column, Quantity::Rtt, 1.0))?;
        let Some(column) = self.ping_loss else { return Ok((rtt, None)) };
        let lost = cells.number(column)?;
        if lost.is_some_and(|lost| !(0.0..=100.0).contains(&lost)) {
            return Err(cells.fault(column, "is not a share or a percentage"));
        }
        // A burst is of a few pings, so 1 is all of them and not one in a hundred.
        let share = lost.map(|lost| if lost > 1.0 { lost / 100.0 } else { lost });
        Ok((rtt, share.filter(|&share| share > 0.0)))
    }
}

/// What G-NetTrack writes for an RSRP that it does not know.
const UNKNOWN_RSRP: f64 = -200.0;

/// What Android says for a cell that it does not know.
const UNKNOWN_CELL: &str = "2147483647";

/// The rows of one second.
#[derive(Default)]
struct Second {
    line: u64,
    clock: i64,
    down: Mean,
    up: Mean,
    rtt: Option<f64>,
    ping_loss: Option<f64>,
    radio: Row,
    cell: Option<String>,
}

impl Second {
    fn row(self) -> (u64, i64, Row, Option<String>) {
        let (down_mbps, up_mbps) = (self.down.value(), self.up.value());
        let events = self.ping_loss.map(Event::PingLoss).into_iter().collect();
        let row = Row { down_mbps, up_mbps, rtt_ms: self.rtt, events, ..self.radio };
        (self.line, self.clock, row, self.cell)
    }
}

#[derive(Default)]
struct Mean {
    sum: f64,
    count: u32,
}

impl Mean {
    fn add(&mut self, value: Option<f64>) {
        if let Some(value) = value {
            self.sum += value;
            self.count += 1;
        }
    }

    fn value(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / f64::from(self.count))
    }
}

/// Reads all rows, a second at a time.
fn seconds<'t>(sheet: &mut Sheet<'t>, columns: &Columns, file: &'t str) -> Result<Log<'t>, TraceError> {
    let mut log = Log::new(file);
    let mut open: Option<Second> = None;
    while let Some(cells) = sheet.next()? {
        let clock = columns.time(cells)?;
        if let Some(whole) = open.take_if(|open| open.clock != clock) {
            let (line, clock, row, cell) = whole.row();
            log.push(line, clock, row, cell)?;
        }
        let second = open.get_or_insert_with(|| Second { line: cells.line, clock, ..Second::default() });
        second.down.add(cells.quantity(columns.down, Quantity::Down, 1e3)?);
        second.up.add(cells.quantity(columns.up, Quantity::Up, 1e3)?);
        let (rtt, ping_loss) = columns.ping(cells)?;
        second.rtt = rtt.or(second.rtt);
        second.ping_loss = ping_loss.or(second.ping_loss);
        second.radio = columns.radio(cells)?;
        second.cell = columns.cell(cells);
    }
    if let Some(whole) = open {
        let (line, clock, row, cell) = whole.row();
        log.push(line, clock, row, cell)?;
    }
    Ok(log)
}
