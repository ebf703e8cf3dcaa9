//! Bytes of a flow over the last minutes, by path and reason.

use std::{collections::VecDeque, sync::Arc};

use squall_observe::status::ShareStatus;
use squall_units::{self as units, Time};

/// Length of a counting span.
const SPAN: units::Span = units::Span::from_secs(10);

/// Number of spans that are kept: five minutes.
const SPANS: usize = 30;

/// Maximum number of rows of a span. At an exit, the name of a path is the address of the peer,
/// which the peer may change.
const MAX_ROWS: usize = 32;

/// Reason of bytes beyond [`MAX_ROWS`].
const OTHERS: &str = "others";

/// Byte counts of a flow.
#[derive(Debug, Default)]
pub(super) struct Shares {
    /// Spans, oldest first.
    spans: VecDeque<Span>,
}

#[derive(Debug)]
struct Span {
    /// Start of the span, in spans since the start of the program.
    number: u64,
    rows: Vec<Row>,
}

#[derive(Clone, Debug)]
struct Row {
    path: Arc<str>,
    kind: &'static str,
    reason: &'static str,
    bytes: u64,
}

impl Row {
    fn is_of(&self, path: &str, kind: &str, reason: &str) -> bool {
        *self.path == *path && self.kind == kind && self.reason == reason
    }
}

fn add(rows: &mut Vec<Row>, row: Row) {
    match rows.iter_mut().find(|other| other.is_of(&row.path, row.kind, row.reason)) {
        Some(same) => same.bytes += row.bytes,
        None => rows.push(row),
    }
}

impl Shares {
    /// Adds bytes that a path accepted for a reason.
    pub(super) fn add(
        &mut self,
        now: Time,
        path: &Arc<str>,
        kind: &'static str,
        reason: &'static str,
        bytes: u64,
    ) {
        let number = now.since_epoch() / SPAN;
        if self.spans.back().is_none_or(|last| last.number < number) {
            self.spans.push_back(Span { number, rows: Vec::new() });
            self.forget(number);
        }
        let Some(Span { rows, .. }) = self.spans.back_mut() else { return };
        let is_known = rows.iter().any(|row| row.is_of(path, kind, reason));
        let row = if is_known || rows.len() < MAX_ROWS - 1 {
            Row { path: path.clone(), kind, reason, bytes }
        } else {
            Row { path: OTHERS.into(), kind: "", reason: OTHERS, bytes }
        };
        add(rows, row);
    }

    fn forget(&mut self, now: u64) {
        while self.spans.front().is_some_and(|first| first.number + SPANS as u64 <= now) {
            self.spans.pop_front();
        }
    }

    /// Returns the sums over the kept spans, largest first.
    pub(super) fn status(&mut self, now: Time) -> Vec<ShareStatus> {
        self.forget(now.since_epoch() / SPAN);
        let mut sums = Vec::new();
        for row in self.spans.iter().flat_map(|span| &span.rows) {
            add(&mut sums, row.clone());
        }
        sums.sort_by(|one, other| (other.bytes, &one.path).cmp(&(one.bytes, &other.path)));
        let status = |Row { path, kind, reason, bytes }: Row| ShareStatus {
            path: path.to_string(),
            kind: kind.to_owned(),
            reason: reason.to_owned(),
            bytes,
        };
        sums.into_iter().map(status).take(MAX_ROWS).collect()
    }
}

#[cfg(test)]
mod tests {
    use squall_units::short::at_ms;

    use super::*;

    #[test]
    fn bytes_are_summed_over_five_minutes() {
        let (mut shares, path) = (Shares::default(), "wlan0".into());
        for second in 0..600 {
            shares.add(at_ms(second * 1_000), &path, "fresh", "lowest RTT", 100);
        }
        let status = shares.status(at_ms(599_000));
        assert_eq!(status.len(), 1);
        assert_eq!((status[0].path.as_str(), status[0].bytes), ("wlan0", 30_000));
        assert!(shares.status(at_ms(1_000_000)).is_empty(), "nothing was sent for five minutes");
    }

    #[test]
    fn a_peer_with_many_addresses_fills_no_memory() {
        let mut shares = Shares::default();
        for port in 0..10_000 {
            shares.add(at_ms(port * 100), &format!("192.0.2.1:{port}").into(), "fresh", "lowest RTT", 1);
        }
        assert!(shares.spans.len() <= SPANS && shares.spans.iter().all(|span| span.rows.len() <= MAX_ROWS));
        assert!(shares.status(at_ms(999_900)).len() <= MAX_ROWS);
    }
}
