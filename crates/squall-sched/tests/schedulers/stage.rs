//! A queue, a few paths and one scheduler, without a network: tests act as the network.

use std::ops::Range;

use squall_sched::{
    Assignment, Block, BlockId, BlockMeta, BlockQueue, Context, Decision, Parity, ParityFate, PathId,
    PathState, PathView, SchedEvent, Scheduler, SegmentState, Span, Time, WorkKind,
};
use squall_units::short::ms;

use crate::link::Link;

/// Payload of a packet on every path of a stage.
pub(crate) const CHUNK: u32 = 1200;

/// A packet as the scheduler assigned it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) block: BlockId,
    pub(crate) range: Range<u32>,
    pub(crate) path: u8,
    pub(crate) kind: WorkKind,
}

impl Packet {
    /// Returns the bytes of its payload; a symbol of parity counts as the largest.
    pub(crate) fn len(&self) -> u32 {
        let len = self.range.end - self.range.start;
        if self.kind.is_parity() { len * CHUNK } else { len }
    }
}

pub(crate) struct Stage {
    pub(crate) queue: BlockQueue,
    pub(crate) paths: Vec<PathView>,
    /// Time of the hand-over of blocks and of the sending of packets. It changes only when a test
    /// changes it.
    pub(crate) now: Time,
    /// Wake-up time of the last decision that sent nothing.
    pub(crate) wake: Option<Time>,
    /// Blocks that the scheduler cancelled, in order.
    pub(crate) cancelled: Vec<BlockId>,
    /// Number of blocks that links delivered too late.
    pub(crate) expired: usize,
    /// Paths that the scheduler wanted probed, in order.
    pub(crate) probed: Vec<u8>,
    /// Reasons of the packets sent, in order.
    pub(crate) reasons: Vec<&'static str>,
    /// Packets in flight, in the order of sending.
    pub(crate) flying: Vec<Flight>,
    /// One link for each path id, on a stage with links.
    pub(crate) links: Vec<Link>,
    is_paced: bool,
    scheduler: Box<dyn Scheduler>,
    next_id: u64,
    /// The events that the scheduler receives next.
    events: Vec<SchedEvent>,
}

/// A packet in flight.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    pub(crate) packet: Packet,
    /// Time of departure; `None` while it waits for the pacer.
    pub(crate) left: Option<Time>,
    /// Due time of its acknowledgement, and its one-way delay; `None` if a link dropped it.
    pub(crate) due: Option<(Time, Span)>,
    /// Its path fell silent, and its reliable bytes count as lost.
    pub(crate) presumed_lost: bool,
}

/// A block as a test requests it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) len: u32,
    /// In milliseconds from now.
    pub(crate) deadline: Option<u64>,
    pub(crate) priority: u8,
    pub(crate) reliable: bool,
    /// `None` for the usual value of its priority.
    pub(crate) value: Option<u16>,
    pub(crate) needs: [Option<BlockId>; 2],
}

/// A reliable block of the highest priority without a deadline.
pub(crate) const fn block(len: u32) -> Wanted {
    Wanted { len, deadline: None, priority: 0, reliable: true, value: None, needs: [None; 2] }
}

impl Stage {
    /// Creates a stage with one path for each (bandwidth in kbps, one-way delay in ms), windows
    /// that never fill, and a pacer that releases packets at the bandwidth: sent packets wait until
    /// [`Self::elapse`].
    pub(crate) fn paced(scheduler: &str, paths: &[(u64, u64)]) -> Self {
        let mut stage = Self::new(scheduler, &vec![(1, 1 << 30); paths.len()]);
        for (view, (kbps, owd)) in stage.paths.iter_mut().zip(paths) {
            view.bandwidth = kbps * 1000;
            (view.srtt, view.owd) = (ms(2 * owd), ms(*owd));
        }
        stage.is_paced = true;
        stage
    }

    /// Advances the time; paths send the packets that wait.
    pub(crate) fn elapse(&mut self, span: Span) {
        self.now += span;
        for view in &mut self.paths {
            view.waiting = view.waiting.saturating_sub(view.bandwidth * span.micros() / 8_000_000);
        }
    }

    /// Creates a stage with one path for each (smoothed RTT in ms, window in packets).
    pub(crate) fn new(scheduler: &str, paths: &[(u64, u64)]) -> Self {
        Self::of(crate::registry().build(scheduler).expect("scheduler exists"), paths)
    }

