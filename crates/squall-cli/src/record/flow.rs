//! One end of the traffic over an interface, without clock and socket: departures, and arrivals at
//! each step.
//!
//! Two ways to measure a rate:
//!
//! - *Samples*: at each step each end sends a train of packets back to back. The bottleneck spreads
//!   them, and the rate is their bytes over the time from the first to the last arrival (packet
//!   trains; Dovrolis et al., INFOCOM 2001). The two ends are half a step apart.
//! - *Saturation*: each end keeps packets in the queue of the bottleneck ([`Pace`]), so that the
//!   arrivals in a step are its rate.

use std::collections::BTreeMap;

use super::{
    pace::Pace,
    wire::{Bin, Echo, MAX_BINS, Mode, Packet, Plan, Report, SIZE, Secret, Train},
};

/// Microseconds after which the arrivals of a train are reported, if no other packet has left.
const REPORT: u64 = 20_000;
/// Microseconds between reports while saturating, and between requests of an end that has finished.
const RARE_REPORT: u64 = 100_000;

/// Microseconds after which a step is closed; its later packets count as lost.
const CLOSED: u64 = 1_000_000;

/// Maximum number of steps kept for an end that does not fetch them.
const MAX_KEPT: usize = 100_000;

/// Steps by which the clocks of the two ends may differ in addition to the delay.
const AHEAD: u32 = 2;

/// One end of the traffic over an interface. Times are in microseconds of its own clock; steps are
/// those of the recording end.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) plan: Plan,
    is_recorder: bool,
    /// Bytes of the IP and UDP headers.
    headers: u32,
    /// Maximum number of packets of a train.
    pub(super) most: u16,
    /// Number of packets of a train from here.
    pub(super) train: u16,
    sent: u64,
    sent_at: u64,
    leaving: Option<Leaving>,
    next_train: u32,
    pace: Pace,
    received: Report,
    is_report_due: bool,
    /// Smallest difference between arrival here and departure there.
    offset: Option<i64>,
    echo: Option<Held>,
    open: BTreeMap<u32, Open>,
    /// Arrivals here.
    pub(super) bins: BTreeMap<u32, Bin>,
    /// Arrivals at the other end; only at the recording end.
    pub(super) theirs: BTreeMap<u32, Bin>,
    /// Step before which the recording end has the bins of the other end.
    pub(super) until: u32,
    /// Smallest round trip, in microseconds, of packets that left in a step; only at the recording
    /// end.
    pub(super) round_trips: BTreeMap<u32, u64>,
    /// Number of packets of the trains that left here, by step.
    pub(super) trains: BTreeMap<u32, u16>,
}

/// A train that is being sent.
#[derive(Debug)]
struct Leaving {
    train: Train,
    left: u16,
}

/// Packet of the latest step with the smallest delay.
#[derive(Debug)]
struct Held {
    sent: u64,
    arrived: u64,
    step: u32,
}

/// A step whose packets may still arrive.
#[derive(Debug)]
struct Open {
    first_at: u64,
    /// Highest packet number before it.
    before: u64,
}

impl Flow {
    pub(super) fn new(plan: Plan, is_recorder: bool, headers: u32) -> Self {
        Self {
            plan,
            is_recorder,
            headers,
            most: plan.train,
            train: plan.train,
            sent: 0,
            sent_at: 0,
            leaving: None,
            next_train: 0,
            pace: Pace::new(),
            received: Report::default(),
            is_report_due: false,
            offset: None,
            echo: None,
            open: BTreeMap::new(),
            bins: BTreeMap::new(),
            theirs: BTreeMap::new(),
            until: 0,
            round_trips: BTreeMap::new(),
            trains: BTreeMap::new(),
        }
    }

