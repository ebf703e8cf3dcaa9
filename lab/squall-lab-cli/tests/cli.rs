//! The program from the view of its users.

use std::{
    path::PathBuf,
    process::{Command, Output, Stdio},
};

/// A small scenario with everything that is random.
const SCENARIO: &str = r#"
name = "small"
duration = "1s"
schedulers = ["minrtt", "rr"]

[[path]]
name = "one"
rate = "8mbps"
delay = "15ms"
jitter = "3ms"
loss = "2%/3"

[[path]]
name = "two"
rate = "5mbps"
delay = "40ms"
jitter = "5ms"
loss = "1%"

[[flow]]
name = "camera"
kind = "video"
fps = 30
bitrate = "2mbps"
jitter = "30%"
deadline = "150ms"
reliable = "none"

[[check]]
flow = "camera"
measure = "delivered_ratio"
at_least = "50%"
"#;

/// A folder for one test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("squall-cli-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn lab(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_squall-lab")).args(args).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Returns the only line on standard error of a call that must fail with `code`.
fn complaint(args: &[&str], code: i32) -> String {
    let output = lab(args);
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    text.trim_end().to_owned()
}

#[test]
fn a_bad_scenario_is_located() {
    let folder = Folder::new("bad");
    let file = folder.file("bad.toml", &SCENARIO.replace("8mbps", "8mpbs"));
    let words = complaint(&["run", &file], 2);
    assert!(words.starts_with(&format!("squall-lab: {file}:8:8: ")) && words.contains("8mpbs"), "{words}");
    let missing = folder.path("none.toml");
    let words = complaint(&["run", &missing], 2);
    assert!(words.starts_with(&format!("squall-lab: {missing}: ")), "{words}");
}

#[test]
fn an_unknown_scheduler_is_answered_with_those_there_are() {
    let folder = Folder::new("unknown");
    let file = folder.file("s.toml", SCENARIO);
    let words = complaint(&["run", &file, "--scheduler", "minrtt,fastest"], 2);
    assert!(words.starts_with("squall-lab: --scheduler: unknown scheduler 'fastest'; there are "), "{words}");
    let words = complaint(&["run", &file, "--scheduler", "minrtt,rr,minrtt"], 2);
    assert_eq!(words, "squall-lab: --scheduler: \"minrtt\" is there twice");
    let file = folder.file("u.toml", &SCENARIO.replace("\"rr\"", "\"sp(pth=1)\""));
    let words = complaint(&["run", &file], 2);
    assert_eq!(
        words,
        format!("squall-lab: {file}:4:25: scheduler 'sp' has no option 'pth'; it has path, cap")
    );
}

