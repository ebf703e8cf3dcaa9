//! How much faster than the clock a scenario runs.

use std::{sync::Arc, time::Instant};

use squall::sched::Registry;
use squall_lab::{Scenario, run};
use squall_terminal::error::whole;

use super::{Figure, Target};

/// 30 Mbps of traffic on two links, both ends and encryption included.
const SCENARIO: &str = include_str!("../../../../scenarios/stable.toml");

const RUNS: usize = 3;

pub(super) fn measure() -> anyhow::Result<Figure> {
    let scenario = Scenario::parse(SCENARIO, "stable.toml").map_err(whole)?;
    let registry = Arc::new(Registry::standard());
    let mut factors = Vec::new();
    for _ in 0..RUNS {
        let start = Instant::now();
        run(&scenario, "minrtt", 1, &registry, &mut |_| {}).map_err(whole)?;
        factors.push(scenario.duration_us as f64 / start.elapsed().as_micros() as f64);
    }
    let figure = Figure::of("virtual time, 30 Mbps on two links, one core", "× clock", factors);
    Ok(figure.target(Target::AtLeast(25.0)))
}
