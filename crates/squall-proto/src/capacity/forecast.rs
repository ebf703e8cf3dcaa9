//! Forecast of a rate from its history.
//!
//! The rate is kept in slots of 100 ms for a minute. For each slot the mean over the next second
//! (or another horizon) is divided by the rate at its start: a quantile of these ratios times the
//! present rate is the forecast. It calibrates itself: a rate that is estimated badly, or that
//! follows the traffic, has wide ratios and a low forecast. Each forecast is kept too, and compared
//! with the actual rate.
//!
//! While nothing is observed the rate is held for a second; slots after that belong to no ratio.
//! The forecast then widens with the square root of the age, like that of a random walk.

use std::collections::VecDeque;

use squall_sched::{Span, Time};

/// Length of a slot.
const SLOT: Span = Span::from_millis(100);
/// Number of slots that are kept: a minute.
const SLOTS: usize = 600;
/// Slots of the horizon of `safe`: a second.
const SECOND: usize = 10;
/// Slots of the longest horizon. The ratios of a longer one would be too few to have a tail.
const LONGEST: usize = 30;
/// Slots for which a rate counts although nothing was observed.
const HELD: u64 = 10;
/// Number of ratios below which the history is too short to forecast from: ten seconds.
const ENOUGH: usize = 100;
/// The quantile of `safe`.
const SAFE: f64 = 0.1;
/// Share of the present rate that is safe while there is no history: about the actual share of half
/// of the recorded networks. Over 15 pairs of them it was 0.66 to 0.93, and 13.6 % of the seconds
/// were below the safe rate.
const UNKNOWN: f64 = 0.75;
/// Largest age in seconds by which a forecast widens.
const OLDEST: f64 = 60.0;

/// A slot of the rate, in bits per second; NaN where it is unknown.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Rate at its start.
    first: f32,
    mean: f32,
    /// Forecast at its start for the next second.
    safe: f32,
    /// Mean of that second, once it is over.
    came: f32,
}

impl Slot {
    fn new(first: f64, mean: f64, safe: f64) -> Self {
        Self { first: first as f32, mean: mean as f32, safe: safe as f32, came: f32::NAN }
    }

    /// Returns the mean of the second from its start on, over the rate there; `None` unless both
    /// are known.
    fn ratio(&self) -> Option<f32> {
        (self.first > 0.0 && !self.came.is_nan()).then(|| self.came / self.first)
    }

    /// Returns whether its forecast held; `None` if there is none to judge.
    fn has_held(&self) -> Option<bool> {
        self.ratio().filter(|_| !self.safe.is_nan()).map(|_| self.came >= self.safe)
    }
}

/// The present slot.
#[derive(Clone, Copy, Debug)]
struct Open {
    number: u64,
    first: f64,
    safe: f64,
    /// Rate times microseconds, from `since` to `until`.
    area: f64,
    since: Time,
    until: Time,
    /// Rate since `until`.
    rate: f64,
}

/// The history of a rate, and its forecast.
#[derive(Clone, Debug)]
pub(crate) struct Forecast {
    slots: VecDeque<Slot>,
    /// Ratios of the slots, ascending: a pass over a minute of them for every slot would cost a
    /// session more than its packets do.
    ratios: Vec<f32>,
    /// Number of slots whose forecast held.
    held: usize,
    /// Number of slots whose forecast did not hold.
    missed: usize,
    open: Option<Open>,
    /// Ratio that is reached in nine of ten seconds.
    safe: f64,
    /// Share of forecasts that held.
    confidence: f64,
}

impl Default for Forecast {
    fn default() -> Self {
        Self {
            slots: VecDeque::new(),
            ratios: Vec::new(),
            held: 0,
            missed: 0,
            open: None,
            safe: UNKNOWN,
            confidence: 0.0,
        }
    }
}

impl Forecast {
    /// Records the rate from now on.
    pub(crate) fn observe(&mut self, now: Time, rate: u64) {
        let (number, rate) = (now.since_epoch() / SLOT, rate as f64);
        if let Some(open) = self.open.filter(|open| open.number != number) {
            self.close(open, number);
        }
        let safe = rate * self.safe;
        let new = Open { number, first: rate, safe, area: 0.0, since: now, until: now, rate };
        let open = self.open.get_or_insert(new);
        open.area += open.rate * (now - open.until).micros() as f64;
        (open.until, open.rate) = (now, rate);
    }

