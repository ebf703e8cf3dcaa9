//! Several endpoints behind the same addresses, and the assignment of datagrams to them.
//!
//! A connection stays with the worker that accepted it, whatever its addresses become. Therefore
//! the worker is selected by the destination connection id, which a peer repeats in every packet,
//! and never by addresses: the low five bits of the first byte of the id, modulo the number of
//! workers. Ids that a worker issues contain its number there; ids that clients choose for their
//! first packets are random, and spread. QUIC-LB leaves these bits to the server
//! (draft-ietf-quic-load-balancers-21 §3), so both can be combined. Positions are those of RFC
//! 8999, so they apply to every version of QUIC.

/// Largest number of workers of an endpoint: as many as the five bits distinguish.
pub const MAX_WORKERS: usize = 32;

/// Bits of the first byte of a connection id that identify the worker.
pub(crate) const WORKER_BITS: u8 = MAX_WORKERS as u8 - 1;

/// One of the endpoints that share a server's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Worker {
    pub(crate) index: usize,
    /// Number of workers, 1 to [`MAX_WORKERS`].
    pub(crate) count: usize,
}

impl Worker {
    /// The only endpoint of its addresses.
    pub(crate) const ALONE: Self = Self { index: 0, count: 1 };

    /// Returns `true` if a connection id belongs to this worker.
    pub(crate) fn has(self, id: &[u8]) -> bool {
        id.first().is_some_and(|first| of_id(*first, self.count) == self.index)
    }

    /// Returns the low bits of an id of this worker: among all its values the one that `draw`
    /// selects.
    pub(crate) fn low_bits(self, draw: u8) -> u8 {
        let choices = (MAX_WORKERS - self.index).div_ceil(self.count);
        (self.index + usize::from(draw) % choices * self.count) as u8
    }

    /// Returns the share of this worker of a common limit; at least 1.
    pub(crate) fn share(self, total: usize) -> usize {
        (total / self.count).max(1)
    }
}

/// Returns the worker, out of `workers`, that a UDP datagram is for. A datagram that is too short
/// for a connection id is for the first, as in the kernel.
pub fn worker_of(datagram: &[u8], workers: usize) -> usize {
    let is_long = datagram.first().is_some_and(|first| first & 0x80 != 0);
    let first_of_id = datagram.get(if is_long { LONG_ID_AT } else { SHORT_ID_AT });
    first_of_id.map_or(0, |first| of_id(*first, workers))
}

/// Offset of the destination connection id behind a long header: after the version and its own
/// length (RFC 8999 §5.1).
pub const LONG_ID_AT: usize = 6;

/// Offset of the destination connection id behind a short header (RFC 8999 §5.2).
pub const SHORT_ID_AT: usize = 1;

/// Returns the destination connection id of a UDP payload (RFC 8999 §5): with a long header its
/// length is in the packet, with a short one it is `short_len`, because all ids of a server have
/// one length. `None` if the payload is too short.
pub fn destination_id(datagram: &[u8], short_len: usize) -> Option<&[u8]> {
    if datagram.first()? & 0x80 == 0 {
        return datagram.get(SHORT_ID_AT..SHORT_ID_AT + short_len);
    }
    let len = usize::from(*datagram.get(LONG_ID_AT - 1)?);
    datagram.get(LONG_ID_AT..LONG_ID_AT + len)
}

fn of_id(first: u8, workers: usize) -> usize {
    usize::from(first & WORKER_BITS) % workers.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worker_is_read_where_the_header_has_the_id() {
        let short = [0x40, 0b111_00101, 9, 9];
        let long = [0xc0, 0, 0, 0, 1, 8, 0b010_00111, 1, 2];
        assert_eq!((worker_of(&short, 32), worker_of(&long, 32)), (5, 7));
        assert_eq!((worker_of(&short, 4), worker_of(&long, 4)), (1, 3));
        assert_eq!(worker_of(&long, 1), 0);
    }

    #[test]
    fn datagrams_without_an_id_are_for_the_first_worker() {
        for datagram in [&[][..], &[0x40], &[0xc0, 0, 0, 0, 1, 8]] {
            assert_eq!(worker_of(datagram, 7), 0, "{datagram:?}");
        }
    }

    #[test]
    fn the_id_is_found_behind_both_headers() {
        assert_eq!(destination_id(&[0x40, 1, 2, 3, 4], 3), Some(&[1, 2, 3][..]));
        assert_eq!(destination_id(&[0xc0, 0, 0, 0, 1, 2, 7, 8, 9], 3), Some(&[7, 8][..]));
        for datagram in [&[][..], &[0x40, 1, 2], &[0xc0, 0, 0, 0, 1], &[0xc0, 0, 0, 0, 1, 2, 7]] {
            assert_eq!(destination_id(datagram, 3), None, "{datagram:?}");
        }
    }

    #[test]
    fn every_first_byte_is_for_one_worker() {
        for count in 1..=MAX_WORKERS {
            for first in 0..=u8::MAX {
                let is_for = |index: &usize| Worker { index: *index, count }.has(&[first, 0]);
                assert_eq!((0..count).filter(is_for).count(), 1);
                let worker = Worker { index: usize::from(first) % count, count };
                assert!(worker.low_bits(first) <= WORKER_BITS && worker.has(&[worker.low_bits(first)]));
            }
        }
    }
}
