//! Status of a tunnel as tables, for a terminal or a file.

use squall_observe::{
    Status,
    status::{EventStatus, FlowStatus, PathStatus},
};

use squall_terminal::wrap::wrap;

use crate::table::{Table, millis, span};

/// Describes the tunnel in one line.
pub(super) fn title(status: &Status) -> String {
    let verb = if status.role == "entry" { "to" } else { "on" };
    let agreed = status.sessions.iter().filter(|session| session.agreed).count();
    let sessions = match agreed {
        0 => "no session".to_owned(),
        1 => "1 session".to_owned(),
        more => format!("{more} sessions"),
    };
    let scheduler = scheduler(status);
    let draining = if status.draining { ", draining" } else { "" };
    format!(
        "{} {verb} {}{}{draining}, {sessions} ({} opened, {} failed), scheduler {scheduler}, up {}, {:.1} MB",
        status.role,
        status.address,
        exit_in_use(status),
        status.sessions_opened,
        status.sessions_failed,
        span(status.uptime_s),
        status.memory_bytes as f64 / 1e6
    )
}

/// Returns the exit in use, if the configuration has another or several.
fn exit_in_use(status: &Status) -> String {
    let sessions = status.sessions.iter().rev().filter(|session| session.agreed && !session.leaving);
    let exit = sessions.filter_map(|session| session.exit.as_deref()).next();
    exit.filter(|exit| *exit != status.address).map_or_else(String::new, |exit| format!(" (now {exit})"))
}

/// Returns the schedulers of the sessions, and that of the next one if a reload changed it.
fn scheduler(status: &Status) -> String {
    let next = &status.scheduler;
    let mut running: Vec<&str> = status
        .sessions
        .iter()
        .map(|session| session.scheduler.as_str())
        .filter(|name| !name.is_empty())
        .collect();
    running.sort_unstable();
    running.dedup();
    if running.is_empty() || running == [next] {
        return next.clone();
    }
    format!("{} (next session: {next})", running.join(" and "))
}

/// Describes cost and role of a path, unless they are the usual ones.
fn use_of(path: &PathStatus) -> String {
    let cost = path.metered.then_some("metered");
    let role = Some(path.role.as_str()).filter(|role| !matches!(*role, "" | "primary"));
    cost.into_iter().chain(role).collect::<Vec<_>>().join(" ")
}

/// Returns a table with a line for each path.
pub(super) fn paths(status: &Status) -> Table {
    let row = |session: u64, path: &PathStatus| {
        vec![
            path.name.clone(),
            path.state.clone(),
            use_of(path),
            session.to_string(),
            rate(path.sent_bps),
            rate(path.received_bps),
            millis(path.srtt_us),
            format!("{:.1} %", path.loss * 100.0),
            format!("{} / {}", path.in_flight / 1000, path.window / 1000),
            path.lost_packets.to_string(),
            path.suspicions.to_string(),
            parity(path),
        ]
    };
    let all =
        status.sessions.iter().flat_map(|session| session.paths.iter().map(|path| row(session.id, path)));
    Table {
        head: vec![
            "path",
            "state",
            "use",
            "session",
            "up",
            "down",
            "RTT ms",
            "loss",
            "kB in flight/window",
            "lost",
            "suspected",
            "parity",
        ],
        rows: all.collect(),
        left: 3,
        spare: &["session", "lost", "kB in flight/window", "parity", "suspected", "use", "loss"],
    }
}

/// Formats the share of parity in the sent bytes.
fn parity(path: &PathStatus) -> String {
    match path.sent_bytes {
        0 => "–".to_owned(),
        sent => format!("{:.1} %", path.parity_bytes as f64 / sent as f64 * 100.0),
    }
}

/// Returns a table with a line for each flow, with its rate since an earlier status.
pub(super) fn flows(status: &Status, before: Option<(&Status, f64)>) -> Table {
    let row = |flow: &FlowStatus| {
        let mut cells = vec![
            flow.name.clone(),
            flow.end.clone(),
            flow.media.clone(),
            if flow.attached { "carried" } else { "waiting" }.to_owned(),
            before.map_or_else(|| "–".to_owned(), |(then, seconds)| rate(flow_rate(flow, then, seconds))),
        ];
        cells.extend(
            ["key", "reference", "disposable", "audio", "data"].map(|class| count(flow, class).to_string()),
        );
        cells.push(lost(flow).to_string());
        // Includes late blocks, which have been counted as missing.
        cells.push(flow.received.missing.to_string());
        let latency = &flow.latency;
        let shown = |us: Option<u64>| us.map_or_else(|| "–".to_owned(), millis);
        cells.extend([latency.p50_us, latency.p95_us, latency.p99_us].map(shown));
        cells
    };
    Table {
        head: vec![
            "flow", "end", "media", "state", "rate", "key", "ref", "disp", "audio", "data", "dropped",
            "missing", "p50 ms", "p95", "p99",
        ],
        rows: status.flows.iter().map(row).collect(),
        left: 4,
        spare: &["media", "data", "audio", "p95", "missing", "end", "state", "p50 ms", "rate"],
    }
}

