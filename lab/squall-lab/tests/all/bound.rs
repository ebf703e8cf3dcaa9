//! No scheduler surpasses the clairvoyant bound in the scenarios that ship.

use std::{path::Path, sync::Arc};

use squall_lab::{
    Batch, Direction, Flow, Generator, RunResult, Scenario,
    bound::{Bound, Demand, Demands, Supply},
    result::{FlowResult, Percentiles, Tally},
    traffic::{Pace, References, Traffic},
};

const SCHEDULERS: [&str; 5] = ["minrtt", "redundant", "dams", "ras", "storm"];

/// So much of each scenario is run, in microseconds.
const LENGTH: u64 = 4_000_000;

/// The beginning of a scenario, with one seed and without its checks, which are made for all of it.
fn beginning(name: &str) -> Scenario {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut scenario =
        Scenario::load(&folder.join(format!("{name}.toml"))).unwrap_or_else(|error| panic!("{error}"));
    scenario.duration_us = scenario.duration_us.min(LENGTH);
    for flow in &mut scenario.flows {
        flow.end_us = flow.end_us.min(scenario.duration_us);
    }
    scenario.seeds.truncate(1);
    scenario.schedulers = SCHEDULERS.map(str::to_owned).to_vec();
    scenario.checks.clear();
    scenario
}

/// The blocks of a flow; `None` if the session paces it.
fn demands(flow: &Flow, index: usize, seed: u64) -> Option<Vec<Demand>> {
    let generator = Generator::new(flow, index, seed);
    (generator.pace() == Pace::Clock).then(|| needing(generator))
}

/// The blocks of a flow with what they need.
fn needing(generator: Generator) -> Vec<Demand> {
    let mut demands = Demands::default();
    generator.for_each(|offer| demands.add(0, &offer));
    demands.finish()
}

/// Those of several flows together.
fn together(flows: &[(usize, Vec<Demand>)]) -> Vec<Demand> {
    let mut all: Vec<Demand> = Vec::new();
    for (_, demands) in flows {
        let before = all.len();
        let moved = demands
            .iter()
            .map(|demand| Demand { needs: demand.needs.map(|need| Some(need? + before)), ..*demand });
        all.extend(moved);
    }
    all
}

fn compare(name: &str) {
    let scenario = beginning(name);
    let seed = scenario.seeds[0];
    let batch = Batch::of(&scenario, Arc::new(squall_papers::registry()));
    let runs = batch.run(&|_| {}).unwrap_or_else(|error| panic!("{error}"));
    for direction in [Direction::Down, Direction::Up] {
        let flows = scenario.flows.iter().enumerate().filter(|(_, flow)| flow.direction == direction);
        let flows: Vec<(usize, Vec<Demand>)> =
            flows.filter_map(|(index, flow)| Some((index, demands(flow, index, seed)?))).collect();
        if flows.is_empty() {
            continue;
        }
        let supply = Supply::of(&scenario.paths, seed, scenario.duration_us, direction)
            .unwrap_or_else(|error| panic!("{error}"));
        let all = together(&flows);
        let bound = Bound::of(&supply, &all);
        let all_clocked =
            scenario.flows.iter().filter(|flow| flow.direction == direction).count() == flows.len();
        for run in &runs {
            if all_clocked {
                let own = run.bounds.iter().find(|own| own.direction == direction);
                assert_eq!(own.map(|own| &own.bound), Some(&bound), "the run has its own bound");
            }
            println!("{name} with {}, seed {seed}", run.scheduler);
            assert_in_time(&bound, run, &flows);
            for (index, demands) in &flows {
                assert_latency(&supply, demands, &run.flows[*index]);
            }
        }
    }
}

