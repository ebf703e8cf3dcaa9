//! Events of a session, in one bounded queue.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use squall::{Arrival, Block, BlockId, CloseReason, ConnectError, Outcome, PathEvent, SendError, Session};
use tokio::sync::Notify;

use crate::{Code, Ended, Failure, Queue, runtime};

/// Maximum number of arrivals and path events in the queue. More stay in the session, which applies
/// back pressure to the peer.
const MAX_TAKEN: usize = 256;

/// Bytes of blocks in the queue from which on no further one is taken out of the session.
const MAX_BYTES: usize = 1 << 20;

/// Maximum number of outcomes in the queue. Beyond it, blocks whose outcome is to be reported are
/// refused, so that no outcome is lost.
const MAX_OUTCOMES: usize = 16_384;

/// An event before its conversion.
#[derive(Debug)]
pub(crate) enum Happening {
    /// The session is connected; only for one that was started without waiting.
    Connected,
    /// A block arrived, or will not.
    Arrival(Arrival),
    /// A block of this side ended.
    Outcome(BlockId, Outcome),
    /// There is room in the send queue again.
    Writable,
    /// A path changed.
    Path(PathEvent),
    /// The capacity changed.
    Capacity,
    /// The session could not be set up; the last event.
    Failed(ConnectError),
    /// The session has ended; the last event.
    Closed(CloseReason),
}

/// Events of a session. Separate from the session, so that blocks in flight do not keep it open.
pub(crate) struct Events {
    pub(crate) queue: Queue<Happening>,
    /// Arrivals and path events in the queue.
    taken: AtomicUsize,
    /// Bytes of the arrivals in the queue.
    bytes: AtomicUsize,
    /// Outcomes in the queue.
    outcomes: AtomicUsize,
    /// Open blocks whose outcome is to be reported.
    open: AtomicUsize,
    /// A block was refused for lack of room, and no event has reported room since.
    full: AtomicBool,
    /// An event that reports room is in the queue.
    writable: AtomicBool,
    /// A change of the capacity is in the queue.
    capacity: AtomicBool,
    /// One of the above fields has changed.
    changed: Notify,
}

impl Events {
    pub(crate) fn new() -> Result<Self, Failure> {
        let queue = Queue::new().map_err(Failure::of(Code::ErrorSystem))?;
        Ok(Self {
            queue,
            taken: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            outcomes: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            full: AtomicBool::new(false),
            writable: AtomicBool::new(false),
            capacity: AtomicBool::new(false),
            changed: Notify::new(),
        })
    }

    /// Waits for the next event; `None` after the timeout.
    pub(crate) fn next(&self, timeout: Duration) -> Result<Option<Happening>, Ended> {
        let event = self.queue.pop(timeout)?;
        self.taken(event.as_ref());
        Ok(event)
    }

    /// Returns the next event that is an arrival, or the next that is not; does not wait.
    pub(crate) fn take(&self, arrivals: bool) -> Result<Option<Happening>, Ended> {
        let event = self.queue.take(|event| matches!(event, Happening::Arrival(_)) == arrivals)?;
        self.taken(event.as_ref());
        Ok(event)
    }

    /// Called when an event left the queue, so there is room for another.
    fn taken(&self, event: Option<&Happening>) {
        match event {
            Some(Happening::Arrival(arrival)) => {
                self.bytes.fetch_sub(len(arrival), SeqCst);
                self.taken.fetch_sub(1, SeqCst);
            }
            Some(Happening::Path(_)) => {
                self.taken.fetch_sub(1, SeqCst);
            }
            Some(Happening::Outcome(..)) => {
                self.outcomes.fetch_sub(1, SeqCst);
            }
            Some(Happening::Writable) => self.writable.store(false, SeqCst),
            Some(Happening::Capacity) => self.capacity.store(false, SeqCst),
            _ => return,
        }
        self.changed.notify_one();
    }

