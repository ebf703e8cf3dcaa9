//! Connection ids that identify the server which issued them, so that a load balancer can route
//! packets without a table and whatever their addresses: QUIC-LB,
//! draft-ietf-quic-load-balancers-21.
//!
//! A server has a [`QuicLbServer`] in [`Config::quic_lb`](crate::Config::quic_lb); a load balancer
//! needs the same [`QuicLb`], and calls [`QuicLb::route`] with each UDP payload. The length of an
//! id is not in its first byte (the draft makes that optional, §3.2): all ids of a configuration
//! have the same length, and the five bits identify the worker.

use std::{fmt, fmt::Write as _, str::FromStr};

use aes::{
    Aes128, Block,
    cipher::{BlockDecrypt as _, BlockEncrypt as _, KeyInit as _},
};

use crate::worker::destination_id;

/// Largest length of a server id and a nonce together in bytes: an id has 20 in QUIC version 1, one
/// of which is the first octet.
const MAX_PLAINTEXT: usize = 19;

/// Smallest length of a nonce in bytes (§5.2).
const MIN_NONCE: usize = 4;

/// Largest length of a server id in bytes.
const MAX_SERVER_ID: usize = MAX_PLAINTEXT - MIN_NONCE;

/// Largest configuration id; 7 is for ids that no load balancer can route (§3.1).
const MAX_CONFIG: u8 = 6;

/// Format of connection ids: the configuration that servers and their load balancers share.
#[derive(Clone)]
pub struct QuicLb {
    config: u8,
    server_id_len: usize,
    nonce_len: usize,
    key: Option<[u8; 16]>,
    cipher: Option<Aes128>,
}

impl PartialEq for QuicLb {
    fn eq(&self, other: &Self) -> bool {
        let parts = |one: &Self| (one.config, one.server_id_len, one.nonce_len, one.key);
        parts(self) == parts(other)
    }
}

impl Eq for QuicLb {}

/// Reason why a configuration is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuicLbError {
    /// The configuration id is above 6.
    #[error("configuration id {0} is not from 0 to {MAX_CONFIG}")]
    Config(u8),
    /// The server id is empty, or too long for any nonce.
    #[error("a server id has 1 to {MAX_SERVER_ID} bytes, not {0}")]
    ServerId(usize),
    /// The nonce is too short, or leaves no room for the server id.
    #[error("a nonce beside a server id of {server_id} bytes has {MIN_NONCE} to {most} bytes, not {nonce}", most = MAX_PLAINTEXT - .server_id)]
    Nonce {
        /// Length of the server id in bytes.
        server_id: usize,
        /// Length of the nonce in bytes.
        nonce: usize,
    },
    /// The text is not the required number of pairs of hexadecimal digits.
    #[error("'{0}' is not 1 to {MAX_SERVER_ID} pairs of hexadecimal digits")]
    Text(String),
}

/// The id of a server: 1 to 15 bytes. As text, pairs of hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerId {
    len: usize,
    bytes: [u8; MAX_SERVER_ID],
}

impl ServerId {
    /// Creates an id from these bytes.
    ///
    /// # Errors
    /// If there are none, or more than 15.
    pub fn new(id: &[u8]) -> Result<Self, QuicLbError> {
        if id.is_empty() || id.len() > MAX_SERVER_ID {
            return Err(QuicLbError::ServerId(id.len()));
        }
        let mut bytes = [0; MAX_SERVER_ID];
        bytes[..id.len()].copy_from_slice(id);
        Ok(Self { len: id.len(), bytes })
    }

    /// Returns the bytes of the id.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl FromStr for ServerId {
    type Err = QuicLbError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || QuicLbError::Text(text.chars().take(100).collect());
        let digits: Vec<u8> = text
            .chars()
            .map(|c| c.to_digit(16).map(|digit| digit as u8))
            .collect::<Option<_>>()
            .ok_or_else(wrong)?;
        let (pairs, rest) = digits.as_chunks::<2>();
        let bytes: Vec<u8> = pairs.iter().map(|[high, low]| high << 4 | low).collect();
        Self::new(&bytes).ok().filter(|_| rest.is_empty()).ok_or_else(wrong)
    }
}

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::with_capacity(2 * self.len);
        for byte in self.as_bytes() {
            write!(text, "{byte:02x}")?;
        }
        f.write_str(&text)
    }
}

impl fmt::Debug for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Configuration of a server for its connection ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuicLbServer {
    format: QuicLb,
    id: ServerId,
}

