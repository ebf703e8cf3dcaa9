//! What is measured while a side plays, shared by its tasks and the screen.

use std::time::{Duration, Instant};

use squall::{BlockFate, PathInfo, signal::AlertKind};
use squall_lab::{
    Direction, Offer, Recorder, RunResult,
    result::{LostReason, PathState},
};
use squall_media::{EncodedFrame, LiveMeter, LiveReading, Player};

use super::{
    path::{LinkNow, Path, PathNow},
    plan::Plan,
};

/// Time between two points of the drawings on the screen, as that between two samples of the record.
pub(super) const SAMPLE: Duration = Duration::from_micros(squall_lab::result::SAMPLE_INTERVAL_US);

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
    /// An empty record of a side that begins to play at `begin`, and that `heeds` its radios or not.
    pub(super) fn new(plan: &Plan, scheduler: &str, heeds: bool, begin: Instant) -> anyhow::Result<Self> {
        let mut info = plan.scenario.run_info(scheduler, plan.seed);
        for flow in &mut info.flows {
            (flow.classes, flow.picture_us) = (plan.classes(), None);
        }
        let paths = info.paths.iter().map(|path| Path::new(&path.name, heeds)).collect();
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
    pub(super) fn on_captured(&mut self, plan: &Plan, frame: &EncodedFrame, bytes: u64) {
        let captured_us = plan.captured_us(frame.index);
        let (priority, reliable) = plan.class(frame.kind);
        let offer = Offer {
            at_us: captured_us,
            size: bytes,
            deadline_us: plan.video.deadline.map(squall_units::Span::micros),
            priority,
            reliable,
            class: Plan::class_of(frame.kind),
            // The player sees for itself what it can show.
            frame: None,
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
                self.recorder.on_waited(0, frame, waited.as_micros() as u64);
                return;
            }
            BlockFate::Expired { .. } => LostReason::Expired,
            BlockFate::Lost { .. } | BlockFate::Cancelled { .. } => LostReason::Cancelled,
            BlockFate::Refused(_) => LostReason::Refused,
            _ => LostReason::Closed,
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

    /// The sender heard of the radio of a path.
    pub(super) fn on_alert(&mut self, path: usize, at: Instant, kind: AlertKind) {
        self.recorder.on_alert(path, self.micros(at), kind.into());
        self.paths[path].now.signal = Some(kind.state());
    }

    /// Takes the counters of both ends and the state of the links, each with the path of the scenario it
    /// belongs to. `at` is after the first frame for all that is to be in the result.
    pub(super) fn on_sample(
        &mut self,
        at: Instant,
        links: &[LinkNow],
        sending: &[(usize, PathInfo)],
        receiving: &[(usize, PathInfo)],
    ) {
        for (path, info) in sending {
            self.paths[*path].sending.insert(info.stats.number, info.stats.clone());
        }
        for (path, info) in receiving {
            self.paths[*path].receiving.insert(info.stats.number, info.stats.clone());
        }
        let client = match self.direction {
            Direction::Down => receiving,
            Direction::Up => sending,
        };
        for (index, link) in links.iter().enumerate() {
            let newest = newest_of(sending, index);
            let quality = newest_of(client, index).and_then(|info| info.stats.signal_quality);
            self.paths[index].on_sample(at, link, self.direction, newest, quality);
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

/// The path of the scenario with this number as an end of the session knows it; the newest, if it was reopened.
fn newest_of(infos: &[(usize, PathInfo)], index: usize) -> Option<&PathInfo> {
    infos.iter().rfind(|(path, _)| *path == index).map(|(_, info)| info)
}
