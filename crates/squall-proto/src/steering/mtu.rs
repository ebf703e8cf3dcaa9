//! The largest packets of a path: how noq searches for them, and what keeps it from mistaking bursts of losses for a smaller MTU.
//!
//! noq takes a size for a black hole when four losses, each declared by itself, have no packet behind them that was acknowledged
//! and is at least as large as the largest one acknowledged before. A burst of four losses looks like that wherever packets are not
//! all of the same size, since each of them is declared when its time has come: those of a TUN device are smaller than the probe
//! that has found the MTU, and those with acknowledgements are a little larger than others. The packets then have 1,200 bytes until
//! the MTU is found again, which takes two or three round trips for most of it. So
//!
//! - the search begins soon after a fall, and again and again ([`discovery`]),
//! - and where a path has fallen and loses packets, large packets are filled up to the MTU: then each one that arrives proves that
//!   size is not the reason, and if none does, it is.
//!
//! Filled packets cost as much as the headers of packets in two parts, and half the packets.

use std::time::{Duration, Instant};

use noq_proto::MtuDiscoveryConfig;

/// Smallest packets that every path carries (RFC 9000 §14), in bytes of UDP payload.
const BASE: u16 = 1200;

/// Pause between two searches for a larger MTU. A path whose MTU is small loses six probes in each, of 2.7 kbit/s; RFC 8899 §5.1.1
/// has ten minutes, in which a detour around a failed link is long over.
const RAISE_INTERVAL: Duration = Duration::from_secs(25);
/// Pause after a black hole before the search begins.
const COOLDOWN: Duration = Duration::from_millis(100);

/// Time after a fall in which another one may be prevented.
const FILLS_FOR: Duration = Duration::from_secs(600);
/// Time after a loss in which large packets are filled.
const LOSSY_FOR: Duration = Duration::from_secs(2);

/// How noq searches.
pub(super) fn discovery() -> MtuDiscoveryConfig {
    let mut discovery = MtuDiscoveryConfig::default();
    discovery.interval(RAISE_INTERVAL).black_hole_cooldown(COOLDOWN);
    discovery
}

/// Sizes of the packets of one path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sizes {
    /// Largest UDP payload, as noq has found it.
    mtu: u16,
    /// What it was before it fell, until that is reported.
    fallen_from: Option<u16>,
    /// When the MTU last fell, and when a packet above [`BASE`] was last lost.
    fell: Option<Instant>,
    lost: Option<Instant>,
    /// Number of the packet that leaves next, and of the newest that is acknowledged.
    next: u64,
    newest_acked: u64,
}

impl Sizes {
    pub(super) fn new(mtu: u16) -> Self {
        Self { mtu, ..Self::default() }
    }

    /// Largest UDP payload, as noq has found it.
    pub(super) fn mtu(&self) -> u16 {
        self.mtu
    }

    /// noq has found another MTU; one that falls, just after a loss.
    pub(super) fn on_mtu(&mut self, mtu: u16) {
        if mtu < self.mtu {
            self.fallen_from.get_or_insert(self.mtu);
            self.fell = self.lost;
        }
        self.mtu = mtu;
    }

    /// The MTU before it fell, and after, once.
    pub(crate) fn take_fall(&mut self) -> Option<(u16, u16)> {
        Some((self.fallen_from.take()?, self.mtu)).filter(|(before, now)| before > now)
    }

    /// A packet leaves.
    pub(super) fn on_sent(&mut self, packet: u64) {
        self.next = packet + 1;
    }

    /// A packet is acknowledged.
    pub(super) fn on_ack(&mut self, packet: u64) {
        self.newest_acked = self.newest_acked.max(packet);
    }

    /// A packet is lost.
    pub(super) fn on_loss(&mut self, now: Instant, bytes: u16) {
        if bytes > BASE {
            self.lost = Some(now);
        }
    }

    /// Whether large packets that leave now are filled.
    pub(super) fn is_filling(&self, now: Instant) -> bool {
        let within =
            |at: Option<Instant>, time| at.is_some_and(|at| now.saturating_duration_since(at) < time);
        within(self.lost, LOSSY_FOR) && within(self.fell, FILLS_FOR)
    }

    /// Bytes that a packet with `used` bytes of frames lacks to have the size of the MTU, if it is large; `overhead` is that of a
    /// packet whose number has four bytes.
    pub(super) fn missing(&self, overhead: usize, used: usize) -> Option<usize> {
        let size = overhead - 4 + self.number_len() + used;
        let is_large = size > usize::from(BASE);
        usize::from(self.mtu).checked_sub(size).filter(|_| is_large)
    }

    /// Bytes of the number of the next packet: twice the distance to the newest that is acknowledged (RFC 9000 §17.1).
    fn number_len(&self) -> usize {
        match self.next.saturating_sub(self.newest_acked) {
            0..0x80 => 1,
            0x80..0x8000 => 2,
            0x8000..0x80_0000 => 3,
            _ => 4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_filled_where_the_mtu_has_fallen_and_packets_are_lost() {
        let (start, mut sizes) = (Instant::now(), Sizes::new(1452));
        let after = |seconds| start + Duration::from_secs(seconds);
        sizes.on_loss(start, 1341);
        assert!(!sizes.is_filling(start), "it has not fallen");
        sizes.on_mtu(1200);
        sizes.on_mtu(1452);
        assert!(sizes.is_filling(after(1)) && !sizes.is_filling(after(2)), "until no more are lost");
        sizes.on_loss(after(599), 100);
        assert!(!sizes.is_filling(after(599)), "not because of small ones");
        sizes.on_loss(after(599), 1341);
        assert!(sizes.is_filling(after(599)) && !sizes.is_filling(after(600)));
    }

    #[test]
    fn a_packet_is_filled_up_to_the_mtu() {
        let mut sizes = Sizes::new(1452);
        sizes.on_sent(10);
        // Flags, a connection id and a tag, and a number of one byte.
        assert_eq!(sizes.missing(29, 1303), Some(1452 - 26 - 1303));
        sizes.on_sent(300);
        assert_eq!(sizes.missing(29, 1303), Some(1452 - 27 - 1303), "the number has two bytes");
        sizes.on_ack(290);
        assert_eq!(sizes.missing(29, 1303), Some(1452 - 26 - 1303));
        assert_eq!(sizes.missing(29, 1000), None, "a small packet proves nothing");
        assert_eq!(sizes.missing(29, 1430), None, "it is larger than the MTU");
    }

    #[test]
    fn a_fall_is_reported_once() {
        let mut sizes = Sizes::new(1200);
        sizes.on_mtu(1452);
        assert_eq!(sizes.take_fall(), None);
        sizes.on_mtu(1200);
        assert_eq!((sizes.take_fall(), sizes.take_fall()), (Some((1452, 1200)), None));
    }
}
