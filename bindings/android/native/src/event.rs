//! Events, as objects of Java.

use jni::{
    Env, jni_sig, jni_str,
    objects::{JObject, JValue},
};
use squall::{Arrival, BlockFate, BlockId, CloseReason, PathChange, PathEvent};

use crate::error::Failure;

/// What happened in a session.
#[derive(Debug, PartialEq)]
pub(crate) enum Event {
    /// A block arrived, or will not.
    Arrival(Arrival),
    /// A block of ours ended.
    Finished(BlockId, BlockFate),
    /// There is room in the send queue again.
    Writable,
    /// A path changed.
    Path(PathEvent),
    /// The session is over.
    Closed(CloseReason),
}

/// What an event comes down to: the arguments of `dev.squall.core.Event`.
#[derive(Debug, PartialEq)]
struct Flat {
    kind: Kind,
    block: i64,
    channel: i32,
    priority: i32,
    data: Option<Vec<u8>>,
    path: i32,
    text: String,
}

/// In the order of `Event.Kind`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Received,
    Missed,
    Delivered,
    Expired,
    Lost,
    Cancelled,
    Refused,
    Writable,
    PathUp,
    PathSuspected,
    PathReadmitted,
    PathSignal,
    PathDown,
    Closed,
}

/// Makes an event's object; `None` for one that Java is not told of.
pub(crate) fn to_java<'local>(
    env: &mut Env<'local>,
    event: Option<Event>,
) -> Result<JObject<'local>, Failure> {
    let Some(flat) = event.and_then(flatten) else { return Ok(JObject::null()) };
    let data = match &flat.data {
        Some(bytes) => env.byte_array_from_slice(bytes)?.into(),
        None => JObject::null(),
    };
    let text = env.new_string(&flat.text)?;
    let arguments = [
        JValue::Int(flat.kind as i32),
        JValue::Long(flat.block),
        JValue::Int(flat.channel),
        JValue::Int(flat.priority),
        JValue::Object(&data),
        JValue::Int(flat.path),
        JValue::Object(&text),
    ];
    let constructor = jni_sig!("(IJII[BILjava/lang/String;)V");
    Ok(env.new_object(jni_str!("dev/squall/core/Event"), constructor, &arguments)?)
}

/// A number that counts from 0.
fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn flatten(event: Event) -> Option<Flat> {
    let bare =
        |kind| Flat { kind, block: -1, channel: 0, priority: 0, data: None, path: -1, text: String::new() };
    Some(match event {
        Event::Arrival(Arrival::Block(block)) => Flat {
            block: number(block.id.0),
            channel: block.channel.get().into(),
            priority: block.priority.get().into(),
            data: Some(block.data.to_vec()),
            ..bare(Kind::Received)
        },
        Event::Arrival(Arrival::Missed(missed)) => Flat {
            block: number(missed.id.0),
            channel: missed.channel.get().into(),
            priority: missed.priority.get().into(),
            text: format!("{:?}", missed.why),
            ..bare(Kind::Missed)
        },
        Event::Arrival(_) => return None,
        Event::Finished(id, fate) => {
            let (kind, text) = end(&fate);
            Flat { block: number(id.0), text, ..bare(kind) }
        }
        Event::Writable => bare(Kind::Writable),
        Event::Path(event) => {
            let (kind, text) = turn(&event.change)?;
            Flat { path: event.path.0.into(), text, ..bare(kind) }
        }
        Event::Closed(reason) => Flat { text: reason.to_string(), ..bare(Kind::Closed) },
    })
}

fn end(fate: &BlockFate) -> (Kind, String) {
    match fate {
        BlockFate::Delivered { waited, .. } => (Kind::Delivered, format!("waited {waited:?}")),
        BlockFate::Expired { acked } => (Kind::Expired, format!("{acked} bytes arrived")),
        BlockFate::Lost { acked } => (Kind::Lost, format!("{acked} bytes arrived")),
        BlockFate::Cancelled { reason } => (Kind::Cancelled, (*reason).to_owned()),
        BlockFate::Refused(reason) => (Kind::Refused, format!("{reason:?}")),
        BlockFate::SessionClosed => (Kind::Cancelled, "the session ended".to_owned()),
        other => (Kind::Cancelled, format!("{other:?}")),
    }
}

fn turn(change: &PathChange) -> Option<(Kind, String)> {
    Some(match change {
        PathChange::Up(net) => (Kind::PathUp, format!("{} to {}", net.local, net.remote)),
        PathChange::Suspected { silent } => (Kind::PathSuspected, format!("silent for {silent:?}")),
        PathChange::Readmitted { after } => (Kind::PathReadmitted, format!("after {after:?}")),
        PathChange::Narrow => (Kind::PathSuspected, "it passes small packets only".to_owned()),
        PathChange::Signal { kind, quality, by_peer } => {
            let side = if *by_peer { "the peer's radio" } else { "this radio" };
            let quality = f64::from(*quality) / 1000.0;
            (Kind::PathSignal, format!("{kind:?} by {side}, quality {quality:.3}"))
        }
        PathChange::Down => (Kind::PathDown, String::new()),
        // A rebinding is the peer's matter.
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_end_of_a_block_is_told_with_its_evidence() {
        let told = |fate| {
            let flat = flatten(Event::Finished(BlockId(7), fate)).expect("is told");
            assert_eq!(flat.block, 7);
            (flat.kind, flat.text)
        };
        assert_eq!(told(BlockFate::Expired { acked: 12 }), (Kind::Expired, "12 bytes arrived".into()));
        assert_eq!(told(BlockFate::Lost { acked: 0 }), (Kind::Lost, "0 bytes arrived".into()));
        let cancelled = BlockFate::Cancelled { reason: "late" };
        assert_eq!(told(cancelled), (Kind::Cancelled, "late".into()));
    }

    #[test]
    fn paths_and_the_end_are_told() {
        let (kind, text) =
            turn(&PathChange::Suspected { silent: Duration::from_millis(200) }).expect("is told");
        assert_eq!((kind, text.as_str()), (Kind::PathSuspected, "silent for 200ms"));
        let flat = flatten(Event::Closed(CloseReason::TimedOut)).expect("is told");
        assert_eq!((flat.kind, flat.block), (Kind::Closed, -1));
        assert!(flat.text.starts_with("nothing received"));
    }
}
