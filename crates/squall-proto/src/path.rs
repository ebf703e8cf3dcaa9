//! What a session knows of one path: packets in flight, delays, losses, rates, liveness.

use std::{collections::VecDeque, ops::Range};

use squall_sched::{BlockId, Micros, PathId, PathState, PathView, WorkKind};

use crate::{
    liveness::Liveness,
    metering::{Allowance, MAX_PACKET},
    pacer::Pacer,
    stats::PathStats,
    wire::{Cancel, RefuseReason, Stamp, TICK},
};

/// QUIC and UDP overhead of a packet beyond the payload of its chunk, rounded up: short header, packet
/// number, frame header and tag. The header of the chunk is reserved apart from it.
pub(crate) const PACKET_OVERHEAD: u32 = 40;

/// What a packet carried of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Payload {
    /// A range of a block.
    Chunk(Chunk),
    /// Repeated until acknowledged.
    Control(Control),
    /// A newer one replaces it.
    Fleeting,
}

/// A range of a block in a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) block: BlockId,
    pub(crate) range: Range<u32>,
    pub(crate) kind: WorkKind,
    /// The path it was meant for.
    pub(crate) path: PathId,
}

/// What must reach the peer, though it is no block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Control {
    Cancel(Cancel),
    Refused(BlockId, RefuseReason),
    /// Feedback because there is room again; made up when it leaves.
    Credit,
    /// What there is to tell of the path of that number; made up when it leaves.
    PathInfo(u32),
}

/// A packet whose fate is open.
#[derive(Clone, Debug)]
pub(crate) struct InFlight {
    pub(crate) sent_at: Micros,
    pub(crate) bytes: u16,
    pub(crate) payload: Option<Payload>,
    /// Further datagrams in the same packet.
    pub(crate) more: Vec<Payload>,
    /// A probe for a larger MTU: its loss says nothing about the path's health.
    pub(crate) is_mtu_probe: bool,
    /// Its chunk was given up for lost when the path fell silent; what noq says later about its loss is
    /// no news.
    pub(crate) presumed_lost: bool,
    /// What the path had delivered when it left.
    pub(crate) mark: Mark,
}

impl InFlight {
    /// Whether it began with a part of a block; what is added to a packet later never is one.
    fn has_chunk(&self) -> bool {
        matches!(self.payload, Some(Payload::Chunk(_)))
    }
}

/// Packets in flight on a path, by packet number.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    base: u64,
    packets: VecDeque<Option<InFlight>>,
    bytes: u64,
    /// Packets that carry a part of a block.
    chunks: usize,
}

/// Numbers that noq may skip between two packets; more would be a contract broken.
const MAX_GAP: u64 = 1 << 16;

impl Flight {
    pub(crate) fn insert(&mut self, packet: u64, entry: InFlight) {
        if self.packets.is_empty() {
            self.base = packet;
        }
        let Some(at) = packet.checked_sub(self.base).filter(|at| *at < self.packets.len() as u64 + MAX_GAP)
        else {
            debug_assert!(false, "packet numbers must grow, by small steps");
            return;
        };
        let at = at as usize;
        if at >= self.packets.len() {
            self.packets.resize_with(at + 1, || None);
        }
        self.bytes += u64::from(entry.bytes);
        self.chunks += usize::from(entry.has_chunk());
        self.packets[at] = Some(entry);
    }

    /// Adds a further datagram to a packet that is there already.
    pub(crate) fn add(&mut self, packet: u64, payload: Option<Payload>) {
        let at = packet.checked_sub(self.base).map(|at| at as usize);
        if let Some(Some(entry)) = at.and_then(|at| self.packets.get_mut(at)) {
            entry.more.extend(payload);
        }
    }

