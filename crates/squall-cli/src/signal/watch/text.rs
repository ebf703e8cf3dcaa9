//! Lines for where nothing can be drawn.

use squall_signal::{Micros, Reading};
use squall_terminal::output;

use super::watched::{Told, Watched};

/// Time between two lines of a radio, in microseconds.
const LINE: Micros = 1_000_000;

/// A line for each radio once a second if it said something, and one for each alert.
#[derive(Default)]
pub(super) struct Text {
    /// When lines are due.
    next: Micros,
    /// The last time of a reading that was told, by radio.
    told: Vec<Option<Micros>>,
}

impl Text {
    /// The lines that are due.
    pub(super) fn lines(&mut self, all: &[Watched], now: Micros) -> anyhow::Result<()> {
        self.told.resize(all.len(), None);
        // A first reading is told at once.
        let first = all.iter().zip(&self.told).any(|(one, told)| told.is_none() && one.reading.is_some());
        if now < self.next && !first {
            return Ok(());
        }
        self.next = now + LINE;
        for (one, told) in all.iter().zip(&mut self.told) {
            let Some(reading) = one.reading.filter(|reading| *told != Some(reading.at)) else { continue };
            *told = Some(reading.at);
            output::print(&format!(
                "{:7.1} s  {}  {:<8}  {:<28}  quality {}  {}\n",
                reading.at as f64 / 1e6,
                one.name(),
                reading.technology,
                levels(&reading),
                one.quality().map_or_else(|| " –  ".to_owned(), |quality| format!("{quality:.2}")),
                one.state().name(),
            ))?;
        }
        Ok(())
    }

    pub(super) fn alert(&mut self, one: &Watched, told: &Told) -> anyhow::Result<()> {
        output::print(&format!("{:7.1} s  {}  {}\n", told.at as f64 / 1e6, one.name(), alert(told)))
    }
}

/// The levels that are told.
pub(super) fn levels(reading: &Reading) -> String {
    if reading.disconnected {
        return "not connected".to_owned();
    }
    let told = [("RSRP", reading.rsrp), ("SINR", reading.sinr), ("RSSI", reading.rssi)];
    let words: Vec<_> =
        told.iter().filter_map(|(name, level)| Some(format!("{name} {:.1}", (*level)?))).collect();
    if words.is_empty() { "no levels".to_owned() } else { words.join("  ") }
}

/// An alert in words.
pub(super) fn alert(told: &Told) -> String {
    let kind = told.alert.kind.name();
    match told.silent {
        true => format!("{kind}: silent for too long"),
        false => format!("{kind} at {:.2}", told.alert.quality),
    }
}
