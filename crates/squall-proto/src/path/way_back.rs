//! The direction in which reports leave.

use squall_sched::{Span, Time};

use crate::wire::{Stamp, TICK};

/// Queueing delay of reports that does not reduce their rate.
const QUEUE: Span = Span::from_millis(40);
/// Microseconds in which a queue of reports grows by at most one. Faster growth is caused by a
/// radio, or by a burst.
const GROWTH: u64 = 2;
/// Weight by which a longer delay becomes usual: after two minutes of answers each tenth of a
/// second.
const WEIGHT: f64 = 1.0 / 1_200.0;
/// Weight by which a larger delay of arrivals becomes usual: the peer's clock may be slower by some
/// milliseconds a minute.
const CLOCK_WEIGHT: f64 = 1.0 / 50_000.0;
/// Time after which the last answer is obsolete.
const RECENT: Span = Span::from_millis(200);

/// Delay of reports and their answers, without the excess delay of arrivals: answers wait behind
/// those.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WayBack {
    /// Stamp of the first arrival by its delay, and the smallest and the latest delay beyond it, in
    /// microseconds.
    here: Option<(u32, f64, f64)>,
    /// Time of the last answer, the delay that a queue can have caused, and the usual delay in
    /// microseconds.
    late: Option<(Time, Span, f64)>,
}

impl WayBack {
    /// Records the arrival over the path of data that left at `sent`.
    pub(crate) fn on_arrival(&mut self, now: Time, sent: Stamp) {
        let ticks = Stamp::at(now).since(sent);
        let (reference, least, latest) = self.here.get_or_insert((ticks, 0.0, 0.0));
        *latest = (Stamp::distance(ticks, *reference) * TICK as i64) as f64;
        *least = (*least + CLOCK_WEIGHT * (*latest - *least)).min(*latest);
    }

    /// Records the acknowledgement of a packet after `rtt`, over the same path. Acknowledgements
    /// over others include the delay of those.
    pub(crate) fn on_answer(&mut self, now: Time, rtt: Span) {
        let excess =
            self.here.map_or(Span::ZERO, |(_, least, latest)| Span::from_micros((latest - least) as u64));
        let back = (rtt - excess).max(Span::TICK);
        let (at, late, usual) = self.late.unwrap_or((now, back, back.micros() as f64));
        let late = back.min(late + (now - at) / GROWTH);
        let weight = WEIGHT * ((now - at).micros() as f64 / 1e5).min(10.0);
        self.late =
            Some((now, late, (usual + weight * (late.micros() as f64 - usual)).min(back.micros() as f64)));
    }

    /// Returns the ratio of the delay of reports to the usual one: 1 without a queue, or without a
    /// recent answer.
    pub(crate) fn slowdown(&self, now: Time) -> f64 {
        match self.late {
            Some((at, late, usual)) if now < at + RECENT => {
                (late.micros() as f64 / (usual + QUEUE.micros() as f64)).max(1.0)
            }
            _ => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use squall_units::short::{at_ms, ms};

    use super::*;

    /// Records answers after these milliseconds each 50 ms, beside data with this excess delay.
    fn slowdown(answers: impl IntoIterator<Item = (u64, u64)>) -> f64 {
        let (mut way, mut now) = (WayBack::default(), at_ms(1_000));
        for (rtt, excess) in answers {
            now += ms(50);
            way.on_arrival(now, Stamp::at(now - ms(30 + excess)));
            way.on_answer(now, ms(rtt));
        }
        way.slowdown(now)
    }

    fn short(then: impl IntoIterator<Item = (u64, u64)>) -> f64 {
        slowdown([(40, 0); 10].into_iter().chain(then))
    }

    #[test]
    fn a_queue_on_the_way_back_slows_reports_down() {
        assert!((1.95..=2.0).contains(&short([(160, 0); 10])), "160 of 40 and 40 ms");
    }

    #[test]
    fn what_comes_at_once_or_goes_again_does_not() {
        assert_eq!(short([(400, 0)]), 1.0);
        assert_eq!(short((0..40).map(|i| if i % 3 == 0 { (40, 0) } else { (150, 0) })), 1.0);
    }

    #[test]
    fn delay_of_what_arrives_does_not() {
        assert_eq!(short([(160, 120); 20]), 1.0);
    }

    #[test]
    fn a_way_that_stays_longer_becomes_usual() {
        let longer = |count| short(std::iter::repeat_n((160, 0), count));
        assert!(longer(100) > 1.8 && longer(10_000) < 1.1, "{} and {}", longer(100), longer(10_000));
    }

    #[test]
    fn without_answers_nothing_is_known() {
        let mut way = WayBack::default();
        way.on_answer(at_ms(1), ms(40));
        (2..12).for_each(|i| way.on_answer(at_ms(50 * i), ms(400)));
        assert!(way.slowdown(at_ms(600)) > 1.0 && way.slowdown(at_ms(800)) == 1.0);
    }
}
