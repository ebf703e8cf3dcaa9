//! Sessions: one runtime for all, each found by its number.

use std::{
    collections::VecDeque,
    io,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use squall::{Block, BlockFate, BlockHandle, BlockId, Depends, PathInfo, SendError, Session};
use tokio::{
    runtime::{Builder, Runtime},
    sync::Notify,
};

use crate::{connect::Wishes, error::Failure, event::Event, network, radio, table::Table};

static SESSIONS: Table<Entry> = Table::new();

/// Fates that wait for Java at most; the oldest make way.
const MAX_FATES: usize = 4096;

/// A session, and what Java has not been told of it.
struct Entry {
    session: Session,
    fates: Arc<Fates>,
    /// A block was refused for want of room.
    full: AtomicBool,
    /// The end was told.
    over: AtomicBool,
}

/// Fates of blocks. Apart from the session, so that blocks on their way do not keep it open.
#[derive(Default)]
struct Fates {
    waiting: Mutex<VecDeque<(BlockId, BlockFate)>>,
    /// Blocks whose fate is not known yet.
    open: AtomicUsize,
    /// A fate was added, or a block was refused for want of room.
    changed: Notify,
}

/// What goes with the bytes of a block, as Java gives it.
pub(crate) struct Options {
    /// In microseconds from now; 0 for none.
    pub(crate) deadline: i64,
    pub(crate) priority: i32,
    pub(crate) reliable: bool,
    pub(crate) channel: i32,
    pub(crate) ordered: bool,
}

/// Connects over networks; waits until it has or has not.
pub(crate) fn connect(wishes: Wishes, networks: &[i64]) -> Result<i64, Failure> {
    let (request, config) = wishes.resolve()?;
    let request = request.interfaces(network::plan(networks));
    // On a thread of the runtime: what it calls of Java is not to run within this call of Java's.
    let attempt = runtime()?.spawn(squall::connect(request, config));
    let connected = runtime()?.block_on(attempt).map_err(Failure::of)?;
    let entry = Entry {
        session: connected.map_err(Failure::of)?,
        fates: Arc::default(),
        full: AtomicBool::new(false),
        over: AtomicBool::new(false),
    };
    Ok(SESSIONS.insert(entry))
}

/// A number of Java's that is to be a priority or a channel.
fn option<N: TryFrom<i32>, T: TryFrom<N>>(what: &str, value: i32) -> Result<T, Failure> {
    let option = N::try_from(value).ok().and_then(|value| T::try_from(value).ok());
    option.ok_or_else(|| Failure::Argument(format!("there is no {what} {value}")))
}

/// Hands a block over, if there is room. Returns its number.
pub(crate) fn send(number: i64, data: Vec<u8>, options: &Options) -> Result<i64, Failure> {
    let entry = get(number)?;
    let deadline = u64::try_from(options.deadline)
        .map_err(|_| Failure::Argument(format!("a deadline of {} µs is in the past", options.deadline)))?;
    let block = Block {
        data: data.into(),
        deadline: (deadline > 0).then(|| Duration::from_micros(deadline)),
        priority: option::<u8, _>("priority", options.priority)?,
        reliable: options.reliable,
        channel: option::<u16, _>("channel", options.channel)?,
        ordered: options.ordered,
        value: None,
        depends: Depends::Nothing,
    };
    let sent = entry.session.try_send(block);
    if matches!(sent, Err(SendError::Full(_))) {
        entry.full.store(true, SeqCst);
        entry.fates.changed.notify_one();
    }
    let handle = sent?;
    let id = handle.id();
    entry.fates.open.fetch_add(1, SeqCst);
    runtime()?.spawn(note_fate(entry.fates.clone(), handle));
    // Ids count from 0.
    Ok(i64::try_from(id.0).unwrap_or(i64::MAX))
}

/// Takes a block back.
pub(crate) fn cancel(number: i64, block: i64) -> Result<(), Failure> {
    let block = u64::try_from(block).map_err(|_| Failure::Argument(format!("there is no block {block}")))?;
    get(number)?.session.cancel(BlockId(block));
    Ok(())
}

async fn note_fate(fates: Arc<Fates>, handle: BlockHandle) {
    let id = handle.id();
    let fate = handle.await;
    let mut waiting = fates.waiting();
    if waiting.len() >= MAX_FATES {
        waiting.pop_front();
    }
    waiting.push_back((id, fate));
    drop(waiting);
    fates.open.fetch_sub(1, SeqCst);
    fates.changed.notify_one();
}

/// Waits for the next event; `None` if there is none in time.
pub(crate) fn next(number: i64, timeout: Duration) -> Result<Option<Event>, Failure> {
    let entry = get(number)?;
    if entry.over.load(SeqCst) {
        return Err(Failure::closed("the session"));
    }
    let waited = runtime()?.block_on(async { tokio::time::timeout(timeout, entry.next()).await });
    Ok(waited.ok())
}

impl Fates {
    fn waiting(&self) -> MutexGuard<'_, VecDeque<(BlockId, BlockFate)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    /// The next event; the end is the last.
    async fn next(&self) -> Event {
        loop {
            let settled = self.fates.open.load(SeqCst) == 0;
            let ended = self.fates.waiting().pop_front();
            if let Some((id, fate)) = ended {
                return Event::Finished(id, fate);
            }
            tokio::select! {
                biased;
                Some(event) = self.session.path_event() => return Event::Path(event),
                Some(arrival) = self.session.recv_any() => return Event::Arrival(arrival),
                () = self.fates.changed.notified() => {}
                () = self.session.writable(), if self.full.load(SeqCst) => {
                    self.full.store(false, SeqCst);
                    if self.session.close_reason().is_none() {
                        return Event::Writable;
                    }
                }
                // All fates are noted before the end is told.
                reason = self.session.closed(), if settled => {
                    self.over.store(true, SeqCst);
                    return Event::Closed(reason);
                }
            }
        }
    }
}

/// Has a session run over other networks from now on.
pub(crate) fn set_networks(number: i64, networks: &[i64]) -> Result<(), Failure> {
    get(number)?.session.set_interfaces(network::plan(networks)).map_err(Failure::of)
}

/// Has a session go by a radio for all networks of a name; by none for 0.
pub(crate) fn set_signal(number: i64, name: &str, radio: i64) -> Result<(), Failure> {
    let entry = get(number)?;
    let signal = match radio {
        0 => None,
        radio => Some(radio::subscriber(radio).ok_or_else(|| Failure::closed("the radio"))?),
    };
    entry.session.set_signal(name, signal).map_err(Failure::of)
}

/// Sets what may be sent over the networks of a name, in bytes; anything if negative.
pub(crate) fn set_budget(number: i64, name: &str, budget: i64) -> Result<(), Failure> {
    get(number)?.session.set_budget(name, u64::try_from(budget).ok()).map_err(Failure::of)
}

/// The paths of a session.
pub(crate) fn paths(number: i64) -> Result<Vec<PathInfo>, Failure> {
    Ok(get(number)?.session.path_stats())
}

/// Waits until all blocks have ended, then closes the session; events can still be taken.
pub(crate) fn finish(number: i64, timeout: Duration) -> Result<(), Failure> {
    let entry = get(number)?;
    runtime()?.block_on(entry.session.finish(timeout)).map_err(Failure::of)
}

/// Closes a session, if it is not closed yet. Its number stands for it until [`release`].
pub(crate) fn close(number: i64, code: i32, reason: &str) {
    if let Some(entry) = SESSIONS.get(number) {
        entry.session.close(code.cast_unsigned(), reason);
    }
}

/// Lets a session go.
pub(crate) fn release(number: i64) {
    SESSIONS.remove(number);
}

fn get(number: i64) -> Result<Arc<Entry>, Failure> {
    SESSIONS.get(number).ok_or_else(|| Failure::closed("the session"))
}

/// The runtime of all sessions. One thread does: a phone's radios are slower than one core.
fn runtime() -> Result<&'static Runtime, Failure> {
    static RUNTIME: OnceLock<io::Result<Runtime>> = OnceLock::new();
    let build = || Builder::new_multi_thread().worker_threads(1).thread_name("squall").enable_all().build();
    RUNTIME.get_or_init(build).as_ref().map_err(Failure::of)
}
