//! A flow: blocks of one kind of [traffic](crate::traffic), in one direction, on channels of the session.

pub use squall_net::Direction;

use crate::traffic::Traffic;

/// `"down"` or `"up"`, as scenario files spell it.
pub(crate) fn word(direction: Direction) -> &'static str {
    match direction {
        Direction::Down => "down",
        Direction::Up => "up",
    }
}

/// The multiplexer of flows that name none.
pub(crate) const UNORDERED: &str = "unordered";

/// A flow of blocks, with all defaults filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct Flow {
    /// Unique name within the scenario.
    pub name: String,
    /// Which end sends.
    pub direction: Direction,
    /// Channel of the session that carries it, the first if it has several.
    pub channel: u32,
    /// How its blocks are spread over channels: a multiplexer with its options, as the registry takes it.
    pub multiplexer: String,
    /// Weight of its channels where channels take turns, 1 to 256.
    pub weight: u16,
    /// Time of the first block, in microseconds from the start of the run.
    pub start_us: u64,
    /// No block is offered at or after this time, in microseconds from the start of the run.
    pub end_us: u64,
    /// When the bytes of its blocks become available.
    pub production: Production,
    /// Whether the session learns which blocks its blocks need ([`Frame::needs`](crate::offer::Frame::needs)).
    pub dependencies: bool,
    /// Whether unreliable blocks that lose bytes are sent to their end and delivered in part.
    pub partial: bool,
    /// The blocks themselves.
    pub traffic: Traffic,
}

impl Flow {
    /// A flow that lasts from the start of the run to `end_us`, on channel 0, with all else as a scenario file has it
    /// by default.
    pub fn new(name: &str, direction: Direction, end_us: u64, traffic: Traffic) -> Self {
        Self {
            name: name.to_owned(),
            direction,
            channel: 0,
            multiplexer: UNORDERED.to_owned(),
            weight: 1,
            start_us: 0,
            end_us,
            production: Production::default(),
            dependencies: false,
            partial: false,
            traffic,
        }
    }
}

/// The time from the first byte of a block to its last, as of a picture behind its encoder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Production {
    /// In microseconds; 0 if all bytes are available at once.
    pub time_us: u64,
    /// Whether the session gets the bytes as they become available; else it gets the block with its last byte.
    pub growing: bool,
}

/// Bytes come in steps of this many microseconds.
const STEP_US: u64 = 1_000;

impl Production {
    /// The pieces of a block of `size` bytes that is begun at `at_us`: when each is available, and how many bytes it
    /// has. The first is available at once, the last when the time is over.
    pub fn pieces(self, at_us: u64, size: u64) -> impl Iterator<Item = (u64, u64)> {
        let steps = (self.time_us / STEP_US).max(1).min(size - 1).max(1);
        let count = if self.time_us == 0 || size < 2 { 1 } else { steps + 1 };
        let after = move |pieces: u64| size * pieces / count;
        (0..count).map(move |k| (at_us + self.time_us * k / steps, after(k + 1) - after(k)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_comes_in_steps_from_its_first_byte_to_its_last() {
        let production = Production { time_us: 5_000, growing: true };
        let pieces: Vec<_> = production.pieces(100, 603).collect();
        let expected = [(100, 100), (1_100, 101), (2_100, 100), (3_100, 101), (4_100, 100), (5_100, 101)];
        assert_eq!(pieces, expected);
        for size in 1..20 {
            let pieces: Vec<_> = production.pieces(0, size).collect();
            assert_eq!(pieces.iter().map(|piece| piece.1).sum::<u64>(), size);
            assert!(pieces.iter().all(|piece| piece.1 > 0), "{size}: {pieces:?}");
            assert!(size == 1 || pieces.last().expect("has one").0 == 5_000);
        }
        assert_eq!(Production::default().pieces(7, 9).collect::<Vec<_>>(), [(7, 9)]);
    }
}
