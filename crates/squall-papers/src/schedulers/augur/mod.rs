//! AUGUR: an unmetered primary path, and a metered backup that is used as little as stalls allow.
//!
//! Source: "AUGUR: Practical Mobile Multipath Transport Service for Low Tail Latency in Real-Time
//! Streaming", NSDI 2024: §3.3–§3.4 (model and strategy), §3.5 (state manager), §3.6 (multipath
//! agent), §5.1 and §5.4 (parameters). A frame is a block; Wi-Fi is the primary path; cellular is a
//! backup. `augur` does both of the following, `augur-retransmit` and `augur-switch` only one (the
//! ablation of Fig. 18):
//!
//! - **Retransmission** (§3.6.1): a frame whose in-flight time (since its first byte left) reaches X₁ is
//!   repeated whole on the backup, once.
//! - **Switch** (§3.6.2): when the oldest frame in flight has reached X₂ and the backup's round
//!   trip is shorter than the primary's, new frames are sent on the backup and all frames in flight
//!   are repeated there. New frames are copied to the primary as probes (ours) while fewer than two
//!   are in flight on it; it becomes primary again when its round trip has left X₂.
//!
//! All other data, new or repaired, is sent on the primary in order of submission, as on a single
//! path.
//!
//! # From samples to thresholds
//!
//! Frequencies within the window Δ stand for probabilities (§3.5.2), with P(stall) = Σ
//! P(stall|S)·P(S) (Eq. 1). M₁ has a sample for each frame: its in-flight time when it ended. M₂
//! has one every `sample` milliseconds while a frame is in flight on the primary: the age of the
//! oldest, labelled by that frame's end. The backup is probed every `probe` milliseconds for
//! P_backup(S) = P(RTT ≤ T_thresh − S) (Eq. 8). Eq. 2 and 5, which demand few missed stalls and few
//! unnecessary actions, become Eq. 7: choose the states X that maximise Σ_X
//! P(stall|S)·P(S)·P_backup(S) under Σ_X P(S) ≤ δ·P(stall) (Eq. 6).
//!
//! **Definition of a stall.** In the paper the receiver reports stalls (§3.3), and P(stall|S)
//! differs by user: with a round trip of 100 ms from 0 to 100 % (Fig. 9). `stalls=reported`
//! implements this: the peer reports frames that arrived later than its reader expected
//! ([`SchedEvent::Stalled`]), and a frame counts as a stall in the state in which it ended, from
//! the report on. With `stalls=late` (default) T_thresh by the sender's clock decides.
//!
//! **A frame ages through the states.** With `stalls=late`, Eq. 7 as printed is degenerate for M₁
//! with that statistic: a frame that ended before T_thresh was no stall, so P(stall|S) = 0 there,
//! and past T_thresh P_backup(S) = 0. Every product is 0. With `stalls=reported`, products are
//! above 0 for states below T_thresh in which stalls were reported. In both cases the age of a
//! frame passes through all states up to the last, so choosing S means *acting when the age reaches
//! S*. A set then acts when its smallest state s is reached, whatever else is in it; that costs P(T
//! ≥ s), meets P(stall, T ≥ s) of the stalls and rescues the share P_backup(s) of them. Neither
//! cost nor gain rises with s. The best s is therefore the smallest that satisfies Eq. 6, if it
//! gains anything; otherwise there is none. This is the threshold of §3.6, found in one pass. Of
//! P_backup only its reach matters, that is whether it is above 0. M₂ ages likewise (the age of the
//! oldest frame jumps only downwards), so the same rule holds. Where Eq. 7 is not degenerate and
//! its terms rise with S, both readings agree (the tests search all subsets for both). Among
//! thresholds of equal gain the smallest is taken, although a later one is cheaper: it leaves more
//! time for a real frame, which is longer than a probe, and §5.3 suggests that the budget is used
//! (medians: 0.65 % of the bytes, switches included, against 0.2 % of stalls on the single path, if
//! δ was 3.5).
//!
//! **Effect of a rescue on the model.** In the paper, as we read it, the in-flight time ends with
//! the acknowledgement over any path, and stalls are those that the receiver experienced. A rescued
//! frame is then no stall, whether reports decide or T_thresh: P(stall) falls with success, and
//! with it the budget, until enough frames stall again. Eq. 2 and 3, however, assume a constant
//! P(stall), which only holds for the primary path alone. Option `learn`: `end` (default) follows
//! the paper; `primary` evaluates a frame that the backup delivered first by its later delivery on
//! the primary, or as a stall if that has not happened by T_thresh. The difference is large: of
//! isolated stalls at a steady rate, `augur-retransmit` rescues 1 − 1/δ with `end` (71 % with 3.5),
//! since rescued frames, which are as old as those to be acted on, use up the budget, and all but
//! the first with `primary`, within the budget. Likewise outages that the switch bridges do not
//! enter the model with `end`, so one outage per Δ is not anticipated (both simulated in
//! `tests/schedulers/augur/play.rs`).
//!
//! # Decisions where the paper is silent
//!
//! - A frame that is not delivered at all is a stall, too (its state is its age at the end). A
//!   frame that never left is not counted. The share of frames stands for the share of bytes.
//! - Content of a receiver's report: `docs/wire.md`, STALLED. A report is accepted for any frame in
//!   flight and the latest 256 that ended without one. With `learn=primary` T_thresh decides for
//!   frames that the backup delivered first: no peer can report that they would have stalled.
//! - No start-up rule: without a stall in Δ the right side of Eq. 6 is 0, and with few samples the
//!   budget is still δ frames for each stall that was counted.
//! - Once a frame is handed to the backup, the backup carries the bytes that the peer lacks: bytes
//!   in flight as copies, lost ones as repairs, unsent ones for the first time. Lost bytes of other
//!   frames are repaired on the primary. If the backup has no room, the primary continues with the
//!   frame. A copy that the backup lost is made again.
//! - Eq. 8 gives P_backup = 0 to states whose age leaves less than a round trip of the backup, but
//!   a frame takes longer than the probe that measured that round trip. Option `rescue`: `all`
//!   (default) repeats every frame handed to the backup; `probe` those whose age plus latest round
//!   trip of the backup is T_thresh at most; `frame` those for which the time that their missing
//!   bytes and those waiting before them take at the backups' bandwidth fits as well. The oldest
//!   such frame goes first, then new frames: in the order in which they become late. At a switch
//!   all frames in flight are repeated (§3.6.2); those that will be late come last, in room that
//!   nothing else uses. Reason for `all`: on augur-fig12 (four sessions of 120 s) the stall rate is
//!   0.16 % with `all`, 0.09 % with `probe` and 0.08 % with `frame`, on augur-fig13 (twelve) 1.01 %
//!   and 0.91 % with `frame`, with equally many bytes on LTE. But X₁ may lie where Eq. 8 just
//!   allows it, and then nothing is rescued: over Wi-Fi that falls from 30 to 1 Mbps for 6 s, 9 %
//!   of the frames are late with `all`, 17 % with `probe`, 13 % with `frame`. And the bandwidth of
//!   a path that carries little is its initial window per round trip: on a lossy primary `frame`
//!   rescues a third of the frames that it could.
//! - RTT_wifi in the switch rule is the latest sample, or the time since which data has been in
//!   flight without an acknowledgement, if that is longer: a path that has gone silent keeps its
//!   last good sample. With option `rtt=latest` it is the sample alone. In a stall that holds
//!   packets the rule then waits for the first acknowledgement after it, and frames are saved by
//!   retransmission.
//! - Frames pass the congestion control of the path in use (§2.1, §4.1). While a backup is primary,
//!   the session's capacity, which an encoder follows, is therefore that of the backup.
//! - Models count frames that began on the primary. While a backup is primary no samples are taken
//!   and no thresholds derived; earlier frames still get their label. After the return the oldest
//!   frame is one begun since.
//! - X₂ contains no age that half of all frames reach (M₁). Samples are spread over time, where the
//!   weight of a stall is its duration, so Eq. 6 soon allows ages below the round trip of the
//!   healthy path, and "the round trip has left X₂" could never become true: one stall of 400 ms in
//!   50 frames was enough to stay on the backup for good. A smaller set satisfies Eq. 6 all the
//!   more.
//! - "Fewer than two frames" on the primary is measured in bytes against the new frame's size.
//! - The return to the primary requires evidence: data was acknowledged on it since, and the latest
//!   sample is below X₂.
//! - A primary that is not usable counts as degraded for `augur` and `augur-switch`: new data is
//!   sent on the backup until the primary is trusted again and its round trip is below X₂ (T_thresh
//!   without X₂). `augur-retransmit` uses the backup only as long as the primary is not usable.
//!
//! # More than two paths
//!
//! The primary is the first unmetered path, backups are all metered ones (every other path if none
//! is metered). Further unmetered paths are unused unless an option names them, or no other path
//! can carry data. A primary path that disappears keeps its role and its model for 5 s, in which
//! other unmetered paths, if any, act as backups; then the next unmetered path becomes primary, and
//! stays so when the first one returns. With a single path this is `sp`.
//!
//! Each backup may have its own δ (§6): `delta=1:3.5;2:8` or `budget=1:500MB;2:1GB`, by path id; a
//! value without an id applies to all others (`delta=3.5;2:8`). Eq. 6 then bounds each δ, Eq. 8
//! uses the round trip of its backups, and each has its own X₁ and X₂. A frame is handed to a
//! backup when its age reaches that backup's X₁, so a backup with a larger δ is used earlier, and
//! one with δ = 0 never. Each packet takes, of the backups that its frame was handed to, the one
//! with the lowest smoothed RTT and room (window and byte budget): if the backup of the larger δ
//! has none, the other carries the frame from its own X₁ on. The primary is left when the X₂ and
//! round trip of one backup require it; others join once the state of the primary (the age of its
//! oldest frame, then its latest round trip) is in their X₂, and the primary returns when it has
//! left the X₂ of all. While it is out of use all backups carry new data, whatever their δ.
//!
//! Backups with the same δ count as one in Eq. 6 to 8: they share the thresholds and the budget,
//! and the shortest round trip among them counts. Budgets of different δ are not pooled: two of 3.5
//! and 4 act no earlier than one of 4. Eq. 6 bounds the modelled distribution, not each copy: over
//! a primary with random but stationary delays, up to 8 % more frames than δ times the stalls are
//! repeated while thresholds settle.
//!
//! # The mean user
//!
//! δ of a budget is the budget divided by the late bytes of a user's month: late bytes an hour
//! times hours of `playing`. The paper uses the mean of all its users (§5.1). `users=learned` uses
//! the mean of all learning sessions of its registry (of a process, with the schedulers of the
//! library): the bytes of frames that counted as stalls, and the time from one frame to the next,
//! at most 1 s. The paper's 19 MB an hour count as 7.5 of these hours (a month of its mean user),
//! so that the first session starts with the δ of `users=paper` and a typical one changes it
//! little. The record consists of two counters. Peers influence it: one that makes every frame
//! late, or reports so, lowers δ for all (at 9.3 Mbps as much as 220 mean users), so that less is
//! repeated; raising it takes hours without stalls. A scheduler cannot observe how often a user
//! plays, so `playing` stays an option. Decisions then depend on other sessions; `squall-lab`,
//! whose results must be repeatable, therefore rejects it.
//!
//! # Options
//!
//! | option | default | unit | source |
//! | --- | --- | --- | --- |
//! | `delta` | 3.5 | δ, times the share of stalls; 500 MB a month (1.75: 250 MB); or by path | §5.1, §5.4.1, §6 |
//! | `budget` | none | bytes a month; δ is 3.5 for 500 MB, 1.75 for 250 MB; or by path | §5.1, §6 |
//! | `playing` | 0.25 | hours a day, for `budget` | ours (§5.1 does not print it) |
//! | `users` | paper | `paper` or `learned`, for `budget`, see above | §5.1 (`learned`) |
//! | `window` | 300 | s, Δ | §5.1 |
//! | `stall` | 200 | ms, T_thresh | §3.5.1 |
//! | `stalls` | late | `late` or `reported`, see above | §3.3 (`reported`), ours |
//! | `probe` | 50 | ms between probes of the backup | §3.5.1 |
//! | `sample` | 10 | ms between looks at the oldest frame | ours ("periodically", §3.5.1) |
//! | `primary`, `backup` | auto | path id | ours |
//! | `rescue` | all | `all`, `probe` or `frame`, see above | §3.5.1 (Eq. 8), ours |
//! | `learn` | end | `end` or `primary`, see above | ours |
//! | `rtt` | silence | `silence` or `latest`, see above | §3.6.2 (`latest`), ours |
//!
//! Cost: a decision checks the oldest frames only, O(log frames); solving is a pass over 201 states
//! at most every 20 ms, for each δ. Memory: 45 kB, 9 kB for each further δ, some bytes a frame in
//! flight, and 25 kB with `stalls=reported`.

