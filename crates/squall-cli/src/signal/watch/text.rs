//! Output as lines, where a table cannot be drawn.

use squall_signal::{Reading, Span, Time};
use squall_terminal::output;

use super::watched::{Raised, Watched};

/// Interval between two lines of a radio.
const LINE: Span = Span::from_secs(1);

/// One line per radio and second if it has a new reading, and one for each alert.
#[derive(Default)]
pub(super) struct Text {
    /// Time of the next lines.
    next: Time,
    /// Time of the last reading that was printed, by radio.
    printed: Vec<Option<Time>>,
}

impl Text {
    /// Prints the lines that are due.
    pub(super) fn lines(&mut self, all: &[Watched], now: Time) -> anyhow::Result<()> {
        self.printed.resize(all.len(), None);
        // A first reading is printed at once.
        let first =
            all.iter().zip(&self.printed).any(|(one, printed)| printed.is_none() && one.reading.is_some());
        if now < self.next && !first {
            return Ok(());
        }
        self.next = now + LINE;
        for (one, printed) in all.iter().zip(&mut self.printed) {
            let Some(reading) = one.reading.filter(|reading| *printed != Some(reading.at)) else { continue };
            *printed = Some(reading.at);
            output::print(&format!(
                "{:7.1} s  {}  {:<8}  {:<28}  quality {}  {}\n",
                reading.at.since_epoch().as_secs_f64(),
                one.name(),
                reading.technology,
                levels(&reading),
                one.quality().map_or_else(|| " –  ".to_owned(), |quality| format!("{quality:.2}")),
                one.state().name(),
            ))?;
        }
        Ok(())
    }

    pub(super) fn alert(&mut self, one: &Watched, raised: &Raised) -> anyhow::Result<()> {
        output::print(&format!(
            "{:7.1} s  {}  {}\n",
            raised.at.since_epoch().as_secs_f64(),
            one.name(),
            alert(raised)
        ))
    }
}

/// Formats the levels that are shown.
pub(super) fn levels(reading: &Reading) -> String {
    if reading.disconnected {
        return "not connected".to_owned();
    }
    let shown = [("RSRP", reading.rsrp), ("SINR", reading.sinr), ("RSSI", reading.rssi)];
    let words: Vec<_> =
        shown.iter().filter_map(|(name, level)| Some(format!("{name} {:.1}", (*level)?))).collect();
    if words.is_empty() { "no levels".to_owned() } else { words.join("  ") }
}

/// Describes an alert.
pub(super) fn alert(raised: &Raised) -> String {
    let kind = raised.alert.kind.name();
    match raised.silent {
        true => format!("{kind}: silent for too long"),
        false => format!("{kind} at {:.2}", raised.alert.quality),
    }
}
