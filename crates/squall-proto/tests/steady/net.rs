//! A link and the flows on it, packet by packet, to test controllers: the laboratory does so with
//! whole sessions, this in a fraction of the time.

use std::collections::{BTreeMap, VecDeque};

use squall_proto::congestion::{Ack, Arrival, Controller};
use squall_units::{
    Span, Time,
    short::{at_ms, at_us, ms, us},
};

use crate::transfer::Transfer;

pub(crate) const MTU: u64 = 1_250;
const STEP: Span = us(50);
/// Number of packets, or time, after which a receiver reports.
const REPORT: (usize, Span) = (10, ms(10));
/// Distance behind the newest packet above which one is lost.
const REORDERED: u64 = 3;
/// Largest number of packets that leave at once.
const BURST: f64 = 10.0;
/// Lead of the receiver's clock in microseconds.
const OFFSET: i64 = 77_000_000;

/// Creates the acknowledgement of a full packet, by a transfer.
fn ack(packet: u64, sent: Time) -> Ack {
    Ack { packet, sent, bytes: MTU, is_app_limited: false, smallest_rtt: us(0) }
}

/// Returns the next of a fixed sequence of chances, from 0 to below 1.
pub(crate) fn next_chance(random: &mut u64) -> f64 {
    *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*random >> 33) as f64 / f64::from(1_u32 << 31)
}

/// A bottleneck with a queue that drops its tail, and flows that share it with transfers.
pub(crate) struct Net {
    now: Time,
    /// Rate in bytes per microsecond.
    rate: f64,
    /// One-way delay.
    delay: Span,
    /// Size of the queue in bytes.
    pub(crate) queue_limit: u64,
    /// Share of packets that the medium loses.
    pub(crate) loss: f64,
    random: u64,
    queue: VecDeque<(Of, Packet)>,
    queued: u64,
    busy_until: f64,
    pub(crate) flows: Vec<Flow>,
    transfers: Vec<Transfer>,
}

/// The sender of a packet.
#[derive(Clone, Copy)]
enum Of {
    Flow(usize),
    Transfer(usize),
}

pub(crate) struct Packet {
    pub(crate) number: u64,
    pub(crate) sent: Time,
    pub(crate) arrived: Time,
    pub(crate) bytes: u64,
    /// Content, for transfers.
    pub(crate) data: Vec<u8>,
}

/// A sender, its receiver, and measurements of them.
pub(crate) struct Flow {
    pub(crate) controller: Box<dyn Controller>,
    starts: Time,
    ends: Time,
    /// Bytes and interval of its frames; a transfer otherwise.
    frames: Option<(u64, Span)>,
    backlog: u64,
    next: u64,
    flight: BTreeMap<u64, Time>,
    credit: f64,
    on_the_way: VecDeque<Packet>,
    arrived: Vec<Packet>,
    report_due: Time,
    reports: VecDeque<(Time, Vec<Packet>)>,
    srtt: f64,
    /// Bytes since [`Net::measure`].
    delivered: u64,
    lost: u64,
    round_trips: Vec<u64>,
}

impl Net {
    /// Creates a link with a queue of 1 MB.
    pub(crate) fn new(mbps: f64, round_trip_ms: u64) -> Self {
        Self {
            now: at_us(0),
            rate: mbps / 8.0,
            delay: us(round_trip_ms * 500),
            queue_limit: 1_000_000,
            loss: 0.0,
            random: 1,
            queue: VecDeque::new(),
            queued: 0,
            busy_until: 0.0,
            flows: Vec::new(),
            transfers: Vec::new(),
        }
    }

    /// Adds a flow that sends between two times, in seconds.
    pub(crate) fn flow(mut self, controller: impl Controller + 'static, starts: u64, ends: u64) -> Self {
        self.flows.push(Flow {
            controller: Box::new(controller),
            starts: at_ms(starts * 1_000),
            ends: at_ms(ends * 1_000),
            frames: None,
            backlog: 0,
            next: 0,
            flight: BTreeMap::new(),
            credit: BURST,
            on_the_way: VecDeque::new(),
            arrived: Vec::new(),
            report_due: at_us(0),
            reports: VecDeque::new(),
            srtt: 0.0,
            delivered: 0,
            lost: 0,
            round_trips: Vec::new(),
        });
        self
    }

