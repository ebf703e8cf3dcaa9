//! Records of scheduling decisions, and the causes of late and lost blocks.
//!
//! [`Recorder`] joins the decisions and losses of a session with the blocks of flows. The records
//! of a flow, [`Reasons`], outlive sessions: [`shares`] has bytes by path and reason, [`story`] the
//! events of single blocks. Nothing is recorded unless an address to read the records is
//! configured.

mod shares;
mod story;

use std::{
    collections::HashMap,
    mem,
    sync::{Arc, Mutex},
    time::Instant,
};

use squall::{
    DecisionLog, LossLog, PacketFate,
    sched::{Decision, PathId, WorkKind},
};
use squall_observe::{
    clock::{Clock, lock},
    status::{ShareStatus, StoryStatus},
};
use squall_units::{Span, Time};

use self::{
    shares::Shares,
    story::{Step, Stories, Story, What},
};
use super::{counters::Outcome, reorder::Absence};
use crate::media::Class;

/// Maximum number of blocks of a session whose story is being recorded.
const MAX_OPEN: usize = 8192;

/// Records of a flow.
#[derive(Debug, Default)]
pub(crate) struct Reasons(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    shares: Shares,
    stories: Stories,
}

impl Reasons {
    /// Records a block that ended before a session accepted it.
    pub(crate) fn not_taken(
        &self,
        (class, stamp, latency): (Class, Time, Span),
        outcome: Outcome,
        bytes: usize,
        now: Time,
    ) {
        let story = Story::new(class, stamp, latency, 0, None);
        lock(&self.0).stories.end(story, outcome.name(), bytes as u64, now);
    }

    /// Records blocks of the other end that did not leave here.
    pub(crate) fn absent(&self, now: Time, session: u64, latency: Span, absence: Absence) {
        lock(&self.0).stories.absent(now, session, latency, absence);
    }

    /// Returns the bytes by path and reason, and the number of stories so far.
    pub(crate) fn shares(&self, now: Time) -> (Vec<ShareStatus>, u64) {
        let known = &mut *lock(&self.0);
        (known.shares.status(now), known.stories.count())
    }

    /// Returns the kept stories, oldest first.
    pub(crate) fn stories(&self) -> Vec<StoryStatus> {
        lock(&self.0).stories.status()
    }
}

/// Records the blocks of a session.
#[derive(Debug)]
pub(crate) struct Recorder {
    clock: Clock,
    session: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Blocks whose story has not ended, by id.
    open: HashMap<u64, (Arc<Reasons>, Story)>,
    /// Blocks that have ended since the last call of [`Recorder::digest`], which may still return
    /// decisions about them.
    ended: Vec<Ended>,
    /// Decisions about blocks that are not open, because they may be registered a moment later.
    early: Vec<DecisionLog>,
    /// Names of the paths, by id.
    names: HashMap<PathId, Arc<str>>,
    /// Half of the smallest round trip, the minimum delay of an acknowledgement.
    one_way: Span,
    /// The session has ended: there are no further decisions.
    is_closed: bool,
}

#[derive(Clone, Copy, Debug)]
struct Ended {
    block: u64,
    outcome: Outcome,
    at: Time,
    bytes: usize,
}

impl Recorder {
    pub(crate) fn new(clock: Clock, session: u64) -> Self {
        Self { clock, session, state: Mutex::default() }
    }

    /// Registers a block that the session has accepted: `number` in its flow, `block` in the
    /// session.
    pub(crate) fn begin(
        &self,
        reasons: &Arc<Reasons>,
        (class, stamp, latency): (Class, Time, Span),
        number: u64,
        block: u64,
    ) {
        let state = &mut *lock(&self.state);
        if state.open.len() < MAX_OPEN && !state.is_closed {
            let story = Story::new(class, stamp, latency, self.session, Some(number));
            state.open.insert(block, (reasons.clone(), story));
        }
    }

    /// Records the end of a block.
    pub(crate) fn end(&self, block: u64, outcome: Outcome, at: Option<Instant>, bytes: usize) {
        let at = at.map_or_else(|| self.clock.now(), |at| self.clock.at(at));
        let state = &mut *lock(&self.state);
        if !state.open.contains_key(&block) {
            return;
        }
        let ended = Ended { block, outcome, at, bytes };
        if state.is_closed { state.finish(ended) } else { state.ended.push(ended) }
    }

