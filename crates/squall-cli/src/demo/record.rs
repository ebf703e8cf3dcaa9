//! What is measured while a side plays, shared by its tasks and the screen.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use squall::{BlockFate, PathInfo};
use squall_lab::{
    Direction, Offer, Recorder, RunResult,
    result::{LostReason, PathSample, PathState, PathTotals},
};
use squall_media::{EncodedFrame, FrameKind, LiveMeter, LiveReading, Player};
use squall_net::{LinkState, relay::PathSnapshot};

use super::plan::Plan;

/// Time between two points of the drawings on the screen, as that between two samples of the record.
pub(super) const SAMPLE: Duration = Duration::from_micros(squall_lab::result::SAMPLE_INTERVAL_US);

/// Samples over which a rate on the screen is the mean.
const RATE_SAMPLES: usize = 5;

/// All that is known of one side.
pub(super) struct Record {
    begin: Instant,
    direction: Direction,
    recorder: Recorder,
    player: Player,
    meter: LiveMeter,
    /// Worst latency of the frames of each sample interval, in microseconds; `None` when none came.
    history: Vec<Option<u64>>,
    worst_since: Option<u64>,
    paths: Vec<Path>,
    /// Frames given up, for the screen.
    given_up: u64,
}

/// What is kept of a path between two samples.
struct Path {
    now: PathNow,
    /// Bytes that came out of the link in the direction of the video, latest last.
    delivered: Vec<(Instant, u64)>,
    /// Last counters of the sending and of the receiving end, by the path's number: a path that is gone is
    /// not told of any more.
    sending: BTreeMap<u32, squall::PathStats>,
    receiving: BTreeMap<u32, squall::PathStats>,
}

/// A path as the screen shows it.
#[derive(Clone)]
pub(super) struct PathNow {
    pub(super) name: String,
    pub(super) state: PathState,
    pub(super) srtt_us: u64,
    /// What comes out of the link, in bits per second.
    pub(super) rate_bps: u64,
    /// The same at all samples so far.
    pub(super) rates: Vec<u64>,
    /// The link in the direction of the video, as the script has it now.
    pub(super) link: LinkState,
}

/// One side as the screen shows it.
pub(super) struct Reading {
    /// The last second.
    pub(super) frames: LiveReading,
    /// 95th percentile of the latencies of the last second, in microseconds.
    pub(super) p95_us: Option<u64>,
    /// See [`Record`].
    pub(super) history: Vec<Option<u64>>,
    pub(super) paths: Vec<PathNow>,
    /// Frames that the sender gave up.
    pub(super) given_up: u64,
}

impl Record {
    /// An empty record of a side that begins to play at `begin`.
    pub(super) fn new(plan: &Plan, scheduler: &str, begin: Instant) -> anyhow::Result<Self> {
        let info = plan.scenario.run_info(scheduler, plan.seed);
        let paths = info.paths.iter().map(|path| Path::new(&path.name)).collect();
        Ok(Self {
            begin,
            direction: plan.direction(),
            recorder: Recorder::new(info),
            player: Player::new(plan.player())?,
            meter: LiveMeter::new(plan.due_us()),
            history: Vec::new(),
            worst_since: None,
            paths,
            given_up: 0,
        })
    }

    /// Microseconds since the first frame; 0 before it.
    pub(super) fn micros(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.begin).as_micros() as u64
    }

    /// A frame was captured and handed over.
    pub(super) fn on_captured(&mut self, plan: &Plan, frame: &EncodedFrame, bytes: u64, reliable: bool) {
        let key = frame.kind == FrameKind::Key;
        let captured_us = plan.captured_us(frame.index);
        let priority = if key { plan.video.priority_key } else { plan.video.priority_delta };
        let offer = Offer {
            at_us: captured_us,
            size: bytes,
            deadline_us: plan.video.deadline_us,
            priority,
            reliable,
            key,
            channel: 0,
            ordered: false,
        };
        self.recorder.on_offer(0, frame.index, &offer);
        self.player.on_sent(frame.index, captured_us, frame.kind);
    }

    /// A frame arrived whole.
    pub(super) fn on_arrived(&mut self, at: Instant, captured_us: u64, frame: EncodedFrame) {
        let at_us = self.micros(at);
        self.recorder.on_delivered(0, frame.index, at_us);
        self.meter.on_frame(at_us, captured_us);
        self.worst_since = self.worst_since.max(Some(at_us.saturating_sub(captured_us)));
        self.player.on_frame(at_us, captured_us, frame);
    }

    /// The sender knows what became of a frame.
    pub(super) fn on_fate(&mut self, frame: u64, fate: &BlockFate) {
        let why = match fate {
            BlockFate::Delivered { waited, .. } => {
                self.recorder.on_waited(0, waited.as_micros() as u64);
                return;
            }
            BlockFate::Expired { .. } => LostReason::Expired,
            BlockFate::Lost { .. } | BlockFate::Cancelled { .. } => LostReason::Cancelled,
            BlockFate::Refused(_) => LostReason::Refused,
            BlockFate::SessionClosed => LostReason::Closed,
        };
        self.on_lost(frame, why);
    }

    /// A frame will not arrive.
    pub(super) fn on_lost(&mut self, frame: u64, why: LostReason) {
        self.given_up += 1;
        self.recorder.on_lost(0, frame, why);
    }

    /// The sender sees a path differently from now on.
    pub(super) fn on_state(&mut self, path: usize, at: Instant, state: PathState) {
        self.recorder.on_state(path, self.micros(at), state);
        self.paths[path].now.state = state;
    }

    /// Takes the counters of both ends and the state of the links, each with the path of the scenario it
    /// belongs to. `at` is after the first frame for all that is to be in the result.
    pub(super) fn on_sample(
        &mut self,
        at: Instant,
        links: &[PathSnapshot],
        sending: &[(usize, PathInfo)],
        receiving: &[(usize, PathInfo)],
    ) {
        for (path, info) in sending {
            self.paths[*path].sending.insert(info.stats.number, info.stats.clone());
        }
        for (path, info) in receiving {
            self.paths[*path].receiving.insert(info.stats.number, info.stats.clone());
        }
        for (index, link) in links.iter().enumerate() {
            let newest = sending.iter().rfind(|(path, _)| *path == index).map(|(_, info)| info);
            self.paths[index].on_sample(at, link, self.direction, newest);
            if at > self.begin {
                let rate_bps = self.paths[index].now.rate_bps;
                self.paths[index].now.rates.push(rate_bps);
                let sample = self.paths[index].sample(self.direction, newest);
                let at_us = self.micros(at);
                self.recorder.on_sample(index, at_us, sample);
                if newest.is_some() {
                    self.recorder.on_rtt(index, sample.srtt_us);
                }
            }
        }
        if at > self.begin {
            self.history.push(self.worst_since.take());
        }
    }

    /// What the screen shows now.
    pub(super) fn reading(&mut self, at: Instant) -> Reading {
        let frames = self.meter.reading(self.micros(at));
        let mut latencies: Vec<u64> = self.meter.latencies_us().collect();
        latencies.sort_unstable();
        let p95_us = latencies.get((latencies.len() * 95).div_ceil(100).saturating_sub(1)).copied();
        let paths = self.paths.iter().map(|path| path.now.clone()).collect();
        Reading { frames, p95_us, history: self.history.clone(), paths, given_up: self.given_up }
    }

    /// Ends the record.
    pub(super) fn finish(mut self, ended_us: u64) -> (RunResult, Player) {
        for (index, path) in self.paths.iter().enumerate() {
            self.recorder.set_totals(index, path.totals(self.direction));
        }
        (self.recorder.finish(ended_us), self.player)
    }
}