    pub(crate) fn take(&mut self, packet: u64) -> Option<InFlight> {
        let at = usize::try_from(packet.checked_sub(self.base)?).ok()?;
        let entry = self.packets.get_mut(at)?.take()?;
        self.bytes -= u64::from(entry.bytes);
        self.chunks -= usize::from(entry.has_chunk());
        while matches!(self.packets.front(), Some(None)) {
            self.packets.pop_front();
            self.base += 1;
        }
        Some(entry)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The oldest packet whose fate is open, with its number.
    pub(crate) fn first(&self) -> Option<(u64, &InFlight)> {
        Some((self.base, self.packets.front()?.as_ref()?))
    }

    /// Since when an acknowledgement is outstanding.
    pub(crate) fn waiting_since(&self) -> Option<Micros> {
        self.packets.iter().flatten().find(|p| !p.is_mtu_probe).map(|p| p.sent_at)
    }

    /// When the oldest packet with a part of a block left.
    pub(crate) fn data_waiting_since(&self) -> Option<Micros> {
        if self.chunks == 0 {
            return None;
        }
        self.packets.iter().flatten().find(|p| p.has_chunk()).map(|p| p.sent_at)
    }

    /// Number the next packet will have, or a later one.
    pub(crate) fn next_packet(&self) -> u64 {
        self.base + self.packets.len() as u64
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut InFlight> {
        self.packets.iter_mut().flatten()
    }

    /// Takes out everything, with packet numbers.
    pub(crate) fn drain(&mut self) -> Vec<(u64, InFlight)> {
        let first = self.base;
        self.bytes = 0;
        self.chunks = 0;
        self.base += self.packets.len() as u64;
        (first..).zip(self.packets.drain(..)).filter_map(|(number, entry)| Some((number, entry?))).collect()
    }
}

/// A path of a session.
#[derive(Debug)]
pub(crate) struct Path {
    pub(crate) id: PathId,
    /// Number on the wire.
    pub(crate) number: u32,
    /// When it was opened.
    opened: Micros,
    /// Validated: may carry data.
    pub(crate) up: bool,
    /// Costs money, says either side.
    pub(crate) metered: bool,
    /// What its budget leaves, if it has one.
    pub(crate) allowance: Option<Allowance>,
    pub(crate) flight: Flight,
    /// What a scheduler gave to the path and waits for the pacer.
    pub(crate) committed: VecDeque<Chunk>,
    /// Bytes of packets that will take.
    pub(crate) committed_bytes: u64,
    pub(crate) pacer: Pacer,
    pub(crate) rtt: Rtt,
    pub(crate) delay: Delay,
    /// When the peer last told the delay of a data packet, and what it is, in ticks; taken once a packet is
    /// acknowledged that it can be of.
    pub(crate) told_delay: Option<(Micros, u32)>,
    pub(crate) loss: LossWindow,
    pub(crate) delivery: RateMeter,
    pub(crate) bottleneck: Bottleneck,
    pub(crate) liveness: Liveness,
    /// Window as the controller says.
    pub(crate) window: u64,
    /// noq lets no data through before this, as far as is known: the path has moved and is being
    /// validated anew.
    pub(crate) blocked_until: Micros,
    /// The peer marked the path: it does not hear us there, or we do not hear it.
    pub(crate) remote_suspects: bool,
    /// Latest time of sending among the data that arrived on it.
    pub(crate) latest_sent: Option<Stamp>,
    /// When a packet last arrived on it.
    pub(crate) heard_at: Micros,
    /// When a packet with data last left on it.
    pub(crate) departed_at: Micros,
    pub(crate) stats: PathStats,
}

impl Path {
    pub(crate) fn new(id: PathId, number: u32, now: Micros) -> Self {
        Self {
            id,
            number,
            opened: now,
            up: false,
            metered: false,
            allowance: None,
            flight: Flight::default(),
            committed: VecDeque::new(),
            committed_bytes: 0,
            pacer: Pacer::default(),
            rtt: Rtt::default(),
            delay: Delay::default(),
            told_delay: None,
            loss: LossWindow::default(),
            delivery: RateMeter::default(),
            bottleneck: Bottleneck::default(),
            liveness: Liveness::default(),
            window: 0,
            blocked_until: 0,
            remote_suspects: false,
            latest_sent: None,
            heard_at: now,
            departed_at: now,
            stats: PathStats::default(),
        }
    }

    pub(crate) fn state(&self) -> PathState {
        if self.liveness.is_suspect() { PathState::Suspect } else { PathState::Active }
    }

    /// Whether its budget leaves nothing for data, nor for what can take another path.
    pub(crate) fn is_spent(&self) -> bool {
        self.allowance.is_some_and(|allowance| allowance.data < MAX_PACKET)
    }

    /// Packets that its budget leaves, of data.
    pub(crate) fn affordable(&self) -> usize {
        self.allowance.map_or(usize::MAX, |a| usize::try_from(a.data / MAX_PACKET).unwrap_or(usize::MAX))
    }

    /// What schedulers see of the budget. It is reckoned in the largest packets there can be and told in
    /// what a packet takes of the window, less what is assigned and has not left.
    fn budget(&self, chunk: u32) -> Option<u64> {
        let packets = self.allowance?.data / MAX_PACKET;
        Some((packets * u64::from(chunk + PACKET_OVERHEAD)).saturating_sub(self.committed_bytes))
    }

    /// When a probe of the suspected path is due; a path that can carry nothing is not probed.
    pub(crate) fn probe_at(&self) -> Option<Micros> {
        self.liveness.probe_at().filter(|_| !self.is_spent())
    }

    /// Since when it has been of no use: silent, or opened and never heard of.
    pub(crate) fn idle_since(&self) -> Option<Micros> {
        if self.up { self.liveness.suspect_since() } else { Some(self.opened) }
    }

    /// When the path is to be suspected, if nothing is acknowledged until then.
    ///
    /// Without data in flight a path is not suspected while packets arrive on it, unless the peer marked it:
    /// an acknowledgement that is missing then may have left on another path, which is the dead one.
    pub(crate) fn suspect_at(&self, silence: Micros) -> Option<Micros> {
        let (rtt, timeout) = (self.rtt.smoothed, self.rtt.probe_timeout());
        let after = |oldest| self.liveness.suspect_at(oldest, rtt, timeout, silence);
        let heard = if self.remote_suspects { 0 } else { self.heard_at + silence };
        let data = after(self.flight.data_waiting_since());
        let other = after(self.flight.waiting_since()).map(|at| at.max(heard));
        data.into_iter().chain(other).min()
    }

    /// Window, unless the path is on probation after an outage.
    pub(crate) fn effective_window(&self) -> u64 {
        self.liveness.cap(self.window)
    }

    pub(crate) fn in_flight(&self) -> u64 {
        self.flight.bytes() + self.committed_bytes
    }

    /// Whether the window leaves no room for a packet of `size`.
    pub(crate) fn is_full(&self, size: u64) -> bool {
        self.in_flight() + size > self.effective_window()
    }

    /// Window over smoothed RTT, unless the path was seen to deliver less when it was given more.
    fn bandwidth(&self, window: u64, now: Micros) -> u64 {
        let by_window = (window * 8_000_000).checked_div(self.rtt.smoothed).unwrap_or(0);
        self.bottleneck.rate(now).map_or(by_window, |limit| by_window.min(limit))
    }

    /// What schedulers see. `owd` is worked out over all paths.
    pub(crate) fn view(&self, now: Micros, chunk: u32, owd: Micros) -> PathView {
        let window = self.effective_window();
        PathView {
            id: self.id,
            state: self.state(),
            usable: self.up && !self.liveness.is_suspect() && self.blocked_until <= now,
            srtt: self.rtt.smoothed,
            latest_rtt: self.rtt.latest,
            min_rtt: self.rtt.min,
            rtt_dev: self.rtt.deviation,
            owd,
            window,
            in_flight: self.in_flight(),
            waiting: self.committed_bytes,
            chunk,
            overhead: PACKET_OVERHEAD,
            bandwidth: self.bandwidth(window, now),
            delivery_rate: self.delivery.bits_per_second(),
            loss: self.loss.ratio(),
            factor: 1.0,
            metered: self.metered,
            budget: self.budget(chunk),
            probe_timeouts: self.liveness.probe_timeouts(),
        }
    }
}

/// Round-trip time: smoothed, smallest, mean deviation (RFC 9002 §5.3, without the correction for
/// acknowledgement delay, since our receiver sends feedback at once).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rtt {
    pub(crate) smoothed: Micros,
    pub(crate) latest: Micros,
    pub(crate) min: Micros,
    pub(crate) deviation: Micros,
    sampled: bool,
}

impl Default for Rtt {
    fn default() -> Self {
        // RFC 9002 §6.2.2.
        Self { smoothed: 333_000, latest: 333_000, min: 333_000, deviation: 166_500, sampled: false }
    }
}

impl Rtt {
    /// What path validation found, until there are samples.
    pub(crate) fn seed(&mut self, rtt: Micros) {
        if !self.sampled {
            *self = Self { smoothed: rtt, latest: rtt, min: rtt, deviation: rtt / 2, sampled: false };
        }
    }

