//! Flat events, for languages without enums that carry data.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use bytes::Bytes;
use squall::{Arrival, BlockId, CloseReason, Outcome, PathChange, PathId};

use crate::{Cause, Code, EventKind, Failure, events::Happening};

/// An event of a session. [`EventKind`] documents the fields of each kind; the others have their
/// defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Kind of the event.
    pub kind: EventKind,
    /// Number of the block.
    pub block: Option<BlockId>,
    /// Id of the path.
    pub path: Option<PathId>,
    /// Channel of the block.
    pub channel: u16,
    /// Priority of the block.
    pub priority: u8,
    /// Bytes of the block; zeros for missing ones.
    pub data: Bytes,
    /// Ranges of a partial block that did not arrive.
    pub missing: Vec<Range<u32>>,
    /// Description of the event.
    pub text: String,
    /// Bytes of the block that arrived.
    pub bytes: u32,
    /// Duration; its meaning depends on the kind.
    pub elapsed: Duration,
    /// The deadline of the block.
    pub deadline: Option<Instant>,
    /// Cause of the end of the session.
    pub cause: Cause,
    /// Code with which the peer closed the session.
    pub code: u64,
}

impl Event {
    fn new(kind: EventKind) -> Self {
        Self {
            kind,
            block: None,
            path: None,
            channel: 0,
            priority: 0,
            data: Bytes::new(),
            missing: Vec::new(),
            text: String::new(),
            bytes: 0,
            elapsed: Duration::ZERO,
            deadline: None,
            cause: Cause::None,
            code: 0,
        }
    }

    /// Converts a happening; `None` if it has no event.
    pub(crate) fn of(happening: Happening) -> Option<Self> {
        Some(match happening {
            Happening::Connected => Self::new(EventKind::Connected),
            Happening::Writable => Self::new(EventKind::Writable),
            Happening::Capacity => Self::new(EventKind::Capacity),
            Happening::Arrival(Arrival::Block(block)) => Self {
                block: Some(block.id),
                channel: block.channel.get(),
                priority: block.priority.get(),
                elapsed: block.whole_at.duration_since(block.first_at),
                deadline: block.deadline,
                data: block.data,
                missing: block.missing,
                ..Self::new(EventKind::Received)
            },
            Happening::Arrival(Arrival::Missed(missed)) => Self {
                block: Some(missed.id),
                channel: missed.channel.get(),
                priority: missed.priority.get(),
                text: format!("{:?}", missed.why),
                ..Self::new(EventKind::Missed)
            },
            // No channel is received in parts.
            Happening::Arrival(_) => return None,
            Happening::Outcome(id, outcome) => Self { block: Some(id), ..Self::end(&outcome) },
            Happening::Path(event) => Self { path: Some(event.path), ..Self::turn(&event.change)? },
            Happening::Failed(error) => {
                let is_trust = Failure::from(&error).code == Code::ErrorTrust;
                let cause = if is_trust { Cause::Trust } else { Cause::Connect };
                Self { cause, text: error.to_string(), ..Self::new(EventKind::Closed) }
            }
            Happening::Closed(reason) => {
                let code = if let CloseReason::ByPeer { code, .. } = reason { code } else { 0 };
                Self { cause: cause(&reason), code, text: reason.to_string(), ..Self::new(EventKind::Closed) }
            }
        })
    }

    fn end(outcome: &Outcome) -> Self {
        let partly = |kind, acked: u32| Self {
            bytes: acked,
            text: format!("{acked} bytes arrived"),
            ..Self::new(kind)
        };
        let never = |kind, text| Self { text, ..Self::new(kind) };
        match outcome {
            Outcome::Delivered { waited, over, .. } => {
                let over = over.iter().map(|(path, bytes)| format!("{bytes} bytes over path {}", path.0));
                let text = over.collect::<Vec<_>>().join(", ");
                Self { elapsed: *waited, text, ..Self::new(EventKind::Delivered) }
            }
            Outcome::Expired { acked } => partly(EventKind::Expired, *acked),
            Outcome::Lost { acked } => partly(EventKind::Lost, *acked),
            Outcome::Cancelled { reason } => never(EventKind::Cancelled, (*reason).to_owned()),
            Outcome::Refused(reason) => never(EventKind::Refused, format!("{reason:?}")),
            Outcome::SessionClosed => never(EventKind::Cancelled, "the session ended".to_owned()),
            other => never(EventKind::Cancelled, format!("{other:?}")),
        }
    }

