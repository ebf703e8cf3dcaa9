//! Packets that are not encrypted, for virtual time.
//!
//! The handshake is that of TLS. Once its keys exist, packets leave in plain text, with a checksum
//! in the place of the tag. All limits of QUIC are those of the negotiated cipher: the length of
//! the tag and of the sample, and the number of packets that a key may protect. Therefore packets
//! have the same sizes and leave at the same times, and damaged ones are dropped, as are those of
//! other keys.

use std::{any::Any, sync::Arc};

use bytes::BytesMut;
use noq_proto::{
    ConnectError, ConnectionId, PathId, Side, TransportError,
    crypto::{
        ClientConfig, CryptoError, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey,
        ServerConfig, Session, UnsupportedVersion,
    },
    transport_parameters::TransportParameters,
};

/// Creates sessions of a configuration without protection.
pub(super) struct Unprotected<T: ?Sized>(pub(super) Arc<T>);

impl ClientConfig for Unprotected<dyn ClientConfig> {
    fn start_session(
        &self,
        version: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        self.0.start_session(version, server_name, params).map(Handshake::of)
    }
}

impl ServerConfig for Unprotected<dyn ServerConfig> {
    fn initial_keys(&self, version: u32, dst_cid: ConnectionId) -> Result<Keys, UnsupportedVersion> {
        self.0.initial_keys(version, dst_cid)
    }

    fn retry_tag(&self, version: u32, orig_dst_cid: ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.0.retry_tag(version, orig_dst_cid, packet)
    }

    fn start_session(&self, version: u32, params: &TransportParameters) -> Box<dyn Session> {
        Handshake::of(self.0.start_session(version, params))
    }
}

/// A TLS session whose last keys are replaced.
struct Handshake {
    inner: Box<dyn Session>,
    /// The keys of the handshake itself were produced; those of application data follow.
    has_own_keys: bool,
    /// Parameters of the keys of application data; `None` until the handshake has produced those.
    data: Option<Checksum>,
}

impl Handshake {
    fn of(inner: Box<dyn Session>) -> Box<dyn Session> {
        Box::new(Self { inner, has_own_keys: false, data: None })
    }
}

impl Session for Handshake {
    fn initial_keys(&self, dst_cid: ConnectionId, side: Side) -> Keys {
        self.inner.initial_keys(dst_cid, side)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.inner.handshake_data()
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.inner.peer_identity()
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        self.inner.early_crypto()
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.inner.early_data_accepted()
    }

    fn is_handshaking(&self) -> bool {
        self.inner.is_handshaking()
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        self.inner.read_handshake(buf)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        self.inner.transport_parameters()
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        let keys = self.inner.write_handshake(buf)?;
        if !std::mem::replace(&mut self.has_own_keys, true) {
            return Some(keys);
        }
        let header = || Box::new(Bare { sample_size: keys.header.local.sample_size() });
        let packet = Checksum::like(keys.packet.local.as_ref());
        self.data = Some(packet);
        Some(Keys { header: KeyPair { local: header(), remote: header() }, packet: packet.pair() })
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let data = self.data.as_mut()?;
        data.generation += 1;
        Some(data.pair())
    }

    fn is_valid_retry(&self, orig_dst_cid: ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        self.inner.is_valid_retry(orig_dst_cid, header, payload)
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        self.inner.export_keying_material(output, label, context)
    }
}

/// Leaves headers unchanged.
struct Bare {
    sample_size: usize,
}

impl HeaderKey for Bare {
    fn decrypt(&self, _: usize, _: &mut [u8]) {}

    fn encrypt(&self, _: usize, _: &mut [u8]) {}

    fn sample_size(&self) -> usize {
        self.sample_size
    }
}

/// Puts a checksum where the tag would be.
#[derive(Clone, Copy)]
struct Checksum {
    /// Generation of the session's keys, so that packets of others do not match.
    generation: u64,
    tag_len: usize,
    confidentiality_limit: u64,
    integrity_limit: u64,
}

impl Checksum {
    /// Creates a checksum with the limits of these keys.
    fn like(keys: &dyn PacketKey) -> Self {
        Self {
            generation: 0,
            tag_len: keys.tag_len(),
            confidentiality_limit: keys.confidentiality_limit(),
            integrity_limit: keys.integrity_limit(),
        }
    }

    fn pair(self) -> KeyPair<Box<dyn PacketKey>> {
        KeyPair { local: Box::new(self), remote: Box::new(self) }
    }

    /// Returns the checksum of a packet; the tag is this, and zeros. The path is in the header, by
    /// its connection id.
    fn sum(self, packet: u64, header: &[u8], payload: &[u8]) -> [u8; 8] {
        let header = sum(self.generation ^ packet.rotate_left(32), header);
        sum(header, payload).to_le_bytes()
    }
}

