//! Metrics in the text format of Prometheus (OpenMetrics).

use std::fmt::Error;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _, MetricEncoder, text},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::{Registry, Unit},
};

use crate::{
    status::{CapacityStatus, FlowStatus, PathStatus, SessionStatus, Status},
    tally::BUCKETS,
};

/// What the text is, for HTTP.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The status as metrics.
pub(crate) fn text(status: Status) -> String {
    let mut registry = Registry::with_prefix("squall_tunnel");
    registry.register_collector(Box::new(Page(status)));
    let mut out = String::new();
    // Writing into a text does not fail.
    let _ = text::encode(&mut out, &registry);
    out
}

#[derive(Debug)]
struct Page(Status);

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let status = &self.0;
        general(&mut encoder, status)?;
        for (name, help, value) in FLOW_COUNTERS {
            flows(&mut encoder, status, name, help, *value)?;
        }
        for (name, help, unit, value) in FLOW_GAUGES {
            let mut family = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
            for flow in &status.flows {
                gauge(&mut family, &[("flow", flow.name.as_str())], value(flow))?;
            }
        }
        sent(&mut encoder, status)?;
        received(&mut encoder, status)?;
        latency(&mut encoder, status)?;
        sessions(&mut encoder, status)?;
        paths(&mut encoder, status)
    }
}

type FlowValue = fn(&FlowStatus) -> u64;

const FLOW_COUNTERS: &[(&str, &str, FlowValue)] = &[
    ("flow_datagrams_in", "Datagrams that came in here", |flow| flow.datagrams_in),
    ("flow_datagrams_stale", "Datagrams that were too late when they were read", |flow| flow.datagrams_stale),
    ("flow_datagrams_foreign", "Datagrams from others than the source that is set", |flow| {
        flow.datagrams_foreign
    }),
    ("flow_datagrams_out", "Datagrams that went out here", |flow| flow.datagrams_out),
    ("flow_datagrams_unwritten", "Datagrams that the system would not send", |flow| flow.unwritten),
    ("flow_late_blocks", "Blocks that came when those after them had left", |flow| flow.received.late),
    ("flow_missing_blocks", "Blocks that were waited for in vain", |flow| flow.received.missing),
    ("flow_order_waits", "Blocks that waited for others before them", |flow| flow.received.waits),
];

type Measured = (&'static str, &'static str, Option<Unit>, fn(&FlowStatus) -> f64);

const FLOW_GAUGES: &[Measured] = &[
    ("flow_attached", "Whether a session carries the flow", None, |flow| f64::from(u8::from(flow.attached))),
    ("flow_pending_blocks", "Blocks on their way", None, |flow| flow.pending as f64),
    ("flow_order_wait", "How long blocks waited for others, in all", Some(Unit::Seconds), |flow| {
        flow.received.waited_us as f64 / 1e6
    }),
];

fn general(encoder: &mut DescriptorEncoder<'_>, status: &Status) -> Result<(), Error> {
    let agreed = status.sessions.iter().filter(|session| session.agreed).count();
    let gauges = [
        ("uptime", "Since the program began", Some(Unit::Seconds), status.uptime_s),
        ("process_memory", "Resident memory of the process", Some(Unit::Bytes), status.memory_bytes as f64),
        ("sessions", "Sessions that are up", None, agreed as f64),
        (
            "strangers",
            "Connections that have said nothing, handshakes included",
            None,
            status.strangers.pending as f64,
        ),
    ];
    for (name, help, unit, value) in gauges {
        let mut family = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
        gauge(&mut family, &[], value)?;
    }
    let counters = [
        ("sessions_opened", "Sessions that came up", status.sessions_opened),
        ("sessions_failed", "Attempts that failed, sessions turned away", status.sessions_failed),
        ("strangers_retried", "Handshakes that had to prove their address", status.strangers.retried),
        ("strangers_displaced", "Silent connections that made room for others", status.strangers.displaced),
        ("strangers_expired", "Connections that said nothing in time", status.strangers.expired),
        ("strangers_refused", "Handshakes refused for want of a place", status.strangers.refused),
        ("task_failures", "Tasks of the process that failed", status.task_failures),
    ];
    for (name, help, value) in counters {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        counter(&mut family, &[], value)?;
    }
    Ok(())
}

fn flows(
    encoder: &mut DescriptorEncoder<'_>,
    status: &Status,
    name: &str,
    help: &str,
    value: FlowValue,
) -> Result<(), Error> {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for flow in &status.flows {
        counter(&mut family, &[("flow", flow.name.as_str())], value(flow))?;
    }
    Ok(())
}

