//! The files of the papers' experiments, as a whole.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use squall_lab::experiment::Experiment;

/// Figures and tables of the four papers, with the names in the tables of results.
const IDS: [&str; 36] = [
    "storm-fig1",
    "storm-fig4",
    "storm-fig5",
    "storm-fig10",
    "storm-tab3",
    "storm-fig11",
    "storm-fig12",
    "storm-fig13",
    "storm-overhead",
    "storm-fig14",
    "storm-fig15",
    "storm-fig16",
    "storm-fig17",
    "storm-tab4",
    "storm-fig18",
    "storm-fig19",
    "dams-fig5",
    "dams-fig6",
    "dams-fig7",
    "dams-fig8",
    "dams-fig9",
    "dams-fig10",
    "dams-fig11",
    "dams-fig12",
    "dams-fig13",
    "ninetails-fig2",
    "ninetails-fig5",
    "ninetails-fig6",
    "ninetails-fig7",
    "augur-fig12",
    "augur-fig13",
    "augur-fig14",
    "augur-fig15",
    "augur-fig16",
    "augur-fig17",
    "augur-fig18",
];

/// Returns the files of the experiments.
fn files() -> impl Iterator<Item = PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/papers");
    fs::read_dir(folder).expect("is there").map(|entry| entry.expect("is there").path())
}

fn load(file: &Path) -> Experiment {
    Experiment::load(file, &squall_papers::registry()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_experiments_of_the_papers_load() {
    let mut count = 0;
    for path in files() {
        let experiment = load(&path);
        assert_eq!(Some(experiment.name()), path.file_stem().and_then(|stem| stem.to_str()));
        assert!(
            !experiment.claims.is_empty() && !experiment.source.paper.is_empty(),
            "{}",
            experiment.name()
        );
        let cells = experiment.cells(true).expect("are made").len();
        assert!(cells <= experiment.cells(false).expect("are made").len());
        count += 1;
    }
    assert!(count >= 8, "{count}");
}

/// Numbers in a text.
fn numbers(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split(|letter: char| !letter.is_ascii_digit() && letter != '.' && letter != ',');
    parts
        .map(|part| part.trim_matches(['.', ',']))
        .filter(|part| part.starts_with(|first: char| first.is_ascii_digit()))
}

#[test]
fn no_reason_has_a_measured_figure_of_its_own() {
    let mut own = Vec::new();
    for file in files() {
        let text = fs::read_to_string(&file).expect("is read");
        let mut table: toml::Table = text.parse().expect("is TOML");
        let mut findings = Vec::new();
        for claim in table.get_mut("claim").and_then(toml::Value::as_array_mut).into_iter().flatten() {
            let claim = claim.as_table_mut().expect("is a table");
            findings.extend(claim.remove("finding").and_then(|one| Some(one.as_str()?.to_owned())));
        }
        let rest = table.to_string();
        let stated: BTreeSet<&str> = numbers(&rest).collect();
        // Names of evidence in braces may contain digits.
        let words = |finding: &str| {
            finding
                .split('{')
                .map(|part| part.split('}').next_back().unwrap_or(""))
                .collect::<Vec<_>>()
                .join("")
        };
        for finding in &findings {
            // Names of other experiments end in the number of a figure or table.
            let text = words(finding);
            let text: Vec<&str> = text
                .split_whitespace()
                .filter(|word| !["-fig", "-tab"].iter().any(|end| word.contains(end)))
                .collect();
            let text = text.join(" ");
            let unknown: Vec<&str> = numbers(&text).filter(|number| !stated.contains(number)).collect();
            if !unknown.is_empty() {
                own.push(format!("{}: {} in {finding:?}", file.display(), unknown.join(" ")));
            }
        }
    }
    assert!(
        own.is_empty(),
        "evidence is measured again with each run, typed figures are not:\n{}",
        own.join("\n")
    );
}

#[test]
fn every_figure_of_the_papers_has_an_experiment() {
    let ids: Vec<String> = files().flat_map(|file| Experiment::ids_in(&file).expect("has a name")).collect();
    for wanted in IDS {
        assert!(ids.iter().any(|id| id.starts_with(wanted)), "{wanted} is none of {ids:?}");
    }
}

/// The paper's system is a scheduler of its file, except in two that measure only the other
/// systems.
#[test]
fn the_experiments_of_the_papers_can_be_challenged() {
    let registry = squall_papers::registry();
    let (mut with, mut without, mut unmeasured) = (0, Vec::new(), Vec::new());
    for file in files() {
        let experiment = load(&file);
        let (name, system) = (experiment.name().to_owned(), experiment.source.scheduler.clone());
        match experiment.challenged_by("ecf", &registry).expect("fits") {
            Some(challenged) => {
                assert!(!challenged.cells(false).expect("are made").is_empty(), "{name}");
                with += 1;
            }
            None if system.is_empty() => without.push(name),
            None => unmeasured.push(name),
        }
    }
    without.sort_unstable();
    assert_eq!(without, ["ninetails-fig2", "storm-fig1", "storm-fig1-stationary"]);
    unmeasured.sort_unstable();
    assert_eq!(unmeasured, ["storm-fig12", "storm-tab3"], "errors of signals, and shares of paths");
    assert!(with >= 24, "{with}");
}
