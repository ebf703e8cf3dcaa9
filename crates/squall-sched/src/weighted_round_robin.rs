//! Weighted round robin: channels in turn, bytes in proportion to their weights.
//!
//! Deficit round robin (Shreedhar & Varghese, SIGCOMM 1995, §III): each channel with new data has a
//! deficit counter; a turn adds quantum × weight to it, and the channel sends while its counter is
//! above zero. One thing differs: a counter may fall below zero by less than a packet, which the
//! next turns pay back, so that no packet is cut short to fit a counter. Therefore a channel that
//! runs out of data keeps its place and its counter until its turn. Otherwise it would drop its
//! debt, and running out of data would give it more than the share of its weight. A positive
//! counter is lost at that turn, as in the paper.
//!
//! A packet scheduler that plans whole blocks has an order of its own, which has no turns. It sorts
//! the blocks between which it has no preference by their rank, which is the start tag of
//! start-time fair queueing (Goyal et al., SIGCOMM 1996, §2): the later of the virtual time and the
//! finish tag of the previous block on the channel, which is that block's start tag plus its bytes
//! / weight. The virtual time is the start tag of the latest block whose data was sent. Blocks with
//! and without a deadline, and of each priority, have separate tags, and a block of a higher
//! priority has the lower rank whatever its tag.

use std::collections::BTreeMap;

use crate::{BlockMeta, BuildError, Entry, MAX_WEIGHT, OptionSpec, Options, StreamScheduler, Turn, Waiting};

/// Smallest quantum in bytes: a smaller one only adds turns.
const MIN_QUANTUM: u32 = 64;

/// Largest quantum in bytes.
const MAX_QUANTUM: u32 = 1 << 20;

/// Smallest remainder in bytes that a turn is cut to, about a packet.
const PACKET: u32 = 1200;

/// Bits of the tag in a rank; the priority is above them.
const TAG_BITS: u32 = 56;

pub(crate) const ENTRY: Entry = Entry {
    name: "wrr",
    summary: "the channels in turn, bytes in proportion to their weights",
    source: "MAppLE (NineTails, §III); deficit round robin, Shreedhar & Varghese, SIGCOMM 1995",
    options: &[OptionSpec {
        name: "quantum",
        default: "1200",
        help: "bytes per turn of a channel of weight 1, 64 to 1048576",
    }],
    signal: false,
};

pub(crate) fn build(options: &mut Options) -> Result<Box<dyn StreamScheduler>, BuildError> {
    let quantum = options.take_in("quantum", PACKET, MIN_QUANTUM..=MAX_QUANTUM)?;
    Ok(Box::new(WeightedRoundRobin::new(quantum)))
}

/// Serves channels in turn, bytes in proportion to their weights.
#[derive(Debug)]
pub struct WeightedRoundRobin {
    /// Bytes of a turn of a channel of weight 1.
    quantum: i64,
    /// Weights other than 1.
    weights: BTreeMap<u16, u16>,
    channels: BTreeMap<u16, Channel>,
    /// Channels by their place in line. The first one has new data and a deficit above zero.
    line: BTreeMap<u64, u16>,
    last_turn: u64,
    /// Tags by class: with or without a deadline, and priority.
    tags: BTreeMap<(bool, u8), Tags>,
}

/// A channel with new data, or one without that may owe bytes.
#[derive(Debug)]
struct Channel {
    /// Place in line.
    turn: u64,
    /// Bytes that it may still send in its turn.
    deficit: i64,
    has_data: bool,
}

/// Tags of a class, in units of 1/256 byte of weight 1.
#[derive(Debug, Default)]
struct Tags {
    /// Virtual time.
    now: u64,
    /// Finish tag of the latest block of each channel.
    finish: BTreeMap<u16, u64>,
}

impl Default for WeightedRoundRobin {
    /// Uses turns of one packet of 1200 bytes.
    fn default() -> Self {
        Self::new(PACKET)
    }
}

impl WeightedRoundRobin {
    /// Creates a scheduler in which a channel of weight 1 sends `quantum` bytes in a turn, at least
    /// 64.
    pub fn new(quantum: u32) -> Self {
        Self {
            quantum: quantum.max(MIN_QUANTUM).into(),
            weights: BTreeMap::new(),
            channels: BTreeMap::new(),
            line: BTreeMap::new(),
            last_turn: 0,
            tags: BTreeMap::new(),
        }
    }

    fn weight(&self, channel: u16) -> u16 {
        self.weights.get(&channel).copied().unwrap_or(1)
    }

    fn share(&self, channel: u16) -> i64 {
        self.quantum * i64::from(self.weight(channel))
    }

    /// Ends turns until the first channel in line may send. Each ended turn was paid for by bytes
    /// sent before. A channel without debt and new data leaves the line.
    fn settle(&mut self) {
        while let Some((&turn, &channel)) = self.line.first_key_value() {
            let share = self.share(channel);
            let may_send = |entry: &Channel| entry.deficit > 0 && entry.has_data;
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
}

fn class(block: &BlockMeta) -> (bool, u8) {
    (block.deadline.is_some(), block.priority)
}

impl StreamScheduler for WeightedRoundRobin {
    fn next(&self, _: &Waiting<'_>) -> Option<Turn> {
        let (_, &channel) = self.line.first_key_value()?;
        let left = u32::try_from(self.channels.get(&channel)?.deficit).unwrap_or(u32::MAX);
        Some(Turn { channel, bytes: left.max(PACKET) })
    }

    fn on_waiting(&mut self, channel: u16) {
        let share = self.share(channel);
        let (line, last_turn) = (&mut self.line, &mut self.last_turn);
        let entry = self.channels.entry(channel).or_insert_with(|| {
            *last_turn += 1;
            line.insert(*last_turn, channel);
            Channel { turn: *last_turn, deficit: share, has_data: true }
        });
        entry.has_data = true;
    }

    fn on_empty(&mut self, channel: u16) {
        if let Some(entry) = self.channels.get_mut(&channel) {
            entry.has_data = false;
            self.settle();
        }
    }

    fn on_sent(&mut self, block: &BlockMeta, rank: u64, bytes: i64) {
        if let Some(tags) = self.tags.get_mut(&class(block)).filter(|_| bytes > 0) {
            tags.now = tags.now.max(rank & ((1 << TAG_BITS) - 1));
        }
        if let Some(entry) = self.channels.get_mut(&block.channel) {
            entry.deficit -= bytes;
            self.settle();
        }
    }

    fn set_weight(&mut self, channel: u16, weight: u16) {
        self.weights.insert(channel, weight.clamp(1, MAX_WEIGHT));
    }

    fn rank(&mut self, block: &BlockMeta, bytes: u32) -> u64 {
        let cost = u64::from(bytes.max(1)) * u64::from(MAX_WEIGHT) / u64::from(self.weight(block.channel));
        let tags = self.tags.entry(class(block)).or_default();
        let finish = tags.finish.entry(block.channel).or_default();
        let start = tags.now.max(*finish);
        *finish = start + cost;
        // The tags suffice for 2^48 bytes of weight 1.
        u64::from(block.priority) << TAG_BITS | start.min((1 << TAG_BITS) - 1)
    }
}
