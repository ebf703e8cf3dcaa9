//! Asking the scheduler, and committing its answers.

use std::ops::Range;

use squall_sched::{Assignment, Block, Decision, PathSet, PathView, Time, WorkKind, capacity};

use super::{Session, views::Allowed};
use crate::{
    capacity::{is_unmeasured, predicted_rate},
    outbox::{Ending, SubqueueNumber},
    path::{Chunk, Life, PACKET_OVERHEAD, Path, one_way_delays},
    wire::{MAX_DATA_HEADER, MAX_REPAIR_HEADER, MAX_SYMBOL},
};

/// Bytes of acknowledgements that may share a packet with a chunk. noq pads packets of a batch by
/// up to 32 bytes, so a packet without them still fits the batch.
pub(super) const ACK_RESERVE: usize = 28;

/// Bytes of a packet beside a symbol of parity: the acknowledgements, and the header in its usual
/// size. The longest header fits without acknowledgements.
const SYMBOL_RESERVE: usize = ACK_RESERVE + 32;
const _: () = assert!(SYMBOL_RESERVE >= MAX_REPAIR_HEADER);

/// Largest number of consecutive decisions before packets are sent; the others follow at once.
const MAX_DECISIONS: usize = 64;

/// Blocks, by deadline, that are checked before each decision for whether they can still arrive.
const FRONT: usize = 32;

/// Share of lost packets on a path from which on data leaves in symbols: below it `squall` sends no
/// parity.
const LEAST_LOSS: f64 = 0.001;

/// Result of a decision.
enum Next {
    /// Data was assigned to a path.
    Assigned,
    /// Another decision was carried out.
    Decided,
    /// The decision cannot be carried out.
    Broken,
    /// Nothing to do before `wake`. `repaired` if data was assigned to repair paths.
    Idle { wake: Option<Time>, repaired: bool },
}

/// The part of an assignment that a path accepted.
pub(super) struct Taken {
    range: Range<u32>,
    /// Bytes of the block, or of parity.
    pub(super) bytes: u64,
}

impl Session {
    /// Lets the schedulers assign data to the windows. Returns `true` if anything was assigned.
    pub(super) fn decide(&mut self, now: Time) -> bool {
        // A session that only receives runs this for every packet.
        if self.outbox.open_blocks() == 0 && self.outbox.queue.events() == 0 {
            if self.duties.take_schedule(now) {
                self.views.skip(now);
                self.report_limits();
            }
            return false;
        }
        let symbol = self.largest_symbol();
        self.outbox.queue.set_largest_symbol(symbol);
        self.outbox.admit();
        if !self.duties.take_schedule(now) {
            return false;
        }
        self.refresh_views(now);
        self.watch_hints(now);
        self.expire_unreachable(now);
        self.notify_schedulers(now);
        let assigned = self.assign(now);
        self.report_limits();
        assigned
    }

    /// Takes decisions until all subqueues rest, or a limit is reached. Returns `true` if anything
    /// was assigned.
    fn assign(&mut self, now: Time) -> bool {
        let (mut assigned, mut wake, mut all_rest) = (false, None, false);
        self.outbox.queue.wake_all();
        for _ in 0..MAX_DECISIONS {
            let Some(subqueue) = self.outbox.queue.next() else { break };
            match self.decide_once(now, subqueue) {
                Next::Assigned => assigned = true,
                Next::Decided => {}
                Next::Broken => break,
                Next::Idle { wake: at, repaired } => {
                    assigned |= repaired;
                    wake = wake.into_iter().chain(at).min();
                    self.outbox.queue.rest(subqueue);
                    all_rest = self.outbox.queue.next().is_none();
                    if all_rest {
                        break;
                    }
                }
            }
        }
        // One subqueue may wait for a time, and the others may have ended with a decision.
        self.duties.schedule_at(wake.filter(|at| *at > now));
        if !all_rest {
            // More data can be assigned: continue after the next packets.
            self.duties.after_decisions(assigned);
        }
        assigned
    }

    /// Takes one decision of the scheduler of a subqueue.
    fn decide_once(&mut self, now: Time, subqueue: SubqueueNumber) -> Next {
        let allowed = self.allowed(now, subqueue);
        let mut decision = self.outbox.queue.ask(subqueue, now, &self.views.seen(allowed.all));
        let taken = match &mut decision {
            Decision::Send(assignment) => self.commit_by_role(now, assignment, allowed),
            _ => None,
        };
        self.log_decision(now, &decision, taken.as_ref().map_or(0, |taken| taken.bytes));
        match decision {
            Decision::Send(assignment) => {
                let Some(Taken { range, .. }) = taken else {
                    tracing::warn!(?assignment, "scheduler assigned what cannot be sent");
                    return Next::Broken;
                };
                self.hedge(now, &assignment, range, allowed);
                return Next::Assigned;
            }
            Decision::Cancel { block, reason } => self.end_block(now, block, Ending::Cancelled(reason)),
            Decision::Probe(path) => self.queue_probe(now, path, 0),
            Decision::Idle { wake } => {
                return Next::Idle { wake, repaired: self.repair_on_repair_paths(now, subqueue, allowed) };
            }
        }
        Next::Decided
    }