impl QuicLbServer {
    /// Creates the configuration of the server with this id.
    ///
    /// # Errors
    /// If the format has server ids of another length.
    pub fn new(format: QuicLb, id: ServerId) -> Result<Self, QuicLbError> {
        if id.len != format.server_id_len {
            return Err(QuicLbError::ServerId(id.len));
        }
        Ok(Self { format, id })
    }

    /// Returns the configuration that the load balancer needs.
    pub fn format(&self) -> &QuicLb {
        &self.format
    }

    /// Returns the id of the server.
    pub fn id(&self) -> ServerId {
        self.id
    }
}

impl QuicLb {
    /// Creates a format of connection ids: the id of the configuration (0 to 6), the bytes of the
    /// server id (1 to 15) and of the nonce (4 and more, together at most 19), and the key. Without
    /// a key anyone can read the server id, and see which connection ids belong to one server; with
    /// one, only its holders can.
    ///
    /// # Errors
    /// If the format is invalid.
    pub fn new(
        config: u8,
        server_id_len: usize,
        nonce_len: usize,
        key: Option<[u8; 16]>,
    ) -> Result<Self, QuicLbError> {
        if config > MAX_CONFIG {
            return Err(QuicLbError::Config(config));
        }
        if !(1..=MAX_SERVER_ID).contains(&server_id_len) {
            return Err(QuicLbError::ServerId(server_id_len));
        }
        if nonce_len < MIN_NONCE || server_id_len + nonce_len > MAX_PLAINTEXT {
            return Err(QuicLbError::Nonce { server_id: server_id_len, nonce: nonce_len });
        }
        let cipher = key.map(|key| Aes128::new(&key.into()));
        Ok(Self { config, server_id_len, nonce_len, key, cipher })
    }

    /// Returns the server that a UDP payload is for. `None` if it has no such id, as in the first
    /// packets of a client: route those by a consistent hash of [`destination_id`], because a
    /// client repeats the id until it has an answer.
    ///
    /// A client chooses its ids at random, so one may look like that of a server; treat a server
    /// that does not exist as `None`.
    pub fn route(&self, datagram: &[u8]) -> Option<ServerId> {
        self.server_id(destination_id(datagram, self.id_len())?)
    }

    /// Returns the id of the server that issued a connection id, if it is one of this
    /// configuration.
    pub fn server_id(&self, id: &[u8]) -> Option<ServerId> {
        let (first, rest) = id.split_first()?;
        if id.len() != self.id_len() || first >> 5 != self.config {
            return None;
        }
        let mut plain = [0; MAX_PLAINTEXT];
        let plain = &mut plain[..rest.len()];
        plain.copy_from_slice(rest);
        self.decrypt(plain);
        ServerId::new(&plain[..self.server_id_len]).ok()
    }

    /// Returns the length of a connection id in bytes.
    pub fn id_len(&self) -> usize {
        1 + self.server_id_len + self.nonce_len
    }

    /// Returns the length of a nonce in bytes.
    pub(crate) fn nonce_len(&self) -> usize {
        self.nonce_len
    }

    /// Returns `true` if ids are encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.cipher.is_some()
    }

    /// Encodes a connection id into the first [`Self::id_len`] bytes of the result: from the low
    /// five bits of the first octet, a server id and a nonce of the lengths of the format.
    pub(crate) fn encode(&self, low_bits: u8, server: &ServerId, nonce: &[u8]) -> [u8; 1 + MAX_PLAINTEXT] {
        let mut id = [0; 1 + MAX_PLAINTEXT];
        id[0] = self.config << 5 | low_bits & 0x1f;
        let plain = &mut id[1..self.id_len()];
        let (server_id, rest) = plain.split_at_mut(self.server_id_len);
        server_id.copy_from_slice(server.as_bytes());
        rest.copy_from_slice(nonce);
        self.encrypt(&mut id[1..self.id_len()]);
        id
    }

    fn encrypt(&self, plain: &mut [u8]) {
        match &self.cipher {
            None => {}
            // One pass if both fill a block (§5.4.1).
            Some(cipher) if plain.len() == size_of::<Block>() => {
                cipher.encrypt_block(Block::from_mut_slice(plain));
            }
            Some(cipher) => {
                let mut halves = Halves::split(plain);
                (1..=4).for_each(|pass| halves.pass(cipher, pass));
                halves.join(plain);
            }
        }
    }

    fn decrypt(&self, id: &mut [u8]) {
        match &self.cipher {
            None => {}
            Some(cipher) if id.len() == size_of::<Block>() => cipher.decrypt_block(Block::from_mut_slice(id)),
            Some(cipher) => {
                // The left half is plain after three passes, and holds the server id if that is not
                // longer than the nonce.
                let last = if self.server_id_len <= self.nonce_len { 2 } else { 1 };
                let mut halves = Halves::split(id);
                (last..=4).rev().for_each(|pass| halves.pass(cipher, pass));
                halves.join(id);
            }
        }
    }
}

