//! Levels of a path as a function of time, computed on demand.

use rand_pcg::{Pcg64Mcg, rand_core::SeedableRng};
use squall_trace::Micros;

use super::{
    levels::{LevelSeries, Levels},
    scene::Scene,
    source::Source,
};

/// Levels over time, constant within each step.
#[derive(Debug, Clone)]
pub(super) struct Course {
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Series(Box<LevelSeries>),
    Scene {
        scene: Box<Scene>,
        random: Pcg64Mcg,
        levels: Levels,
        /// The end of the step in which `levels` hold.
        until: Micros,
    },
}

impl Course {
    /// Returns `None` if a file has not been loaded.
    pub(super) fn new(source: &Source, seed: u64) -> Option<Self> {
        let kind = match source {
            Source::Series(series) | Source::Trace(series) => {
                Kind::Series(series.is_loaded().then(|| Box::new(series.clone()))?)
            }
            _ => {
                let mut random = Pcg64Mcg::seed_from_u64(seed);
                let mut scene = Box::new(source.begin(&mut random)?);
                let (levels, until) = scene.step(&mut random);
                Kind::Scene { scene, random, levels, until }
            }
        };
        Some(Self { kind })
    }

    /// Returns the levels at `now`, which must not decrease, and the time until which they hold.
    pub(super) fn at(&mut self, now: Micros) -> (Levels, Micros) {
        match &mut self.kind {
            Kind::Series(series) => series.at(now),
            Kind::Scene { scene, random, levels, until } => {
                while *until <= now {
                    let (next, span) = scene.step(random);
                    *levels = next;
                    *until = until.saturating_add(span);
                }
                (*levels, *until)
            }
        }
    }

    /// Returns the time after which there are no further levels; `None` if there is no end.
    pub(super) fn end(&self) -> Option<Micros> {
        match &self.kind {
            Kind::Series(series) => series.end(),
            Kind::Scene { .. } => None,
        }
    }
}
