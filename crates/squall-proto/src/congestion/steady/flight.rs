//! Packets in flight, the round trip, and the rounds that they make.

use squall_units::{Span, Time};

use super::units::Delay;

/// Weight of a new round trip in the smoothed one.
const WEIGHT: f64 = 1.0 / 8.0;
/// Round trips after which a wait of data is no sign of the present.
const LIMITED_ROUND_TRIPS: f64 = 2.0;

/// Packets of one path.
#[derive(Debug, Default)]
pub(super) struct Flight {
    /// Number of the packet that leaves next.
    next: u64,
    in_flight: u64,
    delivered: u64,
    /// Newest packet of the present batch of acknowledgements, and its departure.
    newest: Option<(u64, Time)>,
    /// Bytes of these acknowledgements.
    acked: u64,
    smoothed_rtt: Delay,
    /// Packet whose arrival ends the round, about a round trip: the first that left after it began.
    round_end: u64,
    /// Time when data last waited for the window or the pacer.
    waited: Option<Time>,
}

impl Flight {
    pub(super) fn on_sent(&mut self, packet: u64, bytes: u64) {
        self.next = packet + 1;
        self.in_flight += bytes;
    }

    /// Records that data waits for the window or the pacer.
    pub(super) fn on_waiting(&mut self, now: Time) {
        self.waited = Some(now);
    }

    pub(super) fn on_ack(&mut self, packet: u64, sent: Time, bytes: u64) {
        self.delivered += bytes;
        self.acked += bytes;
        self.remove(bytes);
        if self.newest.is_none_or(|(newest, _)| packet > newest) {
            self.newest = Some((packet, sent));
        }
    }

    /// Called after all acknowledgements that arrived together. Returns their bytes.
    pub(super) fn on_end_acks(&mut self, now: Time) -> Option<u64> {
        let (_, sent) = self.newest.take()?;
        let weight = if self.smoothed_rtt == Delay::ZERO { 1.0 } else { WEIGHT };
        self.smoothed_rtt.approach((now - sent).into(), weight);
        Some(std::mem::take(&mut self.acked))
    }

    /// Removes bytes from those in flight.
    pub(super) fn remove(&mut self, bytes: u64) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
    }

    /// Returns `true` if the arrival of a packet ends the round. The next one then begins.
    pub(super) fn ends_round(&mut self, packet: u64) -> bool {
        let ends = packet >= self.round_end;
        if ends {
            self.round_end = self.next;
        }
        ends
    }

    pub(super) fn next(&self) -> u64 {
        self.next
    }

    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Returns zero before the first acknowledgement.
    pub(super) fn smoothed_rtt(&self) -> Delay {
        self.smoothed_rtt
    }

    /// Returns `true` if the path, not the application, limited the rate recently.
    pub(super) fn is_limited(&self, now: Time) -> bool {
        let lasts: Span = (self.smoothed_rtt * LIMITED_ROUND_TRIPS).span();
        self.waited.is_some_and(|at| now < at + lasts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Time {
        Time::from_micros(1_000 * millis)
    }

    #[test]
    fn a_round_ends_with_the_first_packet_that_left_in_it() {
        let mut flight = Flight::default();
        (0..10).for_each(|packet| flight.on_sent(packet, 1_000));
        assert!(flight.ends_round(0));
        (10..20).for_each(|packet| flight.on_sent(packet, 1_000));
        assert_eq!([9, 10, 11].map(|packet| flight.ends_round(packet)), [false, true, false]);
    }

    #[test]
    fn the_newest_packet_of_a_lump_gives_the_round_trip() {
        let mut flight = Flight::default();
        flight.on_sent(0, 1_000);
        flight.on_sent(1, 1_000);
        flight.on_ack(1, ms(20), 1_000);
        flight.on_ack(0, ms(0), 1_000);
        assert_eq!(flight.on_end_acks(ms(60)), Some(2_000));
        assert_eq!(flight.smoothed_rtt(), Delay::new(40e3));
        assert_eq!((flight.in_flight(), flight.delivered(), flight.on_end_acks(ms(70))), (0, 2_000, None));
        flight.on_ack(2, ms(20), 1_000);
        flight.on_end_acks(ms(68));
        assert_eq!(flight.smoothed_rtt(), Delay::new(41e3));
    }

    #[test]
    fn data_that_waited_counts_for_two_round_trips() {
        let mut flight = Flight::default();
        flight.on_ack(0, ms(0), 1_000);
        flight.on_end_acks(ms(40));
        assert!(!flight.is_limited(ms(40)));
        flight.on_waiting(ms(50));
        assert!(flight.is_limited(ms(129)) && !flight.is_limited(ms(130)));
    }
}