impl PacketKey for Checksum {
    fn encrypt(&self, _: PathId, packet: u64, buf: &mut [u8], header_len: usize) {
        let (header, rest) = buf.split_at_mut(header_len);
        let (payload, tag) = rest.split_at_mut(rest.len() - self.tag_len);
        let (sum, zeros) = tag.split_at_mut(size_of::<u64>());
        sum.copy_from_slice(&self.sum(packet, header, payload));
        zeros.fill(0);
    }

    fn decrypt(
        &self,
        _: PathId,
        packet: u64,
        header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        let len = payload.len().checked_sub(self.tag_len).ok_or(CryptoError)?;
        let (text, tag) = payload.split_at(len);
        let (sum, zeros) = tag.split_at(size_of::<u64>());
        if sum != self.sum(packet, header, text) || zeros.iter().any(|byte| *byte != 0) {
            return Err(CryptoError);
        }
        payload.truncate(len);
        Ok(())
    }

    fn tag_len(&self) -> usize {
        self.tag_len
    }

    fn confidentiality_limit(&self) -> u64 {
        self.confidentiality_limit
    }

    fn integrity_limit(&self) -> u64 {
        self.integrity_limit
    }
}

/// Odd, so that the product with it is injective: the golden ratio in 64 bits.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// Number of sums computed side by side, because a processor multiplies several numbers at a time.
const SUMS: usize = 4;

/// Detects bits that were flipped in transit. It is no protection against forgery.
fn sum(seed: u64, bytes: &[u8]) -> u64 {
    // Both halves of the product: the highest bit of a word changes only one bit of the lower half.
    let step = |sum: u64, word: [u8; 8]| {
        let product = u128::from(sum ^ u64::from_le_bytes(word)) * u128::from(MIX);
        product as u64 ^ (product >> 64) as u64
    };
    let mut sums = [seed ^ bytes.len() as u64; SUMS];
    let (rows, rest) = bytes.as_chunks::<{ 8 * SUMS }>();
    for row in rows {
        for (sum, word) in sums.iter_mut().zip(row.as_chunks::<8>().0) {
            *sum = step(*sum, *word);
        }
    }
    let (words, rest) = rest.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let sum = words.iter().chain([&last]).fold(MIX, |sum, word| step(sum, *word));
    sums.into_iter().fold(sum, |all, sum| step(all, sum.to_le_bytes()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEY: Checksum =
        Checksum { generation: 1, tag_len: 16, confidentiality_limit: 100, integrity_limit: 50 };

    fn sealed(packet: u64, text: &[u8], header_len: usize) -> Vec<u8> {
        let mut buf = [text, &[0xff; 16]].concat();
        KEY.encrypt(PathId::ZERO, packet, &mut buf, header_len);
        buf
    }

    fn opened(key: Checksum, packet: u64, sealed: &[u8], header_len: usize) -> Option<Vec<u8>> {
        let mut payload = BytesMut::from(&sealed[header_len..]);
        key.decrypt(PathId::ZERO, packet, &sealed[..header_len], &mut payload).ok()?;
        Some(payload.to_vec())
    }

    proptest! {
        #[test]
        fn what_was_sealed_opens_and_what_was_damaged_does_not(
            text in prop::collection::vec(any::<u8>(), 20..1500),
            header_len in 1usize..20,
            bits in prop::collection::vec(any::<prop::sample::Index>(), 1..8),
        ) {
            let buf = sealed(7, &text, header_len);
            prop_assert_eq!(&buf[..text.len()], &text[..], "written as it is");
            prop_assert_eq!(opened(KEY, 7, &buf, header_len), Some(text[header_len..].to_vec()));
            let places: std::collections::BTreeSet<_> = bits.iter().map(|bit| bit.index(8 * buf.len())).collect();
            let mut damaged = buf;
            places.iter().for_each(|bit| damaged[bit / 8] ^= 1 << (bit % 8));
            prop_assert_eq!(opened(KEY, 7, &damaged, header_len), None);
        }
    }

    #[test]
    fn packets_open_with_their_number_and_their_keys_only() {
        let buf = sealed(7, &[0; 100], 10);
        assert!(opened(KEY, 7, &buf, 10).is_some());
        assert_eq!(opened(KEY, 8, &buf, 10), None);
        assert_eq!(opened(Checksum { generation: 2, ..KEY }, 7, &buf, 10), None);
        assert_eq!(opened(KEY, 7, &buf[..15], 1), None, "shorter than a tag");
    }

    #[test]
    fn the_same_bit_of_neighbouring_words_does_not_cancel_out() {
        for distance in 1..=16 {
            for bit in 0..64 {
                let mut bytes = [0u8; 256];
                bytes[bit / 8] ^= 1 << (bit % 8);
                bytes[bit / 8 + 8 * distance] ^= 1 << (bit % 8);
                assert_ne!(sum(0, &bytes), sum(0, &[0; 256]), "bit {bit}, {distance} words on");
            }
        }
    }
}
