//! The offset between the clocks of the two ends, which are not synchronised.

use squall_units::Micros;

/// A minimum is valid for one to two of these, so that clocks may drift.
const WINDOW: Micros = 30_000_000;

/// Estimates the offset: the smallest difference between arrival by the local clock and departure by the other one, minus
/// the smallest one-way delay at that time.
#[derive(Debug, Default)]
pub(crate) struct ClockOffset {
    /// Smallest differences of the previous window and of this one.
    smallest: [Option<i64>; 2],
    window_start: Micros,
    /// Smallest one-way delay, estimated as half the smallest round trip.
    one_way: Micros,
}

impl ClockOffset {
    /// A frame arrived that the other end sent at this time of its clock.
    pub(crate) fn observe(&mut self, now: Micros, sent: Micros) {
        if now.saturating_sub(self.window_start) >= WINDOW {
            self.smallest = [self.smallest[1], None];
            self.window_start = now;
        }
        let difference = now as i64 - sent as i64 - self.one_way as i64;
        let smallest = &mut self.smallest[1];
        *smallest = Some(smallest.map_or(difference, |smallest| smallest.min(difference)));
    }

    /// Sets the smallest one-way delay from now on. The loss of the fastest path lengthens the delays of frames and leaves
    /// the offset as it is.
    pub(crate) fn set_one_way(&mut self, one_way: Micros) {
        self.one_way = one_way;
    }

    /// The local time of a stamp of the other end, once a frame has arrived.
    pub(crate) fn local(&self, stamp: Micros) -> Option<Micros> {
        let smallest = self.smallest.iter().flatten().min()?;
        Some(u64::try_from(stamp as i64 + smallest).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quickest_frame_counts_and_is_forgotten_in_time() {
        let mut delay = ClockOffset::default();
        assert_eq!(delay.local(0), None);
        delay.observe(1_000_000, 400_000);
        delay.observe(1_100_000, 510_000);
        assert_eq!(delay.local(500_000), Some(1_090_000));
        delay.set_one_way(10_000);
        delay.observe(1_200_000, 610_000);
        assert_eq!(delay.local(500_000), Some(1_080_000));
        // All are slower by 50 ms from now on: a drift, or another way.
        for second in 2..70 {
            delay.observe(second * 1_000_000 + 50_000, second * 1_000_000 - 590_000);
        }
        assert_eq!(delay.local(500_000), Some(1_130_000));
    }

    #[test]
    fn another_way_does_not_change_the_clocks() {
        let mut delay = ClockOffset::default();
        delay.set_one_way(20_000);
        delay.observe(1_000_000, 980_000);
        assert_eq!(delay.local(500_000), Some(500_000));
        // The quickest way goes, and the next one takes 45 ms; then the first comes back.
        delay.set_one_way(45_000);
        delay.observe(1_100_000, 1_055_000);
        assert_eq!(delay.local(500_000), Some(500_000));
        delay.set_one_way(20_000);
        delay.observe(1_200_000, 1_180_000);
        assert_eq!(delay.local(500_000), Some(500_000));
    }
}