mod away;
mod entry;
mod frames;
mod model;
mod per_path;
mod roles;
mod users;
mod window;

pub(super) use entry::register;

use self::{
    away::Away,
    entry::{Learn, Rescue, Rtt},
    frames::Frames,
    model::{Outcome, Settings, Stalls, StateManager},
    roles::{Choice, Roles},
};
use squall_sched::{
    Assignment, Block, BlockId, Context, Decision, PathId, PathSet, PathView, Profile, SchedEvent, Scheduler,
    Sharing, Span, Time, Work, WorkKind,
};

/// Time for which a primary path that has disappeared keeps its role: its model is worth more than
/// the empty one of the next primary.
const KEEPS_PART: Span = Span::from_secs(5);

/// AUGUR, or one half of it.
#[derive(Clone, Debug)]
pub struct Augur {
    options: entry::Chosen,
    roles: Option<Roles>,
    manager: StateManager,
    frames: Frames,
    /// Time since which the primary path has been gone.
    gone_at: Option<Time>,
    /// Set while a backup is the primary path.
    away: Option<Away>,
    /// The backup that carries new frames meanwhile.
    backup_in_use: Option<PathId>,
    /// Submission of the latest frame.
    handed_over_at: Option<Time>,
    /// Time of the last acknowledgement on the primary path.
    received_at: Option<Time>,
    /// Time of the next probe of the backups.
    probe_at: Time,
    /// Backups to probe now.
    to_probe: PathSet,
    /// The backups were probed before, so their round trips are current.
    probed: bool,
}

