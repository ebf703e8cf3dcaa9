//! Assignment of departed datagrams to packets.
//!
//! noq does not report it. It fills packets in order with queued datagrams, in order, and puts
//! acknowledgements and other frames before, whose size is unknown too. Therefore there is an
//! earliest packet and a latest one for each datagram, and where these differ nothing may be
//! concluded from the fate of either.

/// Smallest overhead of a packet beside its frames: flags, a connection id of noq's length, a
/// packet number, the tag of the cipher (RFC 9000 §17.3.1, RFC 9001 §5.3).
const PACKET_OVERHEAD: usize = 1 + 8 + 1 + 16;

/// Smallest overhead of a DATAGRAM frame beside its content (RFC 9221 §4).
const FRAME_OVERHEAD: usize = 1;

/// Determines the packet of each datagram, from the sizes of both, in the order in which they left;
/// `None` if it may be in more than one.
pub(super) fn places(packets: &[usize], datagrams: &[usize], places: &mut Vec<Option<usize>>) {
    places.clear();
    let mut earliest = Filling::new(packets.iter().copied());
    places.extend(datagrams.iter().map(|len| earliest.place(*len)));
    let mut latest = Filling::new(packets.iter().copied().rev());
    for (place, len) in places.iter_mut().zip(datagrams).rev() {
        let late = latest.place(*len).and_then(|at| packets.len().checked_sub(at + 1));
        *place = place.filter(|early| late == Some(*early));
    }
}

/// Packets in the order in which they are filled, each to capacity.
struct Filling<I> {
    packets: std::iter::Enumerate<I>,
    open: Option<(usize, usize)>,
}

impl<I: Iterator<Item = usize>> Filling<I> {
    fn new(packets: I) -> Self {
        Self { packets: packets.enumerate(), open: None }
    }

    /// Returns the packet that a datagram is placed in.
    fn place(&mut self, len: usize) -> Option<usize> {
        let needed = len + FRAME_OVERHEAD;
        loop {
            if let Some((at, room)) = &mut self.open
                && *room >= needed
            {
                *room -= needed;
                return Some(*at);
            }
            let (at, size) = self.packets.next()?;
            self.open = Some((at, size.saturating_sub(PACKET_OVERHEAD)));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(packets: &[usize], datagrams: &[usize]) -> Vec<Option<usize>> {
        let mut all = Vec::new();
        places(packets, datagrams, &mut all);
        all
    }

    #[test]
    fn full_packets_have_a_datagram_each() {
        assert_eq!(found(&[1200, 1200, 700], &[1160, 1160, 650]), [Some(0), Some(1), Some(2)]);
        assert_eq!(found(&[60, 1200], &[1160]), [Some(1)], "the first has other frames only");
        assert_eq!(found(&[1200], &[1000, 20]), [Some(0), Some(0)]);
        assert_eq!(found(&[], &[20]), [None]);
    }

    #[test]
    fn a_small_datagram_behind_acknowledgements_may_be_in_either_packet() {
        // 28 bytes of acknowledgements were in the first packet, which had no room for it.
        assert_eq!(found(&[1185, 56], &[1130, 24]), [Some(0), None]);
    }

    proptest! {
        #[test]
        fn what_is_said_is_true(all in prop::collection::vec((0usize..200, prop::collection::vec(1usize..600, 0..4)), 0..6)) {
            let size = |(other, datagrams): &(usize, Vec<usize>)| {
                PACKET_OVERHEAD + other + datagrams.iter().map(|len| len + FRAME_OVERHEAD).sum::<usize>()
            };
            let packets: Vec<usize> = all.iter().map(size).collect();
            let truth = all.iter().enumerate().flat_map(|(at, (_, datagrams))| datagrams.iter().map(move |len| (at, *len)));
            let (truth, datagrams): (Vec<usize>, Vec<usize>) = truth.unzip();
            for (said, truth) in found(&packets, &datagrams).into_iter().zip(truth) {
                prop_assert!(said.is_none_or(|said| said == truth), "{said:?} instead of {truth}");
            }
        }
    }
}
