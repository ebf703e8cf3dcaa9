//! Parity of a block: symbols that replace lost ones of its data.
//!
//! The bytes of a block are cut into data symbols of one size, the last padded with zeros. A
//! systematic Reed-Solomon code over them gives parity symbols: any set of either kind that is as
//! large as the number of data symbols rebuilds the block. A parity symbol is one packet. Data
//! leaves in chunks that end where a symbol ends, so that a lost packet costs one symbol.

use std::ops::Range;

/// Largest number of data symbols of a block with parity, which bounds the cost of decoding. Longer
/// blocks have no parity.
pub const MAX_DATA_SYMBOLS: u32 = 1024;

/// Returns the number of parity symbols of a block with `data` data symbols: the least power of two
/// that is at least 8 and at least a quarter of `data`. The code depends on both numbers, so both
/// sides must use the same.
pub const fn parity_symbols(data: u32) -> u32 {
    let quarter = data.div_ceil(4);
    let least = if quarter > 8 { quarter } else { 8 };
    least.next_power_of_two()
}

/// Returns the symbol size of a block in bytes, an even number: the fewest symbols that fit `most`,
/// all of about equal size.
fn balanced(len: u32, most: u32) -> u32 {
    len.div_ceil(len.div_ceil(most).max(1)).next_multiple_of(2)
}

/// The fate of parity symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParityFate {
    /// Acknowledged by the peer.
    Acked,
    /// Lost.
    Lost,
    /// Taken back before they left.
    Unsent,
}

/// The parity of a block.
///
/// A symbol is sent at most once: any symbol that was never sent is worth as much as a lost one.
#[derive(Clone, Debug)]
pub struct Parity {
    symbol_size: u32,
    data_symbols: u32,
    /// States of the first symbols; the others were never sent.
    states: Vec<State>,
    in_flight: u32,
    acked: u32,
    lost: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unsent,
    Sent,
    Lost,
    Acked,
}

impl Parity {
    /// Creates the parity of a block of final length, with symbols of at most `most` bytes; `None`
    /// above [`MAX_DATA_SYMBOLS`]. With `balance` the symbols are about equal, otherwise all but
    /// the last have the largest size.
    pub(crate) fn of(len: u32, most: u32, balance: bool) -> Option<Self> {
        let most = most & !1;
        if len == 0 || most == 0 {
            return None;
        }
        let symbol_size = if balance { balanced(len, most) } else { most.min(len.next_multiple_of(2)) };
        let data_symbols = len.div_ceil(symbol_size);
        let states = Vec::new();
        let parity = Self { symbol_size, data_symbols, states, in_flight: 0, acked: 0, lost: 0 };
        (data_symbols <= MAX_DATA_SYMBOLS).then_some(parity)
    }

    /// Returns the size of a symbol in bytes, an even number.
    pub fn symbol_size(&self) -> u32 {
        self.symbol_size
    }

    /// Returns the number of data symbols of the block, 1 to [`MAX_DATA_SYMBOLS`].
    pub fn data_symbols(&self) -> u32 {
        self.data_symbols
    }

    /// Returns the number of parity symbols, sent or not.
    pub fn symbols(&self) -> u32 {
        parity_symbols(self.data_symbols)
    }

    /// Returns the number of symbols that were assigned to a path and have no fate yet.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Returns the number of symbols that the peer has acknowledged.
    pub fn acked(&self) -> u32 {
        self.acked
    }

    /// Returns the number of lost symbols. They are not sent again.
    pub fn lost(&self) -> u32 {
        self.lost
    }

    /// Returns the number of symbols that were assigned to a path and not taken back.
    pub fn sent(&self) -> u32 {
        self.in_flight + self.acked + self.lost
    }

    /// Returns the first range of symbols that were never sent; `None` if all were.
    pub fn next(&self) -> Option<Range<u32>> {
        let known = self.states.len() as u32;
        let Some(start) = self.states.iter().position(|state| *state == State::Unsent) else {
            return Some(known..self.symbols()).filter(|range| !range.is_empty());
        };
        let taken = self.states[start..].iter().position(|state| *state != State::Unsent);
        let start = start as u32;
        Some(start..taken.map_or(self.symbols(), |len| start + len as u32))
    }

