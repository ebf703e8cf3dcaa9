//! The status as metrics, in the text format of Prometheus.
//!
//! Except for `path_info`, no label has values that change with a reconnection.

use std::fmt::Write as _;

use crate::status::{
    Amount, ArmStatus, FlowStatus, LATENCY_BUCKETS, PathStatus, QuotaStatus, SessionStatus, Status,
    TenantStatus,
};

/// HTTP content type of the metrics.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Metrics of one kind of object: name without prefix, description, value. Names end with the unit,
/// those of counters with `_total`. Rates are in bytes, as is usual in Prometheus. An object with
/// the value `NaN` has no sample. `docs/tunnel.md` lists the metrics.
type Metrics<T> = &'static [(&'static str, &'static str, fn(&T) -> f64)];

/// Time in seconds without a datagram after which a flow counts as idle.
const IDLE_S: f64 = 5.0;

const PROCESS: Metrics<Status> = &[
    ("uptime_seconds", "Time since the start of the program", |all| all.uptime_s),
    ("process_memory_bytes", "Resident memory of the process", |all| all.memory_bytes as f64),
    ("sessions", "Sessions that are up", |all| agreed(all).count() as f64),
    ("strangers", "Connections without a token, handshakes included", |all| {
        all.unauthenticated.pending as f64
    }),
    ("idle_flows", "Flows without a datagram for five seconds", |all| {
        all.flows.iter().filter(|flow| flow.idle_s >= IDLE_S).count() as f64
    }),
    ("sessions_opened_total", "Sessions that came up", |all| all.sessions_opened as f64),
    ("sessions_failed_total", "Failed attempts and rejected sessions", |all| all.sessions_failed as f64),
    ("strangers_retried_total", "Handshakes that had to prove their address", |all| {
        all.unauthenticated.retried as f64
    }),
    ("strangers_displaced_total", "Connections displaced by newer ones", |all| {
        all.unauthenticated.displaced as f64
    }),
    ("strangers_expired_total", "Connections without a token in time", |all| {
        all.unauthenticated.expired as f64
    }),
    ("strangers_refused_total", "Handshakes refused: too many were pending", |all| {
        all.unauthenticated.refused as f64
    }),
    ("task_failures_total", "Failed tasks of the process", |all| all.task_failures as f64),
    ("draining", "Whether this exit accepts no more sessions, and ends", |all| flag(all.draining)),
    ("redirects_sent_total", "Sessions that this exit asked to move", |all| {
        if all.role == "exit" { all.redirects as f64 } else { f64::NAN }
    }),
    ("redirects_followed_total", "Moves of this entry to another exit", |all| {
        if all.role == "entry" { all.redirects as f64 } else { f64::NAN }
    }),
    ("tun_unrouted_packets_total", "Packets to addresses that no entry owns", |all| {
        all.tun.as_ref().map_or(f64::NAN, |tun| tun.unrouted as f64)
    }),
    ("tun_looped_packets_total", "Packets of the tunnel itself that came from the device", |all| {
        all.tun.as_ref().map_or(f64::NAN, |tun| tun.looped as f64)
    }),
];

const FLOW: Metrics<FlowStatus> = &[
    ("flow_attached", "Whether a session carries the flow", |flow| flag(flow.attached)),
    ("flow_idle_seconds", "Time since a datagram last entered or left", |flow| flow.idle_s),
    ("flow_pending_blocks", "Blocks in transit", |flow| flow.pending as f64),
    ("flow_order_wait_seconds", "Waiting time for earlier blocks", |flow| seconds(flow.received.waited_us)),
    ("flow_datagrams_in_total", "Datagrams that entered here", |flow| flow.datagrams_in as f64),
    ("flow_datagrams_stale_total", "Datagrams that waited in the socket for too long", |flow| {
        flow.datagrams_stale as f64
    }),
    ("flow_datagrams_overflowed_total", "Datagrams that found no room in the socket", |flow| {
        flow.datagrams_overflowed as f64
    }),
    ("flow_datagrams_foreign_total", "Datagrams of other senders", |flow| flow.datagrams_foreign as f64),
    ("flow_datagrams_out_total", "Datagrams that left here", |flow| flow.datagrams_out as f64),
    ("flow_datagrams_unwritten_total", "Datagrams that the system did not send", |flow| {
        flow.unwritten as f64
    }),
    ("flow_null_bytes_deleted_total", "Bytes of null packets that entered here and were not sent", |flow| {
        flow.null_bytes_deleted as f64
    }),
    ("flow_late_blocks_total", "Blocks that arrived when later ones had left", |flow| {
        flow.received.late as f64
    }),
    ("flow_missing_blocks_total", "Blocks that did not arrive in time", |flow| flow.received.missing as f64),
    ("flow_order_waits_total", "Blocks that waited for earlier ones", |flow| flow.received.waits as f64),
];

