//! Sessions: one runtime for all, each found by its number.

use std::{
    io,
    sync::{Arc, OnceLock},
    time::Duration,
};

use squall::{Block, BlockId, Endpoint, Event, PathInfo, Session};
use tokio::runtime::{Builder, Runtime};

use crate::{connect::Wishes, error::Failure, network, radio, table::Table};

static SESSIONS: Table<Session> = Table::new();

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
    let attempt = runtime()?.spawn(Endpoint::connect(request, config));
    let connected = runtime()?.block_on(attempt).map_err(Failure::of)?;
    Ok(SESSIONS.insert(connected.map_err(Failure::of)?))
}

/// Hands a block over, if there is room. Returns its number.
pub(crate) fn send(number: i64, data: Vec<u8>, options: &Options) -> Result<i64, Failure> {
    let session = get(number)?;
    let narrow = |what: &str, value: i32| Failure::Argument(format!("there is no {what} {value}"));
    let deadline = u64::try_from(options.deadline)
        .map_err(|_| Failure::Argument(format!("a deadline of {} µs is in the past", options.deadline)))?;
    let block = Block {
        data: data.into(),
        deadline: (deadline > 0).then(|| Duration::from_micros(deadline)),
        priority: u8::try_from(options.priority).map_err(|_| narrow("priority", options.priority))?,
        reliable: options.reliable,
        channel: u16::try_from(options.channel).map_err(|_| narrow("channel", options.channel))?,
        ordered: options.ordered,
    };
    let id = session.try_send(block)?;
    // Ids count from 0.
    Ok(i64::try_from(id.0).unwrap_or(i64::MAX))
}

/// Takes a block back.
pub(crate) fn cancel(number: i64, block: i64) -> Result<(), Failure> {
    let block = u64::try_from(block).map_err(|_| Failure::Argument(format!("there is no block {block}")))?;
    get(number)?.cancel(BlockId(block));
    Ok(())
}

/// Waits for the next event; `None` if there is none in time.
pub(crate) fn next(number: i64, timeout: Duration) -> Result<Option<Event>, Failure> {
    let session = get(number)?;
    if let Some(event) = session.try_recv() {
        return Ok(Some(event));
    }
    let waited = runtime()?.block_on(async { tokio::time::timeout(timeout, session.recv()).await });
    match waited {
        Ok(None) => Err(Failure::closed("the session")),
        Ok(event) => Ok(event),
        Err(_) => Ok(None),
    }
}

/// Has a session run over other networks from now on.
pub(crate) fn set_networks(number: i64, networks: &[i64]) -> Result<(), Failure> {
    get(number)?.set_interfaces(network::plan(networks));
    Ok(())
}

/// Has a session go by a radio for all networks of a name; by none for 0.
pub(crate) fn set_signal(number: i64, name: &str, radio: i64) -> Result<(), Failure> {
    let session = get(number)?;
    let signal = match radio {
        0 => None,
        radio => Some(radio::subscriber(radio).ok_or_else(|| Failure::closed("the radio"))?),
    };
    session.set_signal(name, signal);
    Ok(())
}

/// Sets what may be sent over the networks of a name, in bytes; anything if negative.
pub(crate) fn set_budget(number: i64, name: &str, budget: i64) -> Result<(), Failure> {
    get(number)?.set_budget(name, u64::try_from(budget).ok());
    Ok(())
}

/// The paths of a session.
pub(crate) fn paths(number: i64) -> Result<Vec<PathInfo>, Failure> {
    Ok(get(number)?.path_stats())
}

/// Waits until all blocks have ended, then closes the session; events can still be taken.
pub(crate) fn finish(number: i64, timeout: Duration) -> Result<(), Failure> {
    let session = get(number)?;
    runtime()?.block_on(session.finish(timeout)).map_err(Failure::of)
}

/// Closes a session, if it is not closed yet. Its number stands for it until [`release`].
pub(crate) fn close(number: i64, code: i32, reason: &str) {
    if let Some(session) = SESSIONS.get(number) {
        session.close(code.cast_unsigned(), reason);
    }
}

/// Lets a session go.
pub(crate) fn release(number: i64) {
    SESSIONS.remove(number);
}

fn get(number: i64) -> Result<Arc<Session>, Failure> {
    SESSIONS.get(number).ok_or_else(|| Failure::closed("the session"))
}

/// The runtime of all sessions. One thread does: a phone's radios are slower than one core.
fn runtime() -> Result<&'static Runtime, Failure> {
    static RUNTIME: OnceLock<io::Result<Runtime>> = OnceLock::new();
    let build = || Builder::new_multi_thread().worker_threads(1).thread_name("squall").enable_all().build();
    RUNTIME.get_or_init(build).as_ref().map_err(Failure::of)
}
