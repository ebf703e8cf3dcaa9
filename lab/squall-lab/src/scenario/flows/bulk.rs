//! `kind = "bulk"`.

use squall_units::Size;

use super::MAX_BACKLOG;
use super::reader::Reader;
use crate::flow::Bulk;
use crate::scenario::place::Problem;

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    size: Option<Size>,
    backlog: Option<Size>,
    priority: Option<u8>,
}

pub(super) fn read(reader: &Reader<'_>) -> Result<Bulk, Problem> {
    let table: Table = reader.fields()?;
    let size = reader.block_size(table.size.map_or(64_000, Size::bytes))?;
    let backlog = table.backlog.map_or((size * 4).max(2_000_000), Size::bytes);
    if !(1..=MAX_BACKLOG).contains(&backlog) {
        let words = format!("backlog: {backlog} is not within 1 and {MAX_BACKLOG} bytes");
        return Err(reader.at("backlog", words));
    }
    let priority = reader.priority("priority", table.priority, 0)?;
    Ok(Bulk { size, backlog, priority })
}
