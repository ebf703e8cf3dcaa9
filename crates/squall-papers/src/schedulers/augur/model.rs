//! State models and the strategy that follows from them (§3.3–§3.5).
//!
//! States are ages in [`STATES`] steps of equal width up to the stall threshold, and one for all beyond:
//! with the default threshold of 200 ms a step is 1 ms. Finer steps up to a second would bring nothing, for
//! past the threshold no backup can help any more (Eq. 8).

use std::str::FromStr;

use super::{
    users::{Allowance, Users},
    window::Window,
};
use squall_sched::{MAX_PATHS, PathId, PathSet, Span, Time};

/// Steps below the stall threshold.
pub(super) const STATES: usize = 200;

/// How the models are made.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// T_thresh: a frame later than this is a stall. A multiple of [`STATES`].
    pub(super) stall: Span,
    /// δ of Eq. 6 of each path, if it is a backup.
    pub(super) allowances: [Allowance; MAX_PATHS],
    /// Whose late bytes monthly budgets are shared by.
    pub(super) users: Users,
    /// Δ: what is older than this is forgotten.
    pub(super) window: Span,
    /// How often the age of the oldest frame is looked at.
    pub(super) sample: Span,
    /// Which frames stalled.
    pub(super) stalls: Stalls,
}

/// Which frames stalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stalls {
    /// Those later than T_thresh by our clock.
    Late,
    /// Those that the peer reports.
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

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// When its first byte left.
    pub(super) first_sent: Time,
    /// When it ended.
    pub(super) ended: Time,
    /// Its length.
    pub(super) bytes: u32,
    /// Whether the peer has it.
    pub(super) delivered: bool,
    /// From when to when it was the oldest frame in flight, if it was.
    pub(super) oldest: Option<(Time, Time)>,
    /// Whether the peer has reported that it stalled.
    pub(super) reported: bool,
    /// Whether it is what the primary path alone would have made of a frame that the backup brought first. No peer
    /// can report that it would have stalled.
    pub(super) supposed: bool,
}

impl Outcome {
    fn age(&self) -> Span {
        self.ended - self.first_sent
    }
}

/// Backups with one δ, which Eq. 6 to 8 take for one: they share a budget, and a pair of thresholds.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// The paths, whether they are there or not.
    pub(super) paths: PathSet,
    allowance: Allowance,
    /// Shortest round-trip time of those that are there, in steps, rounded up; one entry more for useless ones.
    rtts: Window,
    /// The age from which a frame is retransmitted (X₁), if there is one.
    pub(super) retransmit_at: Option<Span>,
    /// The age of the oldest frame from which the primary path is left (X₂), if there is one.
    pub(super) switch_at: Option<Span>,
}

impl Group {
    /// The paths by their allowance.
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

/// The two models, the capacity of the backups, and the strategies that follow.
#[derive(Clone, Debug)]
pub(super) struct StateManager {
    settings: Settings,
    /// M₁: in-flight times of frames.
    frames: Model,
    /// M₂: ages of the oldest frame in flight.
    oldest: Model,
    /// By the first of their paths.
    groups: Vec<Group>,
    stale: bool,
    solve_at: Time,
}

/// Shortest time between two solutions. Of a window of minutes little changes in it.
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

    /// Forgets all.
    pub(super) fn reset(&mut self) {
        *self = Self::new(self.settings.clone());
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The paths by their δ, each in one group, with their thresholds.
    pub(super) fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// A frame has ended. Returns whether it counts as a stall.
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

    /// A frame that counts as none so far was a stall.
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

    /// The ages that were met at each multiple of the sampling interval within `span`.
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
            // Past the last state nothing changes any more.
            let times = if state == STATES { (span.end - at) / step + 1 } else { 1 };
            counts(&mut self.oldest).add(now, state, times.min(u64::from(u32::MAX)) as u32);
            at += step * times;
        }
    }

    /// A look at the backups: the shortest round-trip time of each group, or `None` when it cannot be used.
    pub(super) fn note_backups(&mut self, now: Time, rtt: impl Fn(PathSet) -> Option<Span>) {
        let width = self.width().micros();
        for group in &mut self.groups {
            let step = rtt(group.paths).map_or(u64::MAX, |rtt| rtt.micros().div_ceil(width));
            group.rtts.add(now, step.min(STATES as u64 + 1) as usize, 1);
        }
        self.stale = true;
    }

    /// Derives the strategies again, if the models have changed and the last time is a while ago.
    pub(super) fn solve(&mut self, now: Time) {
        if now < self.solve_at || !self.stale {
            return;
        }
        self.stale = false;
        self.solve_at = now + SOLVE_INTERVAL;
        let (width, late_per_hour) = (self.width(), self.settings.users.late_per_hour());
        let age = |state: usize| width * state as u64;
        let frames = self.frames.seen.counts(now);
        // What is usual is so for all: a backup must not be used earlier because it reaches less far.
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

/// P(S) and P(stall|S) as counts: divided by their sums they are the frequencies of §3.5.2.
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

/// The state from which to act: Eq. 7 for what ages through the states, in one pass.
///
/// `seen[s]` and `stalled[s]` count what ended, or was met, in state s, and of it what was a stall.
/// `backup[k]` counts round-trip times of at most k steps (and more than k−1), so that Eq. 8 for state s of
/// n+1 sums `backup[0..=n − s]`. Acting at s costs Σ_{t≥s} `seen`, which Eq. 6 bounds by δ·Σ `stalled`
/// (both sides of it times the number of samples), and gains Σ_{t≥s} `stalled` · P_backup(s). Neither the
/// cost nor the gain rises with s: the smallest s within the bound is the best, if it gains anything.
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

/// The first state past what half of all frames take, or the last one in which the backup can help, whichever
/// comes first. Younger frames do not show that the path is degraded, however long stalls last.
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
