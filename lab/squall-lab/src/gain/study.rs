//! The runs of a study and what came of them.

use std::sync::Arc;

use serde::Serialize;
use squall_proto::sched::Registry;

use super::{
    CONTENDERS, Competitor, Estimate, Measure, Measures, Parameter,
    variant::{self, variant},
};
use crate::{Batch, RunError, Scenario};

/// Length of a quick run in microseconds: time enough to walk away from an access point.
const QUICK_US: u64 = 25_000_000;

/// Why there is no study.
#[derive(Debug, thiserror::Error)]
pub enum GainError {
    /// No path of the scenario has a radio.
    #[error("scenario {0}: no path has a radio")]
    NoRadio(String),
    /// Some radios move their links, others their reports.
    #[error(
        "scenario {0}: a lead moves the links of some radios and the reports of others (trace); they cannot be compared"
    )]
    Mixed(String),
    /// A run failed.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// What is to be run.
#[derive(Debug, Clone)]
pub struct Study {
    scenario: Scenario,
    seeds: Vec<u64>,
    sweeps: Vec<(Parameter, Vec<f64>)>,
    /// The smallest lead, in microseconds.
    lowest: i64,
}

/// What was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gain {
    /// Name of the scenario.
    pub scenario: String,
    /// What it shows.
    pub description: String,
    /// Time for which blocks were offered in each run, in microseconds.
    pub duration_us: u64,
    /// Version of the program that ran it.
    pub version: String,
    /// Seeds, the same for all.
    pub seeds: Vec<u64>,
    /// Those that do not go by the radio: the same at every value.
    pub without: Vec<Cell>,
    /// What the others did at each value.
    pub sweeps: Vec<Sweep>,
}

/// What came of the values of one parameter.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sweep {
    /// What was set.
    pub parameter: Parameter,
    /// By value, in order.
    pub points: Vec<Point>,
}

/// What came of one value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// In the unit of the parameter.
    pub value: f64,
    /// Whether it is what the scenario has.
    pub own: bool,
    /// Those that go by the radio.
    pub cells: Vec<Cell>,
}

/// The runs of one contender at one value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cell {
    /// Its name.
    pub contender: String,
    /// One for each seed, in order.
    pub runs: Vec<Measures>,
}

impl Study {
    /// Every value of every parameter, and those that the scenario has.
    ///
    /// # Errors
    /// If the scenario has no radio, or radios that cannot be compared.
    pub fn of(scenario: &Scenario, seeds: Vec<u64>) -> Result<Self, GainError> {
        Self::with(scenario, seeds, Parameter::values)
    }