    /// Like [`Self::new`], with a scheduler that was built.
    pub(crate) fn of(scheduler: Box<dyn Scheduler>, paths: &[(u64, u64)]) -> Self {
        let path = |(id, (rtt, packets)): (u8, &(u64, u64))| {
            PathView::example(id, ms(*rtt), packets * u64::from(CHUNK))
        };
        Self {
            queue: BlockQueue::new(),
            paths: (0..).zip(paths).map(path).collect(),
            now: Time::EPOCH,
            wake: None,
            cancelled: Vec::new(),
            expired: 0,
            probed: Vec::new(),
            reasons: Vec::new(),
            flying: Vec::new(),
            links: Vec::new(),
            is_paced: false,
            events: Vec::new(),
            scheduler,
            next_id: 0,
        }
    }

    /// Returns the paths that the scheduler would use now.
    pub(crate) fn carriers(&self) -> Vec<u8> {
        let in_use = self.paths.iter().map(|path| (path.id, path.metered));
        self.scheduler.profile().sharing.carriers(in_use).iter().map(|path| path.0).collect()
    }

    pub(crate) fn reliable(&mut self, len: u32) -> BlockId {
        self.hand_over(block(len))
    }

    pub(crate) fn unreliable(&mut self, len: u32) -> BlockId {
        self.hand_over(Wanted { reliable: false, ..block(len) })
    }

    pub(crate) fn hand_over(&mut self, wanted: Wanted) -> BlockId {
        self.hand_over_on(0, wanted)
    }

    pub(crate) fn hand_over_on(&mut self, channel: u16, wanted: Wanted) -> BlockId {
        let id = BlockId(self.next_id);
        self.next_id += 1;
        self.queue.insert(BlockMeta {
            id,
            len: wanted.len,
            deadline: wanted.deadline.map(|millis| self.now + ms(millis)),
            priority: wanted.priority,
            reliable: wanted.reliable,
            partial: false,
            channel,
            submitted: self.now,
            value: wanted.value.unwrap_or(BlockMeta::usual_value(wanted.priority)),
            needs: wanted.needs,
        });
        self.events.push(SchedEvent::Queued(id));
        self.notify();
        id
    }

    /// Opens a block that grows.
    pub(crate) fn open(&mut self, wanted: Wanted) -> BlockId {
        let id = BlockId(self.next_id);
        self.next_id += 1;
        let Wanted { len, deadline, priority, reliable, value, needs } = wanted;
        let deadline = deadline.map(|millis| self.now + ms(millis));
        let value = value.unwrap_or(BlockMeta::usual_value(priority));
        let meta = BlockMeta {
            id,
            len,
            deadline,
            priority,
            reliable,
            partial: false,
            channel: 0,
            submitted: self.now,
            value,
            needs,
        };
        self.queue.open(meta, None);
        self.events.push(SchedEvent::Queued(id));
        self.notify();
        id
    }

    /// Appends bytes to a growing block.
    pub(crate) fn grow(&mut self, block: BlockId, bytes: u32) {
        let Some(len) = self.queue.get(block).map(|b| b.meta().len) else { return };
        self.queue.grow(block, bytes);
        self.events.push(SchedEvent::Grew { block, range: len..len + bytes });
        self.notify();
    }

    /// Makes the length of a growing block final.
    pub(crate) fn finish(&mut self, block: BlockId) {
        let Some(len) = self.queue.get(block).map(|b| b.meta().len) else { return };
        self.queue.finish(block);
        self.events.push(SchedEvent::Grew { block, range: len..len });
        self.notify();
        if !self.links.is_empty() && self.queue.get(block).is_some_and(Block::is_complete) {
            self.remove(block);
        }
    }

