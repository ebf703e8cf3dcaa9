//! User perceived ratio: share of the visible tiles that the viewer got.

use std::collections::VecDeque;

/// Bytes of the tiles in the viewport at the time when a picture is shown: those that arrived in
/// time, and those of the same tiles in full quality.
///
/// STORM (§5.5.1) defines the "user perceived ratio" as the bitrate that the user got, relative to
/// that of the video. Tiles outside the viewport give the viewer nothing, so both are restricted to
/// the viewport at display time.
#[derive(Debug, Default)]
pub(super) struct Perceived {
    /// Pictures that are not yet shown.
    open: VecDeque<Picture>,
    /// Bytes seen of the pictures that were shown.
    seen: u64,
    /// Bytes of the same tiles in full quality.
    full: u64,
}

#[derive(Debug)]
struct Picture {
    due_us: u64,
    /// Index of the first block.
    first: u64,
    /// Bytes of each block that will be seen; 0 if its tile is not seen or once it is counted.
    blocks: Vec<u64>,
    seen: u64,
    full: u64,
}

impl Perceived {
    /// Called when a picture is offered at `now_us` as blocks from `first` on, to be shown at
    /// `due_us`. `seen` has the bytes of each block whose tile is in the viewport then, else 0;
    /// `full` is the total of all such tiles in full quality.
    pub(super) fn on_picture(&mut self, now_us: u64, due_us: u64, first: u64, seen: Vec<u64>, full: u64) {
        while self.open.front().is_some_and(|picture| picture.due_us < now_us) {
            let shown = self.open.pop_front().expect("there is one");
            self.seen += shown.seen;
            self.full += shown.full;
        }
        self.open.push_back(Picture { due_us, first, blocks: seen, seen: 0, full });
    }

    pub(super) fn on_delivered(&mut self, index: u64, at_us: u64) {
        let place = self.open.partition_point(|picture| picture.first <= index);
        let Some(picture) = place.checked_sub(1).and_then(|place| self.open.get_mut(place)) else { return };
        let block = picture.blocks.get_mut((index - picture.first) as usize);
        if let Some(bytes) = block.filter(|_| at_us <= picture.due_us) {
            picture.seen += std::mem::take(bytes);
        }
    }

    /// Returns the ratio over the pictures due before `end_us`, if there are any.
    pub(super) fn ratio(&self, end_us: u64) -> Option<f64> {
        let due = self.open.iter().filter(|picture| picture.due_us < end_us);
        let sum = |(seen, full), picture: &Picture| (seen + picture.seen, full + picture.full);
        let (seen, full) = due.fold((self.seen, self.full), sum);
        (full > 0).then(|| crate::result::round6(seen as f64 / full as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pictures at 0, 30 and 60, shown 80 later. Each has a visible tile of 100 that is sent in
    /// full, a visible one of 100 of which half is sent, and one that is not visible.
    fn perceived() -> Perceived {
        let mut perceived = Perceived::default();
        for picture in 0..3 {
            perceived.on_picture(30 * picture, 30 * picture + 80, 3 * picture, vec![100, 50, 0], 200);
        }
        perceived
    }

    #[test]
    fn what_is_seen_counts_by_its_bytes() {
        let mut perceived = perceived();
        for index in [0, 1, 2, 3] {
            perceived.on_delivered(index, 70);
        }
        // 150 of 200, and 100 of 200; the third picture is not yet shown at 140.
        assert_eq!(perceived.ratio(140), Some(0.625));
        assert_eq!(perceived.ratio(141), Some(0.416_667));
        assert_eq!(perceived.ratio(80), None);
    }

    #[test]
    fn late_or_again_counts_nothing() {
        let mut perceived = perceived();
        perceived.on_delivered(0, 81);
        assert_eq!(perceived.ratio(100), Some(0.0));
        perceived.on_delivered(1, 80);
        perceived.on_delivered(1, 80);
        assert_eq!(perceived.ratio(100), Some(0.25));
    }

    #[test]
    fn shown_pictures_are_summed_up() {
        let mut perceived = perceived();
        perceived.on_delivered(0, 10);
        perceived.on_picture(1_000, 1_080, 9, vec![100], 100);
        perceived.on_delivered(0, 10);
        perceived.on_delivered(9, 1_001);
        assert_eq!(perceived.open.len(), 1);
        assert_eq!((perceived.ratio(1_000), perceived.ratio(2_000)), (Some(0.166_667), Some(0.285_714)));
    }
}
