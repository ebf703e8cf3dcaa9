//! `squall-lab repro`: experiments, their results, and errors in them.

mod common;

use common::{Scratch, failure, run};

const EXPERIMENT: &str = r#"
name = "narrow"
description = "Blocks over two paths"
duration = "1s"
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
interval = "17ms"
deadline = "200ms"

[[axis]]
name = "rate"
points = [
    { name = "4", set = { "path.a.rate" = "4mbps" } },
    { name = "8", set = { "path.a.rate" = "8mbps" } },
]

[[claim]]
says = "copies of everything do not fit"
at = { rate = "4" }
flow = "blocks"
measure = "in_time_ratio"
scheduler = "redundant"
against = "minrtt"
is = "less"
"#;

/// Four processes share the runs, a fifth merges and judges: the results are those of a single
/// process.
#[test]
fn shards_add_up_to_the_whole() {
    let scratch = Scratch::new("repro-shards");
    let file = scratch.write("narrow.toml", EXPERIMENT.as_bytes()).display().to_string();
    let folders: Vec<String> =
        (1..=4).map(|i| scratch.path(&format!("part-{i}")).display().to_string()).collect();
    let counts: Vec<usize> = std::thread::scope(|scope| {
        let parts: Vec<_> = (1..)
            .zip(&folders)
            .map(|(i, out)| {
                let (file, shard) = (&file, format!("{i}/4"));
                scope.spawn(move || {
                    let output = run(["repro", file, "--shard", &shard, "--out", out]);
                    let said = String::from_utf8(output.stdout).expect("is text");
                    let count = said
                        .strip_prefix(&format!("shard {shard}: "))
                        .and_then(|rest| rest.split_once(" runs in "));
                    count.unwrap_or_else(|| panic!("{said}")).0.parse().expect("is a number")
                })
            })
            .collect();
        parts.into_iter().map(|part| part.join().expect("ends")).collect()
    });
    assert_eq!(counts, [2; 4], "eight runs");
    let findings = |out: &str, merge: &[&str]| {
        let out = scratch.path(out).display().to_string();
        let output = run([&["repro", &file, "--out", &out, "--json", "-"], merge].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        (
            String::from_utf8(output.stdout).expect("is text"),
            String::from_utf8(output.stderr).expect("is text"),
        )
    };
    let merge: Vec<&str> = ["--merge"].into_iter().chain(folders.iter().map(String::as_str)).collect();
    let (merged, said) = findings("merged", &merge);
    assert!(said.contains("part-4: 2 runs taken over\n") && said.contains("0 runs in "), "{said}");
    assert_eq!(merged, findings("whole", &[]).0);
    // Missing runs of a shard are carried out when merging.
    let (partial, said) = findings("partial", &merge[..3]);
    assert!(said.contains("4 runs in ") && partial == merged, "{said}");
    let (said, code) = failure(&run(["repro", &file, "--shard", "5/4"]));
    assert!(said.contains("NUMBER/PARTS") && code == Some(2), "{said}");
}

#[test]
fn claims_are_judged_and_runs_remembered() {
    let scratch = Scratch::new("repro");
    let file = scratch.write("narrow.toml", EXPERIMENT.as_bytes()).display().to_string();
    let (out, csv) = (scratch.path("out").display().to_string(), scratch.path("all.csv"));
    let csv_name = csv.display().to_string();
    let args = ["repro", &file, "--out", &out, "--csv", &csv_name];
    let first = run(args);
    assert!(first.status.success(), "{}", String::from_utf8_lossy(&first.stderr));
    let text = String::from_utf8(first.stdout).expect("is text");
    assert!(text.contains("copies of everything do not fit") && text.contains("  holds\n"), "{text}");
    assert!(text.contains("1 claim: 1 holds\n"), "{text}");
    assert!(String::from_utf8_lossy(&first.stderr).contains("8 runs in "));
    let rows = std::fs::read_to_string(&csv).expect("was written");
    let head = "experiment,rate,scheduler,seed,flow,class,path,measure,value";
    assert_eq!(rows.lines().next(), Some(head));
    assert!(rows.contains("\nnarrow,8,minrtt,1,blocks,,,in_time_ratio,"), "{rows}");
    let again = run(args);
    assert!(String::from_utf8_lossy(&again.stderr).contains("0 runs in "), "all are known");
    assert_eq!(String::from_utf8(again.stdout).expect("is text"), text);
    // An additional seed and another claim do not invalidate the other results.
    let more = EXPERIMENT.replace("seeds = [1, 2]", "seeds = [1, 2, 3]").replace("do not fit", "are late");
    scratch.write("narrow.toml", more.as_bytes());
    let further = run(args);
    assert!(String::from_utf8_lossy(&further.stderr).contains("4 runs in "), "{further:?}");
}

#[test]
fn the_list_needs_no_runs() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/papers");
    let output = run(["repro", "--list", "--experiments", folder]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("is text");
    for name in ["storm-fig10", "dams-fig7, dams-fig9", "ninetails-fig6"] {
        assert!(text.contains(name), "{name} in\n{text}");
    }
}

#[test]
fn a_figure_that_another_experiment_covers_is_found() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/papers");
    let output = run(["repro", "dams-fig9", "--list", "--experiments", folder]);
    let text = String::from_utf8(output.stdout).expect("is text");
    assert!(text.contains("dams-fig7, dams-fig9") && !text.contains("dams-fig8"), "{text}");
}

