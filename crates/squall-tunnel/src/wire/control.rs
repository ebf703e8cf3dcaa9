//! Messages between the two ends on channel 0. All numbers are big-endian; `docs/tunnel.md` describes the protocol.

use std::time::Duration;

use squall_units::Span;

use crate::config::{MAX_FLOWS, MAX_NAME, MAX_REDIRECTS, MAX_TOKEN, is_host_and_port};

/// Version of the protocol.
pub(crate) const VERSION: u8 = 1;

/// Channel of these messages.
pub(crate) const CHANNEL: u16 = 0;

/// Timeout of the first message of the peer.
pub(crate) const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum length of a message in bytes.
pub(crate) const MAX_MESSAGE: usize = 16 << 10;

/// Feature bit of a peer that supports [`Message::Goaway`].
pub(crate) const GOAWAY: u8 = 1;

/// Feature bit of a peer that restores the null packets of transport streams.
pub(crate) const NULLS: u8 = 2;

/// First bytes of a session between tunnels.
const MAGIC: [u8; 4] = *b"SqTu";

/// A control message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// First message of each side. The token of an exit is empty. Earlier versions of this program
    /// send no features.
    Hello { version: u8, token: Vec<u8>, features: u8 },
    /// All flows that enter at this side. Flows of an earlier message that are missing have ended.
    Flows { generation: u32, flows: Vec<Offer> },
    /// Verdicts on the flows of the other side.
    Answer { generation: u32, verdicts: Vec<(u16, Verdict)> },
    /// The exit drains, and closes the session after this time. Names exits to use instead, or
    /// none.
    Goaway { left_ms: u32, exits: Vec<String> },
}

/// A flow that enters at the side that offers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Channel of its blocks, in both directions.
    pub(crate) channel: u16,
    pub(crate) latency: Span,
    pub(crate) name: String,
}

/// Answer to an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Accepted,
    /// No flow of that name leaves here.
    Unknown,
    /// Another session carries it.
    Taken,
    /// Reason of a later version.
    Other(u8),
}

impl Verdict {
    fn number(self) -> u8 {
        match self {
            Self::Accepted => 0,
            Self::Unknown => 1,
            Self::Taken => 2,
            Self::Other(number) => number,
        }
    }

    fn of(number: u8) -> Self {
        match number {
            0 => Self::Accepted,
            1 => Self::Unknown,
            2 => Self::Taken,
            other => Self::Other(other),
        }
    }

    /// Returns the words that continue a sentence about the peer.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Accepted => "accepts it",
            Self::Unknown => "has no out end of that name",
            Self::Taken => "accepts it from another tunnel",
            Self::Other(_) => "does not accept it, for a reason that this version does not know",
        }
    }
}

/// Reason why a block is not a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MessageError {
    #[error("the peer is not a squall tunnel")]
    NoTunnel,
    #[error("a message of a wrong length")]
    Length,
    #[error("unknown message {0}")]
    Kind(u8),
    #[error("more than {MAX_FLOWS} flows")]
    Flows,
    #[error("a flow name that is empty, too long or no text")]
    Name,
    #[error("channel {0} cannot carry a flow")]
    Channel(u16),
    #[error("more than {MAX_REDIRECTS} exits, or one that is not HOST:PORT")]
    Exits,
}

impl Message {
    /// Encodes the message as a block.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Hello { version, token, features } => {
                out.push(1);
                out.extend_from_slice(&MAGIC);
                out.push(*version);
                out.extend_from_slice(&(token.len() as u16).to_be_bytes());
                out.extend_from_slice(token);
                if *features != 0 {
                    out.push(*features);
                }
            }
            Self::Flows { generation, flows } => {
                out.push(2);
                out.extend_from_slice(&generation.to_be_bytes());
                out.push(flows.len() as u8);
                for flow in flows {
                    out.extend_from_slice(&flow.channel.to_be_bytes());
                    out.extend_from_slice(
                        &u32::try_from(flow.latency.micros()).unwrap_or(u32::MAX).to_be_bytes(),
                    );
                    out.push(flow.name.len() as u8);
                    out.extend_from_slice(flow.name.as_bytes());
                }
            }
            Self::Answer { generation, verdicts } => {
                out.push(3);
                out.extend_from_slice(&generation.to_be_bytes());
                out.push(verdicts.len() as u8);
                for (channel, verdict) in verdicts {
                    out.extend_from_slice(&channel.to_be_bytes());
                    out.push(verdict.number());
                }
            }
            Self::Goaway { left_ms, exits } => {
                out.push(4);
                out.extend_from_slice(&left_ms.to_be_bytes());
                out.push(exits.len() as u8);
                for exit in exits {
                    out.push(exit.len() as u8);
                    out.extend_from_slice(exit.as_bytes());
                }
            }
        }
        out
    }

    /// Decodes a block.
    pub(crate) fn decode(block: &[u8]) -> Result<Self, MessageError> {
        if block.len() > MAX_MESSAGE {
            return Err(MessageError::Length);
        }
        let mut input = Input(block);
        // Bytes after the known fields belong to later versions.
        match input.byte()? {
            1 => input.hello(),
            2 => input.flows(),
            3 => input.answer(),
            4 => input.goaway(),
            other => Err(MessageError::Kind(other)),
        }
    }
}

