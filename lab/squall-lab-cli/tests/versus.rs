//! `squall-lab versus`: tests the comparison itself, not its results.

#![cfg(target_os = "linux")]

mod common;

use std::{ffi::OsStr, path::Path};

use common::{Scratch, failure, lab, run, shell_is_possible};
use squall_testkit::{assert_duration, in_real_time};

/// Returns the transports in the list that are installed.
fn ready<'a>(transports: &[&'a str]) -> Vec<&'a str> {
    let listed = String::from_utf8(run(["versus", "--list"]).stdout).expect("text");
    let is_ready = |name: &str| listed.lines().any(|line| line.starts_with(name) && line.ends_with("ready"));
    transports.iter().copied().filter(|name| is_ready(name)).collect()
}

/// Runs a stream of 4 Mbps in a scenario over each transport for this time. Returns the results and
/// the table.
fn compared(
    scratch: &Scratch,
    scenario: &Path,
    transports: &[&str],
    time: &str,
) -> (Vec<serde_json::Value>, String) {
    compared_with(scratch, scenario, transports, time, &[])
}

/// Like [`compared`], with more options.
fn compared_with(
    scratch: &Scratch,
    scenario: &Path,
    transports: &[&str],
    time: &str,
    more: &[&OsStr],
) -> (Vec<serde_json::Value>, String) {
    let json = scratch.path("figures.json");
    let output = lab()
        // `in_real_time` repeats a measurement that is disturbed by load on the machine.
        .args(["versus", "--attempts", "1", "--seed", "1", "--rate", "4mbps", "--time", time])
        .args(["--transport", &transports.join(",")])
        .args(["--scenario".as_ref(), scenario.as_os_str(), "--json".as_ref(), json.as_os_str()])
        .args(["--log".as_ref(), scratch.path("log").as_os_str()])
        .args(more)
        .output()
        .expect("the program starts");
    assert_eq!(output.status.code(), Some(0), "{}", failure(&output).0);
    let table = String::from_utf8(output.stdout).expect("text");
    println!("{table}");
    let figures: Vec<serde_json::Value> =
        serde_json::from_slice(&std::fs::read(&json).expect("figures")).expect("JSON");
    assert_eq!(figures.len(), transports.len());
    (figures, table)
}

/// Links without any impairment.
const EASY: &[u8] = br#"
    name = "easy"
    duration = "60s"
    schedulers = ["minrtt"]
    path = [{ name = "wifi", rate = "20mbps", delay = "5ms" }, { name = "lte", rate = "20mbps", delay = "10ms" }]
    flow = [{ name = "frames", kind = "bulk" }]
"#;

#[test]
fn each_transport_carries_the_same_frames() {
    assert_each_carries("versus", &["rist-duplicate-120ms", "tquic-minrtt"], &[]);
}

#[test]
fn each_transport_carries_them_over_ipv6() {
    if !Path::new("/proc/net/if_inet6").exists() {
        return squall_testkit::skipped("this system has no IPv6");
    }
    let more = ["udp-single", "noq-multipath", "mptcp", "srt-120ms", "rist-duplicate-120ms", "tquic-minrtt"];
    assert_each_carries("versus-ipv6", &more, &["--ipv6".as_ref()]);
}

/// Tests all transports of `more` that are ready.
fn assert_each_carries(name: &str, more: &[&str], options: &[&OsStr]) {
    in_real_time(|| {
        if !shell_is_possible() {
            return;
        }
        let scratch = Scratch::new(name);
        let scenario = scratch.write("easy.toml", EASY);
        let mut transports = vec!["squall-minrtt", "quic-single"];
        transports.extend(ready(more));
        let (figures, table) = compared_with(&scratch, &scenario, &transports, "1s", options);
        assert!(table.contains("\nbound ") && table.contains("300 ms / bound"), "{table}");
        for (one, name) in figures.iter().zip(transports) {
            assert!(one["contender"] == name && table.contains(name), "{one}");
            assert_eq!(one["frames"], 30, "{one}");
            // There is no impairment; data delayed by a busy machine still arrives within 300 ms.
            assert_duration!(one["in_300_ms"].as_f64() >= Some(0.9), "{one}");
            let median = one["latency_us"][0].as_u64().expect("a median");
            assert!(median >= 5_000, "{one}");
            assert_duration!(median < 300_000, "{one}");
            let best = one["best"]["latency_us"][0].as_u64().expect("the bound");
            assert!((5_000..=median).contains(&best) && one["best"]["in_150_ms"] == 1.0, "{one}");
        }
    });
}

#[test]
fn who_has_several_links_uses_them() {
    in_real_time(|| {
        if !shell_is_possible() {
            return;
        }
        let scratch = Scratch::new("versus-both");
        // A single link has too little capacity for the stream, but two have enough; their queues
        // hold 80 ms.
        let scenario = scratch.write(
            "narrow.toml",
            br#"
            name = "narrow"
            duration = "60s"
            schedulers = ["minrtt"]
            path = [
                { name = "wifi", rate = "3mbps", delay = "5ms", queue = "30kB" },
                { name = "lte", rate = "3mbps", delay = "10ms", queue = "30kB" },
            ]
            flow = [{ name = "frames", kind = "bulk" }]
        "#,
        );
        let mut transports = vec!["udp-single", "squall-minrtt", "noq-multipath"];
        transports.extend(ready(&["mptcp", "tquic-minrtt", "tquic-roundrobin"]));
        let (figures, _) = compared(&scratch, &scenario, &transports, "2s");
        let (single, several) = figures.split_first().expect("there are some");
        // In 2.3 s the link carries 6.9 of the 8 Mbit, so at most 86 of 100 frames arrive within
        // 300 ms of their capture.
        assert!(single["in_300_ms"].as_f64().is_some_and(|share| share < 0.9), "{single}");
        for one in several {
            assert_duration!(one["in_300_ms"].as_f64() >= Some(0.8), "{one}");
            let links = one["link_bytes"].as_array().expect("links");
            let bytes: Vec<u64> = links.iter().filter_map(|link| link[1].as_u64()).collect();
            assert!(bytes.len() == 2 && bytes.iter().all(|bytes| *bytes > 100_000), "{one}");
        }
    });
}