impl Scheduler for Augur {
    fn next(&mut self, cx: &Context<'_>) -> Decision {
        let Some(roles) = self.assign_roles(cx) else {
            return Decision::idle();
        };
        self.judge_overdue(cx.now);
        self.follow(cx, roles);
        self.backup_in_use =
            self.away.as_ref().and_then(|away| roles.only(away.carriers).nearest_backup(cx.paths));
        if self.away.is_none() {
            self.manager.solve(cx.now);
            self.retransmit_due(cx.now, roles);
        }
        if let Some(path) = self.probe(cx, roles) {
            return Decision::Probe(path);
        }
        let assignment = self.rescue(cx, roles).or_else(|| self.in_line(cx, roles));
        match assignment.or_else(|| self.rescue_doomed(cx, roles)) {
            Some(assignment) => Decision::Send(assignment),
            None => Decision::Idle { wake: self.wake(cx, roles) },
        }
    }

    fn on_event(&mut self, event: &SchedEvent, cx: &Context<'_>) {
        let primary = self.roles.map(|roles| roles.primary);
        match event {
            SchedEvent::Acked { block, range, path } if Some(*path) == primary => {
                self.received_at = Some(cx.now);
                if let Some(away) = &mut self.away {
                    away.received();
                }
                if let Some(outcome) = self.frames.acked(*block, range, cx.now) {
                    self.note(cx.now, *block, outcome);
                }
            }
            SchedEvent::Grew { block, .. } => {
                if let Some(grown) = cx.queue.get(*block) {
                    self.frames.grow(*block, grown.meta().len);
                }
            }
            SchedEvent::Lost { block, range, .. } => self.frames.look_again(*block, range.start),
            SchedEvent::Unsent { block, range, .. } => {
                if cx.queue.get(*block).is_some_and(|b| b.first_sent().is_none()) {
                    self.frames.never_left(*block, cx.now);
                }
                self.frames.look_again(*block, range.start);
            }
            SchedEvent::Done { block, delivered } => {
                let outcome = match self.options.learn {
                    Learn::End => self.frames.end(*block, *delivered, cx.now),
                    Learn::Primary => self.frames.end_on_primary(*block, *delivered, cx.now),
                };
                if let Some(outcome) = outcome {
                    self.note(cx.now, *block, outcome);
                }
            }
            SchedEvent::Stalled(block) => {
                if let Some(outcome) = self.frames.stalled(*block) {
                    self.manager.note_stall(cx.now, &outcome);
                }
            }
            SchedEvent::PathChanged(id) if Some(*id) == primary => {
                if let Some(away) = &mut self.away {
                    away.look(cx.path(*id));
                }
            }
            SchedEvent::Queued(_) => {
                if let Some(before) = self.handed_over_at.replace(cx.now) {
                    self.manager.settings().users.played(cx.now - before);
                }
            }
            SchedEvent::Acked { .. } | SchedEvent::Parity { .. } | SchedEvent::PathChanged(_) => {}
        }
    }

