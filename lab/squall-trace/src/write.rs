//! A trace as a CSV file.

use std::fmt::{self, Write};

use super::{COLUMNS, Quantity, Row};
use squall_units::Micros;

/// Writes all columns, in the order of [`COLUMNS`]. No cell needs quotes.
pub(super) fn csv(rows: &[Row], f: &mut impl Write) -> fmt::Result {
    use Quantity::{Down, Rsrp, Rsrq, Rssi, Rtt, Sinr, Up};
    writeln!(f, "{}", COLUMNS.join(","))?;
    for row in rows {
        write!(f, "{}", seconds(row.at))?;
        for quantity in [Down, Up, Rtt, Rsrp, Rsrq, Sinr, Rssi] {
            match row.get(quantity) {
                Some(value) => write!(f, ",{value}")?,
                None => f.write_char(',')?,
            }
        }
        write!(f, ",{},", row.tech)?;
        for (index, event) in row.events.iter().enumerate() {
            let between = if index == 0 { "" } else { ";" };
            write!(f, "{between}{event}")?;
        }
        f.write_char('\n')?;
    }
    Ok(())
}

/// Seconds with as many decimals as are needed.
pub(super) fn seconds(at: Micros) -> String {
    let text = format!("{}.{:06}", at / 1_000_000, at % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
