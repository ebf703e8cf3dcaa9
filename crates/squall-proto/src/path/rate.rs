//! Delivery and loss of a path: rates and shares, measured over time.

use squall_sched::{Span, Time};

/// Share of packets lost over the last two seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LossWindow {
    /// Acknowledged and lost packets in slots of 250 ms.
    slots: [(u32, u32); LossWindow::SLOTS],
    slot: u64,
}

impl LossWindow {
    const SLOTS: usize = 8;
    const SLOT: Span = Span::from_millis(250);

    pub(crate) fn record(&mut self, now: Time, lost: bool) {
        let slot = now.since_epoch() / Self::SLOT;
        let steps = slot.saturating_sub(self.slot).min(Self::SLOTS as u64);
        for i in 0..steps {
            self.slots[((slot - i) % Self::SLOTS as u64) as usize] = (0, 0);
        }
        self.slot = self.slot.max(slot);
        let entry = &mut self.slots[(self.slot % Self::SLOTS as u64) as usize];
        if lost {
            entry.1 += 1;
        } else {
            entry.0 += 1;
        }
    }

    /// Records the arrival of a packet that was recorded as lost.
    pub(crate) fn revoke(&mut self, now: Time) {
        self.record(now, false);
        let latest =
            (0..Self::SLOTS as u64).map(|i| (self.slot.wrapping_sub(i) % Self::SLOTS as u64) as usize);
        for slot in latest {
            if self.slots[slot].1 > 0 {
                self.slots[slot].1 -= 1;
                return;
            }
        }
    }

    pub(crate) fn ratio(&self) -> f64 {
        let (acked, lost) = self.slots.iter().fold((0, 0), |sum, s| (sum.0 + s.0, sum.1 + s.1));
        if acked + lost == 0 { 0.0 } else { f64::from(lost) / f64::from(acked + lost) }
    }

    /// Returns the share now; 0 once no packet had a fate for two seconds.
    pub(crate) fn at_present(&self, now: Time) -> f64 {
        if now.since_epoch() / Self::SLOT < self.slot + Self::SLOTS as u64 { self.ratio() } else { 0.0 }
    }
}

/// Rate of acknowledged bytes, smoothed over about a quarter of a second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RateMeter {
    since: Time,
    bytes: u64,
    rate: Option<f64>,
    /// Bytes of all intervals without a pause.
    total: u64,
    /// Largest rate of an interval without a pause, not smoothed.
    largest: f64,
}

impl RateMeter {
    /// Shortest time over which a rate is measured: shorter ones include bursts of
    /// acknowledgements.
    pub(crate) const INTERVAL: Span = Span::from_millis(50);
    const PAUSE: Span = Span::from_millis(500);
    /// Weight of a new interval.
    const WEIGHT: f64 = 0.25;

    pub(crate) fn record(&mut self, now: Time, bytes: u64) {
        self.bytes += bytes;
        let elapsed = now - self.since;
        if elapsed >= Self::INTERVAL {
            let rate = self.bytes as f64 * 8e6 / elapsed.micros() as f64;
            // After a pause the average is obsolete.
            let known = self.rate.filter(|_| elapsed < Self::PAUSE);
            self.rate = Some(known.map_or(rate, |old| old + Self::WEIGHT * (rate - old)));
            // Bytes after a pause were not spread over it.
            if elapsed < Self::PAUSE {
                self.largest = self.largest.max(rate);
                self.total += self.bytes;
            }
            self.since = now;
            self.bytes = 0;
        }
    }

    /// Returns the largest rate of an interval so far, in bits per second; `None` before `enough`
    /// bytes were acknowledged.
    pub(crate) fn largest(&self, enough: u64) -> Option<u64> {
        (self.total >= enough).then_some(self.largest as u64)
    }

    pub(crate) fn bits_per_second(&self) -> u64 {
        self.rate.unwrap_or(0.0) as u64
    }

    /// Returns the rate now; 0 after a pause.
    pub(crate) fn at_present(&self, now: Time) -> u64 {
        if now < self.since + Self::PAUSE { self.bits_per_second() } else { 0 }
    }
}

/// State of delivery of a path when a packet left; for a flight that began on an idle path, at its
/// first acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    delivered: u64,
    delivered_at: Time,
    /// Departure of the last acknowledged packet.
    sent_at: Time,
}

