//! The rate by level: what was measured there, and what the model makes of it.

use std::collections::BTreeMap;

use squall_signal::{Reading, Technology};

use super::judgement::{WEAK, quantile};

/// A row of a recording beside the model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Compared {
    pub(super) reading: Reading,
    /// The measured rate in Mbit/s.
    pub(super) rate: f64,
    /// Over the rate of the link.
    pub(super) measured: f64,
    /// The share by the model.
    pub(super) model: f64,
}

/// Rows whose level is within a few decibels.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub(super) struct Bin {
    /// `RSSI`, `SINR` or `RSRP`.
    pub(super) kind: &'static str,
    /// The lowest level of the bin in dBm or dB; it reaches to the next multiple of [`WIDTH`].
    pub(super) from: i32,
    pub(super) rows: usize,
    /// Median of the model's share.
    pub(super) model: f64,
    /// Quartiles of the measured share.
    pub(super) measured: [f64; 3],
    /// Share of rows below [`WEAK`].
    pub(super) weak: f64,
}

/// In decibels.
pub(super) const WIDTH: i32 = 5;

/// All rows by what mostly decides their rate: the RSSI of Wi-Fi, else the SINR, else the RSRP.
pub(super) fn bins<'a>(rows: impl Iterator<Item = &'a Compared>) -> Vec<Bin> {
    let mut sorted: BTreeMap<(&'static str, i32), Vec<&Compared>> = BTreeMap::new();
    for row in rows {
        if let Some((kind, level)) = deciding(&row.reading) {
            let from = (level / f64::from(WIDTH)).floor() as i32 * WIDTH;
            sorted.entry((kind, from)).or_default().push(row);
        }
    }
    sorted.into_iter().filter_map(|((kind, from), rows)| bin(kind, from, &rows)).collect()
}

fn bin(kind: &'static str, from: i32, rows: &[&Compared]) -> Option<Bin> {
    let model = quantile(rows.iter().map(|row| row.model).collect(), 0.5)?;
    let measured = |share| quantile(rows.iter().map(|row| row.measured).collect(), share);
    let weak = rows.iter().filter(|row| row.rate < WEAK).count() as f64 / rows.len() as f64;
    let measured = [measured(0.25)?, measured(0.5)?, measured(0.75)?];
    Some(Bin { kind, from, rows: rows.len(), model, measured, weak })
}

fn deciding(reading: &Reading) -> Option<(&'static str, f64)> {
    let rssi = reading.rssi.map(|level| ("RSSI", level));
    if reading.technology == Technology::Wifi {
        return rssi;
    }
    let sinr = reading.sinr.map(|level| ("SINR", level));
    sinr.or(reading.rsrp.map(|level| ("RSRP", level))).or(rssi)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_by_their_deciding_level() {
        let row = |reading, measured| Compared { reading, rate: measured, measured, model: 0.5 };
        let rows = [
            row(Reading::wifi(0, -71.0), 0.2),
            row(Reading::wifi(0, -75.0), 0.6),
            row(Reading::wifi(0, -75.1), 0.9),
            row(Reading::lte(0, -90.0, 3.0), 0.7),
        ];
        let bins = bins(rows.iter());
        let short: Vec<_> = bins.iter().map(|bin| (bin.kind, bin.from, bin.rows, bin.weak)).collect();
        assert_eq!(short, [("RSSI", -80, 1, 0.0), ("RSSI", -75, 2, 0.5), ("SINR", 0, 1, 0.0)]);
        assert_eq!(bins[1].measured, [0.2, 0.6, 0.6]);
    }
}