    /// A few values of every parameter, those that the scenario has, and only its first 25 seconds.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn quick(scenario: &Scenario, seeds: Vec<u64>) -> Result<Self, GainError> {
        Self::with(&variant::cut(scenario, QUICK_US), seeds, Parameter::few)
    }

    fn with(
        scenario: &Scenario,
        seeds: Vec<u64>,
        values: fn(Parameter) -> &'static [f64],
    ) -> Result<Self, GainError> {
        variant::check(scenario)?;
        let sweeps =
            Parameter::ALL.map(|parameter| (parameter, with_own(scenario, parameter, values(parameter))));
        let swept = sweeps[0].1.iter().map(|lead| (lead * 1e3).round() as i64);
        let lowest = swept.chain(variant::leads(scenario)).min().unwrap_or(0);
        Ok(Self { scenario: scenario.clone(), seeds, sweeps: sweeps.into(), lowest })
    }

    /// Virtual time of all runs together, in microseconds.
    pub fn work_us(&self) -> u64 {
        let values = self.sweeps.iter().flat_map(|(parameter, values)| {
            values.iter().map(|value| (*parameter, *value)).filter(|set| !self.is_own(*set))
        });
        let swept: u64 = values.map(|set| self.batch_us(Some(set), with_signal().count())).sum();
        swept + self.batch_us(None, CONTENDERS.len())
    }

    fn batch_us(&self, set: Option<(Parameter, f64)>, contenders: usize) -> u64 {
        variant(&self.scenario, set, self.lowest).duration_us * (contenders * self.seeds.len()) as u64
    }

    /// Runs everything, on as many threads as there are processors; the same study gives the same numbers.
    /// `progress` is told each piece of virtual time that has been run, in microseconds; [`Self::work_us`] is their
    /// sum.
    ///
    /// # Errors
    /// The first run that failed.
    pub fn run(&self, registry: &Arc<Registry>, progress: &(dyn Fn(u64) + Sync)) -> Result<Gain, GainError> {
        let run = |set, contenders: Vec<&Competitor>| self.cells(set, &contenders, registry, progress);
        let own = run(None, CONTENDERS.iter().collect())?;
        let (with, without): (Vec<Cell>, Vec<Cell>) =
            own.into_iter().partition(|cell| with_signal().any(|one| one.label == cell.contender));
        let mut sweeps = Vec::new();
        for (parameter, values) in &self.sweeps {
            let mut points = Vec::new();
            for value in values {
                let set = (*parameter, *value);
                let own = self.is_own(set);
                let cells = if own { with.clone() } else { run(Some(set), with_signal().collect())? };
                points.push(Point { value: *value, own, cells });
            }
            sweeps.push(Sweep { parameter: *parameter, points });
        }
        Ok(Gain {
            scenario: self.scenario.name.clone(),
            description: self.scenario.description.clone(),
            duration_us: self.scenario.duration_us,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            seeds: self.seeds.clone(),
            without,
            sweeps,
        })
    }

    fn cells(
        &self,
        set: Option<(Parameter, f64)>,
        contenders: &[&Competitor],
        registry: &Arc<Registry>,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Vec<Cell>, GainError> {
        let scenario = variant(&self.scenario, set, self.lowest);
        let mut batch = Batch::of(&scenario, registry.clone());
        batch.schedulers = contenders.iter().map(|one| one.label.to_owned()).collect();
        batch.seeds.clone_from(&self.seeds);
        let runs = batch.run(progress)?;
        let by_contender = batch.schedulers.iter().zip(runs.chunks(self.seeds.len()));
        let cell = |(contender, runs): (&String, &[crate::RunResult])| Cell {
            contender: contender.clone(),
            runs: runs.iter().map(Measures::of).collect(),
        };
        Ok(by_contender.map(cell).collect())
    }

    /// Whether all radios of the scenario have this value.
    fn is_own(&self, (parameter, value): (Parameter, f64)) -> bool {
        own_value(&self.scenario, parameter) == Some(value)
    }
}

/// Those that go by the radio.
fn with_signal() -> impl Iterator<Item = &'static Competitor> {
    CONTENDERS.iter().filter(|one| one.without.is_some())
}

/// The value of a parameter that all radios of a scenario share.
fn own_value(scenario: &Scenario, parameter: Parameter) -> Option<f64> {
    let mut values = scenario.paths.iter().filter_map(|path| Some(parameter.of(path.radio.as_ref()?)));
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}

fn with_own(scenario: &Scenario, parameter: Parameter, values: &[f64]) -> Vec<f64> {
    let mut all = values.to_vec();
    all.extend(own_value(scenario, parameter).filter(|own| !values.contains(own)));
    all.sort_by(f64::total_cmp);
    all
}

impl Gain {
    /// The runs without the signal of what took part with it.
    pub fn without(&self, cell: &Cell) -> Option<&Cell> {
        let label = CONTENDERS.iter().find(|one| one.label == cell.contender)?.without?;
        self.without.iter().find(|other| other.contender == label)
    }

    /// What the signal adds to a measure, seed by seed: what the seeds have in common is not in the interval.
    pub fn difference(&self, cell: &Cell, measure: Measure) -> Option<Estimate> {
        let pairs = cell.runs.iter().zip(&self.without(cell)?.runs);
        let values: Vec<f64> =
            pairs.filter_map(|(run, without)| Some(run.get(measure)? - without.get(measure)?)).collect();
        Estimate::of(&values)
    }
}