    pub(crate) fn sample(&mut self, rtt: Micros) {
        if self.sampled {
            self.latest = rtt;
            self.deviation = (3 * self.deviation + self.smoothed.abs_diff(rtt)) / 4;
            self.smoothed = (7 * self.smoothed + rtt) / 8;
            self.min = self.min.min(rtt);
        } else {
            *self = Self { smoothed: rtt, latest: rtt, min: rtt, deviation: rtt / 2, sampled: true };
        }
    }

    /// Probe timeout: the time by which an acknowledgement should have come (RFC 9002 §6.2.1).
    pub(crate) fn probe_timeout(&self) -> Micros {
        self.smoothed + (4 * self.deviation).max(1_000) + crate::feedback::MAX_DELAY
    }
}

/// One-way delay to the peer, up to the offset of its clock, which is the same for every path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delay {
    /// Ticks modulo 2²⁴ of the sample that `smoothed` counts from.
    reference: Option<u32>,
    /// Smoothed distance from the reference, in microseconds.
    smoothed: i64,
    /// The smallest it has been.
    least: i64,
}

impl Delay {
    pub(crate) fn sample(&mut self, ticks: u32) {
        let Some(reference) = self.reference else {
            *self = Self { reference: Some(ticks), smoothed: 0, least: 0 };
            return;
        };
        let distance = signed_ticks(ticks, reference) * TICK as i64;
        self.smoothed += (distance - self.smoothed) / 8;
        self.least = self.least.min(self.smoothed);
    }

