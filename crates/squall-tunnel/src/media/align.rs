//! Finds the packets of a transport stream in datagrams with arbitrary boundaries.

use super::packet::{LENGTH, Packet, SYNC};

/// Bytes from one packet to the next: plain packets; with a timestamp of four bytes before each, as
/// in M2TS files; with a parity of 16 bytes after each (ETSI EN 300 429 §4.4).
const STRIDES: [usize; 3] = [LENGTH, 192, 204];

/// Consecutive packets that prove the positions of others.
const MIN_RUN: usize = 3;

/// Bytes of earlier datagrams that are searched: enough to contain [`MIN_RUN`] packets at any
/// phase.
const MAX_SEARCH: usize = (MIN_RUN + 1) * 204;

/// Tracks the distance of packets and the phase of datagrams relative to them.
#[derive(Debug, Default)]
pub(super) struct Aligner {
    /// Bytes from one packet to the next; `None` until found.
    stride: Option<usize>,
    /// Bytes of the next datagram before the first packet that begins in it.
    skip: usize,
    /// Beginning of a packet whose rest is in the next datagram; while unaligned, the bytes to
    /// search.
    rest: Vec<u8>,
    /// The latest datagram contained a packet.
    found: bool,
}

impl Aligner {
    /// `true` if the positions of packets have been found.
    pub(super) fn is_aligned(&self) -> bool {
        self.stride.is_some() || self.found
    }

    /// `true` if the latest datagram ends with the beginning of a packet that is too short to be
    /// read.
    pub(super) fn has_begun(&self) -> bool {
        self.stride.is_some() && (1..Packet::HEAD).contains(&self.rest.len())
    }

    /// `true` if the packets of a datagram continue at the expected position.
    pub(super) fn continues(&self, datagram: &[u8]) -> bool {
        let Some(stride) = self.stride else { return false };
        let next = if self.rest.is_empty() { self.skip } else { stride - self.rest.len() };
        let is_right = |at: usize| datagram.get(at).is_none_or(|byte| *byte == SYNC);
        is_right(next) && is_right(next + stride)
    }

    /// Reads a datagram: each of its packets once, and the beginning of a packet that ends in a
    /// later datagram.
    pub(super) fn feed(&mut self, datagram: &[u8], mut read: impl FnMut(Packet<'_>)) {
        let continues = self.continues(datagram);
        self.found = false;
        let before = self.rest.len();
        let mut joined = std::mem::take(&mut self.rest);
        let bytes = if joined.is_empty() {
            datagram
        } else {
            joined.extend_from_slice(datagram);
            &joined
        };
        let run = match self.stride {
            Some(stride) if continues => Some((stride, self.skip)),
            _ if is_whole(datagram) => Some((LENGTH, before)),
            _ => find(bytes),
        };
        // Only the beginning of a continuing packet was read from the bytes of earlier datagrams.
        let mut known = if continues { before } else { 0 };
        let (Some((mut stride, mut at)), true) = (run, !datagram.is_empty()) else {
            return self.search_later(bytes, run);
        };
        while let Some(rest) = bytes.get(at..).filter(|rest| rest.len() >= LENGTH) {
            let next = rest.get(stride..).filter(|next| next.len() >= LENGTH);
            if rest[0] != SYNC || next.is_some_and(|next| next[0] != SYNC) {
                known = 0;
                let Some((other, from)) = find(&rest[1..]) else { return self.search_later(rest, None) };
                (stride, at) = (other, at + 1 + from);
                continue;
            }
            Packet::new(&rest[..LENGTH], known).into_iter().for_each(&mut read);
            (self.found, known) = (true, 0);
            at += stride;
        }
        let rest = bytes.get(at..).unwrap_or_default();
        if rest.first().is_some_and(|byte| *byte != SYNC) {
            return self.search_later(rest, None);
        }
        if rest.len() > known {
            Packet::new(rest, known).into_iter().for_each(&mut read);
        }
        self.stride = Some(stride);
        self.skip = at.saturating_sub(bytes.len());
        self.rest = rest.to_vec();
    }

    /// Keeps bytes for the search in later datagrams.
    fn search_later(&mut self, bytes: &[u8], run: Option<(usize, usize)>) {
        if run.is_none() {
            (self.stride, self.skip) = (None, 0);
        }
        self.rest = bytes[bytes.len().saturating_sub(MAX_SEARCH)..].to_vec();
    }
}

/// `true` if the bytes consist of plain packets.
pub(super) fn is_whole(bytes: &[u8]) -> bool {
    !bytes.is_empty()
        && bytes.len().is_multiple_of(LENGTH)
        && bytes.chunks_exact(LENGTH).all(|packet| packet[0] == SYNC)
}

/// Finds the distance of packets and the position of the first, by the longest run of sync bytes up
/// to the last complete packet.
pub(super) fn find(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut best: Option<(usize, usize, usize)> = None;
    for stride in STRIDES {
        for phase in 0..stride.min(bytes.len().saturating_sub(LENGTH - 1)) {
            let last = (bytes.len() - LENGTH - phase) / stride;
            let run = (0..=last).rev().take_while(|n| bytes[phase + n * stride] == SYNC).count();
            if run >= MIN_RUN && best.is_none_or(|(most, ..)| run > most) {
                best = Some((run, stride, phase + (last + 1 - run) * stride));
            }
        }
    }
    best.map(|(_, stride, at)| (stride, at))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::samples::packets_in as read, *};

