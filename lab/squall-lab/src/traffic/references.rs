//! Dependencies between frames by fixed rules.

use super::frame_type::FrameType;

/// References of I, P and B frames in the order of transmission.
#[derive(Debug, Default)]
pub(crate) struct Anchors {
    /// Number and display position of the last I or P frame.
    last: Option<(i64, i64)>,
    /// Number and display position of the I or P frame before it.
    before: Option<(i64, i64)>,
}

impl Anchors {
    /// Returns the dependencies of the frame with this number and display position: none for an I
    /// frame, the last I or P frame for a P frame, the same for a B frame and, if it is displayed
    /// before that one, also the I or P frame before.
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

/// References of layers, picture by picture, each with its layers in ascending order.
#[derive(Debug, Default)]
pub(crate) struct Layers {
    /// Latest block that was the lowest of its picture, by layer.
    lowest: [Option<i64>; LAYERS],
    /// Blocks of the previous picture, by layer.
    previous: [Option<i64>; LAYERS],
    /// Blocks of the current picture, by layer.
    current: [Option<i64>; LAYERS],
    /// Latest block of the current picture.
    below: Option<i64>,
    key: bool,
}

/// Maximum number of layers of a film.
pub(super) const LAYERS: usize = 8;

impl Layers {
    /// Starts the next picture; a key picture depends on no earlier one.
    pub(crate) fn begin(&mut self, key: bool) {
        self.previous = std::mem::take(&mut self.current);
        self.below = None;
        self.key = key;
    }

    /// Returns the dependencies of the block with this number: the next lower layer of its picture
    /// and, except in a key picture, the same layer of the previous picture. The lowest layer of a
    /// picture, if it is not layer 0 (temporal layers), depends on the latest lowest block of a
    /// lower layer; layer 0 depends on the latest block of layer 0.
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
        // Transmitted I P B B P B, displayed I B B P B P.
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
