//! Judges claims by measured results.
//!
//! The same rules apply to every claim; no claim has tolerances of its own. The verdict depends on
//! the 95 % confidence interval (Student's t, over the seeds), never on the mean alone. A single
//! seed has no interval, so its verdict is always *unclear*.
//!
//! - A *comparison* (change, times, difference) holds if the whole interval is at least three
//!   quarters of the claimed size. It exceeds the claim if the whole interval is beyond twice that
//!   size. Ratios are raised to powers for that: twice −50 % is −75 %, three quarters are −40.5 %.
//!   It holds in direction only if the whole interval has the claimed sign but does not reach
//!   three quarters. It does not hold if the interval includes zero and ends below three quarters
//!   of the claimed size, or if it has the opposite sign. It is unclear if the interval includes
//!   both zero and such an effect.
//! - *Less* and *more* hold if the whole interval has that sign. They are tied if the whole
//!   interval is within ±5 %.
//! - A *value* holds if the whole interval is within a quarter of it, does not hold if the whole
//!   interval is outside, and is unclear otherwise.
//! - *At least* and *at most* hold or do not hold if the whole interval is on one side of the
//!   limit, and are unclear otherwise.
//! - *Best* holds if the scheduler is ahead of every other one in every cell, beyond the confidence
//!   interval of the difference. It holds in direction only if it is ahead of all in more than half
//!   of the cells and another one is ahead in fewer than half. It is tied if none is ahead of it in
//!   any cell, but it is not ahead of all. It does not hold otherwise.
//! - Tolerances depend on the unit. A *value* in decibels may deviate by 1 dB (a quarter more or
//!   less noise), frames per second by 1. A share is judged by the smaller of itself and its
//!   complement: 98 % is not close to 92 %, since 2 % are missing instead of 8 %. A deviation of
//!   0.1 percentage points is always accepted, for the similarity of pictures 0.01: the last digits
//!   that papers print.
//! - A value or a limit, also of a change, that every scheduler of the experiment meets alike,
//!   within 1 %, is *saturated*: the scenario does not distinguish them.
//! - A cell is left out if one of its runs has nothing to measure.
//! - Several cells are combined by their means: the change of the mean, not the mean of the
//!   changes, which a cell with values close to zero would dominate. A change relative to zero has
//!   no size and can at best hold in direction.
//! - The interval of a change is that of the logarithm of the ratio, seed by seed, so that one
//!   outlier does not hide an effect that all seeds show. If a seed has a value of zero, it is that
//!   of the difference.
//! - The cell with the greatest or least effect is a selection from k cells: its interval is one of
//!   1 − 5 %/k (Bonferroni).
//! - The interval of a *median* or the *highest* of all runs is that of 1,000 samples drawn from
//!   them with replacement.
//! - The figures of a finding are measured with the claims. If one was not measured, the finding is
//!   left out.
//! - An unclear verdict comes with the number of seeds that would probably decide, since the width
//!   of an interval is inversely proportional to the square root of their number.

mod effect;
pub(super) mod verdict;

use std::collections::BTreeMap;

use effect::{Asked, Effect, Interval, Pairs, Tail, compare, mean_of_cells, pooled, resampled, sized};
use verdict::{Alternative, Finding, Stock, Values, Verdict};

use super::claim::{percent, show, signed};
use super::{Assumption, Best, Claim, Evidence, Expectation, Experiment, Of, Over, Point, Record};
use crate::measure::{Measure, Subject, Unit, View};
use crate::statistics::{Estimate, median};

/// Maximum distance of all schedulers that a scenario does not distinguish: relative to the claimed
/// scheduler's value, or of two relative changes.
const ALIKE: f64 = 0.01;

/// Largest relative change that counts as none for claims about the direction only.
const LEVEL: f64 = 0.05;