const TENANT: Metrics<TenantStatus> = &[
    ("tenant_sessions", "Sessions of the tenant", |tenant| tenant.sessions as f64),
    ("tenant_period_bytes", "Bytes in this day or month, both directions together", |tenant| {
        tenant.period_bytes as f64
    }),
    ("tenant_period_limit_bytes", "Most bytes in a day or month, if limited", |tenant| {
        tenant.limits.bytes.map_or(f64::NAN, |most| most.bytes() as f64)
    }),
    ("tenant_received_bytes_total", "Bytes of datagrams from the tenant's entries", |tenant| {
        tenant.received_bytes as f64
    }),
    ("tenant_sent_bytes_total", "Bytes of datagrams to the tenant's entries", |tenant| {
        tenant.sent_bytes as f64
    }),
    ("tenant_dropped_in_bytes_total", "Bytes from its entries beyond a limit", |tenant| {
        tenant.dropped_in_bytes as f64
    }),
    ("tenant_dropped_out_bytes_total", "Bytes to its entries beyond a limit", |tenant| {
        tenant.dropped_out_bytes as f64
    }),
    ("tenant_refused_sessions_total", "Sessions beyond a limit", |tenant| tenant.sessions_refused as f64),
];

const SESSION: Metrics<SessionStatus> = &[
    ("session_capacity_bytes_per_second", "Capacity at present", |session| {
        session.capacity.now_bps as f64 / 8.0
    }),
    ("session_safe_capacity_bytes_per_second", "Capacity over the next second, 9 times in 10", |session| {
        session.capacity.safe_bps as f64 / 8.0
    }),
    ("session_capacity_confidence", "Share of the forecasts that held", |session| {
        session.capacity.confidence
    }),
];

const ARM: Metrics<ArmStatus> = &[
    ("arm_sessions_total", "Sessions of the arm", |arm| arm.counts.sessions as f64),
    ("arm_session_seconds_total", "Their time", |arm| arm.counts.time_ms as f64 / 1e3),
    ("arm_sent_bytes_total", "Sent UDP payload", |arm| arm.counts.sent_bytes as f64),
    ("arm_metered_sent_bytes_total", "Of these, on paths whose bytes cost money", |arm| {
        arm.counts.metered_bytes as f64
    }),
    ("arm_lost_packets_total", "Lost packets with data", |arm| arm.counts.lost_packets as f64),
];

const QUOTA: Metrics<QuotaStatus> = &[
    ("quota_used_bytes", "IP bytes used in this period", |quota| quota.used as f64),
    ("quota_left_bytes", "IP bytes left of this period", |quota| quota.left as f64),
    ("quota_pace_bytes_per_second", "Rate that lasts to the end of the period", |quota| {
        quota.pace_bps as f64 / 8.0
    }),
    ("quota_held", "Whether the interface is ahead of its pace, and a backup meanwhile", |quota| {
        flag(quota.is_held)
    }),
];

const PATH: Metrics<PathStatus> = &[
    ("path_rtt_seconds", "Smoothed round-trip time", |path| seconds(path.srtt_us)),
    ("path_min_rtt_seconds", "Smallest round-trip time", |path| seconds(path.min_rtt_us)),
    ("path_one_way_delay_seconds", "One-way delay to the other end", |path| seconds(path.one_way_us)),
    ("path_delivery_bytes_per_second", "Rate at which data arrived while there was enough to send", |path| {
        path.delivery_bps as f64 / 8.0
    }),
    ("path_signal_factor", "Share of the capacity that is used: below 1 while a radio warns", |path| {
        path.signal_factor
    }),
    ("path_signal_quality", "Quality index of the radio at this end, from 0 to 1", |path| {
        path.signal_quality.unwrap_or(f64::NAN)
    }),
    ("path_budget_bytes", "Bytes that the budget leaves", |path| {
        path.budget.map_or(f64::NAN, |budget| budget as f64)
    }),
    ("path_loss_ratios", "Share of packets lost over two seconds", |path| path.loss),
    ("path_in_flight_bytes", "Bytes in flight", |path| path.in_flight as f64),
    ("path_window_bytes", "Congestion window", |path| path.window as f64),
    ("path_capacity_bytes_per_second", "Capacity at present", |path| path.capacity.now_bps as f64 / 8.0),
    ("path_safe_capacity_bytes_per_second", "Capacity over the next second, 9 times in 10", |path| {
        path.capacity.safe_bps as f64 / 8.0
    }),
    ("path_active", "Whether it carries data: 0 while it opens, if suspected or deactivated", |path| {
        flag(path.state == "active")
    }),
    ("path_metered", "Whether its bytes cost money", |path| flag(path.metered)),
    ("path_backup", "Whether it is a backup, or used for repairs", |path| flag(path.role != "primary")),
];

