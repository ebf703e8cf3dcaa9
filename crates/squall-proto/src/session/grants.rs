//! Further paths that a server grants its client.

use squall_sched::{Span, Time};

/// Smallest interval between grants. A client that abandons paths before they are up, for instance
/// with an interface that disappears, is granted another one for each.
const INTERVAL: Span = Span::from_secs(1);
/// Largest number of grants in a session: each keeps some connection ids.
const MAX_GRANTS: usize = 256;

#[derive(Debug)]
pub(super) struct PathGrants {
    /// Usual number of paths.
    most: usize,
    /// Paths granted beyond the usual number.
    granted: usize,
    /// Time of the last review.
    reviewed_at: Time,
    /// Number of times that the client had been blocked by then.
    blocked: u64,
}

impl PathGrants {
    pub(super) fn new(most: usize) -> Self {
        Self { most, granted: 0, reviewed_at: Time::EPOCH, blocked: 0 }
    }

    pub(super) fn is_due(&self, at: Time) -> bool {
        at >= self.reviewed_at + INTERVAL
    }

    /// Grants a path if the client was blocked since the last review, and has fewer paths than
    /// usual. Returns the new total, including abandoned paths.
    pub(super) fn review(&mut self, at: Time, blocked: u64, paths: usize) -> Option<usize> {
        self.reviewed_at = at;
        let is_blocked = std::mem::replace(&mut self.blocked, blocked) < blocked;
        let grants = is_blocked && paths < self.most && self.granted < MAX_GRANTS;
        self.granted += usize::from(grants);
        grants.then_some(self.most + self.granted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocked_client_is_granted_a_path_a_second_up_to_a_limit() {
        let mut grants = PathGrants::new(8);
        assert!(!grants.is_due(Time::EPOCH + INTERVAL - Span::TICK) && grants.is_due(Time::EPOCH + INTERVAL));
        assert_eq!(grants.review(Time::EPOCH + INTERVAL, 0, 7), None, "it was not blocked");
        assert!(!grants.is_due(Time::EPOCH + INTERVAL * 2 - Span::TICK));
        assert_eq!(grants.review(Time::EPOCH + INTERVAL * 2, 1, 7), Some(9));
        assert_eq!(grants.review(Time::EPOCH + INTERVAL * 3, 1, 7), None, "it was not blocked again");
        assert_eq!(grants.review(Time::EPOCH + INTERVAL * 4, 2, 8), None, "it has all it may have");
        let granted = (3..1_000)
            .filter_map(|blocked| grants.review(Time::EPOCH + INTERVAL * blocked, blocked, 7))
            .last();
        assert_eq!(granted, Some(8 + MAX_GRANTS));
    }
}
