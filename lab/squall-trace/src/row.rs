//! A row of a trace.

use super::{Event, Quantity, Tech, write};
use squall_signal::Reading;
use squall_units::Micros;

/// What was measured at one time. What was not measured, or was not valid, is `None`; that is not zero.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Microseconds from the start of the trace.
    pub at: Micros,
    /// Rate towards the device in Mbit/s, from this row on until the next row that has a rate. It is what was
    /// achieved, and so at most what the network could do.
    pub down_mbps: Option<f64>,
    /// Rate from the device in Mbit/s, likewise.
    pub up_mbps: Option<f64>,
    /// Round trip in milliseconds.
    pub rtt_ms: Option<f64>,
    /// RSRP in dBm; in UMTS the RSCP.
    pub rsrp: Option<f64>,
    /// RSRQ in dB.
    pub rsrq: Option<f64>,
    /// SINR in dB.
    pub sinr: Option<f64>,
    /// RSSI in dBm.
    pub rssi: Option<f64>,
    /// The radio technology, as the recording calls it.
    pub tech: Tech,
    /// What happened.
    pub events: Vec<Event>,
}

impl Row {
    /// The number of that kind; `None` for the time, which every row has.
    pub fn get(&self, quantity: Quantity) -> Option<f64> {
        match quantity {
            Quantity::Time => None,
            Quantity::Down => self.down_mbps,
            Quantity::Up => self.up_mbps,
            Quantity::Rtt => self.rtt_ms,
            Quantity::Rsrp => self.rsrp,
            Quantity::Rsrq => self.rsrq,
            Quantity::Sinr => self.sinr,
            Quantity::Rssi => self.rssi,
        }
    }

    /// Sets the number of that kind; the time in whole microseconds.
    pub(super) fn set(&mut self, quantity: Quantity, value: f64) {
        match quantity {
            Quantity::Time => self.at = (value * 1e6).round() as Micros,
            Quantity::Down => self.down_mbps = Some(value),
            Quantity::Up => self.up_mbps = Some(value),
            Quantity::Rtt => self.rtt_ms = Some(value),
            Quantity::Rsrp => self.rsrp = Some(value),
            Quantity::Rsrq => self.rsrq = Some(value),
            Quantity::Sinr => self.sinr = Some(value),
            Quantity::Rssi => self.rssi = Some(value),
        }
    }

    /// What the radio said; `None` if it said nothing.
    pub fn reading(&self) -> Option<Reading> {
        let disconnected = self.events.contains(&Event::Disconnected);
        let told = disconnected || Quantity::LEVELS.iter().any(|&level| self.get(level).is_some());
        told.then(|| Reading {
            at: self.at,
            technology: self.tech.technology(),
            disconnected,
            rsrp: self.rsrp,
            rsrq: self.rsrq,
            sinr: self.sinr,
            rssi: self.rssi,
        })
    }

    /// Finds fault with its numbers; `before` is the time of the row before it.
    pub(super) fn check(&self, before: Micros) -> Result<(), (Quantity, String)> {
        use Quantity::{Down, Rsrp, Rsrq, Rssi, Rtt, Sinr, Time, Up};
        if self.at < before {
            let (at, before) = (write::seconds(self.at), write::seconds(before));
            return Err((Time, format!("{at} is before the row above, {before}")));
        }
        Time.check(self.at as f64 / 1e6).map_err(|problem| (Time, problem))?;
        for quantity in [Down, Up, Rtt, Rsrp, Rsrq, Sinr, Rssi] {
            if let Some(value) = self.get(quantity) {
                quantity.check(value).map_err(|problem| (quantity, problem))?;
            }
        }
        Ok(())
    }
}

/// The median of the steps of time that are longer than 0; 1 s if there is none.
pub(super) fn usual_step(rows: &[Row]) -> Micros {
    let steps = rows.windows(2).map(|pair| pair[1].at.saturating_sub(pair[0].at));
    let mut steps: Vec<Micros> = steps.filter(|&step| step > 0).collect();
    if steps.is_empty() {
        return 1_000_000;
    }
    let middle = steps.len() / 2;
    *steps.select_nth_unstable(middle).1
}

#[cfg(test)]
mod tests {
    use super::*;
    use squall_signal::Technology;

    #[test]
    fn a_row_with_a_level_or_a_lost_network_is_a_reading() {
        let tech = Tech::new("WiFi-5").expect("is a word");
        let silent = Row { at: 3, down_mbps: Some(9.0), tech, ..Row::default() };
        assert_eq!(silent.reading(), None);
        let told = Row { rssi: Some(-61.0), ..silent.clone() };
        assert_eq!(told.reading(), Some(Reading::wifi(3, -61.0)));
        let lost = Row { events: vec![Event::Outage, Event::Disconnected], ..silent };
        assert_eq!(lost.reading(), Some(Reading::disconnected(3, Technology::Wifi)));
    }
}
