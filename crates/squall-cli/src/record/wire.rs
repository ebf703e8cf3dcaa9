//! Datagrams of a recording, and the proof that the recording end has the token and is at its
//! address.
//!
//! The listening end answers an unauthenticated peer with a nonce for its address, in fewer bytes
//! than it received. With this nonce the recording end proves that it has the token and receives at
//! that address; only then are larger amounts sent there. Nothing is encrypted: the datagrams
//! contain only times and counts.

use std::fmt;

use bytes::{Buf, BufMut, TryGetError};
use ring::hmac::{HMAC_SHA256, Key, sign};

/// UDP payload of measuring packets in bytes: an IP packet of 1,280 bytes over IPv6, which passes
/// everywhere.
pub(super) const SIZE: usize = 1_232;

/// Maximum number of bins in a packet.
pub(super) const MAX_BINS: usize = 40;

/// Minimum size in bytes of a datagram that is answered with a challenge, which is smaller.
const MIN_REQUEST: usize = 64;

const MAGIC: u32 = u32::from_be_bytes(*b"sqr1");

/// A nonce, or the proof that answers it.
pub(super) type Secret = [u8; 16];

/// Method of measuring the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Trains of packets at each step.
    Sample,
    /// A queue that never drains.
    Saturate,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sample => "samples",
            Self::Saturate => "saturated",
        })
    }
}

/// Parameters from the recording end, in each of its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) mode: Mode,
    /// Length of a step in microseconds.
    pub(super) step: u32,
    /// Number of packets of a train towards the recording end.
    pub(super) train: u16,
    /// Measuring has ended, and only the last results are needed.
    pub(super) is_ending: bool,
}

/// Train that a packet belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Train {
    /// Step by the recording end's clock.
    pub(super) step: u32,
    /// Number of packets of the train.
    pub(super) length: u16,
}

/// A packet of the other end, echoed to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Echo {
    /// Departure by the clock of its sender.
    pub(super) sent: u64,
    /// Microseconds since its arrival.
    pub(super) held: u32,
}

/// Summary of arrivals up to now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    /// Highest packet number.
    pub(super) highest: u64,
    /// Number of packets.
    pub(super) received: u64,
    /// Arrival of the latest packet, by the clock of its receiver.
    pub(super) at: u64,
    /// Delay of the latest packet, including the offset of the two clocks.
    pub(super) delay: i64,
}

/// Arrivals of a train, or in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bin {
    pub(super) step: u32,
    pub(super) packets: u32,
    /// Number of missing packets.
    pub(super) lost: u32,
    /// IP bytes.
    pub(super) bytes: u32,
    /// Microseconds from the first packet to the last.
    pub(super) span: u32,
}

/// A datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Datagram {
    Packet(Box<Packet>),
    /// Answer of the listening end to a packet without a valid proof.
    Challenge(Secret),
    /// The recording end has finished.
    Bye(Secret),
}

/// A packet with measurements or a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    /// Proof of the recording end.
    pub(super) proof: Secret,
    pub(super) plan: Plan,
    /// Number of the packet, from 1.
    pub(super) number: u64,
    /// Departure by the clock of its sender.
    pub(super) sent: u64,
    pub(super) train: Option<Train>,
    pub(super) echo: Option<Echo>,
    pub(super) report: Report,
    /// At the listening end, step before which it has listed all bins; at the recording end, step
    /// before which it has them.
    pub(super) until: u32,
    pub(super) bins: Vec<Bin>,
}

impl Datagram {
    /// Encodes the datagram. A packet of a train, or one that fills the queue, has [`SIZE`].
    pub(super) fn encode(&self, session: u64, size: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(SIZE);
        out.put_u32(MAGIC);
        out.put_u64(session);
        match self {
            Self::Packet(packet) => {
                out.put_u8(0);
                packet.encode(&mut out);
            }
            Self::Challenge(nonce) => {
                out.put_u8(1);
                out.put_slice(nonce);
            }
            Self::Bye(proof) => {
                out.put_u8(2);
                out.put_slice(proof);
            }
        }
        out.resize(out.len().max(size), 0);
        out
    }

