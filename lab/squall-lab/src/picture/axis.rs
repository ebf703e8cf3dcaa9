//! The axis of time, the same in all panels.

use squall_units::Micros;

use super::{
    ink::{LEFT, RIGHT, line, write},
    play::{Outcome, Play},
    scene::BLOCKS,
};

/// Time between two lines of the grid.
const STEP: Micros = 10_000;

/// From times to places.
pub(super) struct Axis {
    end: Micros,
}

impl Axis {
    /// An axis that holds everything that was done, and all deadlines.
    pub(super) fn over(plays: &[Play]) -> Self {
        let bars = plays.iter().flat_map(|play| play.lanes.iter().flatten()).map(|bar| bar.to);
        let ends = plays.iter().flat_map(|play| play.outcomes).map(|outcome| match outcome {
            Outcome::Arrived(at) | Outcome::Expired(at) | Outcome::Cancelled(at) | Outcome::Lost(at) => at,
        });
        let deadlines = BLOCKS.iter().map(|given| given.deadline_us);
        let last = bars.chain(ends).chain(deadlines).max().unwrap_or(STEP);
        Self { end: (last / STEP + 1) * STEP }
    }

    /// Where a time lies.
    pub(super) fn x(&self, at: Micros) -> f64 {
        LEFT + (RIGHT - LEFT) * at as f64 / self.end as f64
    }

    /// Lines between two heights.
    pub(super) fn draw_grid(&self, svg: &mut String, top: f64, bottom: f64) {
        for at in self.ticks() {
            line(svg, "grid", (self.x(at), top), (self.x(at), bottom));
        }
    }

    /// Times below the lines.
    pub(super) fn draw_labels(&self, svg: &mut String, y: f64) {
        for at in self.ticks().filter(|at| at.is_multiple_of(2 * STEP)) {
            let unit = if at == 0 { " ms" } else { "" };
            write(svg, "t c", (self.x(at), y), &format!("{}{unit}", at / 1_000));
        }
    }

    fn ticks(&self) -> impl Iterator<Item = Micros> {
        (0..=self.end / STEP).map(|n| n * STEP)
    }
}
