//! What a rate is going to be, by what it was.
//!
//! The rate is kept in slots of 100 ms for a minute. For each slot the mean over the next second (or another horizon) is
//! divided by the rate at its start: a quantile of these ratios times the present rate is the forecast. It calibrates
//! itself: a rate that is estimated badly, or that follows the traffic, has wide ratios and a low forecast. Each forecast
//! is kept too, and compared with what came.
//!
//! While nothing is observed the rate is held for a second; slots after that belong to no ratio. The forecast then widens
//! with the square root of the age, as that of a random walk.

use std::collections::VecDeque;

use squall_sched::Micros;

/// Length of a slot.
const SLOT: Micros = 100_000;
/// Slots that are kept: a minute.
const SLOTS: usize = 600;
/// Slots of the horizon of `safe`: a second.
const SECOND: usize = 10;
/// Slots of the longest horizon. The ratios of a longer one would be too few to have a tail.
const LONGEST: usize = 30;
/// Slots for which a rate counts although nothing was observed.
const HELD: u64 = 10;
/// Ratios below which the history is too short to forecast from: ten seconds.
const ENOUGH: usize = 100;
/// The quantile of `safe`.
const SAFE: f64 = 0.1;
/// Share of the present rate that is safe while there is no history: about what half of the recorded networks turn out to
/// have. Over 15 pairs of them it was 0.66 to 0.93, and 13.6 % of the seconds were below what had been safe.
const UNKNOWN: f64 = 0.75;
/// The longest age in seconds by which a forecast widens.
const OLDEST: f64 = 60.0;

/// 100 ms of the rate, in bits per second; no numbers where it is not known.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// At its start.
    first: f32,
    mean: f32,
    /// What was forecast at its start for the next second.
    safe: f32,
}

const BREAK: Slot = Slot { first: f32::NAN, mean: f32::NAN, safe: f32::NAN };

/// The slot of the present.
#[derive(Clone, Copy, Debug)]
struct Open {
    number: u64,
    first: f64,
    safe: f64,
    /// Rate times microseconds, from `since` to `until`.
    area: f64,
    since: Micros,
    until: Micros,
    /// The rate since `until`.
    rate: f64,
}

/// The history of a rate, and what it says.
#[derive(Clone, Debug)]
pub(crate) struct Forecast {
    slots: VecDeque<Slot>,
    open: Option<Open>,
    /// The ratio that nine in ten seconds reach.
    safe: f64,
    /// Share of forecasts that held.
    confidence: f64,
}

impl Default for Forecast {
    fn default() -> Self {
        Self { slots: VecDeque::new(), open: None, safe: UNKNOWN, confidence: 0.0 }
    }
}

impl Forecast {
    /// The rate is this, from now on.
    pub(crate) fn observe(&mut self, now: Micros, rate: u64) {
        let (number, rate) = (now / SLOT, rate as f64);
        if let Some(open) = self.open.filter(|open| open.number != number) {
            self.close(open, number);
        }
        let safe = rate * self.safe;
        let new = Open { number, first: rate, safe, area: 0.0, since: now, until: now, rate };
        let open = self.open.get_or_insert(new);
        open.area += open.rate * now.saturating_sub(open.until) as f64;
        (open.until, open.rate) = (now, rate);
    }

    /// Ends the open slot and those after it, up to the one of this number.
    fn close(&mut self, open: Open, number: u64) {
        let end = (open.number + 1) * SLOT;
        let area = open.area + open.rate * (end - open.until) as f64;
        let mean = area / (end - open.since) as f64;
        self.push(Slot { first: open.first as f32, mean: mean as f32, safe: open.safe as f32 });
        let (rate, held) = (open.rate as f32, open.number + 1 + HELD);
        for _ in open.number + 1..number.min(held) {
            self.push(Slot { first: rate, mean: rate, safe: rate * self.safe as f32 });
        }
        self.safe = self.ratio(SECOND, SAFE).min(1.0);
        self.confidence = self.held();
        self.open = (number <= held).then(|| {
            let (rate, since) = (open.rate, number * SLOT);
            Open { number, first: rate, safe: rate * self.safe, area: 0.0, since, until: since, rate }
        });
        if self.open.is_none() {
            self.push(BREAK);
        }
    }

