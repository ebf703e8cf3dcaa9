//! Experiments: errors, runs, stored results and verdicts.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use squall_lab::experiment::{
    Along, Expectation, Experiment, OnStock, Over, PlotKind, Record, Study, Verdict, judge, read_records,
};

const SCENARIO: &str = r#"
name = "narrow"
duration = "2s"
seeds = [1, 2]
schedulers = ["minrtt", "redundant"]

[[path]]
name = "a"
rate = "4mbps"
delay = "10ms"

[[path]]
name = "b"
rate = "4mbps"
delay = "30ms"

[[flow]]
name = "blocks"
kind = "blocks"
size = "12kB"
interval = "20ms"
deadline = "200ms"
"#;

const AXES: &str = r#"
[paper]
system = "Ours"

[[axis]]
name = "rate"
unit = "Mbps"
points = [
    { name = "4", at = 4.0, set = { "path.a.rate" = "4mbps" } },
    { name = "8", at = 8.0, set = { "path.a.rate" = "8mbps" } },
]

[quick]
duration = "1s"
seeds = [1]
points = { rate = ["8"] }

[[claim]]
says = "4.8 Mbps fit into 8 but not twice"
at = { rate = "4" }
flow = "blocks"
measure = "in_time_ratio"
scheduler = "redundant"
against = "minrtt"
change = -0.15

[[claim]]
says = "none is better than minRTT"
flow = "blocks"
measure = "in_time_ratio"
scheduler = "minrtt"
best = "highest"

[[claim]]
says = "twice the rate and more comes in time"
at = { rate = "8" }
flow = "blocks"
measure = "in_time_ratio"
scheduler = "redundant"
against_at = { rate = "4" }
difference = "10%"
"#;

struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("squall-experiment-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).expect("is made");
        Self(folder)
    }

    fn load(&self, text: &str) -> Result<Experiment, String> {
        let file = self.0.join("t.toml");
        fs::write(&file, text).expect("is written");
        let shown = format!("{}/", self.0.display());
        Experiment::load(&file, &squall_papers::registry())
            .map_err(|error| error.to_string().replace(&shown, ""))
    }

    fn study(&self, experiment: &Experiment, quick: bool, program: u64) -> (usize, usize, Vec<Record>) {
        let experiments = std::slice::from_ref(experiment);
        let registry = Arc::new(squall_papers::registry());
        let study = Study::new(experiments, registry, &self.0, quick, program).expect("is one");
        let before = study.progress();
        (before.runs.1, before.known, study.run(&|_| {}).expect("runs"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A failure only leaves files behind in the temporary folder.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn every_point_is_run_and_every_claim_judged() {
    let folder = Folder::new();
    let experiment = folder.load(&(SCENARIO.to_owned() + AXES)).expect("loads");
    let (runs, known, records) = folder.study(&experiment, false, 1);
    assert_eq!((runs, known, records.len()), (8, 0, 8), "2 points, 2 schedulers, 2 seeds");
    let order: Vec<_> =
        records.iter().map(|r| (r.point["rate"].as_str(), r.run.scheduler.as_str(), r.run.seed)).collect();
    assert_eq!(order[..3], [("4", "minrtt", 1), ("4", "minrtt", 2), ("4", "redundant", 1)]);
    let findings = judge(&experiment, &records);
    let verdicts: Vec<Verdict> = findings.iter().map(|finding| finding.verdict).collect();
    assert_eq!(verdicts, [Verdict::Holds, Verdict::Tied, Verdict::Holds], "{findings:#?}");
    assert_eq!(findings[0].expected, "-15.0 %");
}

#[test]
fn what_is_known_is_not_run_again() {
    let folder = Folder::new();
    let experiment = folder.load(&(SCENARIO.to_owned() + AXES)).expect("loads");
    let (_, _, first) = folder.study(&experiment, false, 1);
    let (runs, known, again) = folder.study(&experiment, false, 1);
    assert_eq!((runs, known), (0, 8));
    assert_eq!(again, first);
    // An interruption leaves an incomplete line.
    let file = folder.0.join("narrow.jsonl");
    let text = fs::read_to_string(&file).expect("is there");
    fs::write(&file, &text[..text.len() - 100]).expect("is written");
    let (runs, known, repaired) = folder.study(&experiment, false, 1);
    assert_eq!((runs, known), (1, 7));
    assert_eq!(repaired, first);
    assert_eq!(read_records(&file).expect("is whole again"), first);
    let (runs, known, _) = folder.study(&experiment, false, 2);
    assert_eq!((runs, known), (8, 0), "another program");
}

#[test]
fn a_changed_scenario_is_run_again_where_it_changed() {
    let folder = Folder::new();
    let text = SCENARIO.to_owned() + AXES;
    let experiment = folder.load(&text).expect("loads");
    folder.study(&experiment, false, 1);
    let changed = text.replace("\"path.a.rate\" = \"8mbps\"", "\"path.a.rate\" = \"9mbps\"");
    let changed = changed.replace("says = \"none", "says = \"None");
    let experiment = folder.load(&changed).expect("loads");
    let (runs, known, _) = folder.study(&experiment, false, 1);
    assert_eq!((runs, known), (4, 4), "claims do not count");
}

#[test]
fn quick_leaves_out_what_it_says() {
    let folder = Folder::new();
    let experiment = folder.load(&(SCENARIO.to_owned() + AXES)).expect("loads");
    let (runs, _, records) = folder.study(&experiment, true, 1);
    assert_eq!(runs, 2, "one point, one seed");
    assert!(records.iter().all(|record| record.run.duration_us == 1_000_000));
    let verdicts: Vec<Verdict> =
        judge(&experiment, &records).into_iter().map(|finding| finding.verdict).collect();
    assert_eq!(verdicts, [Verdict::NotMeasured, Verdict::Unclear, Verdict::NotMeasured], "one seed");
}

#[test]
fn a_verdict_may_need_more_seeds() {
    let folder = Folder::new();
    let seeds = |experiment: Experiment| experiment.cells(false).expect("are made")[0].scenario.seeds.clone();
    let text = format!("{SCENARIO}{AXES}\n[verdict]\nseeds = 5\n");
    assert_eq!(seeds(folder.load(&text).expect("loads")), [1, 2]);
    assert_eq!(seeds(folder.load(&text).expect("loads").thorough()), [1, 2, 3, 4, 5]);
    let plain = SCENARIO.to_owned() + AXES;
    assert_eq!(seeds(folder.load(&plain).expect("loads").thorough()), [1, 2], "it has no more");
}

#[test]
fn a_median_is_that_of_all_runs() {
    let folder = Folder::new();
    let claim = "\n[[claim]]\nsays = \"half of the runs\"\nof = \"median\"\nflow = \"blocks\"\n\
                 measure = \"in_time_ratio\"\nscheduler = \"redundant\"\n";
    let text = SCENARIO.to_owned() + AXES + claim + "at = { rate = \"4\" }\nat_most = \"99%\"\n";
    let text = text + claim + "at = { rate = \"4\" }\nagainst = \"minrtt\"\nis = \"less\"\n";
    let experiment = folder.load(&text).expect("loads");
    let (_, _, records) = folder.study(&experiment, false, 1);
    let findings = judge(&experiment, &records);
    assert_eq!([findings[3].verdict, findings[4].verdict], [Verdict::Holds; 2], "{findings:#?}");
    assert!(findings[4].found.contains(" to "), "{}", findings[4].found);
    let error = folder.load(&text.replace("of = \"median\"", "of = \"median\"\nover = \"most\""));
    assert!(
        error
            .expect_err("is refused")
            .ends_with("of: median, highest and pooled are of all runs together, with neither best nor over")
    );
}

#[test]
fn recordings_take_the_place_of_what_is_made_up() {
    let folder = Folder::new();
    fs::write(folder.0.join("drive.csv"), "time_s,down_mbps\n0,1\n1,2\n2,9\n").expect("is written");
    let traces = "[traces]\n\"path.a.rate\" = { csv = \"drive.csv\", column = \"down_mbps\" }\n";
    let text = SCENARIO.to_owned() + traces;
    let made_up = folder.load(&text).expect("loads without the recording");
    let cells = |experiment: &Experiment| experiment.cells(false).expect("are made");
    assert_eq!(cells(&made_up)[0].scenario.paths[0].down.rate.mean_bps(), Some(4_000_000));
    let recorded = made_up.clone().with_traces(&folder.0).expect("is there");
    assert_eq!(cells(&recorded)[0].scenario.paths[0].down.rate.mean_bps(), Some(1_500_000));
    let nowhere = made_up.with_traces(&folder.0.join("nowhere")).expect_err("is not there").to_string();
    assert!(nowhere.contains("nowhere/drive.csv"), "{nowhere}");
}

#[test]
fn claims_name_the_figure_they_are_from() {
    let folder = Folder::new();
    let text = SCENARIO.to_owned() + &AXES.replace("[paper]", "[paper]\nalso = [\"wide\"]");
    let claims = text.replace("says = \"none", "id = \"wide\"\nsays = \"none");
    let experiment = folder.load(&claims).expect("loads");
    assert_eq!(experiment.ids().collect::<Vec<_>>(), ["narrow", "wide"]);
    let ids: Vec<String> = judge(&experiment, &[]).into_iter().map(|finding| finding.id).collect();
    assert_eq!(ids, ["narrow", "wide", "narrow"]);
    let error = folder.load(&claims.replace("id = \"wide\"", "id = \"tall\"")).expect_err("is refused");
    assert!(error.ends_with("id: \"tall\" is none of narrow, wide"), "{error}");
}

#[test]
fn mistakes_are_reported_with_their_line() {
    let folder = Folder::new();
    let line_of =
        |text: &str, words: &str| text.lines().position(|line| line.contains(words)).expect("is there") + 1;
    let refused = |from: &str, to: &str, at: &str, expected: &str| {
        let text = (SCENARIO.to_owned() + AXES).replace(from, to);
        let error = folder.load(&text).expect_err("is refused");
        let line = line_of(&text, at);
        assert!(error.starts_with(&format!("t.toml:{line}:")) && error.ends_with(expected), "{error}");
    };
    refused(
        "\"path.a.rate\" = \"8mbps\"",
        "\"path.c.rate\" = \"8mbps\"",
        "path.c.rate",
        "path.c.rate: there is no \"c\", only a, b",
    );
    refused(
        "\"path.a.rate\" = \"8mbps\"",
        "\"path.a.rat\" = \"8mbps\"",
        "path.a.rat\"",
        "`duplicate`, `corrupt`, `ecn`, `mtu`, `queue`, `policer`, `outage`, `delay_first`",
    );
    refused("scheduler = \"minrtt\"", "scheduler = \"rr\"", "= \"rr\"", "the experiment does not run \"rr\"");
    refused("best = \"highest\"", "best = \"tallest\"", "tallest", "expected `highest` or `lowest`");
    refused("at = { rate = \"4\" }", "at = { rate = \"5\" }", "\"5\"", "at: rate has no point \"5\"");
    refused("change = -0.15", "", "4.8 Mbps fit", "difference, is, best, at_least and at_most");
    refused(
        "points = { rate = [\"8\"] }",
        "points = { rate = [\"9\"] }",
        "[\"9\"]",
        "rate has no point \"9\"",
    );
    refused("measure = \"in_time_ratio\"", "measure = \"p50_rtt\"", "p50_rtt", "a flow has no p50_rtt");
}

const FIGURES: &str = r#"
[[figure]]
title = "In time by rate"
x = "rate"
flow = "blocks"
measure = "in_time_ratio"
paper = { minrtt = ["99.5%", nan] }

[[figure]]
title = "The slow ones"
at = { rate = "8" }
flow = "blocks"
measures = ["p50_latency", "p99_latency"]
schedulers = ["redundant"]
paper = { redundant = [nan, "80ms"] }

[[figure]]
title = "Latency"
kind = "tail"
flow = "blocks"
"#;

#[test]
fn figures_say_what_to_draw() {
    let folder = Folder::new();
    let experiment = folder.load(&(SCENARIO.to_owned() + AXES + FIGURES)).expect("loads");
    let [by_rate, slow, tail] = &experiment.plots[..] else { panic!("{:?}", experiment.plots) };
    let PlotKind::Values { along, paper, .. } = &by_rate.kind else { panic!("{:?}", by_rate.kind) };
    assert_eq!((along, &paper["minrtt"][..]), (&Along::Axis("rate".into()), &[Some(0.995), None][..]));
    let PlotKind::Values { along: Along::Measures(measures), paper, .. } = &slow.kind else {
        panic!("{:?}", slow.kind)
    };
    assert_eq!((measures.len(), &paper["redundant"][..]), (2, &[None, Some(80_000.0)][..]));
    assert_eq!((slow.at["rate"].as_str(), &slow.schedulers[..]), ("8", &["redundant".to_owned()][..]));
    assert_eq!(tail.kind, PlotKind::Tail);
}

#[test]
fn figures_that_cannot_be_drawn_are_refused() {
    let folder = Folder::new();
    let refused = |from: &str, to: &str, expected: &str| {
        let text = SCENARIO.to_owned() + AXES + &FIGURES.replacen(from, to, 1);
        let error = folder.load(&text).expect_err("is refused");
        let wrong = to.lines().last().expect("has a line");
        let line = 1 + text.lines().position(|line| line.contains(wrong)).expect("is there");
        assert!(error.starts_with(&format!("t.toml:{line}:")) && error.contains(expected), "{error}");
    };
    refused("x = \"rate\"", "x = \"load\"", "x: no axis is called \"load\"");
    refused("[\"99.5%\", nan]", "[\"99.5%\"]", "1 numbers where the figure has 2");
    refused("[\"99.5%\", nan]", "[\"99.5ms\", nan]", "paper: ");
    refused("\"p99_latency\"]", "\"shown_ratio\"]", "p50_latency and shown_ratio have different units");
    refused("schedulers = [\"redundant\"]", "schedulers = [\"rr\"]", "does not run \"rr\"");
    refused("kind = \"tail\"", "kind = \"tail\"\npath = \"a\"", "a distribution is of the latencies");
    refused("kind = \"tail\"", "kind = \"curve\"", "unknown variant `curve`");
    refused("at = { rate = \"8\" }", "at = { rate = \"9\" }", "at: rate has no point \"9\"");
}

#[test]
fn claims_are_judged_at_each_point_and_over_a_stock_transport() {
    let folder = Folder::new();
    let text = SCENARIO.replace("schedulers = [", "schedulers = [\"minrtt+stock\", ") + AXES;
    let text = text.replace("system = \"Ours\"", "system = \"Ours\"\nstock = { minrtt = \"minrtt+stock\" }");
    let each = "\n[[claim]]\nsays = \"all arrive\"\neach = \"rate\"\nflow = \"blocks\"\n\
                measure = \"in_time_ratio\"\nscheduler = \"minrtt\"\nat_least = \"50%\"\n";
    let ladder = "\n[[figure]]\ntitle = \"steps\"\nkind = \"ladder\"\nflow = \"blocks\"\nmeasures = [\"in_time_ratio\"]\n\
                  steps = [{ name = \"stock\", scheduler = \"minrtt+stock\" }, { name = \"ours\", scheduler = \"minrtt\" }]\n";
    let experiment = folder.load(&(text.clone() + each + ladder)).expect("loads");
    let says: Vec<&str> = experiment.claims[3..].iter().map(|claim| claim.says.as_str()).collect();
    assert_eq!(says, ["all arrive: 4", "all arrive: 8"]);
    let PlotKind::Ladder { steps, .. } = &experiment.plots[0].kind else { panic!("{:?}", experiment.plots) };
    assert_eq!(steps.len(), 2);
    let (_, _, records) = folder.study(&experiment, false, 1);
    let findings = judge(&experiment, &records);
    assert!(findings[0].stock.is_some(), "it is against minrtt");
    assert!(findings[2].stock.is_none(), "it is about redundant alone");
    let judged = findings.iter().filter(|finding| finding.stock.is_some()).count();
    assert_eq!(OnStock::of(&findings).map(|on_stock| on_stock.judged), Some(judged));

    let error = |text: &str| folder.load(text).expect_err("is refused");
    let unknown = error(&text.replace("minrtt = \"minrtt+stock\"", "minrtt = \"rr\""));
    assert!(unknown.ends_with("stock: the experiment does not run \"rr\""), "{unknown}");
    let axis = error(&(text.clone() + &each.replace("each = \"rate\"", "each = \"place\"")));
    assert!(axis.ends_with("each: no axis is called \"place\""), "{axis}");
    let steps = error(&(text + &ladder.replace("scheduler = \"minrtt\"", "scheduler = \"ecf\"")));
    assert!(steps.ends_with("steps: the experiment does not run \"ecf\""), "{steps}");
}

#[test]
fn each_claim_is_judged_under_each_other_assumption() {
    let folder = Folder::new();
    let assumption = "\n[[assumption]]\nname = \"delay\"\npublished = \"not stated\"\nours = \"10 ms\"\nseeds = 3\n\
                      points = [{ name = \"150 ms\", set = { \"path.*.delay\" = \"150ms\" } }]\n";
    let late = "\n[[claim]]\nsays = \"most is in time\"\nat = { rate = \"4\" }\nflow = \"blocks\"\n\
                measure = \"p50_latency\"\nscheduler = \"minrtt\"\nat_most = \"140ms\"\n";
    let claims = AXES.split_once("\n[[claim]]").expect("there are claims").0.to_owned() + late;
    let text = SCENARIO.to_owned() + &claims + assumption;
    let experiment = folder.load(&text).expect("loads");
    let cells = experiment.cells(false).expect("are made");
    let names: Vec<&str> = cells.iter().map(|cell| cell.scenario.name.as_str()).collect();
    assert_eq!(names, ["narrow rate=4", "narrow rate=8", "narrow delay=150 ms rate=4"], "8 is not claimed");
    assert_eq!((cells[0].scenario.seeds.len(), cells[2].scenario.seeds.len()), (2, 3));
    assert_eq!(experiment.cells(true).expect("are made").len(), 1, "quick leaves them out");

    let (_, _, records) = folder.study(&experiment, false, 1);
    let [finding] = &judge(&experiment, &records)[..] else { panic!("one claim") };
    assert_eq!(finding.verdict, Verdict::Holds, "{finding:?}");
    let changes: Vec<_> = finding.changes().map(|other| (other.point.as_str(), other.verdict)).collect();
    assert_eq!(changes, [("150 ms", Verdict::DoesNotHold)], "{finding:?}");

    let error = |text: &str| folder.load(text).expect_err("is refused");
    let twice = error(&text.replace("name = \"delay\"", "name = \"rate\""));
    assert!(twice.ends_with("name: \"rate\" is there twice"), "{twice}");
    let same = error(&text.replace("ours = \"10 ms\"", "ours = \"150 ms\""));
    assert!(same.ends_with("ours: \"150 ms\" is one of the other points"), "{same}");
    let none = error(&text.replace("{ name = \"150 ms\", set = { \"path.*.delay\" = \"150ms\" } }", ""));
    assert!(none.ends_with("points: there is none"), "{none}");
    let bad = error(&text.replace("= \"150ms\" } }", "= \"x\" } }"));
    assert!(bad.ends_with("\"x\" is not a duration: it does not start with a number"), "{bad}");
}

#[test]
fn the_figures_of_a_reason_are_measured() {
    let folder = Folder::new();
    let assumption = "\n[[assumption]]\nname = \"delay\"\npublished = \"not stated\"\nours = \"10 ms\"\n\
                      points = [{ name = \"150 ms\", set = { \"path.*.delay\" = \"150ms\" } }]\n";
    let claim = r#"
[[claim]]
says = "most is in time"
at = { rate = "4" }
flow = "blocks"
measure = "p50_latency"
scheduler = "minrtt"
at_most = "140ms"
finding = "{own} here, {far} far away, where {share} is in time."

[claim.evidence]
own = {}
far = { at = { delay = "150 ms", rate = "8" } }
share = { scheduler = "redundant", at = { delay = "150 ms", rate = "8" }, measure = "in_time_ratio" }
"#;
    let claims = AXES.split_once("\n[[claim]]").expect("there are claims").0.to_owned() + claim;
    let text = SCENARIO.to_owned() + &claims + assumption;
    let experiment = folder.load(&text).expect("loads");
    let cells = experiment.cells(false).expect("are made");
    let names: Vec<&str> = cells.iter().map(|cell| cell.scenario.name.as_str()).collect();
    assert!(names.contains(&"narrow delay=150 ms rate=8"), "a figure is about it: {names:?}");
    let (_, _, records) = folder.study(&experiment, false, 1);
    let finding = judge(&experiment, &records).remove(0).finding;
    let figures: Vec<&str> = finding.split_whitespace().filter(|word| word.parse::<f64>().is_ok()).collect();
    let [own, far, share] = figures[..] else { panic!("three figures: {finding}") };
    assert!(
        finding.starts_with(&format!("{own} ms here, {far} ms far away, where {share} % is")),
        "{finding}"
    );
    assert!(far.parse::<f64>().unwrap() - own.parse::<f64>().unwrap() > 100.0, "{finding}");
    let near: Vec<_> = records.into_iter().filter(|record| !record.point.contains_key("delay")).collect();
    assert_eq!(judge(&experiment, &near)[0].finding, "", "it rests on what was not measured");

    let error = |from: &str, to: &str| folder.load(&text.replace(from, to)).expect_err("is refused");
    for (from, to, words) in [
        ("{own} here", "{mine} here", "finding: no evidence is called \"mine\""),
        ("{own} here", "here", "evidence: own: the finding does not name it"),
        (
            "{ scheduler = \"redundant\"",
            "{ scheduler = \"rr\"",
            "evidence: share: the experiment does not run \"rr\"",
        ),
        (
            "\"150 ms\", rate = \"8\" } }",
            "\"1 ms\", rate = \"8\" } }",
            "evidence: far: at: delay has no point \"1 ms\"",
        ),
        (
            "{ delay = \"150 ms\"",
            "{ place = \"150 ms\"",
            "evidence: far: at: no axis or assumption is called \"place\"",
        ),
        ("own = {}", "own = { path = \"a\" }", "evidence: own: measure: a path has no p50_latency"),
    ] {
        let error = error(from, to);
        assert!(error.ends_with(words), "{error}");
    }
}

/// The claims of [`AXES`] about the same measure, one about another, and one about a measure
/// without a better direction.
const MORE_CLAIMS: &str = r#"
[[claim]]
says = "redundant sends most over b"
flow = "blocks"
path = "b"
measure = "path_ratio"
scheduler = "redundant"
at_least = "50%"

[[claim]]
says = "its median is low"
of = "median"
over = "mean"
at = { rate = "4" }
flow = "blocks"
measure = "p99_latency"
scheduler = "redundant"
against = "minrtt"
is = "more"

[[claim]]
says = "the same of another"
at = { rate = "4" }
flow = "blocks"
measure = "in_time_ratio"
scheduler = "minrtt"
at_least = "10%"

[[check]]
flow = "blocks"
measure = "in_time_ratio"
at_least = "99%"
schedulers = ["redundant"]
"#;

#[test]
fn a_challenger_is_compared_with_the_papers_system() {
    let folder = Folder::new();
    let text = SCENARIO.replace("\"redundant\"]", "\"redundant\", \"minrtt+late\"]") + AXES + MORE_CLAIMS;
    let text = text.replace("system = \"Ours\"", "system = \"Ours\"\nscheduler = \"minrtt+late\"");
    let set = "set = { \"path.a.rate\" = \"8mbps\" }";
    let text =
        text.replace(set, "set = { \"path.a.rate\" = \"8mbps\", schedulers = [\"redundant\", \"minrtt\"] }");
    let registry = squall_papers::registry();
    let experiment = folder.load(&text).expect("loads");
    let challenged = experiment.clone().challenged_by("redundant", &registry).expect("fits").expect("is one");
    let claims: Vec<_> = challenged
        .claims
        .iter()
        .map(|claim| {
            (claim.says.as_str(), claim.expectation, claim.over, claim.at.get("rate").map(String::as_str))
        })
        .collect();
    let expected = [
        ("in_time_ratio of flow blocks at rate 4", Expectation::More, Over::Mean, Some("4")),
        ("in_time_ratio of flow blocks", Expectation::More, Over::Mean, None),
        ("in_time_ratio of flow blocks at rate 8", Expectation::More, Over::Mean, Some("8")),
        (
            "median of the runs: p99_latency of flow blocks at rate 4",
            Expectation::Less,
            Over::Mean,
            Some("4"),
        ),
    ];
    assert_eq!(claims, expected, "equal ones are one, and a share of a path is neither good nor bad");
    for claim in &challenged.claims {
        assert_eq!(
            (claim.scheduler.as_str(), claim.against.scheduler.as_str()),
            ("redundant+late", "minrtt+late")
        );
        assert!(claim.against.at.is_empty(), "both are at the same points");
    }
    let (runs, _, records) = folder.study(&challenged, false, 1);
    assert_eq!(runs, 8, "two schedulers at both points, with both seeds");
    assert!(records.iter().all(|record| record.run.checks.is_empty()), "checks are of other schedulers");
    let findings = judge(&challenged, &records);
    let verdicts: Vec<Verdict> = findings.iter().map(|finding| finding.verdict).collect();
    assert_eq!(verdicts[0], Verdict::DoesNotHold, "twice the rate does not fit: {findings:#?}");
    let values = findings[0].values.as_ref().expect("are known");
    assert_eq!((values.system.as_str(), values.challenger.as_str()), ("minrtt+late", "redundant+late"));
    assert!(values.of_system.ends_with(" %") && values.of_system != values.of_challenger, "{values:?}");

    // Cells without a comparison are not run.
    let mut narrow = experiment.clone();
    narrow.claims.retain(|claim| claim.at.get("rate").is_some_and(|rate| rate == "4"));
    let narrow = narrow.challenged_by("ecf", &registry).expect("fits").expect("is one");
    assert_eq!(narrow.cells(false).expect("are made").len(), 1);
    assert!(narrow.cells(true).expect("are made").is_empty(), "the quick one has only the other");

    let nothing = |experiment: &Experiment, scheduler: &str| {
        experiment.clone().challenged_by(scheduler, &registry).expect("fits").is_none()
    };
    assert!(nothing(&experiment, "minrtt+late") && nothing(&experiment, "minrtt"), "it is the system itself");
    let mut without = experiment.clone();
    without.source.scheduler.clear();
    assert!(nothing(&without, "ecf"), "there is no system");
    let mut without = experiment;
    without.claims.retain(|claim| claim.measure.best().is_none());
    assert!(nothing(&without, "ecf"), "no measure is better or worse");
    let unknown = challenge_error(&folder, &text, "ecff");
    assert!(unknown.contains("t.toml:1:1: schedulers: ") && unknown.lines().count() == 1, "{unknown}");
    let system = folder.load(&text.replace("scheduler = \"minrtt+late\"", "scheduler = \"rr\""));
    let error = system.expect_err("is refused");
    assert!(error.ends_with("scheduler: the experiment does not run \"rr\""), "{error}");
}

fn challenge_error(folder: &Folder, text: &str, scheduler: &str) -> String {
    let experiment = folder.load(text).expect("loads");
    experiment.challenged_by(scheduler, &squall_papers::registry()).expect_err("is refused").to_string()
}

#[test]
fn recorded_points_replace_those_of_an_axis() {
    let folder = Folder::new();
    let recorded = "\n[traces]\n\"axis.rate\" = [{ name = \"walk\", set = { \"path.a.rate\" = { csv = \"walk.csv\", column = \"down_mbps\" }, \"path.a.radio\" = \"none\" } }]\n";
    let text = SCENARIO.to_owned() + AXES + recorded;
    let traces = folder.0.join("traces");
    fs::create_dir_all(&traces).expect("is made");
    fs::write(traces.join("walk.csv"), "time_s,down_mbps\n0,4\n1,6\n").expect("is written");
    let made_up = folder.load(&text).expect("loads");
    assert_eq!((made_up.axes[0].points.len(), made_up.claims.len()), (2, 3));
    let recorded = made_up.with_traces(&traces).expect("has the recording");
    let names: Vec<&str> = recorded.axes[0].points.iter().map(|point| point.name.as_str()).collect();
    let says: Vec<&str> = recorded.claims.iter().map(|claim| claim.says.as_str()).collect();
    assert_eq!(names, ["walk"]);
    assert_eq!(says, ["none is better than minRTT"], "the others are about points that are gone");
    let cells = [false, true].map(|quick| recorded.cells(quick).expect("cells").len());
    assert_eq!(cells, [1, 1]);
    let error = folder.load(&text.replace("axis.rate", "axis.place")).expect_err("is refused");
    assert!(error.ends_with("axis.place: no axis is called \"place\""), "{error}");
}
