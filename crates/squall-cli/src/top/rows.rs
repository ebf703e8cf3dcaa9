//! The status of a tunnel as tables, for a terminal or a file.

use squall_tunnel::{
    Status,
    status::{EventStatus, FlowStatus, PathStatus},
};

use squall_terminal::wrap::wrap;

/// A table of texts.
pub(super) struct Table {
    pub(super) head: Vec<&'static str>,
    pub(super) rows: Vec<Vec<String>>,
    /// Number of left-aligned columns; the others are numbers.
    pub(super) left: usize,
    /// Columns that a narrow terminal omits, in this order.
    pub(super) spare: &'static [&'static str],
}

/// Characters between columns.
pub(super) const SPACING: usize = 2;

impl Table {
    /// Characters of each column.
    pub(super) fn widths(&self) -> Vec<usize> {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            cells.chain([self.head[column].chars().count()]).max().unwrap_or(0)
        };
        (0..self.head.len()).map(width).collect()
    }

    /// Omits as many of its spare columns as necessary to fit this width.
    pub(super) fn fit(mut self, width: usize) -> Self {
        for spare in self.spare {
            let widths = self.widths();
            if widths.iter().sum::<usize>() + SPACING * widths.len().saturating_sub(1) <= width {
                break;
            }
            let Some(column) = self.head.iter().position(|name| name == spare) else { continue };
            self.head.remove(column);
            for row in &mut self.rows {
                row.remove(column);
            }
            self.left -= usize::from(column < self.left);
        }
        self
    }

    /// As lines of text.
    pub(super) fn text(&self) -> String {
        let widths = self.widths();
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let padded: Vec<String> = cells
                .zip(&widths)
                .enumerate()
                .map(|(column, (cell, width))| pad(cell, *width, column < self.left))
                .collect();
            format!("{}\n", padded.join(&" ".repeat(SPACING)).trim_end())
        };
        let mut text = line(&mut self.head.iter().copied());
        for row in &self.rows {
            text.push_str(&line(&mut row.iter().map(String::as_str)));
        }
        text
    }
}

