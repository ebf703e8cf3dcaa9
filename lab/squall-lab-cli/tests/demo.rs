//! A short and small demo.

mod common;

use std::fs;

use common::{Scratch, run};
use squall_testkit::{assert_duration, in_real_time};

#[test]
fn a_short_demo_reports_what_it_measured() {
    in_real_time(|| {
        let scratch = Scratch::new("demo");
        let report = scratch.path("new/folder/demo.html");
        let args =
            ["demo", "--seconds", "6", "--size", "320x180", "--bitrate", "2mbps", "--json", "-", "--report"];
        let output = run(args.iter().map(std::ffi::OsStr::new).chain([report.as_os_str()]));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        let runs: serde_json::Value = serde_json::from_slice(&output.stdout).expect("nothing but JSON");
        let runs = runs.get("runs").unwrap_or(&runs).as_array().expect("a list");
        let names: Vec<_> = runs.iter().map(|run| run["scheduler"].as_str().expect("is text")).collect();
        assert_eq!(names, ["minrtt", "storm", "squall+swm"]);
        for run in runs {
            let total = &run["flows"][0]["total"];
            assert_eq!(total["offered_blocks"], 180);
            assert_duration!(total["delivered_blocks"].as_u64() > Some(120), "{total}");
            assert_duration!(run["extra"]["fps"].as_f64() > Some(20.0), "{}", run["extra"]);
            assert_duration!(run["extra"]["PSNR dB"].as_f64() > Some(25.0), "{}", run["extra"]);
            assert_eq!(run["paths"].as_array().map(Vec::len), Some(2));
        }
        // Wi-Fi fails after five seconds, and its radio announces it.
        let alerts = |run: &serde_json::Value| -> Vec<String> {
            let alerts = run["paths"][0]["alerts"].as_array().cloned().unwrap_or_default();
            alerts.iter().filter_map(|alert| Some(alert["kind"].as_str()?.to_owned())).collect()
        };
        let storm = alerts(&runs[1]);
        assert!(storm.contains(&"warning".to_owned()) && storm.contains(&"outage".to_owned()), "{storm:?}");
        let quality = runs[1]["paths"][0]["series"]["quality"].as_array().expect("the radio was read");
        let read: Vec<u64> = quality.iter().filter_map(serde_json::Value::as_u64).collect();
        assert!(read.iter().any(|q| *q > 700) && read.iter().any(|q| *q < 210), "{read:?}");
        assert!(alerts(&runs[0]).is_empty(), "minrtt uses no radio");
        assert!(runs[0]["paths"][0]["series"].get("quality").is_none());
        let page = fs::read_to_string(&report).expect("the folder is made and the report written");
        assert!(page.contains("storm") && page.contains("LTE") && page.contains("0.32"));
    });
}