/// Counts the blocks of a class: sent ones at an `in` end, received ones at an `out` end.
fn count(flow: &FlowStatus, class: &str) -> u64 {
    let sent =
        || flow.sent.get(class).map_or(0, |sent| sent.outcomes.values().map(|amount| amount.blocks).sum());
    match flow.end.as_str() {
        "in" => sent(),
        _ => flow.received.classes.get(class).map_or(0, |amount| amount.blocks),
    }
}

/// Counts the sent blocks that were not delivered.
fn lost(flow: &FlowStatus) -> u64 {
    let outcomes = flow.sent.values().flat_map(|sent| &sent.outcomes);
    outcomes.filter(|(outcome, _)| *outcome != "delivered").map(|(_, amount)| amount.blocks).sum()
}

/// Sums the bytes of blocks in both directions.
fn bytes(flow: &FlowStatus) -> u64 {
    let sent: u64 =
        flow.sent.values().flat_map(|sent| sent.outcomes.values()).map(|amount| amount.bytes).sum();
    sent + flow.received.classes.values().map(|amount| amount.bytes).sum::<u64>()
}

fn flow_rate(flow: &FlowStatus, then: &Status, seconds: f64) -> u64 {
    let before = then.flows.iter().find(|other| other.name == flow.name).map_or(0, bytes);
    if seconds > 0.0 { (bytes(flow).saturating_sub(before) as f64 * 8.0 / seconds) as u64 } else { 0 }
}

/// Returns the events to show, oldest first. Changes of the main path are omitted: they show in the
/// rates of the paths, and would fill the list.
pub(super) fn events(status: &Status) -> Vec<&EventStatus> {
    status.events.iter().filter(|event| event.kind != "main").collect()
}

/// Formats an event with its age at `now`, in lines of at most `width`.
pub(super) fn event(event: &EventStatus, now: f64, width: Option<usize>) -> String {
    let mark = if event.level == "warn" { "!" } else { " " };
    let ago = format!("{} ago", span((now - event.at_s).max(0.0)));
    let first = format!("{ago:>12} {mark} ");
    wrap(&first, first.len(), &format!("{}: {}", event.kind, event.words), width)
}

/// Formats a rate with its unit.
fn rate(bps: u64) -> String {
    match bps {
        1_000_000.. => format!("{:.1} Mbps", bps as f64 / 1e6),
        _ => format!("{:.0} kbps", bps as f64 / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use squall_observe::status::{Amount, SentStatus};

    use super::*;

    #[test]
    fn rates_have_a_unit() {
        assert_eq!([999_999, 12_345_678].map(rate), ["1000 kbps", "12.3 Mbps"]);
    }

    #[test]
    fn the_parity_of_a_path_is_shown_as_a_share() {
        let path =
            PathStatus { name: "usb0".into(), sent_bytes: 2_000, parity_bytes: 100, ..PathStatus::default() };
        let session = squall_observe::status::SessionStatus { paths: vec![path], ..Default::default() };
        let table = paths(&Status { sessions: vec![session], ..Status::default() });
        assert_eq!((table.head.last(), table.rows[0].last()), (Some(&"parity"), Some(&"5.0 %".to_owned())));
        assert_eq!(parity(&PathStatus::default()), "–");
    }

    #[test]
    fn a_new_main_path_is_no_event_to_show() {
        let event = |kind: &str| EventStatus { kind: kind.to_owned(), ..EventStatus::default() };
        let status = Status { events: vec![event("main"), event("path")], ..Status::default() };
        assert_eq!(events(&status), [&status.events[1]]);
    }

    #[test]
    fn flows_are_counted_at_either_end() {
        let amount = |blocks| Amount { blocks, bytes: blocks * 1000 };
        let outcomes = [("delivered".to_owned(), amount(7)), ("expired".to_owned(), amount(2))];
        let mut flow = FlowStatus { name: "cam".into(), end: "in".into(), ..FlowStatus::default() };
        flow.sent.insert("key".into(), SentStatus { outcomes: outcomes.into() });
        assert_eq!((count(&flow, "key"), lost(&flow), bytes(&flow)), (9, 2, 9000));
        flow.end = "out".into();
        flow.received.classes.insert("key".into(), amount(5));
        assert_eq!(count(&flow, "key"), 5);
        let status = Status { flows: vec![flow.clone()], ..Status::default() };
        flow.received.classes.insert("key".into(), amount(10));
        assert_eq!(flow_rate(&flow, &status, 2.0), 20_000);
    }

    #[test]
    fn the_scheduler_that_runs_is_shown_and_the_next() {
        let session = |scheduler: &str| squall_observe::status::SessionStatus {
            scheduler: scheduler.to_owned(),
            ..Default::default()
        };
        let of =
            |sessions| scheduler(&Status { scheduler: "storm".to_owned(), sessions, ..Status::default() });
        assert_eq!(of(Vec::new()), "storm");
        assert_eq!(of(vec![session("storm")]), "storm");
        assert_eq!(of(vec![session("minrtt"), session("minrtt")]), "minrtt (next session: storm)");
        assert_eq!(of(vec![session("storm"), session("minrtt")]), "minrtt and storm (next session: storm)");
    }
}
