//! Logs of the Android application G-NetTrack, in the two forms in which they were published.
//!
//! - UCC (<https://github.com/uccmisl/5Gdataset>, and one log of the 4G dataset in
//!   <https://github.com/uccmisl/goDASHbed>): a download of large files. A rate under 0.1 Mbit/s
//!   for at most 2 s is the boundary of two files; a longer one is an outage.
//! - Kingston (4G LTE measurements on a bus, re-published by hanifnew on GitHub): short downloads
//!   and uploads alternate, so the rates are lower bounds. While the uplink has 0.1 Mbit/s and
//!   more, a downlink under 1 Mbit/s is caused by the application, and so is a period of up to 3 s
//!   in which both are low; a longer one is an outage.
//!
//! Both have several rows a second, and rates in kbit/s. A second becomes one row: the means of the rates, the
//! levels of its last row, its last ping.

use squall_signal::Technology;

use super::{
    clock,
    input::Input,
    log::{Log, Low},
};
use crate::{
    Event,
    Quantity::{self, Down, Rsrp, Rsrq, Rssi, Rtt, Sinr, Up},
    Recording, Row, Tech, TraceError,
    sheet::{Cells, Layout, Sheet},
};

/// Columns that identify UCC's logs.
pub(crate) const UCC: &[&str] = &["Timestamp", "NetworkMode", "RSRP", "DL_bitrate", "UL_bitrate"];

/// Columns that identify Kingston's logs.
pub(crate) const KINGSTON: &[&str] = &["Timestamp", "LAC", "LTERSSI", "RSRP", "DL_bitrate", "UL_bitrate"];

/// Columns of both.
const BOTH: [&str; 6] = ["Timestamp", "DL_bitrate", "UL_bitrate", "RSRP", "RSRQ", "SNR"];

const SECOND: u64 = 1_000_000;

/// Columns that differ.
struct Form {
    rssi: &'static str,
    /// Columns that together identify the serving cell.
    cell: &'static [&'static str],
}

/// Reads a log of UCC.
pub(super) fn ucc(input: &Input) -> Result<Recording, TraceError> {
    let sheet = Sheet::open(&input.name, &input.text, Layout::Delimited)?;
    let cell: &[&str] = if sheet.has(&["RAWCELLID"]) { &["RAWCELLID"] } else { &["CellID"] };
    let mut log = seconds(sheet, &Form { rssi: "RSSI", cell }, &input.name)?;
    log.mark(Down, 0.1, |length| Some(if length > 2 * SECOND { Low::Outage } else { Low::Idle }));
    log.finish()
}

/// Reads a log of Kingston.
pub(super) fn kingston(input: &Input) -> Result<Recording, TraceError> {
    let sheet = Sheet::open(&input.name, &input.text, Layout::Delimited)?;
    let mut log = seconds(sheet, &Form { rssi: "LTERSSI", cell: &["LAC", "CellID"] }, &input.name)?;
    let is_slow = |row: &Row| row[Down].is_some_and(|rate| rate < 1.0);
    let sends = |row: &Row| row[Up].is_some_and(|rate| rate >= 0.1);
    log.mark_where(|row| is_slow(row) && sends(row), |_| Some(Low::Idle));
    let meaning = |length| Some(if length > 3 * SECOND { Low::Outage } else { Low::Idle });
    log.mark_where(|row| is_slow(row) && !sends(row), meaning);
    log.finish()
}

impl Form {
    /// Reads the levels in a row of the log.
    fn levels(&self, cells: Cells<'_>, has_mode: bool) -> Result<Row, TraceError> {
        let tech = match cells.text("NetworkMode") {
            _ if !has_mode => Tech::from(Technology::Lte),
            "-" => Tech::default(),
            word => Tech::new(word).map_err(|problem| cells.fault("NetworkMode", problem))?,
        };
        let rsrp = cells.quantity("RSRP", Rsrp, 1.0)?.filter(|&rsrp| rsrp != UNKNOWN_RSRP);
        let mut row = Row { tech, ..Row::default() }.with(Rsrp, rsrp);
        // For UMTS the RSRP column has the RSCP; the others are left over from LTE.
        if row.tech.technology() != Technology::Umts {
            for (quantity, column) in [(Rsrq, "RSRQ"), (Sinr, "SNR"), (Rssi, self.rssi)] {
                row[quantity] = cells.quantity(column, quantity, 1.0)?;
            }
        }
        Ok(row)
    }

