//! Sizes of the frames of a run, and their clairvoyant bound.

use std::time::Duration;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use squall_lab::{
    Flow, Generator, Scenario, Traffic,
    bound::{Bound, Demand, Supply},
    traffic::Video,
};
use squall_net::Direction;
use squall_units::{Rate, Span};
use squall_versus_stream::{PACKET, Stream};

/// Returns the video of a scenario, if it contains one: its frames, key frames included, replace
/// frames of one size.
pub fn video(scenario: &Scenario) -> Option<&Video> {
    scenario.flows.iter().find_map(|flow| match &flow.traffic {
        Traffic::Video(video) => Some(video),
        _ => None,
    })
}

/// Returns the deadline of a frame: that of the scenario's video, or else 300 ms, the longer of the
/// times within which frames are counted.
pub(crate) fn latency(scenario: &Scenario) -> Duration {
    let deadline = video(scenario).and_then(|video| video.deadline);
    Duration::from_micros(deadline.map_or(300_000, Span::micros))
}

/// Returns the number of packets of each frame that a source sends within `time`. For a video,
/// these are the frames that `squall-lab run` sends with this seed, at the rate of the stream.
pub(crate) fn packets(scenario: &Scenario, stream: Stream, time: Duration, seed: u64) -> Vec<u16> {
    let frames = (time.as_micros() as u64 / stream.interval_us()) as usize;
    let Some(video) = video(scenario) else { return vec![stream.packets(); frames] };
    let video = Video { bitrate: Rate::from_bps(stream.rate_bps), ..video.clone() };
    let flow =
        Flow { start_us: 0, end_us: u64::MAX, traffic: Traffic::Video(video), ..scenario.flows[0].clone() };
    let sizes = Generator::new(&flow, 0, seed).map(|offer| offer.size.div_ceil(PACKET as u64));
    sizes.map(|packets| u16::try_from(packets).unwrap_or(u16::MAX)).take(frames).collect()
}

/// Result of a sender with full knowledge of the future of links and frames: see `docs/bound.md`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// Lowest latencies in microseconds of 50, 95, 99 and 99.9 % of the frames.
    pub latency_us: [Option<u64>; 4],
    /// Largest share of frames that can be complete within 150 ms.
    pub in_150_ms: f64,
    /// Largest share of frames that can be complete within 300 ms.
    pub in_300_ms: f64,
}

impl Best {
    /// Computes the bound for frames with these numbers of packets; the first is sent `start` after
    /// the links began.
    pub(crate) fn of(
        scenario: &Scenario,
        seed: u64,
        start: Duration,
        stream: Stream,
        packets: &[u16],
    ) -> anyhow::Result<Self> {
        let supply = Supply::of(&scenario.paths, seed, scenario.duration_us, Direction::Up)?;
        let within = |deadline_us: u64| {
            let demand = |(number, packets): (u64, &u16)| Demand {
                release_us: start.as_micros() as u64 + number * stream.interval_us(),
                size: u64::from(*packets) * PACKET as u64,
                deadline_us: Some(deadline_us),
                priority: 0,
                needs: [None; 2],
            };
            let demands: Vec<Demand> = (0..).zip(packets).map(demand).collect();
            Bound::of(&supply, &demands).total
        };
        let (soon, later) = (within(150_000), within(300_000));
        let latency = soon.latency.context("no frame can arrive before the scenario ends")?;
        let share = |limit: squall_lab::bound::Limit| limit.in_time_ratio().unwrap_or_default();
        Ok(Self {
            latency_us: [latency.p50_us, latency.p95_us, latency.p99_us, latency.p999_us].map(Some),
            in_150_ms: share(soon),
            in_300_ms: share(later),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIO: &str = r#"
        name = "calm"
        duration = "20s"
        schedulers = ["minrtt"]
        path = [
            { name = "wifi", rate = "20mbps", delay = "20ms" },
            { name = "lte", rate = "20mbps", delay = "40ms" },
        ]
        [[flow]]
        name = "frames"
        kind = "video"
        fps = 30
        bitrate = "30mbps"
        key_ratio = 4.0
    "#;

    fn scenario(text: &str) -> Scenario {
        Scenario::parse(text, "calm.toml").expect("is right")
    }

    const STREAM: Stream = Stream { rate_bps: 8_000_000, fps: 30 };

    #[test]
    fn a_video_has_key_frames_and_the_rate_of_the_stream() {
        let packets = packets(&scenario(SCENARIO), STREAM, Duration::from_secs(4), 1);
        assert_eq!(packets.len(), 120);
        let (key, delta) = (packets[0], packets[1]);
        assert!(packets[60] == key && key.abs_diff(4 * delta) <= 4, "{key} and {delta}");
        let bits: u64 = packets.iter().map(|packets| u64::from(*packets) * PACKET as u64 * 8).sum();
        assert!(
            bits.abs_diff(4 * 8_000_000) < 120 * PACKET as u64 * 8,
            "a packet a frame more at most: {bits}"
        );
    }

    #[test]
    fn frames_have_the_deadline_of_the_video() {
        let within = |text: &str| latency(&scenario(text)).as_millis();
        assert_eq!(within(&SCENARIO.replace("fps = 30", "fps = 30\ndeadline = \"80ms\"")), 80);
        assert_eq!(within(SCENARIO), 300);
    }

    #[test]
    fn without_a_video_all_frames_are_alike() {
        let text = SCENARIO.replace("video", "bulk");
        let text = text.split("fps").next().expect("a head");
        assert_eq!(packets(&scenario(text), STREAM, Duration::from_secs(1), 1), [STREAM.packets(); 30]);
    }

    #[test]
    fn the_best_that_can_be_had_of_two_links() {
        let stream = Stream { rate_bps: 30_000_000, fps: 30 };
        let scenario = scenario(SCENARIO);
        let packets = packets(&scenario, stream, Duration::from_secs(10), 1);
        let best = Best::of(&scenario, 1, Duration::from_secs(3), stream, &packets).expect("can arrive");
        assert_eq!((best.in_150_ms, best.in_300_ms), (1.0, 1.0));
        // 119 kB over both links take 33 ms plus the shorter delay, or a little more.
        let [p50, _, p99, _] = best.latency_us;
        assert!(p50.is_some_and(|p50| (50_000..62_000).contains(&p50)), "{best:?}");
        assert!(p99.is_some_and(|p99| (110_000..140_000).contains(&p99)), "{best:?}");
    }
}
