//! Many sessions in memory: processor time of each side, without sockets but with real AES-GCM,
//! compared with plain noq datagrams.
//!
//! One endpoint at each side and a link of [`DELAY`] between them, in virtual time. Every session
//! sends 30 frames a second. An endpoint processes all packets of a [`TURN`] at once, as under
//! load, then sends. Only the calls into an endpoint are counted, in processor time of the thread.

mod plain;
mod side;
mod squall;

use std::time::{Duration, Instant};

use anyhow::ensure;
use bytes::Bytes;
use squall_proto::{Fingerprint, ServerTls};
use squall_testkit::world::{End, Packet, World, after};

use super::{
    clock::thread_time,
    figure::{Figure, Target},
};
use side::Side;

/// Bytes of a frame: 2 Mbps at 30 frames a second.
const FRAME: usize = 8333;

const FRAME_INTERVAL: Duration = Duration::from_nanos(1_000_000_000 / 30);

const DELAY: Duration = Duration::from_millis(10);

const TURN: Duration = Duration::from_micros(100);

/// Age of the sessions at the start of the measurement: handshakes, slow start and MTU discovery
/// are complete.
const YOUNG: Duration = Duration::from_secs(3);

/// Age at which, in addition, all histories have their maximum length.
const OLD: Duration = Duration::from_secs(65);

const COUNTED: Duration = Duration::from_secs(2);

/// Number of sessions in the comparison.
const FEW: usize = 50;
/// Number of turns in the comparison.
const TURNS: usize = 3;

/// Number of sessions that one core of an exit should be able to serve.
const MANY: usize = 1000;

/// Processor time of each side per second of virtual time.
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
    run(now, squall::Source::new(now, pin)?, squall::Sink::new(now, tls), sessions, age)
}

fn of_plain(connections: usize, age: Duration) -> anyhow::Result<Cost> {
    let (source, sink) = plain::pair()?;
    run(Instant::now(), source, sink, connections, age)
}

fn run(
    now: Instant,
    source: impl Side,
    sink: impl Side,
    connections: usize,
    age: Duration,
) -> anyhow::Result<Cost> {
    let mut world = World::new(now, Timed::new(sink), vec![Timed::new(source)]);
    (world.tick, world.most) = (TURN, u32::MAX);
    for _ in 0..connections {
        world.clients[0].end.connect(world.now)?;
        world.run(Duration::from_millis(1), after(DELAY));
    }
    world.run(Duration::from_millis(200), after(DELAY));
    world.clients[0].frames = Frames::of(connections, world.now);
    world.run(age, after(DELAY));
    world.server.end.received();
    (world.clients[0].spent, world.server.spent) = (Duration::ZERO, Duration::ZERO);
    world.run(COUNTED, after(DELAY));
    let seconds = COUNTED.as_secs_f64();
    let offered = (connections * FRAME) as f64 * 30.0 * seconds;
    let arrived = world.server.end.received() as f64 / offered;
    ensure!(arrived > 0.98, "{:.1} % of the media have arrived", 100.0 * arrived);
    let [source, sink] =
        [world.clients[0].spent, world.server.spent].map(|spent| spent.as_secs_f64() / seconds);
    Ok(Cost { source, sink })
}

/// A side with its frames and its processor time.
struct Timed<E> {
    end: E,
    frames: Frames,
    spent: Duration,
}

impl<E> Timed<E> {
    fn new(end: E) -> Self {
        Self { end, frames: Frames::of(0, Instant::now()), spent: Duration::ZERO }
    }
}

impl<E: Side> End for Timed<E> {
    fn is_at(&self, address: std::net::SocketAddr) -> bool {
        self.end.is_at(address)
    }

    fn due(&mut self) -> Option<Instant> {
        self.end.due().into_iter().chain(self.frames.due()).min()
    }

    fn receive(&mut self, now: Instant, packet: Packet) {
        self.end.receive(now, packet);
    }

    fn on_timeout(&mut self, now: Instant) {
        self.end.on_timeout(now);
    }

    fn transmit(&mut self, now: Instant, send: &mut dyn FnMut(Packet)) {
        self.end.transmit(now, send);
    }

    fn turn(
        &mut self,
        now: Instant,
        arrived: &mut dyn Iterator<Item = Packet>,
        send: &mut dyn FnMut(Packet),
    ) {
        let (mut left, began) = (Vec::new(), thread_time());
        while let Some(connection) = self.frames.next(now) {
            self.end.send(now, connection, self.frames.data.clone());
        }
        self.end.turn(now, arrived, &mut |packet| left.push(packet));
        self.spent += thread_time() - began;
        left.into_iter().for_each(send);
    }
}

/// Frames of all connections in turn, evenly spaced.
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

    fn due(&self) -> Option<Instant> {
        (self.connections > 0).then(|| {
            let nanos = FRAME_INTERVAL.as_nanos() as u64 * self.sent / self.connections as u64;
            self.start + Duration::from_nanos(nanos)
        })
    }

    /// Returns the connection whose frame is due.
    fn next(&mut self, now: Instant) -> Option<usize> {
        self.due().filter(|due| *due <= now)?;
        self.sent += 1;
        Some((self.sent - 1) as usize % self.connections)
    }
}
