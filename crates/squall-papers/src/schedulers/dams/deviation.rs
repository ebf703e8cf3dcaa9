//! The standard deviation of each path's RTT over the past period of time (§III-D).

use std::collections::VecDeque;

use crate::latency::Moments;
use squall_sched::{Context, MAX_PATHS, PathId, SchedEvent, Span, Time};

/// Measurements of a path that count at most: those that follow more closely are left out.
const SAMPLES: u64 = 1_000;

/// The round trips of every path within a window of time.
#[derive(Clone, Debug)]
pub(super) struct Deviations {
    window: Span,
    /// By path id.
    paths: [Recent; MAX_PATHS],
}

/// When each round trip was measured, and how long it took.
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
    /// Over a window of time.
    pub(super) fn new(window: Span) -> Self {
        Self { window, paths: Default::default() }
    }

    /// Notes the round trip that an acknowledgement shows.
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

    /// Drops what is older than the window.
    pub(super) fn forget(&mut self, now: Time) {
        let Some(time) = now.checked_sub(self.window) else { return };
        self.paths.iter_mut().for_each(|recent| recent.forget_until(time));
    }

    /// Standard deviation of a path's RTT in microseconds; 0 of fewer than two measurements.
    pub(super) fn of(&self, path: PathId) -> f64 {
        self.paths[usize::from(path.0)].moments.deviation()
    }
}