#[test]
fn mistakes_are_reported_in_a_line() {
    let scratch = Scratch::new("repro-mistakes");
    let wrong = EXPERIMENT.replace("is = \"less\"", "is = \"fewer\"");
    let line = wrong.lines().position(|line| line.contains("fewer")).expect("is there") + 1;
    let file = scratch.write("wrong.toml", wrong.as_bytes()).display().to_string();
    let papers = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/papers");
    let nowhere = scratch.path("nowhere").display().to_string();
    let calls: [(&[&str], String); 4] = [
        (&[&file], format!("{file}:{line}:6: unknown variant `fewer`")),
        (&["storm-fig99", "--experiments", papers], "storm-fig99: no experiment in ".into()),
        (&["--experiments", &nowhere], format!("{nowhere}: ")),
        (&[&file, &file], format!("{file}:{line}:6: ")),
    ];
    for (args, expected) in calls {
        let (said, code) = failure(&run([&["repro"], args].concat()));
        assert!(said.starts_with(&format!("squall-lab: {expected}")), "{said}");
        assert_eq!((said.lines().count(), code), (1, Some(2)), "{said}");
    }
}

#[test]
fn reasons_tables_and_a_page_are_written() {
    let scratch = Scratch::new("repro-written");
    let found = EXPERIMENT.replace("is = \"less\"", "is = \"more\"\nfinding = \"they need twice the rate\"");
    let file = scratch.write("narrow.toml", found.as_bytes()).display().to_string();
    let (out, page) = (scratch.path("out").display().to_string(), scratch.path("found.md"));
    let name = page.display().to_string();
    let output = run(["repro", &file, "--out", &out, "--tables", "--markdown", &name]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("is text");
    for words in
        ["scenario narrow rate=8", "limit %", "narrow: copies of everything", "    they need twice the rate."]
    {
        assert!(text.contains(words), "{words} in\n{text}");
    }
    assert!(text.contains("1 claim: 1 does not hold\n"), "{text}");
    let page = std::fs::read_to_string(&page).expect("was written");
    assert!(page.contains("| narrow | copies of everything do not fit | more |"), "{page}");
    assert!(page.contains("- *copies of everything do not fit*: they need twice the rate.\n"), "{page}");
}

/// A recording of 8 Mbps for a link of 4, where copies of everything fit.
#[test]
fn recorded_networks_are_shown_beside_synthetic_ones() {
    let scratch = Scratch::new("repro-beside");
    scratch.write("wide.csv", b"time_s,down_mbps\n0,8\n");
    let traces = "[traces]\n\"axis.rate\" = [{ name = \"recorded\", set = { \"path.*.rate\" = { csv = \"wide.csv\", column = \"down_mbps\" } } }]\n";
    let experiment = EXPERIMENT.replace("at = { rate = \"4\" }\n", "");
    let file = scratch.write("narrow.toml", format!("{experiment}{traces}").as_bytes()).display().to_string();
    let path = |name: &str| scratch.path(name).display().to_string();
    let (out, known, page) = (path("out"), path("found.json"), path("recorded.md"));
    let synthetic = run(["repro", &file, "--out", &out, "--json", &known]);
    assert!(synthetic.status.success(), "{}", String::from_utf8_lossy(&synthetic.stderr));
    let (folder, recorded) = (scratch.path("").display().to_string(), path("recorded"));
    let args = ["repro", &file, "--out", &recorded, "--traces", &folder, "--markdown", &page, "--beside"];
    let output = run([&args[..], &[&known]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(&page).expect("was written");
    let row = text.lines().find(|line| line.starts_with("| copies of everything")).expect("is there");
    let cells: Vec<&str> = row.split(" | ").collect();
    assert_eq!((cells[1], cells[3]), ("less", "holds"), "{row}");
    assert!(cells[5].starts_with("does not hold") || cells[5].starts_with("tied"), "{row}");
    assert!(text.contains("Of 1 claims 0 have the same verdict over both."), "{text}");
    // Unreadable files are reported before the runs.
    let missing = run([&args[..], &[&path("nowhere.json")]].concat());
    let (said, code) = failure(&missing);
    assert!(said.contains("nowhere.json: ") && code == Some(2), "{said}");
    let (said, code) = failure(&run([&args[..], &[&file]].concat()));
    assert!(said.contains("not the findings of --json") && code == Some(2), "{said}");
}

/// Only the paper's system and the challenger are run, in all forms of output.
#[test]
fn a_challenger_is_shown_beside_the_papers_system() {
    let scratch = Scratch::new("repro-challenger");
    let paper = "[paper]\nsystem = \"Narrow\"\nscheduler = \"minrtt\"\n";
    let file = scratch.write("narrow.toml", format!("{EXPERIMENT}{paper}").as_bytes()).display().to_string();
    let path = |name: &str| scratch.path(name).display().to_string();
    let (whole, out, page, json, report) =
        (path("whole"), path("out"), path("page.md"), path("found.json"), path("report.html"));
    assert!(run(["repro", &file, "--out", &whole]).status.success());
    let files = ["--markdown", &page, "--json", &json, "--report", &report, "--merge", &whole];
    let output = run([&["repro", &file, "--challenger", "redundant", "--out", &out], &files[..]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stderr);
    // Runs at the other rate, four of the eight earlier ones, are not needed.
    assert!(said.contains("whole: 4 runs taken over\n") && said.contains("0 runs in "), "{said}");
    let text = String::from_utf8(output.stdout).expect("is text");
    assert!(text.contains("redundant beside the systems of the papers\n"), "{text}");
    assert!(text.contains("in_time_ratio of flow blocks at rate 4") && text.contains("  behind\n"), "{text}");
    assert!(text.contains("\nNarrow: 1 comparison: 1 behind\n"), "{text}");
    let page = std::fs::read_to_string(&page).expect("was written");
    assert!(page.starts_with("# redundant beside the systems of the papers\n"), "{page}");
    assert!(page.contains("| Narrow | 1 | 0 | 0 | 0 | 1 | 0 |\n"), "{page}");
    let row = page.lines().find(|line| line.starts_with("| narrow |")).expect("is there");
    let cells: Vec<&str> = row.split(" | ").collect();
    assert_eq!((cells[1], cells[2]), ("in_time_ratio of flow blocks at rate 4", "more"), "{row}");
    assert!(cells[3].starts_with("`minrtt` ") && cells[4].starts_with("`redundant` "), "{row}");
    assert!(cells[5].starts_with('-') && cells[6] == "behind |", "{row}");
    let found: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&json).expect("was written")).expect("is JSON");
    assert_eq!(found[0]["verdict"], "does_not_hold");
    assert_eq!(found[0]["values"]["challenger"], "redundant");
    assert!(std::fs::read_to_string(&report).expect("was written").contains("<p>redundant: "));
}

#[test]
fn challengers_that_cannot_be_compared_are_refused_in_a_line() {
    let scratch = Scratch::new("repro-no-challenger");
    let paper = "[paper]\nscheduler = \"minrtt\"\n";
    let file = scratch.write("narrow.toml", format!("{EXPERIMENT}{paper}").as_bytes()).display().to_string();
    let calls = [
        ("minrt", "--challenger: "),
        ("minrtt(speed=1)", "--challenger: "),
        ("minrtt", "--challenger: nothing to compare minrtt with in narrow"),
    ];
    for (scheduler, expected) in calls {
        let (said, code) = failure(&run(["repro", &file, "--challenger", scheduler]));
        assert!(said.starts_with(&format!("squall-lab: {expected}")), "{said}");
        assert_eq!((said.lines().count(), code), (1, Some(2)), "{said}");
    }
}

#[test]
fn a_check_that_fails_at_one_point_fails_the_experiment() {
    let scratch = Scratch::new("repro-check");
    let check = "[[check]]\nflow = \"blocks\"\nmeasure = \"in_time_ratio\"\nat_least = \"99%\"\nschedulers = [\"redundant\"]\n";
    let file = scratch.write("narrow.toml", format!("{EXPERIMENT}{check}").as_bytes()).display().to_string();
    let out = scratch.path("out").display().to_string();
    let output = run(["repro", &file, "--out", &out]);
    let text = String::from_utf8(output.stdout.clone()).expect("is text");
    assert!(text.contains("narrow rate=4") && text.contains("claim: 1 holds"), "{text}");
    assert_eq!(output.status.code(), Some(1), "{text}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.ends_with("squall-lab: 2 checks failed\n"), "{said}");
}
