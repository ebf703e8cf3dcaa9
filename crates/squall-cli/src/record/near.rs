//! The recording end, with a thread for each interface.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use ring::hmac::Key;
use socket2::Socket;

use super::{
    flow::Flow,
    socket::{self, Epoch},
    wire::{self, Datagram, Packet, Plan, Secret},
};

/// Microseconds between requests for a challenge, and before a failed socket is opened again.
const RETRY: u64 = 250_000;

/// Maximum share of a step that a train may take at the last measured rate.
const SHARE: f64 = 1.0 / 8.0;

/// Minimum number of packets of a train; fewer would measure chance.
const MIN_TRAIN: u16 = 4;

/// Packets sent before arrivals are processed.
const BURST: usize = 64;

/// Parts of a recording that all interfaces share.
pub(super) struct Common {
    pub(super) epoch: Epoch,
    pub(super) plan: Plan,
    pub(super) token: Key,
    pub(super) host: SocketAddr,
    /// IP bytes sent and received over all interfaces.
    pub(super) bytes: AtomicU64,
    pub(super) at_most: u64,
    /// The recording has ended, and measuring stops.
    pub(super) is_over: AtomicBool,
}

/// An interface.
pub(super) struct Interface {
    pub(super) name: String,
    /// Identifies the interface to the other end, even after a change of its address.
    session: u64,
    state: Mutex<State>,
}

/// The state of an interface.
pub(super) struct State {
    pub(super) flow: Flow,
    /// The other end has answered.
    pub(super) has_answer: bool,
    /// The other end has refused the token.
    pub(super) is_refused: bool,
    /// Reason why packets cannot be sent now.
    pub(super) problem: Option<String>,
}

/// State of the proof for the other end.
#[derive(Default)]
struct Entrance {
    nonce: Option<Secret>,
    proof: Option<Secret>,
    asked_at: u64,
    proven_at: u64,
}

