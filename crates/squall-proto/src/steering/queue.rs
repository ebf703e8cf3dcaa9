//! Datagrams queued inside noq, which leave in a packet or are dropped.

use std::time::Instant;

use bytes::Bytes;
use squall_sched::PathId;

use super::{Connection, Departure, Entry, QuicPath, Sent, places};
use crate::{varint, wire};

/// Bytes that noq reserves for the frame of a datagram, when it reports the largest size.
const MAX_FRAME_OVERHEAD: usize = 9;

/// Returns the overhead of a DATAGRAM frame beside its content: type and length (RFC 9221 §4).
fn frame_overhead(len: usize) -> usize {
    1 + varint::len(len as u64)
}

impl<P, S: Entry> Connection<P, S> {
    /// Queues a datagram inside noq. At most a batch for one path may be queued at a time.
    pub(crate) fn queue(&mut self, datagram: Bytes, payload: P) -> Result<(), P> {
        let len = datagram.len();
        // If there is no room, leftovers of `drop_oversized` are dropped.
        match self.inner.datagrams().send(datagram, true) {
            Ok(()) => {
                self.queued.push_back((len, payload));
                self.queued_bytes += len;
                Ok(())
            }
            Err(_) => Err(payload),
        }
    }

    /// Returns `true` if the next large packet of the path is to be filled ([`mtu`](super::mtu)).
    pub(crate) fn lacks_full(&self, id: PathId, now: Instant) -> bool {
        self.paths[id].quic().ledger.lock().sizes.lacks_full(self.clock.of_quic(now))
    }

    /// Fills the packet of a datagram of `len` bytes, which was queued just now and is the first of
    /// its packet, up to the MTU of its path, if it is a large one; returns `true` on success.
    /// `ahead` packets leave before it. The padding is a datagram of its own.
    pub(crate) fn fill(&mut self, id: PathId, len: usize, ahead: usize, payload: P) -> bool {
        let overhead =
            usize::from(self.inner.current_mtu()).checked_sub(self.max_datagram() + MAX_FRAME_OVERHEAD);
        let sizes = self.paths[id].quic().ledger.lock().sizes;
        let used = frame_overhead(len) + len;
        let missing = overhead.and_then(|overhead| sizes.missing(overhead, used, ahead));
        // Type and length of the frame, in two bytes or three.
        let padding = missing.and_then(|missing| missing.checked_sub(if missing < 0x42 { 2 } else { 3 }));
        let datagram = padding.and_then(wire::padding);
        datagram.is_some_and(|datagram| self.queue(datagram.into(), payload).is_ok())
    }

    /// Determines the datagrams that noq has dropped silently as too long: it does so when it finds
    /// that large packets no longer pass on a path.
    pub(super) fn find_dropped(&mut self) {
        if self.queued.is_empty() {
            return;
        }
        let left = self.buffer_size - self.inner.datagrams().send_buffer_space();
        // By length and not by the size that fits now, which may have changed again.
        while self.queued_bytes > left
            && let Some(longest) = self.queued.iter().map(|(len, _)| *len).max()
        {
            let (dropped, kept): (Vec<_>, Vec<_>) =
                self.queued.drain(..).partition(|(len, _)| *len == longest);
            self.queued = kept.into();
            self.queued_bytes -= longest * dropped.len();
            self.dropped.extend(dropped.into_iter().map(|(_, payload)| payload));
        }
    }

    /// Makes noq drop all queued datagrams, if one of them has become too long to be certain to
    /// leave; returns `true` in that case.
    ///
    /// noq never sends a datagram that is longer than the packets of all paths, nor any behind it:
    /// after a move, when it has searched for the MTU again and found slightly less than before. It
    /// has no call to take one back, but the oldest are dropped where there is no room. Therefore
    /// empty ones, each of which uses two bytes of a packet, push out the others.
    pub(crate) fn drop_oversized(&mut self) -> bool {
        let most = self.max_datagram();
        if self.is_broken || self.queued.iter().all(|(len, _)| *len <= most) {
            return false;
        }
        let mut datagrams = self.inner.datagrams();
        // The largest possible number.
        for _ in 0..self.buffer_size {
            let is_empty = datagrams.send_buffer_space() == self.buffer_size;
            if is_empty || datagrams.send(Bytes::new(), true).is_err() {
                break;
            }
        }
        self.find_dropped();
        true
    }

    /// Returns `true` if datagrams wait inside noq, because the poll for them returned another
    /// packet.
    pub(crate) fn has_queued(&self) -> bool {
        !self.queued.is_empty()
    }

    /// Assigns departed datagrams to packets, from the ledgers and the remaining queue.
    pub(super) fn attribute(&mut self) {
        let left = self.buffer_size - self.inner.datagrams().send_buffer_space();
        let sent = &mut self.departures;
        let first = sent.len();
        let mut depart = |quic: &QuicPath| {
            let mut ledger = quic.ledger.lock();
            sent.extend(ledger.sent.drain(..).map(|Departure { packet, bytes }| Sent {
                path: quic.number,
                packet,
                bytes,
                certain: true,
                payload: None,
            }));
        };
        self.paths.by_number().for_each(|id| depart(self.paths[id].quic()));
        self.pending.iter().for_each(depart);
        if self.queued_bytes <= left {
            return;
        }
        let packets: Vec<usize> = sent[first..].iter().map(|packet| packet.bytes.into()).collect();
        let mut gone = 0;
        while self.queued_bytes > left
            && let Some((len, _)) = self.queued.get(gone)
        {
            self.queued_bytes -= len;
            gone += 1;
        }
        let lengths: Vec<usize> = self.queued.iter().take(gone).map(|(len, _)| *len).collect();
        places::places(&packets, &lengths, &mut self.places);
        debug_assert!(!packets.is_empty(), "a datagram left without a packet");
        for ((_, payload), place) in self.queued.drain(..gone).zip(&self.places) {
            let at = first + place.unwrap_or(0);
            match sent.get_mut(at) {
                Some(packet) if place.is_some() && packet.payload.is_none() => packet.payload = Some(payload),
                Some(&mut Sent { path, packet, .. }) => {
                    sent.push(Sent {
                        path,
                        packet,
                        bytes: 0,
                        certain: place.is_some(),
                        payload: Some(payload),
                    });
                }
                None => {}
            }
        }
    }
}
