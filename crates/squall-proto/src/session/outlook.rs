//! The forecast of a session, and its reported part.

use squall_sched::Time;

use crate::{
    Capacity,
    capacity::{Changes, Forecast},
};

/// Decay of the payload share per departed packet: the last few hundred make the mean.
const FADE: f64 = 0.995;

/// Forecast of the rate, and limits from both sides.
#[derive(Debug, Default)]
pub(super) struct Outlook {
    /// Forecast for the sum of the paths, or for their combination by the scheduler.
    pub(super) forecast: Forecast,
    pub(super) look_at: Time,
    /// Share of packets that is data of blocks.
    pub(super) payload_share: f64,
    /// Recent bytes of data, and of the packets that carried it.
    pub(super) departed: (f64, f64),
    pub(super) changes: Changes,
    pub(super) news: Option<Box<Capacity>>,
    /// Largest rate in bits per second that the peer requested.
    pub(super) wanted: Option<u64>,
    /// Largest rate in bits per second that the application requested from the peer.
    pub(super) requested: Option<u64>,
}

impl Outlook {
    /// Requests an early update, because a path changed.
    pub(super) fn look_again(&mut self) {
        self.look_at = Time::EPOCH;
    }

    /// Applies the rate that the peer requests.
    pub(super) fn on_wanted(&mut self, wanted: Option<u64>) {
        if self.wanted != wanted {
            self.wanted = wanted;
            self.look_again();
        }
    }

    /// Records the departure of a packet with data of blocks.
    pub(super) fn on_departure(&mut self, data: u32, packet: u16) {
        let (all_data, all_packets) = self.departed;
        self.departed = (FADE * all_data + f64::from(data), FADE * all_packets + f64::from(packet));
    }

    pub(super) fn has_news(&self) -> bool {
        self.news.is_some()
    }
}
