//! The thread: read what arrives, let the network have it, hand over what is due, sleep.

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
    /// What has been read and not yet been given to the network.
    inbox: Inbox<P::Packet>,
}

/// The longest sleep, after which the wish to stop is seen.
const NAP: Micros = 20_000;

/// Before a delivery is due the thread does not sleep but asks the ports again and again, because the kernel
/// may wake it late by about this much.
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

    /// Gives the network what was read and hands over what is due; says when the next thing is due.
    fn exchange(&mut self) -> Option<Micros> {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        for Incoming { at, path, direction, size, packet } in self.inbox.packets.drain(..) {
            // A snapshot may have moved the network past the time of reading; the network then takes the later.
            // What the first queue refuses is in its statistics.
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

    /// Sleeps until a port has something or `next` is due; the ports that have something.
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

/// Asks the kernel to wake this thread to the microsecond instead of rounding sleeps up by 50, and before others
/// if this program has the right to ask for that. Without either packets are later, which the slip will show.
fn be_prompt() {
    #[cfg(target_os = "linux")]
    {
        use thread_priority::{
            RealtimeThreadSchedulePolicy::Fifo, ThreadPriority, ThreadSchedulePolicy,
            set_thread_priority_and_policy, thread_native_id,
        };
        /// Above all that is not in a hurry, and below what the kernel does itself.
        const FIRST: u8 = 10;
        const BEFORE_OTHERS: i32 = -15;
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZero::new(1));
        let first = ThreadPriority::try_from(FIRST).ok().map(|priority| {
            set_thread_priority_and_policy(thread_native_id(), priority, ThreadSchedulePolicy::Realtime(Fifo))
        });
        if !matches!(first, Some(Ok(()))) {
            // Linux keeps a priority for each thread: this is for the calling one alone.
            let _ = rustix::process::setpriority_process(None, BEFORE_OTHERS);
        }
    }
}
