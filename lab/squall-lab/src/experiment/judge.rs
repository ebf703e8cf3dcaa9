//! Whether what is claimed is what was measured.
//!
//! The rule is the same for every claim, and no claim has tolerances of its own. What is judged is the 95 %
//! confidence interval (Student's t, seed by seed), never the mean alone. One seed has no interval: whatever it
//! shows is unclear.
//!
//! - A *comparison* (change, times, difference) holds if the whole interval is at least three quarters of the size
//!   that is claimed. It holds in direction only if the whole interval goes the way that is claimed, but does not
//!   reach so far. It is unclear if the interval includes none, and does not hold if the whole interval is on the
//!   other side.
//! - *Less* and *more* hold if the whole interval goes that way.
//! - A *value* holds if the whole interval is within a quarter of it, does not hold if the whole interval is
//!   outside, and is unclear otherwise.
//! - *At least* and *at most* hold or do not if the whole interval is on one side of the limit, and are unclear
//!   otherwise.
//! - *Best* holds if no other scheduler has a better mean in any cell, beyond the confidence interval of the
//!   difference; in direction only, if none has in most of the cells.
//! - Several cells count as one by their means: the change of the mean, not the mean of the changes, which a cell
//!   with next to nothing would decide. Anything is infinitely more than nothing.
//! - Of a *median* of all runs the interval is that of 1,000 samples drawn from them with repetition.

use serde::{Deserialize, Serialize};

use super::claim::{percent, show, signed};
use super::{Best, Claim, Expectation, Experiment, Of, Over, Point, Record};
use crate::measure::{Measure, Subject, View};
use crate::statistics::{Estimate, medians, spread_of_medians};

/// Share of the size of a claimed effect at which it holds.
const SIZE: f64 = 0.75;

/// How far from a claimed value a measured one may be, as a share of it.
const NEAR: f64 = 0.25;

/// What became of a claim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The experiment.
    pub experiment: String,
    /// The experiment of the paper, which may be another that this one covers.
    #[serde(default)]
    pub id: String,
    /// What is claimed.
    pub says: String,
    /// What was to be expected: `-49.0 %`.
    pub expected: String,
    /// What was found: `-53.1 % ± 4.2`.
    pub found: String,
    /// Whether it holds.
    pub verdict: Verdict,
    /// Why, if somebody looked into it.
    pub finding: String,
}

/// Whether a claim holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It does.
    Holds,
    /// The effect goes the way that is claimed, and is smaller, or not certain to be as large.
    DirectionOnly,
    /// It does not.
    DoesNotHold,
    /// What was found may be chance: more seeds would decide.
    Unclear,
    /// There was nothing to measure, or nothing to compare with.
    NotMeasured,
}

impl Verdict {
    /// Every one, the best first.
    pub const ALL: [Self; 5] =
        [Self::Holds, Self::DirectionOnly, Self::DoesNotHold, Self::Unclear, Self::NotMeasured];

    /// In words that follow a count of claims.
    pub fn of(self, count: usize) -> &'static str {
        match self {
            Self::Holds if count != 1 => "hold",
            Self::DoesNotHold if count != 1 => "do not hold",
            _ => self.as_str(),
        }
    }

    /// In words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::DirectionOnly => "direction only",
            Self::DoesNotHold => "does not hold",
            Self::Unclear => "unclear",
            Self::NotMeasured => "not measured",
        }
    }
}

/// Compares every claim of an experiment with the runs of it. Runs of other experiments are left aside.
pub fn judge(experiment: &Experiment, records: &[Record]) -> Vec<Finding> {
    let records: Vec<&Record> =
        records.iter().filter(|record| record.experiment == experiment.name()).collect();
    experiment
        .claims
        .iter()
        .map(|claim| Evaluator { claim, records: &records }.judge(experiment.name()))
        .collect()
}

struct Evaluator<'a> {
    claim: &'a Claim,
    records: &'a [&'a Record],
}

/// What one cell has to say, or several together.
struct Effect {
    /// What was measured, or by how much more than the other.
    amount: f64,
    /// Half of its confidence interval; none for one seed.
    half: Option<f64>,
    /// What it is a share of: what the other has, or 1.
    base: f64,
}

impl Effect {
    /// More than nothing is infinitely more.
    fn size(&self) -> f64 {
        if self.amount == 0.0 { 0.0 } else { self.amount / self.base }
    }

