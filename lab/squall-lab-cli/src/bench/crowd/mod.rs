//! Many sessions in memory: processor time of each side, without sockets and with real AES-GCM, beside plain noq datagrams.
//!
//! One endpoint at each side and a link of [`DELAY`] between them, in virtual time. Every session sends 30 frames a second. An end
//! takes in what has arrived within [`TURN`], as an endpoint under load does, then sends. Only the calls into an end are
//! counted, in processor time of the thread.

mod end;
mod plain;
mod squall;

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use anyhow::ensure;
use bytes::{Bytes, BytesMut};
use squall_proto::{Fingerprint, ServerTls};

use super::{
    clock::thread_time,
    figure::{Figure, Target},
};
use end::{End, Source};

/// Bytes of a frame: 2 Mbps at 30 frames a second.
const FRAME: usize = 8333;

const FRAME_INTERVAL: Duration = Duration::from_nanos(1_000_000_000 / 30);

const DELAY: Duration = Duration::from_millis(10);

const TURN: Duration = Duration::from_micros(100);

/// Age of sessions when the count begins: handshakes, slow start and the search for the largest packet are over.
const YOUNG: Duration = Duration::from_secs(3);

/// The same, with all histories as long as they ever are.
const OLD: Duration = Duration::from_secs(65);

const COUNTED: Duration = Duration::from_secs(2);

/// Sessions of the comparison, and its turns.
const FEW: usize = 50;
const TURNS: usize = 3;

/// Sessions that one core of an exit is to serve.
const MANY: usize = 1000;

/// Processor time of each side for a second of virtual time.
#[derive(Clone, Copy, Debug)]
struct Cost {
    source: f64,
    sink: f64,
}

pub(super) fn measure() -> anyhow::Result<Vec<Figure>> {
    let identity = ::squall::Identity::self_signed("bench")?;
    let (tls, pin) = (identity.server_tls()?, identity.fingerprint());
    let mut ratios = [const { Vec::new() }; 3];
    for _ in 0..TURNS {
        let (ours, plain) = (of_squall(FEW, YOUNG, &tls, pin)?, of_plain(FEW, YOUNG)?);
        let old = of_squall(FEW, OLD, &tls, pin)?;
        let of_turn = [ours.source / plain.source, ours.sink / plain.sink, old.sink / ours.sink];
        ratios.iter_mut().zip(of_turn).for_each(|(ratios, ratio)| ratios.push(ratio));
    }
    let many = of_squall(MANY, YOUNG, &tls, pin)?;
    let [source, sink, age] = ratios;
    Ok(vec![
        Figure::of("processor time of a sender in memory, squall / plain", "", source),
        Figure::of("processor time of a receiver in memory, squall / plain", "", sink),
        Figure::of("processor time of a receiver, sessions of 65 s / of 3 s", "", age)
            .target(Target::AtMost(1.15)),
        Figure::single("1,000 sessions of 2 Mbps in memory, sender", "s/s", many.source),
        Figure::single("1,000 sessions of 2 Mbps in memory, receiver", "s/s", many.sink)
            .target(Target::AtMost(1.0)),
    ])
}

fn of_squall(sessions: usize, age: Duration, tls: &ServerTls, pin: Fingerprint) -> anyhow::Result<Cost> {
    let now = Instant::now();
    World::new(now, squall::Source::new(now, pin)?, squall::Sink::new(now, tls)).run(sessions, age)
}

fn of_plain(connections: usize, age: Duration) -> anyhow::Result<Cost> {
    let (source, sink) = plain::pair()?;
    World::new(Instant::now(), source, sink).run(connections, age)
}

/// Packets under way in one direction, and when each arrives.
type Link = VecDeque<(Instant, BytesMut)>;

struct World<S, K> {
    now: Instant,
    source: S,
    sink: K,
    up: Link,
    down: Link,
    buf: Vec<u8>,
    spent: [Duration; 2],
}

impl<S: Source, K: End> World<S, K> {
    fn new(now: Instant, source: S, sink: K) -> Self {
        let (up, down) = (Link::new(), Link::new());
        Self { now, source, sink, up, down, buf: Vec::new(), spent: [Duration::ZERO; 2] }
    }

    fn run(mut self, connections: usize, age: Duration) -> anyhow::Result<Cost> {
        for _ in 0..connections {
            self.source.connect(self.now)?;
            self.turn();
            self.pass(Duration::from_millis(1), &mut Frames::none());
        }
        self.pass(Duration::from_millis(200), &mut Frames::none());
        let mut frames = Frames::of(connections, self.now);
        self.pass(age, &mut frames);
        self.sink.received();
        self.spent = [Duration::ZERO; 2];
        self.pass(COUNTED, &mut frames);
        let seconds = COUNTED.as_secs_f64();
        let offered = (connections * FRAME) as f64 * 30.0 * seconds;
        let arrived = self.sink.received() as f64 / offered;
        ensure!(arrived > 0.98, "{:.1} % of the media have arrived", 100.0 * arrived);
        let [source, sink] = self.spent.map(|spent| spent.as_secs_f64() / seconds);
        Ok(Cost { source, sink })
    }

    fn pass(&mut self, time: Duration, frames: &mut Frames) {
        let end = self.now + time;
        loop {
            let arrivals = [&self.up, &self.down].map(|link| link.front().map(|(at, _)| *at));
            let timers = [self.source.due(), self.sink.due()];
            let next = arrivals.into_iter().chain(timers).chain([frames.due()]).flatten().min();
            let Some(next) = next.filter(|next| *next < end) else { break };
            self.now = next.max(self.now + TURN);
            let began = thread_time();
            while let Some(connection) = frames.next(self.now) {
                self.source.send(self.now, connection, frames.data.clone());
            }
            self.spent[0] += thread_time() - began;
            self.turn();
        }
        self.now = end;
    }

    fn turn(&mut self) {
        let Self { now, source, sink, up, down, buf, spent } = self;
        spent[0] += drive(source, *now, down, up, buf);
        spent[1] += drive(sink, *now, up, down, buf);
    }
}

/// Lets an end take in, act and send; returns the time it took.
fn drive(end: &mut impl End, now: Instant, from: &mut Link, to: &mut Link, buf: &mut Vec<u8>) -> Duration {
    let began = thread_time();
    while from.front().is_some_and(|(at, _)| *at <= now)
        && let Some((_, packet)) = from.pop_front()
    {
        end.take_in(now, packet);
    }
    if end.due().is_some_and(|due| due <= now) {
        end.on_time(now);
    }
    loop {
        buf.clear();
        let Some(size) = end.send_out(now, buf) else { break };
        to.extend(buf.chunks(size).map(|packet| (now + DELAY, BytesMut::from(packet))));
    }
    thread_time() - began
}

/// Frames of all connections, one after the other, evenly spread.
struct Frames {
    connections: usize,
    sent: u64,
    start: Instant,
    data: Bytes,
}

impl Frames {
    fn of(connections: usize, start: Instant) -> Self {
        Self { connections, sent: 0, start, data: Bytes::from(vec![0; FRAME]) }
    }

    fn none() -> Self {
        Self::of(0, Instant::now())
    }

    fn due(&self) -> Option<Instant> {
        (self.connections > 0).then(|| {
            let nanos = FRAME_INTERVAL.as_nanos() as u64 * self.sent / self.connections as u64;
            self.start + Duration::from_nanos(nanos)
        })
    }

    /// The connection whose frame is due.
    fn next(&mut self, now: Instant) -> Option<usize> {
        self.due().filter(|due| *due <= now)?;
        self.sent += 1;
        Some((self.sent - 1) as usize % self.connections)
    }
}
