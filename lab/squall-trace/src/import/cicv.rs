//! CICV5G (<https://github.com/zxr805/CICV5G>, doi 10.5281/zenodo.17475688): round trips of small messages from
//! a vehicle to another by way of the cloud, with the levels at their time. Cells between spaces.
//!
//! The time of a row is when its message was sent. The log tells of no lost message; stalls show as round
//! trips that fall step by step. The folder names the band and the file does not, so `5G` stands for the
//! technology unless another word is wished for.

use super::{ImportError, Input, log::Log};
use crate::{Quantity, Row, Tech, Trace, sheet::Sheet};

/// The column of the time of sending, the first one.
pub(super) const SENT: &str = "pub_time(ms)";

/// Imports a log.
pub(super) fn import(input: &Input, tech: Option<&Tech>) -> Result<Trace, ImportError> {
    let mut sheet = Sheet::with_spaces(&input.name, &input.text)?;
    let (sent, delay) = (sheet.need(SENT)?, sheet.need("delay(ms)")?);
    // The publishers' names; the cell has no unit.
    let (cell, sinr, rsrp) = (sheet.need("cellid(db)")?, sheet.need("sinr(db)")?, sheet.need("rsrp(db)")?);
    let tech = tech.cloned().unwrap_or_else(|| Tech::of("5G"));
    let mut log = Log::new(&input.name);
    while let Some(cells) = sheet.next()? {
        let clock = cells.given(sent)?;
        if !(0.0..=1e15).contains(&clock) {
            return Err(cells.fault(sent, "is not a time in milliseconds").into());
        }
        let row = Row {
            rtt_ms: cells.quantity(delay, Quantity::Rtt, 1.0)?,
            rsrp: cells.level(rsrp, Quantity::Rsrp)?,
            sinr: cells.level(sinr, Quantity::Sinr)?,
            tech: tech.clone(),
            ..Row::default()
        };
        log.push(cells.line, (clock * 1e3) as i64, row, Some(cells.text(cell).to_owned()))?;
    }
    Ok(log.finish()?)
}