impl Interface {
    pub(super) fn new(name: String, session: u64, common: &Common) -> Self {
        let flow = Flow::new(common.plan, true, socket::headers(common.host));
        let state = State { flow, has_answer: false, is_refused: false, problem: None };
        Self { name, session, state: Mutex::new(state) }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Measures until the recording has ended and the other end has reported all results.
    pub(super) fn run(&self, common: &Common) {
        let mut entrance = Entrance::default();
        let mut over_at = None;
        let mut buffer = [0; 2_048];
        loop {
            match socket::connect(&self.name, common.host) {
                Ok(socket) => {
                    self.state().problem = None;
                    let outcome = self.exchange(common, &socket, &mut entrance, &mut over_at, &mut buffer);
                    match outcome {
                        Ok(()) => return,
                        Err(error) => self.state().problem = Some(error.to_string()),
                    }
                }
                Err(error) => self.state().problem = Some(error.to_string()),
            }
            if common.is_over.load(Relaxed) {
                return;
            }
            thread::sleep(Duration::from_micros(RETRY));
            // Steps pass without sending: nothing arrives either.
            self.state().flow.skip(common.epoch.now());
        }
    }

    fn exchange(
        &self,
        common: &Common,
        socket: &Socket,
        entrance: &mut Entrance,
        over_at: &mut Option<u64>,
        buffer: &mut [u8],
    ) -> io::Result<()> {
        loop {
            socket::wait(socket, true)?;
            while let Some(arrival) = receive(socket, buffer)? {
                let now = common.epoch.now().saturating_sub(arrival.age).max(1);
                self.receive(common, entrance, &buffer[..arrival.length], now);
            }
            let now = common.epoch.now();
            if common.is_over.load(Relaxed) {
                let since = *over_at.get_or_insert(now);
                let mut state = self.state();
                state.flow.plan.is_ending = true;
                let has_all = state.flow.until >= state.flow.step(since);
                if !state.has_answer || has_all || now > since + state.flow.patience() {
                    drop(state);
                    for _ in 0..3 {
                        let bye = Datagram::Bye(entrance.proof.unwrap_or_default());
                        send(socket, &bye.encode(self.session, 0))?;
                    }
                    return Ok(());
                }
            }
            self.transmit(common, entrance, socket, now)?;
        }
    }

    fn receive(&self, common: &Common, entrance: &mut Entrance, data: &[u8], now: u64) {
        let Some((session, datagram)) = Datagram::decode(data) else { return };
        if session != self.session {
            return;
        }
        let mut state = self.state();
        match datagram {
            Datagram::Packet(packet) => {
                count(common, data.len());
                state.has_answer = true;
                state.flow.receive(&packet, data.len(), now);
                state.adapt();
            }
            Datagram::Challenge(nonce) if entrance.nonce != Some(nonce) => {
                let proof = wire::proof(&common.token, session, &nonce);
                *entrance = Entrance {
                    nonce: Some(nonce),
                    proof: Some(proof),
                    asked_at: entrance.asked_at,
                    proven_at: now,
                };
            }
            // May be a late answer to an earlier request.
            Datagram::Challenge(_) => {
                state.is_refused |= now > entrance.proven_at + 4 * RETRY && !state.has_answer;
            }
            Datagram::Bye(_) => {}
        }
    }

    fn transmit(
        &self,
        common: &Common,
        entrance: &mut Entrance,
        socket: &Socket,
        now: u64,
    ) -> io::Result<()> {
        let mut state = self.state();
        let Some(proof) = entrance.proof else {
            if now >= entrance.asked_at + RETRY {
                entrance.asked_at = now;
                let request = Datagram::Packet(Box::new(Packet::request(common.plan)));
                send(socket, &request.encode(self.session, 0))?;
            }
            return Ok(());
        };
        for _ in 0..BURST {
            let Some((packet, size)) = state.flow.transmit(now, proof) else { break };
            let data = Datagram::Packet(Box::new(packet)).encode(self.session, size);
            count(common, data.len());
            send(socket, &data)?;
        }
        Ok(())
    }
}

impl State {
    /// Shortens the trains over a slow link.
    fn adapt(&mut self) {
        let flow = &mut self.flow;
        let (step, most) = (f64::from(flow.plan.step), flow.most);
        let fits = |bin: Option<&wire::Bin>| {
            let rate = bin.and_then(super::table::sampled)?;
            let packets = SHARE * step * rate / (8.0 * wire::SIZE as f64);
            Some((packets as u16).clamp(MIN_TRAIN.min(most), most))
        };
        let last = |bins: &std::collections::BTreeMap<u32, wire::Bin>| fits(bins.values().next_back());
        flow.train = last(&flow.theirs).unwrap_or(flow.train);
        flow.plan.train = last(&flow.bins).unwrap_or(flow.plan.train);
    }
}

fn count(common: &Common, payload: usize) {
    let bytes = payload as u64 + u64::from(socket::headers(common.host));
    if common.bytes.fetch_add(bytes, Relaxed) + bytes >= common.at_most {
        common.is_over.store(true, Relaxed);
    }
}

/// `true` for errors of an outage: no program listens, a router has no route, a buffer is full.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable, WouldBlock};
    matches!(error.kind(), ConnectionRefused | HostUnreachable | NetworkUnreachable | WouldBlock)
        || error.raw_os_error() == Some(nix::libc::ENOBUFS)
}

fn send(socket: &Socket, data: &[u8]) -> io::Result<()> {
    match socket.send(data) {
        Err(error) if !is_passing(&error) => Err(error),
        _ => Ok(()),
    }
}

fn receive(socket: &Socket, buffer: &mut [u8]) -> io::Result<Option<socket::Arrival>> {
    match socket::receive(socket, buffer) {
        Err(error) if is_passing(&error) => Ok(None),
        other => other,
    }
}
