//! Writing, parsing and exchanging netlink messages with the kernel.

use std::{
    io,
    time::{Duration, Instant},
};

use netlink_packet_core::{
    DefaultNla, Emitable as _, NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NetlinkBuffer,
    NetlinkHeader, NlasIterator,
};
use netlink_packet_generic::constants::GENL_HDRLEN;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_GENERIC};
use socket2::SockRef;

/// Timeout for an answer of the kernel.
const ANSWER: Duration = Duration::from_secs(1);

/// Larger than any answer of the kernel.
const BUFFER: usize = 64 * 1024;

const HEADER: usize = 16;

/// Version in generic netlink's own header, after the command; nl80211 has only this one.
const VERSION: u8 = 1;

/// A message of a generic netlink family.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Message<'a> {
    /// Number of the family.
    pub(super) family: u16,
    /// Command of the family.
    pub(super) command: u8,
    /// The attributes, for [`attributes`].
    pub(super) body: &'a [u8],
}

/// A part of an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Answer<'a> {
    Message(Message<'a>),
    /// Last message, with the number of an error, 0 for none.
    End(i32),
}

/// Builds a request.
pub(super) fn request(
    family: u16,
    command: u8,
    dump: bool,
    sequence: u32,
    attributes: &[DefaultNla],
) -> Vec<u8> {
    let len = HEADER + GENL_HDRLEN + attributes.buffer_len();
    let mut header = NetlinkHeader::default();
    header.length = len as u32;
    header.message_type = family;
    header.flags = NLM_F_REQUEST | if dump { NLM_F_DUMP } else { NLM_F_ACK };
    header.sequence_number = sequence;
    let mut bytes = vec![0; len];
    header.emit(&mut bytes);
    bytes[HEADER..HEADER + 2].copy_from_slice(&[command, VERSION]);
    attributes.emit(&mut bytes[HEADER + GENL_HDRLEN..]);
    bytes
}

/// Iterates over the attributes of a message or of another attribute: kind and value. Stops at
/// malformed data.
pub(super) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    NlasIterator::new(bytes).map_while(Result::ok).map(|nla| {
        let value = nla.into_inner();
        // The iterator has checked that the length covers the header and does not exceed the data.
        (nla.kind(), &value[4..usize::from(nla.length())])
    })
}

/// Parses a whole number in the machine's byte order, of 1, 2 or 4 bytes.
pub(super) fn number(value: &[u8]) -> Option<u32> {
    match *value {
        [one] => Some(u32::from(one)),
        [a, b] => Some(u32::from(u16::from_ne_bytes([a, b]))),
        [a, b, c, d] => Some(u32::from_ne_bytes([a, b, c, d])),
        _ => None,
    }
}

/// Iterates over the messages in a datagram, with their sequence numbers. Stops at malformed data.
fn answers(mut bytes: &[u8]) -> impl Iterator<Item = (u32, Answer<'_>)> {
    std::iter::from_fn(move || {
        loop {
            let packet = NetlinkBuffer::new_checked(bytes).ok()?;
            let len = packet.length() as usize;
            let (kind, sequence, payload) =
                (packet.message_type(), packet.sequence_number(), &bytes[HEADER..len]);
            bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
            match kind {
                NLMSG_ERROR | NLMSG_DONE => {
                    let code = payload.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
                    return Some((sequence, Answer::End(code.saturating_neg())));
                }
                // Families have numbers above those of control messages.
                _ if kind > NLMSG_DONE => {
                    let (header, body) = payload.split_at_checked(GENL_HDRLEN)?;
                    let message = Message { family: kind, command: header[0], body };
                    return Some((sequence, Answer::Message(message)));
                }
                _ => {}
            }
        }
    })
}

/// Iterates over the messages in a datagram.
pub(super) fn messages(bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    answers(bytes).filter_map(|(_, answer)| match answer {
        Answer::Message(message) => Some(message),
        Answer::End(_) => None,
    })
}

/// Parses any bytes, for fuzzers.
#[cfg(any(test, fuzzing))]
pub(super) fn parse_all(bytes: &[u8]) {
    for (_, answer) in answers(bytes) {
        if let Answer::Message(message) = answer {
            attributes(message.body).for_each(|(_, value)| {
                let _ = number(value);
            });
        }
    }
}