fn sent(encoder: &mut DescriptorEncoder<'_>, status: &Status) -> Result<(), Error> {
    let each = |family: &mut MetricEncoder<'_>, bytes: bool| {
        for flow in &status.flows {
            for (class, sent) in &flow.sent {
                for (fate, amount) in &sent.fates {
                    let labels = [("flow", flow.name.as_str()), ("class", class), ("fate", fate)];
                    counter(family, &labels, if bytes { amount.bytes } else { amount.blocks })?;
                }
            }
        }
        Ok(())
    };
    let help = "Frames or single datagrams that were sent, by class and by what became of them";
    each(&mut encoder.encode_descriptor("flow_sent_blocks", help, None, MetricType::Counter)?, false)?;
    let help = "Their bytes";
    each(&mut encoder.encode_descriptor("flow_sent", help, Some(&Unit::Bytes), MetricType::Counter)?, true)
}

fn received(encoder: &mut DescriptorEncoder<'_>, status: &Status) -> Result<(), Error> {
    let each = |family: &mut MetricEncoder<'_>, bytes: bool| {
        for flow in &status.flows {
            for (class, amount) in &flow.received.classes {
                let labels = [("flow", flow.name.as_str()), ("class", class)];
                counter(family, &labels, if bytes { amount.bytes } else { amount.blocks })?;
            }
        }
        Ok(())
    };
    let help = "Frames or single datagrams that came from the other end and left here, by class";
    each(&mut encoder.encode_descriptor("flow_received_blocks", help, None, MetricType::Counter)?, false)?;
    let help = "Their bytes";
    each(
        &mut encoder.encode_descriptor("flow_received", help, Some(&Unit::Bytes), MetricType::Counter)?,
        true,
    )
}

fn latency(encoder: &mut DescriptorEncoder<'_>, status: &Status) -> Result<(), Error> {
    let help = "Of datagrams, from coming in at the other end to going out here";
    let mut family =
        encoder.encode_descriptor("flow_latency", help, Some(&Unit::Seconds), MetricType::Histogram)?;
    for flow in &status.flows {
        let bounds = BUCKETS.iter().map(|bound| *bound as f64 / 1e6).chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(flow.latency.buckets.iter().copied()).collect();
        let labels = [("flow", flow.name.as_str())];
        let sum = flow.latency.sum_us as f64 / 1e6;
        family.encode_family(&labels)?.encode_histogram::<[(&str, &str); 0]>(
            sum,
            flow.latency.count,
            &buckets,
            None,
        )?;
    }
    Ok(())
}

type SessionGauge = (&'static str, &'static str, fn(&CapacityStatus) -> f64);

const SESSION_GAUGES: &[SessionGauge] = &[
    ("session_capacity_bits_per_second", "What it carries at present", |capacity| capacity.now_bps as f64),
    (
        "session_safe_capacity_bits_per_second",
        "What it carries over the next second, nine times in ten",
        |capacity| capacity.safe_bps as f64,
    ),
    ("session_capacity_confidence", "Share of the forecasts that held", |capacity| capacity.confidence),
];

fn sessions(encoder: &mut DescriptorEncoder<'_>, status: &Status) -> Result<(), Error> {
    let agreed = || status.sessions.iter().filter(|session| session.agreed);
    for (name, help, value) in SESSION_GAUGES {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for SessionStatus { id, capacity, .. } in agreed() {
            gauge(&mut family, &[("session", &id.to_string())], value(capacity))?;
        }
    }
    let help = "1, with what keeps it from carrying more";
    let mut family = encoder.encode_descriptor("session_limit", help, None, MetricType::Gauge)?;
    for SessionStatus { id, capacity, .. } in agreed() {
        gauge(&mut family, &[("session", &id.to_string()), ("limit", &capacity.limit)], 1.0)?;
    }
    Ok(())
}

type PathGauge = (&'static str, &'static str, Option<Unit>, fn(&PathStatus) -> f64);

const PATH_GAUGES: &[PathGauge] = &[
    ("path_rtt", "Smoothed round-trip time", Some(Unit::Seconds), |path| path.srtt_us as f64 / 1e6),
    ("path_min_rtt", "Smallest round-trip time", Some(Unit::Seconds), |path| path.min_rtt_us as f64 / 1e6),
    ("path_loss", "Share of packets lost over two seconds", Some(Unit::Ratios), |path| path.loss),
    ("path_in_flight", "Bytes in flight", Some(Unit::Bytes), |path| path.in_flight as f64),
    ("path_window", "Congestion window", Some(Unit::Bytes), |path| path.window as f64),
    ("path_capacity_bits_per_second", "What it carries at present", None, |path| {
        path.capacity.now_bps as f64
    }),
    ("path_active", "Whether it is in use: 0 if it is suspected or out", None, |path| {
        f64::from(u8::from(path.state == "active"))
    }),
    ("path_metered", "Whether its bytes cost money", None, |path| f64::from(u8::from(path.metered))),
];

