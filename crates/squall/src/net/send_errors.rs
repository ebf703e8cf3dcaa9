//! Rate limit for logged send errors: one line per peer every ten seconds, with a count.

use std::{
    collections::HashMap,
    net::IpAddr,
    time::{Duration, Instant},
};

/// Time between two lines about one peer.
const ONE_LINE: Duration = Duration::from_secs(10);

/// Largest number of peers with state.
const MAX_PEERS: usize = 64;

/// Time of the last line and count of unlogged errors, by peer.
#[derive(Debug, Default)]
pub(crate) struct SendErrors {
    peers: HashMap<IpAddr, (Instant, u64)>,
}

impl SendErrors {
    /// Records a failure to send to a peer. `Some` if it should be logged, with the number of
    /// unlogged failures before it.
    pub(crate) fn record(&mut self, now: Instant, peer: IpAddr) -> Option<u64> {
        if let Some((last, unlogged)) = self.peers.get_mut(&peer) {
            if now.saturating_duration_since(*last) < ONE_LINE {
                *unlogged += 1;
                return None;
            }
            *last = now;
            return Some(std::mem::take(unlogged));
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
    fn a_peer_has_one_line_in_ten_seconds() {
        let (mut errors, begin) = (SendErrors::default(), Instant::now());
        let (one, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let mut lines = Vec::new();
        for n in 0..250 {
            lines.extend(errors.record(begin + Duration::from_millis(100 * n), one));
        }
        assert_eq!(lines, [0, 99, 99]);
        assert_eq!(errors.record(begin, other), Some(0));
    }

    #[test]
    fn peers_are_bounded() {
        let (mut errors, now) = (SendErrors::default(), Instant::now());
        let note = |errors: &mut SendErrors, at| {
            (0..1000u32).filter(|n| errors.record(at, IpAddr::from(n.to_be_bytes())).is_some()).count()
        };
        assert_eq!(note(&mut errors, now), MAX_PEERS);
        assert_eq!(note(&mut errors, now + ONE_LINE), MAX_PEERS);
        assert_eq!(errors.peers.len(), MAX_PEERS);
    }
}