/// The rate at which a path delivers when it is given more than it can carry: that of its
/// bottleneck.
///
/// Delivery rates are measured as in BBR (draft-cardwell-iccrg-bbr-congestion-control, §4.1), over
/// the flight of a packet. Only those count whose acknowledgements arrived more slowly than the
/// packets had left: the network was the limit, not the sender. The largest of the last few tenths
/// of a second with samples counts, since cross traffic and bursts of acknowledgements make samples
/// too small and rarely too large; an older one is no measure of a radio link, and none counts
/// after two seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bottleneck {
    /// Smallest number of bytes of a sample.
    least: u64,
    delivered: u64,
    /// State at the latest acknowledgement; `None` since the path was idle.
    latest: Option<Mark>,
    /// State at the first acknowledgement since the path was idle.
    first: Option<Mark>,
    /// Largest rate of each slot of time, in bits per second.
    slots: [u64; Bottleneck::SLOTS],
    slot: u64,
}

impl Bottleneck {
    const SLOTS: usize = 20;
    const SLOT: Span = Span::from_millis(100);
    /// Slots over which the largest counts, back from the latest with samples.
    const LATEST: u64 = 3;
    /// Shortest sample: bursts of acknowledgements distort shorter ones.
    const SHORTEST: Span = Span::from_millis(10);

    /// Creates a bottleneck whose samples have at least `least` bytes: the few packets at the end
    /// of a burst wait for acknowledgements of others, and show a bottleneck that is none.
    pub(crate) fn of_samples_from(least: u64) -> Self {
        Self { least, ..Self::default() }
    }

    /// Returns the mark of a packet that leaves now; `idle` when nothing else is in flight. `None`
    /// until an acknowledgement arrives: bytes over the time until the first one are no rate.
    pub(crate) fn mark(&mut self, idle: bool) -> Option<Mark> {
        if idle {
            (self.latest, self.first) = (None, None);
        }
        self.latest
    }

    pub(crate) fn on_ack(&mut self, now: Time, mark: Option<Mark>, sent_at: Time, bytes: u64) {
        self.delivered += bytes;
        let here = Mark { delivered: self.delivered, delivered_at: now, sent_at };
        self.latest = Some(here);
        let since = mark.unwrap_or(*self.first.get_or_insert(here));
        let arriving = now - since.delivered_at;
        let leaving = sent_at - since.sent_at;
        let bytes = self.delivered.saturating_sub(since.delivered);
        if arriving < Self::SHORTEST || arriving * 10 < leaving * 11 || bytes < self.least {
            return;
        }
        let rate = bytes * 8_000_000 / arriving.micros();
        self.turn_to(now.since_epoch() / Self::SLOT);
        let largest = &mut self.slots[(self.slot % Self::SLOTS as u64) as usize];
        *largest = rate.max(*largest);
    }

    /// Returns the rate in bits per second; `None` if the path was not full recently.
    pub(crate) fn rate(&self, now: Time) -> Option<u64> {
        let oldest = (now.since_epoch() / Self::SLOT).saturating_sub(Self::SLOTS as u64 - 1);
        let at = |slot: u64| self.slots[(slot % Self::SLOTS as u64) as usize];
        let latest = (oldest..=self.slot).rev().find(|slot| at(*slot) > 0)?;
        (oldest.max(latest.saturating_sub(Self::LATEST - 1))..=latest).map(at).max()
    }

