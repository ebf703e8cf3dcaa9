//! Records the events of a run, virtual or live.

use super::RunResult;
use super::distribution::Times;
use super::flow_recorder::FlowRecorder;
use super::path_recorder::PathRecorder;

/// Collects events and creates a [`RunResult`] from them. Times are microseconds from the start of
/// the run.
#[derive(Debug)]
pub(crate) struct Recorder {
    run: RunResult,
    /// One per flow, in the order of the scenario.
    pub(crate) flows: Vec<FlowRecorder>,
    /// One per path, in the order of the scenario.
    pub(crate) paths: Vec<PathRecorder>,
}

impl Recorder {
    /// Starts a record. `run` lists flows, classes and paths without measurements; its length is
    /// the planned one.
    pub(crate) fn new(mut run: RunResult) -> Self {
        let flows = std::mem::take(&mut run.flows).into_iter();
        let flows = flows.map(|flow| FlowRecorder::new(flow, run.duration_us)).collect();
        let paths = std::mem::take(&mut run.paths).into_iter().map(PathRecorder::new).collect();
        Self { run, flows, paths }
    }

    /// Ends the run at `at_us`.
    pub(crate) fn finish(self, at_us: u64) -> RunResult {
        let packet_delay = Times::merged(self.flows.iter().map(|flow| &flow.packet_delay)).percentiles();
        let transit = Times::merged(self.flows.iter().map(|flow| &flow.transit)).percentiles();
        RunResult {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            duration_us: at_us,
            packet_delay,
            transit,
            flows: self.flows.into_iter().map(|flow| flow.finish(at_us)).collect(),
            paths: self.paths.into_iter().map(|path| path.finish(at_us)).collect(),
            ..self.run
        }
    }
}
