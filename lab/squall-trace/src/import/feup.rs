//! Wi-Fi to a client that moves away and returns (FEUP, January 2019,
//! <https://github.com/adamiaonr/wifi-vehicles>): `final-exp-log.csv`, one row a second for each
//! sender and receiver, with the bytes received and the mean RSSI of the frames. A pair, such as
//! `ap1-w2`, is a part.
//!
//! An RSSI of −100 dBm means that no frame arrived. While iPerf is marked as off, the application
//! was idle; while it runs, a rate under 0.1 Mbit/s for 2 s and more is an outage.

use super::{
    input::Input,
    log::{Log, Low, idle},
    parts::part,
};
use crate::{
    Quantity, Recording, Row, Tech, TraceError,
    sheet::{Cells, Layout, Sheet},
};

/// Columns that identify these logs.
pub(crate) const MARKS: &[&str] = &["senderId", "receiverId", "systime", "rssiMean", "nBytesReceived"];

/// Columns that are read.
const COLUMNS: &[&str] =
    &["senderId", "receiverId", "systime", "channelFreq", "isIperfOn", "rssiMean", "nBytesReceived"];

const NO_FRAMES: f64 = -100.0;

/// Bytes per second in 1 Mbit/s.
const MEGABIT: f64 = 125_000.0;

/// Reads a part of a log.
pub(super) fn read(input: &Input, wish: Option<&str>) -> Result<Recording, TraceError> {
    let pair = |cells: Cells<'_>| format!("{}-{}", cells.text("senderId"), cells.text("receiverId"));
    let wanted = part(input, COLUMNS, pair, wish)?;
    let mut sheet = Sheet::open(&input.name, &input.text, Layout::Delimited)?;
    let mut log = Log::new(&input.name);
    while let Some(cells) = sheet.next()? {
        if pair(cells) == wanted {
            let clock = cells.given("systime", &(0.0..=1e12))?;
            log.push(cells.line, (clock * 1e6).round() as i64, row(cells)?, None)?;
        }
    }
    log.mark(Quantity::Down, 0.1, |length| (length >= 2_000_000).then_some(Low::Outage));
    log.finish()
}

fn row(cells: Cells<'_>) -> Result<Row, TraceError> {
    let rssi = cells.quantity("rssiMean", Quantity::Rssi, 1.0)?.filter(|&rssi| rssi != NO_FRAMES);
    let tech = band(cells.number("channelFreq")?);
    let mut row = Row { tech, ..Row::default() }
        .with(Quantity::Down, cells.quantity("nBytesReceived", Quantity::Down, MEGABIT)?)
        .with(Quantity::Rssi, rssi);
    if cells.number("isIperfOn")? == Some(0.0) {
        idle(&mut row);
    }
    Ok(row)
}

/// Returns the word for the band of a channel in MHz: 2.4, 5 or 6 GHz (IEEE 802.11, Annex E).
pub(super) fn band(frequency: Option<f64>) -> Tech {
    Tech::of(match frequency {
        Some(f) if (2_400.0..2_500.0).contains(&f) => "WiFi-2.4",
        Some(f) if (5_000.0..5_925.0).contains(&f) => "WiFi-5",
        Some(f) if (5_925.0..7_125.0).contains(&f) => "WiFi-6G",
        _ => "WiFi",
    })
}
