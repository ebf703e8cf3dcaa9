//! What `squall send` and `squall recv` say to each other: one message a block; `docs/transfer.md` is the description.
//!
//! The first byte of a block tells its kind. A session of a transfer begins with a [`Header`], to which the receiver
//! answers with [`Message::Go`]; then [`Message::Data`] or [`Message::Frame`] blocks follow, then an [`End`]. All are
//! ordered on channel 0, and are told in this order. The receiver reports with [`Message::Taken`] what it has, and
//! answers with a [`Receipt`] once everything is written: only then has the sender succeeded.

use bytes::{BufMut as _, Bytes, BytesMut};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use squall_media::{EncodedFrame, FrameKind, frame::MAX_FRAME_BYTES, ivf::IvfHeader, source::Codec};
use squall_tunnel::status::printable;

/// Version of this format. A receiver refuses others.
pub(crate) const VERSION: u32 = 2;

/// Bytes of file in a [`Message::Data`] block: large enough to cost little, small enough to be written soon.
pub(crate) const DATA_BYTES: usize = 256 << 10;

/// Most bytes of a message that is not data.
const MAX_TEXT: usize = 4 << 10;

/// Longest name in bytes: what file systems allow.
pub(crate) const MAX_NAME: usize = 255;

/// Hexadecimal digits of a transfer's id.
const ID_DIGITS: usize = 32;

/// Bytes before the data of a frame: kind of message, kind of frame, index, time.
const FRAME_HEADER: usize = 18;

/// One block of a transfer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Message {
    /// What is about to come; the first message of each session.
    Header(Header),
    /// The sender may send, from this position on.
    Go(Position),
    /// The receiver has taken everything before this position.
    Taken(Position),
    /// The next bytes of a file. No bytes: the sender waits for its own input.
    Data(Bytes),
    /// The next frame of a video.
    Frame(EncodedFrame),
    /// Everything was sent; the last message of the sender.
    End(End),
    /// Everything was written; the last message of the receiver.
    Receipt(Receipt),
}

/// What is about to come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Header {
    /// [`VERSION`] of the sender.
    pub(crate) version: u32,
    /// The same in all sessions of a transfer, and in no other transfer: random hexadecimal digits.
    #[serde(default)]
    pub(crate) transfer: String,
    /// The first block that the sender can still send.
    #[serde(default)]
    pub(crate) from: u64,
    /// The secret that the receiver asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<Secret>,
    /// Name of the file, without folders.
    pub(crate) name: String,
    /// What it is.
    pub(crate) content: Content,
}

/// Text that shows nothing of itself in logs.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Secret(pub(crate) String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// A place between two blocks of a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Position {
    /// Number of the block after it: blocks of data are counted, frames have their index.
    pub(crate) next: u64,
    /// Bytes of data or frames that the receiver has taken.
    pub(crate) bytes: u64,
}

/// What a transfer carries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Content {
    /// Bytes as they are.
    File {
        /// How many, if known before.
        size: Option<u64>,
    },
    /// Video, frame by frame.
    Video(Video),
}

impl Content {
    /// In a word.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::File { .. } => "file",
            Self::Video(_) => "video",
        }
    }
}

/// A video that is sent frame by frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Video {
    /// Compression of the frames.
    pub(crate) codec: Codec,
    /// Frames per second.
    pub(crate) fps: f64,
    /// Deadline of a frame in microseconds after its capture, if there is one.
    pub(crate) deadline_us: Option<u64>,
    /// Header of the IVF file that the frames came from.
    pub(crate) ivf: Option<IvfHeader>,
}

/// What was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct End {
    /// Frames, or blocks of data.
    pub(crate) blocks: u64,
    /// Bytes of them.
    pub(crate) bytes: u64,
}

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Receipt {
    /// Frames, or blocks of data.
    pub(crate) blocks: u64,
    /// Bytes of them.
    pub(crate) bytes: u64,
}

