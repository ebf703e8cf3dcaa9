//! Speed of a scenario in virtual time, relative to real time.

use std::{sync::Arc, time::Instant};

use squall_lab::{Batch, Scenario, world::Protection};
use squall_terminal::error::whole;

use super::figure::{Figure, Target};

/// 30 Mbps of traffic on two links, both ends included.
const SCENARIO: &str = include_str!("../../../../scenarios/stable.toml");

const RUNS: usize = 3;

/// Measures runs without encryption, which is the default, and with encryption.
pub(super) fn measure() -> anyhow::Result<[Figure; 2]> {
    let scenario = Scenario::parse(SCENARIO, "stable.toml").map_err(whole)?;
    let registry = Arc::new(squall_papers::registry());
    let batch = Batch { schedulers: vec!["minrtt".into()], seeds: vec![1], ..Batch::of(&scenario, registry) };
    // Alternate, so that both are affected by the same load on the machine.
    let (mut plain, mut encrypted) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        plain.push(factor(&batch)?);
        encrypted.push(factor(&Batch { protection: Protection::Tls, ..batch.clone() })?);
    }
    let plain = Figure::of("virtual time, 30 Mbps on two links, one core", "× clock", plain);
    let encrypted = Figure::of("the same, packets encrypted", "× clock", encrypted);
    Ok([plain.target(Target::AtLeast(25.0)), encrypted])
}

fn factor(batch: &Batch<'_>) -> anyhow::Result<f64> {
    let start = Instant::now();
    batch.run(&|_| {}).map_err(whole)?;
    Ok(batch.work_us() as f64 / start.elapsed().as_micros() as f64)
}
