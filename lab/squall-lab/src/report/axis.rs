//! Plot frames: a grid with ticks at round numbers, linear or logarithmic.
//!
//! plotters picks ticks by count alone; a reader wants them at 1, 2 and 5 of each decade and with units.

use plotters::style::text_anchor::HPos;

use super::canvas::{Area, DrawError, line, polyline, px, text, write};
use super::style::Role;

/// A scale from values to a share of the axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Scale {
    /// Even steps.
    Linear {
        /// Value at the start of the axis.
        from: f64,
        /// Value at its end.
        to: f64,
    },
    /// Even ratios; both ends above 0.
    Log {
        /// Value at the start of the axis.
        from: f64,
        /// Value at its end.
        to: f64,
    },
}

impl Scale {
    /// Where a value lies, 0 to 1; values beyond an end are held there.
    pub(crate) fn share(self, value: f64) -> f64 {
        let share = match self {
            Scale::Linear { from, to } => (value - from) / (to - from),
            Scale::Log { from, to } => (value.max(from) / from).log10() / (to / from).log10(),
        };
        share.clamp(0.0, 1.0)
    }

    /// Round values within the scale, about `count` of them.
    pub(crate) fn ticks(self, count: usize) -> Vec<f64> {
        match self {
            Scale::Linear { from, to } => linear_ticks(from, to, count),
            Scale::Log { from, to } => log_ticks(from, to, count),
        }
    }
}

fn linear_ticks(from: f64, to: f64, count: usize) -> Vec<f64> {
    let rough = (to - from) / count.max(1) as f64;
    let decade = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * decade).into_iter().find(|s| *s >= rough * 0.999);
    let step = step.unwrap_or(rough);
    let first = (from / step).ceil();
    (0..1_000).map(|n| (first + f64::from(n)) * step).take_while(|tick| *tick <= to * 1.000_001).collect()
}

fn log_ticks(from: f64, to: f64, count: usize) -> Vec<f64> {
    let within = |multiples: &[f64]| -> Vec<f64> {
        let decades = from.log10().floor() as i32..=to.log10().ceil() as i32;
        let all = decades.flat_map(|d| multiples.iter().map(move |m| m * 10f64.powi(d)));
        all.filter(|tick| (from * 0.999_999..=to * 1.000_001).contains(tick)).collect()
    };
    let choices = [within(&[1.0, 2.0, 5.0]), within(&[1.0, 3.0]), within(&[1.0])];
    choices.into_iter().find(|ticks| ticks.len() <= count + 2).unwrap_or_else(|| within(&[1.0]))
}

/// A plot's frame in backend pixels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) left: i32,
    pub(crate) top: i32,
    pub(crate) right: i32,
    pub(crate) bottom: i32,
    pub(crate) x: Scale,
    pub(crate) y: Scale,
}

impl Frame {
    /// The same width of time from its lower edge on, this many backend pixels lower and without height.
    pub(crate) fn below(self, gap: i32) -> Self {
        let edge = self.bottom + gap;
        Self { top: edge, bottom: edge, ..self }
    }

    /// Where a point lies.
    pub(crate) fn at(&self, x: f64, y: f64) -> (i32, i32) {
        (self.x_at(x), self.y_at(y))
    }

    pub(crate) fn x_at(&self, x: f64) -> i32 {
        self.left + (self.x.share(x) * f64::from(self.right - self.left)).round() as i32
    }

    pub(crate) fn y_at(&self, y: f64) -> i32 {
        self.bottom - (self.y.share(y) * f64::from(self.bottom - self.top)).round() as i32
    }

    /// Grid lines and labels of the vertical axis.
    pub(crate) fn draw_y(
        &self,
        area: &Area<'_>,
        count: usize,
        show: impl Fn(f64) -> String,
    ) -> Result<(), DrawError> {
        for tick in self.y.ticks(count) {
            let y = self.y_at(tick);
            polyline(area, vec![(self.left, y), (self.right, y)], line(Role::Grid, 1.0))?;
            write(area, &show(tick), &text(Role::Muted, 12, HPos::Right), (self.left - px(7), y))?;
        }
        Ok(())
    }

    /// Grid lines of the horizontal axis.
    pub(crate) fn draw_x_grid(&self, area: &Area<'_>, count: usize) -> Result<(), DrawError> {
        for tick in self.x.ticks(count) {
            let x = self.x_at(tick);
            polyline(area, vec![(x, self.top), (x, self.bottom)], line(Role::Grid, 1.0))?;
        }
        let base = vec![(self.left, self.bottom), (self.right, self.bottom)];
        polyline(area, base, line(Role::Muted, 1.0))
    }

    /// Labels of the horizontal axis, `below` backend pixels under the frame, and what it shows.
    pub(crate) fn draw_x_labels(
        &self,
        area: &Area<'_>,
        count: usize,
        below: i32,
        name: &str,
        show: impl Fn(f64) -> String,
    ) -> Result<(), DrawError> {
        let y = self.bottom + below + px(12);
        for tick in self.x.ticks(count) {
            write(area, &show(tick), &text(Role::Muted, 12, HPos::Center), (self.x_at(tick), y))?;
        }
        let middle = i32::midpoint(self.left, self.right);
        write(area, name, &text(Role::Ink, 12, HPos::Center), (middle, y + px(19)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(
            Scale::Linear { from: 0.0, to: 20.0 }.ticks(10),
            (0..=10).map(|n| f64::from(n) * 2.0).collect::<Vec<_>>()
        );
        assert_eq!(Scale::Linear { from: 0.0, to: 41.0 }.ticks(4), [0.0, 20.0, 40.0]);
        assert_eq!(
            Scale::Log { from: 8.0, to: 1_200.0 }.ticks(5),
            [10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0]
        );
        assert_eq!(Scale::Log { from: 0.001, to: 1.0 }.ticks(2), [0.001, 0.01, 0.1, 1.0]);
    }

    #[test]
    fn scales_hold_at_their_ends() {
        let scale = Scale::Log { from: 1.0, to: 100.0 };
        assert_eq!([0.0, 1.0, 10.0, 100.0, 1e9].map(|v| scale.share(v)), [0.0, 0.0, 0.5, 1.0, 1.0]);
        assert_eq!(Scale::Linear { from: 0.0, to: 4.0 }.share(1.0), 0.25);
    }
}
