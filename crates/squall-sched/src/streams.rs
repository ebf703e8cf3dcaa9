//! Which channel's data is next when several wait: MAppLE's stream scheduler (NineTails, §III).
//!
//! Channels are what MAppLE calls streams. [`StreamScheduler::Fifo`] ignores them: the oldest block is next.
//! [`StreamScheduler::WeightedRoundRobin`] is deficit round robin (Shreedhar & Varghese, SIGCOMM 1995,
//! §III): each channel with new data has a deficit counter; a turn adds quantum × weight to it, and the
//! channel sends while its counter is above zero. One thing differs: a counter may fall below zero by less
//! than a packet, which the next turns pay back, so that no packet is cut short to fit a counter. So a channel that
//! runs out of data keeps its place and its counter until its turn comes, for else it would forget what it owes, and
//! get more than the share of its weight by running out. What it has left then is lost, as in the paper.
//!
//! It orders new data between channels. Within a channel blocks keep the order in which they were handed
//! over, and repairs go before new data, since they hold up what was sent before.

use std::collections::{BTreeMap, BTreeSet};

use crate::BlockId;

/// Largest weight of a channel.
pub const MAX_WEIGHT: u16 = 256;

/// Smallest quantum in bytes: a smaller one only costs turns.
const MIN_QUANTUM: u32 = 64;

/// A turn's remainder is not cut below this many bytes: about a packet.
const PACKET: u32 = 1200;

/// Which channel's new data is next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StreamScheduler {
    /// The oldest block's, whatever its channel. The default.
    #[default]
    Fifo,
    /// The channels in turn, bytes in proportion to their weights.
    WeightedRoundRobin {
        /// Bytes that a channel of weight 1 sends in a turn, at least 64.
        quantum: u32,
    },
}

impl StreamScheduler {
    /// Weighted round robin, with turns of one packet of 1200 bytes.
    pub const fn weighted() -> Self {
        Self::WeightedRoundRobin { quantum: PACKET }
    }
}

/// A channel with new data, or one without that may owe bytes.
#[derive(Debug)]
struct Channel {
    /// Its place in line.
    turn: u64,
    /// Bytes it may still send in its turn.
    deficit: i64,
    /// Blocks with new data.
    blocks: BTreeSet<BlockId>,
}

/// The channels in line. Keeps no account of anything under [`StreamScheduler::Fifo`].
#[derive(Debug, Default)]
pub(crate) struct Streams {
    /// Bytes of a turn of weight 1; 0 for first come, first served.
    quantum: i64,
    /// Weights other than 1.
    weights: BTreeMap<u16, u16>,
    channels: BTreeMap<u16, Channel>,
    /// Who is next: channels by their place in line. The first one has new data and a deficit above zero.
    line: BTreeMap<u64, u16>,
    last_turn: u64,
}

impl Streams {
    /// Starts again, with no channel in line.
    pub(crate) fn reset(&mut self, scheduler: StreamScheduler) {
        let quantum = match scheduler {
            StreamScheduler::Fifo => 0,
            StreamScheduler::WeightedRoundRobin { quantum } => quantum.max(MIN_QUANTUM).into(),
        };
        *self = Self { quantum, weights: std::mem::take(&mut self.weights), ..Self::default() };
    }

    /// Sets the share of a channel; it holds from its next turn on.
    pub(crate) fn set_weight(&mut self, channel: u16, weight: u16) {
        self.weights.insert(channel, weight.clamp(1, MAX_WEIGHT));
    }

    fn share(&self, channel: u16) -> i64 {
        self.quantum * i64::from(self.weights.get(&channel).copied().unwrap_or(1))
    }

    fn is_fifo(&self) -> bool {
        self.quantum == 0
    }

    /// A block has new data from now on.
    pub(crate) fn enter(&mut self, channel: u16, block: BlockId) {
        if self.is_fifo() {
            return;
        }
        let share = self.share(channel);
        let (line, last_turn) = (&mut self.line, &mut self.last_turn);
        let entry = self.channels.entry(channel).or_insert_with(|| {
            *last_turn += 1;
            line.insert(*last_turn, channel);
            Channel { turn: *last_turn, deficit: share, blocks: BTreeSet::new() }
        });
        entry.blocks.insert(block);
    }

    /// A block has no new data any more.
    pub(crate) fn leave(&mut self, channel: u16, block: BlockId) {
        let Some(entry) = self.channels.get_mut(&channel) else { return };
        entry.blocks.remove(&block);
        self.settle();
    }

    /// New data of a channel was sent, or, with a negative number, taken back.
    pub(crate) fn charge(&mut self, channel: u16, bytes: i64) {
        let Some(entry) = self.channels.get_mut(&channel) else { return };
        entry.deficit -= bytes;
        self.settle();
    }

    /// Ends turns until the first in line may send. Each turn ended was paid for by bytes sent before. A channel that owes
    /// nothing and has no new data leaves the line.
    fn settle(&mut self) {
        while let Some((&turn, &channel)) = self.line.first_key_value() {
            let share = self.share(channel);
            let may_send = |entry: &Channel| entry.deficit > 0 && !entry.blocks.is_empty();
            let Some(entry) = self.channels.get_mut(&channel).filter(|entry| !may_send(entry)) else {
                return;
            };
            self.line.remove(&turn);
            if entry.deficit > 0 {
                self.channels.remove(&channel);
                continue;
            }
            self.last_turn += 1;
            entry.turn = self.last_turn;
            entry.deficit += share;
            self.line.insert(self.last_turn, channel);
        }
    }

    /// The block whose new data is next, and how much of it at most; `None` if the order of handing over
    /// decides.
    pub(crate) fn next(&self) -> Option<(BlockId, u32)> {
        let (_, channel) = self.line.first_key_value()?;
        let entry = self.channels.get(channel)?;
        let left = u32::try_from(entry.deficit).unwrap_or(u32::MAX);
        Some((*entry.blocks.first()?, left.max(PACKET)))
    }
}