#[test]
fn a_video_is_carried_at_its_own_rate_with_each_seed() {
    in_real_time(|| {
        if !shell_is_possible() {
            return;
        }
        let scratch = Scratch::new("versus-video");
        let scenario = scratch.write(
            "video.toml",
            br#"
            name = "video"
            duration = "60s"
            seeds = [3, 4]
            schedulers = ["minrtt"]
            path = [{ name = "wifi", rate = "20mbps", delay = "5ms" }]
            flow = [{ name = "camera", kind = "video", fps = 25, bitrate = "3mbps", key_ratio = 4.0, jitter = "20%" }]
        "#,
        );
        let json = scratch.path("figures.json");
        let output = lab()
            .args(["versus", "--attempts", "1", "--time", "1s", "--contender", "udp-single"])
            .args(["--scenario".as_ref(), scenario.as_os_str(), "--json".as_ref(), json.as_os_str()])
            .args(["--log".as_ref(), scratch.path("log").as_os_str()])
            .output()
            .expect("the program starts");
        assert_eq!(output.status.code(), Some(0), "{}", failure(&output).0);
        let figures: Vec<serde_json::Value> =
            serde_json::from_slice(&std::fs::read(&json).expect("figures")).expect("JSON");
        let seeds: Vec<_> = figures.iter().filter_map(|one| one["seed"].as_u64()).collect();
        assert_eq!(seeds, [3, 4]);
        for one in &figures {
            assert!(one["stream"]["rate_bps"] == 3_000_000 && one["frames"] == 25, "{one}");
        }
        let bytes = |run: usize| figures[run]["link_bytes"][0][1].as_u64();
        assert_ne!(bytes(0), bytes(1), "sizes follow the seed");
    });
}

/// Squall's own tunnel as an external transport, by its commands.
const TUNNEL: &str = r#"
[[transport]]
name = "own-tunnel"
client = ["SQUALL", "tunnel", "--to", "{server}:{port}", "--insecure", "--token", "a-token-of-the-test",
          "--in", "stream=udp://127.0.0.1:{source},media=rtp,latency={latency}ms"]
server = ["SQUALL", "tunnel", "--listen", "{server1}:{port}", "--token", "a-token-of-the-test",
          "--out", "stream=udp://127.0.0.1:{sink}"]
server_setup = [["test", "-d", "{folder}"]]
"#;

#[test]
fn a_file_adds_programs() {
    in_real_time(|| {
        if !shell_is_possible() {
            return;
        }
        let scratch = Scratch::new("versus-file");
        let scenario = scratch.write(
            "one.toml",
            br#"
            name = "one"
            duration = "60s"
            schedulers = ["minrtt"]
            path = [{ name = "wifi", rate = "20mbps", delay = "5ms" }]
            flow = [{ name = "frames", kind = "bulk" }]
        "#,
        );
        let squall = Path::new(env!("CARGO_BIN_EXE_squall-lab")).with_file_name("squall");
        let tunnel = TUNNEL.replace("SQUALL", &squall.display().to_string()).replace("{server1}", "{server}");
        let file = scratch.write("more.toml", tunnel.as_bytes());
        let more = ["--programs".as_ref(), file.as_os_str()];
        let (figures, table) = compared_with(&scratch, &scenario, &["own-tunnel"], "1s", &more);
        assert!(figures[0]["contender"] == "own-tunnel" && table.contains("own-tunnel"), "{table}");
        assert_duration!(figures[0]["in_300_ms"].as_f64() >= Some(0.9), "{}", figures[0]);
    });
}

#[test]
fn mistakes_in_a_file_of_programs_have_a_place() {
    let scratch = Scratch::new("versus-mistakes");
    let scenario = scratch.write(
        "one.toml",
        b"name='one'\nduration='60s'\nschedulers=['minrtt']\npath=[{name='wifi'}]\nflow=[{name='f',kind='bulk'}]\n",
    );
    for (text, expected) in [
        ("[[transport]]\nname = 'x'\nclient = 'y'\n", "more.toml:3: "),
        (&TUNNEL.replace("{server1}", "{server2}"), "there is no {server2} with 1 links"),
        (&TUNNEL.replace("own-tunnel", "mptcp"), "transport \"mptcp\""),
    ] {
        let file = scratch.write("more.toml", text.as_bytes()).display().to_string();
        let scenario = scenario.display().to_string();
        let (said, code) = failure(&run(["versus", "--programs", &file, "--scenario", &scenario]));
        assert!(said.contains(expected) && said.lines().count() == 1, "{said}");
        assert_eq!(code, Some(2));
    }
}

#[test]
fn who_is_unknown_is_said() {
    let (said, code) = failure(&run(["versus", "--transport", "carrier-pigeon"]));
    assert!(said.contains("no transport is called \"carrier-pigeon\""), "{said}");
    assert_eq!(code, Some(2));
}
