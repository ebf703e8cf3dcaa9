//! What claims ask for, at the places of a figure.

use super::Chapter;
use super::results::fits;
use crate::experiment::{Claim, Expectation, Of, Over, Point};
use crate::measure::{Measure, Subject, Unit};

/// The values that claims about just these cells ask for, of a scheduler: the claimed one, or the one that is as
/// far from the measured value of the other as is claimed.
pub(super) fn values(
    chapter: &Chapter,
    scheduler: &str,
    at: &Point,
    subject: &Subject,
    measure: Measure,
) -> Vec<f64> {
    let claims = chapter.experiment.iter().flat_map(|experiment| &experiment.claims);
    let about = |claim: &&Claim| {
        claim.scheduler == scheduler
            && claim.measure == measure
            && claim.of == Of::Mean
            && claim.subject == *subject
            && is_about(chapter, claim, at)
    };
    claims.filter(about).filter_map(|claim| asked(chapter, claim, at)).collect()
}

/// Whether the cells of a claim are those at these points.
fn is_about(chapter: &Chapter, claim: &Claim, at: &Point) -> bool {
    let cells = chapter.results().cells(at);
    let one = cells.len() == 1 || claim.over == Over::Mean;
    let claimed = chapter.results().cells(&claim.at);
    one && claimed == cells && !cells.is_empty() && cells.iter().all(|cell| fits(cell, &claim.at))
}

fn asked(chapter: &Chapter, claim: &Claim, at: &Point) -> Option<f64> {
    let other = || {
        let mut elsewhere = at.clone();
        elsewhere.extend(claim.against.at.clone());
        let against = &claim.against;
        let results = chapter.results();
        Some(results.estimate(&against.scheduler, &elsewhere, &against.subject, claim.measure)?.mean)
    };
    match claim.expectation {
        Expectation::Value(value) => Some(value),
        Expectation::Change(share) => Some(other()? * (1.0 + share)),
        Expectation::Times(times) => Some(other()? * times),
        Expectation::Difference(by) => Some(other()? + by),
        _ => None,
    }
    .filter(|value| possible(claim.measure, *value))
}

/// What was measured of the other side may leave no room for what is claimed: more than all of it.
fn possible(measure: Measure, value: f64) -> bool {
    value >= 0.0 && (measure.unit() != Unit::Ratio || value <= 1.0)
}
