//! Conversion of events to Java objects.

use jni::{
    Env, jni_sig, jni_str,
    objects::{JIntArray, JObject, JValue},
};
use squall_bindings::{Event, EventKind};

use crate::error::Failure;

/// Ordinals of `Event.Kind`.
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

/// Returns `true` if Java receives such events.
pub(crate) fn is_for_java(event: &Event) -> bool {
    kind(event.kind).is_some()
}

/// Creates the object for an event; null for events that Java does not receive.
pub(crate) fn to_java<'local>(
    env: &mut Env<'local>,
    event: Option<Event>,
) -> Result<JObject<'local>, Failure> {
    let Some((event, kind)) = event.and_then(|event| kind(event.kind).map(|kind| (event, kind))) else {
        return Ok(JObject::null());
    };
    let (data, missing) = match kind {
        Kind::Received => (env.byte_array_from_slice(&event.data)?.into(), ranges(env, &event)?.into()),
        _ => (JObject::null(), JObject::null()),
    };
    let text = env.new_string(&event.text)?;
    let arguments = [
        JValue::Int(kind as i32),
        JValue::Long(event.block.map_or(-1, |block| i64::try_from(block.0).unwrap_or(i64::MAX))),
        JValue::Int(event.channel.into()),
        JValue::Int(event.priority.into()),
        JValue::Object(&data),
        JValue::Object(&missing),
        JValue::Int(event.path.map_or(-1, |path| path.0.into())),
        JValue::Object(&text),
    ];
    let constructor = jni_sig!("(IJII[B[IILjava/lang/String;)V");
    Ok(env.new_object(jni_str!("dev/squall/core/Event"), constructor, &arguments)?)
}

/// Returns the missing ranges of a block, as the first byte of each and one past its last.
fn ranges<'local>(env: &mut Env<'local>, event: &Event) -> Result<JIntArray<'local>, Failure> {
    let number = |at: u32| i32::try_from(at).unwrap_or(i32::MAX);
    let ranges = event.missing.iter().flat_map(|range| [number(range.start), number(range.end)]);
    let ranges: Vec<i32> = ranges.collect();
    let array = JIntArray::new(env, ranges.len())?;
    array.set_region(env, 0, &ranges)?;
    Ok(array)
}

fn kind(kind: EventKind) -> Option<Kind> {
    Some(match kind {
        EventKind::Received => Kind::Received,
        EventKind::Missed => Kind::Missed,
        EventKind::Delivered => Kind::Delivered,
        EventKind::Expired => Kind::Expired,
        EventKind::Lost => Kind::Lost,
        EventKind::Cancelled => Kind::Cancelled,
        EventKind::Refused => Kind::Refused,
        EventKind::Writable => Kind::Writable,
        EventKind::PathUp => Kind::PathUp,
        EventKind::PathSuspected => Kind::PathSuspected,
        EventKind::PathReadmitted => Kind::PathReadmitted,
        EventKind::PathSignal => Kind::PathSignal,
        EventKind::PathDown => Kind::PathDown,
        EventKind::Closed => Kind::Closed,
        // The peer handles a rebinding, and a session is connected before Java has its number.
        EventKind::None | EventKind::Connected | EventKind::PathRebound | EventKind::Capacity => return None,
    })
}
