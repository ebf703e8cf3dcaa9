//! Messages between the two ends on channel 0. All numbers are big-endian; `docs/tunnel.md` describes the protocol.

use std::time::Duration;

use squall_units::Micros;

use crate::config::{MAX_FLOWS, MAX_NAME, MAX_TOKEN};

/// Version of the protocol.
pub(crate) const VERSION: u8 = 1;

/// Channel of these messages.
pub(crate) const CHANNEL: u16 = 0;

/// Timeout of the first message of the peer.
pub(crate) const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest message in bytes.
pub(crate) const MAX_MESSAGE: usize = 16 << 10;

/// First bytes of a session between tunnels.
const MAGIC: [u8; 4] = *b"SqTu";

/// Codes of closed sessions. 0 is a normal end.
pub(crate) mod code {
    /// The peer broke the protocol.
    pub(crate) const PROTOCOL: u32 = 16;
    /// The peer presented a wrong token.
    pub(crate) const TOKEN: u32 = 17;
    /// The host of the peer presented too many wrong tokens.
    pub(crate) const TOO_MANY: u32 = 18;
    /// The peer has another version of the protocol.
    pub(crate) const VERSION: u32 = 19;
    /// The exit carries as many tunnels as it may.
    pub(crate) const FULL: u32 = 20;
    /// The peer sent no hello in time.
    pub(crate) const SILENT: u32 = 21;
    /// The tenant was removed, or its token was changed.
    pub(crate) const REMOVED: u32 = 22;
    /// The tenant has used its bytes.
    pub(crate) const BYTES: u32 = 23;
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// The first message of each side. The token of an exit is empty.
    Hello { version: u8, token: Vec<u8> },
    /// All flows that enter at this side. Flows of an earlier message that are missing have ended.
    Flows { generation: u32, flows: Vec<Offer> },
    /// The verdicts of the other side.
    Answer { generation: u32, verdicts: Vec<(u16, Verdict)> },
}

/// A flow that enters at the side that offers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Channel of its blocks, in both directions.
    pub(crate) channel: u16,
    pub(crate) latency: Micros,
    pub(crate) name: String,
}

/// The answer to an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Accepted = 0,
    /// No flow of that name leaves here.
    Unknown = 1,
    /// Another session carries it.
    Taken = 2,
}

impl Verdict {
    const ALL: [Self; 3] = [Self::Accepted, Self::Unknown, Self::Taken];

    /// Continues a sentence that begins with the peer.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Accepted => "accepts it",
            Self::Unknown => "has no out end of that name",
            Self::Taken => "accepts it from another tunnel",
        }
    }
}

/// Why a block is not a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MessageError {
    #[error("the peer is not a squall tunnel")]
    NoTunnel,
    #[error("a message of a wrong length")]
    Length,
    #[error("unknown message {0}")]
    Kind(u8),
    #[error("unknown verdict {0}")]
    Verdict(u8),
    #[error("more than {MAX_FLOWS} flows")]
    Flows,
    #[error("a flow name that is empty, too long or no text")]
    Name,
    #[error("channel {0} cannot carry a flow")]
    Channel(u16),
}

impl Message {
    /// The block.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Hello { version, token } => {
                out.push(1);
                out.extend_from_slice(&MAGIC);
                out.push(*version);
                out.extend_from_slice(&(token.len() as u16).to_be_bytes());
                out.extend_from_slice(token);
            }
            Self::Flows { generation, flows } => {
                out.push(2);
                out.extend_from_slice(&generation.to_be_bytes());
                out.push(flows.len() as u8);
                for flow in flows {
                    out.extend_from_slice(&flow.channel.to_be_bytes());
                    out.extend_from_slice(&u32::try_from(flow.latency).unwrap_or(u32::MAX).to_be_bytes());
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
                    out.push(*verdict as u8);
                }
            }
        }
        out
    }

    /// The message of a block.
    pub(crate) fn decode(block: &[u8]) -> Result<Self, MessageError> {
        if block.len() > MAX_MESSAGE {
            return Err(MessageError::Length);
        }
        let mut input = Input(block);
        let message = match input.byte()? {
            1 => input.hello()?,
            2 => input.flows()?,
            3 => input.answer()?,
            other => return Err(MessageError::Kind(other)),
        };
        // A hello of a later version may have more fields.
        match message {
            Self::Hello { .. } => Ok(message),
            _ if input.0.is_empty() => Ok(message),
            _ => Err(MessageError::Length),
        }
    }
}

/// The rest of a message.
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
        Ok(Message::Hello { version, token: self.bytes(length)?.to_vec() })
    }

    fn flows(&mut self) -> Result<Message, MessageError> {
        let (generation, count) = self.list()?;
        let mut flows: Vec<Offer> = Vec::with_capacity(count);
        for _ in 0..count {
            let channel = self.channel()?;
            let latency = Micros::from(u32::from_be_bytes(self.take()?));
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
            let number = self.byte()?;
            let verdict = Verdict::ALL.into_iter().find(|verdict| *verdict as u8 == number);
            verdicts.push((channel, verdict.ok_or(MessageError::Verdict(number))?));
        }
        Ok(Message::Answer { generation, verdicts })
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

    /// The vectors of `docs/tunnel.md`.
    #[test]
    fn messages_are_written_as_documented() {
        let cases = [
            (
                Message::Hello { version: 1, token: b"correct horse".to_vec() },
                "01 53715475 01 000d 636f727265637420686f727365",
            ),
            (
                Message::Flows {
                    generation: 1,
                    flows: vec![Offer { channel: 2, latency: 300_000, name: "cam".into() }],
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
        ];
        for (message, wire) in cases {
            assert_eq!(hex(&message.encode()), wire.replace(' ', ""));
            assert_eq!(Message::decode(&message.encode()), Ok(message));
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
            (&[3, 0, 0, 0, 1, 1, 0, 2, 3], MessageError::Verdict(3)),
            (&[3, 0, 0, 0, 1, 0, 0], MessageError::Length),
        ];
        for (wire, error) in cases {
            assert_eq!(Message::decode(wire), Err(error.clone()), "{wire:02x?}");
        }
    }

    proptest! {
        #[test]
        fn junk_is_an_error_or_a_message(kind in 1..4u8, junk in prop::collection::vec(any::<u8>(), 0..200)) {
            let wire = [&[kind], &junk[..]].concat();
            if let Ok(message) = Message::decode(&wire) {
                prop_assert!(wire.starts_with(&message.encode()));
            }
        }
    }
}
