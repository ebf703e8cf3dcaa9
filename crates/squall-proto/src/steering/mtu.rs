//! Largest packets of a path: the search for them, and protection from losses that look like a
//! smaller MTU.
//!
//! noq counts bursts of losses that no packet refutes: one that left later, was acknowledged, and
//! is at least as large as the largest acknowledged since the burst before. Four of them are a
//! black hole, and packets then have 1,200 bytes until a search has found more, two or three round
//! trips later. Losses are one burst if they are neighbours and declared together. Where sizes
//! differ, four random losses that one acknowledgement declares are therefore enough: packets of a
//! TUN device are smaller than the probe that has found the MTU, and those with acknowledgements
//! are larger than others.
//!
//! Therefore, where the MTU has fallen, and several packets are lost together again, every other
//! large packet is filled up to the MTU. Each that arrives refutes the losses before it. If none
//! does while smaller ones arrive, the MTU has indeed become smaller. Filling costs a TUN device
//! with its default MTU up to 4 % of its bytes, hence neither without a fall nor without losses.

use std::time::{Duration, Instant};

use noq_proto::MtuDiscoveryConfig;

/// Smallest MTU of all paths (RFC 9000 §14), in bytes of UDP payload.
const BASE: u16 = 1200;

/// Pause between two searches for a larger MTU. A path with a small MTU loses about six probes in
/// each, which is 2.7 kbit/s. RFC 8899 §5.1.1 has ten minutes, in which a detour around a failed
/// link is long over.
const RAISE_INTERVAL: Duration = Duration::from_secs(25);
/// Pause after a black hole before the search begins. It needs none: a lost probe is repeated, and
/// carries no data.
const COOLDOWN: Duration = Duration::ZERO;

/// Time after a fall in which losses cause packets to be filled. A fall of 130 ms in ten minutes
/// divides 0.02 % of the packets.
const WARY: Duration = Duration::from_secs(600);
/// Time between losses that one acknowledgement may declare: the longest delay of one (RFC 9000
/// §18.2).
const TOGETHER: Duration = Duration::from_millis(25);
/// Time after several losses together in which packets are filled.
const LOSSY: Duration = Duration::from_secs(2);

/// Returns the settings of noq's search.
pub(super) fn discovery() -> MtuDiscoveryConfig {
    let mut discovery = MtuDiscoveryConfig::default();
    discovery.interval(RAISE_INTERVAL).black_hole_cooldown(COOLDOWN);
    discovery
}

/// Sizes of the packets of one path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sizes {
    /// Largest UDP payload, as found by noq.
    mtu: u16,
    /// Time of its last fall.
    fell: Option<Instant>,
    /// Time of the last loss.
    lost: Option<Instant>,
    /// Time at which two packets were last lost together.
    several_lost: Option<Instant>,
    /// The last large packet had the size of the MTU.
    is_last_full: bool,
    /// Number of the packet that leaves next.
    next: u64,
    /// Number of the newest acknowledged packet.
    newest_acked: u64,
}

impl Sizes {
    pub(super) fn new(mtu: u16) -> Self {
        Self { mtu, ..Self::default() }
    }

    /// Records another MTU that noq has found; a smaller one was found upon a loss.
    pub(super) fn on_mtu(&mut self, mtu: u16) {
        if mtu < self.mtu {
            self.fell = self.lost;
        }
        self.mtu = mtu;
    }

    /// Records the departure of a packet.
    pub(super) fn on_sent(&mut self, packet: u64, bytes: u16) {
        self.next = packet + 1;
        if bytes > BASE {
            self.is_last_full = bytes >= self.mtu;
        }
    }

    /// Records the acknowledgement of a packet.
    pub(super) fn on_ack(&mut self, packet: u64) {
        self.newest_acked = self.newest_acked.max(packet);
    }

    /// Records the loss of a packet.
    pub(super) fn on_loss(&mut self, now: Instant) {
        if is_within(self.lost, now, TOGETHER) {
            self.several_lost = Some(now);
        }
        self.lost = Some(now);
    }

    /// Returns `true` if the next large packet is to be filled.
    pub(super) fn lacks_full(&self, now: Instant) -> bool {
        !self.is_last_full && is_within(self.several_lost, now, LOSSY) && is_within(self.fell, now, WARY)
    }

    /// Returns the bytes that a packet with `used` bytes of frames lacks to the size of the MTU, if
    /// it is large, and `ahead` others leave before it; `overhead` is that of a packet whose number
    /// has four bytes.
    pub(super) fn missing(&self, overhead: usize, used: usize, ahead: usize) -> Option<usize> {
        let size = (overhead + self.number_len(ahead) + used).checked_sub(4)?;
        let is_large = size > usize::from(BASE);
        usize::from(self.mtu).checked_sub(size).filter(|_| is_large)
    }

    /// Returns the length of the number of a packet in bytes: that of twice the distance to the
    /// newest acknowledged one (RFC 9000 §17.1).
    fn number_len(&self, ahead: usize) -> usize {
        match (self.next + ahead as u64).saturating_sub(self.newest_acked) {
            0..0x80 => 1,
            0x80..0x8000 => 2,
            0x8000..0x80_0000 => 3,
            _ => 4,
        }
    }
}

/// Returns `true` if `at` was less than `time` ago.
fn is_within(at: Option<Instant>, now: Instant, time: Duration) -> bool {
    at.is_some_and(|at| now.saturating_duration_since(at) < time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_filled_where_the_mtu_has_fallen_and_several_packets_are_lost() {
        let (start, mut sizes) = (Instant::now(), Sizes::new(1452));
        let after = |seconds| start + Duration::from_secs(seconds);
        let lose = |sizes: &mut Sizes, at, packets| (0..packets).for_each(|_| sizes.on_loss(at));
        lose(&mut sizes, start, 2);
        assert!(!sizes.lacks_full(start), "it has not fallen");
        sizes.on_mtu(1200);
        sizes.on_mtu(1452);
        assert!(sizes.lacks_full(after(1)) && !sizes.lacks_full(after(2)), "until no more are lost");
        lose(&mut sizes, after(599), 1);
        assert!(!sizes.lacks_full(after(599)), "not for a single loss");
        lose(&mut sizes, after(599), 1);
        assert!(sizes.lacks_full(after(599)) && !sizes.lacks_full(after(600)));
        sizes.on_sent(1, 1452);
        sizes.on_sent(2, 100);
        assert!(!sizes.lacks_full(after(599)), "the last large one was full");
        sizes.on_sent(3, 1341);
        assert!(sizes.lacks_full(after(599)));
    }

    #[test]
    fn a_packet_is_filled_up_to_the_mtu() {
        let mut sizes = Sizes::new(1452);
        sizes.on_sent(10, 1341);
        // Flags, a connection id and a tag, and a number of one byte.
        assert_eq!(sizes.missing(29, 1303, 0), Some(1452 - 26 - 1303));
        assert_eq!(sizes.missing(29, 1303, 117), Some(1452 - 27 - 1303), "the number has two bytes");
        sizes.on_ack(9);
        assert_eq!(sizes.missing(29, 1303, 117), Some(1452 - 26 - 1303));
        assert_eq!(sizes.missing(29, 1000, 0), None, "a small packet proves nothing");
        assert_eq!(sizes.missing(29, 1430, 0), None, "it is larger than the MTU");
    }
}
