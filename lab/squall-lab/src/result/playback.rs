//! Playback as a viewer would have seen it: pictures decoded in time, and stalls.

use serde::{Deserialize, Serialize};

use super::distribution::{Percentiles, Times};
use super::round6;
use crate::offer::{Frame, Offer};

/// Rate below which motion is not smooth, in pictures per second (STORM §5.5).
const SMOOTH_FPS: u64 = 24;

/// Playback of a film.
///
/// A picture is *ready* when its block and all its dependencies, direct and indirect, have arrived.
/// It is shown if it is ready by its deadline. A late picture still serves as a reference for later
/// ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Playback {
    /// Pictures with a deadline within the run.
    pub pictures: u64,
    /// Pictures that were shown.
    pub shown: u64,
    /// Mean rate of shown pictures per second over the run.
    pub mean_fps: f64,
    /// Pictures shown in each whole second.
    pub shown_per_second: Vec<u16>,
    /// Share of these seconds with fewer than 24 pictures, or fewer than the film's rate if that is
    /// lower. For a player with a buffer: share of seconds with a stall.
    pub below_smooth_ratio: f64,
    /// Number of stalls: the next picture was later than three picture intervals and than one
    /// interval plus 150 ms (`freezeCount` of the W3C's webrtc-stats).
    pub stalls: u64,
    /// Total duration of the stalls in microseconds.
    pub stall_us: u64,
    /// Duration of the longest stall in microseconds.
    pub longest_stall_us: u64,
    /// Rebuffering time in microseconds: number of pictures not shown multiplied by the picture
    /// interval (DAMS §V-A). For a player with a buffer: total time spent waiting for data.
    pub rebuffering_us: u64,
    /// Offered → ready, of all pictures that became ready, in time or late.
    pub picture_latency: Option<Percentiles>,
}

impl Playback {
    /// Evaluates a player with a buffer until `end_us`, from the common length of its segments, the
    /// times at which each began to play, the intervals of stalls with an empty buffer, and the
    /// time from request to arrival of each segment. Every segment that begins counts as a shown
    /// picture, and every wait as a stall, however short.
    pub(crate) fn of_segments(
        segment_us: u64,
        begun_us: &[u64],
        waits_us: &[(u64, u64)],
        fetches_us: &[u64],
        end_us: u64,
    ) -> Self {
        let first = begun_us.first().copied().unwrap_or(end_us);
        let seconds = end_us.saturating_sub(first) / 1_000_000;
        let mut shown_per_second = vec![0; seconds as usize];
        for begun in begun_us {
            if let Some(shown) = shown_per_second.get_mut(((begun - first) / 1_000_000) as usize) {
                *shown += 1;
            }
        }
        let stalled = |second: &u64| {
            let from = first + second * 1_000_000;
            waits_us.iter().any(|(since, until)| *since < from + 1_000_000 && *until > from)
        };
        let waited = waits_us.iter().map(|(since, until)| until - since);
        let stall_us: u64 = waited.clone().sum();
        let shown = begun_us.len() as u64;
        let mut fetches = Times::new();
        for fetch in fetches_us {
            fetches.record(*fetch);
        }
        Self {
            pictures: shown,
            shown,
            mean_fps: share(shown as f64 * 1e6, (shown * segment_us + stall_us) as f64),
            below_smooth_ratio: share((0..seconds).filter(stalled).count() as f64, seconds as f64),
            shown_per_second,
            stalls: waits_us.len() as u64,
            stall_us,
            longest_stall_us: waited.max().unwrap_or(0),
            rebuffering_us: stall_us,
            picture_latency: fetches.percentiles(),
        }
    }
}

/// Collects the pictures of one flow.
#[derive(Debug)]
pub(super) struct Pictures {
    interval_us: u64,
    /// Blocks in the order of the offers; `None` for blocks that are not pictures.
    blocks: Vec<Option<Block>>,
}