/// A socket to the kernel, or its replacement in tests.
pub(super) trait Wire: Send {
    /// Sends a request.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Fills `into` with the next datagram. `WouldBlock` if none arrives in time.
    fn receive(&mut self, into: &mut Vec<u8>, timeout: Duration) -> io::Result<()>;
    /// Subscribes to a multicast group.
    fn join(&mut self, group: u32) -> io::Result<()>;
}

/// A generic netlink socket.
pub(super) struct Kernel {
    socket: Socket,
}

impl Kernel {
    pub(super) fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_GENERIC)?;
        socket.bind_auto()?;
        Ok(Self { socket })
    }
}

impl Wire for Kernel {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.send_to(bytes, &SocketAddr::new(0, 0), 0).map(|_| ())
    }

    fn receive(&mut self, into: &mut Vec<u8>, timeout: Duration) -> io::Result<()> {
        // A timeout of zero would mean forever.
        let timeout = timeout.max(Duration::from_micros(1));
        SockRef::from(&self.socket).set_read_timeout(Some(timeout))?;
        into.clear();
        into.reserve(BUFFER);
        let (_, from) = self.socket.recv_from(into, 0)?;
        // Ignore datagrams of other programs.
        if from.port_number() != 0 {
            into.clear();
        }
        Ok(())
    }

    fn join(&mut self, group: u32) -> io::Result<()> {
        self.socket.add_membership(group)
    }
}

/// Queries over a socket.
pub(super) struct Queries<W> {
    wire: W,
    sequence: u32,
    buffer: Vec<u8>,
}

impl<W: Wire> Queries<W> {
    pub(super) fn new(wire: W) -> Self {
        Self { wire, sequence: 0, buffer: Vec::new() }
    }

    /// Sends a query for one object, or for all (`dump`), and passes each message of the answer to `each`.
    pub(super) fn query(
        &mut self,
        family: u16,
        command: u8,
        dump: bool,
        attributes: &[DefaultNla],
        mut each: impl FnMut(Message<'_>),
    ) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        self.wire.send(&request(family, command, dump, self.sequence, attributes))?;
        let end = Instant::now() + ANSWER;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.wire.receive(&mut self.buffer, left)?;
            // The rest of a late answer has another sequence number.
            for (_, answer) in answers(&self.buffer).filter(|(sequence, _)| *sequence == self.sequence) {
                match answer {
                    Answer::Message(message) => each(message),
                    Answer::End(0) => return Ok(()),
                    Answer::End(code) => return Err(io::Error::from_raw_os_error(code)),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_parsed_without_a_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..200)
        ) {
            for (_, answer) in answers(&bytes) {
                if let Answer::Message(message) = answer {
                    attributes(message.body).for_each(|(_, value)| {
                        number(value);
                    });
                }
            }
            attributes(&bytes).for_each(drop);
        }

        #[test]
        fn what_is_sent_can_be_read(
            family in 17u16.., command: u8, dump: bool, sequence: u32,
            values in prop::collection::vec((1u16..300, prop::collection::vec(any::<u8>(), 0..9)), 0..5)
        ) {
            let nlas: Vec<_> =
                values.iter().map(|(kind, value)| DefaultNla::new(*kind, value.clone())).collect();
            let bytes = request(family, command, dump, sequence, &nlas);
            let all: Vec<_> = answers(&bytes).collect();
            let [(number, Answer::Message(message))] = all[..] else { panic!("{all:?}") };
            prop_assert_eq!((number, message.family, message.command), (sequence, family, command));
            let read: Vec<_> =
                attributes(message.body).map(|(kind, value)| (kind, value.to_vec())).collect();
            prop_assert_eq!(read, values);
            // A truncated datagram has no message rather than half of one.
            prop_assert_eq!(answers(&bytes[..bytes.len() - 1]).count(), 0);
        }
    }

    #[test]
    fn numbers_have_one_two_or_four_bytes() {
        assert_eq!(number(&[200]), Some(200));
        assert_eq!(number(&0x1234u16.to_ne_bytes()), Some(0x1234));
        assert_eq!(number(&0x1234_5678u32.to_ne_bytes()), Some(0x1234_5678));
        assert_eq!((number(&[]), number(&[1, 2, 3])), (None, None));
    }
}
