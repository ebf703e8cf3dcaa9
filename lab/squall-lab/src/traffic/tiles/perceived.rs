//! What of the pictures a viewer gets to see.

use std::collections::VecDeque;

/// Bytes of the tiles in front of the viewer when a picture is shown: those that were there in time, and those of the
/// same tiles in full.
///
/// STORM (§5.5.1) calls "user perceived ratio" the bitrate that the user got over that of the video. A viewer gets
/// nothing of a tile that is not seen, so both are taken over what is in the viewport when the picture is shown.
#[derive(Debug, Default)]
pub(super) struct Perceived {
    /// Pictures that are not shown yet.
    open: VecDeque<Picture>,
    /// Bytes seen, and in full, of those that were shown.
    seen: u64,
    full: u64,
}

#[derive(Debug)]
struct Picture {
    due_us: u64,
    /// The first of its blocks.
    first: u64,
    /// Bytes of each of its blocks that will be seen; 0 once they are counted, or if the tile is not seen.
    blocks: Vec<u64>,
    seen: u64,
    full: u64,
}

impl Perceived {
    /// A picture is offered at `now_us` as blocks from `first` on, and shown at `due_us`. Of each block `seen` has the
    /// bytes of its tile if it is in front of the viewer then, else 0; all such tiles in full have `full` bytes.
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

    /// The share over the pictures that were to be shown before `end_us`, if there are any.
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

    /// Pictures at 0, 30 and 60, shown 80 later; each has a tile of 100 in front, sent in full, one of which half is
    /// sent, and one that is not seen.
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
        // 150 of 200, and 100 of 200; the third picture is not shown by 140.
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