    /// Decodes a datagram and its session; `None` for other data.
    pub(super) fn decode(mut data: &[u8]) -> Option<(u64, Self)> {
        let is_small = data.len() < MIN_REQUEST;
        let buffer = &mut data;
        (buffer.try_get_u32().ok()? == MAGIC).then_some(())?;
        let session = buffer.try_get_u64().ok()?;
        let datagram = match buffer.try_get_u8().ok()? {
            0 if !is_small => Self::Packet(Box::new(Packet::decode(buffer).ok().flatten()?)),
            1 => Self::Challenge(secret(buffer).ok()?),
            2 => Self::Bye(secret(buffer).ok()?),
            _ => return None,
        };
        Some((session, datagram))
    }
}

fn secret(buffer: &mut &[u8]) -> Result<Secret, TryGetError> {
    let mut secret = Secret::default();
    buffer.try_copy_to_slice(&mut secret)?;
    Ok(secret)
}

impl Packet {
    /// Creates a packet without a proof, which is answered with a challenge.
    pub(super) fn request(plan: Plan) -> Self {
        Self {
            proof: Secret::default(),
            plan,
            number: 0,
            sent: 0,
            train: None,
            echo: None,
            report: Report::default(),
            until: 0,
            bins: Vec::new(),
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.put_slice(&self.proof);
        out.put_u8(u8::from(self.plan.mode == Mode::Saturate) | u8::from(self.plan.is_ending) << 1);
        out.put_u32(self.plan.step);
        out.put_u16(self.plan.train);
        out.put_u64(self.number);
        out.put_u64(self.sent);
        // 0 means none: a train has packets, and an echo left after the start of the clock.
        let train = self.train.unwrap_or(Train { step: 0, length: 0 });
        out.put_u32(train.step);
        out.put_u16(train.length);
        let echo = self.echo.unwrap_or(Echo { sent: 0, held: 0 });
        out.put_u64(echo.sent);
        out.put_u32(echo.held);
        out.put_u64(self.report.highest);
        out.put_u64(self.report.received);
        out.put_u64(self.report.at);
        out.put_i64(self.report.delay);
        out.put_u32(self.until);
        out.put_u8(self.bins.len() as u8);
        for bin in &self.bins {
            for number in [bin.step, bin.packets, bin.lost, bin.bytes, bin.span] {
                out.put_u32(number);
            }
        }
    }

    fn decode(buffer: &mut &[u8]) -> Result<Option<Self>, TryGetError> {
        let proof = secret(buffer)?;
        let flags = buffer.try_get_u8()?;
        let mode = if flags & 1 == 1 { Mode::Saturate } else { Mode::Sample };
        let (step, train) = (buffer.try_get_u32()?, buffer.try_get_u16()?);
        let plan = Plan { mode, step, train, is_ending: flags & 2 == 2 };
        let (number, sent) = (buffer.try_get_u64()?, buffer.try_get_u64()?);
        let train = Train { step: buffer.try_get_u32()?, length: buffer.try_get_u16()? };
        let echo = Echo { sent: buffer.try_get_u64()?, held: buffer.try_get_u32()? };
        let report = Report {
            highest: buffer.try_get_u64()?,
            received: buffer.try_get_u64()?,
            at: buffer.try_get_u64()?,
            delay: buffer.try_get_i64()?,
        };
        let until = buffer.try_get_u32()?;
        let count = usize::from(buffer.try_get_u8()?);
        let mut bins = Vec::new();
        for _ in 0..count {
            let mut next = || buffer.try_get_u32();
            bins.push(Bin { step: next()?, packets: next()?, lost: next()?, bytes: next()?, span: next()? });
        }
        let packet = Self {
            proof,
            plan,
            number,
            sent,
            train: (train.length > 0).then_some(train),
            echo: (echo.sent > 0).then_some(echo),
            report,
            until,
            bins,
        };
        // Times and numbers are added to others, which must not overflow.
        let is_sane = packet.number < 1 << 48
            && packet.sent < 1 << 50
            && packet.report.highest < 1 << 48
            && packet.report.at < 1 << 50
            && packet.report.delay.unsigned_abs() < 1 << 52
            && packet.plan.is_possible()
            && packet.bins.len() <= MAX_BINS;
        Ok(is_sane.then_some(packet))
    }
}

impl Plan {
    /// Returns the step of a time in microseconds.
    pub(super) fn step_of(&self, time: u64) -> u32 {
        u32::try_from(time / u64::from(self.step)).unwrap_or(u32::MAX)
    }

