//! Traffic of each path of a transfer, including closed paths.

use std::collections::BTreeMap;

use serde::Serialize;
use squall::{PathInfo, Session};
use squall_units::format;

/// Latest counters of every path.
#[derive(Debug, Default)]
pub(super) struct PathCounters {
    session: u32,
    by_number: BTreeMap<(u32, u32), PathInfo>,
}

/// A path in a summary.
#[derive(Clone, Debug, Serialize)]
pub(super) struct PathSummary {
    /// Name of the local interface, if the path was opened over a named one.
    interface: Option<String>,
    /// Local address.
    local: std::net::IpAddr,
    /// Address of the peer.
    remote: std::net::SocketAddr,
    /// Bytes of UDP payload sent.
    pub(super) sent_bytes: u64,
    /// Bytes of UDP payload received.
    pub(super) received_bytes: u64,
    /// Packets sent.
    sent_packets: u64,
    /// Packets declared lost.
    lost_packets: u64,
    /// Smallest round-trip time in microseconds.
    min_rtt_us: u64,
    /// Smoothed round-trip time at the end, in microseconds.
    srtt_us: u64,
}

impl PathCounters {
    /// Begins another session, which has its own path numbers.
    pub(super) fn begin_session(&mut self) {
        self.session += 1;
    }

    /// Reads the counters.
    pub(super) fn update(&mut self, session: &Session) {
        for info in session.paths() {
            self.by_number.insert((self.session, info.stats.number), info);
        }
    }

    /// Returns one entry per pair of addresses: a reopened path counts as one.
    pub(super) fn summary(&self) -> Vec<PathSummary> {
        let mut all: Vec<PathSummary> = Vec::new();
        for info in self.by_number.values() {
            let local = info.local.ip();
            match all.iter_mut().find(|one| one.local == local && one.remote == info.remote) {
                Some(one) => one.add(info),
                None => all.push(PathSummary::of(info)),
            }
        }
        all
    }
}

impl PathSummary {
    fn of(info: &PathInfo) -> Self {
        let stats = &info.stats;
        Self {
            interface: info.interface.clone(),
            local: info.local.ip(),
            remote: info.remote,
            sent_bytes: stats.sent_bytes,
            received_bytes: stats.received_bytes,
            sent_packets: stats.sent_packets,
            lost_packets: stats.lost_packets,
            min_rtt_us: stats.min_rtt.as_micros() as u64,
            srtt_us: stats.srtt.as_micros() as u64,
        }
    }

    fn add(&mut self, info: &PathInfo) {
        let later = Self::of(info);
        *self = Self {
            sent_bytes: self.sent_bytes + later.sent_bytes,
            received_bytes: self.received_bytes + later.received_bytes,
            sent_packets: self.sent_packets + later.sent_packets,
            lost_packets: self.lost_packets + later.lost_packets,
            min_rtt_us: self.min_rtt_us.min(later.min_rtt_us),
            ..later
        };
    }

    /// Formats the entry as text.
    pub(super) fn line(&self) -> String {
        let local = self.interface.as_ref().map_or_else(|| self.local.to_string(), Clone::clone);
        format!(
            "path {local} -> {}: {} sent, {} received, RTT {}, {} of {} packets lost",
            self.remote,
            format::size(self.sent_bytes as f64),
            format::size(self.received_bytes as f64),
            format::time(self.srtt_us),
            self.lost_packets,
            self.sent_packets
        )
    }
}
