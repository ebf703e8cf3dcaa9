//! What `squall send` and `squall recv` say to each other: one message a block; `docs/transfer.md` is the description.
//!
//! The first byte of a block tells its kind. A session of a transfer begins with a [`Header`], to which the receiver
//! answers with [`Message::Go`]; then [`Message::Data`] blocks follow, then an [`End`]. All are
//! ordered on channel 0, and are told in this order. The receiver reports with [`Message::Taken`] what it has, and
//! answers with a [`Receipt`] once everything is written: only then has the sender succeeded.

use bytes::{BufMut as _, Bytes, BytesMut};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use squall_tunnel::status::printable;

/// Version of this format. A receiver refuses others.
pub(crate) const VERSION: u32 = 3;

/// Bytes of file in a [`Message::Data`] block: large enough to cost little, small enough to be written soon.
pub(crate) const DATA_BYTES: usize = 256 << 10;

/// Most bytes of a message that is not data.
const MAX_TEXT: usize = 4 << 10;

/// Longest name in bytes: what file systems allow.
pub(crate) const MAX_NAME: usize = 255;

/// Hexadecimal digits of a transfer's id.
const ID_DIGITS: usize = 32;

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
    /// Bytes of it, if known before.
    pub(crate) size: Option<u64>,
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
    /// Number of the block after it.
    pub(crate) next: u64,
    /// Bytes that the receiver has taken.
    pub(crate) bytes: u64,
}

/// What was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct End {
    /// Blocks of data.
    pub(crate) blocks: u64,
    /// Bytes of them.
    pub(crate) bytes: u64,
}

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Receipt {
    /// Blocks of data.
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

    fn header(name: &str) -> Header {
        let token = Some(Secret("a token for tests".into()));
        Header {
            version: VERSION,
            transfer: "0".repeat(32),
            from: 7,
            token,
            name: name.into(),
            size: Some(7),
        }
    }

    #[test]
    fn messages_are_read_as_they_were_written() {
        let messages = [
            Message::Header(header("a")),
            Message::Header(Header { size: None, token: None, ..header("a") }),
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
        assert_eq!(decode(&[b'H'; 5000]), MessageError::Long(5000));
        assert!(matches!(decode(b"E{}"), MessageError::Text(_)));
        let forged = r#"H{"version":3,"name":"a","size":"\u001b]0;\n"}"#;
        let MessageError::Text(words) = decode(forged.as_bytes()) else { panic!("is read") };
        assert!(!words.contains(char::is_control), "{words:?}");
        for name in ["", "a\nb", &"x".repeat(256)] {
            let header = Message::Header(Header { name: name.into(), ..header("a") });
            assert!(Message::decode(&header.encode()).is_err(), "{name:?}");
        }
        for transfer in ["", "0", &"g".repeat(32)] {
            let header = Message::Header(Header { transfer: transfer.into(), ..header("a") });
            assert!(Message::decode(&header.encode()).is_err(), "{transfer:?}");
        }
        assert!(!format!("{:?}", header("a")).contains("token for tests"));
    }

    proptest! {
        #[test]
        fn data_is_read_as_it_was_written(data: Vec<u8>) {
            let data = Message::Data(Bytes::from(data));
            prop_assert_eq!(Message::decode(&data.encode()), Ok(data));
        }

        #[test]
        fn any_block_is_read_or_refused(block: Vec<u8>) {
            let _ = Message::decode(&block.into());
        }
    }
}
