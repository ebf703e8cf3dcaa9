//! Geometry of tiles and viewport.

use super::head::Direction;

/// Size of the viewport in degrees, as a rectangle of yaw and pitch. This is the projection of the
/// tiles, in which a viewport away from the horizon really covers more yaw.
#[derive(Debug, Clone, Copy, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Viewport {
    /// Width, above 0 and at most 360.
    pub width: f64,
    /// Height, above 0 and at most 180.
    pub height: f64,
}

impl Default for Viewport {
    fn default() -> Self {
        Self { width: 100.0, height: 90.0 }
    }
}

/// Tiles of equal size on the rectangle of yaw and pitch.
#[derive(Debug, Clone)]
pub(super) struct Grid {
    columns: u16,
    rows: u16,
    /// Width of a tile in degrees.
    width: f64,
    /// Height of a tile in degrees.
    height: f64,
    /// Half of the viewport plus half of a tile in each dimension: tiles overlap the viewport if
    /// their centres are closer than that.
    reach: (f64, f64),
}

/// Position of a tile relative to the viewport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ring {
    /// The tile is at least partly visible.
    Viewport,
    /// The tile is not visible, but a neighbour is.
    Margin,
    /// Any other tile.
    Outside,
}

impl Grid {
    pub(super) fn new(columns: u16, rows: u16, viewport: Viewport) -> Self {
        let (width, height) = (360.0 / f64::from(columns), 180.0 / f64::from(rows));
        let reach = ((viewport.width + width) / 2.0, (viewport.height + height) / 2.0);
        Self { columns, rows, width, height, reach }
    }

    /// Number of tiles, which are numbered from left to right, row by row from the bottom.
    pub(super) fn len(&self) -> usize {
        usize::from(self.columns) * usize::from(self.rows)
    }

    /// Returns the position of a tile relative to a viewport in this direction.
    pub(super) fn ring(&self, tile: usize, view: Direction) -> Ring {
        let (aside, above) = self.offset(tile, view);
        let ring = |distance: f64, reach: f64, size: f64| match distance {
            _ if distance < reach => Ring::Viewport,
            _ if distance < reach + size => Ring::Margin,
            _ => Ring::Outside,
        };
        ring(aside, self.reach.0, self.width).max(ring(above, self.reach.1, self.height))
    }

    /// Returns all tiles, those closest to the centre of the viewport first.
    pub(super) fn by_distance(&self, view: Direction) -> Vec<usize> {
        let distance = |tile: &usize| {
            let (aside, above) = self.offset(*tile, view);
            aside * aside + above * above
        };
        let mut tiles: Vec<usize> = (0..self.len()).collect();
        tiles.sort_by(|one, other| distance(one).total_cmp(&distance(other)));
        tiles
    }

    /// Returns the visible tiles, each with its visible area in square degrees.
    pub(super) fn seen(&self, view: Direction) -> Vec<(usize, f64)> {
        let seen = |tile: usize| {
            let (aside, above) = self.offset(tile, view);
            let across = (self.reach.0 - aside).min(self.width).min(2.0 * self.reach.0 - self.width);
            let up = (self.reach.1 - above).min(self.height).min(2.0 * self.reach.1 - self.height);
            (tile, across * up)
        };
        (0..self.len()).filter(|tile| self.ring(*tile, view) == Ring::Viewport).map(seen).collect()
    }

    /// Returns the distance between the centres of viewport and tile, in degrees of yaw and of
    /// pitch.
    fn offset(&self, tile: usize, view: Direction) -> (f64, f64) {
        let columns = usize::from(self.columns);
        let yaw = ((tile % columns) as f64 + 0.5) * self.width;
        let pitch = ((tile / columns) as f64 + 0.5) * self.height - 90.0;
        let aside = (yaw - view.yaw).abs();
        (aside.min(360.0 - aside), (pitch - view.pitch).abs())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn grid() -> Grid {
        Grid::new(12, 6, Viewport { width: 100.0, height: 80.0 })
    }

    fn rings(view: Direction) -> Vec<Vec<Ring>> {
        let grid = grid();
        (0..6).map(|row| (0..12).map(|column| grid.ring(row * 12 + column, view)).collect()).collect()
    }

    fn count(rings: &[Vec<Ring>], ring: Ring) -> usize {
        rings.iter().flatten().filter(|one| **one == ring).count()
    }

    #[test]
    fn a_viewport_has_its_tiles_and_a_ring_around() {
        // Tiles of 30°, a viewport of 100° × 80° in the middle of a tile: 130° to 230° and −25° to 55°.
        let rings = rings(Direction { yaw: 180.0, pitch: 15.0 });
        let seen = |row: usize| -> Vec<usize> {
            (0..12).filter(|column| rings[row][*column] == Ring::Viewport).collect()
        };
        assert_eq!(seen(2), [4, 5, 6, 7]);
        assert_eq!((seen(1), seen(4)), (vec![], vec![4, 5, 6, 7]));
        assert_eq!((count(&rings, Ring::Viewport), count(&rings, Ring::Margin)), (12, 18));
        assert_eq!(count(&rings, Ring::Outside), 72 - 30);
    }

    #[test]
    fn the_sphere_goes_on_behind_its_seam() {
        let rings = rings(Direction { yaw: 5.0, pitch: 0.0 });
        let seen: Vec<usize> = (0..12).filter(|column| rings[3][*column] == Ring::Viewport).collect();
        // −45° to 55°: the columns from 300° and up to 60°.
        assert_eq!(seen, [0, 1, 10, 11]);
    }

    #[test]
    fn what_is_seen_adds_up_to_the_viewport() {
        let grid = grid();
        // 130° to 230° and −25° to 55°: 20, 30, 30, 20 across; 25, 30, 25 up.
        let seen = grid.seen(Direction { yaw: 180.0, pitch: 15.0 });
        let areas: Vec<f64> = seen.iter().map(|(_, area)| *area).collect();
        assert_eq!(seen[0], (28, 500.0), "the third row, the fifth column");
        assert_eq!(areas[..4], [500.0, 750.0, 750.0, 500.0]);
        assert_eq!((areas.len(), areas.iter().sum::<f64>()), (12, 8_000.0));
        // A viewport narrower than a tile lies within one.
        let narrow = Grid::new(12, 6, Viewport { width: 10.0, height: 8.0 });
        assert_eq!(narrow.seen(Direction { yaw: 193.0, pitch: 14.0 }), [(42, 80.0)]);
    }

    #[test]
    fn the_nearest_tile_is_first() {
        let order = grid().by_distance(Direction { yaw: 9.0, pitch: 10.0 });
        assert_eq!((order.len(), order[0], order[1]), (72, 36, 47));
    }

    proptest! {
        #[test]
        fn there_is_always_something_to_see(
            columns in 1..64u16,
            rows in 1..32u16,
            width in 0.1..360.0f64,
            height in 0.1..180.0f64,
            yaw in 0.0..360.0f64,
            pitch in -90.0..90.0f64,
        ) {
            let grid = Grid::new(columns, rows, Viewport { width, height });
            let view = Direction { yaw, pitch };
            let order = grid.by_distance(view);
            prop_assert_eq!(order.len(), grid.len());
            prop_assert_eq!(grid.ring(order[0], view), Ring::Viewport);
        }
    }
}
