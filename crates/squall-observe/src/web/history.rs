//! Status of the last minutes.

use std::{collections::VecDeque, sync::Arc};

use serde::Serialize;

use crate::status::Status;

/// Number of samples kept: five minutes, one per second.
pub(super) const KEPT: usize = 300;

/// Maximum number of paths and flows of a sample.
const MAX_SERIES: usize = 64;

/// Latest samples.
#[derive(Debug, Default)]
pub(super) struct History {
    samples: VecDeque<Sample>,
    /// Names shared by samples.
    names: Vec<Arc<str>>,
}

/// A part of a status, with the same field names.
#[derive(Debug, Serialize)]
struct Sample {
    uptime_s: f64,
    sessions: Vec<SessionSample>,
    flows: Vec<FlowSample>,
}

#[derive(Debug, Serialize)]
struct SessionSample {
    id: u64,
    paths: Vec<PathSample>,
}

#[derive(Debug, Serialize)]
struct PathSample {
    #[serde(serialize_with = "text")]
    name: Arc<str>,
    is_active: bool,
    sent_bps: u64,
    received_bps: u64,
    srtt_us: u64,
    one_way_us: u64,
    loss: f32,
}

#[derive(Debug, Serialize)]
struct FlowSample {
    #[serde(serialize_with = "text")]
    name: Arc<str>,
    p50_us: Option<u64>,
    p99_us: Option<u64>,
    missing: u64,
    stories: u64,
}

fn text<S: serde::Serializer>(text: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}

impl History {
    /// Adds a sample.
    pub(super) fn add(&mut self, status: &Status) {
        if self.samples.len() == KEPT {
            self.samples.pop_front();
        }
        // Only this list holds the name: no sample refers to it.
        self.names.retain(|name| Arc::strong_count(name) > 1);
        let mut left = MAX_SERIES;
        let mut sessions = Vec::new();
        for session in &status.sessions {
            let mut paths = Vec::new();
            for path in session.paths.iter().take(left) {
                paths.push(PathSample {
                    name: self.name(&path.name),
                    is_active: path.state == "active",
                    sent_bps: path.sent_bps,
                    received_bps: path.received_bps,
                    srtt_us: path.srtt_us,
                    one_way_us: path.one_way_us,
                    loss: path.loss as f32,
                });
            }
            left -= paths.len();
            sessions.push(SessionSample { id: session.id, paths });
        }
        let mut flows = Vec::new();
        for flow in status.flows.iter().take(MAX_SERIES) {
            flows.push(FlowSample {
                name: self.name(&flow.name),
                p50_us: flow.latency.p50_us,
                p99_us: flow.latency.p99_us,
                missing: flow.received.missing,
                stories: flow.stories,
            });
        }
        self.samples.push_back(Sample { uptime_s: status.uptime_s, sessions, flows });
    }

    fn name(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.names.iter().find(|known| ***known == *name) {
            return known.clone();
        }
        let name: Arc<str> = name.into();
        self.names.push(name.clone());
        name
    }

    /// Returns the samples as JSON, oldest first.
    pub(super) fn json(&self) -> String {
        serde_json::to_string(&self.samples).unwrap_or_else(|_| "[]".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{FlowStatus, PathStatus, SessionStatus};

    #[test]
    fn the_last_minutes_are_kept_in_bounded_memory() {
        let mut history = History::default();
        for second in 0..1_000 {
            // At an exit, the name of a path is the address of the peer.
            let path = |n| PathStatus { name: format!("192.0.2.{n}:{second}"), ..PathStatus::default() };
            let paths = (0..8).map(path).collect();
            let session = SessionStatus { id: 1, paths, ..SessionStatus::default() };
            let flows = vec![FlowStatus { name: "cam".into(), ..FlowStatus::default() }];
            let uptime_s = f64::from(second);
            history.add(&Status { uptime_s, sessions: vec![session; 16], flows, ..Status::default() });
        }
        assert_eq!(history.samples.len(), KEPT);
        let first = &history.samples[0];
        assert_eq!((first.uptime_s, first.flows.len()), (700.0, 1));
        assert_eq!(first.sessions.iter().map(|session| session.paths.len()).sum::<usize>(), MAX_SERIES);
        // Eight addresses per second, including those of the previous sample.
        assert!(history.names.len() <= 8 * (KEPT + 1) + 1, "{} names", history.names.len());
        let json: serde_json::Value = serde_json::from_str(&history.json()).expect("is JSON");
        assert_eq!(json[299]["flows"][0]["name"], "cam");
    }
}
