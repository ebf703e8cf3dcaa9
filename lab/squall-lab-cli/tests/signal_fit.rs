//! `squall-lab signal fit`, by its program.

mod common;

use std::{path::Path, process::Output};

use common::{Scratch, failure, run};

fn fit(args: &[&str]) -> Output {
    run(["signal", "fit"].iter().chain(args))
}

fn shown(file: &Path) -> String {
    file.display().to_string()
}

const HEADER: &str = "time_s,down_mbps,up_mbps,rtt_ms,rsrp_dbm,rsrq_db,sinr_db,rssi_dbm,tech,event\n";

/// A minute of LTE that has 40 Mbit/s at 25 dB and about a third at 6 dB.
fn drive() -> String {
    let rows = (0..60).map(|second| {
        let (sinr, rate) = if second % 30 < 10 { (6, 12.8) } else { (25, 40.0) };
        format!("{second},{rate},,,-90,,{sinr},,LTE,\n")
    });
    HEADER.to_owned() + &rows.collect::<String>()
}

#[test]
fn a_recording_is_judged_in_a_table_and_in_json() {
    let scratch = Scratch::new("fit");
    let drive = shown(&scratch.write("drive.csv", drive().as_bytes()));
    let output = fit(&[&drive]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let row = text.lines().find(|line| line.starts_with("drive")).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[..5], ["drive", "60", "40.0", "1.00", "0"], "{text}");
    assert!(text.contains("SINR 5 to 10"), "{text}");
    let json = fit(&[&drive, "--json", "-"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    // 0.6 · log2(1 + 10^0.6) / 4.4 = 0.316, and 12.8 of 40 are 0.32.
    let bin = &json["by_level"][0];
    assert!((bin["model"].as_f64().unwrap() - 0.316).abs() < 0.001, "{bin}");
    assert_eq!(bin["measured"][1], 0.32);
    assert_eq!(json["findings"][0]["levels"]["readings"], 60);
}

#[test]
fn the_scenes_of_the_model_are_shown_beside() {
    let text = String::from_utf8(fit(&["--scenes"]).stdout).unwrap();
    for scene in ["walk", "wifi_edge", "canyon", "tunnel", "rail"] {
        assert!(text.contains(&format!("scene: {scene}")), "{text}");
    }
}

#[test]
fn what_cannot_be_judged_is_told_in_one_line() {
    let scratch = Scratch::new("fit-bad");
    let told = |args: &[&str], expected: i32| {
        let (said, code) = failure(&fit(args));
        assert_eq!((code, said.lines().count()), (Some(expected), 1), "{said}");
        said
    };
    let bad = shown(&scratch.write("bad.csv", format!("{HEADER}0,fast,,,-90,,1,,LTE,\n").as_bytes()));
    let said = told(&[&bad], 2);
    assert!(said.contains("bad.csv:2: down_mbps"), "{said}");
    let nowhere = shown(&scratch.path("nowhere.csv"));
    assert!(told(&[&nowhere], 2).contains("nowhere.csv"));
    assert!(told(&[&nowhere, "--width", "30"], 2).contains("30 is not 20, 40, 80 or 160 MHz"));
    assert_eq!(fit(&[]).status.code(), Some(2));
    let plain = shown(&scratch.write("plain.csv", format!("{HEADER}0,5,,,,,,,LTE,\n").as_bytes()));
    assert_eq!(String::from_utf8(fit(&[&plain]).stdout).unwrap(), "plain: no levels\n");
}