#[derive(Debug, Clone, Copy)]
struct Block {
    at_us: u64,
    deadline_us: Option<u64>,
    class: usize,
    frame: Frame,
    arrived_us: Option<u64>,
}

impl Pictures {
    pub(super) fn new(interval_us: u64) -> Self {
        Self { interval_us: interval_us.max(1), blocks: Vec::new() }
    }

    /// Called when the `index`th block of the flow is (part of) a picture.
    pub(super) fn on_offer(&mut self, index: u64, offer: &Offer, frame: Frame) {
        let Offer { at_us, deadline_us, class, .. } = *offer;
        self.blocks.resize(index as usize, None);
        self.blocks.push(Some(Block { at_us, deadline_us, class: class.into(), frame, arrived_us: None }));
    }

    pub(super) fn on_delivered(&mut self, index: u64, at_us: u64) {
        if let Some(Some(block)) = self.blocks.get_mut(index as usize) {
            block.arrived_us = Some(at_us);
        }
    }

    /// Classes of the blocks that could be decoded before their deadline, one entry per block.
    pub(super) fn decodable(&self, ready: &[Option<u64>]) -> impl Iterator<Item = usize> {
        let timely = |(block, ready): (&Option<Block>, &Option<u64>)| {
            let (block, ready) = ((*block)?, (*ready)?);
            let due = block.deadline_us.map(|deadline| block.at_us.saturating_add(deadline));
            due.is_none_or(|due| ready <= due).then_some(block.class)
        };
        self.blocks.iter().zip(ready).filter_map(timely)
    }

    pub(super) fn finish(self, ready: &[Option<u64>], end_us: u64) -> Playback {
        // Indexed by picture: `true` if it was shown, `None` if that is undecided at the end.
        let mut shown: Vec<Option<bool>> = Vec::new();
        let mut latency = Times::new();
        for (block, ready) in self.blocks.iter().zip(ready) {
            let Some(block) = block.as_ref().filter(|block| block.frame.base) else { continue };
            if let Some(ready) = ready {
                latency.record(ready.saturating_sub(block.at_us));
            }
            let due = block.deadline_us.map(|deadline| block.at_us.saturating_add(deadline));
            let verdict = match (ready, due) {
                (Some(ready), Some(due)) => Some(*ready <= due),
                (Some(_), None) => Some(true),
                (None, Some(due)) if due < end_us => Some(false),
                (None, _) => None,
            };
            let place = block.frame.picture as usize;
            if shown.len() <= place {
                shown.resize(place + 1, None);
            }
            shown[place] = verdict;
        }
        self.playback(&shown, latency.percentiles())
    }

    /// Returns the time at which each block could be decoded. Dependencies may be offered later
    /// than the block.
    pub(super) fn ready(&self) -> Vec<Option<u64>> {
        let mut ready: Vec<Option<Option<u64>>> = vec![None; self.blocks.len()];
        for first in 0..self.blocks.len() {
            let mut chain = vec![first];
            while let Some(&index) = chain.last() {
                let Some(block) = self.blocks[index].as_ref().filter(|_| ready[index].is_none()) else {
                    ready[index].get_or_insert(None);
                    chain.pop();
                    continue;
                };
                let needs = || block.frame.needs.iter().flatten().map(|need| *need as usize);
                let missing = needs()
                    .find(|need| ready.get(*need).is_some_and(Option::is_none) && !chain.contains(need));
                if let Some(missing) = missing {
                    chain.push(missing);
                    continue;
                }
                let all = needs().map(|need| ready.get(need).copied().flatten().flatten());
                ready[index] = Some(all.fold(block.arrived_us, |latest, need| Some(latest?.max(need?))));
                chain.pop();
            }
        }
        ready.into_iter().map(Option::flatten).collect()
    }