    fn profile(&self) -> Profile {
        Profile {
            wants_stalls: self.wants_stalls(),
            learns_from_others: self.manager.settings().users.are_learned(),
            sharing: self.backup_in_use.map_or(Sharing::Primary(self.options.primary.0), Sharing::Only),
            ..Profile::default()
        }
    }
}

impl Augur {
    fn wants_stalls(&self) -> bool {
        self.manager.settings().stalls == Stalls::Reported
    }

    /// Returns the current roles of the paths. The model of one primary path is not valid for
    /// another.
    fn assign_roles(&mut self, cx: &Context<'_>) -> Option<Roles> {
        let former = self.roles;
        let gone = former.is_some_and(|roles| cx.path(roles.primary).is_none());
        self.gone_at = self.gone_at.filter(|_| gone).or_else(|| gone.then_some(cx.now));
        let keeps = self.gone_at.is_none_or(|at| cx.now < at + KEEPS_PART);
        let kept = former.map(|roles| (roles, keeps));
        self.roles = Roles::of(cx.paths, self.options.primary, self.options.backup, kept);
        if let (Some(former), Some(roles)) = (former, self.roles)
            && former.primary != roles.primary
        {
            self.manager.reset();
            self.frames = Frames::new(self.manager.groups().len());
            self.away = None;
            self.received_at = None;
        }
        self.roles
    }