    /// `true` for steps of 10 ms to 10 s, and trains of at most 256 packets.
    pub(super) fn is_possible(&self) -> bool {
        (10_000..=10_000_000).contains(&self.step) && (2..=256).contains(&self.train)
    }
}

/// Returns the key of proofs, or of nonces.
pub(super) fn key(secret: &[u8]) -> Key {
    Key::new(HMAC_SHA256, secret)
}

/// Computes the proof for a nonce with the token's key, or the nonce of an address with a key of
/// the listening end.
pub(super) fn proof(key: &Key, session: u64, of: &[u8]) -> Secret {
    let tag = sign(key, &[b"squall record", &session.to_be_bytes()[..], of].concat());
    tag.as_ref()[..16].try_into().expect("SHA-256 has 32 bytes")
}

/// Compares two secrets in constant time.
pub(super) fn is_equal(one: &Secret, other: &Secret) -> bool {
    one.iter().zip(other).fold(0, |different, (one, other)| different | (one ^ other)) == 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn packet(bins: Vec<Bin>, train: Option<Train>, echo: Option<Echo>, delay: i64) -> Packet {
        let plan = Plan { mode: Mode::Saturate, step: 100_000, train: 16, is_ending: true };
        let report = Report { highest: 9, received: 8, at: 70, delay };
        Packet { proof: [7; 16], plan, number: 3, sent: 5, train, echo, report, until: 4, bins }
    }

    proptest! {
        #[test]
        fn a_packet_is_read_as_it_was_written(
            numbers in proptest::collection::vec(any::<[u32; 5]>(), 0..=MAX_BINS), delay in -(1_i64 << 51)..1 << 51,
            train in proptest::option::of((any::<u32>(), 1_u16..)), echo in proptest::option::of((1_u64.., any::<u32>())),
        ) {
            let bin = |[step, packets, lost, bytes, span]: [u32; 5]| Bin { step, packets, lost, bytes, span };
            let train = train.map(|(step, length)| Train { step, length });
            let echo = echo.map(|(sent, held)| Echo { sent, held });
            let sent = Datagram::Packet(Box::new(packet(numbers.into_iter().map(bin).collect(), train, echo, delay)));
            let data = sent.encode(11, SIZE);
            prop_assert_eq!(data.len(), SIZE);
            prop_assert_eq!(Datagram::decode(&data), Some((11, sent)));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(mut data in proptest::collection::vec(any::<u8>(), 0..300), is_ours: bool) {
            if is_ours && data.len() > 13 {
                data[..4].copy_from_slice(b"sqr1");
                data[12] %= 4;
            }
            if let Some((_, Datagram::Packet(packet))) = Datagram::decode(&data) {
                prop_assert!(packet.plan.is_possible() && packet.bins.len() <= MAX_BINS);
            }
        }
    }

    #[test]
    fn a_challenge_is_smaller_than_what_it_answers() {
        let challenge = Datagram::Challenge([1; 16]).encode(1, 0);
        assert!(challenge.len() < MIN_REQUEST);
        let empty = Datagram::Packet(Box::new(packet(vec![], None, None, 0))).encode(1, 0);
        assert!(empty.len() >= MIN_REQUEST && Datagram::decode(&empty[..MIN_REQUEST - 1]).is_none());
    }

    #[test]
    fn a_proof_is_of_one_token_session_and_nonce() {
        let (ours, theirs) = (key(b"a long token"), key(b"another token"));
        let right = proof(&ours, 1, &[2; 16]);
        assert!(is_equal(&right, &proof(&ours, 1, &[2; 16])));
        for wrong in [proof(&theirs, 1, &[2; 16]), proof(&ours, 2, &[2; 16]), proof(&ours, 1, &[3; 16])] {
            assert!(!is_equal(&right, &wrong));
        }
    }
}
