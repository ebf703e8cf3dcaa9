//! Bursts of packets after a pause, whose first ones meet no queue of ours.

use std::collections::VecDeque;

use squall_units::{Span, Time};

use super::units::Delay;

/// Packets of a burst that show the delay of the path: later ones show its rate.
const FIRST_PACKETS: u64 = 8;
/// Shortest pause between packets that is remembered.
const PAUSE: Span = Span::from_millis(1);
/// Largest number of pauses that are remembered.
const MAX_PAUSES: usize = 256;

/// Pauses of one path's sender.
#[derive(Debug, Default)]
pub(super) struct Bursts {
    /// Departure of the last packet.
    left: Time,
    /// Pauses before packets that were not reported yet.
    pauses: VecDeque<(u64, Span)>,
    /// Packet of the latest report.
    reported: u64,
    /// The first packet after the latest pause, if all before it had arrived by then.
    first: Option<u64>,
}

impl Bursts {
    /// Records the departure of a packet.
    pub(super) fn on_sent(&mut self, now: Time, packet: u64) {
        let pause = now - self.left;
        self.left = now;
        if pause < PAUSE {
            return;
        }
        if self.pauses.len() == MAX_PAUSES {
            self.pauses.pop_front();
        }
        self.pauses.push_back((packet, pause));
    }

    /// Records a report of a packet after one that met this queue, where each packet takes a time
    /// of `takes`. Returns the number of packets of its burst ahead of it, if they are few and all
    /// before the burst had arrived when it began: packets since the last report add to the queue,
    /// pauses reduce it.
    pub(super) fn on_arrival(&mut self, packet: u64, queue: Delay, takes: Delay) -> Option<u64> {
        let (mut before, mut wait) = (self.reported, queue);
        while let Some(&(first, pause)) = self.pauses.front()
            && first <= packet
        {
            self.pauses.pop_front();
            wait = wait + (takes * first.saturating_sub(before + 1) as f64 - pause.into());
            self.first = (wait <= Delay::ZERO).then_some(first);
            (before, wait) = (first.saturating_sub(1), wait.max(Delay::ZERO));
        }
        self.reported = packet;
        let first = self.first.filter(|first| packet < first + FIRST_PACKETS)?;
        Some(packet.saturating_sub(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAKES: Delay = Delay::new(1e3);

    /// Bursts of ten packets each 50 ms.
    fn sent() -> Bursts {
        let mut bursts = Bursts::default();
        for packet in 0..50 {
            bursts
                .on_sent(Time::from_micros(1_000_000 + 50_000 * (packet / 10) + 100 * (packet % 10)), packet);
        }
        bursts
    }

    #[test]
    fn the_first_packets_after_a_pause_count_if_all_before_had_arrived() {
        let mut bursts = sent();
        let no_queue = Delay::ZERO;
        let ahead = [10, 13, 17, 18, 20].map(|packet| bursts.on_arrival(packet, no_queue, TAKES));
        assert_eq!(ahead, [Some(0), Some(3), Some(7), None, Some(0)]);
        let queue = Delay::new(60e3);
        assert_eq!(bursts.on_arrival(30, queue, TAKES), None, "20 ms are left of the queue and the packets");
        assert_eq!(bursts.on_arrival(40, no_queue, TAKES), Some(0));
    }

    #[test]
    fn few_pauses_are_remembered() {
        let mut bursts = Bursts::default();
        (0..2 * MAX_PAUSES as u64)
            .for_each(|packet| bursts.on_sent(Time::from_micros(packet * 10_000), packet));
        assert_eq!(bursts.pauses.len(), MAX_PAUSES);
    }
}
