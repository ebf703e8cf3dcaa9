//! Conversion between structs of the header and types of `squall`.

use std::time::Duration;

use bytes::Bytes;
use squall::{
    BlockId, Depends, PathHint,
    sched::PathState,
    signal::{self, Technology},
};
use squall_bindings::Failure;

use crate::{
    flatten::micros,
    memory,
    types::{self, Limit, SQUALL_NO_LIMIT},
};

/// Maximum deadline in microseconds: a year.
const MAX_DEADLINE: u64 = 365 * 24 * 3600 * 1_000_000;

/// Converts a deadline of C; `None` for none.
fn deadline(micros: u64) -> Result<Option<Duration>, Failure> {
    match micros {
        0 | SQUALL_NO_LIMIT => Ok(None),
        micros if micros > MAX_DEADLINE => {
            Err(Failure::argument(format!("deadline_us = {micros} is more than a year")))
        }
        micros => Ok(Some(Duration::from_micros(micros))),
    }
}

/// Converts a path hint.
fn hint(kind: u32, path: Option<&str>) -> Result<Option<PathHint>, Failure> {
    let hint = match kind {
        0 => return Ok(None),
        1 => PathHint::prefer,
        2 => PathHint::avoid,
        3 => PathHint::only,
        other => return Err(Failure::argument(format!("there is no hint {other}"))),
    };
    path.map(hint).map(Some).ok_or_else(|| Failure::argument("hint_path is NULL"))
}

/// Converts the role of an interface.
pub(crate) fn role(role: u32) -> Result<squall::Role, Failure> {
    match role {
        0 => Ok(squall::Role::Primary),
        1 => Ok(squall::Role::Backup),
        2 => Ok(squall::Role::Repair),
        other => Err(Failure::argument(format!("there is no role {other}"))),
    }
}

/// Returns the block, and `true` if its outcome is to be reported.
pub(crate) fn block(
    options: &types::Block,
    data: &[u8],
    hint_path: Option<&str>,
) -> Result<(squall::Block, bool), Failure> {
    let number = |what: &str, value: u32| {
        u16::try_from(value).map_err(|_| Failure::argument(format!("there is no {what} {value}")))
    };
    let ids = |count: u32| {
        let [first, second] = options.depends_on.map(BlockId);
        match count {
            1 => Ok([Some(first), None]),
            2 => Ok([Some(first), Some(second)]),
            _ => Err(Failure::argument(format!("depends_count is {count}: 1 or 2"))),
        }
    };
    let depends = match options.depends {
        0 => Depends::Nothing,
        1 => Depends::Key,
        2 => Depends::Reference,
        3 => Depends::Disposable,
        4 => Depends::On(ids(options.depends_count)?),
        other => return Err(Failure::argument(format!("there is no kind of dependency {other}"))),
    };
    let priority = u8::try_from(options.priority).unwrap_or(u8::MAX);
    let report = options.report_outcome != 0;
    let options = squall::BlockOptions::new()
        .deadline(deadline(options.deadline_us)?)
        .priority(priority.try_into().map_err(Failure::argument)?)
        .reliable(options.unreliable == 0)
        .partial(options.partial != 0)
        .channel(number("channel", options.channel)?.try_into().map_err(Failure::argument)?)
        .ordered(options.ordered != 0)
        .value(Some(number("value", options.value)?).filter(|value| *value > 0))
        .depends(depends)
        .hint(hint(options.hint, hint_path)?);
    Ok((squall::Block::with(Bytes::copy_from_slice(data), options), report))
}

/// Converts the cause of a limited rate.
pub(crate) fn limit(limit: squall::Limit) -> u32 {
    let limit = match limit {
        squall::Limit::OutOfUse => Limit::OutOfUse,
        squall::Limit::Radio => Limit::Radio,
        squall::Limit::Budget => Limit::Budget,
        squall::Limit::Application => Limit::Application,
        squall::Limit::Receiver => Limit::Receiver,
        _ => Limit::Network,
    };
    limit as u32
}

