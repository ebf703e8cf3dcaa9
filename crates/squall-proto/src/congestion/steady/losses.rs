//! Decides whether losses are a queue's or the medium's.

/// Weight of a packet in the shares that are compared: means over some 2,000 packets. Over 500,
/// chance cuts the window of a link that loses 1 % by itself to two thirds on average, and four of
/// five key frames of `lossy-12mbps` arrive too late.
const COMPARED_WEIGHT: f64 = 0.0005;
/// More than one lost packet in this many is congestion in any case (draft-ietf-rmcat-gcc-02 draws
/// the same line), after [`HEAVY_ROUNDS`].
const TOLERATED: u32 = 10;
/// Consecutive rounds with that many losses after which they are congestion: the losses of an
/// outage are reported within one or two.
const HEAVY_ROUNDS: u8 = 3;
/// Smallest number of packets in a round. With fewer it continues.
const LEAST_PACKETS: u32 = 10;
/// Ratio of the loss of packets that met a queue to that of the others above which it is
/// congestion. Random loss affects both alike.
const CONTRAST: f64 = 2.0;
/// Consecutive packets that are lost are one event. In a longer row one in this many may arrive:
/// radios have outages from which single packets escape.
const ESCAPED: u64 = 16;

/// Loss rates of packets that met a queue, of those that met none, and of all.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    /// Events per packet that met a queue.
    queued: f64,
    /// Events per packet that met no queue.
    clear: f64,
    row: Row,
    /// Packets of this round.
    packets: u32,
    /// Lost packets of this round.
    lost: u32,
    /// Consecutive rounds with too many losses.
    heavy_rounds: u8,
}

/// Consecutive lost packets.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    last: u64,
    /// Number of packets, zero if there was none.
    count: u64,
}

impl Row {
    /// Adds a lost packet. Returns `true` if it begins another row.
    fn begins_with(&mut self, packet: u64) -> bool {
        let goes_on =
            self.count > 0 && (self.last + 1..=self.last + 1 + self.count / ESCAPED).contains(&packet);
        *self = Self { last: packet, count: if goes_on { self.count + 1 } else { 1 } };
        !goes_on
    }
}

impl Losses {
    /// Records the arrival of a packet, while the path had a queue or not.
    pub(super) fn on_packet(&mut self, met_queue: bool) {
        self.packets += 1;
        let share = self.share(met_queue);
        *share -= COMPARED_WEIGHT * *share;
    }

    /// Records the loss of a packet.
    pub(super) fn on_loss(&mut self, packet: u64, met_queue: bool) {
        (self.packets, self.lost) = (self.packets + 1, self.lost + 1);
        if self.row.begins_with(packet) {
            let share = self.share(met_queue);
            *share += COMPARED_WEIGHT * (1.0 - *share);
        }
    }

    fn share(&mut self, met_queue: bool) -> &mut f64 {
        if met_queue { &mut self.queued } else { &mut self.clear }
    }

    /// Ends the round.
    pub(super) fn end_round(&mut self) {
        if self.packets >= LEAST_PACKETS {
            let is_heavy = TOLERATED * self.lost > self.packets;
            self.heavy_rounds = if is_heavy { self.heavy_rounds.saturating_add(1) } else { 0 };
            (self.packets, self.lost) = (0, 0);
        }
    }

    /// Returns `true` if a loss now is by congestion.
    pub(super) fn is_congestion(&self, met_queue: bool) -> bool {
        // Almost three standard deviations of such a mean: each loss is judged, and one mistake in
        // thousands is enough.
        let chance = 2.0 * (COMPARED_WEIGHT * self.clear).sqrt();
        self.heavy_rounds >= HEAVY_ROUNDS || met_queue && self.queued > CONTRAST * self.clear + chance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the next of a fixed sequence of chances, from 0 to below 1.
    fn next_chance(random: &mut u64) -> f64 {
        *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*random >> 33) as f64 / f64::from(1_u32 << 31)
    }

    /// Loses one packet in `queued` of those that met a queue, and one in `clear` of the others; in
    /// rounds of fifty packets.
    fn losses(queued: u64, clear: u64) -> Losses {
        let mut losses = Losses::default();
        for packet in 1..4_000 {
            for (met_queue, every) in [(true, queued), (false, clear)] {
                // Not consecutive.
                if packet % every == 0 {
                    losses.on_loss(20 * packet + 10 * u64::from(!met_queue), met_queue);
                } else {
                    losses.on_packet(met_queue);
                }
            }
            if packet % 25 == 0 {
                losses.end_round();
            }
        }
        losses
    }

    #[test]
    fn losses_are_of_congestion_if_packets_in_queues_are_lost_more_often() {
        assert!(losses(50, 1_000_000).is_congestion(true), "queues alone lose");
        assert!(!losses(50, 1_000_000).is_congestion(false), "this one met none");
        assert!(!losses(50, 50).is_congestion(true), "the medium loses");
        assert!(losses(6, 6).is_congestion(false), "too much for any medium");
    }

    #[test]
    fn chance_is_no_congestion() {
        // A medium that loses one packet in a hundred, one or four in a row, whatever the queue. Four thousand are
        // lost.
        for (row, tolerated) in [(1, 0), (4, 40)] {
            let (mut random, mut losses, mut mistakes) = (1, Losses::default(), 0);
            let mut left = 0;
            for packet in 0..400_000 {
                let (met_queue, begins) =
                    (next_chance(&mut random) < 0.5, next_chance(&mut random) < 0.01 / f64::from(row));
                left = if begins { row } else { left.max(1) - 1 };
                if left == 0 {
                    losses.on_packet(met_queue);
                    continue;
                }
                losses.on_loss(packet, met_queue);
                mistakes += u32::from(packet >= 4_000 && losses.is_congestion(met_queue));
            }
            assert!(mistakes <= tolerated, "{row} in a row: {mistakes}");
        }
    }

    #[test]
    fn an_outage_is_one_event_and_no_congestion() {
        let mut losses = losses(1_000_000, 200);
        // Three of 200 packets arrive.
        for packet in (50_000..50_200).filter(|packet| ![50_050, 50_100, 50_150].contains(packet)) {
            losses.on_loss(packet, true);
        }
        losses.end_round();
        assert!(!losses.is_congestion(true) && !losses.is_congestion(false));
    }

    #[test]
    fn too_much_is_lost_in_three_rounds_of_a_row() {
        let mut losses = Losses::default();
        let mut round = |lost: u64| {
            (0..50 - lost).for_each(|_| losses.on_packet(false));
            (0..lost).for_each(|packet| losses.on_loss(10 * packet, false));
            losses.end_round();
            losses.is_congestion(false)
        };
        assert_eq!([6, 6, 6, 6, 5, 6].map(&mut round), [false, false, true, true, false, false]);
    }

    #[test]
    fn a_round_of_few_packets_lasts_until_there_are_more() {
        let mut losses = Losses::default();
        for packet in 0..60 {
            if packet % 5 == 0 {
                losses.on_loss(packet, false);
            } else {
                losses.on_packet(false);
            }
            losses.end_round();
        }
        assert!(losses.is_congestion(false));
    }
}