/// Bytes and blocks of each prefix of the priorities.
fn assert_in_time(bound: &Bound, run: &RunResult, flows: &[(usize, Vec<Demand>)]) {
    for class in &bound.classes {
        let classes = flows.iter().flat_map(|(index, _)| &run.flows[*index].classes);
        let tally = classes
            .filter(|other| other.priority <= class.priority)
            .fold(Tally::default(), |sum, other| sum.plus(&other.tally));
        let limit = &class.so_far;
        assert_eq!((tally.offered_blocks, tally.offered_bytes), (limit.offered_blocks, limit.offered_bytes));
        println!(
            "  priorities up to {}: {:.1} % of the bytes, {:.1} % of the blocks that can be in time",
            class.priority,
            100.0 * tally.in_time_bytes as f64 / limit.tally_bytes() as f64,
            100.0 * tally.in_time_blocks as f64 / limit.tally_blocks() as f64,
        );
        assert!(tally.in_time_bytes <= limit.tally_bytes(), "{tally:?}: {limit:?}");
        assert!(tally.in_time_blocks <= limit.tally_blocks(), "{tally:?}: {limit:?}");
        assert!(tally.decodable_blocks <= limit.decodable_blocks + limit.open_blocks, "{tally:?}: {limit:?}");
        assert!(tally.decodable_ratio() <= limit.decodable_ratio(), "{tally:?}: {limit:?}");
        assert!(tally.in_time_ratio() <= limit.in_time_ratio(), "{tally:?}: {limit:?}");
    }
}

/// Of the blocks that arrived, the share that no more than this exceeds: never below the same rank of the least.
fn assert_latency(supply: &Supply, demands: &[Demand], flow: &FlowResult) {
    let Some(latency) = flow.latency else { return };
    let mut least: Vec<u64> = demands.iter().filter_map(|demand| supply.least_latency_us(demand)).collect();
    least.sort_unstable();
    let count = latency.count as usize;
    assert!(count <= least.len(), "{count} arrived of {} that could", least.len());
    let at = |percent: usize| least[(count * percent).div_ceil(100).max(1) - 1];
    let Percentiles { p50_us, p99_us, max_us, .. } = latency;
    println!("  {}: p50 {p50_us} of {} us, p99 {p99_us} of {} us", flow.name, at(50), at(99));
    for (measured, least) in [(p50_us, at(50)), (p99_us, at(99)), (max_us, at(100))] {
        assert!(least <= measured, "{}: {measured} < {least}", flow.name);
    }
}

/// Shares in time and decodable that a clairvoyant has of the video of `limits/dark.toml`, the mean of its seeds.
fn dark(references: References, keyframe_interval: &str, deadline: &str) -> (f64, f64) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/limits");
    let scenario = Scenario::load(&folder.join("dark.toml")).unwrap_or_else(|error| panic!("{error}"));
    let mut flow = scenario.flows[0].clone();
    let Traffic::Video(video) = &mut flow.traffic else { panic!("it is video") };
    let time = |text: &str| text.parse().expect("is a time");
    (video.references, video.deadline) = (references, Some(time(deadline)));
    video.keyframe_interval = time(keyframe_interval);
    let (mut in_time, mut decodable) = (0.0, 0.0);
    for seed in &scenario.seeds {
        let supply = Supply::of(&scenario.paths, *seed, scenario.duration_us, flow.direction)
            .unwrap_or_else(|error| panic!("{error}"));
        let limit = Bound::of(&supply, &needing(Generator::new(&flow, 0, *seed))).total;
        in_time += limit.in_time_ratio().expect("has blocks") / scenario.seeds.len() as f64;
        decodable += limit.decodable_ratio().expect("has blocks") / scenario.seeds.len() as f64;
    }
    println!(
        "{references:?}, key frames each {keyframe_interval}, {deadline}: {:.1} % in time, {:.1} % decodable",
        100.0 * in_time,
        100.0 * decodable
    );
    (in_time, decodable)
}

#[test]
fn in_the_dark_a_chain_of_references_costs_frames_that_could_be_in_time() {
    for deadline in ["150ms", "300ms"] {
        let (in_time, chained) = dark(References::Previous, "2s", deadline);
        let (same, keyed) = dark(References::Key, "2s", deadline);
        assert_eq!(in_time, same, "the same frames");
        assert!(chained < keyed - 0.1 && keyed < in_time, "{chained} {keyed} {in_time}");
        let (_, short) = dark(References::Previous, "500ms", deadline);
        assert!(
            chained < short - 0.05 && short < keyed,
            "{chained} {short} {keyed}: fewer hang on each frame"
        );
    }
}

#[test]
fn walking_and_coverage() {
    compare("walking");
    compare("coverage");
}

#[test]
fn overload_and_groups() {
    compare("overload");
    compare("groups");
}

#[test]
fn stalls_and_losses() {
    compare("wifi-stalls");
    compare("lossy");
}

#[test]
fn outages_and_fading() {
    compare("outage-first");
    compare("fading");
}