    /// Asks until there is something to send, and sends one packet of it; `None` when the scheduler
    /// has nothing. An assignment must keep the contract, whatever the scheduler: room on the path,
    /// and bytes in the state that its kind names.
    pub(crate) fn send(&mut self) -> Option<Packet> {
        let assignment = self.decide()?;
        let (is_parity, is_run) = (assignment.kind.is_parity(), assignment.kind == WorkKind::RunParity);
        let most = match assignment.kind {
            // A run is fixed when it begins, so it leaves at once.
            WorkKind::RunParity => u32::MAX,
            WorkKind::Parity => 1,
            WorkKind::Fresh | WorkKind::Repair | WorkKind::Copy => CHUNK,
        };
        let assignment = assignment.at_most(most);
        self.reasons.push(assignment.reason);
        let block = self.queue.get(assignment.block).expect("assigned block is in the queue");
        let end = block.parity().filter(|_| is_parity).map_or(block.meta().len, Parity::symbols);
        let run: Vec<_> = self.queue.run_from(assignment.block).map(|block| block.meta().id).collect();
        assert!(!is_run || run.first() == Some(&assignment.block), "{assignment:?} is of no run");
        assert!(!assignment.range.is_empty() && assignment.range.end <= end, "{assignment:?}");
        let segments = block.segments_from(assignment.range.start).iter();
        for segment in segments.take_while(|s| s.start < assignment.range.end && !is_parity) {
            let fits = match assignment.kind {
                WorkKind::Fresh => segment.state == SegmentState::Fresh,
                WorkKind::Repair => segment.state == SegmentState::Lost && block.meta().reliable,
                WorkKind::Copy => {
                    segment.state == SegmentState::Sent && !segment.in_flight.contains(assignment.path)
                }
                WorkKind::Parity | WorkKind::RunParity => true,
            };
            assert!(fits, "{assignment:?} does not fit {segment:?}");
        }
        let waits = self.is_paced || !self.links.is_empty();
        let left = Some(self.now).filter(|_| self.links.is_empty());
        let view = self.path(assignment.path.0);
        let path = assignment.path.0;
        let packet =
            Packet { block: assignment.block, range: assignment.range.clone(), path, kind: assignment.kind };
        let bytes = u64::from(packet.len());
        assert!(view.has_room(), "{assignment:?} on a full path");
        view.waiting += if waits { bytes } else { 0 };
        view.in_flight += bytes;
        view.budget = view.budget.map(|left| left.saturating_sub(bytes));
        if is_run {
            run.iter().for_each(|id| self.queue.mark_in_run(*id, true));
        } else if is_parity {
            let symbols = assignment.range.clone();
            let sent = self.queue.mark_parity_sent(assignment.block, symbols);
            assert_eq!(sent, assignment.range, "parity that was sent, or that the peer has no room for");
        } else {
            self.queue.mark_sent(assignment.block, assignment.range, assignment.path, self.now);
        }
        self.flying.push(Flight { packet: packet.clone(), left, due: None, presumed_lost: false });
        Some(packet)
    }

    /// Returns the next assignment, clipped to the window. Cancelled blocks are removed.
    pub(crate) fn decide(&mut self) -> Option<Assignment> {
        for _ in 0..10_000 {
            let cx = Context { now: self.now, queue: &self.queue, paths: &self.paths };
            match self.scheduler.next(&cx) {
                Decision::Send(assignment) => {
                    let path = cx.path(assignment.path).expect("assigned path exists");
                    assert!(path.has_room(), "{assignment:?} on a full path");
                    let is_parity = assignment.kind.is_parity();
                    let clip = if is_parity { PathView::clip_parity } else { PathView::clip };
                    let range = clip(path, &assignment.range);
                    return Some(Assignment { range, ..assignment });
                }
                Decision::Cancel { block, .. } => {
                    self.cancelled.push(block);
                    self.remove(block);
                }
                Decision::Probe(path) => self.probed.push(path.0),
                Decision::Idle { wake } => {
                    self.wake = wake;
                    return None;
                }
            }
        }
        panic!("the scheduler does not come to a decision");
    }

    /// Reports from the peer that a block stalled, if the scheduler requests such reports.
    pub(crate) fn stall(&mut self, block: BlockId) {
        if self.scheduler.profile().wants_stalls {
            self.events.push(SchedEvent::Stalled(block));
            self.notify();
        }
    }

    /// Removes a block, as the session does when it has ended.
    pub(crate) fn remove(&mut self, block: BlockId) {
        let taken = self.queue.remove(block).expect("only unfinished blocks end");
        self.events.push(SchedEvent::Done { block, delivered: taken.is_complete() });
        self.notify();
    }

    /// Sends until the scheduler has nothing more.
    pub(crate) fn send_all(&mut self) -> Vec<Packet> {
        let packets: Vec<_> = std::iter::from_fn(|| self.send()).take(10_000).collect();
        assert!(packets.len() < 10_000, "the scheduler does not come to an end");
        packets
    }

    pub(crate) fn arrive(&mut self, packet: &Packet) {
        self.land(packet);
        if self.mark_parity(packet, ParityFate::Acked) {
            return self.notify();
        }
        self.queue.mark_acked(packet.block, packet.range.clone());
        let (block, range, path) = (packet.block, packet.range.clone(), PathId(packet.path));
        self.events.push(SchedEvent::Acked { block, range, path });
        self.notify();
    }

    /// Loses a packet. If it was presumed lost before, only its unreliable bytes are newly lost.
    pub(crate) fn lose(&mut self, packet: &Packet) {
        let was_presumed = self.land(packet).is_some_and(|flight| flight.presumed_lost);
        if !was_presumed || !self.is_reliable(packet.block) {
            self.mark_lost(packet);
        }
        self.notify();
    }

    pub(crate) fn take_back(&mut self, packet: &Packet) {
        self.land(packet);
        self.mark_unsent(packet);
        self.notify();
    }

