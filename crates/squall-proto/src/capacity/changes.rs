//! Decision which changes of the capacity become events.

use squall_sched::{Span, Time};

/// Share by which a fall is reported at once.
const DOWN: f64 = 0.05;
/// Share by which a rise is reported, if [`INTERVAL`] has passed.
const UP: f64 = 0.10;
/// Time after a report in which no rise is reported.
const INTERVAL: Span = Span::from_millis(50);

/// The last report.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Changes {
    reported: u64,
    reported_at: Time,
}

impl Changes {
    /// Returns `true` if `safe` is to be reported; it then counts as reported.
    pub(crate) fn is_news(&mut self, now: Time, safe: u64) -> bool {
        let (old, new) = (self.reported as f64, safe as f64);
        let has_fallen = new < old * (1.0 - DOWN);
        let has_risen = new > old * (1.0 + UP) && now >= self.reported_at + INTERVAL;
        if has_fallen || has_risen {
            (self.reported, self.reported_at) = (safe, now);
        }
        has_fallen || has_risen
    }
}

#[cfg(test)]
mod tests {
    use squall_units::short::at_ms;

    use super::*;

    #[test]
    fn falls_are_reported_at_once_and_rises_each_50_ms() {
        let mut changes = Changes::default();
        let mut reported = |millis: u64, safe: u64| changes.is_news(at_ms(millis), safe);
        assert!(!reported(60, 0), "nothing is known yet");
        assert!(reported(60, 1_000));
        assert!(!reported(200, 1_090) && !reported(200, 960), "too little");
        assert!(reported(200, 1_200));
        assert!(!reported(249, 2_000), "too soon");
        assert!(reported(249, 1_100) && reported(249, 0), "a fall is never too soon");
        assert!(!reported(260, 5_000));
        assert!(reported(300, 5_000));
    }
}
