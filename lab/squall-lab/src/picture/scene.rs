//! What every scheduler is given: two paths, three blocks, and a moment of loss.

use std::{ops::Range, time::Duration};

use bytes::Bytes;
use squall_net::{Direction, LossConfig, PathConfig, PathEvent};
use squall_proto::{Block, Priority};
use squall_units::{Micros, Ratio, Span};

/// A path as it is drawn.
pub(super) struct Lane {
    /// What it is called.
    pub(super) name: &'static str,
    /// What to know of it.
    pub(super) words: &'static str,
    /// As a path of the emulator takes it.
    link: &'static str,
    /// Whether its bytes cost money.
    pub(super) metered: bool,
}

/// The paths. So slow that a packet is wide enough to be seen.
pub(super) const LANES: [Lane; 2] = [
    Lane { name: "A", words: "10 Mbps, 10 ms", link: "name=A,rate=10mbps,delay=10ms", metered: false },
    Lane { name: "B", words: "5 Mbps, 30 ms, metered", link: "name=B,rate=5mbps,delay=30ms", metered: true },
];

/// A block as it is handed over.
pub(super) struct Given {
    /// What it could be.
    pub(super) name: &'static str,
    /// Size in bytes.
    pub(super) size: usize,
    /// 0 is the most important.
    pub(super) priority: u8,
    /// Whether losses are repaired.
    pub(super) reliable: bool,
    /// From the handing over, in microseconds.
    pub(super) deadline_us: Micros,
}

/// The blocks, in the order in which they are handed over: the nearer the deadline, the later.
pub(super) const BLOCKS: [Given; 3] = [
    Given { name: "key frame", size: 44_000, priority: 0, reliable: true, deadline_us: 120_000 },
    Given { name: "game state", size: 22_000, priority: 1, reliable: true, deadline_us: 80_000 },
    Given { name: "extra layer", size: 14_000, priority: 3, reliable: false, deadline_us: 70_000 },
];

/// How often, and for how long, a scheduler sends a [`past_block`] before the picture.
pub(super) const PAST_INTERVAL: Micros = 50_000;
pub(super) const PAST_LENGTH: Micros = 5_000_000;

/// When path A fails meanwhile, and for how many milliseconds: a few blocks become later than all others.
const PAST_OUTAGE: (u64, u64) = (3_000, 260);

/// When path A loses every packet whose last bit leaves, in microseconds from the handing over: while every
/// scheduler that uses it is still sending there.
pub(super) const LOSS_US: Range<Micros> = 29_000..31_000;

impl Lane {
    /// One-way delay in microseconds.
    #[cfg(test)]
    pub(super) fn delay_us(&self) -> Micros {
        let path: PathConfig = self.link.parse().expect("is well described");
        path.up.delay.initial().micros()
    }
}

impl Given {
    /// The block for a session.
    pub(super) fn block(&self) -> Block {
        let block = Block::new(Bytes::from(vec![0; self.size])).priority(Priority::new(self.priority));
        let block = block.deadline(Duration::from_micros(self.deadline_us));
        if self.reliable { block } else { block.unreliable() }
    }
}

/// A block of the time before the picture, in which each scheduler sends by itself at a rate that either path
/// can bear, so that those which learn have something to go by.
pub(super) fn past_block() -> Block {
    Block::new(Bytes::from(vec![0; 6_000])).deadline(Duration::from_millis(400))
}

/// The paths before the picture. Their queues hold one bandwidth-delay product of path A, so that windows
/// grow to what is usual and no further.
pub(super) fn calm_paths() -> Vec<PathConfig> {
    paths("25kB")
}

fn paths(queue: &str) -> Vec<PathConfig> {
    let path = |lane: &Lane| format!("{},queue={queue}", lane.link).parse().expect("is well described");
    LANES.iter().map(path).collect()
}

/// The paths of the schedulers' past, their time 0 being its beginning.
pub(super) fn past_paths() -> Vec<PathConfig> {
    let (at, length) = PAST_OUTAGE;
    let mut paths = calm_paths();
    paths[0].events.push(PathEvent {
        at: Span::from_millis(at),
        outage: Some(Span::from_millis(length)),
        ..PathEvent::default()
    });
    paths
}

/// The paths of the picture, their time 0 being that of the handing over. Their queues hold all there is, so
/// that nothing is lost but in that moment.
pub(super) fn lossy_paths() -> Vec<PathConfig> {
    let mut paths = paths("200kB");
    let loss = |at, ratio| PathEvent {
        at: Span::from_micros(at),
        direction: Some(Direction::Up),
        loss: Some(LossConfig::Bernoulli(ratio)),
        ..PathEvent::default()
    };
    paths[0].events = vec![loss(LOSS_US.start, Ratio::ONE), loss(LOSS_US.end, Ratio::ZERO)];
    paths
}
