//! Sessions, each with its events.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use squall::{
    Block, BlockId, CloseReason, Config, Connect, FinishError, Interfaces,
    signal::{Publisher, Reading, board},
};
use tokio::task::AbortHandle;

use crate::{
    error::Failure,
    events::{Event, Events},
    handle::Table,
    runtime::runtime,
    types::Code,
};

pub(crate) static SESSIONS: Table<Session> = Table::new("session");

/// Interfaces with readings at most, in the life of a session.
const MAX_RADIOS: usize = 64;

/// A session for C.
pub(crate) struct Session {
    link: Arc<Mutex<Link>>,
    pub(crate) events: Arc<Events>,
    /// The task that connects, and then moves events.
    task: AbortHandle,
    radios: Mutex<HashMap<String, Publisher>>,
}

enum Link {
    Connecting,
    Up(squall::Session),
    /// Closed before it was up.
    Closed,
}

impl Session {
    /// Starts to connect.
    pub(crate) fn connect(request: Connect, config: Config) -> Result<Self, Failure> {
        let (link, events) = (Arc::new(Mutex::new(Link::Connecting)), Arc::new(Events::new()?));
        let (state, queue) = (link.clone(), events.clone());
        let task = runtime()?.spawn(async move {
            let session = match squall::connect(request, config).await {
                Ok(session) => session,
                Err(error) => return queue.queue.push_last(Event::Failed(error)),
            };
            {
                let mut link = lock(&state);
                if matches!(*link, Link::Closed) {
                    return;
                }
                *link = Link::Up(session.clone());
                queue.queue.push(Event::Connected);
            }
            queue.pump(session).await;
        });
        Ok(Self { link, events, task: task.abort_handle(), radios: Mutex::default() })
    }

    /// A session that an endpoint accepted.
    pub(crate) fn accepted(session: squall::Session) -> Result<Self, Failure> {
        let events = Arc::new(Events::new()?);
        let (queue, moved) = (events.clone(), session.clone());
        let task = runtime()?.spawn(async move { queue.pump(moved).await });
        let link = Arc::new(Mutex::new(Link::Up(session)));
        Ok(Self { link, events, task: task.abort_handle(), radios: Mutex::default() })
    }

    /// Waits until the session is up or has failed, and takes that event.
    pub(crate) fn wait_connected(&self) -> Result<(), Failure> {
        match self.events.next(Duration::MAX) {
            Ok(Some(Event::Connected)) => Ok(()),
            Ok(Some(Event::Failed(error))) => Err((&error).into()),
            other => Err(Failure::new(Code::ErrorInternal, format!("not connected: {other:?}"))),
        }
    }

    /// The session, if it is or was up.
    pub(crate) fn up(&self) -> Result<squall::Session, Failure> {
        match &*lock(&self.link) {
            Link::Up(session) => Ok(session.clone()),
            Link::Connecting => Err(Failure::new(Code::ErrorConnecting, "the session is not connected yet")),
            Link::Closed => Err(Failure::new(Code::ErrorClosed, "the session is closed")),
        }
    }

    pub(crate) fn send(&self, block: Block, report: bool) -> Result<BlockId, Failure> {
        self.events.send(&self.up()?, block, report)
    }

    /// The next event; waits for one. `None` when the time is up.
    pub(crate) fn next(&self, timeout: Duration) -> Result<Option<Event>, Failure> {
        let over = |_| Failure::new(Code::ErrorClosed, "the session is over, and all events were taken");
        self.events.next(timeout).map_err(over)
    }

    pub(crate) fn set_interfaces(&self, interfaces: Interfaces) -> Result<(), Failure> {
        self.up()?.set_interfaces(interfaces).map_err(Failure::of(Code::ErrorInterface))
    }

    /// Makes a reading of `age` the latest of an interface's radio; `None` removes the radio.
    pub(crate) fn set_signal(
        &self,
        interface: &str,
        reading: Option<(Duration, Reading)>,
    ) -> Result<(), Failure> {
        let session = self.up()?;
        let unknown = Failure::of(Code::ErrorInterface);
        let mut radios = self.radios.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((age, reading)) = reading else {
            session.set_signal(interface, None).map_err(unknown)?;
            radios.remove(interface);
            return Ok(());
        };
        if !radios.contains_key(interface) {
            if radios.len() >= MAX_RADIOS {
                return Err(Failure::new(
                    Code::ErrorFull,
                    "too many interfaces have readings: remove one first",
                ));
            }
            let (publisher, subscriber) = board();
            session.set_signal(interface, Some(subscriber)).map_err(unknown)?;
            radios.insert(interface.to_owned(), publisher);
        }
        if let Some(publisher) = radios.get_mut(interface) {
            let at = now().saturating_sub(u64::try_from(age.as_micros()).unwrap_or(u64::MAX));
            publisher.publish(&Reading { at, ..reading });
        }
        Ok(())
    }

    /// Waits until all blocks have ended, then closes the session; events can still be taken.
    pub(crate) fn finish(&self, timeout: Duration) -> Result<(), Failure> {
        runtime()?.block_on(self.up()?.finish(timeout)).map_err(|error| {
            let is_late = matches!(error, FinishError::TimedOut { .. });
            Failure::new(if is_late { Code::ErrorTimeout } else { Code::ErrorClosed }, error)
        })
    }

    /// Closes the session; events can still be taken.
    pub(crate) fn close(&self, code: u32, reason: &str) {
        let mut link = lock(&self.link);
        match &*link {
            Link::Up(session) => session.close(code, reason),
            Link::Connecting => {
                *link = Link::Closed;
                self.task.abort();
                self.events.queue.push_last(Event::Closed(CloseReason::Local));
            }
            Link::Closed => {}
        }
    }

    /// Closes the session and drops its events; threads that wait for one return.
    pub(crate) fn end(&self) {
        self.close(0, "");
        self.task.abort();
        self.events.queue.end();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
    }
}

fn lock(link: &Mutex<Link>) -> MutexGuard<'_, Link> {
    link.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Microseconds since an hour before the first reading: readings from before are possible.
fn now() -> u64 {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    let since = ORIGIN.get_or_init(Instant::now).elapsed() + Duration::from_secs(3600);
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
