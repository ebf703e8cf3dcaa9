//! `kind = "blocks"`.

use squall_units::{Size, Span};

use super::reader::Reader;
use super::words::Reliable;
use crate::flow::Blocks;
use crate::scenario::place::Problem;

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    size: Size,
    interval: Span,
    deadline: Option<Span>,
    priority: Option<u8>,
    reliable: Option<Reliable>,
}

pub(super) fn read(reader: &Reader<'_>) -> Result<Blocks, Problem> {
    let table: Table = reader.fields()?;
    Ok(Blocks {
        interval_us: reader.block_interval(table.interval)?,
        size: reader.block_size(table.size.bytes())?,
        deadline_us: reader.deadline(table.deadline)?,
        priority: reader.priority("priority", table.priority, 0)?,
        reliable: reader.reliable_blocks(table.reliable)?,
    })
}