/// Judges every claim of an experiment by its runs. Runs of other experiments are ignored.
pub fn judge<'a>(experiment: &Experiment, records: impl IntoIterator<Item = &'a Record>) -> Vec<Finding> {
    let own = records.into_iter().filter(|record| record.experiment == experiment.name());
    let (records, others): (Vec<&Record>, Vec<&Record>) =
        own.partition(|record| experiment.is_as_assumed(&record.point));
    let others = Elsewhere::of(experiment, &others);
    let stock = &experiment.source.stock;
    let judge = |claim: &Claim| {
        let own = Evaluator { claim, records: &records, apart: &stock.values().collect::<Vec<_>>() };
        let apart: Vec<&String> = stock.keys().collect();
        let other = |claim: &Claim| {
            let Outcome { verdict, found, .. } =
                Evaluator { claim, records: &records, apart: &apart }.outcome();
            Stock { found, verdict }
        };
        let Outcome { verdict, found, seeds } = own.outcome();
        Finding {
            experiment: experiment.name().to_owned(),
            id: claim.id.clone(),
            says: claim.says.clone(),
            expected: claim.expected(),
            found,
            verdict,
            seeds,
            stock: claim.with(stock).as_ref().map(other),
            alternatives: others.iter().map(|other| other.alternative(claim, stock)).collect(),
            values: experiment.challenge.as_ref().and_then(|_| own.compared()),
            finding: claim.reason(|one| figure(claim, one, &records, &others)).unwrap_or_default(),
        }
    };
    experiment.claims.iter().map(judge).collect()
}

/// Runs under another assumption, with their points reduced to the axes.
struct Elsewhere {
    assumption: String,
    point: String,
    records: Vec<Record>,
}

impl Elsewhere {
    /// Collects the runs for each other value of each assumption.
    fn of(experiment: &Experiment, records: &[&Record]) -> Vec<Self> {
        let values = |assumption: &Assumption| {
            let name = assumption.name.clone();
            let points = assumption.points.iter().map(|point| point.name.clone()).collect::<Vec<_>>();
            points.into_iter().map(move |point| (name.clone(), point))
        };
        let there = |(assumption, point): (String, String)| {
            let own = records.iter().filter(|record| record.point.get(&assumption) == Some(&point));
            let at_axes = |record: &&Record| {
                let mut record = (*record).clone();
                record.point.remove(&assumption);
                record
            };
            let records = own.map(at_axes).collect();
            Self { assumption, point, records }
        };
        experiment.assumptions.iter().flat_map(values).map(there).collect()
    }

    fn alternative(&self, claim: &Claim, stock: &BTreeMap<String, String>) -> Alternative {
        let records: Vec<&Record> = self.records.iter().collect();
        let apart: Vec<&String> = stock.values().collect();
        let Outcome { verdict, found, .. } = Evaluator { claim, records: &records, apart: &apart }.outcome();
        Alternative { assumption: self.assumption.clone(), point: self.point.clone(), found, verdict }
    }
}

/// Returns the measured value of a figure of the finding.
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

struct Evaluator<'a> {
    claim: &'a Claim,
    records: &'a [&'a Record],
    /// Schedulers that do not count as rivals.
    apart: &'a [&'a String],
}

/// Outcome of a claim.
struct Outcome {
    verdict: Verdict,
    found: String,
    seeds: Option<u32>,
}

impl Outcome {
    fn of(verdict: Verdict, found: String) -> Self {
        Self { verdict, found, seeds: None }
    }
}

