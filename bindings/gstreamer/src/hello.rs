//! Messages on channel 0: greetings, and requests for key frames.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// Minimum bytes of a token, as in tunnels: guessing it is infeasible at any number of attempts per
/// second.
pub(crate) const MIN_TOKEN: usize = 12;

/// Maximum bytes of a token, as in tunnels.
pub(crate) const MAX_TOKEN: usize = 256;

const VERSION: u8 = 1;
const HELLO: u8 = 1;
const KEY: u8 = 2;
const MAGIC: &[u8; 4] = b"SqGs";

/// Role of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Sender,
    Receiver,
}

/// A message on channel 0.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Hello(Hello),
    /// The receiver needs a key frame.
    Key,
}

/// The first message of each end; that of the listening end has no token.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) role: Role,
    /// Its property `latency`.
    pub(crate) latency_ms: u32,
    pub(crate) token: Bytes,
}

impl Message {
    pub(crate) fn encode(&self) -> Bytes {
        let mut block = BytesMut::new();
        match self {
            Self::Hello(hello) => {
                block.put_u8(HELLO);
                block.put_slice(MAGIC);
                block.put_u8(VERSION);
                block.put_u8(u8::from(hello.role == Role::Receiver));
                block.put_u32(hello.latency_ms);
                block.put_slice(&hello.token);
            }
            Self::Key => block.put_u8(KEY),
        }
        block.freeze()
    }

    /// # Errors
    /// A description, if it is malformed or of another version.
    pub(crate) fn decode(mut block: Bytes) -> Result<Self, &'static str> {
        match block.try_get_u8() {
            Ok(KEY) if block.is_empty() => Ok(Self::Key),
            Ok(HELLO) => decode_hello(block),
            _ => Err("a message is malformed"),
        }
    }
}

fn decode_hello(mut block: Bytes) -> Result<Message, &'static str> {
    if block.len() < 10 || &block.split_to(4)[..] != MAGIC {
        return Err("the other end is no element of Squall");
    }
    if block.get_u8() != VERSION {
        return Err("the other end has another version: update one of the two");
    }
    let role = match block.get_u8() {
        0 => Role::Sender,
        1 => Role::Receiver,
        _ => return Err("the other end has an unknown role"),
    };
    let latency_ms = block.get_u32();
    if block.len() > MAX_TOKEN {
        return Err("the token is too long");
    }
    Ok(Message::Hello(Hello { role, latency_ms, token: block }))
}

/// Compares in constant time; digests have one length, so the comparison does not reveal that of
/// the token.
pub(crate) fn is_token(token: &str, given: &[u8]) -> bool {
    Sha256::digest(token.as_bytes()).as_slice().ct_eq(Sha256::digest(given).as_slice()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_the_wire() {
        let hello = |role, token: &'static str| {
            Message::Hello(Hello { role, latency_ms: 300, token: Bytes::from_static(token.as_bytes()) })
        };
        for message in [hello(Role::Sender, "secret"), hello(Role::Receiver, ""), Message::Key] {
            assert_eq!(Message::decode(message.encode()), Ok(message));
        }
    }

    #[test]
    fn malformed_messages_are_refused() {
        let hello = Hello { role: Role::Sender, latency_ms: 1, token: Bytes::new() };
        let whole = Message::Hello(hello).encode();
        for len in 0..whole.len() {
            assert!(Message::decode(whole.slice(..len)).is_err(), "{len}");
        }
        let long = [&whole[..], &[b'x'; MAX_TOKEN + 1]].concat();
        assert!(Message::decode(long.into()).is_err());
        for at in 0..7 {
            let mut changed = whole.to_vec();
            changed[at] = 0xff;
            assert!(Message::decode(changed.into()).is_err(), "{at}");
        }
    }

    #[test]
    fn only_the_token_is_the_token() {
        assert!(is_token("a", b"a"));
        assert!(!is_token("a", b"") && !is_token("a", b"ab"));
    }
}
