//! Offset between the clocks of the two ends, which are not synchronised.

use squall_units::{Span, Time};

/// Window of the minimum, which is valid for one to two windows, so that clocks may drift.
const WINDOW: Span = Span::from_secs(30);

/// Estimates the offset: the smallest difference between arrival by the local clock and departure
/// by the remote one, minus the smallest one-way delay at that time.
#[derive(Debug, Default)]
pub(crate) struct ClockOffset {
    /// Smallest differences of the previous and the current window.
    smallest: [Option<i64>; 2],
    window_start: Time,
    /// Smallest one-way delay, estimated as half the smallest round trip.
    one_way: Span,
}

impl ClockOffset {
    /// Adds a frame that arrived now, with its departure by the remote clock.
    pub(crate) fn observe(&mut self, now: Time, sent: Time) {
        if now - self.window_start >= WINDOW {
            self.smallest = [self.smallest[1], None];
            self.window_start = now;
        }
        let difference = now.micros() as i64 - sent.micros() as i64 - self.one_way.micros() as i64;
        let smallest = &mut self.smallest[1];
        *smallest = Some(smallest.map_or(difference, |smallest| smallest.min(difference)));
    }

    /// Sets the smallest one-way delay from now on. Losing the fastest path lengthens the delays of
    /// frames, but does not change the offset.
    pub(crate) fn set_one_way(&mut self, one_way: Span) {
        self.one_way = one_way;
    }

    /// Converts a stamp of the other end to local time; `None` before the first frame.
    pub(crate) fn local(&self, stamp: Time) -> Option<Time> {
        let smallest = self.smallest.iter().flatten().min()?;
        Some(Time::from_micros(u64::try_from(stamp.micros() as i64 + smallest).unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests {
    use squall_units::short::{at_ms, at_us, ms};

    use super::*;

    #[test]
    fn the_quickest_frame_counts_and_is_forgotten_in_time() {
        let mut delay = ClockOffset::default();
        assert_eq!(delay.local(at_us(0)), None);
        delay.observe(at_ms(1_000), at_ms(400));
        delay.observe(at_ms(1_100), at_ms(510));
        assert_eq!(delay.local(at_ms(500)), Some(at_ms(1_090)));
        delay.set_one_way(ms(10));
        delay.observe(at_ms(1_200), at_ms(610));
        assert_eq!(delay.local(at_ms(500)), Some(at_ms(1_080)));
        // From now on all are slower by 50 ms, by drift or by another route.
        for second in 2..70 {
            delay.observe(at_ms(second * 1_000 + 50), at_ms(second * 1_000 - 590));
        }
        assert_eq!(delay.local(at_ms(500)), Some(at_ms(1_130)));
    }

    #[test]
    fn another_way_does_not_change_the_clocks() {
        let mut delay = ClockOffset::default();
        delay.set_one_way(ms(20));
        delay.observe(at_ms(1_000), at_ms(980));
        assert_eq!(delay.local(at_ms(500)), Some(at_ms(500)));
        // The fastest path fails, and the next one takes 45 ms; then the first returns.
        delay.set_one_way(ms(45));
        delay.observe(at_ms(1_100), at_ms(1_055));
        assert_eq!(delay.local(at_ms(500)), Some(at_ms(500)));
        delay.set_one_way(ms(20));
        delay.observe(at_ms(1_200), at_ms(1_180));
        assert_eq!(delay.local(at_ms(500)), Some(at_ms(500)));
    }
}
