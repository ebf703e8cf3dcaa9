//! Sizes of data that a path loses. A device on it may drop packets of some sizes: those of data,
//! while probes, which are smaller or larger, pass.

use squall_sched::{Span, Time};

use super::life::FULL_SIZE;

/// Classes of sizes below the full one, which is judged by itself.
const CLASSES: u16 = 8;
/// Smallest number of data packets by which a class is judged: with 30 % of random loss two thirds
/// of them are lost in one of 300,000 cases.
const PACKETS: u32 = 32;
/// Shortest time by which a class is judged: no queue that a sender fills, and no policer that it
/// exceeds, loses that much for longer than its controller needs to respond.
const PERIOD: Span = Span::from_secs(1);

/// Fates of the data on a path by size, since the last judgement.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sizes([Class; CLASSES as usize]);

#[derive(Clone, Copy, Debug, Default)]
struct Class {
    since: Time,
    /// Time of the latest fate.
    latest: Time,
    acked: u32,
    lost: u32,
}

impl Sizes {
    /// Records the arrival of a packet with data.
    pub(super) fn on_ack(&mut self, now: Time, bytes: u16) {
        if let Some(class) = self.class(now, bytes) {
            class.acked = class.acked.saturating_add(1);
        }
    }

    /// Records the loss of a packet with data. Returns the time for which more than two thirds of
    /// its size class were lost, if that is long enough.
    pub(super) fn on_loss(&mut self, now: Time, bytes: u16) -> Option<Span> {
        let class = self.class(now, bytes)?;
        class.lost += 1;
        let time = now - class.since;
        if time < PERIOD || class.acked.saturating_add(class.lost) < PACKETS {
            return None;
        }
        let is_blocked = class.lost / 2 > class.acked;
        *class = Class::default();
        is_blocked.then_some(time)
    }

    fn class(&mut self, now: Time, bytes: u16) -> Option<&mut Class> {
        let class = self.0.get_mut(usize::from(bytes / (FULL_SIZE / CLASSES)))?;
        // Losses before a pause do not count with those after it: a burst of losses would look
        // long.
        if (class.acked, class.lost) == (0, 0) || now - class.latest > PERIOD {
            *class = Class { since: now, ..Class::default() };
        }
        class.latest = now;
        Some(class)
    }
}
