//! Figures and pages of results.
//!
//! `squall-lab` measures; this crate draws the results: one self-contained HTML page about runs
//! ([`html`]) or experiments ([`Report`]), each figure as an SVG file, the quality of a film
//! ([`ssim`]) and recorded links ([`links`]). A page needs no network and no script, follows the
//! reader's light or dark setting, prints, and can be read without colour: schedulers differ by
//! dash, marker and label too.
//!
//! Everything is drawn on one `surface`, in CSS pixels, with the roles of `style` instead of
//! colours. `chart` draws values along an axis, `distribution` latencies, `curves` figures over
//! time, `panels` and `timeline` events over time; `page` and `runs` produce HTML from them, and
//! `experiments`, `results` and `figures` turn the runs of experiments into figures. The same
//! results give the same bytes.

mod chart;
mod curves;
mod distribution;
mod experiments;
mod figures;
mod links;
mod page;
mod panels;
mod results;
mod runs;
mod style;
mod surface;
mod timeline;

pub use curves::{Curve, curves};
pub use experiments::{Chapter, Drawing, Report, Timeline};
pub use links::{MAX_LINKS, links};
pub use panels::ssim;
pub use runs::html;
