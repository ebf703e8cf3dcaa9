//! Packet trains: packets that left close together, and their times of arrival.

use std::collections::VecDeque;

use squall_proto::congestion::Arrival;
use squall_sched::{Span, Time};

/// Maximum number of trains in flight. If none of that many has been acknowledged, the oldest is
/// useless.
const MAX_TRAINS: usize = 256;

/// A time of arrival within a train.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    /// Time of arrival, on the receiver's clock.
    pub(super) at: i64,
    /// Bytes of the train that had arrived by then, without its first packet.
    pub(super) bytes: u64,
}

/// Packets that left close together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Train {
    first_packet: u64,
    last_packet: u64,
    /// Departure of its first packet.
    pub(super) started: Time,
    last_sent: Time,
    /// Number of packets.
    pub(super) packets: u64,
    /// Bytes acknowledged, without the first packet, whose time is already part of the smallest
    /// delay.
    acked: u64,
    /// First and last point.
    pub(super) points: Option<(Point, Point)>,
    /// A later train has begun.
    closed: bool,
}

impl Train {
    fn extend(&mut self, now: Time, packet: u64) {
        self.last_packet = packet;
        self.last_sent = now;
        self.packets += 1;
    }

    fn arrived(&mut self, at: i64) {
        let point = Point { at, bytes: self.acked };
        let first = self.points.map_or(point, |(first, _)| first);
        self.points = Some((first, point));
    }
}

/// Conditions that end a train.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    /// Maximum duration, once it has `packets`.
    pub(super) length: Span,
    /// Minimum number of packets before `length` applies.
    pub(super) packets: u64,
    /// A train also ends before the first packet that leaves after a silence of this length.
    pub(super) silence: Span,
}

/// Trains in flight, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Trains {
    trains: VecDeque<Train>,
}

impl Trains {
    /// Called when a packet is sent.
    pub(super) fn on_sent(&mut self, now: Time, packet: u64, cut: Cut) {
        if let Some(train) = self.trains.back_mut() {
            let old = now - train.started >= cut.length && train.packets >= cut.packets;
            if !old && now - train.last_sent <= cut.silence {
                train.extend(now, packet);
                return;
            }
            train.closed = true;
        }
        if self.trains.len() == MAX_TRAINS {
            self.trains.pop_front();
        }
        self.trains.push_back(Train {
            first_packet: packet,
            last_packet: packet,
            started: now,
            last_sent: now,
            packets: 1,
            acked: 0,
            points: None,
            closed: false,
        });
    }

    fn index_of(&self, packet: u64) -> Option<usize> {
        self.trains.partition_point(|train| train.first_packet <= packet).checked_sub(1)
    }

    /// Called when a packet is acknowledged.
    pub(super) fn on_ack(&mut self, packet: u64, bytes: u64) {
        if let Some(index) = self.index_of(packet)
            && let train = &mut self.trains[index]
            && packet != train.first_packet
        {
            train.acked += bytes;
        }
    }

    /// Called for each time of arrival. Returns the trains that it completes, oldest first: those
    /// before the packet's own, and its own if this is its end.
    pub(super) fn on_arrival(&mut self, arrival: &Arrival) -> Vec<Train> {
        let Some(index) = self.index_of(arrival.packet) else { return Vec::new() };
        let train = &mut self.trains[index];
        train.arrived(arrival.at);
        let ended = train.closed && train.last_packet == arrival.packet;
        let complete = index + usize::from(ended);
        self.trains.drain(..complete).filter(|train| train.points.is_some()).collect()
    }

    /// Removes all trains.
    pub(super) fn clear(&mut self) {
        self.trains.clear();
    }
}

#[cfg(test)]
mod tests {
    use squall_units::short::{at_ms, at_us, ms};

    use super::*;

    const CUT: Cut = Cut { length: ms(10), packets: 3, silence: ms(4) };

    fn sent(times: &[u64]) -> Trains {
        let mut trains = Trains::default();
        for (packet, &now) in times.iter().enumerate() {
            trains.on_sent(at_us(now), packet as u64, CUT);
        }
        trains
    }

    fn sizes(trains: &Trains) -> Vec<u64> {
        trains.trains.iter().map(|t| t.packets).collect()
    }

    #[test]
    fn a_silence_and_a_full_length_end_a_train() {
        assert_eq!(sizes(&sent(&[0, 1_000, 5_000, 9_001, 9_100])), [3, 2]);
        assert_eq!(sizes(&sent(&[0, 3_000, 6_000, 9_000, 10_000, 11_000])), [4, 2]);
        assert_eq!(sizes(&sent(&[0, 4_000, 8_000])), [3]);
        assert_eq!(sizes(&sent(&[0, 4_001, 8_002])), [1, 1, 1]);
    }

    #[test]
    fn a_train_is_complete_when_a_later_one_arrives_or_its_end_does() {
        let mut trains = sent(&[0, 100, 200, 10_000, 10_100]);
        for packet in 0..2 {
            trains.on_ack(packet, 1_000);
        }
        let arrival = |packet, at| Arrival { packet, sent: at_us(0), at };
        assert_eq!(trains.on_arrival(&arrival(1, -50)), []);
        trains.on_ack(2, 700);
        let done = trains.on_arrival(&arrival(2, 90));
        assert_eq!(done.len(), 1, "the end of a train that is closed");
        let points = (Point { at: -50, bytes: 1_000 }, Point { at: 90, bytes: 1_700 });
        assert_eq!((done[0].points, done[0].packets), (Some(points), 3));
        trains.on_ack(4, 300);
        assert_eq!(trains.on_arrival(&arrival(4, 500)), [], "the last may go on");
        trains.on_sent(at_ms(30), 5, CUT);
        let done = trains.on_arrival(&arrival(5, 900));
        let point = Point { at: 500, bytes: 300 };
        assert_eq!(done.iter().map(|t| t.points).collect::<Vec<_>>(), [Some((point, point))]);
    }

    #[test]
    fn trains_that_are_never_answered_are_forgotten() {
        let mut trains = Trains::default();
        for packet in 0..1_000 {
            trains.on_sent(at_ms(packet * 20), packet, CUT);
        }
        assert_eq!(trains.trains.len(), MAX_TRAINS);
        assert!(trains.on_arrival(&Arrival { packet: 3, sent: at_us(0), at: 0 }).is_empty(), "it is gone");
    }
}