    /// Adds a transfer of noq with CUBIC between two times, in seconds.
    pub(crate) fn transfer(mut self, starts: u64, ends: u64) -> Self {
        self.transfers.push(Transfer::new(at_ms(starts * 1_000), at_ms(ends * 1_000)));
        self
    }

    /// Makes the last flow send a frame of `bytes` every `interval`.
    pub(crate) fn frames(mut self, bytes: u64, interval: Span) -> Self {
        self.flows.last_mut().expect("a flow").frames = Some((bytes, interval));
        self
    }

    pub(crate) fn set_rate(&mut self, mbps: f64) {
        self.rate = mbps / 8.0;
    }

    /// Runs until this time from the start.
    pub(crate) fn run_until(&mut self, seconds: f64) {
        while (self.now.micros() as f64) < seconds * 1e6 {
            self.now += STEP;
            self.serve();
            for flow in 0..self.flows.len() {
                self.flows[flow].receive(self.now, self.delay);
                self.flows[flow].acknowledge(self.now);
                self.send(flow);
            }
            for index in 0..self.transfers.len() {
                for packet in self.transfers[index].step(self.now, self.delay) {
                    self.enter(Of::Transfer(index), packet);
                }
            }
        }
    }

    /// Runs for this time, and returns the goodput of each flow, in Mbps.
    pub(crate) fn measure(&mut self, seconds: f64) -> Vec<f64> {
        self.begin_measure();
        self.run_until(self.now.since_epoch().as_secs_f64() + seconds);
        self.measured(seconds)
    }

    pub(crate) fn begin_measure(&mut self) {
        for flow in &mut self.flows {
            (flow.delivered, flow.lost) = (0, 0);
            flow.round_trips.clear();
        }
        self.transfers.iter_mut().for_each(|transfer| transfer.delivered = 0);
    }

    /// Returns the goodput of each flow in the seconds since then, and that of each transfer, in
    /// Mbps.
    pub(crate) fn measured(&self, seconds: f64) -> Vec<f64> {
        let transfers = self.transfers.iter().map(|transfer| transfer.delivered);
        let bytes = self.flows.iter().map(|flow| flow.delivered).chain(transfers);
        bytes.map(|bytes| bytes as f64 * 8.0 / seconds / 1e6).collect()
    }

    /// Returns the present queueing delay in milliseconds.
    pub(crate) fn queue_ms(&self) -> f64 {
        self.queued as f64 / self.rate / 1e3
    }

    fn serve(&mut self) {
        while self.busy_until <= self.now.micros() as f64
            && let Some((of, mut packet)) = self.queue.pop_front()
        {
            self.queued -= packet.bytes;
            self.busy_until =
                self.busy_until.max(packet.sent.micros() as f64) + packet.bytes as f64 / self.rate;
            packet.arrived = at_us(self.busy_until as u64) + self.delay;
            match of {
                Of::Flow(index) => self.flows[index].on_the_way.push_back(packet),
                Of::Transfer(index) => self.transfers[index].on_the_way.push_back(packet),
            }
        }
    }

    fn send(&mut self, index: usize) {
        let now = self.now;
        let flow = &mut self.flows[index];
        if now < flow.starts || now >= flow.ends {
            return;
        }
        flow.offer(now);
        while self.flows[index].takes_packet(now) {
            let number = self.flows[index].leave(now);
            let packet = Packet { number, sent: now, arrived: at_us(0), bytes: MTU, data: Vec::new() };
            self.enter(Of::Flow(index), packet);
        }
    }

    /// Passes a packet to the queue, unless the medium loses it.
    fn enter(&mut self, of: Of, packet: Packet) {
        let is_lost = next_chance(&mut self.random) < self.loss;
        if !is_lost && self.queued + packet.bytes <= self.queue_limit {
            self.queued += packet.bytes;
            self.queue.push_back((of, packet));
        }
    }
}