    fn playback(&self, shown: &[Option<bool>], picture_latency: Option<Percentiles>) -> Playback {
        let last = shown.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        let decided: Vec<bool> = shown[..last].iter().map(|verdict| verdict.unwrap_or(false)).collect();
        let count = decided.iter().filter(|shown| **shown).count() as u64;
        let pictures = decided.len() as u64;
        let per_second = (1_000_000 / self.interval_us).max(1) as usize;
        let shown_per_second: Vec<u16> = decided
            .chunks_exact(per_second)
            .map(|second| second.iter().filter(|shown| **shown).count() as u16)
            .collect();
        let smooth = SMOOTH_FPS.min(per_second as u64);
        let below = shown_per_second.iter().filter(|fps| u64::from(**fps) < smooth).count();
        let stalls = self.stalls(&decided);
        Playback {
            pictures,
            shown: count,
            mean_fps: share(count as f64 * 1e6, (pictures * self.interval_us) as f64),
            below_smooth_ratio: share(below as f64, shown_per_second.len() as f64),
            shown_per_second,
            stalls: stalls.len() as u64,
            stall_us: stalls.iter().sum(),
            longest_stall_us: stalls.iter().copied().max().unwrap_or(0),
            rebuffering_us: (pictures - count) * self.interval_us,
            picture_latency,
        }
    }

    /// Returns the duration of each stall, from the due time of the first missing picture to the
    /// next one shown.
    fn stalls(&self, decided: &[bool]) -> Vec<u64> {
        let least = (3 * self.interval_us).max(self.interval_us + 150_000);
        let gaps = decided.split(|shown| *shown).map(|missing| missing.len() as u64);
        gaps.filter(|missing| (missing + 1) * self.interval_us >= least)
            .map(|missing| missing * self.interval_us)
            .collect()
    }
}

