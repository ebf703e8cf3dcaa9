//! Sessions by number.

use std::{sync::Arc, time::Duration};

use squall::{Block, BlockId, BlockOptions, PathInfo};
use squall_bindings::{Event, Session, Table};

use crate::{connect::Wishes, error::Failure, event, network, radio, ready};

static SESSIONS: Table<Session> = Table::new();

/// Options of a block from Java.
pub(crate) struct Options {
    /// Microseconds from now; 0 for none.
    pub(crate) deadline: i64,
    pub(crate) priority: i32,
    pub(crate) reliable: bool,
    pub(crate) channel: i32,
    pub(crate) ordered: bool,
    pub(crate) partial: bool,
}

/// Starts to connect over networks. Callbacks into Java run on a thread of the runtime, not within
/// this call.
pub(crate) fn connect(wishes: Wishes, networks: &[i64]) -> Result<i64, Failure> {
    let (request, config) = wishes.resolve()?;
    let session = Session::connect(request.interfaces(network::plan(networks)), config)?;
    Ok(SESSIONS.insert(session))
}

/// Waits until a session is connected; returns `false` after the timeout.
pub(crate) fn await_connected(number: i64, timeout: Duration) -> Result<bool, Failure> {
    Ok(get(number)?.wait_connected_for(timeout)?)
}

/// Converts a number from Java into a priority or a channel.
fn option<N: TryFrom<i32>, T: TryFrom<N>>(what: &str, value: i32) -> Result<T, Failure> {
    let option = N::try_from(value).ok().and_then(|value| T::try_from(value).ok());
    option.ok_or_else(|| Failure::Argument(format!("there is no {what} {value}")))
}

/// Sends a block, if there is room. Returns its number.
pub(crate) fn send(number: i64, data: Vec<u8>, options: &Options) -> Result<i64, Failure> {
    let session = get(number)?;
    let deadline = u64::try_from(options.deadline)
        .map_err(|_| Failure::Argument(format!("a deadline of {} µs is in the past", options.deadline)))?;
    let options = BlockOptions::new()
        .deadline((deadline > 0).then(|| Duration::from_micros(deadline)))
        .priority(option::<u8, _>("priority", options.priority)?)
        .reliable(options.reliable)
        .channel(option::<u16, _>("channel", options.channel)?)
        .ordered(options.ordered)
        .partial(options.partial);
    // An application that takes no events may still send; the outcome of the block is then not
    // reported.
    let id = session.send(Block::with(data, options), session.has_room_for_outcome())?;
    // Ids count from 0.
    Ok(i64::try_from(id.0).unwrap_or(i64::MAX))
}

/// Cancels a block.
pub(crate) fn cancel(number: i64, block: i64) -> Result<(), Failure> {
    let block = u64::try_from(block).map_err(|_| Failure::Argument(format!("there is no block {block}")))?;
    get(number)?.up()?.cancel(BlockId(block));
    Ok(())
}

/// Waits for the next event; `None` if none arrives in time.
pub(crate) fn next(number: i64, timeout: Duration) -> Result<Option<Event>, Failure> {
    Ok(get(number)?.next(timeout)?)
}

/// Returns the next event for Java: of the peer's blocks with `arrivals`, otherwise any other. Does
/// not wait.
pub(crate) fn take(number: i64, arrivals: bool) -> Result<Option<Event>, Failure> {
    let session = get(number)?;
    loop {
        match session.take(arrivals)? {
            Some(event) if !event::is_for_java(&event) => {}
            other => return Ok(other),
        }
    }
}

/// Reports the session to [`ready`] whenever it has new events.
pub(crate) fn watch(number: i64) -> Result<(), Failure> {
    get(number)?.set_waker(move || ready::report(number));
    Ok(())
}

/// Replaces the networks that a session uses.
pub(crate) fn set_networks(number: i64, networks: &[i64]) -> Result<(), Failure> {
    Ok(get(number)?.set_interfaces(network::plan(networks))?)
}

/// Sets the radio of a session for all networks of a name, including future ones; 0 for none.
pub(crate) fn set_signal(number: i64, name: &str, radio: i64) -> Result<(), Failure> {
    let session = get(number)?.up()?;
    let signal = match radio {
        0 => None,
        radio => Some(radio::subscriber(radio).ok_or_else(|| Failure::closed("the radio"))?),
    };
    session.set_signal(name, signal);
    Ok(())
}

/// Limits the bytes that may be sent over the networks of a name; no limit if negative.
pub(crate) fn set_budget(number: i64, name: &str, budget: i64) -> Result<(), Failure> {
    get(number)?.up()?.interface(name).map_err(Failure::of)?.set_budget(u64::try_from(budget).ok());
    Ok(())
}

/// Returns the paths of a session.
pub(crate) fn paths(number: i64) -> Result<Vec<PathInfo>, Failure> {
    Ok(get(number)?.up()?.paths())
}

/// Waits until all blocks have ended, then closes the session; events can still be read.
pub(crate) fn finish(number: i64, timeout: Duration) -> Result<(), Failure> {
    Ok(get(number)?.finish(timeout)?)
}

/// Closes a session, if it is not closed yet. Its number stays valid until [`release`].
pub(crate) fn close(number: i64, code: i32, reason: &str) {
    if let Some(session) = SESSIONS.get(number) {
        session.close(code.cast_unsigned(), reason);
    }
}

/// Releases a session; a thread waiting for its events returns.
pub(crate) fn release(number: i64) {
    if let Some(session) = SESSIONS.remove(number) {
        session.end();
    }
}

fn get(number: i64) -> Result<Arc<Session>, Failure> {
    SESSIONS.get(number).ok_or_else(|| Failure::closed("the session"))
}
