//! Events as the struct of the header.

use std::{
    ffi::CString,
    ptr,
    time::{Duration, Instant},
};

use bytes::Bytes;
use squall::{Arrival, BlockFate, CloseReason, PathChange};

use crate::{
    error::{Failure, one_line},
    events::Event,
    types::{self, Cause, Code, EventKind},
};

/// What the pointers of an event point into.
pub(crate) struct Owner {
    data: Bytes,
    text: CString,
}

/// What an event comes down to, with its bytes and its text.
struct Flat {
    event: types::Event,
    data: Bytes,
    text: String,
}

/// The struct for an event; `None` for one that C does not receive. Its `owner` is a leaked [`Owner`].
pub(crate) fn flatten(event: Event) -> Option<types::Event> {
    let Flat { mut event, data, text } = flat(event)?;
    let owner = Box::new(Owner { data, text: one_line(&text) });
    // Both point to memory of their own, which does not move with the box.
    (event.data, event.len) =
        if owner.data.is_empty() { (ptr::null(), 0) } else { (owner.data.as_ptr(), owner.data.len()) };
    event.text = owner.text.as_ptr();
    event.owner = Box::into_raw(owner).cast();
    Some(event)
}

/// An event without anything.
pub(crate) fn empty() -> types::Event {
    types::Event {
        size: size_of::<types::Event>(),
        kind: EventKind::None as u32,
        path: 0,
        block: 0,
        data: ptr::null(),
        len: 0,
        text: c"".as_ptr(),
        channel: 0,
        priority: 0,
        bytes: 0,
        elapsed_us: 0,
        remaining_us: i64::MAX,
        code: 0,
        cause: Cause::None as u32,
        reserved: 0,
        owner: ptr::null_mut(),
    }
}

/// A duration in microseconds.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn flat(event: Event) -> Option<Flat> {
    let mut flat = Flat { event: empty(), data: Bytes::new(), text: String::new() };
    let c = &mut flat.event;
    let (kind, text) = match event {
        Event::Connected => (EventKind::Connected, String::new()),
        Event::Writable => (EventKind::Writable, String::new()),
        Event::Capacity => (EventKind::Capacity, String::new()),
        Event::Arrival(Arrival::Block(block)) => {
            c.block = block.id.0;
            (c.channel, c.priority) = (block.channel.get().into(), block.priority.get().into());
            c.elapsed_us = micros(block.whole_at.duration_since(block.first_at));
            c.remaining_us = block.deadline.map_or(i64::MAX, remaining);
            flat.data = block.data;
            (EventKind::Received, String::new())
        }
        Event::Arrival(Arrival::Missed(missed)) => {
            c.block = missed.id.0;
            (c.channel, c.priority) = (missed.channel.get().into(), missed.priority.get().into());
            (EventKind::Missed, format!("{:?}", missed.why))
        }
        // No channel is taken in parts.
        Event::Arrival(_) => return None,
        Event::Fate(id, fate) => {
            c.block = id.0;
            end(c, &fate)
        }
        Event::Path(event) => {
            c.path = event.path.0.into();
            turn(c, &event.change)?
        }
        Event::Failed(error) => {
            let is_trust = Failure::from(&error).code == Code::ErrorTrust;
            c.cause = if is_trust { Cause::Trust } else { Cause::Connect } as u32;
            (EventKind::Closed, error.to_string())
        }
        Event::Closed(reason) => {
            c.cause = cause(&reason) as u32;
            if let CloseReason::ByPeer { code, .. } = &reason {
                c.code = *code;
            }
            (EventKind::Closed, reason.to_string())
        }
    };
    c.kind = kind as u32;
    flat.text = text;
    Some(flat)
}

/// The time until a deadline; negative after it.
fn remaining(deadline: Instant) -> i64 {
    let now = Instant::now();
    let signed = |duration| i64::try_from(micros(duration)).unwrap_or(i64::MAX);
    deadline.checked_duration_since(now).map_or_else(|| -signed(now.duration_since(deadline)), signed)
}

