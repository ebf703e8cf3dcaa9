//! How long parcels are under way, from clocks that know nothing of each other.

use squall_units::Micros;

/// A smallest difference counts for one to two of these, so that clocks may drift.
const WINDOW: Micros = 30_000_000;

/// The smallest difference between arrival, by this side's clock, and sending, by the other's, less the quickest way there
/// was then: the offset of the clocks.
#[derive(Debug, Default)]
pub(crate) struct Delay {
    /// Of the window before and of this one.
    least: [Option<i64>; 2],
    begun: Micros,
    /// The quickest way, as far as it is known: half the smallest round trip.
    way: Micros,
}

impl Delay {
    /// A parcel came that was sent at this time of the other side.
    pub(crate) fn observe(&mut self, now: Micros, sent: Micros) {
        if now.saturating_sub(self.begun) >= WINDOW {
            self.least = [self.least[1], None];
            self.begun = now;
        }
        let difference = now as i64 - sent as i64 - self.way as i64;
        let least = &mut self.least[1];
        *least = Some(least.map_or(difference, |least| least.min(difference)));
    }

    /// What the quickest way takes from now on. When the one that was the quickest goes, parcels take longer, and the offset
    /// of the clocks stays.
    pub(crate) fn set_way(&mut self, way: Micros) {
        self.way = way;
    }

    /// This side's time of a stamp, once a parcel came.
    pub(crate) fn local(&self, stamp: Micros) -> Option<Micros> {
        let least = self.least.iter().flatten().min()?;
        Some(u64::try_from(stamp as i64 + least).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quickest_parcel_counts_and_is_forgotten_in_time() {
        let mut delay = Delay::default();
        assert_eq!(delay.local(0), None);
        delay.observe(1_000_000, 400_000);
        delay.observe(1_100_000, 510_000);
        assert_eq!(delay.local(500_000), Some(1_090_000));
        delay.set_way(10_000);
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
        let mut delay = Delay::default();
        delay.set_way(20_000);
        delay.observe(1_000_000, 980_000);
        assert_eq!(delay.local(500_000), Some(500_000));
        // The quickest way goes, and the next one takes 45 ms; then the first comes back.
        delay.set_way(45_000);
        delay.observe(1_100_000, 1_055_000);
        assert_eq!(delay.local(500_000), Some(500_000));
        delay.set_way(20_000);
        delay.observe(1_200_000, 1_180_000);
        assert_eq!(delay.local(500_000), Some(500_000));
    }
}