    fn half(&self) -> Option<f64> {
        self.half.filter(|_| self.base > 0.0).map(|half| half / self.base)
    }
}

/// Between what an effect may be.
struct Interval {
    low: f64,
    high: f64,
}

impl Interval {
    /// Beside a claimed difference, whose sign is the way it goes.
    fn compared(&self, claimed: f64) -> Verdict {
        let ends = [self.low, self.high].map(|end| claimed.signum() * end);
        let (least, most) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
        match least {
            _ if most < 0.0 || (least == 0.0 && most == 0.0) => Verdict::DoesNotHold,
            _ if least <= 0.0 => Verdict::Unclear,
            _ if least >= SIZE * claimed.abs() => Verdict::Holds,
            _ => Verdict::DirectionOnly,
        }
    }

    /// Beside the least and the most that a claim allows.
    fn within(&self, least: f64, most: f64) -> Verdict {
        if least <= self.low && self.high <= most {
            Verdict::Holds
        } else if self.high < least || most < self.low {
            Verdict::DoesNotHold
        } else {
            Verdict::Unclear
        }
    }
}

impl Evaluator<'_> {
    fn judge(&self, experiment: &str) -> Finding {
        let claim = self.claim;
        let outcome = match claim.expectation {
            Expectation::Best(best) => self.ranking(best),
            expectation => self.measured(expectation),
        };
        let (verdict, found) = outcome.unwrap_or((Verdict::NotMeasured, "nothing".into()));
        Finding {
            experiment: experiment.to_owned(),
            id: claim.id.clone(),
            says: claim.says.clone(),
            expected: claim.expected(),
            found,
            verdict,
            finding: claim.finding.clone(),
        }
    }

    fn measured(&self, expectation: Expectation) -> Option<(Verdict, String)> {
        let effect = match self.claim.of {
            Of::Mean => {
                let points = self.points();
                let effects = points.iter().filter_map(|point| self.effect(expectation, point)).collect();
                self.together(expectation, effects)?
            }
            Of::Median => self.median_effect(expectation)?,
        };
        let (size, half, unit) = (effect.size(), effect.half(), self.claim.measure.unit());
        if effect.base == 0.0 && effect.amount == 0.0 {
            return Some((Verdict::NotMeasured, "none in either".into()));
        }
        if size.is_infinite() {
            let verdict = match effect.half {
                Some(half) if half < effect.amount && claims_more(expectation) => Verdict::Holds,
                Some(half) if half < effect.amount => Verdict::DoesNotHold,
                _ => Verdict::Unclear,
            };
            return Some((verdict, format!("{} against none", show(unit, effect.amount))));
        }
        let margin = |scale: f64| half.map(|half| half * scale);
        let interval = half.map(|half| Interval { low: size - half, high: size + half });
        let judged = |rule: &dyn Fn(&Interval) -> Verdict| interval.as_ref().map_or(Verdict::Unclear, rule);
        let compared = |claimed: f64| judged(&|interval| interval.compared(claimed));
        // Any effect that is clear of chance is three quarters of nothing.
        let compared_way = |way: f64| compared(way * f64::MIN_POSITIVE);
        let within = |least: f64, most: f64| judged(&|interval| interval.within(least, most));
        let change =
            |half: Option<f64>| percent(size) + &half.map_or(String::new(), |half| format!(" ± {half:.1}"));
        let own_half = half.map_or(String::new(), |half| format!(" ± {}", show(unit, half)));
        let value = show(unit, size) + &own_half;
        Some(match expectation {
            Expectation::Change(claimed) => (compared(claimed), change(margin(100.0))),
            Expectation::Times(times) => {
                let half = half.map_or(String::new(), |half| format!(" ± {half:.2}"));
                (compared(times - 1.0), format!("× {:.2}{half}", size + 1.0))
            }
            Expectation::Less => (compared_way(-1.0), change(margin(100.0))),
            Expectation::More => (compared_way(1.0), change(margin(100.0))),
            Expectation::Difference(claimed) => {
                (compared(claimed), signed(size, &show(unit, size.abs())) + &own_half)
            }
            Expectation::Value(claimed) => {
                let near = NEAR * claimed.abs();
                (within(claimed - near, claimed + near), value)
            }
            Expectation::AtLeast(limit) => (within(limit, f64::INFINITY), value),
            Expectation::AtMost(limit) => (within(f64::NEG_INFINITY, limit), value),
            Expectation::Best(_) => return None,
        })
    }

    /// The effect of several cells as one.
    fn together(&self, expectation: Expectation, effects: Vec<Effect>) -> Option<Effect> {
        let way = if claims_more(expectation) { 1.0 } else { -1.0 };
        let strength = |effect: &Effect| way * effect.size();
        match self.claim.over {
            Over::Most => effects.into_iter().max_by(|a, b| strength(a).total_cmp(&strength(b))),
            Over::Least => effects.into_iter().min_by(|a, b| strength(a).total_cmp(&strength(b))),
            Over::Mean => {
                let count = effects.len() as f64;
                let mean = |sum: f64| sum / count;
                // Cells are independent of one another.
                let half =
                    effects.iter().map(|effect| effect.half.map(|half| half * half)).sum::<Option<f64>>();
                (count > 0.0).then(|| Effect {
                    amount: mean(effects.iter().map(|effect| effect.amount).sum()),
                    half: half.map(|sum| mean(sum.sqrt())),
                    base: mean(effects.iter().map(|effect| effect.base).sum()),
                })
            }
        }
    }

    fn effect(&self, expectation: Expectation, point: &Point) -> Option<Effect> {
        if !expectation.compares() {
            let estimate = Estimate::of(&self.own(point))?;
            return Some(Effect { amount: estimate.mean, half: estimate.half, base: 1.0 });
        }
        let pairs = self.pairs(point);
        let differences: Vec<f64> = pairs.iter().map(|(own, other)| own - other).collect();
        let estimate = Estimate::of(&differences)?;
        let base = match expectation {
            Expectation::Difference(_) => 1.0,
            _ => pairs.iter().map(|(_, other)| other).sum::<f64>() / pairs.len() as f64,
        };
        Some(Effect { amount: estimate.mean, half: estimate.half, base })
    }

    /// That of the medians of all runs.
    fn median_effect(&self, expectation: Expectation) -> Option<Effect> {
        let points = self.points();
        let pairs: Vec<(f64, f64)> = if expectation.compares() {
            points.iter().flat_map(|point| self.pairs(point)).collect()
        } else {
            points.iter().flat_map(|point| self.own(point)).map(|own| (own, 0.0)).collect()
        };
        let (own, other) = medians(&pairs)?;
        let relative = expectation.compares() && !matches!(expectation, Expectation::Difference(_));
        let base = if relative { other } else { 1.0 };
        let half = spread_of_medians(&pairs, |(own, other)| {
            if relative { (other > 0.0).then(|| own / other) } else { Some(own - other) }
        });
        Some(Effect { amount: own - other, half: half.map(|half| half * base), base })
    }

    /// What the claim is about, seed by seed.
    fn own(&self, point: &Point) -> Vec<f64> {
        let values = self.values(&self.claim.scheduler, point, &self.claim.subject);
        values.into_iter().map(|(_, value)| value).collect()
    }

    /// The same beside what it is compared with.
    fn pairs(&self, point: &Point) -> Vec<(f64, f64)> {
        let Claim { scheduler, subject, against, .. } = self.claim;
        let own = self.values(scheduler, point, subject);
        let mut elsewhere = point.clone();
        elsewhere.extend(against.at.clone());
        let other = self.values(&against.scheduler, &elsewhere, &against.subject);
        let of = |seed: u64| other.iter().find(|(known, _)| *known == seed).map(|(_, value)| *value);
        own.iter().filter_map(|(seed, value)| Some((*value, of(*seed)?))).collect()
    }

    fn ranking(&self, best: Best) -> Option<(Verdict, String)> {
        let (measure, unit) = (self.claim.measure, self.claim.measure.unit());
        let (mut cells, mut beaten, mut worst): (usize, usize, Option<(f64, String)>) = (0, 0, None);
        let mut certain = true;
        for point in self.points() {
            let own = self.values(&self.claim.scheduler, &point, &self.claim.subject);
            if own.is_empty() {
                continue;
            }
            cells += 1;
            let mut by: Option<(f64, String)> = None;
            for rival in self.rivals(&point) {
                let other = self.values(&rival, &point, &self.claim.subject);
                let ahead: Vec<f64> = other
                    .iter()
                    .filter_map(|(seed, value)| {
                        let own = own.iter().find(|(own, _)| own == seed)?.1;
                        Some(if best == Best::Highest { value - own } else { own - value })
                    })
                    .collect();
                let Some(lead) = Estimate::of(&ahead) else { continue };
                certain &= lead.half.is_some();
                let clear = lead.mean > lead.half.unwrap_or(0.0) && lead.mean > 0.0;
                if clear && by.as_ref().is_none_or(|(most, _)| lead.mean > *most) {
                    by = Some((lead.mean, format!("{rival} by {}{}", show(unit, lead.mean), place(&point))));
                }
            }
            beaten += usize::from(by.is_some());
            if by.as_ref().map(|(lead, _)| *lead) > worst.as_ref().map(|(lead, _)| *lead) {
                worst = by;
            }
        }
        let verdict = match (cells, beaten) {
            (0, _) => return None,
            _ if !certain => Verdict::Unclear,
            (_, 0) => Verdict::Holds,
            (cells, beaten) if beaten * 2 < cells => Verdict::DirectionOnly,
            _ => Verdict::DoesNotHold,
        };
        let first = format!("in {} of {cells}", cells - beaten);
        Some((verdict, worst.map_or(first.clone(), |(_, who)| format!("{first}; {measure}: {who}"))))
    }

    /// The cells that it is about, in order of the runs.
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

    /// Everybody else who ran in a cell.
    fn rivals(&self, point: &Point) -> Vec<String> {
        let mut rivals: Vec<String> = Vec::new();
        for record in self.records.iter().filter(|record| record.point == *point) {
            let name = &record.run.scheduler;
            if *name != self.claim.scheduler && !rivals.contains(name) {
                rivals.push(name.clone());
            }
        }
        rivals
    }

    /// By seed.
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