    /// Called when a frame has ended.
    fn note(&mut self, now: Time, id: BlockId, outcome: Outcome) {
        if !self.manager.note(now, &outcome) && self.wants_stalls() {
            self.frames.remember(id, outcome);
        }
    }

    fn judge_overdue(&mut self, now: Time) {
        let before = now - self.manager.settings().stall;
        while let Some(outcome) = self.frames.overdue(before, now) {
            self.manager.note(now, &outcome);
        }
    }

    /// Leaves the primary path, or returns to it.
    fn follow(&mut self, cx: &Context<'_>, roles: Roles) {
        let primary = cx.path(roles.primary);
        match &mut self.away {
            Some(away) => away.look(primary),
            None => self.away = self.leave(cx, roles),
        }
        let Some(away) = &mut self.away else { return };
        let stall = self.manager.settings().stall;
        let mut carriers = PathSet::EMPTY;
        for (which, group) in self.manager.groups().iter().enumerate() {
            let limit = away.limit(group.switch_at, stall);
            if limit.is_some_and(|limit| away.is_beyond(limit, primary, cx.now)) {
                carriers = carriers.union(group.paths);
                self.frames.hand_over(which, group.paths, Time::MAX);
            }
        }
        away.carriers = carriers;
        if roles.only(carriers).backup_rtt(cx.paths).is_none() {
            self.away = None;
        }
    }