/// A cell of this width.
pub(super) fn pad(cell: &str, width: usize, left: bool) -> String {
    if left { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
}

/// The tunnel in one line.
pub(super) fn title(status: &Status) -> String {
    let verb = if status.role == "entry" { "to" } else { "on" };
    let agreed = status.sessions.iter().filter(|session| session.agreed).count();
    let sessions = match agreed {
        0 => "no session".to_owned(),
        1 => "1 session".to_owned(),
        more => format!("{more} sessions"),
    };
    let scheduler = scheduler(status);
    format!(
        "{} {verb} {}, {sessions} ({} opened, {} failed), scheduler {scheduler}, up {}, {:.1} MB",
        status.role,
        status.address,
        status.sessions_opened,
        status.sessions_failed,
        span(status.uptime_s),
        status.memory_bytes as f64 / 1e6
    )
}

/// The schedulers of the sessions, and that of the next one if a reload changed it.
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

/// A line for each path.
pub(super) fn paths(status: &Status) -> Table {
    let row = |session: u64, path: &PathStatus| {
        vec![
            path.name.clone(),
            path.state.clone(),
            if path.metered { "metered" } else { "" }.to_owned(),
            session.to_string(),
            rate(path.sent_bps),
            rate(path.received_bps),
            millis(path.srtt_us),
            format!("{:.1} %", path.loss * 100.0),
            format!("{} / {}", path.in_flight / 1000, path.window / 1000),
            path.lost_packets.to_string(),
            path.suspicions.to_string(),
        ]
    };
    let all =
        status.sessions.iter().flat_map(|session| session.paths.iter().map(|path| row(session.id, path)));
    Table {
        head: vec![
            "path",
            "state",
            "cost",
            "session",
            "up",
            "down",
            "RTT ms",
            "loss",
            "kB in flight/window",
            "lost",
            "suspected",
        ],
        rows: all.collect(),
        left: 3,
        spare: &["session", "lost", "kB in flight/window", "suspected", "cost", "loss"],
    }
}

/// A line for each flow, with its rate since an earlier status.
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
        // Late blocks have been counted as missing.
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

/// Blocks of a class: sent ones at an `in` end, received ones at an `out` end.
fn count(flow: &FlowStatus, class: &str) -> u64 {
    let sent =
        || flow.sent.get(class).map_or(0, |sent| sent.fates.values().map(|amount| amount.blocks).sum());
    match flow.end.as_str() {
        "in" => sent(),
        _ => flow.received.classes.get(class).map_or(0, |amount| amount.blocks),
    }
}

/// Sent blocks that were not delivered.
fn lost(flow: &FlowStatus) -> u64 {
    let fates = flow.sent.values().flat_map(|sent| &sent.fates);
    fates.filter(|(fate, _)| *fate != "delivered").map(|(_, amount)| amount.blocks).sum()
}

/// Bytes of blocks, in both directions.
fn bytes(flow: &FlowStatus) -> u64 {
    let sent: u64 = flow.sent.values().flat_map(|sent| sent.fates.values()).map(|amount| amount.bytes).sum();
    sent + flow.received.classes.values().map(|amount| amount.bytes).sum::<u64>()
}

fn flow_rate(flow: &FlowStatus, then: &Status, seconds: f64) -> u64 {
    let before = then.flows.iter().find(|other| other.name == flow.name).map_or(0, bytes);
    if seconds > 0.0 { (bytes(flow).saturating_sub(before) as f64 * 8.0 / seconds) as u64 } else { 0 }
}

/// The events to show, oldest first. A new main path is in the rates of the paths, and would fill the list.
pub(super) fn events(status: &Status) -> Vec<&EventStatus> {
    let is_shown =
        |event: &&EventStatus| !(event.kind == "path" && event.words.contains(" carries most data ("));
    status.events.iter().filter(is_shown).collect()
}

/// An event with its age at `now`, in lines of at most `width`.
pub(super) fn event(event: &EventStatus, now: f64, width: Option<usize>) -> String {
    let mark = if event.level == "warn" { "!" } else { " " };
    let ago = format!("{} ago", span((now - event.at_s).max(0.0)));
    let first = format!("{ago:>12} {mark} ");
    wrap(&first, first.len(), &format!("{}: {}", event.kind, event.words), width)
}

fn millis(us: u64) -> String {
    format!("{:.1}", us as f64 / 1e3)
}

fn rate(bps: u64) -> String {
    match bps {
        1_000_000.. => format!("{:.1} Mbps", bps as f64 / 1e6),
        _ => format!("{:.0} kbps", bps as f64 / 1e3),
    }
}

fn span(seconds: f64) -> String {
    let whole = seconds as u64;
    match whole {
        0..60 => format!("{seconds:.1} s"),
        60..3600 => format!("{}:{:02}", whole / 60, whole % 60),
        _ => format!("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60),
    }
}

#[cfg(test)]
mod tests {
    use squall_tunnel::status::{Amount, SentStatus};

    use super::*;

    #[test]
    fn tables_are_as_wide_as_what_is_in_them() {
        let table = Table {
            head: vec!["name", "n"],
            rows: vec![vec!["a".into(), "1".into()], vec!["longer".into(), "100".into()]],
            left: 1,
            spare: &["n"],
        };
        assert_eq!(table.text(), "name      n\na         1\nlonger  100\n");
        let table = table.fit(11);
        assert_eq!(table.head.len(), 2);
        assert_eq!(table.fit(10).text(), "name\na\nlonger\n");
    }

    #[test]
    fn a_new_main_path_is_no_event_to_show() {
        let event = |kind: &str, words: &str| EventStatus {
            kind: kind.to_owned(),
            words: words.to_owned(),
            ..EventStatus::default()
        };
        let main = "usb0 carries most data (80 %, active) instead of wlan0 (active)";
        let status =
            Status { events: vec![event("path", main), event("path", "usb0 is down")], ..Status::default() };
        assert_eq!(events(&status).iter().map(|event| &event.words).collect::<Vec<_>>(), ["usb0 is down"]);
    }

    #[test]
    fn flows_are_counted_at_either_end() {
        let amount = |blocks| Amount { blocks, bytes: blocks * 1000 };
        let fates = [("delivered".to_owned(), amount(7)), ("expired".to_owned(), amount(2))];
        let mut flow = FlowStatus { name: "cam".into(), end: "in".into(), ..FlowStatus::default() };
        flow.sent.insert("key".into(), SentStatus { fates: fates.into() });
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
        let session = |scheduler: &str| squall_tunnel::status::SessionStatus {
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

    #[test]
    fn spans_are_shown_as_on_clocks() {
        assert_eq!([5.0, 65.0, 3_700.0].map(span), ["5.0 s", "1:05", "1:01:40"]);
        assert_eq!([999_999, 12_345_678].map(rate), ["1000 kbps", "12.3 Mbps"]);
    }
}