    /// Returns the number of symbols that are newly in flight.
    pub(crate) fn mark_sent(&mut self, symbols: Range<u32>) -> u32 {
        let end = symbols.end.min(self.symbols());
        if self.states.len() < end as usize {
            self.states.resize(end as usize, State::Unsent);
        }
        let before = self.in_flight;
        self.change(symbols, |state| if state == State::Unsent { State::Sent } else { state });
        self.in_flight - before
    }

    pub(crate) fn mark_acked(&mut self, symbols: Range<u32>) {
        self.change(symbols, |state| if state == State::Unsent { state } else { State::Acked });
    }

    pub(crate) fn mark_lost(&mut self, symbols: Range<u32>) {
        self.change(symbols, |state| if state == State::Sent { State::Lost } else { state });
    }

    /// Returns the number of symbols that were taken back.
    pub(crate) fn mark_unsent(&mut self, symbols: Range<u32>) -> u32 {
        let before = self.in_flight;
        self.change(symbols, |state| if state == State::Sent { State::Unsent } else { state });
        before - self.in_flight
    }

    fn change(&mut self, symbols: Range<u32>, change: impl Fn(State) -> State) {
        let end = symbols.end.min(self.states.len() as u32);
        for index in symbols.start..end {
            let state = &mut self.states[index as usize];
            let before = *state;
            let after = change(before);
            *state = after;
            if let Some(count) = self.count(before) {
                *count -= 1;
            }
            if let Some(count) = self.count(after) {
                *count += 1;
            }
        }
    }

    fn count(&mut self, state: State) -> Option<&mut u32> {
        match state {
            State::Unsent => None,
            State::Sent => Some(&mut self.in_flight),
            State::Lost => Some(&mut self.lost),
            State::Acked => Some(&mut self.acked),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_symbols() {
        let numbers = [1, 32, 33, 64, 65, 105, 1024].map(parity_symbols);
        assert_eq!(numbers, [8, 8, 16, 16, 32, 32, 256]);
    }

    #[test]
    fn symbols_are_as_few_as_possible_and_equal() {
        for (len, size, count) in [
            (1, 2, 1),
            (999, 1000, 1),
            (1200, 1200, 1),
            (1201, 602, 2),
            (2400, 1200, 2),
            (2401, 802, 3),
            (125_000, 1192, 105),
            (1024 * 1200, 1200, 1024),
        ] {
            let parity = Parity::of(len, 1201, true).expect("has parity");
            assert_eq!((parity.symbol_size(), parity.data_symbols()), (size, count), "{len}");
        }
        assert!(Parity::of(1024 * 1200 + 1, 1200, true).is_none(), "a symbol too many");
        assert!(Parity::of(0, 1200, true).is_none() && Parity::of(5, 1, true).is_none());
        let grown = Parity::of(1201, 1200, false).expect("has parity");
        assert_eq!((grown.symbol_size(), grown.data_symbols()), (1200, 2));
        assert_eq!(Parity::of(5, 1200, false).expect("has parity").symbol_size(), 6);
    }

    #[test]
    fn a_symbol_is_sent_once_unless_it_never_left() {
        let mut parity = Parity::of(12_000, 1200, true).expect("has parity");
        assert_eq!((parity.symbols(), parity.next()), (8, Some(0..8)));
        assert_eq!(parity.mark_sent(0..3), 3);
        assert_eq!(parity.mark_sent(2..5), 2, "the third is on its way");
        assert_eq!(parity.next(), Some(5..8));
        assert_eq!(parity.mark_unsent(1..3), 2);
        assert_eq!((parity.next(), parity.in_flight()), (Some(1..3), 3));
        parity.mark_lost(0..1);
        parity.mark_acked(3..4);
        parity.mark_unsent(0..1);
        assert_eq!((parity.in_flight(), parity.lost(), parity.acked(), parity.sent()), (1, 1, 1, 3));
        parity.mark_acked(0..8);
        assert_eq!((parity.lost(), parity.acked()), (0, 3), "late, and what was never sent has not arrived");
        parity.mark_sent(0..100);
        assert_eq!((parity.next(), parity.in_flight(), parity.sent()), (None, 5, 8));
    }
}
