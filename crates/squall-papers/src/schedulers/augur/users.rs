//! δ of a backup, and the mean user, whose late bytes convert a monthly budget to δ (§5.1).

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use squall_sched::Span;

/// Default δ of Eq. 6 (§5.1).
pub(super) const DEFAULT_DELTA: f64 = 3.5;

/// Maximum δ.
pub(super) const MAX_DELTA: f64 = 1000.0;

/// Days in a month.
const DAYS: f64 = 30.0;

/// Late bytes of the mean user in an hour of playing. The paper derives δ from a monthly budget by
/// the mean stall rate and the mean playing time of its users (§5.1); it prints only their product:
/// 500 MB are 3.5 times the late frames of a month. The hours are ours: 0.25 a day, which makes
/// 0.45 % late frames (§5.3) of 9.3 Mbps.
const LATE_PER_HOUR: f64 = 500e6 / 3.5 / PRIOR_HOURS;

/// Hours of playing as which the paper's mean counts among those of the sessions: the month of its
/// mean user.
const PRIOR_HOURS: f64 = DAYS * 0.25;

/// Maximum time between two frames that counts as playing.
const PAUSE: Span = Span::from_secs(1);

/// Limit of the data on a backup.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Allowance {
    /// δ of Eq. 6: this many times the share of stalls.
    Delta(f64),
    /// Bytes a month: δ times the late bytes of the mean user.
    Monthly {
        /// Bytes a month.
        budget: u64,
        /// Hours of playing a day.
        playing: f64,
    },
}

impl Allowance {
    /// Returns δ for the mean user's late bytes an hour.
    pub(super) fn delta(self, late_per_hour: f64) -> f64 {
        match self {
            Self::Delta(delta) => delta,
            Self::Monthly { budget, playing } => {
                (budget as f64 / (late_per_hour * DAYS * playing)).min(MAX_DELTA)
            }
        }
    }
}

/// The mean user: of the paper, or of the sessions so far combined with the paper's. Clones share
/// one record.
#[derive(Clone, Debug, Default)]
pub(super) struct Users(Option<Arc<Counted>>);

/// Sums over all sessions that contribute.
#[derive(Debug, Default)]
pub(super) struct Counted {
    /// Bytes of frames that stalled.
    late: AtomicU64,
    /// Microseconds in which frames were sent.
    played: AtomicU64,
}

impl Users {
    /// The users of the sessions in `counted`.
    pub(super) fn learned(counted: &Arc<Counted>) -> Self {
        Self(Some(counted.clone()))
    }

    /// `true` if sessions contribute to it.
    pub(super) fn are_learned(&self) -> bool {
        self.0.is_some()
    }

    /// Called when a frame of this length stalled.
    pub(super) fn stalled(&self, bytes: u32) {
        if let Some(counted) = &self.0 {
            counted.late.fetch_add(bytes.into(), Relaxed);
        }
    }

    /// Adds the time from one frame to the next.
    pub(super) fn played(&self, since_last: Span) {
        if let Some(counted) = &self.0 {
            counted.played.fetch_add(since_last.min(PAUSE).micros(), Relaxed);
        }
    }

    /// Returns the bytes of late frames in an hour of playing.
    pub(super) fn late_per_hour(&self) -> f64 {
        let Some(counted) = &self.0 else { return LATE_PER_HOUR };
        let hours = counted.played.load(Relaxed) as f64 / 3.6e9;
        let late = counted.late.load(Relaxed) as f64;
        // The weighted mean of both, in a form that starts with exactly the paper's value.
        LATE_PER_HOUR + (late - LATE_PER_HOUR * hours) / (PRIOR_HOURS + hours)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn near(one: f64, other: f64) -> bool {
        (one / other - 1.0).abs() < 1e-9
    }

    fn delta(budget: u64, playing: f64, users: &Users) -> f64 {
        Allowance::Monthly { budget, playing }.delta(users.late_per_hour())
    }

    #[test]
    fn a_monthly_budget_is_shared_by_the_late_frames_of_the_mean_user() {
        let paper = |budget, playing| delta(budget, playing, &Users::default());
        assert!(near(paper(500_000_000, 0.25), 3.5));
        assert!(near(paper(250_000_000, 0.25), 1.75));
        assert!(near(paper(500_000_000, 1.0), 0.875));
        assert_eq!((paper(0, 0.25), paper(u64::MAX, 0.25)), (0.0, MAX_DELTA));
        // The underlying means: 0.1 % is 78.0 % less (§5.3), 7.5 hours a month, and 9.3 Mbps.
        let late: f64 = 0.001 / (1.0 - 0.78) * 7.5 * 3600.0 * 9.3e6 / 8.0;
        assert!((500e6 / late / 3.5 - 1.0).abs() < 0.005, "{late}");
    }

    #[test]
    fn a_pause_is_no_playing() {
        let counted = Arc::new(Counted::default());
        let users = Users::learned(&counted);
        users.played(Span::from_secs(3600));
        users.played(Span::from_millis(16));
        assert_eq!(counted.played.load(Relaxed), 1_016_000);
    }

    #[test]
    fn the_papers_user_learns_nothing() {
        let users = Users::default();
        users.stalled(u32::MAX);
        users.played(PAUSE);
        assert!(!users.are_learned() && near(users.late_per_hour(), LATE_PER_HOUR));
    }

    proptest! {
        /// It starts with the paper's value and converges to the observed one, and all sessions
        /// share it.
        #[test]
        fn what_is_learned_moves_from_the_papers_to_what_is_seen(
            late_mb in 0.0..200.0f64, hours in 1..40u64, budget_mb in 1..2_000u64, sessions in 1..5usize,
        ) {
            let counted = Arc::new(Counted::default());
            let users = vec![Users::learned(&counted); sessions];
            let budget = budget_mb * 1_000_000;
            let paper = delta(budget, 0.25, &Users::default());
            prop_assert_eq!(delta(budget, 0.25, &users[0]), paper);
            let frame = (late_mb * 1e6 / 3600.0) as u32;
            let truth = f64::from(frame) * 3600.0;
            let mut error = (users[0].late_per_hour() - truth).abs();
            for hour in 0..hours {
                let one = &users[hour as usize % sessions];
                (0..3600).for_each(|_| one.played(PAUSE));
                (0..3600).for_each(|_| one.stalled(frame));
                let now = (users[0].late_per_hour() - truth).abs();
                prop_assert!(now <= error * (1.0 + 1e-9) + 1e-3, "it never moves away from what is seen");
                error = now;
            }
            let expected = (LATE_PER_HOUR - truth).abs() * PRIOR_HOURS / (PRIOR_HOURS + hours as f64);
            prop_assert!((error - expected).abs() <= 1e-6 * (LATE_PER_HOUR + truth), "{error} {expected}");
            prop_assert!(users.iter().all(|one| near(one.late_per_hour(), users[0].late_per_hour())));
        }
    }
}
