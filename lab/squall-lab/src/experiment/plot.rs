//! Figures that an experiment requests: `[[figure]]` of its file.

use super::figure::{Along, Plot, PlotKind};
use super::file::{KindWord, PlotTable};
use super::resolve::Reader;
use crate::measure::{Measure, Subject};
use crate::scenario::{Problem, Quantity};

impl Reader<'_> {
    /// Resolves a figure table.
    pub(super) fn plot(&self, table: PlotTable) -> Result<Plot, Problem> {
        self.points("at", &table.at)?;
        for scheduler in &table.schedulers {
            self.runs("schedulers", scheduler)?;
        }
        let subject =
            Subject { flow: table.flow.clone(), class: table.class.clone(), path: table.path.clone() };
        let kind = match table.kind {
            KindWord::Values => self.values(&table, &subject)?,
            KindWord::Ladder => self.ladder(&table, &subject)?,
            kind => self.distribution(&table, kind)?,
        };
        let known = self.experiment.scenario.check_subject(&subject);
        known.map_err(|(field, words)| self.at(field, words))?;
        Ok(Plot { title: table.title, kind, at: table.at, subject, schedulers: table.schedulers })
    }

    fn ladder(&self, table: &PlotTable, subject: &Subject) -> Result<PlotKind, Problem> {
        let foreign = [
            ("x", table.x.is_some()),
            ("measure", table.measure.is_some()),
            ("classes", table.classes.is_some()),
            ("schedulers", !table.schedulers.is_empty()),
            ("paper", !table.paper.is_empty()),
        ];
        if let Some((field, _)) = foreign.iter().find(|(_, given)| *given) {
            return Err(self.at(field, format!("{field}: a ladder has steps and measures")));
        }
        let measures = table.measures.clone().unwrap_or_default();
        if measures.is_empty() || table.steps.is_empty() {
            return Err(self.at("kind", "kind: a ladder needs steps and measures"));
        }
        for step in &table.steps {
            self.runs("steps", &step.scheduler)?;
        }
        self.one_unit(&measures)?;
        for measure in &measures {
            self.subject(subject, *measure)?;
        }
        Ok(PlotKind::Ladder { steps: table.steps.clone(), measures, scale: table.scale })
    }

    fn one_unit(&self, measures: &[Measure]) -> Result<(), Problem> {
        let Some((first, others)) = measures.split_first() else { return Ok(()) };
        others.iter().find(|other| other.unit() != first.unit()).map_or(Ok(()), |other| {
            Err(self.at("measures", format!("measures: {first} and {other} have different units")))
        })
    }

    fn distribution(&self, table: &PlotTable, kind: KindWord) -> Result<PlotKind, Problem> {
        let foreign = [
            ("x", table.x.is_some()),
            ("measure", table.measure.is_some()),
            ("measures", table.measures.is_some()),
            ("classes", table.classes.is_some()),
            ("class", table.class.is_some()),
            ("path", table.path.is_some()),
            ("scale", table.scale.is_some()),
            ("steps", !table.steps.is_empty()),
            ("paper", !table.paper.is_empty()),
        ];
        if let Some((field, _)) = foreign.iter().find(|(_, given)| *given) {
            return Err(self.at(field, format!("{field}: a distribution is of the latencies of a flow")));
        }
        if table.flow.is_none() {
            return Err(self.at("kind", "kind: a distribution needs the flow that it is of: flow"));
        }
        Ok(if kind == KindWord::Tail { PlotKind::Tail } else { PlotKind::Cdf })
    }

    fn values(&self, table: &PlotTable, subject: &Subject) -> Result<PlotKind, Problem> {
        if !table.steps.is_empty() {
            return Err(self.at("steps", "steps: only a ladder has them"));
        }
        let (along, measures) = self.along(table)?;
        let measure = measures[0];
        self.one_unit(&measures)?;
        for measure in measures {
            match &along {
                Along::Classes(classes) => classes.iter().try_for_each(|class| {
                    self.subject(&Subject { class: Some(class.clone()), ..subject.clone() }, measure)
                })?,
                _ => self.subject(subject, measure)?,
            }
        }
        let places = along.places(&self.experiment.axes);
        let paper = table.paper.iter().map(|(scheduler, numbers)| {
            self.runs("paper", scheduler)?;
            Ok((scheduler.clone(), self.published(numbers, measure, places)?))
        });
        Ok(PlotKind::Values {
            paper: paper.collect::<Result<_, Problem>>()?,
            along,
            measure,
            scale: table.scale,
        })
    }

    fn along(&self, table: &PlotTable) -> Result<(Along, Vec<Measure>), Problem> {
        let one = || match (&table.measure, &table.measures) {
            (Some(measure), None) => Ok(vec![*measure]),
            _ => Err(self.at("title", "a figure has one of measure and measures")),
        };
        match (&table.x, &table.measures, &table.classes) {
            (None, None, None) => Ok((Along::Nothing, one()?)),
            (Some(name), None, None) => {
                if self.experiment.axes.iter().all(|axis| axis.name != *name) {
                    return Err(self.at("x", format!("x: no axis is called {name:?}")));
                }
                if table.at.contains_key(name) {
                    return Err(self.at("at", format!("at: the figure goes along {name}")));
                }
                Ok((Along::Axis(name.clone()), one()?))
            }
            (None, Some(measures), None) if table.measure.is_none() && !measures.is_empty() => {
                Ok((Along::Measures(measures.clone()), measures.clone()))
            }
            (None, None, Some(classes)) if table.class.is_none() && !classes.is_empty() => {
                Ok((Along::Classes(classes.clone()), one()?))
            }
            _ => {
                let words =
                    "a figure goes along one of x, measures and classes, and measures stand for measure";
                Err(self.at("title", words))
            }
        }
    }

    /// The paper's numbers for one scheduler.
    fn published(
        &self,
        numbers: &[Quantity],
        measure: Measure,
        places: usize,
    ) -> Result<Vec<Option<f64>>, Problem> {
        if numbers.len() != places {
            let words = format!(
                "paper: {} numbers where the figure has {places}; nan for those not published",
                numbers.len()
            );
            return Err(self.at("paper", words));
        }
        let value = |number: &Quantity| {
            let value = (!number.is_absent()).then(|| number.value(measure.unit())).transpose();
            value.map_err(|words| self.at("paper", format!("paper: {words}")))
        };
        numbers.iter().map(value).collect()
    }
}