    /// The same at its smallest.
    fn at_least(self) -> Self {
        Self { smoothed: self.least, ..self }
    }

    /// The same after a pause: a queue that nothing is added to drains, as far as it was ours.
    fn after_pause(self, pause: Micros) -> Self {
        let pause = i64::try_from(pause).unwrap_or(i64::MAX);
        Self { smoothed: self.smoothed.saturating_sub(pause).max(self.least), ..self }
    }

    /// How much longer this path takes than `other`, in microseconds.
    pub(crate) fn longer_than(&self, other: &Self) -> Option<i64> {
        let difference = signed_ticks(self.reference?, other.reference?) * TICK as i64;
        Some(difference + self.smoothed - other.smoothed)
    }
}

/// The distance between two stamps modulo 2²⁴, taken the short way round.
pub(crate) fn signed_ticks(a: u32, b: u32) -> i64 {
    let distance = i64::from(a.wrapping_sub(b) & 0xff_ffff);
    if distance >= 1 << 23 { distance - (1 << 24) } else { distance }
}

/// One-way delays of all paths. Their differences are exact; the level is such that the path that was
/// quickest of all, when it was at its quickest, took half of its smallest round trip.
pub(crate) fn one_way_delays(paths: &[Path], now: Micros) -> Vec<Micros> {
    let quickest = paths.iter().filter(|p| p.up).min_by(|a, b| {
        let difference = a.delay.at_least().longer_than(&b.delay.at_least()).unwrap_or(0);
        difference.cmp(&0).then(a.rtt.smoothed.cmp(&b.rtt.smoothed))
    });
    let base = quickest.map_or(0, |p| p.rtt.min / 2);
    let level = quickest.map(|p| p.delay.at_least());
    paths
        .iter()
        .map(|path| {
            let delay = path.delay.after_pause(now.saturating_sub(path.departed_at));
            let longer = level.and_then(|level| delay.longer_than(&level));
            longer.map_or(path.rtt.smoothed / 2, |longer| base.saturating_add_signed(longer))
        })
        .collect()
}

