//! Capacity of one serialiser for blocks.

use squall_net::capacity::{self, Reach, Stretch, Volume};
use squall_trace::Micros;

use super::packet::Packet;

/// Amounts are counted in millionths of a byte, rounded up. The volume of a rate in a microsecond
/// is an integer in this unit, and all rounding errors of a run together stay far below a byte.
pub(super) const PER_BYTE: u64 = 1_000_000;

/// Capacity of a serialiser over time.
#[derive(Debug, Clone)]
pub(super) struct Serialiser {
    packet: Packet,
    stretches: Vec<Stretch>,
    reach: Reach,
    /// Wire amount before each stretch; unlimited stretches count as 0.
    before: Vec<u128>,
    /// Number of unlimited stretches before each stretch.
    unlimited: Vec<usize>,
    /// Paths of the serialiser, in the order of the configuration.
    paths: Vec<usize>,
    /// Limit of the block bytes that the serialiser may carry in all, in millionths.
    pub(super) cap: Option<u64>,
}

impl Serialiser {
    pub(super) fn new(bottleneck: capacity::Bottleneck) -> Self {
        let packet = Packet::largest(bottleneck.mtu);
        let mut stretches = bottleneck.stretches;
        if packet.payload == 0 {
            stretches.clear();
        }
        let (mut before, mut unlimited) = (vec![0], vec![0]);
        for stretch in &stretches {
            let volume = wire(stretch, stretch.from, stretch.to);
            before.push(before[before.len() - 1] + volume.unwrap_or(0));
            unlimited.push(unlimited[unlimited.len() - 1] + usize::from(volume.is_none()));
        }
        let paths = bottleneck.paths;
        Self { packet, reach: Reach::of(&stretches), stretches, before, unlimited, paths, cap: None }
    }

    /// Limits the UDP payload of each metered path to `cap` bytes. A serialiser that also has
    /// unmetered paths stays unlimited.
    pub(super) fn capped(self, cap: u64, is_metered: impl Fn(usize) -> bool) -> Self {
        let all = self.paths.iter().all(|path| is_metered(*path));
        let bytes = cap.saturating_mul(self.paths.len() as u64);
        Self { cap: all.then(|| self.packet.within_udp(bytes)), ..self }
    }

    pub(super) fn stretches(&self) -> &[Stretch] {
        &self.stretches
    }

    /// Latest sending time for an arrival by `by`.
    pub(super) fn latest(&self, by: Micros) -> Option<Micros> {
        self.reach.latest(by)
    }

    /// Returns the maximum number of block bytes, in millionths and in packets that may be shared,
    /// that the stretch can carry between two times. `None`: unlimited.
    pub(super) fn share(&self, stretch: &Stretch, from: Micros, to: Micros) -> Option<u64> {
        let wire = wire(stretch, from, to)?;
        let payload = (wire * u128::from(self.packet.payload)).div_ceil(u128::from(self.packet.size));
        Some(u64::try_from(payload).unwrap_or(u64::MAX))
    }

    /// Returns the maximum number of bytes of one block, released at `from`, that can arrive by
    /// `by`. `None`: unlimited.
    pub(super) fn most(&self, from: Micros, by: Micros) -> Option<u64> {
        let bytes = u64::try_from(self.wire(from, by)? / u128::from(PER_BYTE)).unwrap_or(u64::MAX);
        Some(self.packet.payload_of(bytes))
    }

    /// Returns the maximum number of bytes, in millionths and in packets that may be shared, that
    /// can be released from `from` on and arrive by `by`. `None`: unlimited.
    pub(super) fn most_shared(&self, from: Micros, by: Micros) -> Option<u128> {
        Some((self.wire(from, by)? * u128::from(self.packet.payload)).div_ceil(u128::from(self.packet.size)))
    }

    /// Like [`Self::most_shared`], in bytes on the wire.
    fn wire(&self, from: Micros, by: Micros) -> Option<u128> {
        let Some(latest) = self.latest(by).filter(|latest| *latest >= from) else { return Some(0) };
        let first = self.stretches.partition_point(|stretch| is_over(stretch, from));
        let end = self.stretches.partition_point(|stretch| stretch.from <= latest);
        if first >= end {
            return Some(0);
        }
        if self.unlimited[end] > self.unlimited[first] {
            return None;
        }
        // Only the first stretch may begin before the interval, and only the last may extend beyond
        // it.
        let within = |index: usize| {
            let stretch = &self.stretches[index];
            wire(stretch, stretch.from.max(from), stretch.to.min(latest)).unwrap_or(0)
        };
        let (last, inner) = (end - 1, self.before[end - 1].saturating_sub(self.before[first + 1]));
        let total = if first == last { within(first) } else { within(first) + inner + within(last) };
        Some(total)
    }
}

/// `true` if the stretch has ended for blocks released at `now`.
pub(super) fn is_over(stretch: &Stretch, now: Micros) -> bool {
    if stretch.from == stretch.to { stretch.from < now } else { stretch.to <= now }
}

/// Returns the amount on the wire between two times of a stretch. `None`: unlimited.
fn wire(stretch: &Stretch, from: Micros, to: Micros) -> Option<u128> {
    match stretch.volume {
        Volume::Unlimited => None,
        Volume::Burst(bytes) => Some(u128::from(bytes) * u128::from(PER_BYTE)),
        // Bits per second multiplied by microseconds are millionths of bits.
        Volume::Rate(bps) => Some((u128::from(bps) * u128::from(to.saturating_sub(from))).div_ceil(8)),
    }
}
