//! The forecast of a session, and what was reported of it.

use squall_sched::Time;

use crate::{
    Capacity,
    capacity::{Changes, Forecast},
};

/// What counts of the headers of a packet when the next one left: those of the last few hundred make the mean.
const FADE: f64 = 0.995;

/// What is going to be carried, by the history, and what both sides want.
#[derive(Debug, Default)]
pub(super) struct Outlook {
    /// Of the sum of its paths, or what the scheduler makes of them.
    pub(super) forecast: Forecast,
    pub(super) look_at: Time,
    /// The part of packets that is data of blocks.
    pub(super) payload_share: f64,
    /// Bytes of data, and of the packets with them, that left lately.
    pub(super) departed: (f64, f64),
    pub(super) changes: Changes,
    pub(super) news: Option<Box<Capacity>>,
    /// Bits per second that the peer wants at most.
    pub(super) wanted: Option<u64>,
    /// Bits per second that the application wants from the peer at most.
    pub(super) requested: Option<u64>,
}

impl Outlook {
    /// A path changed: the rate is looked at before its time.
    pub(super) fn look_again(&mut self) {
        self.look_at = Time::EPOCH;
    }

    /// The peer says what it wants.
    pub(super) fn on_wanted(&mut self, wanted: Option<u64>) {
        if self.wanted != wanted {
            self.wanted = wanted;
            self.look_again();
        }
    }

    /// A packet left with data of blocks.
    pub(super) fn on_departure(&mut self, data: u32, packet: u16) {
        let (all_data, all_packets) = self.departed;
        self.departed = (FADE * all_data + f64::from(data), FADE * all_packets + f64::from(packet));
    }

    pub(super) fn has_news(&self) -> bool {
        self.news.is_some()
    }
}
