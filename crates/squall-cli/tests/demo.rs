//! The demo, short and small.

mod common;

use std::fs;

use common::{Scratch, run};

#[test]
fn a_short_demo_tells_what_it_measured() {
    let scratch = Scratch::new("demo");
    let report = scratch.path("new/folder/demo.html");
    let args =
        ["demo", "--seconds", "2", "--size", "320x180", "--bitrate", "2mbps", "--json", "-", "--report"];
    let output = run(args.iter().map(std::ffi::OsStr::new).chain([report.as_os_str()]));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let runs: serde_json::Value = serde_json::from_slice(&output.stdout).expect("nothing but JSON");
    let runs = runs.get("runs").unwrap_or(&runs).as_array().expect("a list");
    let names: Vec<_> = runs.iter().map(|run| run["scheduler"].as_str().expect("is text")).collect();
    assert_eq!(names, ["minrtt", "redundant"]);
    for run in runs {
        let total = &run["flows"][0]["total"];
        assert_eq!(total["offered_blocks"], 60);
        assert!(total["delivered_blocks"].as_u64() > Some(50), "{total}");
        assert!(run["extra"]["fps"].as_f64() > Some(20.0), "{}", run["extra"]);
        assert!(run["extra"]["PSNR dB"].as_f64() > Some(25.0), "{}", run["extra"]);
        assert_eq!(run["paths"].as_array().map(Vec::len), Some(2));
    }
    let page = fs::read_to_string(&report).expect("the folder is made and the report written");
    assert!(page.contains("redundant") && page.contains("LTE"));
}