fn share(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 0.0 } else { round6(part / whole) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offer::Class;

    const INTERVAL: u64 = 40_000;

    fn offer(pictures: &mut Pictures, index: u64, at_us: u64, deadline_us: Option<u64>, frame: Frame) {
        let offer = Offer { deadline_us, ..Offer::new(at_us, 1, 0, &Class::new("picture", true, 0)) };
        pictures.on_offer(index, &offer, frame);
    }

    fn finish(pictures: Pictures, end_us: u64) -> Playback {
        let ready = pictures.ready();
        pictures.finish(&ready, end_us)
    }

    fn film(count: u64) -> Pictures {
        let mut pictures = Pictures::new(INTERVAL);
        for index in 0..count {
            let frame = Frame::in_sequence(index, index.is_multiple_of(25));
            offer(&mut pictures, index, index * INTERVAL, Some(100_000), frame);
        }
        pictures
    }

    fn play(missing: impl Fn(u64) -> bool, delay_us: impl Fn(u64) -> u64) -> Playback {
        let mut pictures = film(100);
        for index in (0..100).filter(|index| !missing(*index)) {
            pictures.on_delivered(index, index * INTERVAL + delay_us(index));
        }
        finish(pictures, 10_000_000)
    }

    #[test]
    fn a_film_that_arrives_is_shown() {
        let playback = play(|_| false, |_| 30_000);
        assert_eq!((playback.pictures, playback.shown, playback.stalls), (100, 100, 0));
        assert_eq!((playback.mean_fps, playback.below_smooth_ratio), (25.0, 0.0));
        assert_eq!(playback.shown_per_second, [25; 4]);
        assert_eq!(playback.picture_latency.map(|all| all.max_us), Some(30_000));
    }

    #[test]
    fn a_missing_picture_takes_the_rest_of_its_group_along() {
        let playback = play(|index| index == 30, |_| 30_000);
        assert_eq!(playback.shown_per_second, [25, 5, 25, 25]);
        assert_eq!((playback.stalls, playback.stall_us), (1, 20 * INTERVAL));
        assert_eq!(playback.rebuffering_us, 20 * INTERVAL);
        assert_eq!(playback.below_smooth_ratio, 0.25);
    }

    #[test]
    fn a_late_picture_still_serves_the_next() {
        let playback = play(|_| false, |index| if index == 30 { 130_000 } else { 30_000 });
        // It came 130 ms after its own capture and 90 ms after that of the next one.
        assert_eq!((playback.shown, playback.stalls), (99, 0));
        let latency = playback.picture_latency.expect("pictures were ready");
        assert_eq!(latency.max_us, 130_000);
    }

    #[test]
    fn what_is_needed_may_be_sent_later() {
        // I0 P2 B1 in display order 0, 1, 2.
        let mut pictures = Pictures::new(INTERVAL);
        let frame = |picture, needs| Frame { picture, base: true, needs };
        offer(&mut pictures, 0, 0, Some(100_000), frame(0, [None, None]));
        offer(&mut pictures, 1, 0, Some(100_000), frame(1, [Some(0), Some(2)]));
        offer(&mut pictures, 2, 0, Some(100_000), frame(2, [Some(0), None]));
        for (index, at_us) in [(0, 10_000), (1, 20_000), (2, 90_000)] {
            pictures.on_delivered(index, at_us);
        }
        assert_eq!(pictures.ready(), [Some(10_000), Some(90_000), Some(90_000)]);
    }

    #[test]
    fn refinements_are_not_needed() {
        let mut pictures = Pictures::new(INTERVAL);
        offer(&mut pictures, 0, 0, Some(100_000), Frame { picture: 0, base: true, needs: [None; 2] });
        let refinement = Frame { picture: 0, base: false, needs: [Some(0), None] };
        offer(&mut pictures, 1, 0, Some(100_000), refinement);
        pictures.on_delivered(0, 10_000);
        assert_eq!(finish(pictures, 1_000_000).shown, 1);
    }

    #[test]
    fn what_is_open_at_the_end_is_not_counted() {
        let pictures = film(3);
        assert_eq!(finish(pictures, 100_000).pictures, 0);
        let playback = finish(film(3), 150_000);
        assert_eq!((playback.pictures, playback.shown), (2, 0));
    }

    #[test]
    fn the_waits_of_a_player_are_its_stalls() {
        // Segments of 400 ms from 100 ms on: three, a wait of 900 ms from 1.3 s to 2.2 s, two, and a wait to the end.
        let begun = [100_000, 500_000, 900_000, 2_200_000, 2_600_000];
        let waits = [(1_300_000, 2_200_000), (3_000_000, 3_150_000)];
        let playback = Playback::of_segments(400_000, &begun, &waits, &[60_000, 80_000], 3_150_000);
        assert_eq!(
            (playback.pictures, playback.shown, playback.shown_per_second.as_slice()),
            (5, 5, &[3, 0, 2][..])
        );
        assert_eq!((playback.stalls, playback.longest_stall_us), (2, 900_000));
        assert_eq!((playback.stall_us, playback.rebuffering_us), (1_050_000, 1_050_000));
        // From 1.1 to 2.1 s and from 2.1 to 3.1 s.
        assert_eq!((playback.below_smooth_ratio, playback.mean_fps), (0.666_667, 1.639_344));
        assert_eq!(playback.picture_latency.map(|all| (all.count, all.max_us)), Some((2, 80_000)));
        let nothing = Playback::of_segments(400_000, &[], &[], &[], 3_000_000);
        assert_eq!((nothing.pictures, nothing.mean_fps, nothing.below_smooth_ratio), (0, 0.0, 0.0));
    }

    #[test]
    fn a_circle_of_needs_is_never_ready() {
        let mut pictures = Pictures::new(INTERVAL);
        for (index, need) in [(0, 1), (1, 0)] {
            let frame = Frame { picture: index, base: true, needs: [Some(need), None] };
            offer(&mut pictures, index, 0, None, frame);
            pictures.on_delivered(index, 5);
        }
        assert!(pictures.ready().iter().all(Option::is_none));
    }
}
