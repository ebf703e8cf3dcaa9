use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::figures::plots;
use squall_lab::experiment::{Expectation, record_line};
use squall_lab::result::sample::run;

const EXPERIMENT: &str = r#"
name = "fading"
description = "Two <links>"
duration = "20s"
schedulers = ["minrtt", "dams"]

[paper]
system = "DAMS"
place = "Fig. 1"

[[path]]
name = "LTE"

[[flow]]
name = "camera"
kind = "blocks"
size = "1kB"
interval = "20ms"
deadline = "100ms"

[[axis]]
name = "load"
unit = "Mbps"
points = [
    { name = "10", at = 10.0, set = { "flow.camera.size" = "2kB" } },
    { name = "20", at = 20.0, set = { "flow.camera.size" = "4kB" } },
]

[[figure]]
title = "Completion"
x = "load"
flow = "camera"
measure = "in_time_ratio"
paper = { minrtt = ["90%", nan] }

[[figure]]
title = "Tail"
kind = "tail"
flow = "camera"

[[claim]]
says = "DAMS is better"
at = { load = "20" }
flow = "camera"
measure = "in_time_ratio"
scheduler = "dams"
against = "minrtt"
change = 0.1
finding = "because of <deadlines>"
"#;

fn record(point: &str, scheduler: &str, seed: u64) -> Record {
    let point = [("load".to_owned(), point.to_owned())].into();
    let key = format!("{point:?}{scheduler}{seed}");
    Record { experiment: "fading".into(), point, key, run: run(scheduler, seed).condensed() }
}

fn records() -> Vec<Record> {
    let of = |point: &'static str| {
        ["minrtt", "dams"]
            .into_iter()
            .flat_map(move |name| (1..=3).map(move |seed| record(point, name, seed)))
    };
    of("10").chain(of("20")).collect()
}

fn experiment() -> Experiment {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let file = std::env::temp_dir().join(format!("squall-report-{}-{number}.toml", std::process::id()));
    std::fs::write(&file, EXPERIMENT).expect("is written");
    let experiment = Experiment::load(&file, &squall_papers::registry());
    // A failure only leaves a file in the system's temporary folder.
    let _ = std::fs::remove_file(&file);
    experiment.expect("is one")
}

fn report(experiments: Vec<Experiment>) -> Report {
    Report { title: "All <results>".into(), chapters: Chapter::of(records(), experiments), runs: Vec::new() }
}

#[test]
fn the_page_has_findings_figures_numbers_and_loads_nothing() {
    let mut report = report(vec![experiment()]);
    let point = [("load".to_owned(), "20".to_owned())].into();
    report.chapters[0].timelines.push(Timeline { point, runs: vec![run("dams", 1)], as_recorded: false });
    let page = report.html();
    assert_eq!(page.matches("<svg").count(), 3, "completion, tail, and a single run");
    for words in [
        "<h1>All &lt;results&gt;</h1>",
        "href=\"#fading\"",
        "because of &lt;deadlines&gt;",
        "1 claim: 1 <span",
        "reported by the paper",
        "what claims ask for",
        "load, Mbps",
        "From: DAMS Fig. 1.",
        "Single runs at load 20 Mbps, seed 1",
        "the numbers are not those",
        "expired",
        "RTT",
    ] {
        assert!(page.contains(words), "{words}");
    }
    assert!(
        !page.contains("<script")
            && !page.contains("src=")
            && !page.contains("url(")
            && !page.contains("@import")
    );
    assert_eq!(page, report.html(), "the same bytes");
}

#[test]
fn without_the_file_of_the_experiment_there_are_figures_all_the_same() {
    let page = report(Vec::new()).html();
    assert_eq!(page.matches("<svg").count(), 2, "completion and latency of the flow");
    assert!(page.contains("<h2 id=\"fading\">") && !page.contains("id=\"findings\""));
}

#[test]
fn an_experiment_without_figures_has_those_of_its_claims() {
    let mut plain = experiment();
    plain.plots.clear();
    let chapters = Chapter::of(records(), vec![plain]);
    let plots = plots(&chapters[0]);
    assert_eq!(plots.len(), 1);
    assert_eq!(plots[0].title, "blocks in time, camera");
}