impl Evaluator<'_> {
    fn outcome(&self) -> Outcome {
        let outcome = match self.claim.expectation {
            Expectation::Best(best) => self.ranking(best),
            expectation => self.measured(expectation),
        };
        outcome.unwrap_or_else(|| Outcome::of(Verdict::NotMeasured, "nothing".into()))
    }

    fn measured(&self, expectation: Expectation) -> Option<Outcome> {
        let unit = self.claim.measure.unit();
        let asked = Asked::of(expectation, unit)?;
        let is_relative = expectation.compares() && !matches!(expectation, Expectation::Difference(_));
        let pairs: Pairs = self.points().iter().flat_map(|point| self.pairs(point)).collect();
        if is_relative && !pairs.is_empty() && pairs.iter().all(|(_, other)| *other == 0.0) {
            return Some(self.against_nothing(&asked, &pairs));
        }
        let effect = self.effect(expectation)?;
        let verdict = match asked.judge(&effect) {
            Verdict::Holds if expectation.is_met_alike() && self.is_saturated(expectation) => {
                Verdict::Saturated
            }
            Verdict::Unclear if !expectation.has_size() && effect.is_next_to_none() => Verdict::Tied,
            Verdict::DoesNotHold if !expectation.has_size() && effect.is_none() => Verdict::Tied,
            verdict => verdict,
        };
        let seeds = (verdict == Verdict::Unclear).then(|| asked.seeds(&effect)).flatten();
        Some(Outcome { verdict, found: describe(expectation, unit, &effect), seeds })
    }

    /// Judges a change relative to zero, which has a direction but no size.
    fn against_nothing(&self, asked: &Asked, pairs: &[(f64, f64)]) -> Outcome {
        let own: Vec<f64> = pairs.iter().map(|(own, _)| *own).collect();
        let amount = Effect::of(&own, 1).expect("is not empty");
        if amount.size == 0.0 {
            return Outcome::of(Verdict::NotMeasured, "none in either".into());
        }
        let verdict = match asked.judge(&amount) {
            Verdict::Holds | Verdict::Exceeds if !matches!(asked, Asked::Size(size, _) if size.abs() <= f64::MIN_POSITIVE) => {
                Verdict::DirectionOnly
            }
            verdict => verdict,
        };
        Outcome::of(verdict, format!("{} against none", show(self.claim.measure.unit(), amount.size)))
    }

    /// `true` if every other scheduler has nearly the same value.
    fn is_saturated(&self, expectation: Expectation) -> bool {
        let points = self.points();
        let mut rivals: Vec<String> = points.iter().flat_map(|point| self.rivals(point)).collect();
        rivals.sort_unstable();
        rivals.dedup();
        let size = |scheduler: &str| {
            let claim = Claim { scheduler: scheduler.to_owned(), ..self.claim.clone() };
            Evaluator { claim: &claim, ..*self }.effect(expectation).map(|effect| effect.size)
        };
        let Some(own) = size(&self.claim.scheduler) else { return false };
        let scale = if expectation.compares() { 1.0 } else { own.abs() };
        let near = |rival: &String| size(rival).is_some_and(|other| (other - own).abs() <= ALIKE * scale);
        !rivals.is_empty() && rivals.iter().all(near)
    }

    /// Effect over all cells that the claim is about.
    fn effect(&self, expectation: Expectation) -> Option<Effect> {
        match self.claim.of {
            Of::Mean => {}
            Of::Median => return self.effect_of_all(expectation, medians),
            Of::Highest => return self.effect_of_all(expectation, highest),
            Of::Pooled => return self.effect_of_pooled(expectation),
        }
        let cells = self.cells(expectation.compares());
        let way = if claims_more(expectation) { 1.0 } else { -1.0 };
        let each = || cells.iter().filter_map(|pairs| compare(expectation, pairs, cells.len()));
        match self.claim.over {
            Over::Most => each().max_by(|a, b| (way * a.size).total_cmp(&(way * b.size))),
            Over::Least => each().min_by(|a, b| (way * a.size).total_cmp(&(way * b.size))),
            Over::Mean => compare(expectation, &mean_of_cells(&cells), 1),
        }
    }

    /// Returns the pairs of each cell: the claim's values and those to compare with, or 0. A cell
    /// in which some runs have nothing to measure has no mean over all seeds and is left out.
    fn cells(&self, compares: bool) -> Vec<Pairs> {
        let alone = |point: &Point| self.own(point).into_iter().map(|own| (own, 0.0)).collect();
        let points = self.points();
        let cells: Vec<Pairs> =
            points.iter().map(|point| if compares { self.pairs(point) } else { alone(point) }).collect();
        let runs = cells.iter().map(Vec::len).max().unwrap_or(0);
        cells.into_iter().filter(|pairs| runs > 0 && pairs.len() == runs).collect()
    }

    /// Effect on one value over all runs.
    fn effect_of_all(&self, expectation: Expectation, value: OfAll) -> Option<Effect> {
        resampled(&self.all(expectation.compares()), |sample| sized(expectation, value(sample)?))
    }

    /// Returns the pairs of all cells together: the claim's values and those to compare with, or 0.
    fn all(&self, compares: bool) -> Pairs {
        let points = self.points();
        if compares {
            points.iter().flat_map(|point| self.pairs(point)).collect()
        } else {
            points.iter().flat_map(|point| self.own(point)).map(|own| (own, 0.0)).collect()
        }
    }

    /// Effect on a percentile over the blocks of all runs together.
    fn effect_of_pooled(&self, expectation: Expectation) -> Option<Effect> {
        let share = self.claim.measure.share_of_latency()?;
        resampled(&self.tails_of_both(expectation.compares()), |sample| {
            sized(expectation, pooled_of_both(sample, share)?)
        })
    }

    /// Latency distributions of all runs, each with the one to compare with, or with itself.
    fn tails_of_both(&self, compares: bool) -> Vec<(Tail<'_>, Tail<'_>)> {
        let Claim { scheduler, subject, against, .. } = self.claim;
        let points = self.points();
        let tails = |scheduler: &str, at: &Point, subject: &Subject| {
            let elsewhere = points.iter().map(|point| {
                let mut point = point.clone();
                point.extend(at.clone());
                point
            });
            elsewhere.flat_map(|point| self.tails(scheduler, &point, subject)).collect::<Vec<_>>()
        };
        let own = tails(scheduler, &Point::new(), subject);
        let other =
            if compares { tails(&against.scheduler, &against.at, &against.subject) } else { own.clone() };
        own.into_iter().zip(other).collect()
    }

    /// The two values that the claim compares.
    fn compared(&self) -> Option<Values> {
        let (own, other) = match self.claim.of {
            Of::Mean => means(&mean_of_cells(&self.cells(true)))?,
            Of::Median => medians(&self.all(true).iter().collect::<Vec<_>>())?,
            Of::Highest => highest(&self.all(true).iter().collect::<Vec<_>>())?,
            Of::Pooled => {
                let share = self.claim.measure.share_of_latency()?;
                pooled_of_both(&self.tails_of_both(true).iter().collect::<Vec<_>>(), share)?
            }
        };
        let unit = self.claim.measure.unit();
        Some(Values {
            system: self.claim.against.scheduler.clone(),
            of_system: show(unit, other),
            challenger: self.claim.scheduler.clone(),
            of_challenger: show(unit, own),
        })
    }

    /// Latency distributions of a flow, by run.
    fn tails(&self, scheduler: &str, point: &Point, subject: &Subject) -> Vec<Tail<'_>> {
        let runs = self.records.iter().filter(|one| one.run.scheduler == scheduler && one.point == *point);
        let flows = runs.filter_map(|record| {
            record.run.flows.iter().find(|flow| Some(&flow.name) == subject.flow.as_ref())
        });
        flows
            .map(|flow| Tail { decided: flow.total.decided_blocks() as f64, points: &flow.distribution })
            .collect()
    }

    /// Values that the claim is about, by seed.
    fn own(&self, point: &Point) -> Vec<f64> {
        let values = self.values(&self.claim.scheduler, point, &self.claim.subject);
        values.into_iter().map(|(_, value)| value).collect()
    }

    /// The claim's values and those to compare with, by seed.
    fn pairs(&self, point: &Point) -> Vec<(f64, f64)> {
        let Claim { scheduler, subject, against, .. } = self.claim;
        let own = self.values(scheduler, point, subject);
        let mut elsewhere = point.clone();
        elsewhere.extend(against.at.clone());
        let other = self.values(&against.scheduler, &elsewhere, &against.subject);
        let of = |seed: u64| other.iter().find(|(known, _)| *known == seed).map(|(_, value)| *value);
        own.iter().filter_map(|(seed, value)| Some((*value, of(*seed)?))).collect()
    }

    fn ranking(&self, best: Best) -> Option<Outcome> {
        let (measure, unit) = (self.claim.measure, self.claim.measure.unit());
        let leads: Vec<Lead> = self.points().iter().filter_map(|point| self.lead(best, point)).collect();
        let count = |what: fn(&Lead) -> bool| leads.iter().filter(|lead| what(lead)).count();
        let (cells, ahead, beaten) = (leads.len(), count(Lead::is_ahead), count(Lead::is_beaten));
        let verdict = match cells {
            0 => return None,
            _ if leads.iter().any(|lead| lead.of.half.is_none()) => Verdict::Unclear,
            _ if ahead == cells => Verdict::Holds,
            _ if 2 * ahead > cells && 2 * beaten < cells => Verdict::DirectionOnly,
            _ if beaten == 0 => Verdict::Tied,
            _ => Verdict::DoesNotHold,
        };
        let mut found = format!("ahead in {ahead} of {cells}");
        if let Some(worst) =
            leads.iter().min_by(|a, b| a.of.mean.total_cmp(&b.of.mean)).filter(|_| ahead < cells)
        {
            let (word, lead) =
                if worst.is_beaten() { ("behind", -worst.of.mean) } else { ("beside", worst.of.mean) };
            let by = signed(lead, &show(unit, lead.abs()));
            found += &format!("; {measure}: {word} {} by {by}{}", worst.rival, worst.place);
        }
        Some(Outcome::of(verdict, found))
    }

    /// Returns the lead of the scheduler over the best of the others in a cell.
    fn lead(&self, best: Best, point: &Point) -> Option<Lead> {
        let own = self.values(&self.claim.scheduler, point, &self.claim.subject);
        let ahead_of = |rival: String| {
            let other = self.values(&rival, point, &self.claim.subject);
            let leads: Vec<f64> = other
                .iter()
                .filter_map(|(seed, value)| {
                    let own = own.iter().find(|(own, _)| own == seed)?.1;
                    Some(if best == Best::Highest { own - value } else { value - own })
                })
                .collect();
            Some(Lead { of: Estimate::of(&leads)?, rival, place: place(point) })
        };
        let leads = self.rivals(point).into_iter().filter_map(ahead_of);
        leads.min_by(|a, b| a.least().total_cmp(&b.least()))
    }

    /// Cells that the claim is about, in the order of the runs.
    fn points(&self) -> Vec<Point> {
        let mut points: Vec<Point> = Vec::new();
        for record in self.records {
            let fits = self.claim.at.iter().all(|(axis, point)| record.point.get(axis) == Some(point));
            if fits && !points.contains(&record.point) {
                points.push(record.point.clone());
            }
        }
        points
    }

    /// All other schedulers that ran in a cell.
    fn rivals(&self, point: &Point) -> Vec<String> {
        let mut rivals: Vec<String> = Vec::new();
        for record in self.records.iter().filter(|record| record.point == *point) {
            let name = &record.run.scheduler;
            if *name != self.claim.scheduler && !self.apart.contains(&name) && !rivals.contains(name) {
                rivals.push(name.clone());
            }
        }
        rivals
    }

    /// Values of the claim's measure, by seed.
    fn values(&self, scheduler: &str, point: &Point, subject: &Subject) -> Vec<(u64, f64)> {
        let measure: Measure = self.claim.measure;
        self.records
            .iter()
            .filter(|record| record.run.scheduler == scheduler && record.point == *point)
            .filter_map(|record| {
                Some((record.run.seed, subject.measure(measure, View::default(), &record.run)?))
            })
            .collect()
    }
}