/// A counter of a path: name without prefix, description, value.
pub type Counter = (&'static str, &'static str, fn(&PathStatus) -> u64);

/// Counters that are summed over all sessions.
pub const PATH_COUNTERS: [Counter; 9] = [
    ("path_sent_bytes_total", "Sent UDP payload", |path| path.sent_bytes),
    ("path_received_bytes_total", "Received UDP payload", |path| path.received_bytes),
    ("path_repaired_bytes_total", "Retransmitted bytes of blocks", |path| path.repair_bytes),
    ("path_copied_bytes_total", "Bytes sent as copies", |path| path.copy_bytes),
    ("path_parity_bytes_total", "Sent bytes of parity", |path| path.parity_bytes),
    ("path_lost_packets_total", "Lost packets with data", |path| path.lost_packets),
    ("path_suspicions_total", "How often it was suspected", |path| path.suspicions),
    ("path_predicted_arrivals_total", "Arrivals predicted with bounds", |path| path.predicted_arrivals),
    ("path_kept_arrivals_total", "Arrivals within these bounds", |path| path.kept_arrivals),
];

/// Indices in [`PATH_COUNTERS`] of sent bytes and lost packets, which are also summed by arm.
pub(crate) const ARM_COUNTERS: [usize; 2] = [0, 5];