/// Share of packets lost over the last two seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LossWindow {
    /// Acknowledged and lost packets in slots of 250 ms.
    slots: [(u32, u32); LossWindow::SLOTS],
    slot: u64,
}

impl LossWindow {
    const SLOTS: usize = 8;
    const SLOT: Micros = 250_000;

    pub(crate) fn record(&mut self, now: Micros, lost: bool) {
        let slot = now / Self::SLOT;
        let steps = slot.saturating_sub(self.slot).min(Self::SLOTS as u64);
        for i in 0..steps {
            self.slots[((slot - i) % Self::SLOTS as u64) as usize] = (0, 0);
        }
        self.slot = self.slot.max(slot);
        let entry = &mut self.slots[(self.slot % Self::SLOTS as u64) as usize];
        if lost {
            entry.1 += 1;
        } else {
            entry.0 += 1;
        }
    }

    pub(crate) fn ratio(&self) -> f64 {
        let (acked, lost) = self.slots.iter().fold((0, 0), |sum, s| (sum.0 + s.0, sum.1 + s.1));
        if acked + lost == 0 { 0.0 } else { f64::from(lost) / f64::from(acked + lost) }
    }
}

/// Rate of acknowledged bytes, smoothed over about a quarter of a second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RateMeter {
    since: Micros,
    bytes: u64,
    rate: Option<f64>,
}

impl RateMeter {
    const INTERVAL: Micros = 50_000;
    /// Weight of a new interval.
    const WEIGHT: f64 = 0.25;

    pub(crate) fn record(&mut self, now: Micros, bytes: u64) {
        self.bytes += bytes;
        let elapsed = now.saturating_sub(self.since);
        if elapsed >= Self::INTERVAL {
            let rate = self.bytes as f64 * 8e6 / elapsed as f64;
            // After a pause the average says nothing.
            let known = self.rate.filter(|_| elapsed < 10 * Self::INTERVAL);
            self.rate = Some(known.map_or(rate, |old| old + Self::WEIGHT * (rate - old)));
            self.since = now;
            self.bytes = 0;
        }
    }

    pub(crate) fn bits_per_second(&self) -> u64 {
        self.rate.unwrap_or(0.0) as u64
    }
}

/// What a path had delivered when a packet left.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    delivered: u64,
    delivered_at: Micros,
    /// When the packet left that was acknowledged last.
    sent_at: Micros,
}

/// The rate at which a path delivers when it is given more than it can: that of its bottleneck.
///
/// Delivery rates are taken as BBR does (draft-cardwell-iccrg-bbr-congestion-control, §4.1), over the flight
/// of a packet. Only those count whose acknowledgements came more slowly than the packets had left: the
/// network was the limit, not the sender. The largest of the last few tenths of a second with samples stands,
/// since cross traffic and lumps of acknowledgements make samples too small and rarely too large; an older
/// one says little of a radio link, and none after two seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bottleneck {
    delivered: u64,
    delivered_at: Micros,
    sent_at: Micros,
    /// The largest rate of each slot of time, in bits per second.
    slots: [u64; Bottleneck::SLOTS],
    slot: u64,
}

impl Bottleneck {
    const SLOTS: usize = 20;
    const SLOT: Micros = 100_000;
    /// Slots over which the largest stands, counted back from the latest with samples.
    const LATEST: u64 = 3;
    /// Shorter samples drown in the lumps in which acknowledgements come.
    const SHORTEST: Micros = 10_000;

    /// For a packet that leaves now; `idle` when nothing else is in flight.
    pub(crate) fn mark(&mut self, now: Micros, idle: bool) -> Mark {
        if idle {
            // The time without anything to deliver is nobody's rate.
            self.delivered_at = now;
            self.sent_at = now;
        }
        Mark { delivered: self.delivered, delivered_at: self.delivered_at, sent_at: self.sent_at }
    }