    /// Sends a block, if there is room. With `report` its outcome becomes an event.
    pub(crate) fn send(
        self: &Arc<Self>,
        session: &Session,
        block: Block,
        report: bool,
    ) -> Result<BlockId, Failure> {
        if report && !self.has_room_for_outcome() {
            self.full.store(true, SeqCst);
            self.changed.notify_one();
            return Err(Failure::new(Code::ErrorFull, "too many events wait: take them first"));
        }
        // Counted before the block is sent, because the session may end at once, and its end is the
        // last event.
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
                let outcome = handle.await;
                events.outcomes.fetch_add(1, SeqCst);
                events.queue.push(Happening::Outcome(id, outcome));
                events.open.fetch_sub(1, SeqCst);
                events.changed.notify_one();
            });
        }
        Ok(id)
    }

    pub(crate) fn has_room_for_outcome(&self) -> bool {
        self.outcomes.load(SeqCst) < MAX_OUTCOMES
    }

    fn has_room(&self) -> bool {
        self.taken.load(SeqCst) < MAX_TAKEN && self.bytes.load(SeqCst) < MAX_BYTES
    }

    /// Moves events from a session to the queue, until the session has ended and all were moved.
    pub(crate) async fn pump(&self, session: Session) {
        let mut capacity = session.capacity_changes();
        let (mut arrivals, mut paths, mut changes) = (true, true, true);
        while arrivals || paths || self.open.load(SeqCst) > 0 {
            let has_room = self.has_room();
            tokio::select! {
                arrival = session.recv_any(), if arrivals && has_room => match arrival {
                    Ok(Some(arrival)) => {
                        self.taken.fetch_add(1, SeqCst);
                        self.bytes.fetch_add(len(&arrival), SeqCst);
                        self.queue.push(Happening::Arrival(arrival));
                    }
                    Ok(None) | Err(_) => arrivals = false,
                },
                event = session.path_event(), if paths && has_room => match event {
                    Some(event) => {
                        self.taken.fetch_add(1, SeqCst);
                        self.queue.push(Happening::Path(event));
                    }
                    None => paths = false,
                },
                changed = capacity.changed(), if changes && !self.capacity.load(SeqCst) => match changed {
                    Ok(()) => {
                        self.capacity.store(true, SeqCst);
                        self.queue.push(Happening::Capacity);
                    }
                    Err(_) => changes = false,
                },
                () = session.writable(), if self.full.load(SeqCst) && !self.writable.load(SeqCst) => {
                    self.full.store(false, SeqCst);
                    if session.close_reason().is_none() {
                        self.writable.store(true, SeqCst);
                        self.queue.push(Happening::Writable);
                    }
                }
                () = self.changed.notified() => {}
            }
        }
        self.queue.push_last(Happening::Closed(session.closed().await));
    }
}

fn len(arrival: &Arrival) -> usize {
    if let Arrival::Block(block) = arrival { block.data.len() } else { 0 }
}

#[cfg(test)]
mod tests {
    use squall::{Config, Connect, Endpoint, Identity, Trust};

    use super::*;

    /// Returns a session over loopback, with the events of its accepting side.
    fn pair() -> (Session, Session, Arc<Events>) {
        let runtime = runtime().expect("starts");
        let identity = Identity::self_signed("localhost").expect("is made");
        let (client, server) = runtime.block_on(async {
            let tls = identity.server_tls().expect("fits");
            let endpoint = Endpoint::listen("127.0.0.1:0", &tls, Config::default()).expect("listens");
            let request = Connect::to(endpoint.local_addrs()[0]).trust(Trust::InsecureAnyone);
            let client = squall::connect(request).await.expect("connects");
            (client, endpoint.accept().await.expect("accepts"))
        });
        let events = Arc::new(Events::new().expect("has descriptors"));
        let (moved, session) = (events.clone(), server.clone());
        runtime.spawn(async move { moved.pump(session).await });
        (client, server, events)
    }

