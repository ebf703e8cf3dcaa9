//! Conversion of the sender's running times to the receiver's. The two clocks are not synchronised.

/// Time window of a minimum, which is valid for one to two windows, so that clocks may drift.
const WINDOW: i64 = 30_000_000_000;

/// Time in which the offset may change by half of the elapsed time; later by the fraction `1 /
/// SLEW`.
const SETTLE: i64 = 1_000_000_000;
const SLEW: i64 = 200;

/// Estimates the offset of the clocks: the smallest difference between arrival and departure, minus
/// the smallest one-way delay at that time. As in the tunnel, except that the offset moves slowly,
/// so that timestamps stay in order.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    /// Smallest differences of the previous and the current window.
    smallest: [Option<i64>; 2],
    window_start: i64,
    started: Option<i64>,
    /// The latest timestamp.
    updated: i64,
    offset: i64,
}

impl Timeline {
    /// Adds the sample of a buffer that left at `sent` by the other clock and began to arrive at
    /// `arrived` by this one, over paths whose fastest takes `one_way`. `time` is its timestamp.
    /// All in nanoseconds.
    pub(crate) fn observe(&mut self, arrived: i64, sent: i64, one_way: i64, time: i64) {
        if arrived - self.window_start >= WINDOW {
            self.smallest = [self.smallest[1], None];
            self.window_start = arrived;
        }
        let difference = arrived - sent - one_way;
        let smallest = &mut self.smallest[1];
        *smallest = Some(smallest.map_or(difference, |smallest| smallest.min(difference)));
        let target = self.smallest.iter().flatten().min().copied().unwrap_or(difference);
        self.follow(time, target);
    }

    fn follow(&mut self, time: i64, target: i64) {
        let Some(started) = self.started else {
            (self.started, self.updated, self.offset) = (Some(time), time, target);
            return;
        };
        let part = if time.saturating_sub(started) <= SETTLE { 2 } else { SLEW };
        let most = (time.saturating_sub(self.updated) / part).max(0);
        self.offset += target.saturating_sub(self.offset).clamp(-most, most);
        self.updated = self.updated.max(time);
    }

    /// Converts a running time of the sender; 0 for times before the pipeline started.
    pub(crate) fn local(&self, time: i64) -> u64 {
        u64::try_from(time.saturating_add(self.offset)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    #[test]
    fn the_quickest_buffer_counts() {
        let mut timeline = Timeline::default();
        timeline.observe(1000 * MS, 900 * MS, 20 * MS, 900 * MS);
        timeline.observe(1100 * MS, 1070 * MS, 20 * MS, 1070 * MS);
        assert_eq!(timeline.local(1000 * MS), 1010 * MS as u64);
        timeline.observe(1300 * MS, 1200 * MS, 20 * MS, 1200 * MS);
        assert_eq!(timeline.local(1000 * MS), 1010 * MS as u64);
    }

    #[test]
    fn timestamps_stay_in_order_when_a_buffer_is_much_quicker() {
        let mut timeline = Timeline::default();
        timeline.observe(200 * MS, 0, 0, 0);
        let before = timeline.local(0);
        timeline.observe(100 * MS, 33 * MS, 0, 33 * MS);
        assert!(timeline.local(33 * MS) > before);
    }

    #[test]
    fn the_loss_of_the_fastest_path_does_not_move_the_clock() {
        let mut timeline = Timeline::default();
        timeline.observe(20 * MS, 0, 20 * MS, 0);
        timeline.observe(145 * MS, 100 * MS, 45 * MS, 100 * MS);
        assert_eq!(timeline.local(500 * MS), 500 * MS as u64);
    }

    #[test]
    fn a_drift_is_followed_and_timestamps_stay_in_order() {
        let mut timeline = Timeline::default();
        let mut last = 0;
        for second in 0..200 {
            // The clock of the sender is slow by 100 ppm.
            let sent = second * 1000 * MS;
            timeline.observe(sent + second * MS / 10 + 20 * MS, sent, 20 * MS, sent);
            let local = timeline.local(sent);
            assert!(second == 0 || local > last);
            last = local;
        }
        let error = last as i64 - 199 * 1000 * MS - 199 * MS / 10;
        assert!(error.abs() < 7 * MS, "{error}");
    }

    #[test]
    fn extremes_do_not_overflow() {
        let mut timeline = Timeline::default();
        timeline.observe(0, 1 << 62, 0, 1 << 62);
        timeline.observe(1 << 40, -(1 << 62), 0, -(1 << 62));
        assert_eq!(timeline.local(-(1 << 62)), 0);
        let _ = timeline.local(1 << 62);
    }
}
