//! The frames that a frame cannot be decoded without, by rule.

use super::frame_type::FrameType;

/// References of I, P and B frames in the order in which they are sent.
#[derive(Debug, Default)]
pub(crate) struct Anchors {
    /// Number and place in the order of display of the last I or P frame.
    last: Option<(i64, i64)>,
    /// The same of the one before it.
    before: Option<(i64, i64)>,
}

impl Anchors {
    /// What the frame of this number needs, which is shown at this place: an I frame nothing, a P frame the last I
    /// or P frame, a B frame that one too and, if it is shown before it, the one before that.
    pub(crate) fn needs(&mut self, frame: FrameType, number: i64, place: i64) -> [Option<i64>; 2] {
        let needs = match frame {
            FrameType::I => [None, None],
            FrameType::P => [self.last, None],
            FrameType::B => {
                let between = self.last.is_some_and(|(_, last)| place < last);
                [self.last, self.before.filter(|_| between)]
            }
        };
        if frame.is_reference() {
            self.before = self.last.replace((number, place));
        }
        needs.map(|need| need.map(|(number, _)| number))
    }
}

/// References of layers, picture by picture, the layers of each from the lowest on.
#[derive(Debug, Default)]
pub(crate) struct Layers {
    /// By layer, the last block that is the lowest of its picture.
    lowest: [Option<i64>; LAYERS],
    /// By layer, the block of the picture before this one.
    previous: [Option<i64>; LAYERS],
    /// The same of this picture, and its last block.
    current: [Option<i64>; LAYERS],
    below: Option<i64>,
    key: bool,
}

/// Most layers of a film.
pub(super) const LAYERS: usize = 8;

impl Layers {
    /// The next picture begins; a key picture needs none before it.
    pub(crate) fn begin(&mut self, key: bool) {
        self.previous = std::mem::take(&mut self.current);
        self.below = None;
        self.key = key;
    }

    /// What the block of this number needs: the layer below it of its picture and, except in a key picture, the same
    /// layer of the picture before. The lowest one of a picture that is not of layer 0, as with temporal layers,
    /// needs the last lowest one of a layer below its own; that of layer 0 the last of layer 0.
    pub(crate) fn needs(&mut self, layer: u8, number: i64) -> [Option<i64>; 2] {
        let layer = usize::from(layer).min(LAYERS - 1);
        let reference = match self.below {
            _ if self.key => None,
            Some(_) => self.previous[layer],
            None => self.lowest[..layer.max(1)].iter().flatten().max().copied(),
        };
        let needs = [self.below, reference];
        if self.below.is_none() {
            self.lowest[layer] = Some(number);
        }
        self.current[layer] = Some(number);
        self.below = Some(number);
        needs
    }
}

#[cfg(test)]
mod tests {
    use super::FrameType::{B, I, P};
    use super::*;

    #[test]
    fn b_frames_need_both_sides() {
        // Sent I P B B P B, shown I B B P B P.
        let mut anchors = Anchors::default();
        let needs: Vec<_> = [(I, 0), (P, 3), (B, 1), (B, 2), (P, 5), (B, 4)]
            .into_iter()
            .enumerate()
            .map(|(number, (frame, place))| anchors.needs(frame, number as i64, place))
            .collect();
        let both = [Some(1), Some(0)];
        let expected = [[None, None], [Some(0), None], both, both, [Some(1), None], [Some(4), Some(1)]];
        assert_eq!(needs, expected);
        assert_eq!(anchors.needs(B, 6, 6), [Some(4), None], "nothing is shown after it");
    }

    #[test]
    fn quality_layers_need_the_one_below_and_the_one_before() {
        let mut layers = Layers::default();
        let mut needs = Vec::new();
        for picture in 0..3 {
            layers.begin(picture == 0);
            needs.extend((0..2).map(|layer| layers.needs(layer, 2 * picture + i64::from(layer))));
        }
        let expected = [
            [None, None],
            [Some(0), None],
            [None, Some(0)],
            [Some(2), Some(1)],
            [None, Some(2)],
            [Some(4), Some(3)],
        ];
        assert_eq!(needs, expected);
    }

    #[test]
    fn temporal_layers_need_the_last_lower_picture() {
        let mut layers = Layers::default();
        let needs: Vec<_> = [0, 2, 1, 2, 0]
            .into_iter()
            .enumerate()
            .map(|(number, layer)| {
                layers.begin(number == 0);
                layers.needs(layer, number as i64)[1]
            })
            .collect();
        assert_eq!(needs, [None, Some(0), Some(0), Some(2), Some(0)]);
    }
}