type BlockMetric = (&'static str, &'static str, &'static str, fn(&Amount) -> u64);

/// Counters of blocks, by class and, for sent blocks, by outcome: name for sent ones, name for
/// received ones, description, value.
const BLOCKS: &[BlockMetric] = &[
    ("flow_sent_blocks_total", "flow_received_blocks_total", "Blocks by class", |amount| amount.blocks),
    ("flow_sent_bytes_total", "flow_received_bytes_total", "Bytes of blocks by class", |amount| amount.bytes),
];

/// Formats the status as metrics.
pub fn text(status: &Status) -> String {
    let mut text = Text::default();
    text.all(PROCESS, &[(Vec::new(), status)]);
    let flows: Vec<_> = status.flows.iter().map(|flow| (vec![("flow", flow.name.clone())], flow)).collect();
    text.all(FLOW, &flows);
    for (sent_name, received_name, help, value) in BLOCKS {
        text.family(sent_name, help, "counter");
        for (labels, flow) in &flows {
            for (class, sent) in &flow.sent {
                for (outcome, amount) in &sent.outcomes {
                    let labels =
                        [&labels[..], &[("class", class.clone()), ("outcome", outcome.clone())]].concat();
                    text.sample(sent_name, &labels, value(amount));
                }
            }
        }
        text.family(received_name, help, "counter");
        for (labels, flow) in &flows {
            for (class, amount) in &flow.received.classes {
                text.sample(
                    received_name,
                    &[&labels[..], &[("class", class.clone())]].concat(),
                    value(amount),
                );
            }
        }
    }
    text.latencies(&flows);
    let tenants: Vec<_> =
        status.tenants.iter().map(|tenant| (vec![("tenant", tenant.name.clone())], tenant)).collect();
    text.all(TENANT, &tenants);
    let label = |slot: u64| ("slot", slot.to_string());
    let sessions = status.sessions.iter().filter_map(|session| Some((vec![label(session.slot?)], session)));
    let sessions: Vec<_> = sessions.collect();
    text.all(SESSION, &sessions);
    text.family("session_switches_total", "How often another path carried most data than before", "counter");
    for (slot, switches) in &status.totals.switches {
        text.sample("session_switches_total", &[label(*slot)], switches);
    }
    text.family("session_limit", "1, labelled with what limits the capacity", "gauge");
    for (labels, session) in &sessions {
        let limit = ("limit", session.capacity.limit.clone());
        text.sample("session_limit", &[&labels[..], &[limit]].concat(), "1.0");
    }
    text.family("session_exit", "1, labelled with the exit of the session", "gauge");
    for (labels, session) in &sessions {
        if let Some(exit) = &session.exit {
            text.sample("session_exit", &[&labels[..], &[("exit", exit.clone())]].concat(), "1.0");
        }
    }
    text.family("session_arm", "1, labelled with the arm of the session", "gauge");
    for (labels, session) in &sessions {
        if let Some(arm) = &session.arm {
            text.sample("session_arm", &[&labels[..], &[("arm", arm.clone())]].concat(), "1.0");
        }
    }
    text.arms(&status.arms);
    let paths = sessions.iter().flat_map(|(labels, session)| {
        let of = move |path: &PathStatus| [&labels[..], &[("path", path.label.clone())]].concat();
        session.paths.iter().map(move |path| (of(path), path, session.id))
    });
    let paths: Vec<_> = paths.collect();
    text.family("path_info", "1, labelled with the session and the remote address of the path", "gauge");
    for (labels, path, session) in &paths {
        let more = [("session", session.to_string()), ("remote", path.remote.clone())];
        text.sample("path_info", &[&labels[..], &more].concat(), "1.0");
    }
    let paths: Vec<_> = paths.into_iter().map(|(labels, path, _)| (labels, path)).collect();
    text.all(PATH, &paths);
    for (index, (name, help, _)) in PATH_COUNTERS.iter().enumerate() {
        text.family(name, help, "counter");
        for ((slot, path), counts) in &status.totals.paths {
            text.sample(name, &[label(*slot), ("path", path.clone())], counts[index]);
        }
    }
    let quotas = status.quotas.iter().map(|quota| (vec![("interface", quota.interface.clone())], quota));
    text.all(QUOTA, &quotas.collect::<Vec<_>>());
    text.0
}

/// Labels of a sample.
type Labels = Vec<(&'static str, String)>;

/// Output under construction.
#[derive(Default)]
struct Text(String);

impl Text {
    /// Writes families with a sample for each of these objects.
    fn all<T>(&mut self, metrics: Metrics<T>, objects: &[(Labels, &T)]) {
        for (name, help, value) in metrics {
            let is_counter = name.ends_with("_total");
            self.family(name, help, if is_counter { "counter" } else { "gauge" });
            for (labels, object) in objects {
                let value = value(object);
                if value.is_nan() {
                    continue;
                }
                self.sample(name, labels, if is_counter { value.to_string() } else { format!("{value:?}") });
            }
        }
    }

    /// Writes the description of a family.
    fn family(&mut self, name: &str, help: &str, kind: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP squall_tunnel_{name} {help}\n# TYPE squall_tunnel_{name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, String)], value: impl std::fmt::Display) {
        let escaped = |value: &str| value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
        let pairs: Vec<_> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let labels = if pairs.is_empty() { String::new() } else { format!("{{{}}}", pairs.join(",")) };
        let _ = writeln!(self.0, "squall_tunnel_{name}{labels} {value}");
    }

    /// Writes the metrics of the arms.
    fn arms(&mut self, arms: &[ArmStatus]) {
        let arms: Vec<_> = arms.iter().map(|arm| (vec![("arm", arm.name.clone())], arm)).collect();
        self.all(ARM, &arms);
        self.family("arm_blocks_total", "Blocks that this end sent, by outcome", "counter");
        for (labels, ArmStatus { counts, .. }) in &arms {
            let outcomes =
                [("delivered", counts.delivered), ("expired", counts.expired), ("lost", counts.lost)];
            for (outcome, blocks) in outcomes {
                let labels = [&labels[..], &[("outcome", outcome.to_owned())]].concat();
                self.sample("arm_blocks_total", &labels, blocks);
            }
        }
    }

    /// Writes the histogram of latencies.
    fn latencies(&mut self, flows: &[(Labels, &FlowStatus)]) {
        self.family("flow_latency_seconds", "Time of a datagram in the tunnel", "histogram");
        for (labels, FlowStatus { latency, .. }) in flows {
            self.sample("flow_latency_seconds_sum", labels, seconds(latency.sum_us));
            self.sample("flow_latency_seconds_count", labels, latency.count);
            let bounds = LATENCY_BUCKETS.iter().map(|bound| format!("{:?}", seconds(*bound)));
            let mut count = 0;
            for (bound, datagrams) in bounds.chain(["+Inf".to_owned()]).zip(&latency.buckets) {
                count += datagrams;
                let labels = [&[("le", bound)], &labels[..]].concat();
                self.sample("flow_latency_seconds_bucket", &labels, count);
            }
        }
    }
}

fn agreed(status: &Status) -> impl Iterator<Item = &SessionStatus> {
    status.sessions.iter().filter(|session| session.agreed)
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

fn flag(on: bool) -> f64 {
    f64::from(u8::from(on))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        status::{CapacityStatus, LatencyStatus, SentStatus},
        totals::Totals,
    };

    #[test]
    fn metrics_have_names_and_units() {
        let amount = Amount { blocks: 3, bytes: 3000 };
        let sent = SentStatus { outcomes: [("delivered".to_owned(), amount)].into() };
        let mut buckets = vec![0; LATENCY_BUCKETS.len() + 1];
        (buckets[0], buckets[LATENCY_BUCKETS.len()]) = (2, 1);
        let flow = FlowStatus {
            name: "cam".into(),
            idle_s: 5.5,
            sent: [("key".to_owned(), sent)].into(),
            latency: LatencyStatus { count: 3, sum_us: 4_000_400, buckets, ..LatencyStatus::default() },
            ..FlowStatus::default()
        };
        let path = PathStatus {
            name: "wwan0".into(),
            label: "wwan0".into(),
            remote: "host:1".into(),
            srtt_us: 40_000,
            one_way_us: 15_000,
            delivery_bps: 7_000_000,
            signal_factor: 0.5,
            budget: Some(4_000),
            role: "backup".into(),
            copy_bytes: 9,
            ..PathStatus::default()
        };
        let capacity =
            CapacityStatus { safe_bps: 8_000_000, limit: "network".into(), ..CapacityStatus::default() };
        let session = SessionStatus {
            id: 7,
            slot: Some(1),
            agreed: true,
            paths: vec![path],
            capacity,
            switches: 3,
            ..SessionStatus::default()
        };
        let quota =
            QuotaStatus { interface: "wwan0".into(), left: 5_000, is_held: true, ..QuotaStatus::default() };
        let quotas = vec![quota];
        let mut session = session;
        let totals = Totals::default();
        totals.count(&mut session);
        let totals = totals.sums();
        let status =
            Status { flows: vec![flow], sessions: vec![session], quotas, totals, ..Status::default() };
        let text = text(&status);
        for line in [
            "squall_tunnel_sessions 1.0",
            "squall_tunnel_flow_sent_blocks_total{flow=\"cam\",class=\"key\",outcome=\"delivered\"} 3",
            "squall_tunnel_flow_sent_bytes_total{flow=\"cam\",class=\"key\",outcome=\"delivered\"} 3000",
            "squall_tunnel_flow_latency_seconds_bucket{le=\"0.0005\",flow=\"cam\"} 2",
            "squall_tunnel_flow_latency_seconds_bucket{le=\"+Inf\",flow=\"cam\"} 3",
            "squall_tunnel_flow_latency_seconds_count{flow=\"cam\"} 3",
            "squall_tunnel_path_rtt_seconds{slot=\"1\",path=\"wwan0\"} 0.04",
            "# HELP squall_tunnel_path_copied_bytes_total Bytes sent as copies",
            "# TYPE squall_tunnel_path_copied_bytes_total counter",
            "squall_tunnel_path_info{slot=\"1\",path=\"wwan0\",session=\"7\",remote=\"host:1\"} 1.0",
            "squall_tunnel_session_safe_capacity_bytes_per_second{slot=\"1\"} 1000000.0",
            "squall_tunnel_session_limit{slot=\"1\",limit=\"network\"} 1.0",
            "squall_tunnel_path_capacity_bytes_per_second{slot=\"1\",path=\"wwan0\"} 0.0",
            "squall_tunnel_path_one_way_delay_seconds{slot=\"1\",path=\"wwan0\"} 0.015",
            "squall_tunnel_path_delivery_bytes_per_second{slot=\"1\",path=\"wwan0\"} 875000.0",
            "squall_tunnel_path_signal_factor{slot=\"1\",path=\"wwan0\"} 0.5",
            "squall_tunnel_path_budget_bytes{slot=\"1\",path=\"wwan0\"} 4000.0",
            "squall_tunnel_path_copied_bytes_total{slot=\"1\",path=\"wwan0\"} 9",
            "squall_tunnel_session_switches_total{slot=\"1\"} 3",
            "squall_tunnel_flow_idle_seconds{flow=\"cam\"} 5.5",
            "squall_tunnel_path_backup{slot=\"1\",path=\"wwan0\"} 1.0",
            "squall_tunnel_quota_left_bytes{interface=\"wwan0\"} 5000.0",
            "squall_tunnel_quota_held{interface=\"wwan0\"} 1.0",
            "squall_tunnel_idle_flows 1.0",
        ] {
            assert!(text.lines().any(|one| one == line), "no {line} in\n{text}");
        }
        let absent = "squall_tunnel_path_signal_quality{";
        assert!(!text.contains(absent), "a path without a radio has no quality");
    }
}