    fn push(&mut self, slot: Slot) {
        if self.slots.len() == SLOTS {
            self.slots.pop_front();
        }
        self.slots.push_back(slot);
    }

    /// Each slot with the mean over `horizon` slots from it on, where both are known.
    fn pairs(&self, horizon: usize) -> impl Iterator<Item = (&Slot, f32)> {
        let mean = move |at: usize| {
            let sum: f32 = self.slots.range(at..at + horizon).map(|slot| slot.mean).sum();
            sum / horizon as f32
        };
        let complete = (self.slots.len() + 1).saturating_sub(horizon);
        let pairs = self.slots.iter().take(complete).enumerate().map(move |(at, slot)| (slot, mean(at)));
        pairs.filter(|(slot, mean)| slot.first > 0.0 && !mean.is_nan())
    }

    /// The quantile `q` of the mean over a horizon of `horizon` slots, over the rate at its start.
    fn ratio(&self, horizon: usize, q: f64) -> f64 {
        let mut ratios: Vec<f32> = self.pairs(horizon).map(|(slot, mean)| mean / slot.first).collect();
        if ratios.len() < ENOUGH {
            // As a random walk whose tenth is `UNKNOWN`, of which the logarithm is about linear in q there.
            return UNKNOWN.powf((0.5 - q) / (0.5 - SAFE)).min(1.0);
        }
        let at = ((ratios.len() - 1) as f64 * q) as usize;
        let (_, ratio, _) = ratios.select_nth_unstable_by(at, f32::total_cmp);
        f64::from(*ratio)
    }

    fn held(&self) -> f64 {
        let judged = || self.pairs(SECOND).filter(|(slot, _)| !slot.safe.is_nan());
        match judged().count() {
            0 => 0.0,
            all => judged().filter(|(slot, mean)| *mean >= slot.safe).count() as f64 / all as f64,
        }
    }

    /// By what the present rate is to be multiplied to have what nine in ten seconds reach.
    pub(crate) fn safe(&self) -> f64 {
        self.safe
    }

    /// The same for a time of `within` microseconds and a probability; takes a pass over the history.
    pub(crate) fn reached(&self, within: Micros, probability: f64) -> f64 {
        let horizon = (within.div_ceil(SLOT) as usize).clamp(1, LONGEST);
        self.ratio(horizon, 1.0 - probability)
    }

    /// The rate that was observed last, in bits per second; 0 before there was one.
    pub(crate) fn latest(&self) -> u64 {
        self.open.map_or(0, |open| open.rate as u64)
    }

    /// By what the present rate is to be multiplied because it was not observed for a while.
    pub(crate) fn ageing(&self, now: Micros) -> f64 {
        let Some(open) = self.open else { return 1.0 };
        let age = now.saturating_sub(open.until) as f64 / 1e6;
        self.safe.powf((1.0 + age.min(OLDEST)).sqrt() - 1.0)
    }

