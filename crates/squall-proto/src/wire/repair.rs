//! REPAIR: parity of a block.

use squall_sched::{MAX_DATA_SYMBOLS, parity_symbols};

use super::{Data, TYPE_REPAIR, WireError, next};
use crate::varint;

/// Longest header of a REPAIR item in bytes, with every field at its largest: that of DATA without
/// the offset, with a length, flags, size and index of the symbol.
pub(crate) const MAX_REPAIR_HEADER: usize = super::MAX_DATA_HEADER - 4 + 2 + 2 + 2 + 2;

/// Largest symbol in bytes.
pub(crate) const MAX_SYMBOL: u32 = 2048;

/// Smallest symbol in bytes of a block of several.
const MIN_SYMBOL: u32 = 64;

/// Header of a REPAIR item; the payload is the symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    /// The block, whose length is final. The offset is 0.
    pub block: Data,
    /// Size of each symbol of the block in bytes.
    pub symbol_size: u32,
    /// Number of the parity symbol.
    pub index: u32,
}

impl Repair {
    /// Returns the encoded length of the item before the payload in bytes.
    pub fn header_len(&self) -> usize {
        let body = self.body_len();
        1 + varint::len(body as u64) + body - self.symbol_size as usize
    }

    fn body_len(&self) -> usize {
        let symbol = varint::len(self.symbol_size.into()) + varint::len(self.index.into());
        self.block.flags_len() + self.block.fields_len() + symbol + self.symbol_size as usize
    }

    /// Appends header and payload, which has the size of a symbol.
    pub(super) fn encode(&self, payload: &[u8], out: &mut Vec<u8>) {
        debug_assert_eq!(payload.len(), self.symbol_size as usize);
        varint::write(out, TYPE_REPAIR);
        varint::write(out, self.body_len() as u64);
        varint::write(out, self.block.flags());
        self.block.encode_fields(None, out);
        varint::write(out, self.symbol_size.into());
        varint::write(out, self.index.into());
        out.extend_from_slice(payload);
    }

    pub(super) fn decode<'a>(input: &mut &'a [u8]) -> Result<(Self, &'a [u8]), WireError> {
        let flags = next(input)?;
        let (block, _) = Data::decode_fields(flags, false, input)?;
        let (size, index) = (next(input)?, next(input)?);
        let total = block.total.ok_or(WireError::Empty)?;
        let bad = WireError::BadSymbol { index, size, total };
        let fits = |size: &u32| {
            let symbols = total.div_ceil(*size);
            let least = if symbols > 1 { MIN_SYMBOL } else { 2 };
            size.is_multiple_of(2)
                && (least..=total.next_multiple_of(2).min(MAX_SYMBOL)).contains(size)
                && symbols <= MAX_DATA_SYMBOLS
                && index < u64::from(parity_symbols(symbols))
        };
        let symbol_size = u32::try_from(size).ok().filter(|size| *size > 0).filter(fits).ok_or(bad)?;
        let payload = input.split_off(..symbol_size as usize).ok_or(WireError::Truncated)?;
        Ok((Self { block, symbol_size, index: index as u32 }, payload))
    }
}
