//! `squall-lab report` and `squall-lab repro --report`: pages from results, and invalid arguments.

mod common;

use common::{Scratch, failure, run};

const EXPERIMENT: &str = include_str!("common/narrow.toml");

/// Runs the experiment, and returns the text of its results.
fn results(scratch: &Scratch) -> (String, String) {
    let file = scratch.write("narrow.toml", EXPERIMENT.as_bytes()).display().to_string();
    let out = scratch.path("results").display().to_string();
    let output = run(["repro", &file, "--out", &out]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (file, out)
}

#[test]
fn repro_writes_the_page_and_the_figures() {
    let scratch = Scratch::new("repro-report");
    let (file, out) = results(&scratch);
    let (page, svg) = (scratch.path("out/page.html"), scratch.path("svg"));
    let [page_name, svg_name] = [&page, &svg].map(|path| path.display().to_string());
    let output = run(["repro", &file, "--out", &out, "--report", &page_name, "--svg", &svg_name]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).expect("is text");
    assert!(said.contains(&format!("report: {page_name}\n")) && said.contains("svg: 5 files"), "{said}");
    let page = std::fs::read_to_string(page).expect("was written");
    for words in
        ["In time by rate", "reported by the paper", "limit", "copies of everything do not fit", "holds"]
    {
        assert!(page.contains(words), "{words}");
    }
    assert!(page.contains("Paths and blocks over time under redundant"), "single runs");
    assert_eq!(std::fs::read_dir(svg).expect("is there").count(), 5, "three figures and two single runs");
}

#[test]
fn any_results_are_drawn() {
    let scratch = Scratch::new("report");
    let (file, out) = results(&scratch);
    let json = scratch.path("run.json").display().to_string();
    let ran = run(["run", &file, "--scheduler", "rr", "--json", &json]);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let experiments = scratch.path("").display().to_string();
    let page = scratch.path("page.html");
    let page_name = page.display().to_string();
    let all = ["report", &out, &json, "--out", &page_name, "--experiments", &experiments];
    let chosen = ["--timeline", "narrow[rate=8]:redundant:1"];
    let output = run([&all[..], &chosen[..]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(&page).expect("was written");
    assert!(text.contains("Single runs at rate 8 Mbps, seed 1") && text.contains("Scenario narrow"));
    assert!(text.contains("under redundant") && !text.contains("over time under minrtt"));
    assert!(!text.contains("the numbers are not those"), "a run is the same each time");
    // Without the experiment file and without single runs.
    let output = run(["report", &out, "--out", &page_name, "--experiments", &out, "--no-timelines"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(&page).expect("was written");
    assert!(text.contains("blocks in time, blocks") && !text.contains("Single runs"));
}

#[test]
fn equal_runs_count_once_and_different_ones_are_refused() {
    let scratch = Scratch::new("report-twice");
    let file = scratch.write("narrow.toml", EXPERIMENT.as_bytes()).display().to_string();
    let [one, two, page] = ["one.json", "two.json", "page.html"].map(|name| scratch.path(name));
    let [one_name, two_name, page_name] = [&one, &two, &page].map(|path| path.display().to_string());
    let ran = run(["run", &file, "--scheduler", "rr", "--seeds", "2", "--json", &one_name]);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let drawn = |args: &[&str]| {
        let output = run([&["report", "--out", &page_name], args].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let page = std::fs::read_to_string(&page).expect("was written");
        // A single file determines the title.
        page.replace("<title>one<", "<title>Results<").replace("<h1>one<", "<h1>Results<")
    };
    assert_eq!(drawn(&[&one_name]), drawn(&[&one_name, &one_name]), "no interval becomes narrower");
    let mut other: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&one).expect("was written")).expect("is JSON");
    other[0]["paths"][0]["packets"] = 7.into();
    std::fs::write(&two, other.to_string()).expect("is written");
    let (said, code) = failure(&run(["report", "--out", &page_name, &one_name, &two_name]));
    let expected = "two different runs of rr with seed 1; give the results of one program and one scenario";
    assert!(said.contains(expected) && code == Some(2), "{said}");
}

#[test]
fn mistakes_are_reported_in_a_line() {
    let scratch = Scratch::new("report-mistakes");
    let (file, out) = results(&scratch);
    let empty = scratch.path("empty");
    std::fs::create_dir_all(&empty).expect("is made");
    let broken = scratch.write("broken.jsonl", b"{\"experiment\": 3}\n").display().to_string();
    let list = scratch.write("broken.json", b"[3]").display().to_string();
    let nowhere = scratch.path("nowhere.jsonl").display().to_string();
    let (empty, folder) = (empty.display().to_string(), scratch.path("").display().to_string());
    let page = scratch.path("page.html").display().to_string();
    let choose = |choice: &'static str| vec![out.as_str(), "--experiments", &folder, "--timeline", choice];
    let calls: Vec<(Vec<&str>, String)> = vec![
        (vec![&nowhere], format!("{nowhere}: ")),
        (vec![&empty], format!("{empty}: there is no file .jsonl or .json in it")),
        (vec![&broken], format!("{broken}:1: ")),
        (vec![&list], format!("{list}:1:2: not a result file: ")),
        (choose("wide"), "--timeline: wide: there are no results of it, only of narrow".into()),
        (choose("narrow[rate=9]"), "--timeline: narrow: no result is of these points".into()),
        (
            vec![&out, "--experiments", &out, "--timeline", "narrow"],
            "--timeline: narrow: its file is not at hand".into(),
        ),
    ];
    for (args, expected) in calls {
        let (said, code) = failure(&run([&["report", "--out", &page], &args[..]].concat()));
        assert!(said.starts_with(&format!("squall-lab: {expected}")), "{said}");
        assert_eq!((said.lines().count(), code), (1, Some(2)), "{said}");
    }
    std::fs::write(&file, EXPERIMENT.replace("measure = \"in_time_ratio\"", "measure = \"size\""))
        .expect("is written");
    let (said, code) = failure(&run(["report", &out, "--out", &page, "--experiments", &folder]));
    assert!(
        said.contains("narrow.toml:") && said.contains("unknown measure \"size\"") && code == Some(2),
        "{said}"
    );
}