    /// Generates distinct packets, each followed by this number of bytes, with few bytes that look
    /// like a sync byte.
    fn stream(packets: usize, behind: usize) -> (Vec<Vec<u8>>, Vec<u8>) {
        let packet = |n: usize| -> Vec<u8> {
            let mut packet: Vec<u8> = (0..LENGTH).map(|at| (n * 31 + at * 7) as u8).collect();
            packet[0] = SYNC;
            packet
        };
        let packets: Vec<_> = (0..packets).map(packet).collect();
        let stream = packets.iter().flat_map(|packet| [&packet[..], &vec![0; behind]].concat()).collect();
        (packets, stream)
    }

    #[test]
    fn packets_are_found_whatever_the_size_of_datagrams_and_the_distance_of_packets() {
        for behind in [0, 4, 16] {
            let (packets, stream) = stream(60, behind);
            for size in
                [1, 100, 187, 188, 189, 192, 204, 400, 1_316, 1_344, 1_358, 1_428, 1_460, 1_472, 9_000]
            {
                let came = read(stream.chunks(size));
                assert!(came == packets, "{} of 60 by {size} with {behind}", came.len());
            }
        }
    }

    #[test]
    fn a_time_stamp_stands_in_front_of_each_packet() {
        let (packets, stream) = stream(60, 4);
        let stream = [&[0, 0, 1, 2], &stream[..]].concat();
        assert_eq!(read(stream.chunks(1_344)), packets);
    }

    #[test]
    fn datagrams_have_a_header_or_a_trailer() {
        let (packets, stream) = stream(70, 0);
        for (header, trailer) in [(4, 0), (12, 0), (0, 4), (2, 10)] {
            let datagrams: Vec<_> = stream
                .chunks(1_316)
                .map(|part| [&vec![1; header], part, &vec![2; trailer]].concat())
                .collect();
            assert_eq!(read(datagrams.iter().map(Vec::as_slice)), packets, "{header}, {trailer}");
        }
    }

    /// Only the damaged packets, and at most two more, are lost.
    #[test]
    fn it_is_aligned_again_behind_a_byte_or_a_datagram_too_few_or_too_many() {
        let (all, stream) = stream(250, 0);
        for size in [1_316, 1_472] {
            let at = 10 * size + 500;
            for (kept, from) in [(at, at + 1), (at, at - 1), (at, at + 60), (10 * size, 11 * size), (at, at)]
            {
                let damaged = [&stream[..kept], &stream[from..]].concat();
                let came = read(damaged.chunks(size));
                let lost = all.iter().filter(|packet| !came.contains(packet)).count();
                let gone = from.saturating_sub(kept).div_ceil(LENGTH);
                assert!(lost <= gone + 3, "{lost} are lost with {kept} to {from} by {size}");
                assert!(from != kept || lost == 0);
            }
            // An RTCP report or a keepalive in between, and one truncated datagram.
            let mut datagrams: Vec<&[u8]> = stream.chunks(size).collect();
            datagrams.insert(7, &[0x80, 201, 0, 7]);
            datagrams[20] = &datagrams[20][..size - 1];
            let came = read(datagrams);
            assert!(all.iter().filter(|packet| !came.contains(packet)).count() <= 4, "{size}");
        }
    }

    #[test]
    fn nothing_is_found_in_what_is_no_stream() {
        let text: Vec<u8> = b"GET / HTTP/1.1 Gzip Go ".iter().copied().cycle().take(20_000).collect();
        for size in [64, 800, 1_316] {
            assert!(read(text.chunks(size)).is_empty());
        }
        assert!(text.chunks(1_200).all(|datagram| find(datagram).is_none()));
        assert!(!is_whole(&[]));
    }

    #[test]
    fn a_stream_is_recognised_by_a_datagram_of_it() {
        for (behind, size) in [(0, 188), (0, 1_316), (0, 1_472), (4, 1_344), (16, 1_428)] {
            let (_, stream) = stream(60, behind);
            assert!(
                stream.chunks_exact(size).all(|part| is_whole(part) || find(part).is_some()),
                "{size} with {behind}"
            );
        }
    }

    proptest! {
        /// Each packet is read once, in order, whatever the boundaries of datagrams.
        #[test]
        fn no_cut_of_datagrams_loses_a_packet(
            behind in prop::sample::select(vec![0, 4, 16]),
            sizes in prop::collection::vec(size(1_500), 1..60),
        ) {
            let (packets, stream) = stream(sizes.iter().sum::<usize>() / (LENGTH + behind) + 4, behind);
            let (mut at, mut datagrams) = (0, Vec::new());
            for size in sizes {
                datagrams.push(&stream[at..at + size]);
                at += size;
            }
            datagrams.push(&stream[at..]);
            prop_assert_eq!(read(datagrams), packets);
        }

        /// The beginning of a packet is read before its rest arrives.
        #[test]
        fn what_is_there_of_a_packet_is_read_at_once(sizes in prop::collection::vec(size(400), 20..60)) {
            let (packets, stream) = stream(sizes.iter().sum::<usize>() / LENGTH + 4, 0);
            let (mut aligner, mut at, mut came) = (Aligner::default(), 0, Vec::<Vec<u8>>::new());
            for size in sizes {
                aligner.feed(&stream[at..at + size], |packet| {
                    let begun = if packet.is_new() { Vec::new() } else { came.pop().expect("has begun") };
                    assert!(packet.bytes().starts_with(&begun) && packet.bytes().len() > begun.len());
                    came.push(packet.bytes().to_vec());
                });
                at += size;
            }
            prop_assert!(aligner.rest.len() <= MAX_SEARCH);
            let whole = came.len().saturating_sub(1);
            prop_assert_eq!(&came[..whole], &packets[..whole]);
            prop_assert!(whole + 5 > at / LENGTH);
        }
    }

    /// Sizes of datagrams except those of whole packets, for which a single byte proves the phase.
    fn size(max: usize) -> impl Strategy<Value = usize> {
        (1..max).prop_map(|size| size + usize::from(size.is_multiple_of(LENGTH)))
    }
}