    fn cell(&self, cells: Cells<'_>) -> Option<String> {
        let parts: Vec<&str> = self.cell.iter().map(|column| cells.text(column)).collect();
        let is_known = |part: &&str| !["", "-", UNKNOWN_CELL].contains(part);
        parts.iter().all(is_known).then(|| parts.join("/"))
    }
}

/// Reads the share of lost pings in a burst.
fn ping_loss(cells: Cells<'_>) -> Result<Option<f64>, TraceError> {
    let lost = cells.number("PINGLOSS")?;
    if lost.is_some_and(|lost| !(0.0..=100.0).contains(&lost)) {
        return Err(cells.fault("PINGLOSS", "is not a share or a percentage"));
    }
    // A burst has a few pings, so 1 means all of them and not one in a hundred.
    let share = lost.map(|lost| if lost > 1.0 { lost / 100.0 } else { lost });
    Ok(share.filter(|&share| share > 0.0))
}

/// G-NetTrack's value for an unknown RSRP.
const UNKNOWN_RSRP: f64 = -200.0;

/// Android's value for an unknown cell.
const UNKNOWN_CELL: &str = "2147483647";

/// The rows of one second.
#[derive(Default)]
struct Second {
    line: u64,
    clock: i64,
    /// Sum of the rates in Mbit/s, and their number: downlink and uplink.
    rates: [(f64, u32); 2],
    rtt: Option<f64>,
    ping_loss: Option<f64>,
    levels: Row,
    cell: Option<String>,
}

impl Second {
    fn add(&mut self, rate: usize, mbps: Option<f64>) {
        if let Some(mbps) = mbps {
            self.rates[rate].0 += mbps;
            self.rates[rate].1 += 1;
        }
    }

    fn push(self, log: &mut Log<'_>) -> Result<(), TraceError> {
        let [down, up] = self.rates.map(|(sum, count)| (count > 0).then(|| sum / f64::from(count)));
        let events = self.ping_loss.map(Event::PingLoss).into_iter().collect();
        let row = Row { events, ..self.levels }.with(Down, down).with(Up, up).with(Rtt, self.rtt);
        log.push(self.line, self.clock, row, self.cell)
    }
}

/// Reads all rows, a second at a time.
fn seconds<'t>(mut sheet: Sheet<'t>, form: &Form, file: &'t str) -> Result<Log<'t>, TraceError> {
    sheet.need(&[&BOTH[..], &[form.rssi], form.cell].concat())?;
    let has_mode = sheet.has(&["NetworkMode"]);
    let mut log = Log::new(file);
    let mut open: Option<Second> = None;
    while let Some(cells) = sheet.next()? {
        let clock = clock::date(cells, "Timestamp")?;
        if let Some(whole) = open.take_if(|open| open.clock != clock) {
            whole.push(&mut log)?;
        }
        let second = open.get_or_insert_with(|| Second { line: cells.line, clock, ..Second::default() });
        for (index, column) in ["DL_bitrate", "UL_bitrate"].into_iter().enumerate() {
            second.add(index, cells.quantity(column, Quantity::RATES[index], 1e3)?);
        }
        second.rtt = cells.quantity("PINGAVG", Rtt, 1.0)?.or(second.rtt);
        second.ping_loss = ping_loss(cells)?.or(second.ping_loss);
        second.levels = form.levels(cells, has_mode)?;
        second.cell = form.cell(cells);
    }
    if let Some(whole) = open {
        whole.push(&mut log)?;
    }
    Ok(log)
}
