//! The two paths between which ECF, BLEST and SRPT-ECF decide: the fastest, and the fastest with room.

use squall_sched::{Context, PathState, PathView};

/// The fastest path, which may be full, and the path on which a packet could leave now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidates<'a> {
    /// The path with the lowest smoothed RTT, with or without room.
    pub(crate) fastest: &'a PathView,
    /// The path with the lowest smoothed RTT among those with room.
    pub(crate) open: &'a PathView,
}

impl<'a> Candidates<'a> {
    /// Returns `None` if no path has room. The lower id wins a tie.
    pub(crate) fn of(cx: &Context<'a>) -> Option<Self> {
        let open = cx.fastest_with_room()?;
        let fastest = cx.paths.iter().filter(|p| opens(p)).min_by_key(|p| (p.srtt, p.id)).unwrap_or(open);
        // A full path that reopens but is not faster is not worth waiting for.
        let fastest = if (fastest.srtt, fastest.id) < (open.srtt, open.id) { fastest } else { open };
        Some(Self { fastest, open })
    }

    /// `true` if the fastest path has room, so that there is nothing to decide.
    pub(crate) fn fastest_is_open(&self) -> bool {
        self.fastest.id == self.open.id
    }
}

/// `true` if the path will have room once its packets in flight are acknowledged or lost. Waiting
/// for any other path (silent, or with its budget spent) could take for ever.
fn opens(path: &PathView) -> bool {
    path.is_open() && path.state == PathState::Active && path.window >= u64::from(path.chunk)
}

#[cfg(test)]
mod tests {

    use squall_units::short::{at_ms, us};

    use super::*;
    use squall_sched::BlockQueue;

    fn ids(paths: &[PathView]) -> Option<(u8, u8)> {
        let queue = BlockQueue::new();
        let pair = Candidates::of(&Context { now: at_ms(0), queue: &queue, paths })?;
        Some((pair.fastest.id.0, pair.open.id.0))
    }

    fn path(id: u8, rtt: u64) -> PathView {
        PathView::example(id, us(rtt), 12_000)
    }

    fn full(id: u8, rtt: u64) -> PathView {
        PathView { in_flight: 12_000, ..path(id, rtt) }
    }

    #[test]
    fn the_fastest_is_found_whether_it_has_room_or_not() {
        assert_eq!(ids(&[path(0, 30), path(1, 10), path(2, 20)]), Some((1, 1)));
        assert_eq!(ids(&[path(0, 30), full(1, 10), path(2, 20)]), Some((1, 2)));
        assert_eq!(ids(&[path(0, 30), path(1, 10), full(2, 20)]), Some((1, 1)));
        assert_eq!(ids(&[full(0, 30), full(1, 10)]), None);
        assert_eq!(ids(&[full(0, 10), path(1, 10)]), Some((0, 1)), "the lower id wins a tie");
        assert_eq!(ids(&[path(0, 10), full(1, 10)]), Some((0, 0)));
    }

    #[test]
    fn a_path_that_will_not_open_is_not_waited_for() {
        let mut fast = full(0, 10);
        assert_eq!(ids(&[fast.clone(), path(1, 20)]), Some((0, 1)));
        fast.budget = Some(1199);
        assert_eq!(ids(&[fast.clone(), path(1, 20)]), Some((1, 1)));
        fast.budget = None;
        fast.window = 1199;
        assert_eq!(ids(&[fast.clone(), path(1, 20)]), Some((1, 1)));
        for state in [PathState::Suspect, PathState::Deactivated] {
            assert_eq!(ids(&[PathView { state, ..full(0, 10) }, path(1, 20)]), Some((1, 1)));
        }
        assert_eq!(ids(&[PathView { usable: false, ..full(0, 10) }, path(1, 20)]), Some((1, 1)));
    }

    #[test]
    fn a_suspect_path_is_used_when_the_session_offers_it() {
        let suspect = PathView { state: PathState::Suspect, ..path(3, 10) };
        assert_eq!(ids(&[suspect]), Some((3, 3)));
    }
}