/// Statistic over all runs, for both sides of a comparison.
type OfAll = fn(&[&(f64, f64)]) -> Option<(f64, f64)>;

/// Means of both sides.
fn means(pairs: &[(f64, f64)]) -> Option<(f64, f64)> {
    let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / pairs.len() as f64;
    (!pairs.is_empty()).then(|| (mean(|pair| pair.0), mean(|pair| pair.1)))
}

/// Medians of both sides.
fn medians(pairs: &[&(f64, f64)]) -> Option<(f64, f64)> {
    let own = median(pairs.iter().map(|pair| pair.0).collect())?;
    Some((own, median(pairs.iter().map(|pair| pair.1).collect())?))
}

/// Maxima of both sides.
fn highest(pairs: &[&(f64, f64)]) -> Option<(f64, f64)> {
    let of = |value: fn(&(f64, f64)) -> f64| pairs.iter().map(|pair| value(pair)).max_by(f64::total_cmp);
    of(|pair| pair.0).zip(of(|pair| pair.1))
}

/// Percentiles of the latencies of both sides.
fn pooled_of_both(runs: &[&(Tail<'_>, Tail<'_>)], share: f64) -> Option<(f64, f64)> {
    let own = pooled(runs.iter().map(|run| run.0), share)?;
    Some((own, pooled(runs.iter().map(|run| run.1), share)?))
}

