//! Comparison of a scheduler with a paper's system, in every measure that the paper's claims are
//! about.

use std::collections::BTreeMap;

use squall_sched::Registry;
use toml::{Table, Value};

use super::{Against, Best, Challenge, Claim, Expectation, Experiment, Of, Over, Point, judge, resolve};
use crate::scenario::ScenarioError;
use crate::variant::{Variant, under_conditions_of};

impl Experiment {
    /// Reduces the experiment to two schedulers: the paper's system and this one, a label as for
    /// [`crate::Variant::of`]. Each claim about a measure with a better direction becomes the claim
    /// that the challenger is ahead, for the same subject and points, on average; duplicates are
    /// merged. Cells without such a claim, figures and checks are removed. Returns `None` if
    /// nothing is left: the file names no [scheduler](super::Source::scheduler) of the paper, the
    /// schedulers are the same, or no claim has such a measure.
    ///
    /// The challenger runs under the same application conditions as the system, expressed by the
    /// system's suffixes.
    ///
    /// # Errors
    /// If the registry does not have the scheduler, or it does not fit the scenario.
    pub fn challenged_by(
        mut self,
        scheduler: &str,
        registry: &Registry,
    ) -> Result<Option<Self>, ScenarioError> {
        let system = std::mem::take(&mut self.source.scheduler);
        let challenger = under_conditions_of(&system, scheduler);
        if system.is_empty() || system == challenger {
            return Ok(None);
        }
        let mut claims: Vec<Claim> = Vec::new();
        for claim in self.claims.iter().filter_map(|claim| compared(claim, &system, &challenger)) {
            // Claims with the same text differ at most in the paper's number.
            if claims.iter().all(|known| known.says != claim.says) {
                claims.push(claim);
            }
        }
        if claims.is_empty() {
            return Ok(None);
        }
        self.run_only([&system, &challenger]);
        self.claims = claims;
        self.plots.clear();
        self.assumptions.clear();
        self.source.stock.clear();
        self.challenge = Some(Challenge { system, challenger });
        for cell in self.cells(false)? {
            resolve::check_schedulers(&cell.scenario, registry).map_err(|problem| {
                ScenarioError::Invalid { name: self.file.display().to_string(), line: 1, column: 1, problem }
            })?;
        }
        Ok(Some(self))
    }

    /// Keeps only these schedulers at every point, and no checks, which may name others.
    fn run_only(&mut self, schedulers: [&str; 2]) {
        let mut table: Table = self.text.parse().expect("the scenario was read from it");
        table.remove("check");
        let is_run = |name: &str| schedulers.iter().any(|label| Variant::of(label).name() == name);
        if let Some(Value::Table(options)) = table.get_mut("options") {
            options.retain(|name, _| is_run(name));
        }
        table.insert("schedulers".into(), Value::from(schedulers.to_vec()));
        self.text = table.to_string();
        self.scenario.schedulers = schedulers.map(str::to_owned).into();
        for point in self.axes.iter_mut().flat_map(|axis| &mut axis.points) {
            point.set.retain(|field, _| {
                let of_another = field.strip_prefix("options.").and_then(|rest| rest.split('.').next());
                field != "schedulers" && !field.starts_with("check.") && of_another.is_none_or(is_run)
            });
        }
    }
}

/// The claim that the challenger is ahead of the system in the same measure.
fn compared(claim: &Claim, system: &str, challenger: &str) -> Option<Claim> {
    let expectation = match claim.measure.best()? {
        Best::Highest => Expectation::More,
        Best::Lowest => Expectation::Less,
    };
    let against = Against { scheduler: system.to_owned(), at: Point::new(), subject: claim.subject.clone() };
    Some(Claim {
        says: metric(claim),
        // The cell with the greatest or least effect would favour one of the two.
        over: Over::Mean,
        scheduler: challenger.to_owned(),
        against,
        expectation,
        finding: String::new(),
        evidence: BTreeMap::new(),
        ..claim.clone()
    })
}

/// Describes measure, subject and points in words.
fn metric(claim: &Claim) -> String {
    let of = match claim.of {
        Of::Mean => "",
        Of::Median => "median of the runs: ",
        Of::Highest => "highest of the runs: ",
        Of::Pooled => "all runs together: ",
    };
    format!("{of}{} of {}{}", claim.measure, claim.subject.describe(), judge::place(&claim.at))
}