impl fmt::Debug for QuicLb {
    /// Omits the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuicLb")
            .field("config", &self.config)
            .field("server_id_len", &self.server_id_len)
            .field("nonce_len", &self.nonce_len)
            .field("is_encrypted", &self.is_encrypted())
            .finish()
    }
}

/// The halves of a Feistel network of four passes (§5.4.2). With an odd number of bytes they share
/// the middle one: the upper four bits belong to the left half, the lower to the right.
struct Halves {
    /// Total length of both in bytes.
    len: usize,
    left: [u8; HALF],
    right: [u8; HALF],
}

const HALF: usize = MAX_PLAINTEXT.div_ceil(2);

impl Halves {
    fn split(plain: &[u8]) -> Self {
        let (len, half) = (plain.len(), plain.len().div_ceil(2));
        let mut halves = Self { len, left: [0; HALF], right: [0; HALF] };
        halves.left[..half].copy_from_slice(&plain[..half]);
        halves.right[..half].copy_from_slice(&plain[len - half..]);
        halves.clear_shared();
        halves
    }

    fn join(&self, out: &mut [u8]) {
        let half = self.half();
        out[..half].copy_from_slice(&self.left[..half]);
        let middle = out[self.len - half];
        out[self.len - half..].copy_from_slice(&self.right[..half]);
        if self.len % 2 == 1 {
            out[self.len - half] |= middle;
        }
    }

    /// Runs a pass, which is its own inverse: odd ones change the right half, even ones the left.
    fn pass(&mut self, cipher: &Aes128, pass: u8) {
        let half = self.half();
        let (from, into) = match pass % 2 {
            1 => (&self.left, &mut self.right),
            _ => (&self.right, &mut self.left),
        };
        let mut block = Block::default();
        block[..half].copy_from_slice(&from[..half]);
        block[14] = self.len as u8;
        block[15] = pass;
        cipher.encrypt_block(&mut block);
        into.iter_mut().zip(&block).take(half).for_each(|(byte, mask)| *byte ^= mask);
        self.clear_shared();
    }

    /// Clears the bits of the middle byte that belong to the other half.
    fn clear_shared(&mut self) {
        if self.len % 2 == 1 {
            self.left[self.half() - 1] &= 0xf0;
            self.right[0] &= 0x0f;
        }
    }

    fn half(&self) -> usize {
        self.len.div_ceil(2)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
    }

    fn key(text: &str) -> Option<[u8; 16]> {
        Some(hex(text).try_into().unwrap())
    }

    /// Checks encoding against the draft, with the length in the first octet, and decoding.
    fn check(config: u8, key: Option<[u8; 16]>, server: &str, nonce: &str, id: &str) {
        let (server, nonce): (ServerId, _) = (server.parse().unwrap(), hex(nonce));
        let format = QuicLb::new(config, server.len, nonce.len(), key).unwrap();
        let encoded = format.encode(format.id_len() as u8 - 1, &server, &nonce);
        assert_eq!(encoded[..format.id_len()], hex(id));
        assert_eq!(format.server_id(&hex(id)), Some(server));
    }

    /// Appendix B of the draft. Its second plain one has a nonce of half a byte; its last one
    /// states configuration 3, and has an id of configuration 0.
    #[test]
    fn the_test_vectors_of_the_draft() {
        let all = key("8f95f09245765f80256934e50c66207f");
        check(0, None, "c4605e", "4504cc4f", "07c4605e4504cc4f");
        check(0, all, "ed793a", "ee080dbf", "0720b1d07b359d3c");
        check(1, all, "ed793a51d49b8f5fab65", "ee080dbf48", "2fcc381bc74cb4fbad2823a3d1f8fed2");
        check(2, all, "ed793a51d49b8f5f", "ee080dbf48c0d1e5", "504dd2d05a7b0de9b2b9907afb5ecf8cc3");
        check(0, all, "ed793a51d49b8f5fab", "ee080dbf48c0d1e55d", "125779c9cc86beb3a3a4a3ca96fce4bfe0cdbc");
        // The example of §5.4.2.
        check(0, key("fdf726a9893ec05c0632d3956680baf0"), "31441a", "9c69c275", "0767947d29be054a");
    }

