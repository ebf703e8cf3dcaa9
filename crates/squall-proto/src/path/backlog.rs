//! The queue that own packets form on a path, from their departures.

use squall_sched::{Span, Time};

/// A bucket that departures fill and the rate of the path drains.
///
/// Bytes in flight show only a queue that is always there: those of two frames may be in flight with
/// a pause in between, so that they fill no more than a round trip although the second frame waits.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Backlog {
    queue: Span,
    /// Time of the last departure.
    at: Time,
}

impl Backlog {
    /// Returns the time until the queue is empty.
    pub(crate) fn after(&self, now: Time) -> Span {
        self.queue - (now - self.at)
    }

    /// Records bytes that need the time `takes`.
    pub(crate) fn on_departure(&mut self, at: Time, takes: Span) {
        (self.queue, self.at) = (self.after(at) + takes, at);
    }
}

#[cfg(test)]
mod tests {
    use squall_units::short::{at_ms, ms};

    use super::*;

    #[test]
    fn bytes_wait_for_those_that_left_shortly_before() {
        let mut backlog = Backlog::default();
        (0..10).for_each(|_| backlog.on_departure(at_ms(100), ms(2)));
        assert_eq!((backlog.after(at_ms(100)), backlog.after(at_ms(115))), (ms(20), ms(5)));
        assert_eq!(backlog.after(at_ms(130)), ms(0));
    }
}