    /// Ends the open slot and those after it, up to the one of this number.
    fn close(&mut self, open: Open, number: u64) {
        let end = Time::EPOCH + SLOT * (open.number + 1);
        let area = open.area + open.rate * (end - open.until).micros() as f64;
        let mean = area / (end - open.since).micros() as f64;
        self.push(Slot::new(open.first, mean, open.safe));
        let held = open.number + 1 + HELD;
        for _ in open.number + 1..number.min(held) {
            self.push(Slot::new(open.rate, open.rate, open.rate * self.safe));
        }
        self.safe = quantile(&mut self.ratios, SAFE, |ratios, at| ratios[at]).min(1.0);
        let judged = self.held + self.missed;
        self.confidence = if judged > 0 { self.held as f64 / judged as f64 } else { 0.0 };
        self.open = (number <= held).then(|| {
            let (rate, since) = (open.rate, Time::EPOCH + SLOT * number);
            Open { number, first: rate, safe: rate * self.safe, area: 0.0, since, until: since, rate }
        });
        if self.open.is_none() {
            self.push(Slot::new(f64::NAN, f64::NAN, f64::NAN));
        }
    }

    fn push(&mut self, slot: Slot) {
        if self.slots.len() == SLOTS {
            self.forget_oldest();
        }
        self.slots.push_back(slot);
        let Some(at) = self.slots.len().checked_sub(SECOND) else { return };
        let came = mean(&self.slots, at, SECOND);
        let slot = &mut self.slots[at];
        slot.came = came;
        if let Some(ratio) = slot.ratio() {
            let at = self.ratios.partition_point(|other| other.total_cmp(&ratio).is_lt());
            self.ratios.insert(at, ratio);
        }
        match slot.has_held() {
            Some(true) => self.held += 1,
            Some(false) => self.missed += 1,
            None => {}
        }
    }

    fn forget_oldest(&mut self) {
        let Some(slot) = self.slots.pop_front() else { return };
        if let Some(ratio) = slot.ratio() {
            let at = self.ratios.partition_point(|other| other.total_cmp(&ratio).is_lt());
            self.ratios.remove(at);
        }
        match slot.has_held() {
            Some(true) => self.held -= 1,
            Some(false) => self.missed -= 1,
            None => {}
        }
    }

    /// Returns the factor from the present rate to the rate that is reached in nine of ten seconds.
    pub(crate) fn safe(&self) -> f64 {
        self.safe
    }

    /// Like [`Self::safe`], for a time of `within` and a probability; takes a pass over the
    /// history.
    pub(crate) fn reached(&self, within: Span, probability: f64) -> f64 {
        let horizon = (within.micros().div_ceil(SLOT.micros()) as usize).clamp(1, LONGEST);
        let complete = (self.slots.len() + 1).saturating_sub(horizon);
        let ratios = (0..complete).map(|at| mean(&self.slots, at, horizon) / self.slots[at].first);
        let mut ratios: Vec<f32> = ratios.filter(|ratio| ratio.is_finite()).collect();
        quantile(&mut ratios, 1.0 - probability, |ratios, at| {
            *ratios.select_nth_unstable_by(at, f32::total_cmp).1
        })
    }

    /// Returns the latest observed rate, in bits per second; 0 before the first.
    pub(crate) fn latest(&self) -> u64 {
        self.open.map_or(0, |open| open.rate as u64)
    }

    /// Returns the factor for the present rate after a time without observation.
    pub(crate) fn ageing(&self, now: Time) -> f64 {
        let Some(open) = self.open else { return 1.0 };
        let age = (now - open.until).as_secs_f64();
        self.safe.powf((1.0 + age.min(OLDEST)).sqrt() - 1.0)
    }

    /// Returns the share of the forecasts of the last minute that held; 0 before there is one to
    /// judge.
    pub(crate) fn confidence(&self) -> f64 {
        self.confidence
    }
}

/// Returns the mean over `horizon` slots from one on.
fn mean(slots: &VecDeque<Slot>, from: usize, horizon: usize) -> f32 {
    slots.range(from..from + horizon).map(|slot| slot.mean).sum::<f32>() / horizon as f32
}

