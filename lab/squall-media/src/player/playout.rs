//! The order of events at the receiver: which frame is decoded in which slot, and which is shown.

use std::collections::BTreeMap;

use super::{Frame, LatePolicy, PlayerConfig};
use crate::frame::{FrameKind, frame_time_us};

/// One frame of the stream and what happened in its slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub index: u64,
    pub captured_us: u64,
    /// When it is to be shown.
    pub due_us: u64,
    pub arrived_us: Option<u64>,
    /// Frames given to the decoder at `due_us`, in order.
    pub feed: Vec<u64>,
    /// How many of them can be decoded.
    pub decoded: u64,
    /// Whether the slot's own frame was there and could be decoded.
    pub shown: bool,
}

impl Slot {
    pub(super) fn in_time(&self) -> bool {
        self.arrived_us.is_some_and(|arrived| arrived <= self.due_us)
    }
}

/// Plays all slots from the lowest to the highest known frame.
pub(super) fn play(config: &PlayerConfig, frames: &BTreeMap<u64, Frame>) -> Vec<Slot> {
    let mut slots = layout(config, frames);
    match config.late {
        LatePolicy::Drop => play_dropping(&mut slots, frames),
        LatePolicy::Decode => play_decoding(&mut slots, frames),
    }
    slots
}

/// One slot for each frame; frames of which nothing is known lie at the nominal rate after the one before.
fn layout(config: &PlayerConfig, frames: &BTreeMap<u64, Frame>) -> Vec<Slot> {
    let Some((&first, frame)) = frames.first_key_value() else { return Vec::new() };
    let last = *frames.last_key_value().expect("there is a first one").0;
    let (mut known, mut known_us) = (first, frame.captured_us);
    let slot = |index| {
        let frame = frames.get(&index);
        if let Some(frame) = frame {
            (known, known_us) = (index, frame.captured_us);
        }
        let captured_us = known_us.saturating_add(frame_time_us(index - known, config.fps));
        Slot {
            index,
            captured_us,
            due_us: captured_us.saturating_add(config.deadline_us),
            arrived_us: frame.and_then(|frame| frame.arrived_us),
            feed: Vec::new(),
            decoded: 0,
            shown: false,
        }
    };
    (first..=last).map(slot).collect()
}

fn kind_of(frames: &BTreeMap<u64, Frame>, index: u64) -> FrameKind {
    frames.get(&index).map_or(FrameKind::Delta, |frame| frame.kind)
}

/// [`LatePolicy::Drop`]: every frame that is in time is given to the decoder, no other.
fn play_dropping(slots: &mut [Slot], frames: &BTreeMap<u64, Frame>) {
    let mut intact = false;
    for slot in slots {
        let kind = kind_of(frames, slot.index);
        if slot.in_time() {
            intact |= kind == FrameKind::Key;
            slot.feed.push(slot.index);
            slot.shown = intact;
            slot.decoded = u64::from(intact);
        } else {
            intact &= kind == FrameKind::Disposable;
        }
    }
}

/// [`LatePolicy::Decode`]: frames are decoded in order; one that is not there yet is waited for, until a
/// later key frame makes it needless.
fn play_decoding(slots: &mut [Slot], frames: &BTreeMap<u64, Frame>) {
    let Some(first) = slots.first().map(|slot| slot.index) else { return };
    let place = |index: u64| (index - first) as usize;
    let arrived: Vec<Option<u64>> = slots.iter().map(|slot| slot.arrived_us).collect();
    let keys: Vec<u64> = frames
        .iter()
        .filter(|(_, frame)| frame.kind == FrameKind::Key && frame.arrived_us.is_some())
        .map(|(&index, _)| index)
        .collect();
    let mut next = first;
    let mut started = false;
    for slot in slots {
        let is_here = |index: u64| arrived[place(index)].is_some_and(|arrived| arrived <= slot.due_us);
        while next <= slot.index {
            let kind = kind_of(frames, next);
            if is_here(next) && (started || kind == FrameKind::Key) {
                started = true;
                slot.feed.push(next);
                slot.shown = next == slot.index;
                next += 1;
            } else if kind == FrameKind::Disposable {
                next += 1;
            } else {
                let up_to_now = &keys[..keys.partition_point(|&key| key <= slot.index)];
                let later = up_to_now.iter().rev().take_while(|&&key| key > next);
                let Some(&key) = later.into_iter().find(|&&key| is_here(key)) else { break };
                next = key;
            }
        }
        slot.decoded = slot.feed.len() as u64;
    }
}
