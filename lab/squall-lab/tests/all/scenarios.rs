//! The shipped scenarios: each runs, and its checks hold.

use std::path::Path;
use std::sync::Arc;

use squall_lab::{Batch, RunResult, Scenario, summary};

fn load(name: &str) -> Scenario {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    Scenario::load(&folder.join(format!("{name}.toml"))).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs a scenario as it stands in its file, and checks invariants of any run.
fn run(name: &str) -> Vec<RunResult> {
    run_all(&load(name))
}

fn run_all(scenario: &Scenario) -> Vec<RunResult> {
    let batch = Batch::of(scenario, Arc::new(squall_papers::registry()));
    let runs = batch.run(&|_| {}).unwrap_or_else(|error| panic!("{error}"));
    println!("{}", summary::results(&runs, None));
    assert_eq!(runs.len(), scenario.schedulers.len() * scenario.seeds.len());
    for run in &runs {
        assert!(run.extra.is_empty(), "{:?}", run.extra);
        for flow in &run.flows {
            assert!(flow.total.delivered_blocks > 0, "{}", flow.name);
            assert_eq!(flow.stray_deliveries, 0, "{}", flow.name);
        }
        let failed: Vec<_> = run.checks.iter().filter(|verdict| !verdict.pass).collect();
        assert!(
            failed.is_empty(),
            "{} with {}, seed {}: {failed:#?}",
            scenario.name,
            run.scheduler,
            run.seed
        );
    }
    runs
}

#[test]
fn the_documented_example() {
    let page = include_str!("../../../../docs/scenarios.md");
    let example = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("is there");
    run_all(&Scenario::parse(example, "scenarios.md").expect("is right"));
}

#[test]
fn stable() {
    run("stable");
}

#[test]
fn outage_first() {
    run("outage-first");
}

#[test]
fn outage_second() {
    run("outage-second");
}

#[test]
fn fading() {
    run("fading");
}

#[test]
fn lossy() {
    run("lossy");
}

#[test]
fn rebinding() {
    run("rebinding");
}

#[test]
fn metered() {
    run("metered");
}

#[test]
fn bloated() {
    run("bloated");
}

#[test]
fn walking() {
    run("walking");
}

#[test]
fn edge() {
    run("edge");
}

#[test]
fn schedulers() {
    let runs = run("schedulers");
    let in_time = |name: &str, flow: usize| {
        let run = runs.iter().find(|run| run.scheduler == name).expect("takes part");
        run.flows[flow].total.in_time_ratio().expect("blocks were due")
    };
    assert_eq!(
        runs.len(),
        squall_papers::registry().entries().count() - 1,
        "all but storm, which is ras without a radio"
    );
    let mean = |name: &str| (0..3).map(|flow| in_time(name, flow)).sum::<f64>() / 3.0;
    assert!(mean("ras") > mean("minrtt") + 0.2, "it uses priorities and deadlines");
}

#[test]
fn live() {
    run("live");
}

#[test]
fn coverage() {
    run("coverage");
}

#[test]
fn game() {
    run("game");
}

#[test]
fn dash() {
    run("dash");
}

#[test]
fn tiles() {
    run("tiles");
}

/// The first 20 s of a scenario of `scenarios/limits` with its first seed, because the whole takes
/// minutes.
fn run_limit(name: &str) {
    let mut scenario = load(&format!("limits/{name}"));
    assert_eq!((scenario.name.as_str(), scenario.seeds.len()), (name, 5));
    scenario.seeds.truncate(1);
    scenario.duration_us = 20_000_000;
    for flow in &mut scenario.flows {
        flow.end_us = scenario.duration_us;
    }
    run_all(&scenario);
}

#[test]
fn limits_stable() {
    run_limit("stable");
}

#[test]
fn limits_lossy() {
    run_limit("lossy");
    run_limit("lossy-150ms");
    run_limit("lossy-12mbps");
}

#[test]
fn limits_moving() {
    run_limit("moving");
    run_limit("moving-300ms");
}

#[test]
fn limits_overload() {
    run_limit("overload");
}

#[test]
fn limits_dark() {
    run_limit("dark");
    run_limit("dark-12mbps");
    run_limit("dark-12mbps-150ms");
    run_limit("dark-references");
}

#[test]
fn limits_delays() {
    run_limit("jitter");
    run_limit("satellite");
    run_limit("long-start");
}