impl Flow {
    fn offer(&mut self, now: Time) {
        match self.frames {
            None => self.backlog = MTU,
            Some((bytes, interval)) if (now - self.starts).micros() % interval.micros() < STEP.micros() => {
                self.backlog += bytes;
            }
            Some(_) => {}
        }
    }

    fn takes_packet(&mut self, now: Time) -> bool {
        let has_data = self.backlog > 0;
        let fits = (self.flight.len() as u64 + 1) * MTU <= self.controller.window() && self.credit >= 1.0;
        if !has_data || !fits {
            self.controller.on_waiting(now, has_data, true);
            let window = self.controller.window() as f64;
            let by_window = if self.srtt > 0.0 { 1.25 * window / self.srtt } else { f64::INFINITY };
            let rate = self.controller.pacing_rate().map_or(by_window, |rate| rate as f64 / 8e6);
            self.credit = (self.credit + rate * STEP.micros() as f64 / MTU as f64).min(BURST);
        }
        has_data && fits
    }

    fn leave(&mut self, now: Time) -> u64 {
        let number = self.next;
        self.next += 1;
        self.credit -= 1.0;
        if self.frames.is_some() {
            self.backlog = self.backlog.saturating_sub(MTU);
        }
        self.flight.insert(number, now);
        self.controller.on_sent(now, number, MTU);
        number
    }

    fn receive(&mut self, now: Time, delay: Span) {
        while self.on_the_way.front().is_some_and(|packet| packet.arrived <= now) {
            if self.arrived.is_empty() {
                self.report_due = now + REPORT.1;
            }
            self.arrived.extend(self.on_the_way.pop_front());
            self.delivered += MTU;
        }
        let is_due = self.arrived.len() >= REPORT.0 || !self.arrived.is_empty() && self.report_due <= now;
        if is_due {
            self.reports.push_back((now + delay, std::mem::take(&mut self.arrived)));
        }
    }

    fn acknowledge(&mut self, now: Time) {
        while self.reports.front().is_some_and(|(at, _)| *at <= now) {
            let (_, packets) = self.reports.pop_front().expect("it is there");
            for packet in &packets {
                if self.flight.remove(&packet.number).is_some() {
                    self.controller.on_ack(now, &ack(packet.number, packet.sent));
                }
            }
            let newest = packets.last().expect("reports are of something");
            let rtt = (now - newest.sent).micros() as f64;
            self.srtt += if self.srtt == 0.0 { rtt } else { (rtt - self.srtt) / 8.0 };
            self.round_trips.push(self.srtt as u64);
            self.controller.on_end_acks(now, self.flight.len() as u64 * MTU);
            let arrival = Arrival {
                packet: newest.number,
                sent: newest.sent,
                at: newest.arrived.micros() as i64 + OFFSET,
            };
            self.controller.on_arrival(now, arrival);
            self.lose(now, |number, _| number + REORDERED <= newest.number);
        }
        let timeout = us((2.5 * self.srtt.max(150e3)) as u64);
        self.lose(now, |_, sent| sent + timeout <= now);
    }

    fn lose(&mut self, now: Time, is_lost: impl Fn(u64, Time) -> bool) {
        while let Some((&number, &sent)) = self.flight.first_key_value()
            && is_lost(number, sent)
        {
            self.flight.remove(&number);
            self.lost += 1;
            self.controller.on_loss(now, number, MTU);
        }
    }

    /// Returns the 95th percentile of the smoothed round trip since [`Net::measure`], in
    /// milliseconds.
    pub(crate) fn p95_ms(&mut self) -> f64 {
        self.round_trips.sort_unstable();
        self.round_trips[self.round_trips.len() * 95 / 100] as f64 / 1e3
    }

    /// Returns the share of packets lost since [`Net::measure`].
    pub(crate) fn lost(&self) -> f64 {
        self.lost as f64 * MTU as f64 / (self.delivered + self.lost * MTU) as f64
    }
}
