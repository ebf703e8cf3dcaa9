//! Sessions with their events.

use std::{
    os::fd::RawFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use squall::{Block, BlockId, CloseReason, Config, Connect, FinishError, Interfaces};
use tokio::task::AbortHandle;

use crate::{
    Code, Ended, Event, Failure,
    events::{Events, Happening},
    runtime,
};

/// A session with its events. Dropping it closes the session with code 0, if it is open.
pub struct Session {
    link: Arc<Mutex<Link>>,
    events: Arc<Events>,
    /// The task that connects, and then moves events.
    task: AbortHandle,
}

enum Link {
    Connecting,
    Up(squall::Session),
    /// Closed before it was up.
    Closed,
}

impl Session {
    /// Starts to connect: the first event is [`EventKind::Connected`](crate::EventKind::Connected), or the end.
    ///
    /// # Errors
    /// [`Code::ErrorSystem`].
    pub fn connect(request: Connect, config: Config) -> Result<Self, Failure> {
        let (link, events) = (Arc::new(Mutex::new(Link::Connecting)), Arc::new(Events::new()?));
        let (state, queue) = (link.clone(), events.clone());
        let task = runtime()?.spawn(async move {
            let _end = EndOfPanic(queue.clone());
            let session = match squall::connect(request.config(config)).await {
                Ok(session) => session,
                Err(error) => return queue.queue.push_last(Happening::Failed(error)),
            };
            {
                let mut link = lock(&state);
                if matches!(*link, Link::Closed) {
                    return;
                }
                *link = Link::Up(session.clone());
                queue.queue.push(Happening::Connected);
            }
            queue.pump(session).await;
        });
        Ok(Self { link, events, task: task.abort_handle() })
    }

    /// Creates a session from one that an endpoint accepted.
    ///
    /// # Errors
    /// [`Code::ErrorSystem`].
    pub fn accepted(session: squall::Session) -> Result<Self, Failure> {
        let events = Arc::new(Events::new()?);
        let (queue, moved) = (events.clone(), session.clone());
        let task = runtime()?.spawn(async move {
            let _end = EndOfPanic(queue.clone());
            queue.pump(moved).await;
        });
        let link = Arc::new(Mutex::new(Link::Up(session)));
        Ok(Self { link, events, task: task.abort_handle() })
    }

    /// Waits until the session is connected or has failed, and takes that event. Must be called
    /// first, and once.
    ///
    /// # Errors
    /// [`Code::ErrorConnect`] or [`Code::ErrorTrust`].
    pub fn wait_connected(&self) -> Result<(), Failure> {
        self.wait_connected_for(Duration::MAX).map(drop)
    }

    /// As [`Self::wait_connected`], with a timeout; returns `false` if it expired. In that case it
    /// must be called again.
    ///
    /// # Errors
    /// Errors of [`Self::wait_connected`].
    pub fn wait_connected_for(&self, timeout: Duration) -> Result<bool, Failure> {
        match self.events.next(timeout) {
            Ok(Some(Happening::Connected)) => Ok(true),
            Ok(None) => Ok(false),
            Ok(Some(Happening::Failed(error))) => Err((&error).into()),
            other => Err(Failure::new(Code::ErrorInternal, format!("not connected: {other:?}"))),
        }
    }

    /// Returns the session, if it is or was connected.
    ///
    /// # Errors
    /// [`Code::ErrorConnecting`] or [`Code::ErrorClosed`].
    pub fn up(&self) -> Result<squall::Session, Failure> {
        match &*lock(&self.link) {
            Link::Up(session) => Ok(session.clone()),
            Link::Connecting => Err(Failure::new(Code::ErrorConnecting, "the session is not connected yet")),
            Link::Closed => Err(Failure::new(Code::ErrorClosed, "the session is closed")),
        }
    }

    /// Sends a block, if there is room. With `report` its outcome becomes an event.
    ///
    /// # Errors
    /// As [`Self::up`]; [`Code::ErrorFull`], after which [`EventKind::Writable`](crate::EventKind::Writable) follows when there
    /// is room; [`Code::ErrorArgument`] for an empty block, [`Code::ErrorSize`] for one that is too large.
    pub fn send(&self, block: Block, report: bool) -> Result<BlockId, Failure> {
        self.events.send(&self.up()?, block, report)
    }

    /// `true` if the queue has room for another outcome. If not, [`Self::send`] refuses a block
    /// with `report`.
    pub fn has_room_for_outcome(&self) -> bool {
        self.events.has_room_for_outcome()
    }

    /// Waits for the next event; `None` after the timeout.
    ///
    /// # Errors
    /// [`Code::ErrorClosed`] after the last event.
    pub fn next(&self, timeout: Duration) -> Result<Option<Event>, Failure> {
        let mut timeout = timeout;
        while let Some(happening) = self.events.next(timeout).map_err(over)? {
            if let Some(event) = Event::of(happening) {
                return Ok(Some(event));
            }
            // This one has no event: check for another without waiting.
            timeout = Duration::ZERO;
        }
        Ok(None)
    }

    /// Returns the next event of the peer's blocks
    /// ([`EventKind::Received`](crate::EventKind::Received) and
    /// [`EventKind::Missed`](crate::EventKind::Missed)), or the next other one, without waiting.
    /// `None` if there is none yet. Blocks that are not taken apply back pressure to the peer, but
    /// do not delay the other events.
    ///
    /// # Errors
    /// [`Code::ErrorClosed`] after the last one of these.
    pub fn take(&self, arrivals: bool) -> Result<Option<Event>, Failure> {
        while let Some(happening) = self.events.take(arrivals).map_err(over)? {
            if let Some(event) = Event::of(happening) {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// Sets a function that is called after each new event and at the end, from threads of the
    /// runtime, and once now. It must not wait, and not use the session.
    pub fn set_waker(&self, waker: impl Fn() + Send + Sync + 'static) {
        self.events.queue.set_waker(Arc::new(waker));
    }

    /// Returns a descriptor that is readable while events wait, valid as long as the session
    /// exists.
    pub fn fd(&self) -> RawFd {
        self.events.queue.fd()
    }

    /// Changes the interfaces of a session that this side started.
    ///
    /// # Errors
    /// As [`Self::up`]; [`Code::ErrorInterface`] if the session was accepted.
    pub fn set_interfaces(&self, interfaces: Interfaces) -> Result<(), Failure> {
        self.up()?.set_interfaces(interfaces).map_err(Failure::of(Code::ErrorInterface))
    }

    /// Waits until all blocks have ended, then closes the session; events can still be taken.
    ///
    /// # Errors
    /// As [`Self::up`]; [`Code::ErrorTimeout`] if blocks were open, [`Code::ErrorClosed`] if the session ended first.
    pub fn finish(&self, timeout: Duration) -> Result<(), Failure> {
        runtime()?.block_on(self.up()?.finish(timeout)).map_err(|error| {
            let is_late = matches!(error, FinishError::TimedOut { .. });
            Failure::new(if is_late { Code::ErrorTimeout } else { Code::ErrorClosed }, error)
        })
    }

    /// Closes the session; events can still be taken.
    pub fn close(&self, code: u32, reason: &str) {
        let mut link = lock(&self.link);
        match &*link {
            Link::Up(session) => session.close(code, reason),
            Link::Connecting => {
                *link = Link::Closed;
                self.task.abort();
                self.events.queue.push_last(Happening::Closed(CloseReason::Local));
            }
            Link::Closed => {}
        }
    }

    /// Closes the session and drops its events; threads that wait for one return.
    pub fn end(&self) {
        self.close(0, "");
        self.task.abort();
        self.events.queue.end();
    }
}

/// Ends the events if the task that produces them panics, so that no thread waits for ever because
/// of a defect.
struct EndOfPanic(Arc<Events>);

impl Drop for EndOfPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.queue.end();
        }
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
    }
}

fn over(_: Ended) -> Failure {
    Failure::new(Code::ErrorClosed, "the session is closed, and all events were taken")
}

fn lock(link: &Mutex<Link>) -> MutexGuard<'_, Link> {
    link.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_task_ends_the_events() {
        let events = Arc::new(Events::new().expect("has descriptors"));
        let end = EndOfPanic(events.clone());
        runtime().expect("starts").spawn(async move {
            let _end = end;
            panic!("a defect");
        });
        assert!(events.next(Duration::MAX).is_err());
    }

    #[test]
    fn what_waits_stays_when_the_task_ends_as_it_should() {
        let events = Arc::new(Events::new().expect("has descriptors"));
        events.queue.push(Happening::Writable);
        drop(EndOfPanic(events.clone()));
        assert!(matches!(events.next(Duration::ZERO), Ok(Some(Happening::Writable))));
    }

    #[test]
    fn a_session_that_is_closed_before_it_is_up_ends_once() {
        let request = Connect::to("192.0.2.1:1").trust(squall::Trust::InsecureAnyone);
        let session = Session::connect(request, Config::default()).expect("starts");
        assert_eq!(session.up().err().map(|failure| failure.code), Some(Code::ErrorConnecting));
        session.close(0, "");
        session.close(0, "");
        assert_eq!(session.up().err().map(|failure| failure.code), Some(Code::ErrorClosed));
        let event = session.next(Duration::MAX).expect("is there").expect("is there");
        assert_eq!((event.kind, event.cause), (crate::EventKind::Closed, crate::Cause::Local));
        assert_eq!(session.next(Duration::MAX).err().map(|failure| failure.code), Some(Code::ErrorClosed));
    }
}