    /// Returns the state of a period on a backup, if the primary path must be left now.
    fn leave(&mut self, cx: &Context<'_>, roles: Roles) -> Option<Away> {
        roles.backup_rtt(cx.paths)?;
        let oldest = match cx.path(roles.primary) {
            None => None,
            Some(_) if !self.options.switch => return None,
            Some(primary) if !primary.usable => None,
            Some(primary) => {
                self.degraded_at(cx, primary, roles).filter(|at| *at <= cx.now)?;
                self.frames.oldest()
            }
        };
        self.frames.abandon(cx.now);
        self.to_probe = PathSet::EMPTY;
        Some(Away::new(oldest))
    }

    /// Returns the time at which the primary path must be left for the first of its backups if
    /// nothing is acknowledged on it until then.
    fn degraded_at(&self, cx: &Context<'_>, primary: &PathView, roles: Roles) -> Option<Time> {
        let groups = self.manager.groups().iter();
        let each = groups.filter_map(|group| {
            self.left_at(primary, group.switch_at?, roles.only(group.paths).backup_rtt(cx.paths)?)
        });
        each.min()
    }

    /// Returns that time for one backup: the oldest frame's age is in X₂ and the primary's round
    /// trip is longer than the backup's.
    fn left_at(&self, primary: &PathView, switch_at: Span, backup_rtt: Span) -> Option<Time> {
        let first_sent = self.frames.oldest()?;
        let aged = first_sent + switch_at;
        if primary.latest_rtt > backup_rtt {
            return Some(aged);
        }
        if self.options.rtt == Rtt::Latest {
            return None;
        }
        // The round trip of the data in flight is at least the silence so far.
        let silent_since = self.received_at.map_or(first_sent, |at| at.max(first_sent));
        Some(aged.max(silent_since + backup_rtt + Span::TICK))
    }

    /// Hands frames that have reached X₁ of a backup to it.
    fn retransmit_due(&mut self, now: Time, roles: Roles) {
        for (which, group) in self.manager.groups().iter().enumerate() {
            let is_there = !roles.only(group.paths).backups.is_empty();
            if let Some(age) = group.retransmit_at.filter(|_| self.options.retransmit && is_there)
                && let Some(until) = now.checked_sub(age)
            {
                self.frames.hand_over(which, group.paths, until);
            }
        }
    }

    /// Returns the next backup to probe, if one is due.
    fn probe(&mut self, cx: &Context<'_>, roles: Roles) -> Option<PathId> {
        if self.away.is_none() && !roles.backups.is_empty() && cx.now >= self.probe_at {
            if self.probed {
                self.manager.note_backups(cx.now, |paths| roles.only(paths).backup_rtt(cx.paths));
            }
            self.probe_at = cx.now + self.options.probe;
            self.probed = true;
            self.to_probe = roles.backups(cx.paths).filter(|p| p.has_room()).map(|p| p.id).collect();
        }
        let path = roles.backups(cx.paths).find(|p| self.to_probe.contains(p.id))?.id;
        self.to_probe.remove(path);
        Some(path)
    }