    pub(crate) fn on_ack(&mut self, now: Micros, mark: &Mark, sent_at: Micros, bytes: u64) {
        self.delivered += bytes;
        self.delivered_at = now;
        self.sent_at = self.sent_at.max(sent_at);
        let arriving = now.saturating_sub(mark.delivered_at);
        let leaving = sent_at.saturating_sub(mark.sent_at);
        if arriving < Self::SHORTEST || arriving * 10 < leaving * 11 {
            return;
        }
        let rate = (self.delivered - mark.delivered) * 8_000_000 / arriving;
        self.turn_to(now / Self::SLOT);
        let largest = &mut self.slots[(self.slot % Self::SLOTS as u64) as usize];
        *largest = rate.max(*largest);
    }

    /// Bits per second; `None` if the path was not full of late.
    pub(crate) fn rate(&self, now: Micros) -> Option<u64> {
        let oldest = (now / Self::SLOT).saturating_sub(Self::SLOTS as u64 - 1);
        let at = |slot: u64| self.slots[(slot % Self::SLOTS as u64) as usize];
        let latest = (oldest..=self.slot).rev().find(|slot| at(*slot) > 0)?;
        (oldest.max(latest.saturating_sub(Self::LATEST - 1))..=latest).map(at).max()
    }

    fn turn_to(&mut self, slot: u64) {
        for old in 0..slot.saturating_sub(self.slot).min(Self::SLOTS as u64) {
            self.slots[((slot - old) % Self::SLOTS as u64) as usize] = 0;
        }
        self.slot = self.slot.max(slot);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn entry(bytes: u16) -> InFlight {
        InFlight {
            sent_at: 0,
            bytes,
            payload: None,
            more: Vec::new(),
            is_mtu_probe: false,
            presumed_lost: false,
            mark: Mark::default(),
        }
    }

    proptest! {
        #[test]
        fn the_flight_is_a_map_that_knows_its_bytes(ops in prop::collection::vec((1u64..4, any::<prop::sample::Index>(), 1u16..1500), 1..300)) {
            let mut flight = Flight::default();
            let mut model: BTreeMap<u64, u16> = BTreeMap::new();
            let mut next = 5;
            for (step, index, bytes) in ops {
                if bytes % 3 > 0 {
                    next += step;
                    flight.insert(next, entry(bytes));
                    model.insert(next, bytes);
                } else if !model.is_empty() {
                    let key = *model.keys().nth(index.index(model.len())).unwrap();
                    prop_assert_eq!(flight.take(key).map(|e| e.bytes), model.remove(&key));
                    prop_assert!(flight.take(key).is_none());
                }
                prop_assert_eq!(flight.bytes(), model.values().map(|b| u64::from(*b)).sum::<u64>());
                prop_assert_eq!(flight.first().map(|(n, _)| n), model.keys().next().copied());
                if let Some(last) = model.keys().last() {
                    prop_assert!(flight.next_packet() > *last);
                }
            }
            let rest: Vec<u64> = flight.drain().into_iter().map(|(n, _)| n).collect();
            prop_assert_eq!(rest, model.keys().copied().collect::<Vec<_>>());
            prop_assert_eq!(flight.bytes(), 0);
        }

        #[test]
        fn delays_are_compared_across_the_wrap(base in any::<u32>(), gap in -2_000_000i64..2_000_000) {
            let ticks = |micros: i64| (i64::from(base) + micros / TICK as i64) as u32 & 0xff_ffff;
            let (mut a, mut b) = (Delay::default(), Delay::default());
            for _ in 0..100 {
                a.sample(ticks(gap));
                b.sample(ticks(0));
            }
            prop_assert!((a.longer_than(&b).unwrap() - gap).abs() <= TICK as i64);
        }
    }

    #[test]
    fn one_way_delays_hold_the_queue_that_all_paths_have() {
        let path = |id, rtt, ticks: &[u32]| {
            let mut path = Path { up: true, ..Path::new(PathId(id), id.into(), 0) };
            path.rtt.sample(rtt);
            ticks.iter().for_each(|delay| (0..200).for_each(|_| path.delay.sample(delay / TICK as u32)));
            path
        };
        // 5 ms and 20 ms, then 60 ms more on both; the receiver's clock is 1 s ahead.
        let calm = [path(0, 10_000, &[1_005_000]), path(1, 40_000, &[1_020_000])];
        assert_eq!(one_way_delays(&calm, 0), [5_000, 20_000]);
        let queued = [path(0, 10_000, &[1_005_000, 1_065_000]), path(1, 40_000, &[1_020_000, 1_080_000])];
        for (owd, expected) in one_way_delays(&queued, 0).into_iter().zip([65_000, 80_000]) {
            assert!(owd.abs_diff(expected) < 100, "{owd}");
        }
        // A path that sends nothing drains.
        assert!(one_way_delays(&queued, 30_000)[0].abs_diff(35_000) < 100);
        assert_eq!(one_way_delays(&queued, 3_000_000), [5_000, 20_000]);
    }

    #[test]
    fn the_rtt_is_smoothed_as_rfc_9002_says() {
        let mut rtt = Rtt::default();
        rtt.seed(40_000);
        assert_eq!((rtt.smoothed, rtt.deviation), (40_000, 20_000));
        rtt.sample(80_000);
        assert_eq!((rtt.smoothed, rtt.deviation, rtt.min), (80_000, 40_000, 80_000));
        rtt.seed(1);
        rtt.sample(40_000);
        // 7/8 · 80 + 1/8 · 40 = 75 ms; 3/4 · 40 + 1/4 · |80 − 40| = 40 ms.
        assert_eq!((rtt.smoothed, rtt.deviation, rtt.min), (75_000, 40_000, 40_000));
    }

    #[test]
    fn losses_are_forgotten_after_two_seconds() {
        let mut loss = LossWindow::default();
        for i in 0..100 {
            loss.record(i * 10_000, i % 4 == 0);
        }
        assert!((loss.ratio() - 0.25).abs() < 0.01);
        for i in 0..100 {
            loss.record(2_000_000 + i * 10_000, false);
        }
        assert!(loss.ratio() < 0.15);
        loss.record(9_000_000, false);
        assert_eq!(loss.ratio(), 0.0);
    }

    /// Sends packets of 1,250 bytes every `send` µs over a link that takes `serve` µs for each, 20 ms round
    /// trip, and returns what is thought of the bottleneck.
    fn bottleneck(send: Micros, serve: Micros) -> Option<u64> {
        let mut bottleneck = Bottleneck::default();
        let (mut flying, mut served) = (VecDeque::new(), 0);
        for now in (0..3_000_000).step_by(50) {
            if now % send == 0 {
                served = served.max(now) + serve;
                let mark = bottleneck.mark(now, flying.is_empty());
                flying.push_back((served + 20_000, now, mark));
            }
            while let Some(&(_, sent, mark)) = flying.front().filter(|(at, ..)| *at <= now) {
                bottleneck.on_ack(now, &mark, sent, 1_250);
                flying.pop_front();
            }
        }
        bottleneck.rate(3_000_000)
    }

    #[test]
    fn a_full_path_tells_its_bottleneck() {
        // 1,250 bytes a millisecond, offered twice as fast.
        let rate = bottleneck(500, 1_000).expect("the path was full");
        assert!((9_500_000..10_500_000).contains(&rate), "{rate}");
    }

    #[test]
    fn a_path_that_keeps_up_tells_nothing() {
        assert_eq!(bottleneck(2_000, 1_000), None);
        assert_eq!(bottleneck(1_000, 1_000), None);
    }

    #[test]
    fn the_bottleneck_is_forgotten_after_two_seconds() {
        let mut bottleneck = Bottleneck::default();
        let mark = bottleneck.mark(0, true);
        bottleneck.on_ack(20_000, &mark, 0, 25_000);
        assert_eq!(bottleneck.rate(20_000), Some(10_000_000));
        assert_eq!(bottleneck.rate(1_990_000), Some(10_000_000));
        assert_eq!(bottleneck.rate(2_000_000), None);
    }

    #[test]
    fn the_delivery_rate_follows_the_bytes() {
        let mut meter = RateMeter::default();
        for i in 1..2_000 {
            meter.record(i * 1_000, 1_250);
        }
        // 1,250 bytes a millisecond.
        assert!((9_900_000..10_100_000).contains(&meter.bits_per_second()));
    }
}