#[test]
fn two_processes_write_the_same_bytes() {
    let folder = Folder::new("same");
    let file = folder.file("s.toml", SCENARIO);
    let json = || {
        let output = lab(&["run", &file, "--seeds", "2", "--json", "-"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        stdout(&output)
    };
    let first = json();
    assert_eq!(first, json());
    let runs = squall_lab::result::from_json(&first, "-").unwrap();
    let order: Vec<_> = runs.iter().map(|run| (run.scheduler.as_str(), run.seed)).collect();
    assert_eq!(order, [("minrtt", 1), ("minrtt", 2), ("rr", 1), ("rr", 2)]);
}

#[test]
fn a_run_shows_tables_and_writes_files() {
    let folder = Folder::new("files");
    let file = folder.file("s.toml", SCENARIO);
    let (json, report) = (folder.path("out/s.json"), folder.path("out/s.html"));
    let output =
        lab(&["run", &file, "--seed", "7", "--scheduler", "rr", "--json", &json, "--report", &report]);
    let text = stdout(&output);
    assert!(output.status.success(), "{text}");
    assert!(output.stderr.is_empty(), "no progress without a terminal");
    for words in
        ["scenario small", "in time %", "pass", &format!("report: {report}"), &format!("json: {json}")]
    {
        assert!(text.contains(words), "{words} in\n{text}");
    }
    let runs = squall_lab::result::from_json(&std::fs::read_to_string(&json).unwrap(), &json).unwrap();
    assert_eq!((runs.len(), runs[0].seed, runs[0].scheduler.as_str()), (1, 7, "rr"));
    assert!(std::fs::read_to_string(&report).unwrap().contains("<svg"));
}

#[test]
fn a_run_writes_qlog_in_a_build_that_can() {
    let folder = Folder::new("qlog");
    let file = folder.file("s.toml", SCENARIO);
    let args = ["run", &file, "--seed", "7", "--scheduler", "rr", "--qlog", &folder.path("qlog")];
    if cfg!(feature = "qlog") {
        assert!(lab(&args).status.success());
        let logs = std::fs::read_dir(folder.0.join("qlog/rr-7")).unwrap().count();
        assert!(logs >= 2, "one of each end, not {logs}");
    } else {
        let words = complaint(&args, 2);
        assert!(words.contains("this build writes no qlog"), "{words}");
    }
}

#[test]
fn a_check_that_fails_sets_the_exit_code() {
    let folder = Folder::new("check");
    let file = folder.file("s.toml", &SCENARIO.replace("at_least = \"50%\"", "at_most = \"1%\""));
    let output = lab(&["run", &file]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("FAIL"));
    let words = complaint(&["run", &file, "--json", "-"], 1);
    assert_eq!(words, "squall-lab: 2 of 2 checks failed");
}

#[test]
fn schedulers_that_the_file_does_not_name_are_not_checked() {
    let folder = Folder::new("unchecked");
    let file = folder.file("s.toml", &SCENARIO.replace("at_least = \"50%\"", "at_most = \"1%\""));
    let output = lab(&["run", &file, "--scheduler", "redundant"]);
    assert!(output.status.success() && !stdout(&output).contains("FAIL"), "{}", stdout(&output));
    let note = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(note, format!("squall-lab: {file}: its checks are for minrtt, rr; not checked: redundant\n"));
}

#[test]
fn a_check_with_nothing_to_measure_fails() {
    let folder = Folder::new("dead");
    let dead = SCENARIO.replace("loss = \"2%/3\"", "loss = 1.0").replace("loss = \"1%\"", "loss = 1.0");
    let file = folder.file("s.toml", &dead.replace("deadline = \"150ms\"", "deadline = \"60s\""));
    let output = lab(&["run", &file]);
    assert_eq!(output.status.code(), Some(1));
    let text = stdout(&output);
    assert!(text.contains("FAIL"), "{text}");
}

#[test]
fn a_file_that_is_not_there_ends_with_2_and_a_hint() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let calls: [&[&str]; 7] = [
        &["run", "fadng.toml"],
        &["report", "fadng.toml"],
        &["trace", "info", "fadng.toml"],
        &["signal", "info", "fadng.toml"],
        &["demo", "--scenario", "fadng.toml"],
        &["video", "scene", "--scenario", "fadng.toml"],
        &["repro", "fadng.toml"],
    ];
    for args in calls {
        let output =
            Command::new(env!("CARGO_BIN_EXE_squall-lab")).args(args).current_dir(root).output().unwrap();
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {words}");
        assert_eq!(words.lines().count(), 1, "{args:?}: {words}");
        let hint = "fadng.toml: No such file or directory (os error 2); did you mean scenarios/fading.toml?";
        assert!(words.contains(hint), "{args:?}: {words}");
    }
}

#[test]
fn schedulers_are_listed() {
    let json = stdout(&lab(&["schedulers", "--json", "-"]));
    let list: serde_json::Value = serde_json::from_str(&json).unwrap();
    let entry = |name: &str| list.as_array().unwrap().iter().find(|entry| entry["name"] == name).cloned();
    assert_eq!(entry("sp").unwrap()["options"][0]["default"], "0");
    let text = stdout(&lab(&["schedulers"]));
    for words in ["minrtt", "source: ", "path=0"] {
        assert!(text.contains(words), "{words} in\n{text}");
    }
}

#[test]
fn mistakes_of_usage_end_with_2() {
    for args in [&["run"][..], &["jump"], &["run", "x.toml", "--seeds", "0"], &["schedulers", "--jsn", "-"]] {
        assert_eq!(lab(args).status.code(), Some(2), "{args:?}");
    }
    for command in ["run", "schedulers"] {
        let help = stdout(&lab(&[command, "--help"]));
        assert!(help.contains("Examples:"), "{help}");
    }
}

#[test]
fn decisions_of_congestion_control_are_logged_on_demand() {
    let folder = Folder::new("log");
    let file = folder.file("s.toml", &SCENARIO.replace("\"2mbps\"", "\"10mbps\""));
    let run = |wanted: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_squall-lab"));
        let output = command.args(["run", &file, "--scheduler", "minrtt"]).env("RUST_LOG", wanted).output();
        let output = output.unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (_, log) = run("squall_proto::congestion=debug");
    assert!(log.contains("ends the start at=") && log.contains("phase=\"alone\""), "{log}");
    let (_, log) = run("warn");
    assert!(!log.contains("phase="), "{log}");
    let (code, words) = run("a=b=c");
    assert_eq!(code, Some(2), "{words}");
    assert_eq!(words, "squall-lab: RUST_LOG: \"a=b=c\" is no LEVEL or TARGET=LEVEL\n");
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_squall-lab"))
        .args(["schedulers"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && words.is_empty(), "{words}");
}

#[test]
fn one_point_of_an_experiment_can_be_run() {
    let folder = Folder::new("at");
    let axis = "[[axis]]\nname = \"delay\"\npoints = [\n    { name = \"near\", set = { \"path.two.delay\" = \"20ms\", \"path.two.loss\" = \"0%\" } },\n    \
         { name = \"far\", set = { \"path.two.delay\" = \"90ms\", \"path.two.loss\" = \"0%\" } },\n]\n";
    let file = folder.file("small.toml", &format!("{SCENARIO}{axis}"));
    let run = |more: &[&str]| {
        let args = [&["run", &file, "--scheduler", "sp(path=1)", "--json", "-"], more].concat();
        let runs: serde_json::Value = serde_json::from_str(&stdout(&lab(&args))).unwrap();
        let median = runs[0]["flows"][0]["latency"]["p50_us"].as_u64().unwrap();
        (runs[0]["scenario"].as_str().unwrap().to_owned(), median)
    };
    let (near, far) = (run(&["--at", "delay=near"]), run(&["--at", "delay=far"]));
    assert_eq!(
        (near.0.as_str(), far.0.as_str(), run(&[]).0.as_str()),
        ("small delay=near", "small delay=far", "small")
    );
    assert!((65_000..75_000).contains(&(far.1 - near.1)), "{near:?} {far:?}");

    let at = |words: &str| complaint(&["run", &file, "--at", words], 2);
    assert_eq!(at("delay=there"), "squall-lab: --at: delay has no point \"there\"; there are near, far");
    assert_eq!(at("rate=near"), "squall-lab: --at: no axis is called \"rate\"; there are delay");
    assert!(at("delay").contains("is no AXIS=POINT"));
    assert!(at("delay=near,delay=far").contains("names its axis again"));
}
