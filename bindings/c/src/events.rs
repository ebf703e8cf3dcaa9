//! What happens in a session, in one bounded queue.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use squall::{Arrival, Block, BlockFate, BlockId, CloseReason, ConnectError, PathEvent, SendError, Session};
use tokio::sync::Notify;

use crate::{
    error::Failure,
    queue::{Ended, Queue},
    runtime::runtime,
    types::Code,
};

/// Arrivals and path events that wait in the queue at most. More stay in the session, which holds the peer back.
const MAX_TAKEN: usize = 256;

/// Bytes of blocks in the queue beyond which no further one is taken out of the session.
const MAX_BYTES: usize = 1 << 20;

/// Fates that wait in the queue at most. Beyond that, blocks whose fate is to be reported are refused.
const MAX_FATES: usize = 65_536;

/// What happened in a session.
#[derive(Debug)]
pub(crate) enum Event {
    /// The session is up; only of one that was started without waiting.
    Connected,
    /// A block arrived, or will not.
    Arrival(Arrival),
    /// A block of this side ended.
    Fate(BlockId, BlockFate),
    /// There is room in the send queue again.
    Writable,
    /// A path changed.
    Path(PathEvent),
    /// The capacity changed.
    Capacity,
    /// The session could not be set up; the last event.
    Failed(ConnectError),
    /// The session is over; the last event.
    Closed(CloseReason),
}

/// The events of a session. Apart from the session, so that blocks on their way do not keep it open.
pub(crate) struct Events {
    pub(crate) queue: Queue<Event>,
    /// Arrivals and path events in the queue, and the bytes of the former.
    taken: AtomicUsize,
    bytes: AtomicUsize,
    /// Fates in the queue.
    fates: AtomicUsize,
    /// Blocks whose fate is to be reported, and is not known yet.
    open: AtomicUsize,
    /// A block was refused for lack of room.
    full: AtomicBool,
    /// A change of the capacity is in the queue.
    capacity: AtomicBool,
    /// One of the above has changed.
    changed: Notify,
}

impl Events {
    pub(crate) fn new() -> Result<Self, Failure> {
        let queue = Queue::new().map_err(Failure::of(Code::ErrorSystem))?;
        Ok(Self {
            queue,
            taken: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            fates: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            full: AtomicBool::new(false),
            capacity: AtomicBool::new(false),
            changed: Notify::new(),
        })
    }

    /// The next event; waits for one. `None` when the time is up.
    pub(crate) fn next(&self, timeout: Duration) -> Result<Option<Event>, Ended> {
        let event = self.queue.pop(timeout)?;
        match &event {
            Some(Event::Arrival(arrival)) => {
                self.bytes.fetch_sub(len(arrival), SeqCst);
                self.taken.fetch_sub(1, SeqCst);
            }
            Some(Event::Path(_)) => {
                self.taken.fetch_sub(1, SeqCst);
            }
            Some(Event::Fate(..)) => {
                self.fates.fetch_sub(1, SeqCst);
            }
            Some(Event::Capacity) => self.capacity.store(false, SeqCst),
            _ => return Ok(event),
        }
        self.changed.notify_one();
        Ok(event)
    }

    /// Sends a block, if there is room. With `report` its fate becomes an event.
    pub(crate) fn send(
        self: &Arc<Self>,
        session: &Session,
        block: Block,
        report: bool,
    ) -> Result<BlockId, Failure> {
        if report && self.fates.load(SeqCst) >= MAX_FATES {
            self.full.store(true, SeqCst);
            self.changed.notify_one();
            return Err(Failure::new(Code::ErrorFull, "too many events wait: take them first"));
        }
        // Before the block is sent, for the session may end at once, and its end is the last event.
        self.open.fetch_add(usize::from(report), SeqCst);
        let sent = session.try_send(block);
        let is_full = matches!(sent, Err(SendError::Full(_)));
        if is_full {
            self.full.store(true, SeqCst);
        }
        let handle = match sent {
            Ok(handle) => handle,
            Err(error) => {
                self.open.fetch_sub(usize::from(report), SeqCst);
                self.changed.notify_one();
                return Err(error.into());
            }
        };
        let id = handle.id();
        if report {
            let events = self.clone();
            runtime()?.spawn(async move {
                let fate = handle.await;
                events.fates.fetch_add(1, SeqCst);
                events.queue.push(Event::Fate(id, fate));
                events.open.fetch_sub(1, SeqCst);
                events.changed.notify_one();
            });
        }
        Ok(id)
    }

    fn has_room(&self) -> bool {
        self.taken.load(SeqCst) < MAX_TAKEN && self.bytes.load(SeqCst) < MAX_BYTES
    }

    /// Moves events from a session to the queue, until the session is over and all were moved.
    pub(crate) async fn pump(&self, session: Session) {
        let mut capacity = session.capacity_changes();
        let (mut arrivals, mut paths, mut changes) = (true, true, true);
        while arrivals || paths || self.open.load(SeqCst) > 0 {
            let has_room = self.has_room();
            tokio::select! {
                arrival = session.recv_any(), if arrivals && has_room => match arrival {
                    Some(arrival) => {
                        self.taken.fetch_add(1, SeqCst);
                        self.bytes.fetch_add(len(&arrival), SeqCst);
                        self.queue.push(Event::Arrival(arrival));
                    }
                    None => arrivals = false,
                },
                event = session.path_event(), if paths && has_room => match event {
                    Some(event) => {
                        self.taken.fetch_add(1, SeqCst);
                        self.queue.push(Event::Path(event));
                    }
                    None => paths = false,
                },
                changed = capacity.changed(), if changes && !self.capacity.load(SeqCst) => match changed {
                    Ok(()) => {
                        self.capacity.store(true, SeqCst);
                        self.queue.push(Event::Capacity);
                    }
                    Err(_) => changes = false,
                },
                () = session.writable(), if self.full.load(SeqCst) => {
                    self.full.store(false, SeqCst);
                    if session.close_reason().is_none() {
                        self.queue.push(Event::Writable);
                    }
                }
                () = self.changed.notified() => {}
            }
        }
        self.queue.push_last(Event::Closed(session.closed().await));
    }
}

fn len(arrival: &Arrival) -> usize {
    match arrival {
        Arrival::Block(block) => block.data.len(),
        Arrival::Part(part) => part.data.len(),
        _ => 0,
    }
}
