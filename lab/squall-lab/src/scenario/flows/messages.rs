//! `kind = "messages"`.

use squall_units::{Size, Span};

use super::reader::Reader;
use super::spread::Spread;
use super::words::Reliable;
use crate::flow::{Distribution, Messages};
use crate::scenario::place::Problem;

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    size: Spread<Size>,
    interval: Spread<Span>,
    deadline: Option<Span>,
    priority: Option<u8>,
    reliable: Option<Reliable>,
    #[serde(default)]
    blocking: bool,
}

pub(super) fn read(reader: &Reader<'_>) -> Result<Messages, Problem> {
    let table: Table = reader.fields()?;
    let size = table.size.distribution(Size::bytes, 1);
    let interval = table.interval.distribution(Span::micros, 1_000);
    Ok(Messages {
        size: checked(reader, "size", size, Messages::SIZES, "bytes")?,
        interval: checked(reader, "interval", interval, Messages::INTERVALS_US, "us")?,
        deadline_us: reader.deadline(table.deadline)?,
        priority: reader.priority("priority", table.priority, 0)?,
        reliable: reader.reliable_blocks(table.reliable)?,
        blocking: table.blocking,
    })
}

/// A distribution of numbers within these bounds; one without an end has its mean in their lower half, so that there
/// is room above it.
fn checked(
    reader: &Reader<'_>,
    field: &'static str,
    distribution: Distribution,
    (least, greatest): (u64, u64),
    unit: &str,
) -> Result<Distribution, Problem> {
    let within = |what: &str, value: u64, least: u64, greatest: u64| {
        let words = format!("{field}: {what}{value} {unit} is not within {least} and {greatest} {unit}");
        if (least..=greatest).contains(&value) { Ok(()) } else { Err(reader.at(field, words)) }
    };
    match distribution {
        Distribution::Constant(value) => within("", value, least, greatest)?,
        Distribution::Uniform { from, to } => {
            within("", from, least, greatest)?;
            within("the upper end of ", to, from, greatest)?;
        }
        Distribution::Exponential { mean } => within("a mean of ", mean, least, greatest / 2)?,
        Distribution::Pareto { mean, shape } => {
            within("a mean of ", mean, least, greatest / 2)?;
            if !(1.01..=100.0).contains(&shape) {
                return Err(reader.at(field, format!("{field}: shape {shape} is not within 1.01 and 100")));
            }
        }
        Distribution::Poisson { mean, step } => {
            within("a mean of ", mean, least.max(10 * step), greatest / 2)?;
        }
    }
    Ok(distribution)
}