#[test]
fn ticks_are_where_the_claim_would_hold() {
    let chapter = |expectation| {
        let mut experiment = experiment();
        experiment.claims[0].expectation = expectation;
        Chapter::of(records(), vec![experiment]).remove(0)
    };
    let (camera, measure) = (Subject::flow("camera"), "in_time_ratio".parse().unwrap());
    let at = |name: &str| [("load".to_owned(), name.to_owned())].into();
    let value = |expectation, name: &str| {
        let chapter = chapter(expectation);
        chapter.results().claimed(chapter.experiment.as_ref(), "dams", &at(name), &camera, measure)
    };
    let other = chapter(Expectation::Less).results().estimate("minrtt", &at("20"), &camera, measure);
    let other = other.expect("ran").mean;
    assert_eq!(value(Expectation::Value(0.7), "20"), [0.7]);
    assert_eq!(value(Expectation::Change(-0.5), "20"), [other * 0.5]);
    assert_eq!(value(Expectation::Difference(-0.1), "20"), [other - 0.1]);
    assert_eq!(value(Expectation::Times(0.9), "20"), [other * 0.9]);
    assert_eq!(value(Expectation::Times(2.0), "20").len(), 0, "there is no more than all of them");
    assert_eq!(value(Expectation::Value(0.7), "10").len(), 0, "the claim is about another cell");
    assert_eq!(value(Expectation::More, "20").len(), 0, "it says no number");
}

#[test]
fn values_are_means_of_cells_by_seed() {
    let records = records();
    let results = Results(&records);
    let (camera, measure) = (Subject::flow("camera"), "p99_latency".parse().unwrap());
    let one = results.values("dams", &[("load".to_owned(), "10".to_owned())].into(), &camera, measure);
    let both = results.values("dams", &Point::new(), &camera, measure);
    assert_eq!((one.len(), &one), (3, &both), "both cells are the same here");
    assert_eq!(results.cells(&Point::new()).len(), 2);
    assert!(results.values("rr", &Point::new(), &camera, measure).is_empty());
}

#[test]
fn the_cell_that_most_claims_are_about_is_looked_into() {
    let shown = Chapter::of(records(), vec![experiment()]).remove(0).representative();
    assert_eq!(shown, Some(([("load".to_owned(), "20".to_owned())].into(), 1)));
    let first = Chapter::of(records(), Vec::new()).remove(0).representative();
    assert_eq!(first, Some(([("load".to_owned(), "10".to_owned())].into(), 1)), "without claims the first");
}

#[test]
fn drawings_are_files_of_their_own() {
    let mut report = report(vec![experiment()]);
    report.runs = vec![run("minrtt", 1)];
    let drawings = report.drawings();
    let names: Vec<&str> = drawings.iter().map(|drawing| drawing.file.as_str()).collect();
    assert_eq!(names[..3], ["fading-01-completion.svg", "fading-02-tail.svg", "fading-01-tail-camera.svg"]);
    assert!(drawings.iter().all(|drawing| drawing.svg.contains("xmlns=") && drawing.svg.contains("<style>")));
}

#[test]
fn schedulers_keep_their_style_from_chapter_to_chapter() {
    let of = |experiment: &str, names: &[&str]| Chapter {
        name: experiment.into(),
        experiment: None,
        records: names
            .iter()
            .map(|name| Record { experiment: experiment.into(), ..record("10", name, 1) })
            .collect(),
        others: Vec::new(),
        timelines: Vec::new(),
    };
    let chapters = [of("a", &["minrtt", "dams"]), of("b", &["rr", "dams"]), of("c", &["rr", "minrtt"])];
    let styles = Styles::of(&chapters);
    let number = |chapter: usize, name: &str| styles.number(&chapters[chapter], name);
    assert_eq!((number(0, "minrtt"), number(0, "dams"), number(1, "dams")), (0, 1, 1));
    assert_eq!(number(1, "rr"), 0, "free in that chapter");
    assert_ne!(number(2, "rr"), number(2, "minrtt"));
    assert!(record_line(&chapters[0].records[0]).contains("\"point\""));
}
