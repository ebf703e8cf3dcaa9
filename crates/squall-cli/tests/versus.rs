//! `squall versus`: that the comparison compares, not who wins.

#![cfg(target_os = "linux")]

mod common;

use common::{Scratch, failure, run, shell_is_possible, squall};

#[test]
fn each_contender_carries_the_same_frames() {
    if !shell_is_possible() {
        return;
    }
    let scratch = Scratch::new("versus");
    let json = scratch.path("figures.json");
    let scenario = scratch.write(
        "easy.toml",
        br#"
            name = "easy"
            duration = "60s"
            schedulers = ["minrtt"]
            path = [{ name = "wifi", rate = "20mbps", delay = "5ms" }, { name = "lte", rate = "20mbps", delay = "10ms" }]
            flow = [{ name = "frames", kind = "bulk" }]
        "#,
    );
    let mut contenders = vec!["squall-minrtt", "noq-multipath", "quic-single", "udp-single"];
    let listed = String::from_utf8(run(["versus", "--list"]).stdout).expect("text");
    // What is not installed cannot be tried.
    let ready = |name: &str| listed.lines().any(|line| line.starts_with(name) && line.ends_with("ready"));
    contenders.extend(["mptcp", "rist-duplicate-120ms"].into_iter().filter(|name| ready(name)));
    let output = squall()
        .args(["versus", "--rate", "4mbps", "--time", "1s", "--contender", &contenders.join(",")])
        .args(["--scenario".as_ref(), scenario.as_os_str(), "--json".as_ref(), json.as_os_str()])
        .args(["--log".as_ref(), scratch.path("log").as_os_str()])
        .output()
        .expect("the program starts");
    assert_eq!(output.status.code(), Some(0), "{}", failure(&output).0);
    let table = String::from_utf8(output.stdout).expect("text");
    println!("{table}");
    let figures: Vec<serde_json::Value> =
        serde_json::from_slice(&std::fs::read(&json).expect("figures")).expect("JSON");
    assert_eq!(figures.len(), contenders.len());
    for (one, name) in figures.iter().zip(contenders) {
        assert!(one["contender"] == name && table.contains(name), "{one}");
        assert_eq!(one["frames"], 30, "{one}");
        // Nothing is in the way; what a busy machine delays is still there within 300 ms.
        assert!(one["in_300_ms"].as_f64() >= Some(0.9), "{one}");
        let median = one["latency_us"][0].as_u64().expect("a median");
        assert!((5_000..300_000).contains(&median), "{one}");
    }
}

#[test]
fn who_is_unknown_is_said() {
    let (said, code) = failure(&run(["versus", "--contender", "carrier-pigeon"]));
    assert!(said.contains("no contender is called \"carrier-pigeon\""), "{said}");
    assert_eq!(code, Some(2));
}