    fn turn_to(&mut self, slot: u64) {
        for old in 0..slot.saturating_sub(self.slot).min(Self::SLOTS as u64) {
            self.slots[((slot - old) % Self::SLOTS as u64) as usize] = 0;
        }
        self.slot = self.slot.max(slot);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use squall_units::short::{at_ms, at_us, ms};

    use super::*;

    #[test]
    fn losses_are_forgotten_after_two_seconds() {
        let mut loss = LossWindow::default();
        for i in 0..100 {
            loss.record(at_ms(i * 10), i % 4 == 0);
        }
        assert!((loss.ratio() - 0.25).abs() < 0.01);
        for i in 0..100 {
            loss.record(at_ms(2_000 + i * 10), false);
        }
        assert!(loss.ratio() < 0.15);
        let (before, later) = (loss.at_present(at_ms(4_000)), loss.at_present(at_ms(5_000)));
        assert_eq!((before, later), (loss.ratio(), 0.0));
        loss.record(at_ms(9_000), false);
        assert_eq!(loss.ratio(), 0.0);
    }

    #[test]
    fn losses_that_were_none_are_taken_back() {
        let mut loss = LossWindow::default();
        (0..10).for_each(|i| loss.record(at_ms(i * 10), i < 3));
        loss.revoke(at_ms(400));
        assert!((loss.ratio() - 0.2).abs() < 1e-9, "two of ten: {}", loss.ratio());
        (0..5).for_each(|_| loss.revoke(at_ms(400)));
        assert_eq!(loss.ratio(), 0.0);
    }

    /// Sends packets of 1,250 bytes every `send` µs over a link that serves each in `serve` µs, 20
    /// ms round trip, and returns the estimate of the bottleneck.
    fn bottleneck(send: u64, serve: u64) -> Option<u64> {
        let mut bottleneck = Bottleneck::default();
        let (mut flying, mut served) = (VecDeque::new(), 0);
        for now in (0..3_000_000).step_by(50) {
            if now % send == 0 {
                served = served.max(now) + serve;
                let mark = bottleneck.mark(flying.is_empty());
                flying.push_back((served + 20_000, now, mark));
            }
            while let Some(&(_, sent, mark)) = flying.front().filter(|(at, ..)| *at <= now) {
                bottleneck.on_ack(at_us(now), mark, at_us(sent), 1_250);
                flying.pop_front();
            }
        }
        bottleneck.rate(at_ms(3_000))
    }

    #[test]
    fn a_full_path_shows_its_bottleneck() {
        // 1,250 bytes a millisecond, offered twice as fast.
        let rate = bottleneck(500, 1_000).expect("the path was full");
        assert!((9_500_000..10_500_000).contains(&rate), "{rate}");
    }

    #[test]
    fn a_path_that_keeps_up_shows_nothing() {
        assert_eq!(bottleneck(2_000, 1_000), None);
        assert_eq!(bottleneck(1_000, 1_000), None);
    }

    #[test]
    fn a_short_train_after_a_pause_shows_it_too() {
        // Twenty packets at once each second, a millisecond each on the link, 100 ms of round trip.
        let mut bottleneck = Bottleneck::default();
        for start in [0, 1_000].map(at_ms) {
            let marks: Vec<_> = (0..20).map(|i| bottleneck.mark(i == 0)).collect();
            for (i, mark) in (1..).zip(marks) {
                bottleneck.on_ack(start + ms(100 + i), mark, start, 1_250);
            }
            let rate = bottleneck.rate(start + ms(200)).expect("they queued");
            assert!((9_900_000..10_100_000).contains(&rate), "{rate}");
        }
    }

    #[test]
    fn two_packets_whose_acknowledgement_waits_show_nothing_where_more_are_asked_for() {
        // The second is acknowledged 200 ms late: 50 kbps.
        let rate = |mut bottleneck: Bottleneck, bytes: u64| {
            let mark = bottleneck.mark(true);
            bottleneck.on_ack(at_ms(100), mark, at_us(0), 1_250);
            bottleneck.on_ack(at_ms(300), mark, at_us(0), bytes);
            bottleneck.rate(at_ms(300))
        };
        assert_eq!(rate(Bottleneck::default(), 1_250), Some(50_000));
        assert_eq!(rate(Bottleneck::of_samples_from(5_000), 1_250), None);
        assert_eq!(rate(Bottleneck::of_samples_from(5_000), 5_000), Some(200_000));
    }

    #[test]
    fn the_bottleneck_is_forgotten_after_two_seconds() {
        let mut bottleneck = Bottleneck::default();
        let mark = bottleneck.mark(true);
        bottleneck.on_ack(at_us(0), mark, at_us(0), 1_250);
        bottleneck.on_ack(at_ms(20), mark, at_us(0), 25_000);
        assert_eq!(bottleneck.rate(at_ms(20)), Some(10_000_000));
        assert_eq!(bottleneck.rate(at_ms(1_990)), Some(10_000_000));
        assert_eq!(bottleneck.rate(at_ms(2_000)), None);
    }

    #[test]
    fn the_largest_rate_is_kept() {
        let mut meter = RateMeter::default();
        let mut deliver = |from_ms: u64, until_ms: u64, bytes: u64| {
            (from_ms..until_ms).for_each(|at| meter.record(at_ms(at), bytes));
            meter.largest(20_000).map(|rate| rate / 100_000)
        };
        assert_eq!(deliver(1, 60, 125), None, "too little to judge by");
        assert_eq!(deliver(60, 400, 125), Some(10));
        assert_eq!(deliver(400, 600, 1_250), Some(100));
        assert_eq!(deliver(600, 60_000, 125), Some(100));
        let mut sporadic = RateMeter::default();
        (1..100).for_each(|second| sporadic.record(at_ms(second * 1_000), 8_000));
        assert_eq!(sporadic.largest(20_000), None, "bursts with pauses show none");
    }

    #[test]
    fn the_delivery_rate_follows_the_bytes() {
        let mut meter = RateMeter::default();
        for i in 1..2_000 {
            meter.record(at_ms(i), 1_250);
        }
        // 1,250 bytes a millisecond.
        assert!((9_900_000..10_100_000).contains(&meter.bits_per_second()));
    }
}
