//! What is measured of one path.

use std::{collections::BTreeMap, time::Instant};

use squall::{
    PathInfo, PathStats, sched,
    signal::{QualityIndex, Reading, SignalState},
};
use squall_lab::{
    Direction,
    result::{PathSample, PathState, PathTotals, thousandths},
};
use squall_net::{LinkState, live::PathSnapshot, radio::Air};

/// Samples over which a rate on the screen is the mean.
const RATE_SAMPLES: usize = 5;

/// What is kept of a path between two samples.
pub(super) struct Path {
    pub(super) now: PathNow,
    /// Bytes that came out of the link in the direction of the video, latest last.
    delivered: Vec<(Instant, u64)>,
    /// Last counters of the sending and of the receiving end, by the path's number: a path that is gone is
    /// not told of any more.
    pub(super) sending: BTreeMap<u32, PathStats>,
    pub(super) receiving: BTreeMap<u32, PathStats>,
    /// The index by which the client goes.
    heeded: Option<f64>,
}

/// A path as the screen shows it.
#[derive(Clone)]
pub(super) struct PathNow {
    pub(super) name: String,
    pub(super) state: PathState,
    pub(super) srtt_us: u64,
    /// What comes out of the link, in bits per second.
    pub(super) rate_bps: u64,
    /// The same at all samples so far.
    pub(super) rates: Vec<u64>,
    /// The link in the direction of the video, as the script has it now.
    pub(super) link: LinkState,
    /// Quality index of what the radio told last, 0 to 1, whether the session goes by it or not.
    pub(super) quality: Option<f64>,
    /// What the sender heard of the radio last; `None` if it goes by none.
    pub(super) signal: Option<SignalState>,
    /// What the link truly follows, if it has a radio.
    pub(super) air: Option<Air>,
}

/// The emulated link of a path and its radio at one moment.
pub(super) struct LinkNow {
    /// Both directions of the link.
    pub(super) snapshot: PathSnapshot,
    /// What the radio reported last.
    pub(super) reading: Option<Reading>,
    /// What the link truly follows.
    pub(super) air: Option<Air>,
}

impl Path {
    /// A path that nothing is known of yet, of a session that `heeds` its radios or not.
    pub(super) fn new(name: &str, heeds: bool) -> Self {
        let link =
            LinkState { rate: None, delay: 0, queue_bytes: 0, queue_packets: 0, flying: 0, outage: false };
        let now = PathNow {
            name: name.to_owned(),
            state: PathState::Opening,
            srtt_us: 0,
            rate_bps: 0,
            rates: Vec::new(),
            link,
            quality: None,
            signal: heeds.then_some(SignalState::Clear),
            air: None,
        };
        let (sending, receiving) = (BTreeMap::new(), BTreeMap::new());
        Self { now, delivered: Vec::new(), sending, receiving, heeded: None }
    }

    /// Takes what is known of link, radio and sending end, and the index that the client goes by.
    pub(super) fn on_sample(
        &mut self,
        at: Instant,
        link: &LinkNow,
        direction: Direction,
        sending: Option<&PathInfo>,
        heeded: Option<f64>,
    ) {
        let (state, stats) = match direction {
            Direction::Down => (&link.snapshot.down, &link.snapshot.down_stats),
            Direction::Up => (&link.snapshot.up, &link.snapshot.up_stats),
        };
        let told = link.reading.and_then(|reading| QualityIndex::default().base(&reading));
        self.now.quality = heeded.or(told);
        self.now.air = link.air;
        self.heeded = heeded;
        self.now.link = *state;
        self.delivered.push((at, stats.delivered.bytes));
        if self.delivered.len() > RATE_SAMPLES {
            self.delivered.remove(0);
        }
        let (first, last) = (self.delivered[0], (at, stats.delivered.bytes));
        let over = (last.0 - first.0).as_secs_f64();
        let bits = (last.1 - first.1) as f64 * 8.0;
        self.now.rate_bps = if over > 0.0 { (bits / over) as u64 } else { 0 };
        if let Some(info) = sending {
            self.now.srtt_us = info.stats.srtt.as_micros() as u64;
            self.now.state = state_of(info.stats.state);
        }
    }

    /// For the record.
    pub(super) fn sample(&self, direction: Direction, sending: Option<&PathInfo>) -> PathSample {
        let new = |stats: &PathStats| stats.data_received - stats.duplicate_bytes;
        let received: u64 = self.receiving.values().map(new).sum();
        let (down, up) = match direction {
            Direction::Down => (received, 0),
            Direction::Up => (0, received),
        };
        PathSample {
            delivered_down: down,
            delivered_up: up,
            srtt_us: sending.map_or(0, |info| info.stats.srtt.as_micros() as u64),
            in_flight: sending.map_or(0, |info| info.stats.in_flight),
            window: sending.map_or(0, |info| info.stats.window),
            queue: self.now.link.queue_bytes,
            link_bps: if self.now.link.outage { Some(0) } else { self.now.link.rate },
            state: match sending {
                Some(info) => state_of(info.stats.state),
                None if self.sending.is_empty() => PathState::Opening,
                None => PathState::Closed,
            },
            quality: self.heeded.map(thousandths),
            factor: thousandths(sending.map_or(1.0, |info| info.stats.signal_factor)),
            signal_bias: None,
        }
    }

    /// Counters of the whole run.
    pub(super) fn totals(&self, direction: Direction) -> PathTotals {
        let both = || self.sending.values().chain(self.receiving.values());
        let sum = |ends: &BTreeMap<u32, PathStats>| ends.values().map(|s| s.sent_bytes).sum();
        let (media, answers) = (sum(&self.sending), sum(&self.receiving));
        let (down, up) = match direction {
            Direction::Down => (media, answers),
            Direction::Up => (answers, media),
        };
        PathTotals {
            wire_bytes_down: down,
            wire_bytes_up: up,
            packets: both().map(|stats| stats.sent_packets).sum(),
            lost_packets: both().map(|stats| stats.lost_packets).sum(),
            retransmitted_bytes: both().map(|stats| stats.repair_bytes).sum(),
            reinjected_bytes: both().map(|stats| stats.copy_bytes).sum(),
            duplicate_bytes: both().map(|stats| stats.duplicate_bytes).sum(),
        }
    }
}

fn state_of(state: sched::PathState) -> PathState {
    match state {
        sched::PathState::Active => PathState::Active,
        sched::PathState::Suspect => PathState::Suspect,
        sched::PathState::Deactivated => PathState::Deactivated,
    }
}
