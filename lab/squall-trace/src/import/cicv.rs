//! CICV5G (<https://github.com/zxr805/CICV5G>, doi 10.5281/zenodo.17475688): round trips of small
//! messages from a vehicle to another through the cloud, with the levels at their time. Cells are
//! separated by spaces.
//!
//! The time of a row is that at which its message was sent. The log contains no lost messages;
//! stalls appear as round trips that fall step by step. Only the folder names the band, not the
//! file, so the technology is `5G` unless another word is requested.

use super::{input::Input, log::Log};
use crate::{
    Quantity, Recording, Row, Tech, TraceError,
    sheet::{Layout, Sheet},
};

/// The first column: the time of sending.
pub(crate) const SENT: &str = "pub_time(ms)";

/// The name used by the publishers; the cell has no unit.
const CELL: &str = "cellid(db)";
const NUMBERS: [(Quantity, &str); 3] =
    [(Quantity::Rtt, "delay(ms)"), (Quantity::Sinr, "sinr(db)"), (Quantity::Rsrp, "rsrp(db)")];

/// Reads a log.
pub(super) fn read(input: &Input) -> Result<Recording, TraceError> {
    let mut sheet = Sheet::open(&input.name, &input.text, Layout::Spaces)?;
    sheet.need(&[SENT, NUMBERS[0].1, CELL, NUMBERS[1].1, NUMBERS[2].1])?;
    let tech = Tech::of("5G");
    let mut log = Log::new(&input.name);
    while let Some(cells) = sheet.next()? {
        let clock = cells.given(SENT, &(0.0..=1e15))?;
        let mut row = Row { tech: tech.clone(), ..Row::default() };
        for (quantity, column) in NUMBERS {
            row[quantity] = cells.quantity(column, quantity, 1.0)?;
        }
        log.push(cells.line, (clock * 1e3) as i64, row, Some(cells.text(CELL).to_owned()))?;
    }
    log.finish()
}
