//! What one serialiser can carry of blocks.

use squall_net::capacity::{self, Reach, Stretch, Volume};
use squall_trace::Micros;

use super::packet::Packet;

/// Amounts are counted in millionths of a byte, rounded up: what a rate gives in a microsecond is whole in them,
/// and of all that is rounded in a run nothing comes near a byte.
pub(super) const PER_BYTE: u64 = 1_000_000;

/// A serialiser.
#[derive(Debug, Clone)]
pub(super) struct Serialiser {
    packet: Packet,
    stretches: Vec<Stretch>,
    reach: Reach,
    /// Wire amount before each stretch; unlimited ones count as nothing.
    before: Vec<u128>,
    /// Unlimited stretches before each.
    unlimited: Vec<usize>,
    /// Its paths, in the order of the configuration.
    paths: Vec<usize>,
    /// The most block bytes that it may carry in all, in millionths, if there is a limit.
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

    /// The same if each metered path carries at most `cap` bytes of UDP payload. A serialiser that has other paths too
    /// may carry anything.
    pub(super) fn capped(self, cap: u64, is_metered: impl Fn(usize) -> bool) -> Self {
        let all = self.paths.iter().all(|path| is_metered(*path));
        let bytes = cap.saturating_mul(self.paths.len() as u64);
        Self { cap: all.then(|| self.packet.within_udp(bytes)), ..self }
    }

    pub(super) fn stretches(&self) -> &[Stretch] {
        &self.stretches
    }

    /// The latest moment that is of use for what must arrive by `by`.
    pub(super) fn latest(&self, by: Micros) -> Option<Micros> {
        self.reach.latest(by)
    }

    /// The most block bytes, in millionths, that the stretch can carry between two of its moments, in packets
    /// that may be shared. `None`: any number.
    pub(super) fn share(&self, stretch: &Stretch, from: Micros, to: Micros) -> Option<u64> {
        let wire = wire(stretch, from, to)?;
        let payload = (wire * u128::from(self.packet.payload)).div_ceil(u128::from(self.packet.size));
        Some(u64::try_from(payload).unwrap_or(u64::MAX))
    }

    /// The most bytes of one block, handed over at `from`, that can arrive by `by`. `None`: any number.
    pub(super) fn most(&self, from: Micros, by: Micros) -> Option<u64> {
        let bytes = u64::try_from(self.wire(from, by)? / u128::from(PER_BYTE)).unwrap_or(u64::MAX);
        Some(self.packet.payload_of(bytes))
    }

    /// The most bytes in millionths, in packets that may be shared, that are handed over from `from` on and arrive by
    /// `by`. `None`: any number.
    pub(super) fn most_shared(&self, from: Micros, by: Micros) -> Option<u128> {
        Some((self.wire(from, by)? * u128::from(self.packet.payload)).div_ceil(u128::from(self.packet.size)))
    }

    /// The same on the wire.
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
        // Only the first may have begun before, and only the last may go on after it.
        let within = |index: usize| {
            let stretch = &self.stretches[index];
            wire(stretch, stretch.from.max(from), stretch.to.min(latest)).unwrap_or(0)
        };
        let (last, inner) = (end - 1, self.before[end - 1].saturating_sub(self.before[first + 1]));
        let total = if first == last { within(first) } else { within(first) + inner + within(last) };
        Some(total)
    }
}

/// Whether what is handed over at `now` comes too late for all of it.
pub(super) fn is_over(stretch: &Stretch, now: Micros) -> bool {
    if stretch.from == stretch.to { stretch.from < now } else { stretch.to <= now }
}

/// The amount on the wire between two moments of a stretch. `None`: any.
fn wire(stretch: &Stretch, from: Micros, to: Micros) -> Option<u128> {
    match stretch.volume {
        Volume::Unlimited => None,
        Volume::Burst(bytes) => Some(u128::from(bytes) * u128::from(PER_BYTE)),
        // Bits per second times microseconds are millionths of bits.
        Volume::Rate(bps) => Some((u128::from(bps) * u128::from(to.saturating_sub(from))).div_ceil(8)),
    }
}