/// Remaining bytes of a message.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn hello(&mut self) -> Result<Message, MessageError> {
        if self.take::<4>() != Ok(MAGIC) {
            return Err(MessageError::NoTunnel);
        }
        let version = self.byte()?;
        let length = usize::from(u16::from_be_bytes(self.take()?));
        if length > MAX_TOKEN {
            return Err(MessageError::Length);
        }
        let token = self.bytes(length)?.to_vec();
        Ok(Message::Hello { version, token, features: self.byte().unwrap_or(0) })
    }

    fn flows(&mut self) -> Result<Message, MessageError> {
        let (generation, count) = self.list()?;
        let mut flows: Vec<Offer> = Vec::with_capacity(count);
        for _ in 0..count {
            let channel = self.channel()?;
            let latency = Span::from_micros(u32::from_be_bytes(self.take()?).into());
            let length = usize::from(self.byte()?);
            let name = std::str::from_utf8(self.bytes(length)?).map_err(|_| MessageError::Name)?;
            if name.is_empty() || name.len() > MAX_NAME || name.chars().any(char::is_control) {
                return Err(MessageError::Name);
            }
            if flows.iter().any(|other| other.channel == channel) {
                return Err(MessageError::Channel(channel));
            }
            flows.push(Offer { channel, latency, name: name.to_owned() });
        }
        Ok(Message::Flows { generation, flows })
    }

    fn answer(&mut self) -> Result<Message, MessageError> {
        let (generation, count) = self.list()?;
        let mut verdicts = Vec::with_capacity(count);
        for _ in 0..count {
            let channel = self.channel()?;
            verdicts.push((channel, Verdict::of(self.byte()?)));
        }
        Ok(Message::Answer { generation, verdicts })
    }

    fn goaway(&mut self) -> Result<Message, MessageError> {
        let (left_ms, count) = (u32::from_be_bytes(self.take()?), usize::from(self.byte()?));
        if count > MAX_REDIRECTS {
            return Err(MessageError::Exits);
        }
        let mut exits = Vec::with_capacity(count);
        for _ in 0..count {
            let length = usize::from(self.byte()?);
            let exit = std::str::from_utf8(self.bytes(length)?).ok().filter(|exit| is_host_and_port(exit));
            exits.push(exit.ok_or(MessageError::Exits)?.to_owned());
        }
        Ok(Message::Goaway { left_ms, exits })
    }

    fn list(&mut self) -> Result<(u32, usize), MessageError> {
        let (generation, count) = (u32::from_be_bytes(self.take()?), usize::from(self.byte()?));
        if count > MAX_FLOWS { Err(MessageError::Flows) } else { Ok((generation, count)) }
    }

    fn channel(&mut self) -> Result<u16, MessageError> {
        let channel = u16::from_be_bytes(self.take()?);
        if (1..1024).contains(&channel) { Ok(channel) } else { Err(MessageError::Channel(channel)) }
    }

    fn byte(&mut self) -> Result<u8, MessageError> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], MessageError> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(MessageError::Length)?;
        self.0 = rest;
        Ok(*head)
    }

    fn bytes(&mut self, length: usize) -> Result<&'a [u8], MessageError> {
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(MessageError::Length)?;
        self.0 = rest;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Test vectors of `tests/vectors/0.1.0.txt`, and for GOAWAY of `docs/tunnel.md`.
    #[test]
    fn messages_are_written_as_documented() {
        let cases = [
            (
                Message::Hello { version: 1, token: b"correct horse".to_vec(), features: 0 },
                "01 53715475 01 000d 636f727265637420686f727365",
            ),
            (
                Message::Hello { version: 1, token: b"correct horse".to_vec(), features: GOAWAY },
                "01 53715475 01 000d 636f727265637420686f727365 01",
            ),
            (Message::Hello { version: 1, token: Vec::new(), features: NULLS }, "01 53715475 01 0000 02"),
            (
                Message::Flows {
                    generation: 1,
                    flows: vec![Offer { channel: 2, latency: Span::from_millis(300), name: "cam".into() }],
                },
                "02 00000001 01 0002 000493e0 03 63616d",
            ),
            (
                Message::Answer {
                    generation: 1,
                    verdicts: vec![(2, Verdict::Accepted), (4, Verdict::Unknown)],
                },
                "03 00000001 02 0002 00 0004 01",
            ),
            (
                Message::Goaway { left_ms: 30_000, exits: vec!["b:4433".into()] },
                "04 00007530 01 06 623a34343333",
            ),
            (Message::Goaway { left_ms: 0, exits: Vec::new() }, "04 00000000 00"),
        ];
        for (message, wire) in cases {
            assert_eq!(hex(&message.encode()), wire.replace(' ', ""));
            assert_eq!(Message::decode(&message.encode()), Ok(message));
        }
    }

    #[test]
    fn later_fields_and_verdicts_are_no_fault() {
        let flows = Message::Flows { generation: 1, flows: Vec::new() };
        assert_eq!(Message::decode(&[2, 0, 0, 0, 1, 0, 7, 7, 7]), Ok(flows));
        let verdicts = vec![(2, Verdict::Other(9))];
        let answer = Message::Answer { generation: 1, verdicts };
        assert_eq!(Message::decode(&[3, 0, 0, 0, 1, 1, 0, 2, 9, 7]), Ok(answer));
    }

    /// Messages of earlier releases and this one: the text of each file in `tests/vectors`.
    const RELEASES: &[&str] = &[include_str!("../../tests/vectors/0.1.0.txt")];

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<_> = hex.chars().filter_map(|c| c.to_digit(16)).collect();
        digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
    }

    #[test]
    fn messages_and_blocks_of_every_release_are_read() {
        for text in RELEASES {
            let rows: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
            assert!(rows.len() >= 7, "the file lacks messages");
            for row in rows {
                let (name, hex) = row.split_once(": ").expect("is a row");
                let wire = bytes(hex);
                if name == "BLOCK" {
                    let read = crate::wire::frame::FrameReader::default().read(wire.into(), true);
                    assert!(read.is_ok_and(|datagrams| !datagrams.is_empty()), "{row}");
                    continue;
                }
                let found = match Message::decode(&wire) {
                    Ok(Message::Hello { .. }) => "HELLO",
                    Ok(Message::Flows { .. }) => "FLOWS",
                    Ok(Message::Answer { .. }) => "ANSWER",
                    Ok(Message::Goaway { .. }) => "GOAWAY",
                    Err(error) => panic!("{row}: {error}"),
                };
                assert_eq!(found, name, "{row}");
            }
        }
    }

    #[test]
    fn faults_have_names() {
        let cases: &[(&[u8], MessageError)] = &[
            (&[], MessageError::Length),
            (&[9], MessageError::Kind(9)),
            (&[1, b'S', b'q', b'X', b'X', 1, 0, 0], MessageError::NoTunnel),
            (&[1, b'S', b'q', b'T', b'u', 1, 1, 1], MessageError::Length),
            (&[2, 0, 0, 0, 1, 65], MessageError::Flows),
            (&[2, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 65], MessageError::Channel(0)),
            (&[2, 0, 0, 0, 1, 1, 0, 2, 0, 0, 0, 0, 1, 10], MessageError::Name),
            (&[3, 0, 0, 0, 1, 1, 0, 2], MessageError::Length),
            (&[4, 0, 0, 0, 1, 9], MessageError::Exits),
            (&[4, 0, 0, 0, 1, 1, 3, b'a', b':', b'0'], MessageError::Exits),
            (&[4, 0, 0, 0, 1, 1, 4, b'a', b'\n', b':', b'1'], MessageError::Exits),
            (&[4, 0, 0, 0, 1, 1, 4, b'a', b':'], MessageError::Length),
        ];
        for (wire, error) in cases {
            assert_eq!(Message::decode(wire), Err(error.clone()), "{wire:02x?}");
        }
    }

    proptest! {
        #[test]
        fn junk_is_an_error_or_a_message(kind in 1..5u8, junk in prop::collection::vec(any::<u8>(), 0..200)) {
            let wire = [&[kind], &junk[..]].concat();
            if let Ok(message) = Message::decode(&wire) {
                prop_assert!(wire.starts_with(&message.encode()));
            }
        }
    }
}
