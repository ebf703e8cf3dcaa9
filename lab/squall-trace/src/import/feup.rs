//! Wi-Fi to a client that moves away and comes back (FEUP, January 2019,
//! <https://github.com/adamiaonr/wifi-vehicles>): `final-exp-log.csv`, one row a second for each sender and
//! receiver, with the bytes received and the mean RSSI of the frames. A pair, such as `ap1-w2`, is a part.
//!
//! An RSSI of −100 dBm means that no frame was heard. While iPerf is known to be off, the application was
//! idle; while it runs, a rate under 0.1 Mbit/s for 2 s and more is an outage.

use super::{
    ImportError, Input,
    log::{Log, Verdict, idle},
    part,
};
use crate::{
    Quantity, Row, Tech, Trace, TraceError,
    sheet::{Cells, Sheet},
};

/// The columns by which these logs are known.
pub(super) const MARKS: &[&str] = &["senderId", "receiverId", "systime", "rssiMean", "nBytesReceived"];

const NOTHING_HEARD: f64 = -100.0;

/// Bytes a second that are 1 Mbit/s.
const MEGABIT: f64 = 125_000.0;

/// Imports a part of a log.
pub(super) fn import(input: &Input, wish: Option<&str>) -> Result<Trace, ImportError> {
    let pair = part(&input.name, &pairs(input)?, wish)?;
    let mut sheet = Sheet::with_commas(&input.name, &input.text)?;
    let columns = Columns::of(&sheet)?;
    let mut log = Log::new(&input.name);
    while let Some(cells) = sheet.next()? {
        if columns.pair(cells) == pair {
            let clock = cells.given(columns.time)?;
            if !(0.0..=1e12).contains(&clock) {
                return Err(cells.fault(columns.time, "is not a time in seconds").into());
            }
            log.push(cells.line, (clock * 1e6).round() as i64, columns.row(cells)?, None)?;
        }
    }
    let low = |row: &Row| row.down_mbps.is_some_and(|rate| rate < 0.1);
    log.judge(low, |length| (length >= 2_000_000).then_some(Verdict::Outage));
    Ok(log.finish()?)
}

/// The pairs of sender and receiver of a file.
fn pairs(input: &Input) -> Result<Vec<String>, TraceError> {
    let mut sheet = Sheet::with_commas(&input.name, &input.text)?;
    let columns = Columns::of(&sheet)?;
    let mut pairs: Vec<String> = Vec::new();
    while let Some(cells) = sheet.next()? {
        let pair = columns.pair(cells);
        if !pairs.contains(&pair) {
            pairs.push(pair);
        }
    }
    Ok(pairs)
}

struct Columns {
    sender: usize,
    receiver: usize,
    time: usize,
    frequency: usize,
    running: usize,
    rssi: usize,
    bytes: usize,
}

impl Columns {
    fn of(sheet: &Sheet<'_>) -> Result<Self, TraceError> {
        Ok(Self {
            sender: sheet.need("senderId")?,
            receiver: sheet.need("receiverId")?,
            time: sheet.need("systime")?,
            frequency: sheet.need("channelFreq")?,
            running: sheet.need("isIperfOn")?,
            rssi: sheet.need("rssiMean")?,
            bytes: sheet.need("nBytesReceived")?,
        })
    }

    fn pair(&self, cells: Cells<'_>) -> String {
        format!("{}-{}", cells.text(self.sender), cells.text(self.receiver))
    }

    fn row(&self, cells: Cells<'_>) -> Result<Row, TraceError> {
        let mut row = Row {
            down_mbps: cells.quantity(self.bytes, Quantity::Down, MEGABIT)?,
            rssi: cells.level(self.rssi, Quantity::Rssi)?.filter(|&rssi| rssi != NOTHING_HEARD),
            tech: band(cells.number(self.frequency)?),
            ..Row::default()
        };
        if cells.number(self.running)? == Some(0.0) {
            idle(&mut row);
        }
        Ok(row)
    }
}

/// The word for the band of a channel in MHz: 2.4, 5 or 6 GHz (IEEE 802.11, Annex E).
pub(super) fn band(frequency: Option<f64>) -> Tech {
    Tech::of(match frequency {
        Some(f) if (2_400.0..2_500.0).contains(&f) => "WiFi-2.4",
        Some(f) if (5_000.0..5_925.0).contains(&f) => "WiFi-5",
        Some(f) if (5_925.0..7_125.0).contains(&f) => "WiFi-6G",
        _ => "WiFi",
    })
}
