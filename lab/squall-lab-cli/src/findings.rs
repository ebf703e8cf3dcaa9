//! What was found of experiments, as a page of documentation.

use std::fmt::Write as _;

use squall_lab::experiment::{Experiment, Finding, Verdict};

const PAPERS: &str = "# What the papers report, and what is measured here

Made by `squall-lab repro`; do not edit. Each line is a claim of a paper about its own measurements, and what the
same comparison gives in virtual time, over the networks and films of this repository. [experiments.md](experiments.md)
has the rule by which a claim holds, *in direction only* or not, which is the same for all; nothing was tuned to make one
hold. What is not in the papers (traces, films, missing parameters) stands at each experiment, and where a claim does not
hold, the reason as far as it was found.
";

/// The same for experiments that are of no paper.
const OWN: &str = "# What is claimed, and what is measured

Made by `squall-lab repro`; do not edit. [experiments.md](experiments.md) has the rule by which a claim holds, *in direction
only* or not, which is the same for all.
";

/// A page with every claim, by paper and experiment.
pub(crate) fn page(experiments: &[&Experiment], findings: &[Finding]) -> String {
    let is_of_paper = |experiment: &&Experiment| !experiment.source.paper.is_empty();
    let head = if experiments.iter().any(is_of_paper) { PAPERS } else { OWN };
    let mut text = format!("{head}\n{}", overview(experiments, findings));
    for paper in papers(experiments) {
        let _ = writeln!(text, "\n## {paper}");
        for experiment in experiments.iter().filter(|one| title(one) == paper) {
            push_experiment(&mut text, experiment, findings);
        }
    }
    text
}

/// Which paper an experiment is from.
fn title(experiment: &Experiment) -> &str {
    if experiment.source.paper.is_empty() { "Our own" } else { &experiment.source.paper }
}

/// In order of first appearance.
fn papers<'a>(experiments: &[&'a Experiment]) -> Vec<&'a str> {
    let mut papers: Vec<&str> = Vec::new();
    for experiment in experiments {
        if !papers.contains(&title(experiment)) {
            papers.push(title(experiment));
        }
    }
    papers
}

fn overview(experiments: &[&Experiment], findings: &[Finding]) -> String {
    let words = Verdict::ALL.map(Verdict::as_str).join(" | ");
    let mut text = format!("| | claims | {words} |\n|{}\n", " --- |".repeat(Verdict::ALL.len() + 2));
    for paper in papers(experiments) {
        let names: Vec<&str> =
            experiments.iter().filter(|one| title(one) == paper).map(|one| one.name()).collect();
        let own = || findings.iter().filter(|finding| names.contains(&finding.experiment.as_str()));
        let counts =
            Verdict::ALL.map(|verdict| own().filter(|one| one.verdict == verdict).count().to_string());
        let _ = writeln!(text, "| {paper} | {} | {} |", own().count(), counts.join(" | "));
    }
    text
}

fn push_experiment(text: &mut String, experiment: &Experiment, findings: &[Finding]) {
    let (name, place) = (experiment.name(), &experiment.source.place);
    let _ = writeln!(text, "\n### {name}: {place}\n\n{}.", experiment.scenario.description);
    let setup = experiment.source.setup.trim();
    if !setup.is_empty() {
        let _ = writeln!(text, "{setup}");
    }
    let own: Vec<&Finding> = findings.iter().filter(|finding| finding.experiment == name).collect();
    if own.is_empty() {
        return;
    }
    text.push_str("\n| | claim | claimed | here | |\n| --- | --- | --- | --- | --- |\n");
    for finding in &own {
        let cells = [&finding.id, &finding.says, &finding.expected, &finding.found];
        let cells = cells.map(|cell| escaped(cell));
        let _ = writeln!(text, "| {} | {} |", cells.join(" | "), finding.verdict.as_str());
    }
    let reasons: Vec<_> = own.iter().filter(|finding| !finding.finding.is_empty()).collect();
    if !reasons.is_empty() {
        text.push('\n');
    }
    for finding in reasons {
        let _ = writeln!(text, "- *{}*: {}.", escaped(&finding.says), sentence(&finding.finding));
    }
}

/// On one line, without the full stop.
pub(crate) fn sentence(words: &str) -> String {
    words.split_whitespace().collect::<Vec<_>>().join(" ").trim_end_matches('.').to_owned()
}

/// Without what would end a cell.
fn escaped(cell: &str) -> String {
    cell.replace('|', "\\|")
}