/// Lead of a scheduler over another one.
struct Lead {
    of: Estimate,
    rival: String,
    /// Cell of the lead, for the end of a sentence.
    place: String,
}

impl Lead {
    fn half(&self) -> f64 {
        self.of.half.unwrap_or(0.0)
    }

    /// Lower end of the lead's interval.
    fn least(&self) -> f64 {
        self.of.mean - self.half()
    }

    fn is_ahead(&self) -> bool {
        self.least() > 0.0
    }

    fn is_beaten(&self) -> bool {
        self.of.mean + self.half() < 0.0
    }
}

/// Describes the effect in words.
fn describe(expectation: Expectation, unit: Unit, effect: &Effect) -> String {
    let ends = |text: &dyn Fn(f64) -> String| {
        effect
            .interval
            .map_or(String::new(), |Interval { low, high }| format!(" ({} to {})", text(low), text(high)))
    };
    let plain = |text: &dyn Fn(f64) -> String| text(effect.size) + &ends(text);
    match expectation {
        Expectation::Change(_) | Expectation::ChangeAtLeast(_) | Expectation::Less | Expectation::More => {
            plain(&percent)
        }
        Expectation::Times(_) => plain(&|size| format!("× {:.2}", size + 1.0)),
        Expectation::Difference(_) => plain(&|size| signed(size, &show(unit, size.abs()))),
        _ => plain(&|size| show(unit, size)),
    }
}

/// `true` if the claim is that a value is higher rather than lower.
fn claims_more(expectation: Expectation) -> bool {
    match expectation {
        Expectation::Change(claimed) | Expectation::Difference(claimed) => claimed > 0.0,
        Expectation::Times(times) => times > 1.0,
        Expectation::AtMost(_) | Expectation::Less => false,
        _ => true,
    }
}

/// Describes the point, for the end of a sentence.
pub(super) fn place(point: &Point) -> String {
    if point.is_empty() {
        return String::new();
    }
    let names: Vec<String> = point.iter().map(|(axis, name)| format!("{axis} {name}")).collect();
    format!(" at {}", names.join(", "))
}

#[cfg(test)]
mod tests;
