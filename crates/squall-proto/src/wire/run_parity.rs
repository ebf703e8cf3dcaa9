//! RUN_PARITY: parity over a run of small blocks.

use squall_sched::{MAX_RUN, parity_symbols};

use super::{
    Data, MAX_SYMBOL, Stamp, TYPE_RUN_PARITY, WireError, data::decode_left, data::encode_left, next,
    read_u24, write_u24,
};
use crate::varint;

/// A small block of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Id of the block.
    pub block: u64,
    /// Time left, as in [`Data::left`].
    pub left: Option<u64>,
}

impl Member {
    /// Returns the data symbol of a block in a run, without its padding: its header as in REPAIR,
    /// without the fields that differ from packet to packet, and its bytes.
    pub fn write(block: &Data, payload: &[u8]) -> Vec<u8> {
        let block = Data { offset: 0, left: None, sent: Stamp(0), ..block.clone() };
        let mut symbol = Vec::with_capacity(block.flags_len() + block.fields_len() + payload.len());
        varint::write(&mut symbol, block.flags());
        block.encode_fields(None, &mut symbol);
        symbol.extend_from_slice(payload);
        symbol
    }

    /// Parses a data symbol into its block and bytes; `None` if it contains none.
    pub(crate) fn read(mut symbol: &[u8]) -> Option<(Data, &[u8])> {
        let flags = next(&mut symbol).ok()?;
        let (block, _) = Data::decode_fields(flags, false, &mut symbol).ok()?;
        let payload = symbol.get(..block.total? as usize)?;
        Some((block, payload))
    }
}

/// Header of a RUN_PARITY item; the payload is the symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunParity {
    /// The blocks of the run, 1 to [`MAX_RUN`], by ascending id.
    pub members: Vec<Member>,
    /// Time at which it was sent.
    pub sent: Stamp,
    /// Size of a symbol in bytes.
    pub symbol_size: u32,
    /// Number of the parity symbol.
    pub index: u32,
}

impl RunParity {
    /// Returns the encoded length of the item in bytes.
    pub fn encoded_len(&self) -> usize {
        let body = self.body_len();
        1 + varint::len(body as u64) + body
    }

    fn body_len(&self) -> usize {
        let members: usize = self.fields().map(varint::len).sum();
        let [count, size, index] = self.numbers().map(varint::len);
        3 + count + size + index + members + self.symbol_size as usize
    }

    fn numbers(&self) -> [u64; 3] {
        [self.members.len() as u64, self.symbol_size.into(), self.index.into()]
    }

    /// Returns for each member the distance of its id from the smallest possible one, and its time
    /// left.
    fn fields(&self) -> impl Iterator<Item = u64> {
        let least = std::iter::once(0).chain(self.members.iter().map(|member| member.block + 1));
        let fields = least.zip(&self.members);
        fields.flat_map(|(least, member)| [member.block - least, encode_left(member.left)])
    }

    /// Appends header and payload, which has the size of a symbol.
    pub(super) fn encode(&self, payload: &[u8], out: &mut Vec<u8>) {
        debug_assert_eq!(payload.len(), self.symbol_size as usize);
        varint::write(out, TYPE_RUN_PARITY);
        varint::write(out, self.body_len() as u64);
        write_u24(out, self.sent.0);
        self.numbers().into_iter().chain(self.fields()).for_each(|field| varint::write(out, field));
        out.extend_from_slice(payload);
    }

    pub(super) fn decode<'a>(input: &mut &'a [u8]) -> Result<(Self, &'a [u8]), WireError> {
        let sent = Stamp(read_u24(input)?);
        let (blocks, size, index) = (next(input)?, next(input)?, next(input)?);
        let fits = (1..=MAX_RUN as u64).contains(&blocks)
            && (2..=u64::from(MAX_SYMBOL)).contains(&size)
            && size.is_multiple_of(2)
            && index < u64::from(parity_symbols(blocks as u32));
        if !fits {
            return Err(WireError::BadRun { blocks, size, index });
        }
        let mut members: Vec<Member> = Vec::with_capacity(blocks as usize);
        for _ in 0..blocks {
            let least = members.last().map_or(0, |member| member.block + 1);
            let block = least + next(input)?;
            if block > varint::MAX {
                return Err(WireError::BadRun { blocks, size, index });
            }
            members.push(Member { block, left: decode_left(next(input)?) });
        }
        let (symbol_size, index) = (size as u32, index as u32);
        let payload = input.split_off(..symbol_size as usize).ok_or(WireError::Truncated)?;
        Ok((Self { members, sent, symbol_size, index }, payload))
    }
}