fn end(event: &mut types::Event, fate: &BlockFate) -> (EventKind, String) {
    let mut partly = |acked: u32| {
        event.bytes = acked.into();
        format!("{acked} bytes arrived")
    };
    match fate {
        BlockFate::Delivered { waited, over, .. } => {
            event.elapsed_us = micros(*waited);
            let over: Vec<_> =
                over.iter().map(|(path, bytes)| format!("{bytes} bytes over path {}", path.0)).collect();
            (EventKind::Delivered, over.join(", "))
        }
        BlockFate::Expired { acked } => (EventKind::Expired, partly(*acked)),
        BlockFate::Lost { acked } => (EventKind::Lost, partly(*acked)),
        BlockFate::Cancelled { reason } => (EventKind::Cancelled, (*reason).to_owned()),
        BlockFate::Refused(reason) => (EventKind::Refused, format!("{reason:?}")),
        BlockFate::SessionClosed => (EventKind::Cancelled, "the session ended".to_owned()),
        other => (EventKind::Cancelled, format!("{other:?}")),
    }
}

fn turn(event: &mut types::Event, change: &PathChange) -> Option<(EventKind, String)> {
    Some(match change {
        PathChange::Up(net) => (EventKind::PathUp, format!("{} to {}", net.local, net.remote)),
        PathChange::Suspected { silent } => {
            event.elapsed_us = micros(*silent);
            (EventKind::PathSuspected, format!("silent for {silent:?}"))
        }
        PathChange::Readmitted { after } => {
            event.elapsed_us = micros(*after);
            (EventKind::PathReadmitted, format!("after {after:?}"))
        }
        PathChange::Narrow => (EventKind::PathSuspected, "it passes small packets only".to_owned()),
        PathChange::Signal { kind, quality, by_peer } => {
            let side = if *by_peer { "the peer's radio" } else { "this radio" };
            let quality = f64::from(*quality) / 1000.0;
            (EventKind::PathSignal, format!("{kind:?} by {side}, quality {quality:.3}"))
        }
        PathChange::Rebound(net) => (EventKind::PathRebound, format!("{} to {}", net.local, net.remote)),
        PathChange::Down => (EventKind::PathDown, String::new()),
        _ => return None,
    })
}

fn cause(reason: &CloseReason) -> Cause {
    match reason {
        CloseReason::Local => Cause::Local,
        CloseReason::ByPeer { .. } => Cause::Peer,
        CloseReason::TimedOut => Cause::Timeout,
        CloseReason::OverBudget => Cause::Budget,
        CloseReason::Protocol(_) => Cause::Protocol,
        _ => Cause::Transport,
    }
}

#[cfg(test)]
mod tests {
    use squall::{BlockId, PathId};

    use super::*;

    #[test]
    fn fates_have_their_evidence() {
        let fate = |fate| {
            let Flat { event, text, .. } = flat(Event::Fate(BlockId(7), fate)).expect("is an event");
            assert_eq!(event.block, 7);
            (event.kind, event.bytes, text)
        };
        let expired = (EventKind::Expired as u32, 12, "12 bytes arrived".to_owned());
        assert_eq!(fate(BlockFate::Expired { acked: 12 }), expired);
        let cancelled = (EventKind::Cancelled as u32, 0, "late".to_owned());
        assert_eq!(fate(BlockFate::Cancelled { reason: "late" }), cancelled);
        let over = vec![(PathId(0), 1200), (PathId(2), 34)];
        let delivered = BlockFate::Delivered { at: Instant::now(), waited: Duration::from_millis(3), over };
        let text = "1200 bytes over path 0, 34 bytes over path 2".to_owned();
        assert_eq!(fate(delivered), (EventKind::Delivered as u32, 0, text));
    }

    #[test]
    fn the_end_has_its_cause_and_the_code_of_the_peer() {
        let reason = CloseReason::ByPeer { code: 9, reason: "enough".into() };
        let Flat { event, text, .. } = flat(Event::Closed(reason)).expect("is an event");
        assert_eq!((event.kind, event.cause, event.code), (EventKind::Closed as u32, Cause::Peer as u32, 9));
        assert!(text.contains("enough"), "{text}");
    }

    #[test]
    fn deadlines_that_have_passed_are_negative() {
        let now = Instant::now();
        assert!(remaining(now + Duration::from_secs(9)) > 8_000_000);
        assert!(remaining(now) <= 0);
    }

    #[test]
    fn a_suspected_path_has_its_silence() {
        let silent = Duration::from_millis(200);
        let mut event = empty();
        assert_eq!(
            turn(&mut event, &PathChange::Suspected { silent }),
            Some((EventKind::PathSuspected, "silent for 200ms".to_owned()))
        );
        assert_eq!(event.elapsed_us, 200_000);
    }
}
