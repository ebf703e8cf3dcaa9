//! The way of a flow's parcels into a session, and their waiting room while there is none.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering::Relaxed},
};

use squall::{BlockFate, SendError, Session};
use squall_net::Micros;

use super::Flow;
use crate::{gather::micros, media::Class, parcel::Parcel, tally::Fate};

/// Most bytes of a flow that wait for a session.
const MAX_WAITING: usize = 16 << 20;

/// Where a flow's parcels go.
#[derive(Debug, Default)]
pub(super) struct Uplink {
    line: Option<Line>,
    /// Parcels that came while there was no session, oldest first.
    waiting: VecDeque<Parcel>,
    waiting_bytes: usize,
}

/// A flow's place in a session.
#[derive(Debug)]
pub(crate) struct Line {
    sender: Arc<Sender>,
    channel: u16,
}

impl Line {
    pub(crate) fn new(sender: Arc<Sender>, channel: u16) -> Self {
        Self { sender, channel }
    }
}

/// Hands blocks to a session.
#[derive(Debug)]
pub(crate) struct Sender {
    /// Number of the session in this program; later ones are higher.
    id: u64,
    session: Session,
    /// By channel. They outlive the lines of a flow that is carried by another session meanwhile: the other end puts
    /// parcels in order for as long as the channel is the flow's.
    numbers: Mutex<HashMap<u16, Numbers>>,
}

/// How far the parcels of a channel have come.
#[derive(Debug, Default)]
struct Numbers {
    /// That of the next one.
    next: u64,
    /// The stamp of the last one.
    last: Option<Micros>,
}

impl Sender {
    pub(crate) fn new(id: u64, session: Session) -> Self {
        Self { id, session, numbers: Mutex::default() }
    }

    /// The channel is no flow's any more: the next one's parcels are numbered from 0.
    pub(crate) fn forget(&self, channel: u16) {
        self.numbers().remove(&channel);
    }

    fn numbers(&self) -> MutexGuard<'_, HashMap<u16, Numbers>> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    fn hand_over(&self, flow: &Arc<Flow>, class: Class, block: squall::Block) -> Result<(), SendError> {
        let bytes = block.data.len();
        let handle = self.session.try_send(block)?;
        flow.pending.fetch_add(1, Relaxed);
        let flow = flow.clone();
        tokio::spawn(async move {
            let fate = fate(&handle.await);
            flow.pending.fetch_sub(1, Relaxed);
            flow.tally.ended(class, fate, bytes);
        });
        Ok(())
    }
}

fn fate(of: &BlockFate) -> Fate {
    match of {
        BlockFate::Delivered { .. } => Fate::Delivered,
        BlockFate::Expired { .. } => Fate::Expired,
        BlockFate::Lost { .. } => Fate::Lost,
        BlockFate::Cancelled { .. } => Fate::Cancelled,
        BlockFate::Refused(_) => Fate::Refused,
        _ => Fate::Closed,
    }
}

impl Uplink {
    pub(super) fn dispatch(&mut self, flow: &Arc<Flow>, parcel: Parcel) {
        match &self.line {
            Some(line) => line.send(flow, parcel),
            None => self.wait(flow, parcel),
        }
    }

    pub(super) fn carrier(&self) -> Option<u64> {
        self.line.as_ref().map(|line| line.sender.id())
    }

    pub(super) fn attach(&mut self, flow: &Arc<Flow>, line: Line) -> bool {
        match &self.line {
            Some(other) if other.sender.id() > line.sender.id() => return false,
            Some(same) if same.sender.id() == line.sender.id() && same.channel == line.channel => {
                return true;
            }
            _ => {}
        }
        self.sweep(flow);
        self.waiting_bytes = 0;
        for parcel in self.waiting.drain(..) {
            line.send(flow, parcel);
        }
        self.line = Some(line);
        true
    }

    pub(super) fn detach(&mut self, session: u64) -> bool {
        self.take_line(session).is_some()
    }

    pub(super) fn take_line(&mut self, session: u64) -> Option<Line> {
        self.line.take_if(|line| line.sender.id() == session)
    }

    fn wait(&mut self, flow: &Flow, parcel: Parcel) {
        self.sweep(flow);
        let full = self.waiting.len() >= flow.config().max_pending;
        if full || self.waiting_bytes + parcel.len() > MAX_WAITING {
            flow.tally.ended(parcel.class, Fate::Overflow, parcel.len());
            return;
        }
        self.waiting_bytes += parcel.len();
        self.waiting.push_back(parcel);
    }

    pub(super) fn sweep(&mut self, flow: &Flow) {
        let latency = micros(flow.config().latency_or_default());
        let now = flow.clock.now();
        while self.waiting.front().is_some_and(|parcel| parcel.stamp.saturating_add(latency) <= now) {
            let Some(parcel) = self.waiting.pop_front() else { return };
            self.waiting_bytes -= parcel.len();
            flow.tally.ended(parcel.class, Fate::Unsent, parcel.len());
        }
    }
}

impl Line {
    fn send(&self, flow: &Arc<Flow>, parcel: Parcel) {
        let (class, stamp, bytes) = (parcel.class, parcel.stamp, parcel.len());
        if flow.pending.load(Relaxed) >= flow.config().max_pending {
            flow.tally.ended(class, Fate::Overflow, bytes);
            return;
        }
        let mut all = self.sender.numbers();
        let numbers = all.entry(self.channel).or_default();
        let before = numbers.last.map_or(0, |last| stamp.saturating_sub(last));
        let data = parcel.seal(flow.clock.now(), numbers.next, before);
        let Some(block) = flow.block(class, stamp, self.channel, data) else {
            flow.tally.ended(class, Fate::Unsent, bytes);
            return;
        };
        match self.sender.hand_over(flow, class, block) {
            Ok(()) => {
                // Only what was handed over has a number: a gap is something that may still come.
                numbers.next += 1;
                numbers.last = Some(stamp);
            }
            Err(SendError::Closed) => flow.tally.ended(class, Fate::Closed, bytes),
            Err(_) => flow.tally.ended(class, Fate::Overflow, bytes),
        }
    }
}