    proptest! {
        #[test]
        fn an_id_names_its_server(
            config in 0..=MAX_CONFIG,
            server in proptest::collection::vec(any::<u8>(), 1..=MAX_SERVER_ID),
            nonce in proptest::collection::vec(any::<u8>(), MIN_NONCE..MAX_PLAINTEXT),
            key in any::<Option<[u8; 16]>>(),
            low_bits in 0..32_u8,
        ) {
            let room = MAX_PLAINTEXT - server.len();
            let nonce = &nonce[..nonce.len().min(room)];
            let server = ServerId::new(&server).unwrap();
            let format = QuicLb::new(config, server.len, nonce.len(), key).unwrap();
            let id = &format.encode(low_bits, &server, nonce)[..format.id_len()];
            prop_assert_eq!(format.server_id(id), Some(server));
            prop_assert_eq!(id[0] & 0x1f, low_bits);
            let mut packet = vec![0x40];
            packet.extend_from_slice(id);
            packet.extend_from_slice(b"the rest");
            prop_assert_eq!(format.route(&packet), Some(server));
            prop_assert_eq!(server.to_string().parse(), Ok(server));
            let other = QuicLb::new((config + 1) % 7, server.len, nonce.len(), key).unwrap();
            prop_assert_eq!(other.server_id(id), None);
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(
            id in proptest::collection::vec(any::<u8>(), 0..40),
            server in 1..=MAX_SERVER_ID,
            key in any::<Option<[u8; 16]>>(),
        ) {
            let format = QuicLb::new(id.first().map_or(0, |first| first >> 5).min(6), server, 4, key).unwrap();
            let found = format.server_id(&id);
            prop_assert!(found.is_none_or(|found| found.len == server && id.len() == format.id_len()));
            format.route(&id);
        }
    }

    /// Ids of one server differ from each other like those of different servers: in half of their
    /// bits.
    #[test]
    fn encrypted_ids_of_one_server_are_not_alike() {
        for (server_len, nonce_len) in [(3, 4), (8, 8), (10, 5)] {
            let format =
                QuicLb::new(0, server_len, nonce_len, key("8f95f09245765f80256934e50c66207f")).unwrap();
            let server = ServerId::new(&vec![7; server_len]).unwrap();
            let ids: HashSet<Vec<u8>> = (0..2000_u32)
                .map(|count| {
                    let mut nonce = vec![0; nonce_len];
                    nonce[nonce_len - 4..].copy_from_slice(&count.to_be_bytes());
                    format.encode(0, &server, &nonce)[1..format.id_len()].to_vec()
                })
                .collect();
            assert_eq!(ids.len(), 2000);
            let bits = 8 * (server_len + nonce_len);
            for bit in 0..bits {
                let ones = ids.iter().filter(|id| id[bit / 8] >> (bit % 8) & 1 == 1).count();
                // Seven standard deviations of 2000 fair coins.
                assert!(ones.abs_diff(1000) < 157, "bit {bit} of {server_len}+{nonce_len}: {ones}");
            }
        }
    }

    #[test]
    fn what_is_no_configuration_is_refused_in_words() {
        let error = |config, server, nonce| QuicLb::new(config, server, nonce, None).unwrap_err().to_string();
        assert_eq!(error(7, 1, 4), "configuration id 7 is not from 0 to 6");
        assert_eq!(error(0, 0, 4), "a server id has 1 to 15 bytes, not 0");
        assert_eq!(error(0, 10, 10), "a nonce beside a server id of 10 bytes has 4 to 9 bytes, not 10");
        assert_eq!(error(0, 1, 3), "a nonce beside a server id of 1 bytes has 4 to 18 bytes, not 3");
        for text in ["", "a", "xy", "abc", "0102030405060708090a0b0c0d0e0f10", "ää"] {
            let error = text.parse::<ServerId>().unwrap_err();
            assert_eq!(error.to_string(), format!("'{text}' is not 1 to 15 pairs of hexadecimal digits"));
        }
        let format = QuicLb::new(0, 2, 4, key("8f95f09245765f80256934e50c66207f")).unwrap();
        assert!(QuicLbServer::new(format.clone(), "01".parse().unwrap()).is_err());
        assert!(!format!("{format:?}").contains("8f95"), "{format:?}");
    }
}
