//! `squall-lab signal import` and `squall-lab signal info`.

mod common;

use common::{Scratch, failure, run};

fn stdout(args: &[&str]) -> String {
    let output = run(args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("is text")
}

fn shown(file: &std::path::Path) -> String {
    file.display().to_string()
}

const PLAIN: &[u8] = b"0 40.0\n1 0\n2 17\n3 18\n";

const HEAD: &str = "time_s,down_mbps,up_mbps,rtt_ms,rsrp_dbm,rsrq_db,sinr_db,rssi_dbm,tech,event\n";

#[test]
fn a_log_becomes_a_trace() {
    let scratch = Scratch::new("import");
    let log = shown(&scratch.write("walk", PLAIN));
    let expected = HEAD.to_owned()
        + "0,40,,,,,,,cellular,\n1,0,,,,,,,cellular,outage\n2,17,,,,,,,cellular,\n3,18,,,,,,,cellular,\n";
    assert_eq!(stdout(&["signal", "import", &log]), expected);
    let file = scratch.path("out/walk.csv");
    let printed = stdout(&["signal", "import", "--format", "plain", &log, "-o", &shown(&file)]);
    assert_eq!(printed, format!("trace: {} (4 rows, 3 s)\n", file.display()));
    assert_eq!(std::fs::read_to_string(&file).expect("was written"), expected);
    let part = stdout(&["signal", "import", &log, "--tech", "LTE", "--from", "1", "--for", "1.5"]);
    assert_eq!(part, HEAD.to_owned() + "0,0,,,,,,,LTE,outage\n1,17,,,,,,,LTE,\n");
}

#[test]
fn help_lists_every_format() {
    let help = stdout(&["signal", "import", "--help"]);
    for name in ["ucc:", "kingston:", "mtu:", "cicv5g:", "sigcomm21:", "plain:", "feup:", "perama:"] {
        assert!(help.contains(name), "{name} is not in {help}");
    }
}

#[test]
fn mistakes_in_logs_are_reported_in_a_line() {
    let scratch = Scratch::new("import-bad");
    let bad = shown(&scratch.write("bad", b"0 1\n1 x\n"));
    let odd = shown(&scratch.write("odd", b"hello\n"));
    let trace = shown(&scratch.write("trace", b"time_s\n0\n"));
    let walk = shown(&scratch.write("walk", PLAIN));
    let calls: [(&[&str], String, i32); 7] = [
        (&[&bad], format!("{bad}:2: \"x\" is not a number"), 1),
        (&[&odd], format!("{odd}:1: the first line is of no known format; name one of mahimahi, "), 1),
        (&[&trace], format!("{trace}: is a trace already"), 1),
        (&["missing.log"], "missing.log: ".to_owned(), 2),
        (&[&walk, "--from", "9"], "--from, --for: there are no rows then; the log has 3 s".to_owned(), 1),
        (&[&walk, &walk], "plain takes one file at a time, not 2".to_owned(), 2),
        (&[&walk, "--part", "x"], "plain has no parts".to_owned(), 2),
    ];
    for (args, expected, code) in calls {
        let (error, ended) = failure(&run([&["signal", "import"], args].concat()));
        assert!(error.starts_with(&format!("squall-lab: {expected}")), "{error}");
        assert_eq!((error.lines().count(), ended), (1, Some(code)), "{error}");
    }
    for wrong in [["--format", "pcap"], ["--tech", "L,TE"], ["--for", "-1"], ["--from", "soon"]] {
        let (said, code) = failure(&run([&["signal", "import", &walk], wrong.as_slice()].concat()));
        assert_eq!(code, Some(2), "{said}");
    }
}

/// A Wi-Fi trace in which the rate follows the level two seconds later, with ten seconds out of
/// reach.
fn fading() -> String {
    let level = |second: i32| if (40..50).contains(&second) { -85 } else { -50 - second * second % 23 };
    let row = |second: i32| format!("{second},{},,,,,,{},WiFi,\n", 100 + level(second - 2), level(second));
    HEAD.to_owned() + &(0..60).map(row).collect::<String>()
}

#[test]
fn a_trace_is_summarised_in_figures() {
    let scratch = Scratch::new("info");
    let fading = shown(&scratch.write("fading.csv", fading().as_bytes()));
    let silent = shown(&scratch.write("silent.csv", b"time_s,down_mbps\n0,1\n2,3\n"));
    let text = stdout(&["signal", "info", &fading, &silent]);
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    assert_eq!(lines[0], format!("{fading}: 60 rows, 59 s"));
    assert!(text.contains("  rssi_dbm      100 %      -85"), "{text}");
    assert!(text.contains("  alerts: 0 warning, 1 outage, 1 recovery; 2.0 a minute\n"), "{text}");
    assert!(text.contains("  states: clear 83.1 %, warning 0.0 %, outage 16.9 %\n"), "{text}");
    assert!(text.contains("+2 s 1.00, ") && text.contains("; highest at +2 s\n"), "{text}");
    assert!(text.ends_with("  no levels of a radio\n"), "{text}");
    let json = stdout(&["signal", "info", &fading, &silent, "--json", "-"]);
    let all: serde_json::Value = serde_json::from_str(&json).expect("is JSON");
    assert_eq!((&all[0]["best_lag_s"], &all[0]["alerts"]["outage"]), (&2.into(), &1.into()));
    assert_eq!(all[0]["numbers"]["rssi_dbm"]["max"], -50.0);
    assert_eq!((&all[1]["rows"], &all[1]["index"]), (&2.into(), &serde_json::Value::Null));
}

#[test]
fn a_bad_trace_is_reported_in_a_line_and_nothing_else_is_printed() {
    let scratch = Scratch::new("info-bad");
    let good = shown(&scratch.write("good.csv", b"time_s\n0\n"));
    let bad = shown(&scratch.write("bad.csv", b"time_s,rssi_dbm\n0,-50\n1,loud\n"));
    let output = run(["signal", "info", &good, &bad]);
    assert!(output.stdout.is_empty());
    let error = format!("squall-lab: {bad}:3: rssi_dbm: \"loud\" is not a number");
    assert_eq!(failure(&output), (error, Some(2)));
    assert_eq!(failure(&run(["signal", "info"])).1, Some(2));
}