    /// Ends blocks that the paths cannot deliver before their deadline, because they would delay
    /// the others that wait.
    ///
    /// A block that has not begun to leave must be a round trip earlier, since the rate of a path
    /// changes before we detect it. The last block stays: a path that is given nothing is never
    /// measured again. Applies only where controllers estimate the rate: others keep queues of
    /// their own, which make the momentary delay a poor estimate.
    fn expire_unreachable(&mut self, now: Time) {
        if !self.config.switches().expire || self.outbox.queue.profile().judges_deadlines {
            return;
        }
        // A backup that carries nothing has no estimate, and needs none.
        let role = self.role_in_life();
        let carries = |path: &&Path| path.life.is_up() && path.role <= role;
        let is_estimated = self.conn.paths.iter().filter(carries).all(|path| path.capacity.is_some());
        let usable = || self.views.within(self.views.by_role().all).filter(|_| is_estimated);
        // The next packets need not wait for those that an only path has held.
        let Some(held) = usable().map(|view| view.held).min() else { return };
        let owd = usable().map(|view| view.owd).min().unwrap_or_default() - held;
        let rtt = usable().map(|view| view.srtt).min().unwrap_or_default() - held;
        let (at, seen) = (now, self.views.seen(self.views.by_role().all));
        let is_beyond = |block: &Block, deadline: Time| {
            let has_begun = block.unsent_bytes() < block.meta().len;
            let by = if has_begun { deadline } else { deadline - rtt };
            deadline < at + owd
                || u64::from(block.unsent_bytes()) > capacity::before(Some(by + held), at, &seen)
        };
        let mut front = self.outbox.queue.plain().by_deadline().take(FRONT).peekable();
        let mut late = Vec::new();
        while let Some(block) = front.next() {
            let Some(deadline) = block.meta().deadline.filter(|_| front.peek().is_some()) else { break };
            if is_beyond(block, deadline) {
                late.push(block.meta().id);
            }
        }
        drop(front);
        for id in late {
            self.end_block(now, id, Ending::Expired);
        }
    }

    fn notify_schedulers(&mut self, now: Time) {
        let events = self.outbox.queue.take_events();
        for subqueue in self.outbox.queue.numbers().filter(|_| !events.is_empty()) {
            let seen = self.views.seen(self.allowed(now, subqueue).all);
            self.outbox.queue.notify(subqueue, now, &events, &seen);
        }
    }

    /// Returns the payload of a block that fits one packet, whatever its header; or the largest
    /// symbol, while blocks leave in symbols.
    pub(super) fn chunk_size(&mut self) -> u32 {
        let chunk = self.conn.max_datagram().saturating_sub(MAX_DATA_HEADER) as u32;
        self.largest_symbol().filter(|_| self.outbox.cuts_symbols).unwrap_or(chunk)
    }

    /// Returns the largest symbol of parity, if the scheduler requests parity and the peer accepts
    /// it.
    fn largest_symbol(&mut self) -> Option<u32> {
        let most = self.conn.max_datagram().saturating_sub(SYMBOL_RESERVE) as u32;
        (self.outbox.queue.profile().wants_parity && self.peer.takes_parity())
            .then_some(most.min(MAX_SYMBOL) & !1)
    }

    /// Decides whether blocks leave in symbols: while a path has losses that parity can repair. A
    /// lost packet then costs one symbol and not two; but symbols of about equal size are shorter
    /// than packets, and make more of them. Parity itself does not need it (`docs/wire.md`): blocks
    /// in flight at the first loss have parity too.
    fn review_symbols(&mut self, now: Time) {
        let loses = |path: &Path| path.life.is_usable(now) && path.loss.at_present(now) >= LEAST_LOSS;
        self.outbox.cuts_symbols = self.conn.paths.iter().any(loses);
    }

    fn refresh_views(&mut self, now: Time) {
        self.refresh_allowances();
        self.review_symbols(now);
        let (chunk, control) = (self.chunk_size(), &self.config.congestion);
        let paths = self.conn.paths.iter();
        let delays = one_way_delays(paths.clone(), now);
        let mut usable: PathSet =
            paths.clone().filter(|path| path.life.is_usable(now)).map(|path| path.id).collect();
        if usable.is_empty() {
            usable = self.silent_paths(now);
        }
        let up = paths.zip(delays).filter(|(path, _)| path.life.is_up());
        let views = up.map(|(path, owd)| {
            let rate = predicted_rate(control, path, now);
            let is_unmeasured = is_unmeasured(control, path);
            let usable = usable.contains(path.id);
            (PathView { usable, is_unmeasured, ..path.view(now, chunk, owd, rate) }, path.role)
        });
        self.views.renew(now, views);
    }

