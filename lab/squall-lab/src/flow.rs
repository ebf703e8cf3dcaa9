//! A flow: blocks of one kind of [traffic](crate::traffic), in one direction, on channels of the
//! session.

pub use squall_net::Direction;

use crate::traffic::Traffic;

/// `"down"` or `"up"`, as scenario files spell it.
pub(crate) fn word(direction: Direction) -> &'static str {
    match direction {
        Direction::Down => "down",
        Direction::Up => "up",
    }
}

/// Default multiplexer of flows.
pub(crate) const UNORDERED: &str = "unordered";

/// A flow of blocks, with all defaults filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct Flow {
    /// Unique name within the scenario.
    pub name: String,
    /// Direction of the blocks.
    pub direction: Direction,
    /// Channel of the session; the first one if there are several.
    pub channel: u32,
    /// Multiplexer with its options, as for the registry. It distributes the blocks over channels.
    pub multiplexer: String,
    /// Weight of the channels under weighted scheduling, 1 to 256.
    pub weight: u16,
    /// Time of the first block, in microseconds from the start of the run.
    pub start_us: u64,
    /// End of the offers (exclusive), in microseconds from the start of the run.
    pub end_us: u64,
    /// Way in which the bytes of the blocks become available.
    pub production: Production,
    /// The session receives the dependencies of blocks
    /// ([`Frame::needs`](crate::offer::Frame::needs)).
    pub dependencies: bool,
    /// Unreliable blocks with losses are sent to their end and delivered in part.
    pub partial: bool,
    /// Kind of traffic.
    pub traffic: Traffic,
}

impl Flow {
    /// Creates a flow that lasts from the start of the run to `end_us`, on channel 0, with the
    /// defaults of scenario files for everything else.
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

/// Availability of a block's bytes over time, as for a picture that is being encoded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Production {
    /// Time from the first to the last byte in microseconds; 0 if all bytes are available at once.
    pub time_us: u64,
    /// The session gets the bytes as they become available; otherwise it gets the block with its
    /// last byte.
    pub growing: bool,
}

/// Interval in microseconds at which bytes become available.
const STEP_US: u64 = 1_000;

impl Production {
    /// Divides a block of `size` bytes that begins at `at_us` into pieces, each with its time and
    /// number of bytes. The first is available at once, the last at the end of the time.
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