    /// Processes a packet with `size` bytes of UDP payload.
    pub(super) fn receive(&mut self, packet: &Packet, size: usize, now: u64) {
        let delay = signed(now) - signed(packet.sent);
        self.offset = Some(self.offset.map_or(delay, |least| least.min(delay)));
        let step = match (self.plan.mode, packet.train) {
            (Mode::Sample, train) => train.map(|train| train.step),
            (Mode::Saturate, _) => Some(self.step(now)),
        };
        if let Some(step) = step {
            self.count(step, packet, size, now);
            let is_less = |held: &Held| held.step != step || delay < signed(held.arrived) - signed(held.sent);
            if self.echo.as_ref().is_none_or(is_less) {
                self.echo = Some(Held { sent: packet.sent, arrived: now, step });
            }
        }
        let Report { highest, received, .. } = self.received;
        self.received =
            Report { highest: highest.max(packet.number), received: received + 1, at: now, delay };
        self.is_report_due = true;
        // A higher number would belong to an earlier run of this end.
        if packet.report.highest <= self.sent {
            self.pace.on_report(packet.report, now);
        }
        if self.is_recorder {
            self.take_results(packet, now);
        } else {
            self.train = packet.plan.train;
            self.plan.is_ending |= packet.plan.is_ending;
            self.until = self.until.max(packet.until);
            self.bins = self.bins.split_off(&self.until);
        }
    }

    fn count(&mut self, step: u32, packet: &Packet, size: usize, now: u64) {
        let closed = self.closed(now);
        if step < closed || step > self.step(now).saturating_add(AHEAD) {
            return;
        }
        self.open = self.open.split_off(&closed);
        let before = self.received.highest;
        let open = self.open.entry(step).or_insert(Open { first_at: now, before });
        let bin = self.bins.entry(step).or_insert(Bin { step, ..Bin::default() });
        bin.packets = bin.packets.saturating_add(1);
        bin.bytes = bin.bytes.saturating_add(self.headers + size as u32);
        bin.span = u32::try_from(now.saturating_sub(open.first_at)).unwrap_or(u32::MAX);
        let sent = match packet.train {
            Some(train) => u64::from(train.length),
            None => before.max(packet.number) - open.before,
        };
        bin.lost = u32::try_from(sent.saturating_sub(bin.packets.into())).unwrap_or(u32::MAX);
        while self.bins.len() > MAX_KEPT && !self.is_recorder {
            self.bins.pop_first();
        }
    }

    /// Adds round trips, and arrivals at the other end.
    fn take_results(&mut self, packet: &Packet, now: u64) {
        if let Some(echo) = packet.echo {
            let round_trip = now.saturating_sub(echo.sent).saturating_sub(echo.held.into());
            let step = self.step_at(signed(echo.sent));
            let least = self.round_trips.entry(step).or_insert(round_trip);
            *least = round_trip.min(*least);
        }
        self.theirs.extend(packet.bins.iter().map(|bin| (bin.step, *bin)));
        self.until = self.until.max(packet.until);
    }

    /// Returns the next packet, if one is due.
    pub(super) fn transmit(&mut self, now: u64, proof: Secret) -> Option<(Packet, usize)> {
        let train = match self.plan.mode {
            _ if self.plan.is_ending => None,
            Mode::Sample => self.next_of_train(now),
            Mode::Saturate if self.pace.allows(now) => {
                return Some((self.packet(now, proof, None), SIZE));
            }
            Mode::Saturate => None,
        };
        if train.is_some() {
            return Some((self.packet(now, proof, train), SIZE));
        }
        let is_request = self.plan.is_ending && now >= self.sent_at + RARE_REPORT;
        let interval = match self.plan.mode {
            Mode::Saturate => Some(RARE_REPORT),
            Mode::Sample => (!self.is_recorder).then_some(REPORT),
        };
        let is_report = self.is_report_due
            && !self.plan.is_ending
            && interval.is_some_and(|interval| now >= self.sent_at + interval);
        (is_request || is_report).then(|| (self.packet(now, proof, None), 0))
    }

    fn next_of_train(&mut self, now: u64) -> Option<Train> {
        // The ends send at different times.
        let phase = if self.is_recorder { 0 } else { i64::from(self.plan.step / 2) };
        let step = self.step_at(self.time_of_recorder(now) - phase);
        if step >= self.next_train && (self.is_recorder || self.offset.is_some()) {
            self.next_train = step.saturating_add(1);
            self.leaving = Some(Leaving { train: Train { step, length: self.train }, left: 0 });
            if self.is_recorder {
                self.trains.insert(step, self.train);
            }
        }
        let leaving = self.leaving.as_mut()?;
        leaving.left += 1;
        let train = leaving.train;
        if leaving.left >= train.length {
            self.leaving = None;
        }
        Some(train)
    }

