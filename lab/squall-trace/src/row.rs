//! A row of a recording.

use std::ops::{Index, IndexMut};

use squall_signal::{Reading, Time};

use crate::{
    Event, Micros, Quantity, Tech,
    quantity::{TIMES, within},
};

/// Measurements at one time. A value that was not measured, or was not valid, is `None`; that is
/// not zero.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Microseconds from the start of the recording.
    pub at: Micros,
    /// Measured numbers, in the order of [`Quantity::ALL`]; `row[Quantity::Rtt]` is one of them.
    pub numbers: [Option<f64>; Quantity::ALL.len()],
    /// Radio technology, as named by the recording.
    pub tech: Tech,
    /// Events at this time.
    pub events: Vec<Event>,
}

impl Index<Quantity> for Row {
    type Output = Option<f64>;

    fn index(&self, quantity: Quantity) -> &Option<f64> {
        &self.numbers[quantity as usize]
    }
}

impl IndexMut<Quantity> for Row {
    fn index_mut(&mut self, quantity: Quantity) -> &mut Option<f64> {
        &mut self.numbers[quantity as usize]
    }
}

impl Row {
    /// Creates a row of that time without any values.
    pub fn new(at: Micros) -> Self {
        Self { at, ..Self::default() }
    }

    /// Sets a number, or removes it.
    #[must_use]
    pub fn with(mut self, quantity: Quantity, value: impl Into<Option<f64>>) -> Self {
        self[quantity] = value.into();
        self
    }

    /// Returns `true` if it has only a time.
    pub(crate) fn is_bare(&self) -> bool {
        *self == Self::new(self.at)
    }

    /// Returns the reading of the radio, if the row has one.
    pub fn reading(&self) -> Option<Reading> {
        use Quantity::{Rsrp, Rsrq, Rssi, Sinr};
        let disconnected = self.events.contains(&Event::Disconnected);
        let (rsrp, rsrq, sinr, rssi) = (self[Rsrp], self[Rsrq], self[Sinr], self[Rssi]);
        let has_level = [rsrp, rsrq, sinr, rssi].iter().any(Option::is_some);
        let technology = self.tech.technology();
        (disconnected || has_level).then_some(Reading {
            at: Time::from_micros(self.at),
            technology,
            disconnected,
            rsrp,
            rsrq,
            sinr,
            rssi,
        })
    }

    /// Checks its numbers; `before` is the time of the previous row.
    pub(crate) fn check(&self, before: Micros) -> Result<(), String> {
        if self.at < before {
            let (at, before) = (seconds(self.at), seconds(before));
            return Err(format!("time_s: {at} is before the row above, {before}"));
        }
        within(self.at as f64 / 1e6, &TIMES).map_err(|problem| format!("time_s: {problem}"))?;
        for quantity in Quantity::ALL {
            if let Some(value) = self[quantity] {
                quantity.check(value).map_err(|problem| format!("{quantity}: {problem}"))?;
            }
        }
        Ok(())
    }
}

/// Returns the median of the time steps that are longer than 0; 1 s if there is none.
pub(crate) fn usual_step(rows: &[Row]) -> Micros {
    let steps = rows.windows(2).map(|pair| pair[1].at.saturating_sub(pair[0].at));
    let mut steps: Vec<Micros> = steps.filter(|&step| step > 0).collect();
    if steps.is_empty() {
        return 1_000_000;
    }
    let middle = steps.len() / 2;
    *steps.select_nth_unstable(middle).1
}

/// Formats seconds with the necessary decimals.
pub(crate) fn seconds(at: Micros) -> String {
    let text = format!("{}.{:06}", at / 1_000_000, at % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use squall_signal::Technology;

    use super::*;

    #[test]
    fn a_row_with_a_level_or_a_lost_network_is_a_reading() {
        let tech = Tech::new("WiFi-5").expect("is a word");
        let silent = Row { tech, ..Row::new(3).with(Quantity::Down, 9.0) };
        assert_eq!(silent.reading(), None);
        let received = silent.clone().with(Quantity::Rssi, -61.0);
        assert_eq!(received.reading(), Some(Reading::wifi(Time::from_micros(3), -61.0)));
        let lost = Row { events: vec![Event::Outage, Event::Disconnected], ..silent };
        assert_eq!(lost.reading(), Some(Reading::disconnected(Time::from_micros(3), Technology::Wifi)));
    }
}
