//! State models and the resulting strategy (§3.3–§3.5).
//!
//! States are ages in [`STATES`] steps of equal width up to the stall threshold, and one state for
//! all ages beyond: with the default threshold of 200 ms a step is 1 ms. Finer steps up to a second
//! would have no benefit, because past the threshold no backup can help (Eq. 8).

use std::str::FromStr;

use super::{
    users::{Allowance, Users},
    window::Window,
};
use squall_sched::{MAX_PATHS, PathId, PathSet, Span, Time};

/// Steps below the stall threshold.
pub(super) const STATES: usize = 200;

/// Parameters of the models.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// T_thresh: a frame later than this is a stall. A multiple of [`STATES`].
    pub(super) stall: Span,
    /// δ of Eq. 6 of each path, if it is a backup.
    pub(super) allowances: [Allowance; MAX_PATHS],
    /// Users whose late bytes determine δ of monthly budgets.
    pub(super) users: Users,
    /// Δ: older samples are dropped.
    pub(super) window: Span,
    /// Interval at which the age of the oldest frame is sampled.
    pub(super) sample: Span,
    /// Definition of a stall.
    pub(super) stalls: Stalls,
}

/// Definition of a stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stalls {
    /// Frames later than T_thresh by the sender's clock.
    Late,
    /// Frames that the peer reports.
    Reported,
}

impl FromStr for Stalls {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "late" => Ok(Self::Late),
            "reported" => Ok(Self::Reported),
            _ => Err("must be late or reported"),
        }
    }
}

/// Outcome of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Time at which its first byte left.
    pub(super) first_sent: Time,
    /// Time at which it ended.
    pub(super) ended: Time,
    /// Its length.
    pub(super) bytes: u32,
    /// The peer has it.
    pub(super) delivered: bool,
    /// Period in which it was the oldest frame in flight, if it was.
    pub(super) oldest: Option<(Time, Time)>,
    /// The peer has reported that it stalled.
    pub(super) reported: bool,
    /// It is the outcome on the primary path of a frame that the backup delivered first. No peer
    /// can report that it would have stalled.
    pub(super) supposed: bool,
}

impl Outcome {
    fn age(&self) -> Span {
        self.ended - self.first_sent
    }
}

/// Backups with one δ, which count as one in Eq. 6 to 8: they share a budget, and a pair of
/// thresholds.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// The paths of the group, including absent ones.
    pub(super) paths: PathSet,
    allowance: Allowance,
    /// Shortest round-trip time of the present paths, in steps, rounded up; one more entry for
    /// unusable ones.
    rtts: Window,
    /// X₁: age from which a frame is retransmitted, if there is one.
    pub(super) retransmit_at: Option<Span>,
    /// X₂: age of the oldest frame from which the primary path is left, if there is one.
    pub(super) switch_at: Option<Span>,
}

impl Group {
    /// Groups the paths by their allowance.
    fn all(settings: &Settings) -> Vec<Self> {
        let mut groups: Vec<Self> = Vec::new();
        for (path, allowance) in (0..).map(PathId).zip(settings.allowances) {
            match groups.iter_mut().find(|group| group.allowance == allowance) {
                Some(group) => _ = group.paths.insert(path),
                None => groups.push(Self {
                    paths: path.into(),
                    allowance,
                    rtts: Window::new(STATES + 2, settings.window),
                    retransmit_at: None,
                    switch_at: None,
                }),
            }
        }
        groups
    }
}

/// The two models, the capacity of the backups, and the resulting strategies.
#[derive(Clone, Debug)]
pub(super) struct StateManager {
    settings: Settings,
    /// M₁: in-flight times of frames.
    frames: Model,
    /// M₂: ages of the oldest frame in flight.
    oldest: Model,
    /// In order of their first path.
    groups: Vec<Group>,
    stale: bool,
    solve_at: Time,
}

/// Minimum time between two solutions. A window of minutes changes little within it.
const SOLVE_INTERVAL: Span = Span::from_millis(20);

impl StateManager {
    pub(super) fn new(settings: Settings) -> Self {
        let model = || Model::new(settings.window);
        Self {
            frames: model(),
            oldest: model(),
            groups: Group::all(&settings),
            stale: false,
            solve_at: Time::EPOCH,
            settings,
        }
    }

