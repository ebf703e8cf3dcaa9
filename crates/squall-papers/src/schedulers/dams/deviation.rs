//! The standard deviation of each path's RTT over the past period of time (§III-D).

use std::collections::VecDeque;

use crate::latency::Moments;
use squall_sched::{Context, MAX_PATHS, PathId, SchedEvent, Span, Time};

/// Maximum number of measurements of a path; measurements in faster succession are skipped.
const SAMPLES: u64 = 1_000;

/// The round trips of every path within a window of time.
#[derive(Clone, Debug)]
pub(super) struct Deviations {
    window: Span,
    /// By path id.
    paths: [Recent; MAX_PATHS],
}

/// Times and values of round-trip measurements.
#[derive(Clone, Debug, Default)]
struct Recent {
    samples: VecDeque<(Time, Span)>,
    moments: Moments,
}

impl Recent {
    fn add(&mut self, now: Time, rtt: Span, pause: Span) {
        if self.samples.back().is_none_or(|(at, _)| now >= *at + pause) {
            self.samples.push_back((now, rtt));
            self.moments.add(rtt);
        }
    }

    fn forget_until(&mut self, time: Time) {
        while let Some(&(at, rtt)) = self.samples.front()
            && at <= time
        {
            self.samples.pop_front();
            self.moments.remove(rtt);
        }
    }
}

impl Deviations {
    /// Creates an empty window of this length.
    pub(super) fn new(window: Span) -> Self {
        Self { window, paths: Default::default() }
    }

    /// Records the round trip of an acknowledgement.
    pub(super) fn on_event(&mut self, event: &SchedEvent, cx: &Context<'_>) {
        match event {
            SchedEvent::Acked { path, .. } => {
                if let Some(view) = cx.path(*path) {
                    let recent = &mut self.paths[usize::from(path.0)];
                    recent.forget_until(cx.now - self.window);
                    recent.add(cx.now, view.latest_rtt, (self.window / SAMPLES).max(Span::TICK));
                }
            }
            SchedEvent::PathChanged(path) if cx.path(*path).is_none() => {
                self.paths[usize::from(path.0)] = Recent::default();
            }
            _ => {}
        }
    }

    /// Drops measurements older than the window.
    pub(super) fn forget(&mut self, now: Time) {
        let Some(time) = now.checked_sub(self.window) else { return };
        self.paths.iter_mut().for_each(|recent| recent.forget_until(time));
    }

    /// Returns the standard deviation of a path's RTT in microseconds; 0 for fewer than two
    /// measurements.
    pub(super) fn of(&self, path: PathId) -> f64 {
        self.paths[usize::from(path.0)].moments.deviation()
    }
}
