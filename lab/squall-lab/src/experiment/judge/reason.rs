//! Why a claim holds or not, with the figures of this measurement.

use std::iter;

use super::super::{Claim, Evidence, Expectation, Record, claim::show};
use super::{Elsewhere, Evaluator};

/// What stands in braces in a finding.
pub(in super::super) fn names(finding: &str) -> impl Iterator<Item = &str> {
    pieces(finding).filter_map(|(_, name)| name)
}

/// The finding with what was measured in place of the names; none if a figure was not measured.
pub(super) fn filled(claim: &Claim, records: &[&Record], others: &[Elsewhere]) -> Option<String> {
    let mut text = String::new();
    for (words, name) in pieces(&claim.finding) {
        text += words;
        if let Some(name) = name {
            text += &figure(claim, claim.evidence.get(name)?, records, others)?;
        }
    }
    Some(text)
}

/// Words, each with the name in braces behind them; none behind the last.
fn pieces(finding: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let mut rest = Some(finding);
    iter::from_fn(move || {
        let all = rest.take()?;
        let named = all.split_once('{').and_then(|(words, behind)| Some((words, behind.split_once('}')?)));
        let Some((words, (name, behind))) = named else { return Some((all, None)) };
        rest = Some(behind);
        Some((words, Some(name)))
    })
}

fn figure(claim: &Claim, evidence: &Evidence, records: &[&Record], others: &[Elsewhere]) -> Option<String> {
    let Evidence { scheduler, at: own, measure, subject } = evidence;
    let mut at = claim.at.clone();
    at.extend(own.clone());
    let elsewhere = others.iter().find(|other| at.get(&other.assumption) == Some(&other.point));
    let there: Option<Vec<&Record>> = elsewhere.map(|other| {
        at.remove(&other.assumption);
        other.records.iter().collect()
    });
    let alone = Claim {
        scheduler: scheduler.clone(),
        at,
        measure: *measure,
        subject: subject.clone(),
        expectation: Expectation::Value(0.0),
        ..claim.clone()
    };
    let evaluator = Evaluator { claim: &alone, records: there.as_deref().unwrap_or(records), apart: &[] };
    Some(show(measure.unit(), evaluator.effect(alone.expectation)?.size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_words_and_names() {
        let pieces: Vec<_> = pieces("from {a} to {b}.").collect();
        assert_eq!(pieces, [("from ", Some("a")), (" to ", Some("b")), (".", None)]);
        assert_eq!(names("no figure").count(), 0);
        assert_eq!(super::pieces("{open").collect::<Vec<_>>(), [("{open", None)]);
    }
}