    /// Removes all samples.
    pub(super) fn reset(&mut self) {
        *self = Self::new(self.settings.clone());
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the groups of paths with equal δ, with their thresholds.
    pub(super) fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Called when a frame has ended. Returns `true` if it counts as a stall.
    pub(super) fn note(&mut self, now: Time, outcome: &Outcome) -> bool {
        let by_clock = outcome.supposed || self.settings.stalls == Stalls::Late;
        let late = by_clock && outcome.age() > self.settings.stall;
        let stalled = !outcome.delivered || outcome.reported || late;
        self.count(now, outcome, |model| &mut model.seen);
        if stalled {
            self.note_stall(now, outcome);
        }
        stalled
    }

    /// Called when a frame that was not counted as a stall turns out to be one.
    pub(super) fn note_stall(&mut self, now: Time, outcome: &Outcome) {
        self.settings.users.stalled(outcome.bytes);
        self.count(now, outcome, |model| &mut model.stalled);
    }

    /// Counts the states that the frame was in.
    fn count(&mut self, now: Time, outcome: &Outcome, counts: impl Fn(&mut Model) -> &mut Window) {
        let state = self.state(outcome.age());
        counts(&mut self.frames).add(now, state, 1);
        if let Some((from, to)) = outcome.oldest {
            self.count_oldest(now, outcome.first_sent, from..to, counts);
        }
        self.stale = true;
    }

    /// Counts the ages of the oldest frame at each multiple of the sampling interval within `span`.
    fn count_oldest(
        &mut self,
        now: Time,
        born: Time,
        span: std::ops::Range<Time>,
        counts: impl Fn(&mut Model) -> &mut Window,
    ) {
        let step = self.settings.sample;
        let mut at = Time::EPOCH + step * (span.start.since_epoch() / step + 1);
        while at <= span.end {
            let state = self.state(at - born);
            // The state does not change past the last one.
            let times = if state == STATES { (span.end - at) / step + 1 } else { 1 };
            counts(&mut self.oldest).add(now, state, times.min(u64::from(u32::MAX)) as u32);
            at += step * times;
        }
    }

    /// Samples the backups: the shortest round-trip time of each group, or `None` if it cannot be
    /// used.
    pub(super) fn note_backups(&mut self, now: Time, rtt: impl Fn(PathSet) -> Option<Span>) {
        let width = self.width().micros();
        for group in &mut self.groups {
            let step = rtt(group.paths).map_or(u64::MAX, |rtt| rtt.micros().div_ceil(width));
            group.rtts.add(now, step.min(STATES as u64 + 1) as usize, 1);
        }
        self.stale = true;
    }

    /// Derives the strategies again, if the models have changed and the last solution is old
    /// enough.
    pub(super) fn solve(&mut self, now: Time) {
        if now < self.solve_at || !self.stale {
            return;
        }
        self.stale = false;
        self.solve_at = now + SOLVE_INTERVAL;
        let (width, late_per_hour) = (self.width(), self.settings.users.late_per_hour());
        let age = |state: usize| width * state as u64;
        let frames = self.frames.seen.counts(now);
        // One bound for all groups: a backup must not be used earlier because its reach is shorter.
        let usual = self.groups.iter_mut().map(|group| usual(frames, group.rtts.counts(now))).max();
        for group in &mut self.groups {
            let (backup, delta) = (group.rtts.counts(now), group.allowance.delta(late_per_hour));
            let choose = |model: &mut Model| {
                threshold(model.seen.counts(now), model.stalled.counts(now), backup, delta)
            };
            group.retransmit_at = choose(&mut self.frames).map(age);
            group.switch_at = choose(&mut self.oldest).map(|state| age(state.max(usual.unwrap_or(0))));
        }
    }

    fn width(&self) -> Span {
        (self.settings.stall / STATES as u64).max(Span::TICK)
    }

    fn state(&self, age: Span) -> usize {
        (age / self.width()).min(STATES as u64) as usize
    }
}

/// P(S) and P(stall|S) as counts; their shares of the sums are the frequencies of §3.5.2.
#[derive(Clone, Debug)]
struct Model {
    seen: Window,
    stalled: Window,
}

impl Model {
    fn new(window: Span) -> Self {
        Self { seen: Window::new(STATES + 1, window), stalled: Window::new(STATES + 1, window) }
    }
}

/// Returns the state from which to act: Eq. 7 for frames that age through the states, in one pass.
///
/// `seen[s]` counts the samples in state s, and `stalled[s]` the stalls among them. `backup[k]`
/// counts round-trip times of at most k steps (and more than k−1), so that Eq. 8 for state s of n+1
/// sums `backup[0..=n − s]`. Acting at s costs Σ_{t≥s} `seen`, which Eq. 6 bounds by δ·Σ `stalled`
/// (both sides times the number of samples), and gains Σ_{t≥s} `stalled` · P_backup(s). Neither the
/// cost nor the gain rises with s: the smallest s within the bound is the best, if it gains
/// anything.
fn threshold(seen: &[u32], stalled: &[u32], backup: &[u32], delta: f64) -> Option<usize> {
    let total = |counts: &[u32]| counts.iter().map(|n| u64::from(*n)).sum::<u64>();
    let limit = delta * total(stalled) as f64;
    let (mut cost, mut caught, mut in_time) = (0, 0, 0);
    let mut best = None;
    for state in (0..seen.len()).rev() {
        cost += u64::from(seen[state]);
        caught += u64::from(stalled[state]);
        in_time += u64::from(backup[seen.len() - 1 - state]);
        if cost as f64 > limit {
            break;
        }
        if caught > 0 && in_time > 0 {
            best = Some(state);
        }
    }
    best
}

/// Returns the first state past the median of all frames, or the last one in which the backup can
/// help, whichever comes first. Younger frames do not indicate a degraded path, even if stalls last
/// long.
fn usual(frames: &[u32], backup: &[u32]) -> usize {
    let total: u64 = frames.iter().map(|n| u64::from(*n)).sum();
    let mut so_far = 0;
    let median = frames.iter().position(|n| {
        so_far += u64::from(*n);
        2 * so_far >= total
    });
    let reach = backup[..frames.len()].iter().position(|n| *n > 0).map_or(0, |k| frames.len() - 1 - k);
    median.map_or(0, |state| state + 1).min(reach)
}

#[cfg(test)]
mod tests;