/// Whether it is that something is higher, and not lower.
fn claims_more(expectation: Expectation) -> bool {
    match expectation {
        Expectation::Change(claimed) | Expectation::Difference(claimed) => claimed > 0.0,
        Expectation::Times(times) => times > 1.0,
        Expectation::AtMost(_) | Expectation::Less => false,
        _ => true,
    }
}

/// Where, for the end of a sentence.
fn place(point: &Point) -> String {
    if point.is_empty() {
        return String::new();
    }
    let names: Vec<String> = point.iter().map(|(axis, name)| format!("{axis} {name}")).collect();
    format!(" at {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::claim::Against;
    use crate::result::sample::run;

    /// A run that cancelled `cancelled` blocks.
    fn record(scheduler: &str, place: &str, seed: u64, cancelled: u64) -> Record {
        let mut run = run(scheduler, seed);
        for class in &mut run.flows[0].classes {
            class.tally.cancelled_blocks = 0;
        }
        run.flows[0].total.cancelled_blocks = cancelled;
        let point = [("place".to_owned(), place.to_owned())].into();
        Record { experiment: "e".into(), point, key: String::new(), run }
    }

    /// The verdict on these cells, each run twice with the same outcome.
    fn found_twice(expectation: Expectation, over: Over, cells: &[(&str, u64, u64)]) -> (Verdict, String) {
        found(expectation, over, &[cells, cells].concat())
    }

    fn found(expectation: Expectation, over: Over, numbers: &[(&str, u64, u64)]) -> (Verdict, String) {
        let records: Vec<Record> = numbers
            .iter()
            .zip(1..)
            .flat_map(|(&(place, own, other), seed)| {
                [record("storm", place, seed, own), record("minrtt", place, seed, other)]
            })
            .collect();
        let claim = Claim {
            id: String::new(),
            of: Of::Mean,
            says: String::new(),
            at: Point::new(),
            over,
            subject: Subject::flow("camera"),
            measure: "cancelled_blocks".parse().unwrap(),
            scheduler: "storm".into(),
            against: Against {
                scheduler: "minrtt".into(),
                at: Point::new(),
                subject: Subject::flow("camera"),
            },
            expectation,
            finding: String::new(),
        };
        let records: Vec<&Record> = records.iter().collect();
        let finding = Evaluator { claim: &claim, records: &records }.judge("e");
        (finding.verdict, finding.found)
    }

    #[test]
    fn a_cell_with_next_to_nothing_does_not_decide() {
        let cells = [("hall", 50, 100), ("street", 2, 1)];
        let mean = found_twice(Expectation::Change(-0.5), Over::Mean, &cells);
        assert_eq!(mean, (Verdict::Holds, "-48.5 % ± 0.0".into()));
        let least = found_twice(Expectation::Change(-0.5), Over::Least, &cells);
        assert_eq!(least, (Verdict::DoesNotHold, "+100.0 % ± 0.0".into()));
    }

    #[test]
    fn nothing_can_be_compared_with() {
        let some = [("hall", 7, 0)];
        assert_eq!(
            found_twice(Expectation::Change(-0.9), Over::Mean, &some),
            (Verdict::DoesNotHold, "7.00 against none".into())
        );
        assert_eq!(found_twice(Expectation::More, Over::Mean, &some).0, Verdict::Holds);
        let once = [("hall", 7, 0), ("hall", 0, 0)];
        assert_eq!(found(Expectation::More, Over::Mean, &once).0, Verdict::Unclear, "in one of two runs");
        let none = [("hall", 0, 0)];
        assert_eq!(
            found(Expectation::Less, Over::Mean, &none),
            (Verdict::NotMeasured, "none in either".into())
        );
        assert_eq!(found_twice(Expectation::Less, Over::Mean, &[("hall", 0, 5)]).0, Verdict::Holds);
    }

    #[test]
    fn what_may_be_chance_is_unclear() {
        let seeds = [("hall", 5, 10), ("hall", 12, 10), ("hall", 7, 10)];
        assert_eq!(found(Expectation::Less, Over::Mean, &seeds).0, Verdict::Unclear);
        let seeds = [("hall", 5, 10), ("hall", 6, 10), ("hall", 5, 10)];
        // -46.7 % ± 14.3.
        assert_eq!(found(Expectation::Change(-0.4), Over::Mean, &seeds).0, Verdict::Holds);
        assert_eq!(found(Expectation::Change(-0.5), Over::Mean, &seeds).0, Verdict::DirectionOnly);
        assert_eq!(found(Expectation::Change(-0.9), Over::Mean, &seeds).0, Verdict::DirectionOnly);
        assert_eq!(found(Expectation::Change(0.5), Over::Mean, &seeds).0, Verdict::DoesNotHold);
    }

    #[test]
    fn a_value_and_a_limit_are_judged_by_the_whole_interval() {
        let value =
            |claimed: f64, runs: &[(&str, u64, u64)]| found(Expectation::Value(claimed), Over::Mean, runs).0;
        let narrow = [("hall", 95, 0), ("hall", 96, 0), ("hall", 95, 0)];
        assert_eq!(value(100.0, &narrow), Verdict::Holds);
        assert_eq!(value(64.4, &narrow), Verdict::DoesNotHold);
        let wide = [("hall", 92, 0), ("hall", 100, 0)];
        assert_eq!(value(64.4, &wide), Verdict::Unclear, "96 ± 50.8 includes it");
        assert_eq!(value(96.0, &wide), Verdict::Unclear, "and much else");
        let limit = |expectation: Expectation, runs| found(expectation, Over::Mean, runs).0;
        assert_eq!(limit(Expectation::AtLeast(90.0), &narrow), Verdict::Holds);
        assert_eq!(limit(Expectation::AtLeast(90.0), &wide), Verdict::Unclear);
        assert_eq!(limit(Expectation::AtMost(90.0), &narrow), Verdict::DoesNotHold);
    }

    #[test]
    fn one_seed_proves_nothing() {
        let expectations = [
            Expectation::Change(-0.5),
            Expectation::Times(0.5),
            Expectation::Difference(-50.0),
            Expectation::Less,
            Expectation::More,
            Expectation::Value(50.0),
            Expectation::AtLeast(10.0),
            Expectation::AtMost(90.0),
            Expectation::Best(Best::Lowest),
            Expectation::Best(Best::Highest),
        ];
        for expectation in expectations {
            assert_eq!(
                found(expectation, Over::Mean, &[("hall", 50, 100)]).0,
                Verdict::Unclear,
                "{expectation:?}"
            );
        }
        assert_eq!(found(Expectation::More, Over::Mean, &[("hall", 7, 0)]).0, Verdict::Unclear);
    }
}
