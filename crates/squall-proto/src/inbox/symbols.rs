//! Symbols of parity that wait for enough of a block.

/// Parity symbols of a block.
#[derive(Debug)]
pub(super) struct Held {
    /// Size of each in bytes.
    pub(super) symbol_size: u32,
    /// Numbers in the order of arrival.
    pub(super) numbers: Vec<u16>,
    /// Bytes in the same order.
    pub(super) bytes: Vec<u8>,
}

impl Held {
    pub(super) fn new(symbol_size: u32) -> Self {
        Self { symbol_size, numbers: Vec::new(), bytes: Vec::new() }
    }

    pub(super) fn push(&mut self, number: u16, symbol: &[u8]) {
        if self.bytes.capacity() < self.bytes.len() + symbol.len() {
            self.bytes.reserve_exact(symbol.len().max(self.bytes.len() / 4));
        }
        self.bytes.extend_from_slice(symbol);
        self.numbers.push(number);
    }

    pub(super) fn symbols(&self) -> impl Iterator<Item = (u32, &[u8])> {
        let numbers = self.numbers.iter().map(|number| u32::from(*number));
        numbers.zip(self.bytes.chunks(self.symbol_size as usize))
    }
}
