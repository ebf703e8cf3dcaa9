//! Measures of schedulers at places along an axis: lines where the places are numbers, dots beside each other
//! where they are not.
//!
//! A mean comes with its 95 % confidence interval, as a band or a whisker. Open markers are the numbers of
//! others, ticks what a claim asks for, and a dotted line what nobody can surpass.

mod frame;
mod key;
mod marks;
mod places;
pub(super) mod spread;

use super::canvas::{Area, DrawError, Figure, px};
use crate::estimate::Estimate;
use crate::measure::Unit;
use places::Places;

/// Width of a chart in CSS pixels: two stand beside each other.
pub(super) const WIDTH: i32 = 528;

const TITLE: i32 = 30;
const PLOT: i32 = 232;

/// What a chart shows.
#[derive(Debug, Clone)]
pub(super) struct Chart {
    /// Short name, for a file.
    pub(super) name: String,
    /// What it is about.
    pub(super) title: String,
    /// How to read what is not said in the drawing.
    pub(super) caption: String,
    /// What the vertical axis shows.
    pub(super) what: String,
    /// Its unit.
    pub(super) unit: Unit,
    /// Whether it goes in even ratios; none: as it suits the values.
    pub(super) log: Option<bool>,
    /// What the horizontal axis shows, with its unit; empty for nothing.
    pub(super) along: String,
    /// The places, at least one.
    pub(super) places: Vec<PlaceLabel>,
    /// The schedulers.
    pub(super) rows: Vec<Row>,
    /// At each place what no scheduler can surpass.
    pub(super) bound: Vec<Option<f64>>,
}

/// A place on the horizontal axis.
#[derive(Debug, Clone)]
pub(super) struct PlaceLabel {
    pub(super) name: String,
    /// Where it is, if it is a number.
    pub(super) at: Option<f64>,
}

/// What is known of one scheduler at each place.
#[derive(Debug, Clone)]
pub(super) struct Row {
    /// Number of its style.
    pub(super) series: usize,
    pub(super) name: String,
    pub(super) values: Vec<Option<Estimate>>,
    /// The numbers of the paper.
    pub(super) paper: Vec<Option<f64>>,
    /// What claims ask for.
    pub(super) asked: Vec<Vec<f64>>,
}

impl Chart {
    /// The drawing; none if there is nothing to draw.
    pub(super) fn figure(&self) -> Option<Figure> {
        self.rows.iter().flat_map(|row| &row.values).flatten().next()?;
        let keys = key::lay_out(self, "95 % interval of the mean");
        let foot = places::height(self);
        let height = TITLE + PLOT + foot + key::height(&keys);
        let draw = |area: &Area<'_>| -> Result<(), DrawError> {
            let frame = frame::frame(self, px(TITLE), px(TITLE + PLOT));
            let places = Places::of(self, &frame);
            frame::draw(area, &frame, self)?;
            places.draw_labels(area, self)?;
            marks::draw(area, &frame, &places, self)?;
            key::draw(area, &keys, px(TITLE + PLOT + foot))
        };
        let (name, title) = (self.name.clone(), self.title.clone());
        Some(Figure::draw_sized(name, title, self.caption.clone(), (WIDTH, height), draw))
    }

    /// Whether it is drawn as lines.
    fn has_lines(&self) -> bool {
        self.places.len() > 1 && self.places.iter().all(|place| place.at.is_some())
    }

    /// Whether schedulers are named under their marks.
    fn names_below(&self) -> bool {
        self.places.len() == 1
    }

    /// Every number that is drawn but the ends of intervals.
    fn values(&self) -> impl Iterator<Item = f64> {
        let means = self.rows.iter().flat_map(|row| &row.values).flatten().map(|all| all.mean);
        let told =
            self.rows.iter().flat_map(|row| row.paper.iter().flatten().chain(row.asked.iter().flatten()));
        let told = told.copied();
        means.chain(told).chain(self.bound.iter().flatten().copied())
    }

    /// The ends of all intervals.
    fn ends(&self) -> impl Iterator<Item = f64> {
        let all = self.rows.iter().flat_map(|row| &row.values).flatten();
        all.filter_map(|all| Some((all.mean, all.half?)))
            .flat_map(|(mean, half)| [(mean - half).max(0.0), mean + half])
    }
}

#[cfg(test)]
mod tests;