    fn turn(change: &PathChange) -> Option<Self> {
        let after = |kind, elapsed, text| Self { elapsed, text, ..Self::new(kind) };
        let at_once = |kind, text| after(kind, Duration::ZERO, text);
        Some(match change {
            PathChange::Up(net) => at_once(EventKind::PathUp, format!("{} to {}", net.local, net.remote)),
            PathChange::Suspected { silent } => {
                after(EventKind::PathSuspected, *silent, format!("silent for {silent:?}"))
            }
            PathChange::Readmitted { after: time } => {
                after(EventKind::PathReadmitted, *time, format!("after {time:?}"))
            }
            PathChange::Narrow => {
                at_once(EventKind::PathSuspected, "it passes small packets only".to_owned())
            }
            PathChange::Signal { kind, quality, by_peer } => {
                let side = if *by_peer { "the peer's radio" } else { "this radio" };
                let quality = f64::from(*quality) / 1000.0;
                at_once(EventKind::PathSignal, format!("{kind:?} by {side}, quality {quality:.3}"))
            }
            PathChange::Rebound(net) => {
                at_once(EventKind::PathRebound, format!("{} to {}", net.local, net.remote))
            }
            PathChange::Down => at_once(EventKind::PathDown, String::new()),
            _ => return None,
        })
    }
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
    use super::*;

    #[test]
    fn outcomes_have_their_evidence() {
        let outcome = |outcome| {
            let event = Event::of(Happening::Outcome(BlockId(7), outcome)).expect("is an event");
            assert_eq!(event.block, Some(BlockId(7)));
            (event.kind, event.bytes, event.text)
        };
        let expired = (EventKind::Expired, 12, "12 bytes arrived".to_owned());
        assert_eq!(outcome(Outcome::Expired { acked: 12 }), expired);
        assert_eq!(outcome(Outcome::Lost { acked: 0 }), (EventKind::Lost, 0, "0 bytes arrived".to_owned()));
        let cancelled = (EventKind::Cancelled, 0, "late".to_owned());
        assert_eq!(outcome(Outcome::Cancelled { reason: "late" }), cancelled);
        let over = vec![(PathId(0), 1200), (PathId(2), 34)];
        let delivered = Outcome::Delivered { at: Instant::now(), waited: Duration::from_millis(3), over };
        let text = "1200 bytes over path 0, 34 bytes over path 2".to_owned();
        assert_eq!(outcome(delivered), (EventKind::Delivered, 0, text));
    }

    #[test]
    fn the_end_has_its_cause_and_the_code_of_the_peer() {
        let reason = CloseReason::ByPeer { code: 9, reason: "enough".into() };
        let event = Event::of(Happening::Closed(reason)).expect("is an event");
        assert_eq!((event.kind, event.cause, event.code), (EventKind::Closed, Cause::Peer, 9));
        assert!(event.text.contains("enough"), "{}", event.text);
        let event = Event::of(Happening::Closed(CloseReason::TimedOut)).expect("is an event");
        assert_eq!((event.cause, event.code), (Cause::Timeout, 0));
    }

    #[test]
    fn a_suspected_path_has_its_silence() {
        let silent = Duration::from_millis(200);
        let event = Event::turn(&PathChange::Suspected { silent }).expect("is an event");
        assert_eq!((event.kind, event.elapsed), (EventKind::PathSuspected, silent));
        assert_eq!(event.text, "silent for 200ms");
    }
}
