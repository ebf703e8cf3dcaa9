//! Messages between `squall send` and `squall recv`, one per block; `docs/transfer.md` describes
//! them.
//!
//! The first byte of a block is its kind. Each session of a transfer begins with a [`Header`],
//! which the receiver answers with [`Message::Go`]; [`Message::Data`] and [`Message::End`] follow.
//! All are ordered, on channel 0. The receiver acknowledges data with [`Message::Taken`], and
//! answers with [`Message::Receipt`] once everything is written: only then has the sender
//! succeeded.

use bytes::{BufMut as _, Bytes, BytesMut};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use squall_observe::status::printable;
use squall_units::format::is_hidden;

/// Version of this format. A receiver refuses others.
pub(crate) const VERSION: u32 = 3;

/// Maximum bytes of a file in a [`Message::Data`] block.
pub(crate) const DATA_BYTES: usize = 256 << 10;

/// Maximum length of a message other than data.
const MAX_TEXT: usize = 4 << 10;

/// Maximum length of a name in bytes, as in file systems.
pub(crate) const MAX_NAME: usize = 255;

/// Length of a transfer's id in hexadecimal digits.
const ID_DIGITS: usize = 32;

/// One block of a transfer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Message {
    /// Describes the transfer; the first message of each session.
    Header(Header),
    /// Lets the sender begin at this position.
    Go(Position),
    /// Acknowledges everything before this position.
    Taken(Position),
    /// The next bytes of a file. Empty while the sender waits for its own input.
    Data(Bytes),
    /// Ends the data; the last message of the sender.
    End(Total),
    /// Confirms that everything is written; the last message of the receiver.
    Receipt(Total),
}

/// Description of a transfer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Header {
    /// [`VERSION`] of the sender.
    pub(crate) version: u32,
    /// Id of the transfer: random hexadecimal digits.
    #[serde(default)]
    pub(crate) transfer: String,
    /// Number of the first block that the sender still has.
    #[serde(default)]
    pub(crate) from: u64,
    /// Token of the sender.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<Secret>,
    /// Name of the file, without folders.
    pub(crate) name: String,
    /// Size of the file, if known.
    pub(crate) size: Option<u64>,
}

/// A text whose `Debug` output does not reveal it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Secret(pub(crate) String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// A position between two blocks of a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Position {
    /// Number of the next block.
    pub(crate) next: u64,
    /// Bytes before it.
    pub(crate) bytes: u64,
}

/// A number of blocks of data, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Total {
    pub(crate) blocks: u64,
    pub(crate) bytes: u64,
}

/// Reason why a block is not a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MessageError {
    /// Its kind is unknown.
    #[error("a block of unknown kind {0:?}")]
    UnknownKind(u8),
    /// It is too short.
    #[error("a block of {0} bytes, which is too short")]
    Short(usize),
    /// It is too long for its kind.
    #[error("a block of {0} bytes, which is too long for its kind")]
    Long(usize),
    /// Its JSON is invalid.
    #[error("a block that cannot be read: {0}")]
    Text(String),
    /// A field is out of range.
    #[error("a block with {0}")]
    Field(&'static str),
}

impl Message {
    /// Encodes the message as a block.
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

    /// Decodes a block.
    pub(crate) fn decode(block: &Bytes) -> Result<Self, MessageError> {
        let Some(&kind) = block.first() else { return Err(MessageError::Short(0)) };
        match kind {
            b'H' => {
                let mut header: Header = parse(block)?;
                header.check()?;
                header.name = plain_name(&header.name);
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
        // Another version may have other rules.
        if self.version != VERSION {
            return Ok(());
        }
        if self.transfer.len() != ID_DIGITS || !self.transfer.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(MessageError::Field("an invalid id"));
        }
        let named = !self.name.is_empty() && self.name.len() <= MAX_NAME;
        if !named || self.name.chars().any(char::is_control) {
            return Err(MessageError::Field("an invalid name"));
        }
        Ok(())
    }
}

/// Replaces hidden characters, and a hyphen at the start, by `_`, so that a name cannot look like
/// another one or like an option of a command.
pub(crate) fn plain_name(name: &str) -> String {
    if name.trim().is_empty() {
        return "unnamed".to_owned();
    }
    let plain = |(at, letter)| if is_hidden(letter) || (at, letter) == (0, '-') { '_' } else { letter };
    let mut name: String = name.chars().enumerate().map(plain).collect();
    while name.len() > MAX_NAME {
        name.pop();
    }
    name
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

/// Fuzz target; see `fuzz/README.md`.
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz {
    use super::{Bytes, Message};

    /// Decodes arbitrary bytes as a block: a valid message must survive encoding and decoding.
    pub(crate) fn transfer(input: &[u8]) {
        match Message::decode(&Bytes::copy_from_slice(input)) {
            Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
            Ok(message) => assert_eq!(Message::decode(&message.encode()), Ok(message)),
        }
    }

    #[test]
    fn corpus() {
        squall_testkit::replay("transfer", transfer);
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
            Message::End(Total { blocks: 3, bytes: u64::MAX }),
            Message::Receipt(Total { blocks: 3, bytes: 9 }),
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
        for (name, plain) in
            [("-rf", "_rf"), (" ", "unnamed"), ("a\u{202e}gpj.exe", "a_gpj.exe"), ("\u{ad}", "_")]
        {
            let block = Message::Header(header(name)).encode();
            let Ok(Message::Header(read)) = Message::decode(&block) else { panic!("{name:?} is refused") };
            assert_eq!(read.name, plain);
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
