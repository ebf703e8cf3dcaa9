//! Synthetic run over two fading links, for the tests of tables, reports and checks.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use squall_proto::PredictionStats;
use squall_units::{Rate, Ratio, Span};

use super::{
    AlertWord, FlowResult, Interval, LostReason, PathAlert, PathResult, PathSample, PathState, PathTotals,
    Recorder, RunResult,
};
use super::{flow_recorder::FlowRecorder, path_recorder::PathRecorder};
use crate::flow::{Direction, Flow};
use crate::offer::Class;
use crate::traffic::{Generator, References, ReliableFrames, Traffic, Video};

const DURATION_US: u64 = 20_000_000;
const OUTAGES: [&[Interval]; 2] = [
    &[Interval { from_us: 5_000_000, to_us: 8_000_000 }],
    &[Interval { from_us: 12_000_000, to_us: 14_500_000 }],
];

/// Behaviour of a scheduler in an outage: extra latency in microseconds and share of dropped
/// frames.
fn trouble(scheduler: &str) -> (u64, f64) {
    match scheduler {
        "minrtt" => (900_000, 0.35),
        "rr(weighted=true)" => (1_500_000, 0.5),
        "redundant" => (6_000, 0.0),
        "storm(alpha=0.5)" => (45_000, 0.0),
        "dams" => (80_000, 0.08),
        _ => (250_000, 0.1),
    }
}

/// Creates a run of this scheduler; deterministic.
pub fn run(scheduler: &str, seed: u64) -> RunResult {
    let mut rng = Pcg64Mcg::seed_from_u64(seed + scheduler.len() as u64);
    let mut recorder = Recorder::new(unmeasured(scheduler, seed));
    record_frames(&mut recorder.flows[0], scheduler, seed, &mut rng);
    for path in 0..2 {
        record_path(&mut recorder.paths[path], path, scheduler, &mut rng);
    }
    let mut run = recorder.finish(DURATION_US);
    run.extra.insert("stalls".into(), (trouble(scheduler).0 as f64 / 300_000.0).into());
    let in_time = run.flows[0].completion_rate.expect("frames were due");
    run.checks = vec![super::Verdict {
        check: "flow camera: in_time_ratio".into(),
        measured: format!("{:.3} %", in_time * 100.0),
        limit: "at least 95.000 %".into(),
        pass: in_time >= 0.95,
    }];
    run
}

fn unmeasured(scheduler: &str, seed: u64) -> RunResult {
    let path = |index: usize, name: &str| PathResult {
        name: name.into(),
        metered: index == 1,
        outages: OUTAGES[index].to_vec(),
        ..PathResult::default()
    };
    RunResult {
        scenario: "fading".into(),
        scheduler: scheduler.into(),
        congestion: "cubic".into(),
        seed,
        duration_us: DURATION_US,
        direction: Direction::Down,
        flows: vec![FlowResult {
            name: "camera".into(),
            kind: "video".into(),
            direction: Direction::Down,
            deadline_us: Some(100_000),
            classes: vec![Class::new("key", true, 0).into(), Class::new("delta", false, 1).into()],
            picture_us: Some(33_333),
            ..FlowResult::default()
        }],
        paths: vec![path(0, "Wi-Fi <5 GHz>"), path(1, "LTE")],
        ..RunResult::default()
    }
}

