//! Snapshot of the results of the shipped scenarios: a change of behaviour is a difference to
//! review.
//!
//! `UPDATE_RESULTS=1 cargo test -p squall-lab --test results` updates `results.txt` beside this
//! file.

use std::{fs, path::PathBuf, sync::Arc};

use squall_lab::{Batch, RunResult, Scenario};

/// The simplest scheduler, the one with the earliest completion, and the systems of the four
/// papers.
const SCHEDULERS: [&str; 6] = ["minrtt", "ecf", "dams", "ninetails", "augur", "storm"];

/// Maximum length of a run in microseconds; covers the first outages and fades.
const LONGEST: u64 = 10_000_000;

const HEADING: &str = "\
Results of the shipped scenarios: the first ten seconds, seed 1, in virtual time.
Blocks offered, in time and delivered, of all flows. Delay from offer to arrival, of all packets with new data.
Bytes sent again as a share of all sent. Bytes that each path carried, in the order of the scenario.
UPDATE_RESULTS=1 cargo test -p squall-lab --test results   writes this file.

scenario         scheduler  offered  in time  delivered  p50 ms  p99 ms  again %  bytes by path
";

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

/// Names of the scenarios directly in the folder.
fn shipped() -> Vec<Scenario> {
    let entries = fs::read_dir(folder()).expect("the folder is there");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("can be read").path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    assert!(files.len() > 15, "{files:?}");
    files.iter().map(|file| Scenario::load(file).unwrap_or_else(|error| panic!("{error}"))).collect()
}

fn row(run: &RunResult) -> String {
    let sum =
        |of: fn(&squall_lab::result::Tally) -> u64| run.flows.iter().map(|flow| of(&flow.total)).sum::<u64>();
    let delay = |of: fn(&squall_lab::result::Percentiles) -> u64| {
        run.packet_delay.as_ref().map_or("-".to_owned(), |delay| format!("{:.1}", of(delay) as f64 / 1e3))
    };
    let paths: Vec<String> =
        run.paths.iter().map(|path| path.sent_bytes(run.direction).to_string()).collect();
    format!(
        "{:<15}  {:<9}  {:>7}  {:>7}  {:>9}  {:>6}  {:>6}  {:>7.2}  {}\n",
        run.scenario,
        run.scheduler,
        sum(|tally| tally.offered_blocks),
        sum(|tally| tally.in_time_blocks),
        sum(|tally| tally.delivered_blocks),
        delay(|delay| delay.p50_us),
        delay(|delay| delay.p99_us),
        100.0 * run.retransmission_ratio().unwrap_or(0.0),
        paths.join(" "),
    )
}

#[test]
fn shipped_scenarios_give_the_recorded_results() {
    let mut found = HEADING.to_owned();
    for mut scenario in shipped() {
        scenario.duration_us = scenario.duration_us.min(LONGEST);
        let schedulers = SCHEDULERS.map(String::from).to_vec();
        let batch =
            Batch { schedulers, seeds: vec![1], ..Batch::of(&scenario, Arc::new(squall_papers::registry())) };
        let runs = batch.run(&|_| {}).unwrap_or_else(|error| panic!("{error}"));
        found.extend(runs.iter().map(row));
    }
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/results.txt");
    if std::env::var_os("UPDATE_RESULTS").is_some() {
        fs::write(&file, &found).expect("can be written");
    }
    let recorded = fs::read_to_string(&file).expect("is there");
    let changed: Vec<String> = recorded
        .lines()
        .zip(found.lines())
        .filter(|(before, now)| before != now)
        .map(|(before, now)| format!("- {before}\n+ {now}"))
        .collect();
    assert!(
        recorded == found,
        "results differ from tests/results.txt; if that is intended, write it again (see the file)\n{}",
        changed.join("\n")
    );
}