    /// Processes the entries that the session has logged since the last call. `names` are those of
    /// its paths, `one_way` their smallest delay.
    pub(crate) fn digest(
        &self,
        session: &squall::Session,
        names: impl Iterator<Item = (PathId, String)>,
        one_way: Span,
    ) {
        // All decisions about blocks that have already ended are in the entries taken next.
        let ended = mem::take(&mut lock(&self.state).ended);
        let taken = session.take_reasons();
        let state = &mut *lock(&self.state);
        state.one_way = one_way;
        for (id, name) in names {
            if state.names.get(&id).is_none_or(|known| **known != *name) {
                state.names.insert(id, name.into());
            }
        }
        if let Some(squall::Reasons { epoch, decisions, losses }) = taken {
            state.add(self.clock.at(epoch).since_epoch(), decisions, losses);
        } else {
            state.is_closed = true;
        }
        ended.into_iter().for_each(|ended| state.finish(ended));
    }

    /// Ends the recording of a session that has ended.
    pub(crate) fn close(&self) {
        let state = &mut *lock(&self.state);
        state.is_closed = true;
        mem::take(&mut state.ended).into_iter().for_each(|ended| state.finish(ended));
    }
}

impl State {
    /// Adds decisions and losses, with times relative to `epoch`.
    fn add(&mut self, epoch: Span, decisions: Vec<DecisionLog>, losses: Vec<LossLog>) {
        let mut losses = losses.into_iter().peekable();
        let early = mem::take(&mut self.early).into_iter().map(|entry| (entry, true));
        for (entry, is_second) in early.chain(decisions.into_iter().map(|entry| (entry, false))) {
            while let Some(loss) = losses.next_if(|loss| loss.at <= entry.at) {
                self.add_loss(epoch, &loss);
            }
            if !self.add_decision(epoch, &entry) && !is_second && self.early.len() < MAX_OPEN {
                self.early.push(entry);
            }
        }
        losses.for_each(|loss| self.add_loss(epoch, &loss));
    }

    fn name(&self, path: PathId) -> Arc<str> {
        self.names.get(&path).cloned().unwrap_or_else(|| format!("path {}", path.0).into())
    }

    /// Adds a decision. Returns `false` if its block is not registered.
    fn add_decision(&mut self, epoch: Span, entry: &DecisionLog) -> bool {
        let (block, what, path, reason, expected) = match &entry.decision {
            Decision::Send(one) => {
                (one.block, what(one.kind), Some(one.path), one.reason, one.forecast.map(|one| one.arrives))
            }
            Decision::Cancel { block, reason } => (*block, What::Cancel, None, *reason, None),
            Decision::Probe(_) | Decision::Idle { .. } => return true,
        };
        let path = path.map(|path| self.name(path));
        let Some((reasons, story)) = self.open.get_mut(&block.0) else { return false };
        let at = entry.at + epoch;
        if let Some(path) = path.as_ref().filter(|_| entry.taken > 0) {
            lock(&reasons.0).shares.add(at, path, what.name(), reason, entry.taken);
        }
        if entry.taken > 0 || path.is_none() {
            let expected = expected.map(|at| at + epoch);
            story.add(Step { at, until: at, what, path, bytes: entry.taken, reason, expected });
        }
        true
    }

    fn add_loss(&mut self, epoch: Span, loss: &LossLog) {
        let path = Some(self.name(loss.path));
        let Some((_, story)) = self.open.get_mut(&loss.block.0) else { return };
        let what = if loss.fate == PacketFate::Lost { What::Lost } else { What::Unknown };
        let (at, bytes) = (loss.at + epoch, u64::from(loss.range.end.saturating_sub(loss.range.start)));
        story.add(Step { at, until: at, what, path, bytes, reason: "", expected: None });
    }

    /// Ends the story of a block, and keeps it unless the block was delivered quickly.
    fn finish(&mut self, Ended { block, outcome, at, bytes }: Ended) {
        let Some((reasons, story)) = self.open.remove(&block) else { return };
        let took = at - story.stamp - self.one_way;
        let outcome = match outcome {
            Outcome::Delivered if took > story.latency => "late",
            Outcome::Delivered if took > story.latency / 2 => "slow",
            Outcome::Delivered => return,
            other => other.name(),
        };
        lock(&reasons.0).stories.end(story, outcome, bytes as u64, at);
    }
}

fn what(kind: WorkKind) -> What {
    match kind {
        WorkKind::Fresh => What::Fresh,
        WorkKind::Repair => What::Repair,
        WorkKind::Copy => What::Copy,
        WorkKind::Parity | WorkKind::RunParity => What::Parity,
    }
}

#[cfg(test)]
mod tests;