    /// Makes the path silent, in the order of the session: bytes that have not left are taken back,
    /// reliable bytes in flight are presumed lost, the path changes, and then the scheduler
    /// receives the events.
    pub(crate) fn suspect(&mut self, id: u8) {
        (self.path(id).usable, self.path(id).state) = (false, PathState::Suspect);
        self.uncommit(id);
        let on_it = |flight: &&mut Flight| flight.packet.path == id && !flight.presumed_lost;
        let mut presumed = Vec::new();
        for flight in self.flying.iter_mut().filter(on_it) {
            flight.presumed_lost = true;
            presumed.push(flight.packet.clone());
        }
        presumed.retain(|packet| self.is_reliable(packet.block));
        presumed.iter().for_each(|packet| self.mark_lost(packet));
        self.events.push(SchedEvent::PathChanged(PathId(id)));
        self.notify();
    }

    /// Deactivates the path by its radio: bytes that have not left are taken back, the fate of the
    /// others is open.
    pub(crate) fn lose_path(&mut self, id: u8) {
        (self.path(id).usable, self.path(id).state) = (false, PathState::Deactivated);
        self.uncommit(id);
        self.events.push(SchedEvent::PathChanged(PathId(id)));
        self.notify();
    }

    /// Closes the path: its packets have no fate.
    pub(crate) fn close_path(&mut self, id: u8) -> PathView {
        self.uncommit(id);
        for flight in self.flying.extract_if(.., |flight| flight.packet.path == id).collect::<Vec<_>>() {
            if !flight.presumed_lost || !self.is_reliable(flight.packet.block) {
                self.mark_lost(&flight.packet);
            }
        }
        let at = self.paths.iter().position(|p| p.id.0 == id).expect("path exists");
        let mut gone = self.paths.remove(at);
        gone.in_flight = 0;
        self.queue.forget_path(PathId(id));
        self.events.push(SchedEvent::PathChanged(PathId(id)));
        self.notify();
        gone
    }

    /// Readmits the path.
    pub(crate) fn readmit(&mut self, id: u8) {
        (self.path(id).usable, self.path(id).state) = (true, PathState::Active);
        self.events.push(SchedEvent::PathChanged(PathId(id)));
        self.notify();
    }

    fn uncommit(&mut self, id: u8) {
        let waits = |flight: &mut Flight| flight.packet.path == id && flight.left.is_none();
        let waiting: Vec<_> = self.flying.extract_if(.., waits).collect();
        for Flight { packet, .. } in waiting {
            let view = self.path(id);
            view.in_flight -= u64::from(packet.len());
            view.waiting = 0;
            self.mark_unsent(&packet);
        }
    }

    /// Removes the packet from those in flight.
    fn land(&mut self, packet: &Packet) -> Option<Flight> {
        self.path(packet.path).in_flight -= u64::from(packet.len());
        let at = self.flying.iter().position(|flight| flight.packet == *packet)?;
        Some(self.flying.remove(at))
    }

    /// Records the fate of a packet of parity; returns `false` for other packets.
    fn mark_parity(&mut self, packet: &Packet, fate: ParityFate) -> bool {
        let (block, symbols, path) = (packet.block, packet.range.clone(), PathId(packet.path));
        if packet.kind == WorkKind::Parity {
            self.queue.mark_parity(block, symbols.clone(), fate);
            self.events.push(SchedEvent::Parity { block, symbols, path, fate });
        }
        packet.kind.is_parity()
    }

    fn mark_lost(&mut self, packet: &Packet) {
        if self.mark_parity(packet, ParityFate::Lost) {
            return;
        }
        let (block, range, path) = (packet.block, packet.range.clone(), PathId(packet.path));
        self.queue.mark_lost(block, range.clone(), path);
        self.events.push(SchedEvent::Lost { block, range, path });
    }

    fn mark_unsent(&mut self, packet: &Packet) {
        if self.mark_parity(packet, ParityFate::Unsent) {
            return;
        }
        let (block, range, path) = (packet.block, packet.range.clone(), PathId(packet.path));
        self.queue.mark_unsent(block, range.clone(), path);
        self.events.push(SchedEvent::Unsent { block, range, path });
    }

    fn is_reliable(&self, block: BlockId) -> bool {
        self.queue.get(block).is_some_and(|block| block.meta().reliable)
    }

    pub(crate) fn path(&mut self, id: u8) -> &mut PathView {
        self.paths.iter_mut().find(|p| p.id.0 == id).expect("path exists")
    }

    /// Passes the events to the scheduler, once all have happened.
    fn notify(&mut self) {
        let cx = Context { now: self.now, queue: &self.queue, paths: &self.paths };
        for event in std::mem::take(&mut self.events) {
            self.scheduler.on_event(&event, &cx);
        }
    }
}

/// Returns the path of each packet.
pub(crate) fn paths_of(packets: &[Packet]) -> Vec<u8> {
    packets.iter().map(|p| p.path).collect()
}
