//! Which sizes of data a path loses. A device on it may drop packets of some sizes: those of data, while probes, which are
//! smaller or larger, pass.

use squall_sched::{Span, Time};

use super::life::FULL_SIZE;

/// Classes of sizes below the full one, which is judged by itself.
const CLASSES: u16 = 8;
/// A class is judged by as many packets of data at least: with 30 % of random loss two thirds of them are lost in one of
/// 300,000 cases.
const PACKETS: u32 = 32;
/// A class is judged by as long a time at least: no queue that a sender fills, and no policer that it overruns, lets so little
/// through for longer than its controller takes to notice.
const PERIOD: Span = Span::from_secs(1);

/// Fates of the data on a path by size, since it was judged last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sizes([Class; CLASSES as usize]);

#[derive(Clone, Copy, Debug, Default)]
struct Class {
    since: Time,
    /// When the latest fate was known.
    latest: Time,
    acked: u32,
    lost: u32,
}

impl Sizes {
    /// A packet with data has arrived.
    pub(super) fn on_ack(&mut self, now: Time, bytes: u16) {
        if let Some(class) = self.class(now, bytes) {
            class.acked = class.acked.saturating_add(1);
        }
    }

    /// A packet with data is lost. Returns for how long more than two thirds of those of its size were lost, if that is long enough.
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
        // What was before a pause is no part of what follows it: a burst of losses would look long.
        if (class.acked, class.lost) == (0, 0) || now - class.latest > PERIOD {
            *class = Class { since: now, ..Class::default() };
        }
        class.latest = now;
        Some(class)
    }
}
