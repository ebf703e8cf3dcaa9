//! The thread: reads packets, passes them to the network, hands over those that are due, sleeps.

use std::{
    io,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use squall_trace::Micros;

use super::{Inbox, Incoming, Outcome, Ports, Shared, State};
use crate::network::Arrival;

pub(super) struct Engine<P: Ports> {
    shared: Arc<Shared<P::Packet>>,
    ports: P,
    /// Packets that have been read and not yet passed to the network.
    inbox: Inbox<P::Packet>,
}

/// Maximum sleep; bounds the latency of a stop.
const NAP: Micros = 20_000;

/// Margin of the kernel's wake-up latency: the thread polls without sleeping for this time before a
/// delivery is due.
const AWAKE: Micros = 40;

impl<P: Ports> Engine<P> {
    pub(super) fn new(shared: Arc<Shared<P::Packet>>, ports: P) -> Self {
        let inbox = Inbox { start: shared.start, packets: Vec::new() };
        Self { shared, ports, inbox }
    }

    pub(super) fn run(mut self) {
        be_prompt();
        while !self.shared.stop.load(Ordering::Relaxed) {
            let next = self.exchange();
            let turn = self.wait(next).and_then(|ready| self.ports.receive(&ready, &mut self.inbox));
            if let Err(error) = turn {
                self.shared.lock().failure = Some(error.to_string());
                return;
            }
        }
    }

    /// Passes the packets read to the network, hands over those that are due, and returns the time
    /// of the next.
    fn exchange(&mut self) -> Option<Micros> {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        for Incoming { at, path, direction, size, packet } in self.inbox.packets.drain(..) {
            // A snapshot may have advanced the network past the time of reading; the network then
            // uses the later time. Packets dropped by the first queue are in its statistics.
            let _ = state.network.send(at, path, direction, size, packet);
        }
        loop {
            let now = shared.now();
            while let Some(path) = state.network.poll_rebind(now) {
                if let Err(error) = self.ports.rebind(path) {
                    state.failure = Some(format!("rebinding path {path}: {error}"));
                }
            }
            let Some(arrival) = state.network.poll(now) else { break };
            self.hand_over(&mut state, &arrival);
        }
        state.network.poll_timeout()
    }

    fn hand_over(&mut self, state: &mut State<P::Packet>, arrival: &Arrival<P::Packet>) {
        let late = self.shared.now().saturating_sub(arrival.at);
        let outcome = self.ports.hand_over(arrival);
        match outcome {
            Outcome::Stray => state.strays += 1,
            Outcome::Sent => state.slip.record(late),
            Outcome::Refused => {
                state.slip.record(late);
                state.refused += 1;
            }
        }
    }

    /// Sleeps until a port is readable or `next` is due. Returns the readable ports.
    fn wait(&self, next: Option<Micros>) -> io::Result<Vec<bool>> {
        let watched = self.ports.watched();
        let mut watched: Vec<PollFd<'_>> =
            watched.iter().map(|port| PollFd::from_borrowed_fd(*port, PollFlags::IN)).collect();
        let mut rest = next.map_or(NAP, |next| next.saturating_sub(self.shared.now()).min(NAP));
        loop {
            let sleep = Timespec::try_from(Duration::from_micros(rest.saturating_sub(AWAKE)))
                .expect("a nap fits a timespec");
            let ready = match poll(&mut watched, Some(&sleep)) {
                Err(rustix::io::Errno::INTR) => 0,
                result => result?,
            };
            rest = next.map_or(0, |next| next.saturating_sub(self.shared.now()).min(rest));
            if ready > 0 || rest == 0 || rest > AWAKE {
                return Ok(watched.iter().map(|port| !port.revents().is_empty()).collect());
            }
        }
    }
}

/// Requests a timer slack of a nanosecond instead of the default 50 µs, and real-time priority if
/// the program is privileged. Without either, packets are later, which the slip shows.
fn be_prompt() {
    #[cfg(target_os = "linux")]
    {
        use thread_priority::{
            RealtimeThreadSchedulePolicy::Fifo, ThreadPriority, ThreadSchedulePolicy,
            set_thread_priority_and_policy, thread_native_id,
        };
        /// Above all ordinary threads, and below the kernel's own.
        const FIRST: u8 = 10;
        const BEFORE_OTHERS: i32 = -15;
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZero::new(1));
        let first = ThreadPriority::try_from(FIRST).ok().map(|priority| {
            set_thread_priority_and_policy(thread_native_id(), priority, ThreadSchedulePolicy::Realtime(Fifo))
        });
        if !matches!(first, Some(Ok(()))) {
            // On Linux the priority is per thread: this affects only the calling one.
            let _ = rustix::process::setpriority_process(None, BEFORE_OTHERS);
        }
    }
}