/// Why a block is no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MessageError {
    /// It begins with a byte that means nothing.
    #[error("a block of unknown kind {0:?}")]
    UnknownKind(u8),
    /// It is shorter than its kind allows.
    #[error("a block of {0} bytes, which is too short")]
    Short(usize),
    /// It is longer than its kind allows.
    #[error("a block of {0} bytes, which is too long for its kind")]
    Long(usize),
    /// Its text cannot be read.
    #[error("a block that cannot be read: {0}")]
    Text(String),
    /// A field is out of range.
    #[error("a block with {0}")]
    Field(&'static str),
}

impl Message {
    /// The block.
    pub(crate) fn encode(&self) -> Bytes {
        match self {
            Self::Header(header) => text(b'H', header),
            Self::Go(position) => text(b'G', position),
            Self::Taken(position) => text(b'T', position),
            Self::End(end) => text(b'E', end),
            Self::Receipt(receipt) => text(b'R', receipt),
            Self::Data(data) => {
                let mut block = BytesMut::with_capacity(1 + data.len());
                block.put_u8(b'D');
                block.extend_from_slice(data);
                block.freeze()
            }
            Self::Frame(frame) => encode_frame(frame),
        }
    }

    /// The message of a block.
    pub(crate) fn decode(block: &Bytes) -> Result<Self, MessageError> {
        let Some(&kind) = block.first() else { return Err(MessageError::Short(0)) };
        match kind {
            b'H' => {
                let header: Header = parse(block)?;
                header.check()?;
                Ok(Self::Header(header))
            }
            b'G' => parse(block).map(Self::Go),
            b'T' => parse(block).map(Self::Taken),
            b'E' => parse(block).map(Self::End),
            b'R' => parse(block).map(Self::Receipt),
            b'D' => Ok(Self::Data(block.slice(1..))),
            b'F' => decode_frame(block).map(Self::Frame),
            other => Err(MessageError::UnknownKind(other)),
        }
    }
}

impl Header {
    fn check(&self) -> Result<(), MessageError> {
        // What another version says is not for this one to judge.
        if self.version != VERSION {
            return Ok(());
        }
        if self.transfer.len() != ID_DIGITS || !self.transfer.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(MessageError::Field("an id that cannot be one"));
        }
        let named = !self.name.is_empty() && self.name.len() <= MAX_NAME;
        if !named || self.name.chars().any(char::is_control) {
            return Err(MessageError::Field("a name that cannot be one"));
        }
        if let Content::Video(video) = &self.content
            && !(0.1..=1000.0).contains(&video.fps)
        {
            return Err(MessageError::Field("an impossible frame rate"));
        }
        Ok(())
    }
}

fn text(kind: u8, value: &impl Serialize) -> Bytes {
    let mut block = vec![kind];
    serde_json::to_writer(&mut block, value).expect("plain structures are always JSON");
    block.into()
}

fn parse<T: DeserializeOwned>(block: &Bytes) -> Result<T, MessageError> {
    if block.len() > MAX_TEXT {
        return Err(MessageError::Long(block.len()));
    }
    serde_json::from_slice(&block[1..]).map_err(|error| MessageError::Text(printable(error.to_string())))
}

fn encode_frame(frame: &EncodedFrame) -> Bytes {
    let mut block = BytesMut::with_capacity(FRAME_HEADER + frame.data.len());
    block.put_u8(b'F');
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

fn decode_frame(block: &Bytes) -> Result<EncodedFrame, MessageError> {
    let (Some(index), Some(pts_us)) = (u64_at(block, 2), u64_at(block, 10)) else {
        return Err(MessageError::Short(block.len()));
    };
    if block.len() > FRAME_HEADER + MAX_FRAME_BYTES {
        return Err(MessageError::Long(block.len()));
    }
    let kind = match block[1] {
        0 => FrameKind::Key,
        1 => FrameKind::Delta,
        2 => FrameKind::Disposable,
        _ => return Err(MessageError::Field("an unknown kind of frame")),
    };
    Ok(EncodedFrame { index, pts_us, kind, data: block.slice(FRAME_HEADER..) })
}

fn u64_at(block: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(block.get(at..at + 8)?.try_into().ok()?))
}