/// Converts a path, with its part of the capacity.
pub(crate) fn path(info: &squall::PathInfo, capacity: &squall::Capacity) -> types::Path {
    let stats = &info.stats;
    let capacity = capacity.paths.iter().find(|path| path.id == info.id);
    let state = match stats.state {
        PathState::Opening => types::PathState::Opening,
        PathState::Active => types::PathState::Active,
        PathState::Suspect => types::PathState::Suspect,
        PathState::Deactivated => types::PathState::Deactivated,
    };
    types::Path {
        size: size_of::<types::Path>(),
        id: info.id.0.into(),
        state: state as u32,
        metered: stats.metered.into(),
        limit: capacity.map_or(0, |path| limit(path.limit)),
        interface_name: memory::field(info.interface.as_deref().unwrap_or_default()),
        local: memory::field(&info.local.to_string()),
        remote: memory::field(&info.remote.to_string()),
        signal_factor: stats.signal_factor,
        signal_quality: stats.signal_quality.unwrap_or(f64::NAN),
        loss: stats.loss,
        budget: stats.budget.unwrap_or(SQUALL_NO_LIMIT),
        srtt_us: micros(stats.srtt),
        min_rtt_us: micros(stats.min_rtt),
        rtt_deviation_us: micros(stats.rtt_deviation),
        one_way_delay_us: micros(stats.one_way_delay),
        capacity_now: capacity.map_or(0, |path| path.now),
        capacity_safe: capacity.map_or(0, |path| path.safe),
        delivery_rate: stats.delivery_rate,
        window: stats.window,
        in_flight: stats.in_flight,
        sent_bytes: stats.sent_bytes,
        sent_packets: stats.sent_packets,
        received_bytes: stats.received_bytes,
        received_packets: stats.received_packets,
        acked_packets: stats.acked_packets,
        lost_packets: stats.lost_packets,
        fresh_bytes: stats.fresh_bytes,
        repair_bytes: stats.repair_bytes,
        copy_bytes: stats.copy_bytes,
        parity_bytes: stats.parity_bytes,
        data_received: stats.data_received,
        duplicate_bytes: stats.duplicate_bytes,
        suspicions: stats.suspicions,
    }
}

/// Converts the counters of a session.
pub(crate) fn stats(stats: &squall::SessionStats) -> types::Stats {
    types::Stats {
        size: size_of::<types::Stats>(),
        blocks_offered: stats.blocks_offered,
        blocks_delivered: stats.blocks_delivered,
        blocks_expired: stats.blocks_expired,
        blocks_lost: stats.blocks_lost,
        blocks_cancelled: stats.blocks_cancelled,
        blocks_closed: stats.blocks_closed,
        blocks_refused: stats.blocks_refused,
        blocks_received: stats.blocks_received,
        blocks_rebuilt: stats.blocks_rebuilt,
        blocks_missed: stats.blocks_missed,
        bytes_offered: stats.bytes_offered,
        bytes_delivered: stats.bytes_delivered,
        bytes_received: stats.bytes_received,
        duplicates: stats.duplicates,
        peer_duplicates: stats.peer_duplicates,
        queued_bytes: stats.queued_bytes,
        open_blocks: stats.open_blocks as u64,
        held_bytes: stats.held_bytes,
        path_events_dropped: stats.path_events_dropped,
    }
}

/// Returns the age of a reading, and the reading.
pub(crate) fn reading(levels: &types::Reading) -> (Duration, signal::Reading) {
    let level = |level: f64| (!level.is_nan()).then_some(level);
    let reading = signal::Reading {
        at: signal::Time::EPOCH,
        technology: Technology::from_code(u8::try_from(levels.technology).unwrap_or(0)),
        disconnected: levels.disconnected != 0,
        rsrp: level(levels.rsrp),
        rsrq: level(levels.rsrq),
        sinr: level(levels.sinr),
        rssi: level(levels.rssi),
    };
    (Duration::from_micros(levels.age_us), reading)
}