/// Returns the quantile `q` of ratios; `nth` finds the one at a position of their order.
fn quantile(ratios: &mut [f32], q: f64, nth: impl FnOnce(&mut [f32], usize) -> f32) -> f64 {
    if ratios.len() < ENOUGH {
        // Like a random walk whose tenth is `UNKNOWN`, whose logarithm is about linear in q there.
        return UNKNOWN.powf((0.5 - q) / (0.5 - SAFE)).min(1.0);
    }
    let at = ((ratios.len() - 1) as f64 * q) as usize;
    f64::from(nth(ratios, at))
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;
    use squall_units::short::{at_us, ms, us};

    use super::*;

    const STEP: u64 = 20_000;

    /// Returns a rate of 10 Mbps whose logarithm is a random walk of `sigma` per square root of a
    /// second.
    fn walk(sigma: f64, seconds: u64, seed: u64) -> Vec<f64> {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let mut log = 0.0f64;
        let step = sigma * (STEP as f64 / 1e6).sqrt();
        let rates = (0..seconds * 1_000_000 / STEP).map(|_| {
            // The sum of twelve has variance 1. The walk is drawn back, so that it stays within
            // reason.
            let normal = (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
            log += step * normal - 0.002 * log;
            1e7 * log.exp()
        });
        rates.collect()
    }

    /// Returns the share of the seconds of a rate after the first minute in which less was carried
    /// than was safe.
    fn missed(rates: &[f64]) -> (f64, f64) {
        let second = (1_000_000 / STEP) as usize;
        let mut forecast = Forecast::default();
        let (mut all, mut below, mut confidence) = (0, 0, 0.0);
        for (at, rate) in rates.iter().enumerate() {
            forecast.observe(at_us(at as u64 * STEP), *rate as u64);
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
            forecast.observe(at_us(at as u64 * STEP), rate as u64);
        }
        let reached = |within_ms: u64, probability| forecast.reached(us(within_ms * 1_000), probability);
        assert!(reached(100, 0.9) > reached(1_000, 0.9) && reached(1_000, 0.9) > reached(3_000, 0.9));
        assert!(reached(1_000, 0.5) > reached(1_000, 0.9) && reached(1_000, 0.9) > reached(1_000, 0.99));
        assert_eq!(reached(1_000, 0.9).min(1.0), forecast.safe());
        assert_eq!(reached(3_000, 0.9), reached(60_000, 0.9));
    }

    #[test]
    fn without_a_history_a_part_is_safe() {
        let mut forecast = Forecast::default();
        assert_eq!((forecast.safe(), forecast.confidence(), forecast.ageing(at_us(9))), (UNKNOWN, 0.0, 1.0));
        assert_eq!(forecast.reached(ms(1_000), 0.5), 1.0);
        assert!((forecast.reached(ms(1_000), 0.9) - UNKNOWN).abs() < 1e-9);
        assert!(forecast.reached(ms(1_000), 0.99) < UNKNOWN);
        for at in 0..1_150 {
            forecast.observe(at_us(at * 10_000), 5_000_000);
        }
        assert_eq!((forecast.safe(), forecast.confidence()), (1.0, 1.0), "it never changed");
    }

    #[test]
    fn a_pause_says_nothing_and_ages_the_rate() {
        let mut forecast = Forecast::default();
        for (at, rate) in walk(0.3, 60, 6).into_iter().enumerate() {
            forecast.observe(at_us(at as u64 * STEP), rate as u64);
        }
        let (before, last) = (forecast.safe(), 60_000_000 - STEP);
        assert!(
            forecast.ageing(at_us(last)) == 1.0
                && forecast.ageing(at_us(last + 5_000_000)) < before.powf(0.9)
        );
        assert_eq!(forecast.ageing(at_us(last + 100_000_000)), forecast.ageing(at_us(last + 60_000_000)));
        // Twice the rate after ten minutes is no rise within a second.
        let tenfold = 100_000_000;
        for at in 0..500 {
            forecast.observe(at_us(last + 600_000_000 + at * STEP), tenfold);
        }
        let rises = forecast.ratios.iter().filter(|ratio| **ratio > 4.0).count();
        assert_eq!((rises, forecast.ageing(at_us(last + 600_000_000 + 499 * STEP))), (0, 1.0));
    }

    #[test]
    fn the_history_is_bounded() {
        let mut forecast = Forecast::default();
        for at in 0..100_000 {
            forecast.observe(at_us(at * SLOT.micros() / 3), at);
        }
        assert_eq!(forecast.slots.len(), SLOTS);
        assert_eq!(forecast.ratios.len(), SLOTS - SECOND + 1);
        forecast.observe(at_us(u64::MAX / 2), 7);
        assert_eq!(forecast.slots.len(), SLOTS);
    }

    #[test]
    fn what_is_kept_is_what_a_pass_over_the_history_finds() {
        let mut forecast = Forecast::default();
        let rates = walk(0.5, 200, 7).into_iter().enumerate();
        for (at, rate) in rates.filter(|(at, _)| at % 1_000 < 800 && at % 37 > 3) {
            let rate = if at % 500 < 20 { 0.0 } else { rate };
            forecast.observe(at_us(at as u64 * STEP), rate as u64);
            let slots = &forecast.slots;
            let complete = (slots.len() + 1).saturating_sub(SECOND);
            let seconds = (0..complete).map(|at| (slots[at], mean(slots, at, SECOND)));
            let known: Vec<_> = seconds.filter(|(slot, came)| slot.first > 0.0 && !came.is_nan()).collect();
            let mut ratios: Vec<f32> = known.iter().map(|(slot, came)| came / slot.first).collect();
            ratios.sort_by(f32::total_cmp);
            assert_eq!(forecast.ratios, ratios);
            let held = known.iter().filter(|(slot, came)| *came >= slot.safe).count();
            assert_eq!((forecast.held, forecast.missed), (held, known.len() - held));
        }
    }
}