fn record_frames(recorder: &mut FlowRecorder, scheduler: &str, seed: u64, rng: &mut Pcg64Mcg) {
    let video = Video {
        fps: 30,
        bitrate: Rate::from_bps(20_000_000),
        keyframe_interval: Span::from_millis(2_000),
        key_ratio: 4.0,
        jitter: Ratio::from_billionths(200_000_000),
        deadline: Some(Span::from_millis(100)),
        priority_key: 0,
        priority_delta: 1,
        reliable: ReliableFrames::Key,
        references: References::Previous,
    };
    let flow = Flow::new("camera", Direction::Down, DURATION_US, Traffic::Video(video));
    let (extra_us, dropped) = trouble(scheduler);
    let mut deliveries = Vec::new();
    for (block, offer) in (0u64..).zip(Generator::new(&flow, 0, seed)) {
        recorder.on_offer(block, &offer);
        recorder.on_waited(block, offer.size / 10);
        let since = OUTAGES.iter().flat_map(|list| list.iter()).find_map(|outage| {
            let inside = (outage.from_us..outage.from_us + 1_200_000).contains(&offer.at_us);
            inside.then(|| offer.at_us - outage.from_us)
        });
        let late = since.map_or(0, |since| extra_us.saturating_sub(since * extra_us / 1_200_000));
        let latency = 22_000 + rng.random_range(0..9_000) + offer.size / 12 + late;
        if since.is_some() && !offer.reliable && rng.random_bool(dropped) {
            recorder.on_lost(block, LostReason::Expired);
        } else {
            deliveries.push((offer.at_us + latency, block));
        }
    }
    deliveries.sort_unstable();
    for (at_us, block) in deliveries.into_iter().filter(|(at_us, _)| *at_us < DURATION_US) {
        recorder.on_delivered(block, at_us);
    }
}

fn record_path(recorder: &mut PathRecorder, path: usize, scheduler: &str, rng: &mut Pcg64Mcg) {
    let mut delivered = 0;
    let rates = [40_000_000u64, 25_000_000];
    let signal = scheduler.starts_with("storm");
    for step in 0..=200u64 {
        let at_us = step * 100_000;
        let outage = OUTAGES[path].iter().find(|outage| (outage.from_us..outage.to_us).contains(&at_us));
        let fade = 3 + (step / 7 + path as u64 * 3) % 5;
        let link_bps = if outage.is_some() { 0 } else { rates[path] * fade / 7 };
        let used = if path == 0 || scheduler == "redundant" { 60 } else { 35 };
        delivered += link_bps / 80 * used / 100 * rng.random_range(80..100) / 100;
        let state = match outage {
            Some(outage) if at_us > outage.from_us + 800_000 => PathState::Down,
            Some(outage) if at_us > outage.from_us + 100_000 => PathState::Suspect,
            _ => PathState::Active,
        };
        let near = OUTAGES[path].iter().any(|o| (o.from_us - 500_000..o.to_us).contains(&at_us));
        let quality = if near { 100 } else { 250 + (fade as u16) * 100 };
        let srtt_us = 30_000 + path as u64 * 40_000 + rng.random_range(0..8_000);
        recorder.on_rtt(srtt_us);
        recorder.on_sample(
            at_us,
            &PathSample {
                delivered_down: delivered,
                delivered_up: 0,
                srtt_us,
                in_flight: 60_000,
                window: 90_000,
                queue: 12_000,
                link_bps: Some(link_bps),
                state,
                quality: signal.then_some(quality),
                factor: if signal && quality < 320 { quality * 25 / 8 } else { 1_000 },
                signal_bias: None,
            },
        );
    }
    if signal {
        for outage in OUTAGES[path] {
            recorder.result.alerts.extend([
                PathAlert { at_us: outage.from_us - 600_000, kind: AlertWord::Warning },
                PathAlert { at_us: outage.from_us - 300_000, kind: AlertWord::Outage },
                PathAlert { at_us: outage.to_us + 400_000, kind: AlertWord::Recovery },
            ]);
        }
    }
    recorder.result.totals = PathTotals {
        wire_bytes_down: delivered + delivered / 20,
        wire_bytes_up: delivered / 60,
        packets: delivered / 1_200,
        lost_packets: delivered / 120_000,
        retransmitted_bytes: delivered / 90,
        reinjected_bytes: delivered / 200,
        parity_bytes: 0,
        predictions: PredictionStats::default(),
        duplicate_bytes: if scheduler == "redundant" { delivered / 2 } else { delivered / 300 },
    };
}
