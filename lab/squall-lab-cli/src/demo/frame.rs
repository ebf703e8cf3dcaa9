//! A frame as the demo's sessions carry it: one block.

use bytes::{BufMut as _, Bytes, BytesMut};
use squall_media::{EncodedFrame, FrameKind};

/// Bytes before the data: kind, index, time of capture.
const HEADER: usize = 17;

/// The block of a frame.
pub(super) fn encode(frame: &EncodedFrame) -> Bytes {
    let mut block = BytesMut::with_capacity(HEADER + frame.data.len());
    block.put_u8(match frame.kind {
        FrameKind::Key => 0,
        FrameKind::Delta => 1,
        FrameKind::Disposable => 2,
    });
    block.put_u64(frame.index);
    block.put_u64(frame.pts_us);
    block.extend_from_slice(&frame.data);
    block.freeze()
}

/// The frame of a block; `None` if the block is no frame.
pub(super) fn decode(block: &Bytes) -> Option<EncodedFrame> {
    let number = |at: usize| Some(u64::from_be_bytes(block.get(at..at + 8)?.try_into().ok()?));
    let kind = match block.first()? {
        0 => FrameKind::Key,
        1 => FrameKind::Delta,
        2 => FrameKind::Disposable,
        _ => return None,
    };
    Some(EncodedFrame { index: number(1)?, pts_us: number(9)?, kind, data: block.slice(HEADER..) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_were_written() {
        for (index, kind) in [FrameKind::Key, FrameKind::Delta, FrameKind::Disposable].into_iter().enumerate()
        {
            let frame = EncodedFrame { index: index as u64, pts_us: 7, kind, data: "a picture".into() };
            let block = encode(&frame);
            assert_eq!(decode(&block), Some(frame));
            assert_eq!(decode(&block.slice(..HEADER - 1)), None);
        }
        assert_eq!(decode(&Bytes::from_static(&[3; HEADER])), None);
    }
}