    /// Records trains up to now as lost, because sending is impossible.
    pub(super) fn skip(&mut self, now: u64) {
        let step = self.step(now);
        self.trains.insert(step, self.train);
        self.next_train = step + 1;
        self.leaving = None;
    }

    fn packet(&mut self, now: u64, proof: Secret, train: Option<Train>) -> Packet {
        self.sent += 1;
        self.sent_at = now;
        self.is_report_due = false;
        let held = |arrived: u64| u32::try_from(now.saturating_sub(arrived)).unwrap_or(u32::MAX);
        let echo = self.echo.as_ref().map(|echo| Echo { sent: echo.sent, held: held(echo.arrived) });
        let (until, bins) = if self.is_recorder { (self.until, Vec::new()) } else { self.results(now) };
        let plan = self.plan;
        Packet { proof, plan, number: self.sent, sent: now, train, echo, report: self.received, until, bins }
    }

    /// Returns the bins of closed steps that the recording end does not have yet, and the step up
    /// to which they are complete.
    fn results(&self, now: u64) -> (u32, Vec<Bin>) {
        let closed = self.closed(now);
        let all = self.bins.range(self.until.min(closed)..closed).map(|(_, bin)| *bin);
        let bins: Vec<Bin> = all.take(MAX_BINS).collect();
        let until = if bins.len() < MAX_BINS { closed } else { bins[MAX_BINS - 1].step + 1 };
        (until.max(self.until), bins)
    }

    /// Returns the current step.
    pub(super) fn step(&self, now: u64) -> u32 {
        self.step_at(self.time_of_recorder(now))
    }

    fn step_at(&self, time: i64) -> u32 {
        u32::try_from(time / i64::from(self.plan.step)).unwrap_or(if time < 0 { 0 } else { u32::MAX })
    }

    /// Returns the step before which no packets are counted any more. Trains towards the recording
    /// end leave in the middle of a step.
    pub(super) fn closed(&self, now: u64) -> u32 {
        self.step_at(self.time_of_recorder(now) - signed(CLOSED) - i64::from(self.plan.step / 2))
    }

    /// Returns the microseconds from the end of a step until it is closed at both ends.
    pub(super) fn patience(&self) -> u64 {
        2 * CLOSED + u64::from(self.plan.step)
    }

    /// Returns the time of the recording end's clock; at the other end, it is late by the smallest
    /// delay.
    fn time_of_recorder(&self, now: u64) -> i64 {
        signed(now) - if self.is_recorder { 0 } else { self.offset.unwrap_or(0) }
    }
}

