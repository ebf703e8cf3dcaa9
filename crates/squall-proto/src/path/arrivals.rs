//! Order in which data arrives on a path.

use squall_sched::{Span, Time};

use crate::wire::{Stamp, TICK, WRAP};

/// Time after data was overtaken in which packets that left together may have overtaken each other
/// as well.
const REORDERS: Span = Span::from_secs(1);

/// Arrivals on a path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrivals {
    /// Latest time of sending among the data that arrived, and the first arrival of it.
    latest: Option<(Stamp, Time)>,
    /// Time at which data was last overtaken.
    overtaken_at: Option<Time>,
}

impl Arrivals {
    /// Records the arrival of data that departed at `sent`. Returns by how much it was overtaken:
    /// the delay of its departure behind data that arrived before, or the time since that arrived
    /// if it is longer.
    pub(crate) fn on_data(&mut self, now: Time, sent: Stamp) -> Span {
        let Some((latest, at)) = self.latest else {
            self.latest = Some((sent, now));
            return Span::ZERO;
        };
        let behind = Span::from_micros(u64::from(latest.since(sent)) * TICK);
        // Less than half the range of the stamps behind the latest.
        if behind >= WRAP {
            self.latest = Some((sent, now));
            return Span::ZERO;
        }
        if !behind.is_zero() {
            self.overtaken_at = Some(now);
        } else if self.overtaken_at.is_none_or(|overtaken| now > overtaken + REORDERS) {
            return Span::ZERO;
        }
        behind.max(now - at)
    }
}

#[cfg(test)]
mod tests {
    use squall_units::short::{at_us, us};

    use super::*;

    #[test]
    fn data_is_overtaken_by_what_left_later() {
        let mut arrivals = Arrivals::default();
        let mut arrive = |now, sent| arrivals.on_data(at_us(now), Stamp::at(at_us(sent))).micros();
        assert_eq!(
            [(30_000, 1_000), (31_000, 2_000), (40_000, 2_000)].map(|(now, sent)| arrive(now, sent)),
            [0; 3]
        );
        assert_eq!(arrive(31_500, 1_200), 800);
        assert_eq!(arrive(50_000, 1_200), 19_000, "what was later has been here since 31 ms");
        assert_eq!(arrive(51_000, 2_000), 20_000, "left together with it");
        assert_eq!(arrive(1_050_001, 2_000), 0, "it is long since anything was overtaken");
        assert_eq!(arrive(1_060_000, 3_000), 0);
    }

    #[test]
    fn stamps_wrap() {
        let mut arrivals = Arrivals::default();
        let end = at_us(4 << 24);
        assert_eq!(arrivals.on_data(end, Stamp::at(end - us(400))), us(0));
        assert_eq!(arrivals.on_data(end, Stamp::at(end + us(400))), us(0));
        assert_eq!(arrivals.on_data(end, Stamp::at(end - us(400))), us(800));
    }
}