type PathCounter = (&'static str, &'static str, Option<Unit>, fn(&PathStatus) -> u64);

const PATH_COUNTERS: &[PathCounter] = &[
    ("path_sent", "UDP payload sent", Some(Unit::Bytes), |path| path.sent_bytes),
    ("path_received", "UDP payload received", Some(Unit::Bytes), |path| path.received_bytes),
    ("path_repaired", "Bytes of blocks that were sent again", Some(Unit::Bytes), |path| path.repair_bytes),
    ("path_lost_packets", "Packets with data that were lost", None, |path| path.lost_packets),
    ("path_suspicions", "Times that it fell silent", None, |path| path.suspicions),
];

fn paths(encoder: &mut DescriptorEncoder<'_>, status: &Status) -> Result<(), Error> {
    for (name, help, unit, value) in PATH_GAUGES {
        let mut family = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
        each_path(status, |labels, path| gauge(&mut family, labels, value(path)))?;
    }
    for (name, help, unit, value) in PATH_COUNTERS {
        let mut family = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Counter)?;
        each_path(status, |labels, path| counter(&mut family, labels, value(path)))?;
    }
    Ok(())
}

fn each_path(
    status: &Status,
    mut tell: impl FnMut(&[(&str, &str)], &PathStatus) -> Result<(), Error>,
) -> Result<(), Error> {
    for SessionStatus { id, paths, .. } in &status.sessions {
        let id = id.to_string();
        for path in paths {
            let labels =
                [("session", id.as_str()), ("path", path.name.as_str()), ("remote", path.remote.as_str())];
            tell(&labels, path)?;
        }
    }
    Ok(())
}

fn gauge(family: &mut MetricEncoder<'_>, labels: &[(&str, &str)], value: f64) -> Result<(), Error> {
    ConstGauge::new(value).encode(family.encode_family(&labels)?)
}

fn counter(family: &mut MetricEncoder<'_>, labels: &[(&str, &str)], value: u64) -> Result<(), Error> {
    ConstCounter::new(value).encode(family.encode_family(&labels)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{Amount, LatencyStatus, SentStatus};

    #[test]
    fn metrics_have_names_units_and_an_end() {
        let amount = Amount { blocks: 3, bytes: 3000 };
        let sent = SentStatus { fates: [("delivered".to_owned(), amount)].into() };
        let mut buckets = vec![0; BUCKETS.len() + 1];
        (buckets[0], buckets[BUCKETS.len()]) = (2, 1);
        let flow = FlowStatus {
            name: "cam".into(),
            sent: [("key".to_owned(), sent)].into(),
            latency: LatencyStatus { count: 3, sum_us: 4_000_400, buckets, ..LatencyStatus::default() },
            ..FlowStatus::default()
        };
        let path = PathStatus {
            name: "wwan0".into(),
            remote: "host:1".into(),
            srtt_us: 40_000,
            ..PathStatus::default()
        };
        let capacity =
            CapacityStatus { safe_bps: 8_000_000, limit: "network".into(), ..CapacityStatus::default() };
        let session =
            SessionStatus { id: 7, agreed: true, paths: vec![path], capacity, ..SessionStatus::default() };
        let text = text(Status { flows: vec![flow], sessions: vec![session], ..Status::default() });
        for line in [
            "squall_tunnel_sessions{} 1.0",
            "squall_tunnel_flow_sent_blocks_total{flow=\"cam\",class=\"key\",fate=\"delivered\"} 3",
            "squall_tunnel_flow_sent_bytes_total{flow=\"cam\",class=\"key\",fate=\"delivered\"} 3000",
            "squall_tunnel_flow_latency_seconds_bucket{le=\"0.0005\",flow=\"cam\"} 2",
            "squall_tunnel_flow_latency_seconds_bucket{le=\"+Inf\",flow=\"cam\"} 3",
            "squall_tunnel_flow_latency_seconds_count{flow=\"cam\"} 3",
            "squall_tunnel_path_rtt_seconds{session=\"7\",path=\"wwan0\",remote=\"host:1\"} 0.04",
            "# UNIT squall_tunnel_path_rtt_seconds seconds",
            "squall_tunnel_session_safe_capacity_bits_per_second{session=\"7\"} 8000000.0",
            "squall_tunnel_session_limit{session=\"7\",limit=\"network\"} 1.0",
            "squall_tunnel_path_capacity_bits_per_second{session=\"7\",path=\"wwan0\",remote=\"host:1\"} 0.0",
        ] {
            assert!(text.lines().any(|one| one == line), "no {line} in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }
}
