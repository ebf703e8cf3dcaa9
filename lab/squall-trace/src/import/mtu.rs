//! Modem logs of MTU Cork (<https://github.com/MTU-Insectt/Measurements5G>): a row about every 3 s, with the
//! uplink's rate of saturating UDP traffic, from the modem's counter of bytes.
//!
//! Three forms, by the modem: 5G NSA with its LTE anchor, LTE, UMTS. In the first, the 5G levels
//! are 0 while there is no 5G; the row is then of LTE. The levels 0, −125 and −140 mean that there
//! was no answer; for the SNR only −125 and −140 do, as 0 dB is a normal value. EC/IO of UMTS has
//! no column in a recording.

use squall_signal::Technology;

use super::{clock, input::Input, log::Log};
use crate::{
    Quantity::{self, Rsrp, Rsrq, Rssi, Sinr},
    Recording, Row, Tech, TraceError,
    sheet::{Cells, Layout, Sheet},
};

/// Columns that identify these logs.
pub(crate) const MARKS: &[&str] = &["Time", "Sent Bytes", RATE];

const RATE: &str = "RATE(MBit/s)";

const NO_ANSWER: [f64; 2] = [-125.0, -140.0];

/// The levels of one radio, and their columns.
type Radio = (Technology, &'static [(Quantity, &'static str)]);

/// Radios of a log, best first.
const RADIOS: [Radio; 4] = [
    (Technology::NrNsa, &[(Rsrp, "nr_rsrp(dBm)"), (Rsrq, "nr_rsrq(dB)"), (Rssi, "nr_rssi(dBm)")]),
    (Technology::Lte, &[(Rsrp, "rsrp(dBm)"), (Rsrq, "rsrq(dB)"), (Rssi, "rssi(dBm)")]),
    (
        Technology::Lte,
        &[
            (Rsrp, "rsrpVal_signal_info(dBm)"),
            (Rsrq, "rsrqVal_signal_info(dB)"),
            (Rssi, "rssilte_signal_info(dBm)"),
            (Sinr, "snrVal_signal_info(dB)"),
        ],
    ),
    (Technology::Umts, &[(Rssi, "rssiumts_signal_info(dBm)")]),
];

/// Reads a log.
pub(super) fn read(input: &Input) -> Result<Recording, TraceError> {
    let mut sheet = Sheet::open(&input.name, &input.text, Layout::Delimited)?;
    sheet.need(&["Time", RATE])?;
    let has = |(_, columns): &Radio| columns.iter().all(|(_, column)| sheet.has(&[column]));
    let radios: Vec<Radio> = RADIOS.into_iter().filter(has).collect();
    let Some(last) = radios.last() else {
        return Err(TraceError::line(&input.name, 1, "there are no columns of 5G, LTE or UMTS levels"));
    };
    let mut log = Log::new(&input.name);
    while let Some(cells) = sheet.next()? {
        let at = clock::date_in_words(cells, "Time")?;
        let mut row = None;
        for radio in &radios {
            row = row.or(levels(radio, cells)?);
        }
        let row = row.unwrap_or_else(|| Row { tech: Tech::from(last.0), ..Row::default() });
        log.push(cells.line, at, row.with(Quantity::Up, cells.quantity(RATE, Quantity::Up, 1.0)?), None)?;
    }
    log.finish()
}

/// Reads the levels of a radio; `None` if it has none.
fn levels((technology, columns): &Radio, cells: Cells<'_>) -> Result<Option<Row>, TraceError> {
    let mut row = Row { tech: Tech::from(*technology), ..Row::default() };
    for &(quantity, column) in *columns {
        let is_answer = |level: &f64| !NO_ANSWER.contains(level) && (quantity == Sinr || *level != 0.0);
        row[quantity] = cells.quantity(column, quantity, 1.0)?.filter(is_answer);
    }
    Ok(row.reading().is_some().then_some(row))
}