    /// Returns the next work for a backup among the frames handed to it, as selected by `rescue`.
    fn rescue(&mut self, cx: &Context<'_>, roles: Roles) -> Option<Assignment> {
        let stall = self.manager.settings().stall;
        let chosen = self.options.rescue;
        let in_time = |given, first_sent: Time, bytes| {
            let takes = match chosen {
                Rescue::All => return true,
                Rescue::Probe => roles.only(given).backup_rtt(cx.paths),
                Rescue::Frame => roles.only(given).brings_in(cx.paths, bytes),
            };
            takes.is_some_and(|time| cx.now + time <= first_sent + stall)
        };
        let pick = |given| roles.only(given).best_with_room(cx.paths).map(|path| path.id);
        let (work, path) = self.frames.rescue(cx.queue, roles.backups, pick, in_time)?;
        let reason = match work.kind {
            WorkKind::Copy => "late frame, repeated on the backup",
            WorkKind::Repair => "late frame, lost bytes on the backup",
            WorkKind::Fresh | WorkKind::Parity | WorkKind::RunParity => {
                "late frame, rest of it on the backup"
            }
        };
        Some(Assignment::new(work, path, reason))
    }

    /// After a switch everything in flight is repeated, including frames that will be late: when
    /// nothing else is left to send, they delay nothing.
    fn rescue_doomed(&mut self, cx: &Context<'_>, roles: Roles) -> Option<Assignment> {
        self.away.as_ref()?;
        let pick = |given| roles.only(given).best_with_room(cx.paths).map(|path| path.id);
        let (work, path) = self.frames.rescue_doomed(cx.queue, roles.backups, pick)?;
        Some(Assignment::new(work, path, "late frame in flight at the switch"))
    }

    /// First come, first served on the current primary path.
    fn in_line(&mut self, cx: &Context<'_>, roles: Roles) -> Option<Assignment> {
        let primary = cx.path(roles.primary);
        if let Some(away) = &mut self.away {
            if let Some(path) = primary.filter(|p| p.has_room())
                && let Some(work) = away.copy(cx.queue, path)
            {
                return Some(Assignment::new(work, path.id, "probe frame on the path that was left"));
            }
            let path = roles.only(away.carriers).best_with_room(cx.paths)?;
            let work = cx.queue.next_in_line()?;
            if let Some(block) = beginning(&work, cx) {
                away.begin(block, primary);
            }
            return Some(Assignment::new(work, path.id, "the backup while the primary is degraded"));
        }
        if primary.is_some_and(|primary| !primary.usable) {
            let path = roles.best_with_room(cx.paths)?;
            let work = cx.queue.next_in_line()?;
            return Some(Assignment::new(work, path.id, "the backup while the primary is out of use"));
        }
        let path = primary.filter(|p| p.has_room())?;
        let work = cx.queue.next_in_line()?;
        if let Some(block) = beginning(&work, cx) {
            self.frames.begin(work.block, block.meta().len, cx.now);
        }
        Some(Assignment::new(work, path.id, "the primary path"))
    }

    /// Returns the time of the next action if no event comes first.
    fn wake(&self, cx: &Context<'_>, roles: Roles) -> Option<Time> {
        if roles.backups.is_empty() || cx.queue.is_empty() {
            return None;
        }
        let groups = || self.manager.groups().iter().enumerate();
        if let Some(away) = &self.away {
            let more = groups().filter_map(|(_, group)| away.reaches(group.switch_at?));
            return more.filter(|at| *at > cx.now).min();
        }
        let retransmit = groups().filter(|_| self.options.retransmit);
        let retransmit = retransmit
            .filter_map(|(which, group)| Some(self.frames.oldest_waiting(which)? + group.retransmit_at?));
        let switch = cx.path(roles.primary).filter(|_| self.options.switch);
        let switch = switch.and_then(|path| self.degraded_at(cx, path, roles));
        let times = retransmit.chain(switch).chain([self.probe_at]);
        times.filter(|at| *at > cx.now).min()
    }
}

/// Returns the block if these are its first bytes.
fn beginning<'a>(work: &Work, cx: &Context<'a>) -> Option<&'a Block> {
    cx.queue.get(work.block).filter(|block| work.kind == WorkKind::Fresh && block.first_sent().is_none())
}
