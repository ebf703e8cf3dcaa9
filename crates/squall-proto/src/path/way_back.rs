//! The way on which reports leave.

use squall_sched::Micros;

use crate::wire::{Stamp, TICK};

/// Queue in microseconds that reports may meet, and leave as often as without it.
const QUEUE: Micros = 40_000;
/// Microseconds in which a queue of reports grows by one at most. What is late sooner is late by a radio, or behind a burst.
const GROWTH: Micros = 2;
/// Weight by which a way that has become longer is taken for usual: after two minutes of answers each tenth of a second.
const WEIGHT: f64 = 1.0 / 1_200.0;
/// Weight by which a larger delay of what arrives is: the peer's clock may be slower by some milliseconds a minute.
const CLOCK_WEIGHT: f64 = 1.0 / 50_000.0;
/// Time in microseconds without an answer after which nothing is known.
const RECENT: Micros = 200_000;

/// How long reports and their answers take, without the excess delay of what arrives: answers wait behind that.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WayBack {
    /// Stamp of the first arrival by its delay, and the smallest and the latest delay beyond it, in microseconds.
    here: Option<(u32, f64, f64)>,
    /// When an answer came last, how long the way takes of which a queue can be the cause, and usually.
    late: Option<(Micros, Micros, f64)>,
}

impl WayBack {
    /// Data that left at `sent` has arrived over the path.
    pub(crate) fn on_arrival(&mut self, now: Micros, sent: Stamp) {
        let ticks = Stamp::at(now).since(sent);
        let (reference, least, latest) = self.here.get_or_insert((ticks, 0.0, 0.0));
        *latest = (Stamp::distance(ticks, *reference) * TICK as i64) as f64;
        *least = (*least + CLOCK_WEIGHT * (*latest - *least)).min(*latest);
    }

    /// A packet is acknowledged after `rtt` microseconds, over the same path. Of acknowledgements over others the delay of the
    /// other is a part.
    pub(crate) fn on_answer(&mut self, now: Micros, rtt: Micros) {
        let excess = self.here.map_or(0, |(_, least, latest)| (latest - least) as Micros);
        let back = rtt.saturating_sub(excess).max(1);
        let (at, late, usual) = self.late.unwrap_or((now, back, back as f64));
        let late = back.min(late + (now - at) / GROWTH);
        let weight = WEIGHT * ((now - at) as f64 / 1e5).min(10.0);
        self.late = Some((now, late, (usual + weight * (late as f64 - usual)).min(back as f64)));
    }

    /// How many times as long as usual reports take: 1 without a queue, or if no answer came lately.
    pub(crate) fn slowdown(&self, now: Micros) -> f64 {
        match self.late {
            Some((at, late, usual)) if now < at + RECENT => (late as f64 / (usual + QUEUE as f64)).max(1.0),
            _ => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers after these milliseconds each 50 ms, beside data with this excess delay.
    fn slowdown(answers: impl IntoIterator<Item = (Micros, Micros)>) -> f64 {
        let (mut way, mut now) = (WayBack::default(), 1_000_000);
        for (rtt, excess) in answers {
            now += 50_000;
            way.on_arrival(now, Stamp::at(now - 30_000 - 1_000 * excess));
            way.on_answer(now, 1_000 * rtt);
        }
        way.slowdown(now)
    }

    fn short(then: impl IntoIterator<Item = (Micros, Micros)>) -> f64 {
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
        way.on_answer(1_000, 40_000);
        (2..12).for_each(|i| way.on_answer(50_000 * i, 400_000));
        assert!(way.slowdown(600_000) > 1.0 && way.slowdown(800_000) == 1.0);
    }
}
