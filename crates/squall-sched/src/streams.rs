//! Order of new data between channels: MAppLE's stream scheduler (NineTails, §III).
//!
//! Channels are MAppLE's streams. A [`StreamScheduler`] orders new data between channels. Within a
//! channel, blocks keep the order in which they were handed over, and repairs precede new data,
//! since they hold up data that was sent before.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use crate::{Block, BlockId, BlockMeta};

/// Largest weight of a channel.
pub const MAX_WEIGHT: u16 = 256;

/// Decides which channel's new data is next.
///
/// ```
/// use squall_sched::{StreamScheduler, Turn, Waiting};
///
/// /// The channel whose oldest block has the fewest bytes left.
/// struct Shortest;
///
/// impl StreamScheduler for Shortest {
///     fn next(&self, waiting: &Waiting<'_>) -> Option<Turn> {
///         let (channel, _) = waiting.iter().min_by_key(|(_, block)| block.unsent_bytes())?;
///         Some(Turn { channel, bytes: u32::MAX })
///     }
/// }
/// ```
pub trait StreamScheduler: Send {
    /// Returns the next of the waiting channels, and the largest part of its data to send. `None`
    /// if the oldest block is next, whatever its channel. Called for every decision, often several
    /// times: change state in the other methods.
    fn next(&self, waiting: &Waiting<'_>) -> Option<Turn>;

    /// Called when a channel has new data from now on.
    fn on_waiting(&mut self, _channel: u16) {}

    /// Called when a channel has no new data any more.
    fn on_empty(&mut self, _channel: u16) {}

    /// Called when new data of a block was sent or, with a negative number, taken back. `rank` is
    /// that of the block.
    fn on_sent(&mut self, _block: &BlockMeta, _rank: u64, _bytes: i64) {}

    /// Sets the weight of a channel, 1 to 256. The default weight is 1.
    fn set_weight(&mut self, _channel: u16, _weight: u16) {}

    /// Returns the rank of a new block among those between which the packet scheduler has no
    /// preference: lower first, among equals the older. Only packet schedulers that plan whole
    /// blocks use it; the others ask for the next channel. `bytes` is its length, or an estimate
    /// while it grows. Default: 0.
    fn rank(&mut self, _block: &BlockMeta, _bytes: u32) -> u64 {
        0
    }

    /// Returns `true` if the oldest block is always next. The queue then calls no other method and
    /// keeps no state of channels. Default: `false`.
    fn is_fifo(&self) -> bool {
        false
    }
}

/// The turn of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The channel.
    pub channel: u16,
    /// Largest number of bytes of new data.
    pub bytes: u32,
}

/// Channels with new data.
pub struct Waiting<'a> {
    channels: &'a BTreeMap<u16, BTreeSet<BlockId>>,
    blocks: &'a BTreeMap<BlockId, Block>,
}

impl<'a> Waiting<'a> {
    /// Iterates over the channels with new data, ascending, each with its oldest block that has
    /// some.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &'a Block)> {
        let blocks = self.blocks;
        self.channels.iter().filter_map(move |(channel, ids)| Some((*channel, blocks.get(ids.first()?)?)))
    }
}

/// The oldest block is next, whatever its channel. The default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fifo;

impl StreamScheduler for Fifo {
    fn next(&self, _: &Waiting<'_>) -> Option<Turn> {
        None
    }

    fn is_fifo(&self) -> bool {
        true
    }
}

/// The channels of a queue. Keeps no state under [`Fifo`].
#[derive(Default)]
pub(crate) struct Streams {
    /// `None` for first come, first served.
    scheduler: Option<Box<dyn StreamScheduler>>,
    /// Blocks with new data by channel; channels without any are left out.
    waiting: BTreeMap<u16, BTreeSet<BlockId>>,
    /// Weights that were set, by channel.
    weights: BTreeMap<u16, u16>,
}

impl fmt::Debug for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streams").field("waiting", &self.waiting).field("weights", &self.weights).finish()
    }
}

impl Streams {
    /// Replaces the scheduler. No channel waits afterwards.
    pub(crate) fn reset(&mut self, mut scheduler: Box<dyn StreamScheduler>) {
        for (channel, weight) in &self.weights {
            scheduler.set_weight(*channel, *weight);
        }
        self.waiting.clear();
        self.scheduler = Some(scheduler).filter(|scheduler| !scheduler.is_fifo());
    }

    pub(crate) fn is_fifo(&self) -> bool {
        self.scheduler.is_none()
    }

    /// Sets the weight of a channel.
    pub(crate) fn set_weight(&mut self, channel: u16, weight: u16) {
        let weight = weight.clamp(1, MAX_WEIGHT);
        self.weights.insert(channel, weight);
        if let Some(scheduler) = &mut self.scheduler {
            scheduler.set_weight(channel, weight);
        }
    }

    /// Rank of a new block.
    pub(crate) fn rank(&mut self, block: &BlockMeta, bytes: u32) -> u64 {
        self.scheduler.as_mut().map_or(0, |scheduler| scheduler.rank(block, bytes))
    }

    /// Records that a block has new data from now on.
    pub(crate) fn enter(&mut self, channel: u16, block: BlockId) {
        let Some(scheduler) = &mut self.scheduler else { return };
        let blocks = self.waiting.entry(channel).or_default();
        if blocks.is_empty() {
            scheduler.on_waiting(channel);
        }
        blocks.insert(block);
    }

    /// Records that a block has no new data any more.
    pub(crate) fn leave(&mut self, channel: u16, block: BlockId) {
        let Some(scheduler) = &mut self.scheduler else { return };
        let Some(blocks) = self.waiting.get_mut(&channel) else { return };
        blocks.remove(&block);
        if blocks.is_empty() {
            self.waiting.remove(&channel);
            scheduler.on_empty(channel);
        }
    }

    /// Reports that new data of a block was sent or, with a negative number, taken back.
    pub(crate) fn charge(&mut self, block: &BlockMeta, rank: u64, bytes: i64) {
        if let Some(scheduler) = &mut self.scheduler {
            scheduler.on_sent(block, rank, bytes);
        }
    }

    /// Returns the block whose new data is next, and the largest part of it to send; `None` if the
    /// order of the hand-over decides.
    pub(crate) fn next(&self, blocks: &BTreeMap<BlockId, Block>) -> Option<(BlockId, u32)> {
        let scheduler = self.scheduler.as_ref()?;
        let turn = scheduler.next(&Waiting { channels: &self.waiting, blocks })?;
        // A scheduler that names a channel without data has no preference.
        Some((*self.waiting.get(&turn.channel)?.first()?, turn.bytes))
    }
}
