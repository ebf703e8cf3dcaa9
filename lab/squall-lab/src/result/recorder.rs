//! Collects what happens in a run, virtual or live.

use std::collections::BTreeMap;

use super::distribution::Times;
use super::flow_recorder::FlowRecorder;
use super::inputs::{PathSample, PathTotals, RunInfo};
use super::path_recorder::PathRecorder;
use super::{
    AlertWord, Extra, LatencyPoint, LostReason, PathAlert, PathSeries, PathState, PictureQuality, Playback,
    RunResult, Tally,
};
use crate::offer::Offer;

/// Collects events and makes a [`RunResult`] of them. Times are microseconds from the start of the run.
///
/// Flows and paths are named by their index in [`RunInfo`]; the methods panic on one that isn't there.
#[derive(Debug)]
pub struct Recorder {
    info: RunInfo,
    flows: Vec<FlowRecorder>,
    paths: Vec<PathRecorder>,
    extra: BTreeMap<String, Extra>,
}

impl Recorder {
    /// A recorder with nothing in it.
    pub fn new(info: RunInfo) -> Self {
        let flows = info.flows.iter().map(|flow| FlowRecorder::new(flow, info.duration_us)).collect();
        let paths = info.paths.iter().map(|path| PathRecorder::new(path.outages.clone())).collect();
        Self { info, flows, paths, extra: BTreeMap::new() }
    }

    /// The application hands over a block, named by any number that is unique in its flow.
    pub fn on_offer(&mut self, flow: usize, block: u64, offer: &Offer) {
        self.flows[flow].on_offer(block, offer);
    }

    /// The last byte of a block left for the first time.
    pub fn on_sent(&mut self, flow: usize, block: u64, at_us: u64) {
        self.flows[flow].on_sent(block, at_us);
    }

    /// The sender reports, when a block has ended, how long it waited until its last byte left for the first
    /// time: instead of [`Self::on_sent`].
    pub fn on_waited(&mut self, flow: usize, block: u64, waited_us: u64) {
        self.flows[flow].on_waited(block, waited_us);
    }

    /// A packet with `bytes` new bytes of a block arrived over a path.
    pub fn on_packet(&mut self, flow: usize, block: u64, at_us: u64, path: usize, bytes: u32) {
        self.flows[flow].on_packet(block, at_us, path, bytes);
    }

    /// How a player of its own fared that the flow was for, instead of the one that pictures are shown to.
    pub fn set_playback(&mut self, flow: usize, playback: Playback) {
        self.flows[flow].set_playback(playback);
    }

    /// How much of a 360° video its viewer saw; see [`FlowResult::perceived_ratio`](super::FlowResult::perceived_ratio).
    pub fn set_perceived_ratio(&mut self, flow: usize, ratio: f64) {
        self.flows[flow].set_perceived_ratio(ratio);
    }

    /// How good the pictures were that the viewer of a flow saw.
    pub fn set_pictures(&mut self, flow: usize, pictures: PictureQuality) {
        self.flows[flow].set_pictures(pictures);
    }

    /// When each block of a flow arrived whole; see [`FlowResult::arrivals_us`](super::FlowResult::arrivals_us).
    pub fn set_arrivals(&mut self, flow: usize, arrivals_us: Vec<Option<u64>>) {
        self.flows[flow].set_arrivals(arrivals_us);
    }

    /// The receiver's application has the whole block. Overrules an earlier loss: the sender may have
    /// cancelled what arrived after all.
    pub fn on_delivered(&mut self, flow: usize, block: u64, at_us: u64) {
        self.flows[flow].on_delivered(block, at_us);
    }

    /// The block will not be delivered. Ignored for one that was: the acknowledgement came too late.
    pub fn on_lost(&mut self, flow: usize, block: u64, why: LostReason) {
        self.flows[flow].on_lost(block, why);
    }

    /// A path now, every [`SAMPLE_INTERVAL_US`](super::SAMPLE_INTERVAL_US).
    pub fn on_sample(&mut self, path: usize, at_us: u64, sample: PathSample) {
        self.paths[path].on_sample(at_us, &sample);
    }

    /// A path changes state between two samples.
    pub fn on_state(&mut self, path: usize, at_us: u64, state: PathState) {
        self.paths[path].on_state(at_us, state);
    }

    /// A radio at one of the path's ends reported to the sending end.
    pub fn on_alert(&mut self, path: usize, at_us: u64, kind: AlertWord) {
        self.paths[path].on_alert(PathAlert { at_us, kind });
    }

    /// One measurement of a path's round-trip time.
    pub fn on_rtt(&mut self, path: usize, rtt_us: u64) {
        self.paths[path].on_rtt(rtt_us);
    }

    /// The totals of a path so far; the last call counts.
    pub fn set_totals(&mut self, path: usize, totals: PathTotals) {
        self.paths[path].set_totals(totals);
    }

    /// A measure from elsewhere, such as the stalls of a media player.
    pub fn set_extra(&mut self, name: &str, value: impl Into<Extra>) {
        self.extra.insert(name.to_owned(), value.into());
    }

    /// What became of a flow's blocks so far; undecided ones are only in `offered`.
    pub fn tally(&self, flow: usize) -> Tally {
        self.flows[flow].total()
    }

    /// The latencies of a flow's blocks so far, as in [`FlowResult::latencies`](super::FlowResult::latencies).
    pub fn latencies(&self, flow: usize) -> Vec<LatencyPoint> {
        self.flows[flow].latencies()
    }

    /// The samples of a path so far, and its state, if there is one.
    pub fn path(&self, path: usize) -> (&PathSeries, Option<PathState>) {
        self.paths[path].so_far()
    }

    /// Ends the run at `at_us`.
    pub fn finish(self, at_us: u64) -> RunResult {
        let Self { info, flows, paths, extra } = self;
        let packet_delay = Times::merged(flows.iter().map(FlowRecorder::packet_delay)).percentiles();
        RunResult {
            scenario: info.scenario,
            scheduler: info.scheduler,
            congestion: info.congestion,
            seed: info.seed,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            duration_us: at_us,
            direction: info.direction,
            packet_delay,
            flows: flows.into_iter().zip(info.flows).map(|(flow, info)| flow.finish(info, at_us)).collect(),
            paths: paths
                .into_iter()
                .zip(info.paths)
                .map(|(path, info)| path.finish(info.name, info.metered, at_us))
                .collect(),
            scheduling_ns: None,
            bounds: Vec::new(),
            checks: Vec::new(),
            extra,
        }
    }
}