    /// Returns the paths to use when every path is silent, or deactivated by its radio. Data is
    /// sent all the same, because a session that sends nothing would never detect a working path:
    /// on all paths that only a radio deactivates, each with its factor as under a warning, or else
    /// on the one with the latest proof of delivery.
    fn silent_paths(&self, now: Time) -> PathSet {
        let open = self.conn.paths.iter().filter(|path| path.life.is_up() && path.life.blocked_until <= now);
        let delivers = |life: &Life| !life.is_suspect() && !life.is_narrow();
        let latest = open
            .clone()
            .max_by_key(|path| (!path.life.is_suspect(), !path.life.is_narrow(), path.life.last_proof()));
        let latest = latest.map(|path| path.id);
        open.filter(|path| latest == Some(path.id) || delivers(&path.life)).map(|path| path.id).collect()
    }

    /// Commits an assignment to its path, clipped to the window. Returns the accepted part.
    pub(super) fn commit(&mut self, now: Time, assignment: &Assignment, allowed: Allowed) -> Option<Taken> {
        let most = self.conn.max_datagram();
        let view = self.views.with_room(assignment.path, allowed.of(assignment.kind))?;
        let path = self.conn.paths.get_mut(assignment.path)?;
        let block = self.outbox.queue.get(assignment.block)?;
        let (range, payload, bytes) = if assignment.kind.is_parity() {
            let range = view.clip_parity(&assignment.range);
            let (range, size) = if assignment.kind == WorkKind::RunParity {
                (0..range.end, self.outbox.begin_run(now, assignment.block, range.end, most)?)
            } else {
                let size = block.parity()?.symbol_size();
                (self.outbox.queue.of_mut(assignment.block).mark_parity_sent(assignment.block, range), size)
            };
            let symbols = range.end.saturating_sub(range.start);
            (range, u64::from(symbols) * u64::from(size), view.cost_parity(symbols, size))
        } else {
            let len = block.meta().len;
            let Range { start, end } = view.clip(&assignment.range);
            // If the window cuts the range, only whole symbols leave.
            let is_cut = end < assignment.range.end.min(len);
            let whole = block
                .symbol_end(0)
                .filter(|_| is_cut && self.outbox.cuts_symbols)
                .map(|size| end / size * size);
            let range = start..whole.filter(|whole| *whole > start).unwrap_or(end.min(len));
            self.outbox.queue.mark_sent(assignment.block, range.clone(), path.id, now);
            let len = range.end.saturating_sub(start);
            (range, u64::from(len), view.cost(len))
        };
        if range.is_empty() {
            return None;
        }
        let expected_at = now + view.arrives_in(0);
        self.views.commit(path.id, bytes);
        path.committed_bytes += bytes;
        path.committed.push_back(Chunk {
            block: assignment.block,
            range: range.clone(),
            bytes: 0,
            kind: assignment.kind,
            path: path.id,
            has_end: false,
            expected_at,
            assigned_at: now,
            written_at: Time::EPOCH,
        });
        Some(Taken { range, bytes: payload })
    }

    /// Copies data assigned to a path in doubt to the quickest other one: a failure of the path
    /// could not be detected yet, and this data must not depend on it. Large blocks are not copied,
    /// because their first packets alone are useless to the receiver.
    fn hedge(&mut self, now: Time, assignment: &Assignment, range: Range<u32>, allowed: Allowed) {
        if assignment.kind == WorkKind::Copy
            || assignment.kind.is_parity()
            || !self.outbox.queue.profile().may_hedge
        {
            return;
        }
        let paths = &self.conn.paths;
        let doubtful = |path: &Path| path.life.is_in_doubt(now, path.rtt.probe_timeout());
        let Some(path) = paths.get(assignment.path) else { return };
        let len = |block: &Block| block.meta().len + block.expected_bytes();
        let len = self.outbox.queue.get(assignment.block).map_or(0, len);
        if !doubtful(path) || !path.life.may_hedge(len.into()) {
            return;
        }
        let doubtful = |id| paths.get(id).is_some_and(doubtful);
        let others = self.views.within(allowed.of(WorkKind::Copy));
        let others = others.filter(|view| view.id != assignment.path && view.has_room());
        let Some(other) = others.min_by_key(|view| (doubtful(view.id), view.srtt, view.id)) else { return };
        let copy = Assignment {
            range,
            kind: WorkKind::Copy,
            path: other.id,
            reason: "nothing proves that the other path delivers",
            forecast: None,
            ..assignment.clone()
        };
        if let Some(Taken { bytes, .. }) = self.commit(now, &copy, allowed) {
            self.conn.paths[assignment.path].life.on_hedged(bytes);
            self.log_decision(now, &Decision::Send(copy), bytes);
        }
    }

    /// Reports to the controllers which of them are limited by their window: only those may grow.
    fn report_limits(&mut self) {
        let packet = u64::from(self.chunk_size() + PACKET_OVERHEAD);
        for path in self.conn.paths.iter() {
            path.quic.ledger.lock().window_limited =
                path.waits_for_window() && (!path.committed.is_empty() || path.is_full(packet));
        }
    }
}