impl Cell {
    /// What its seeds say of a measure; none if there was nothing to measure.
    pub fn estimate(&self, measure: Measure) -> Option<Estimate> {
        let values: Vec<f64> = self.runs.iter().filter_map(|run| run.get(measure)).collect();
        Estimate::of(&values)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Wi-Fi that is gone for half a second, and LTE that is always there.
    const SUDDEN: &str = r#"
        name = "sudden"
        duration = "2s"
        schedulers = ["storm"]
        [[path]]
        name = "Wi-Fi"
        rate = "8mbps"
        delay = "5ms"
        [path.radio]
        lead = "300ms"
        series = { rssi = [["0s", -55], ["1500ms", -90], ["2s", -55]] }
        [[path]]
        name = "LTE"
        rate = "4mbps"
        delay = "20ms"
        [path.radio]
        lead = "300ms"
        technology = "lte"
        series = { rsrp = [["0s", -80]], sinr = [["0s", 25]] }
        [[flow]]
        name = "f"
        kind = "blocks"
        size = "3kB"
        interval = "10ms"
        deadline = "150ms"
    "#;

    fn gain() -> (Gain, u64, u64) {
        let scenario = Scenario::parse(SUDDEN, "sudden.toml").expect("is a scenario");
        let study = Study::quick(&scenario, vec![1, 2]).expect("has radios");
        let told = AtomicU64::new(0);
        let add = |piece| {
            told.fetch_add(piece, Ordering::Relaxed);
        };
        let gain = study.run(&Arc::new(Registry::standard()), &add).expect("runs");
        (gain, told.into_inner(), study.work_us())
    }

    fn point(gain: &Gain, parameter: Parameter, value: f64) -> &Point {
        let sweep = gain.sweeps.iter().find(|sweep| sweep.parameter == parameter).expect("is swept");
        sweep.points.iter().find(|point| point.value == value).expect("is a value")
    }

    #[test]
    fn a_study_has_every_value_and_tells_how_far_it_is() {
        let (gain, told, work) = gain();
        assert_eq!(told, work);
        assert_eq!(gain.without.len(), 2);
        for (sweep, parameter) in gain.sweeps.iter().zip(Parameter::ALL) {
            let values: Vec<f64> = sweep.points.iter().map(|point| point.value).collect();
            assert!(parameter.few().iter().all(|value| values.contains(value)) && values.is_sorted());
            let own: Vec<&Point> = sweep.points.iter().filter(|point| point.own).collect();
            assert_eq!(own.len(), 1);
            assert_eq!(own[0].cells, point(&gain, Parameter::Lead, 300.0).cells);
        }
        let text = crate::gain::text(&gain);
        assert!(text.contains("* 300 ms  storm") && text.contains("8 dB  minrtt+swm"), "{text}");
        let svg = crate::gain::svg(&[gain.clone(), gain]);
        assert_eq!(svg.lines().filter(|line| *line == "sudden").count(), 2);
    }

    #[test]
    fn a_radio_that_is_early_and_late_by_as_much_is_neither() {
        let (gain, ..) = gain();
        // All but the share of bytes that were sent again: of the bytes in all, some are probes, whose times differ.
        let runs = |parameter, value| -> Vec<_> {
            let cells = point(&gain, parameter, value).cells.iter();
            cells
                .flat_map(|cell| cell.runs.iter().map(|run| Measures { again_percent: None, ..*run }))
                .collect()
        };
        assert_eq!(runs(Parameter::Late, 300.0), runs(Parameter::Lead, 0.0));
    }

    #[test]
    fn a_lead_saves_what_is_under_way_when_a_link_ends() {
        let (gain, ..) = gain();
        let lost = |cell: &Cell| cell.estimate(Measure::Lost).expect("is counted").mean;
        let storm = |lead| lost(&point(&gain, Parameter::Lead, lead).cells[1]);
        let ras = lost(&gain.without[1]);
        assert!(ras > 0.0 && storm(-500.0) >= 0.5 * ras, "told too late: {} of {ras}", storm(-500.0));
        assert_eq!(storm(300.0), 0.0);
        let cell = &point(&gain, Parameter::Lead, 300.0).cells[1];
        assert_eq!(gain.difference(cell, Measure::Lost).expect("has seeds").mean, -ras);
    }

    #[test]
    fn the_same_study_gives_the_same_numbers() {
        assert_eq!(gain(), gain());
    }
}