    /// Waits until the condition holds.
    fn until(mut holds: impl FnMut() -> bool) {
        for _ in 0..1000 {
            if holds() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("does not hold after 10 s");
    }

    /// Returns the next event that concerns neither a path nor the capacity.
    fn next(events: &Events) -> Happening {
        loop {
            match events.next(Duration::from_secs(10)) {
                Ok(Some(Happening::Path(_) | Happening::Capacity)) => {}
                Ok(Some(event)) => return event,
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn blocks_that_are_not_taken_stay_in_the_session() {
        const COUNT: usize = 400;
        for len in [100, 40_000] {
            let (client, server, events) = pair();
            for _ in 0..COUNT {
                client.try_send(Block::new(vec![7; len])).expect("has room");
            }
            until(|| client.stats().blocks_delivered == COUNT as u64);
            until(|| server.stats().held_bytes > 0);
            let (taken, bytes) = (events.taken.load(SeqCst), events.bytes.load(SeqCst));
            assert!(taken <= MAX_TAKEN && bytes < MAX_BYTES + len, "{taken} {bytes}");
            for _ in 0..COUNT {
                assert!(
                    matches!(next(&events), Happening::Arrival(Arrival::Block(block)) if block.data.len() == len)
                );
            }
            assert_eq!(events.bytes.load(SeqCst), 0);
            client.close(3, "end");
            assert!(matches!(next(&events), Happening::Closed(CloseReason::ByPeer { code: 3, .. })));
            assert_eq!(events.next(Duration::MAX).err(), Some(Ended));
        }
    }

    #[test]
    fn no_block_is_taken_whose_outcome_would_find_no_room() {
        let (_client, server, events) = pair();
        events.outcomes.store(MAX_OUTCOMES, SeqCst);
        let refused = events.send(&server, Block::new("x"), true).expect_err("has no room");
        assert_eq!(refused.code, Code::ErrorFull);
        assert!(matches!(next(&events), Happening::Writable));
        let mut again = 0;
        events.send(&server, Block::new("x"), false).expect("needs no room");
        // An application that retries without taking events does not fill the queue.
        for _ in 0..50 {
            events.send(&server, Block::new("x"), true).expect_err("has no room");
            std::thread::sleep(Duration::from_millis(2));
        }
        assert!(matches!(next(&events), Happening::Writable));
        events.outcomes.store(0, SeqCst);
        while let Ok(Some(event)) = events.next(Duration::from_millis(300)) {
            let is_other = matches!(event, Happening::Path(_) | Happening::Capacity);
            again += usize::from(matches!(event, Happening::Writable));
            assert!(is_other || again <= 1, "{event:?}");
        }
        events.outcomes.store(MAX_OUTCOMES - 1, SeqCst);
        let id = events.send(&server, Block::new("x"), true).expect("has room");
        assert!(matches!(next(&events), Happening::Outcome(of, Outcome::Delivered { .. }) if of == id));
        assert_eq!(events.outcomes.load(SeqCst), MAX_OUTCOMES - 1);
    }

    #[test]
    fn every_outcome_comes_before_the_end() {
        const COUNT: usize = 500;
        let (_client, server, events) = pair();
        for _ in 0..COUNT {
            events.send(&server, Block::new(vec![0; 10_000]), true).expect("has room");
        }
        server.close(0, "");
        for taken in 0..COUNT {
            let event = next(&events);
            assert!(matches!(event, Happening::Outcome(..)), "{taken}: {event:?}");
        }
        assert!(matches!(next(&events), Happening::Closed(CloseReason::Local)));
    }

    #[test]
    fn a_full_session_reports_when_it_has_room() {
        let (client, server, events) = pair();
        // The other side takes nothing until the queue of this one is full.
        let block = vec![0; 8 << 20];
        let mut sent = 0;
        let refused = loop {
            match events.send(&server, Block::new(block.clone()), true) {
                Ok(_) => sent += 1,
                Err(failure) => break failure,
            }
        };
        // More than the eight that the queue holds, if one has left meanwhile.
        assert!(refused.code == Code::ErrorFull && sent >= 8, "{refused:?} {sent}");
        let taker = runtime().expect("runs").spawn(async move {
            for _ in 0..sent {
                client.recv().await.expect("lasts").expect("arrives");
            }
            client
        });
        let (mut outcomes, mut writable) = (0, 0);
        while outcomes < sent || writable == 0 {
            match next(&events) {
                Happening::Outcome(_, Outcome::Delivered { .. }) => outcomes += 1,
                Happening::Writable => writable += 1,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((outcomes, writable), (sent, 1));
        drop(taker);
    }
}