fn signed(time: u64) -> i64 {
    i64::try_from(time).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::record::wire::Datagram;

    const HEADERS: u32 = 28;

    /// A bottleneck with a rate, a delay and a queue in bytes. No packet passes during the outage.
    struct Link {
        rate: f64,
        delay: u64,
        queue: f64,
        outage: std::ops::Range<u64>,
        free_at: f64,
        packets: VecDeque<(u64, Packet, usize)>,
    }

    impl Link {
        fn new(mbps: f64, delay: u64, queue: f64) -> Self {
            Self { rate: mbps / 8.0, delay, queue, outage: 0..0, free_at: 0.0, packets: VecDeque::new() }
        }

        fn send(&mut self, packet: Packet, size: usize, now: u64) {
            let size = Datagram::Packet(Box::new(packet.clone())).encode(1, size).len();
            let bytes = (size + HEADERS as usize) as f64;
            let start = self.free_at.max(now as f64);
            if (start - now as f64) * self.rate > self.queue || self.outage.contains(&now) {
                return;
            }
            self.free_at = start + bytes / self.rate;
            self.packets.push_back((self.free_at as u64 + self.delay, packet, size));
        }

        fn arrivals(&mut self, now: u64) -> Vec<(Packet, usize)> {
            let count = self.packets.partition_point(|(at, ..)| *at <= now);
            self.packets.drain(..count).map(|(_, packet, size)| (packet, size)).collect()
        }
    }

    /// Returns the recording end after this time over these links. The clock of the other end is
    /// half an hour ahead.
    fn run(mode: Mode, step: u32, seconds: u64, mut up: Link, mut down: Link) -> Flow {
        const AHEAD: u64 = 1_800_000_000;
        let plan = Plan { mode, step, train: 16, is_ending: false };
        let mut near = Flow::new(plan, true, HEADERS);
        let mut far: Option<Flow> = None;
        for now in (1..(seconds + 3) * 1_000_000).step_by(50) {
            near.plan.is_ending = now > seconds * 1_000_000;
            while let Some((packet, size)) = near.transmit(now, [0; 16]) {
                up.send(packet, size, now);
            }
            for (packet, size) in up.arrivals(now) {
                let far = far.get_or_insert_with(|| Flow::new(packet.plan, false, HEADERS));
                far.receive(&packet, size, now + AHEAD);
            }
            while let Some((packet, size)) = far.as_mut().and_then(|far| far.transmit(now + AHEAD, [0; 16])) {
                down.send(packet, size, now);
            }
            for (packet, size) in down.arrivals(now) {
                near.receive(&packet, size, now);
            }
        }
        near
    }

    fn sampled(bin: &Bin) -> f64 {
        let per_packet = f64::from(bin.bytes) / f64::from(bin.packets);
        8.0 * per_packet * f64::from(bin.packets - 1) / f64::from(bin.span)
    }

    #[test]
    fn trains_have_the_rates_and_round_trips_of_the_links() {
        for (up, down) in [(1.0, 4.0), (8.0, 2.0), (20.0, 60.0)] {
            let links = (Link::new(up, 20_000, 1e6), Link::new(down, 30_000, 1e6));
            let near = run(Mode::Sample, 500_000, 10, links.0, links.1);
            assert!(near.trains.len() >= 20, "{}", near.trains.len());
            for (bins, rate) in [(&near.theirs, up), (&near.bins, down)] {
                assert!(bins.len() >= 18, "{} of {rate}", bins.len());
                for bin in bins.values() {
                    let measured = sampled(bin);
                    assert!(
                        (measured / rate - 1.0).abs() < 0.02 + 0.003 * rate,
                        "{measured} instead of {rate}"
                    );
                    assert_eq!((bin.packets, bin.lost), (16, 0));
                }
            }
            // Serialisation at the bottleneck counts too; the answer may be a report, which is
            // small.
            let least = 50_000.0 + 8.0 * (1_260.0 / up + 150.0 / down);
            let most = least + 8.0 * 1_260.0 / down + 500.0;
            for &round_trip in near.round_trips.values() {
                assert!(
                    (least - 100.0..most).contains(&(round_trip as f64)),
                    "{round_trip}: {least} to {most}"
                );
            }
        }
    }

    #[test]
    fn saturation_has_the_rates_of_the_links_whatever_their_queues() {
        let rates = [0.5, 3.0, 12.0, 40.0];
        let all = rates.into_iter().flat_map(|up| rates.map(|down| (up, down)));
        for (up, down, queue) in all.flat_map(|(up, down)| [(up, down, 3e6), (up, down, 30_000.0)]) {
            let links = (Link::new(up, 20_000, queue), Link::new(down, 30_000, queue));
            let near = run(Mode::Saturate, 100_000, 20, links.0, links.1);
            for (bins, rate) in [(&near.theirs, up), (&near.bins, down)] {
                let bytes: f64 = bins.range(50..200).map(|(_, bin)| f64::from(bin.bytes)).sum();
                let measured = 8.0 * bytes / 15e6;
                let difference = (measured / rate - 1.0).abs();
                assert!(difference < 0.05, "{measured} instead of {rate} of {up} and {down}, queue {queue}");
            }
        }
    }

    #[test]
    fn an_outage_leaves_no_bins_and_all_others_arrive_after_it() {
        for (mode, step) in [(Mode::Sample, 500_000), (Mode::Saturate, 100_000)] {
            let link = || Link { outage: 5_000_000..9_000_000, ..Link::new(5.0, 20_000, 1e6) };
            let near = run(mode, step, 15, link(), link());
            let of = |bins: &BTreeMap<u32, Bin>, from: u32, to: u32| {
                bins.range(from * 1_000_000 / step..to * 1_000_000 / step).count()
            };
            for bins in [&near.theirs, &near.bins] {
                assert_eq!(of(bins, 6, 9), 0, "{mode:?}");
                let steps = 1_000_000 / step as usize;
                assert!(of(bins, 2, 5) >= 3 * steps - 1 && of(bins, 10, 14) >= 4 * steps - 1, "{mode:?}");
            }
        }
    }
}