/// What the fuzz target checks. See `fuzz/README.md`.
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz {
    use super::{Bytes, Message};

    /// Any bytes as a block: what is read is written, and read again, the same.
    pub(crate) fn transfer(input: &[u8]) {
        match Message::decode(&Bytes::copy_from_slice(input)) {
            Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
            Ok(message) => assert_eq!(Message::decode(&message.encode()), Ok(message)),
        }
    }

    #[test]
    fn corpus() {
        squall_testing::replay("transfer", transfer);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn video() -> Header {
        let video = Video { codec: Codec::H264, fps: 29.97, deadline_us: Some(150_000), ivf: None };
        header("a.h264", Content::Video(video))
    }

    fn header(name: &str, content: Content) -> Header {
        let token = Some(Secret("a token for tests".into()));
        Header { version: VERSION, transfer: "0".repeat(32), from: 7, token, name: name.into(), content }
    }

    #[test]
    fn messages_are_read_as_they_were_written() {
        let file = header("a", Content::File { size: Some(7) });
        let messages = [
            Message::Header(video()),
            Message::Header(file),
            Message::Go(Position { next: 3, bytes: 9 }),
            Message::Taken(Position { next: 3, bytes: 9 }),
            Message::End(End { blocks: 3, bytes: u64::MAX }),
            Message::Receipt(Receipt { blocks: 3, bytes: 9 }),
        ];
        for message in messages {
            assert_eq!(Message::decode(&message.encode()), Ok(message));
        }
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let decode = |block: &[u8]| Message::decode(&Bytes::copy_from_slice(block)).unwrap_err();
        assert_eq!(decode(b""), MessageError::Short(0));
        assert_eq!(decode(b"x"), MessageError::UnknownKind(b'x'));
        assert_eq!(decode(b"F\x00short"), MessageError::Short(7));
        assert_eq!(decode(&[b'F'; 18]), MessageError::Field("an unknown kind of frame"));
        assert_eq!(decode(&[b'H'; 5000]), MessageError::Long(5000));
        assert!(matches!(decode(b"E{}"), MessageError::Text(_)));
        let forged = r#"H{"version":2,"name":"a","content":{"kind":"\u001b]0;\n"}}"#;
        let MessageError::Text(words) = decode(forged.as_bytes()) else { panic!("is read") };
        assert!(!words.contains(char::is_control), "{words:?}");
        for name in ["", "a\nb", &"x".repeat(256)] {
            let header = Message::Header(Header { name: name.into(), ..video() });
            assert!(Message::decode(&header.encode()).is_err(), "{name:?}");
        }
        for transfer in ["", "0", &"g".repeat(32)] {
            let header = Message::Header(Header { transfer: transfer.into(), ..video() });
            assert!(Message::decode(&header.encode()).is_err(), "{transfer:?}");
        }
        assert!(!format!("{:?}", video()).contains("token for tests"));
    }

    proptest! {
        #[test]
        fn frames_and_data_are_read_as_they_were_written(
            index: u64,
            pts_us: u64,
            kind in prop_oneof![Just(FrameKind::Key), Just(FrameKind::Delta), Just(FrameKind::Disposable)],
            data: Vec<u8>,
        ) {
            let data = Bytes::from(data);
            let frame = Message::Frame(EncodedFrame { index, pts_us, kind, data: data.clone() });
            prop_assert_eq!(Message::decode(&frame.encode()), Ok(frame));
            let data = Message::Data(data);
            prop_assert_eq!(Message::decode(&data.encode()), Ok(data));
        }

        #[test]
        fn any_block_is_read_or_refused(block: Vec<u8>) {
            let _ = Message::decode(&block.into());
        }
    }
}