impl Path {
    fn new(name: &str) -> Self {
        let link =
            LinkState { rate: None, delay: 0, queue_bytes: 0, queue_packets: 0, flying: 0, outage: false };
        let now = PathNow {
            name: name.to_owned(),
            state: PathState::Opening,
            srtt_us: 0,
            rate_bps: 0,
            rates: Vec::new(),
            link,
        };
        Self { now, delivered: Vec::new(), sending: BTreeMap::new(), receiving: BTreeMap::new() }
    }

    fn on_sample(
        &mut self,
        at: Instant,
        link: &PathSnapshot,
        direction: Direction,
        sending: Option<&PathInfo>,
    ) {
        let (state, stats) = match direction {
            Direction::Down => (&link.down, &link.down_stats),
            Direction::Up => (&link.up, &link.up_stats),
        };
        self.now.link = *state;
        self.delivered.push((at, stats.delivered.bytes));
        if self.delivered.len() > RATE_SAMPLES {
            self.delivered.remove(0);
        }
        let (first, last) = (self.delivered[0], (at, stats.delivered.bytes));
        let over = (last.0 - first.0).as_secs_f64();
        let bits = (last.1 - first.1) as f64 * 8.0;
        self.now.rate_bps = if over > 0.0 { (bits / over) as u64 } else { 0 };
        if let Some(info) = sending {
            self.now.srtt_us = info.stats.srtt_us;
            self.now.state = state_of(info.stats.state);
        }
    }

    fn sample(&self, direction: Direction, sending: Option<&PathInfo>) -> PathSample {
        let new = |stats: &squall::PathStats| stats.data_received - stats.duplicate_bytes;
        let received: u64 = self.receiving.values().map(new).sum();
        let (down, up) = match direction {
            Direction::Down => (received, 0),
            Direction::Up => (0, received),
        };
        PathSample {
            delivered_down: down,
            delivered_up: up,
            srtt_us: sending.map_or(0, |info| info.stats.srtt_us),
            in_flight: sending.map_or(0, |info| info.stats.in_flight),
            window: sending.map_or(0, |info| info.stats.window),
            queue: self.now.link.queue_bytes,
            link_bps: if self.now.link.outage { Some(0) } else { self.now.link.rate },
            state: match sending {
                Some(info) => state_of(info.stats.state),
                None if self.sending.is_empty() => PathState::Opening,
                None => PathState::Closed,
            },
        }
    }

    fn totals(&self, direction: Direction) -> PathTotals {
        let both = || self.sending.values().chain(self.receiving.values());
        let sum = |ends: &BTreeMap<u32, squall::PathStats>| ends.values().map(|s| s.sent_bytes).sum();
        let (media, answers) = (sum(&self.sending), sum(&self.receiving));
        let (down, up) = match direction {
            Direction::Down => (media, answers),
            Direction::Up => (answers, media),
        };
        PathTotals {
            wire_bytes_down: down,
            wire_bytes_up: up,
            packets: both().map(|stats| stats.sent_packets).sum(),
            lost_packets: both().map(|stats| stats.lost_packets).sum(),
            retransmitted_bytes: both().map(|stats| stats.repair_bytes).sum(),
            reinjected_bytes: both().map(|stats| stats.copy_bytes).sum(),
            duplicate_bytes: both().map(|stats| stats.duplicate_bytes).sum(),
        }
    }
}

fn state_of(name: &str) -> PathState {
    match name {
        "active" => PathState::Active,
        "suspect" => PathState::Suspect,
        _ => PathState::Deactivated,
    }
}
