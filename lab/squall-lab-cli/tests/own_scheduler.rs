//! A custom scheduler in all features of the laboratory that use schedulers.

mod common;

use std::process::{Command, Output};

use common::{LAB, Scratch, failure};
use serde_json::Value;

const EXPERIMENT: &str = include_str!("common/narrow.toml");

/// Runs `examples/own_laboratory.rs`.
fn run(args: &[&str]) -> Output {
    Command::new(squall_testkit::program::sibling(LAB, "examples/own_laboratory"))
        .args(args)
        .output()
        .expect("starts")
}

fn success(args: &[&str]) -> String {
    let output = run(args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("is text")
}

#[test]
fn it_runs_in_scenarios_and_is_reported() {
    let scratch = Scratch::new("own-run");
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/metered.toml");
    let report = scratch.path("thrifty.html");
    let args = ["run", scenario, "--scheduler", "minrtt,thrifty,thrifty(margin=50)", "--seed", "1"];
    let json = success(&[&args[..], &["--json", "-", "--report", &report.display().to_string()]].concat());
    let runs: Value = serde_json::from_str(&json).expect("is JSON");
    let of = |scheduler: &str| {
        let run = runs.as_array().expect("is a list").iter().find(|run| run["scheduler"] == scheduler);
        let run = run.unwrap_or_else(|| panic!("{scheduler}"));
        let lte = run["paths"].as_array().expect("are paths").iter().find(|path| path["name"] == "LTE");
        let lte = lte.expect("is a path");
        let bytes = lte["wire_bytes_up"].as_u64().expect("is a number");
        let in_time = run["flows"][0]["total"]["in_time_blocks"].as_u64().expect("is a number");
        (bytes, in_time)
    };
    let (own, minrtt) = (of("thrifty"), of("minrtt"));
    assert!(own.0 < minrtt.0, "spares the metered path: {own:?} {minrtt:?}");
    assert!(own.1 * 100 >= minrtt.1 * 99, "uses it when it is needed: {own:?} {minrtt:?}");
    assert_ne!(of("thrifty(margin=50)"), own, "options reach it");
    let page = std::fs::read_to_string(report).expect("was written");
    assert!(page.contains("thrifty(margin=50)"));
}

#[test]
fn it_takes_part_in_experiments_and_is_listed() {
    let scratch = Scratch::new("own-repro");
    let experiment = EXPERIMENT.replace("\"redundant\"]", "\"redundant\", \"thrifty\"]");
    let file = scratch.write("narrow.toml", experiment.as_bytes()).display().to_string();
    let [out, page] = ["results", "page.html"].map(|name| scratch.path(name).display().to_string());
    success(&["repro", &file, "--out", &out, "--report", &page, "--quick"]);
    assert!(std::fs::read_to_string(page).expect("was written").contains("thrifty"));
    let listing = success(&["schedulers"]);
    assert!(
        listing.contains("\nthrifty ") && listing.contains("margin=20: ms before the deadline"),
        "{listing}"
    );
    let (message, code) = failure(&run(&["run", &file, "--scheduler", "thrifty(margin=2000)"]));
    assert!(message.contains("option margin=2000: must be from 0 to 1000"), "{message}");
    assert_eq!(code, Some(2));
    // The program of this repository does not include it.
    let (message, code) = failure(&common::run(["run", &file, "--scheduler", "thrifty"]));
    assert!(message.contains("unknown scheduler 'thrifty'"), "{message}");
    assert_eq!(code, Some(2));
}

/// Messages of 2 and 40 kB over a saturated link.
const MIXED: &str = r#"
name = "mixed"
duration = "5s"
schedulers = ["minrtt"]

[streams]
scheduler = "STREAMS"

[[path]]
name = "a"
rate = "8mbps"
delay = "20ms"

[[flow]]
name = "mixed"
kind = "messages"
size = { uniform = ["2kB", "40kB"] }
interval = "20ms"
channels = "CHANNELS"
"#;

#[test]
fn stream_schedulers_and_multiplexers_of_ones_own_are_named_in_scenarios() {
    let scratch = Scratch::new("own-streams");
    let median = |streams: &str, channels: &str| {
        let text = MIXED.replace("STREAMS", streams).replace("CHANNELS", channels);
        let file = scratch.write("mixed.toml", text.as_bytes()).display().to_string();
        let runs: Value = serde_json::from_str(&success(&["run", &file, "--json", "-"])).expect("is JSON");
        runs[0]["flows"][0]["latency"]["p50_us"].as_u64().expect("is a number")
    };
    let (plain, own) = (median("fifo", "one"), median("shortest", "by-size(large=20000)"));
    assert!(own * 2 < plain, "small messages pass large ones: {own} and {plain}");
    let listing = success(&["schedulers"]);
    assert!(listing.contains("\nshortest ") && listing.contains("large=10000: bytes"), "{listing}");
    // The program of this repository includes neither.
    for (streams, channels, words) in [
        ("shortest", "one", "unknown stream scheduler 'shortest'; there are fifo, wrr"),
        ("fifo", "by-size", "unknown multiplexer 'by-size'; there are one, per-message, spread, unordered"),
    ] {
        let text = MIXED.replace("STREAMS", streams).replace("CHANNELS", channels);
        let file = scratch.write("mixed.toml", text.as_bytes()).display().to_string();
        let (message, code) = failure(&common::run(["run", &file]));
        assert!(message.contains(words), "{message}");
        assert_eq!(code, Some(2));
    }
}