    /// Share of the forecasts of the last minute that held; 0 before there is one to judge.
    pub(crate) fn confidence(&self) -> f64 {
        self.confidence
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    const STEP: Micros = 20_000;

    /// A rate of 10 Mbps whose logarithm walks at random, `sigma` a square root of second.
    fn walk(sigma: f64, seconds: u64, seed: u64) -> Vec<f64> {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let mut log = 0.0f64;
        let step = sigma * (STEP as f64 / 1e6).sqrt();
        let rates = (0..seconds * 1_000_000 / STEP).map(|_| {
            // The sum of twelve has variance 1. The walk is drawn back, so that it stays within reason.
            let normal = (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
            log += step * normal - 0.002 * log;
            1e7 * log.exp()
        });
        rates.collect()
    }

    /// Of the seconds of a rate after the first minute, the share in which less was carried than was safe.
    fn missed(rates: &[f64]) -> (f64, f64) {
        let second = (1_000_000 / STEP) as usize;
        let mut forecast = Forecast::default();
        let (mut all, mut below, mut confidence) = (0, 0, 0.0);
        for (at, rate) in rates.iter().enumerate() {
            forecast.observe(at as Micros * STEP, *rate as u64);
            if at < 60 * second || at % second != 0 || at + second > rates.len() {
                continue;
            }
            let carried = rates[at..at + second].iter().sum::<f64>() / second as f64;
            all += 1;
            below += usize::from(carried < rate * forecast.safe());
            confidence += forecast.confidence();
        }
        (below as f64 / all as f64, confidence / all as f64)
    }

    #[test]
    fn a_tenth_of_the_seconds_is_below_what_is_safe() {
        for (sigma, seed) in [(0.02, 1), (0.1, 2), (0.3, 3), (0.8, 4)] {
            let (below, confidence) = missed(&walk(sigma, 2_000, seed));
            println!("sigma {sigma}: {:.1} % below, confidence {confidence:.3}", 100.0 * below);
            assert!((0.05..=0.15).contains(&below), "sigma {sigma}: {below}");
            assert!((0.85..=0.95).contains(&confidence), "sigma {sigma}: {confidence}");
        }
    }

    #[test]
    fn a_shorter_time_and_a_lower_probability_promise_more() {
        let mut forecast = Forecast::default();
        for (at, rate) in walk(0.3, 60, 5).into_iter().enumerate() {
            forecast.observe(at as Micros * STEP, rate as u64);
        }
        let reached = |within_ms: u64, probability| forecast.reached(within_ms * 1_000, probability);
        assert!(reached(100, 0.9) > reached(1_000, 0.9) && reached(1_000, 0.9) > reached(3_000, 0.9));
        assert!(reached(1_000, 0.5) > reached(1_000, 0.9) && reached(1_000, 0.9) > reached(1_000, 0.99));
        assert_eq!(reached(1_000, 0.9).min(1.0), forecast.safe());
        assert_eq!(reached(3_000, 0.9), reached(60_000, 0.9));
    }

    #[test]
    fn without_a_history_a_part_is_safe() {
        let mut forecast = Forecast::default();
        assert_eq!((forecast.safe(), forecast.confidence(), forecast.ageing(9)), (UNKNOWN, 0.0, 1.0));
        assert_eq!(forecast.reached(1_000_000, 0.5), 1.0);
        assert!((forecast.reached(1_000_000, 0.9) - UNKNOWN).abs() < 1e-9);
        assert!(forecast.reached(1_000_000, 0.99) < UNKNOWN);
        for at in 0..1_150 {
            forecast.observe(at * 10_000, 5_000_000);
        }
        assert_eq!((forecast.safe(), forecast.confidence()), (1.0, 1.0), "it never changed");
    }

    #[test]
    fn a_pause_says_nothing_and_ages_the_rate() {
        let mut forecast = Forecast::default();
        for (at, rate) in walk(0.3, 60, 6).into_iter().enumerate() {
            forecast.observe(at as Micros * STEP, rate as u64);
        }
        let (before, last) = (forecast.safe(), 60_000_000 - STEP);
        assert!(forecast.ageing(last) == 1.0 && forecast.ageing(last + 5_000_000) < before.powf(0.9));
        assert_eq!(forecast.ageing(last + 100_000_000), forecast.ageing(last + 60_000_000));
        // Twice the rate after ten minutes is no rise within a second.
        let tenfold = 100_000_000;
        for at in 0..500 {
            forecast.observe(last + 600_000_000 + at * STEP, tenfold);
        }
        let rises = forecast.pairs(SECOND).filter(|(slot, mean)| *mean > 4.0 * slot.first).count();
        assert_eq!((rises, forecast.ageing(last + 600_000_000 + 499 * STEP)), (0, 1.0));
    }

    #[test]
    fn the_history_is_bounded() {
        let mut forecast = Forecast::default();
        for at in 0..100_000 {
            forecast.observe(at * SLOT / 3, at);
        }
        assert_eq!(forecast.slots.len(), SLOTS);
        forecast.observe(u64::MAX / 2, 7);
        assert_eq!(forecast.slots.len(), SLOTS);
    }
}
