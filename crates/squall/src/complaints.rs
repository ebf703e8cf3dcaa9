//! Errors of sending in the log: one line for each peer and second, with a count.

use std::{
    collections::HashMap,
    net::IpAddr,
    time::{Duration, Instant},
};

/// Time between two lines about a peer.
const ONE_LINE: Duration = Duration::from_secs(1);

/// Peers that are remembered.
const MAX_PEERS: usize = 64;

/// What was logged of each peer.
#[derive(Debug, Default)]
pub(crate) struct Complaints {
    peers: HashMap<IpAddr, (Instant, u64)>,
}

impl Complaints {
    /// Sending to a peer failed. Says whether that is to be logged, and how many failures before it were not.
    pub(crate) fn note(&mut self, now: Instant, peer: IpAddr) -> Option<u64> {
        if let Some((last, silent)) = self.peers.get_mut(&peer) {
            if now.saturating_duration_since(*last) < ONE_LINE {
                *silent += 1;
                return None;
            }
            *last = now;
            return Some(std::mem::take(silent));
        }
        if self.peers.len() >= MAX_PEERS {
            self.peers.retain(|_, (last, _)| now.saturating_duration_since(*last) < ONE_LINE);
        }
        if self.peers.len() >= MAX_PEERS {
            return None;
        }
        self.peers.insert(peer, (now, 0));
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_has_one_line_a_second() {
        let (mut complaints, begin) = (Complaints::default(), Instant::now());
        let (one, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let mut lines = Vec::new();
        for n in 0..250 {
            lines.extend(complaints.note(begin + Duration::from_millis(10 * n), one));
        }
        assert_eq!(lines, [0, 99, 99]);
        assert_eq!(complaints.note(begin, other), Some(0));
    }

    #[test]
    fn peers_are_bounded() {
        let (mut complaints, now) = (Complaints::default(), Instant::now());
        let note = |complaints: &mut Complaints, at| {
            (0..1000u32).filter(|n| complaints.note(at, IpAddr::from(n.to_be_bytes())).is_some()).count()
        };
        assert_eq!(note(&mut complaints, now), MAX_PEERS);
        assert_eq!(note(&mut complaints, now + ONE_LINE), MAX_PEERS);
        assert_eq!(complaints.peers.len(), MAX_PEERS);
    }
}
