//! Modem logs of MTU Cork (<https://github.com/MTU-Insectt/Measurements5G>): a row about every 3 s, with the
//! uplink's rate of saturating UDP traffic, from the modem's counter of bytes.
//!
//! Three forms, by the modem: 5G NSA with its LTE anchor, LTE, UMTS. In the first, the 5G levels are 0 while
//! there is no 5G; the row is then of LTE. The levels 0, −125 and −140 mean that there was no answer; for the
//! SNR only −125 and −140 do, as 0 dB is nothing unusual. EC/IO of UMTS has no column in a trace.

use super::{ImportError, Input, clock, log::Log};
use squall_signal::Technology;

use crate::{
    Quantity, Row, Tech, Trace, TraceError,
    sheet::{Cells, Sheet},
};

/// The columns by which these logs are known.
pub(super) const MARKS: &[&str] = &["Time", "Sent Bytes", RATE];

const RATE: &str = "RATE(MBit/s)";

const NO_ANSWER: [f64; 2] = [-125.0, -140.0];

/// The levels of one radio, and their columns.
struct Radio {
    tech: Tech,
    columns: Vec<(Quantity, usize)>,
}

impl Radio {
    /// `None` if the log has not all of these columns.
    fn of(sheet: &Sheet<'_>, technology: Technology, columns: &[(Quantity, &str)]) -> Option<Self> {
        let place = |&(quantity, name): &(Quantity, &str)| Some((quantity, sheet.column(name)?));
        let columns = columns.iter().map(place).collect::<Option<_>>()?;
        Some(Self { tech: Tech::from(technology), columns })
    }

    /// What it said; `None` if nothing.
    fn row(&self, cells: Cells<'_>) -> Result<Option<Row>, TraceError> {
        let mut row = Row { tech: self.tech.clone(), ..Row::default() };
        for &(quantity, column) in &self.columns {
            let zero_is_none = quantity != Quantity::Sinr;
            let level = cells.level(column, quantity)?.filter(|level| !NO_ANSWER.contains(level));
            if let Some(level) = level.filter(|&level| !zero_is_none || level != 0.0) {
                row.set(quantity, level);
            }
        }
        Ok(row.reading().is_some().then_some(row))
    }
}

/// The radios of a log, best first.
fn radios(sheet: &Sheet<'_>) -> Vec<Radio> {
    use Quantity::{Rsrp, Rsrq, Rssi, Sinr};
    let nr = [(Rsrp, "nr_rsrp(dBm)"), (Rsrq, "nr_rsrq(dB)"), (Rssi, "nr_rssi(dBm)")];
    let anchor = [(Rsrp, "rsrp(dBm)"), (Rsrq, "rsrq(dB)"), (Rssi, "rssi(dBm)")];
    let lte = [
        (Rsrp, "rsrpVal_signal_info(dBm)"),
        (Rsrq, "rsrqVal_signal_info(dB)"),
        (Rssi, "rssilte_signal_info(dBm)"),
        (Sinr, "snrVal_signal_info(dB)"),
    ];
    let umts = [(Rssi, "rssiumts_signal_info(dBm)")];
    let all: [Option<Radio>; 4] = [
        Radio::of(sheet, Technology::NrNsa, &nr),
        Radio::of(sheet, Technology::Lte, &anchor),
        Radio::of(sheet, Technology::Lte, &lte),
        Radio::of(sheet, Technology::Umts, &umts),
    ];
    all.into_iter().flatten().collect()
}

/// Imports a log.
pub(super) fn import(input: &Input) -> Result<Trace, ImportError> {
    let mut sheet = Sheet::with_commas(&input.name, &input.text)?;
    let (time, rate) = (sheet.need("Time")?, sheet.need(RATE)?);
    let radios = radios(&sheet);
    let Some(last) = radios.last() else {
        return Err(TraceError::line(&input.name, 1, "there are no columns of 5G, LTE or UMTS levels").into());
    };
    let mut log = Log::new(&input.name);
    while let Some(cells) = sheet.next()? {
        let text = cells.text(time);
        let fault =
            || cells.fault(time, format!("{text:?} is not a time such as Thu Aug 11 13:42:06 UTC 2022"));
        let seconds = clock::words(text).ok_or_else(fault)?;
        let mut row = None;
        for radio in &radios {
            row = row.or(radio.row(cells)?);
        }
        let silent = || Row { tech: last.tech.clone(), ..Row::default() };
        let up_mbps = cells.quantity(rate, Quantity::Up, 1.0)?;
        log.push(cells.line, seconds * 1_000_000, Row { up_mbps, ..row.unwrap_or_else(silent) }, None)?;
    }
    Ok(log.finish()?)
}
