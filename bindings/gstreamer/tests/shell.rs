//! `gst-launch-1.0` at both ends, over two links of which one fails: `squall-lab shell`.

#![cfg(target_os = "linux")]

use std::{fs, path::PathBuf, process::Command};

use squall_testkit::{program::Scratch, skipped};

const SCENARIO: &str = r#"
name = "gstreamer"
description = "Two links, one of which fails twice"
duration = "60s"
seeds = [1]
schedulers = ["squall"]

[[path]]
name = "wifi"
rate = "8mbps"
delay = "15ms"
queue = "100kB"
events = [{ at = "4s", outage = "5s" }, { at = "22s", outage = "6s" }]

[[path]]
name = "lte"
rate = "6mbps"
delay = "40ms"
queue = "150kB"

[[flow]]
name = "video"
kind = "game"
direction = "up"
fps = 30
bitrate_min = "1mbps"
bitrate_max = "2mbps"
deadline = "300ms"
"#;

/// Pictures of 30 s.
const PICTURES: usize = 900;

/// Creates a folder with the plugin only: the target folder contains libraries that are not
/// plugins.
fn plugins(scratch: &Scratch) -> PathBuf {
    let test = std::env::current_exe().expect("is there");
    let plugin = test.ancestors().nth(2).expect("is in a folder").join("libgstsquall.so");
    assert!(plugin.exists(), "{} is missing: cargo build", plugin.display());
    let folder = scratch.path("plugins");
    fs::create_dir(&folder).expect("is made");
    std::os::unix::fs::symlink(&plugin, folder.join("libgstsquall.so")).expect("is made");
    folder
}

/// Returns `None`, and prints a line, if something is missing.
fn lab() -> Option<PathBuf> {
    let lab = std::env::var_os("SQUALL_LAB").map(PathBuf::from);
    let has = |element: &str| {
        let inspected = Command::new("gst-inspect-1.0").arg("--exists").arg(element).status();
        inspected.is_ok_and(|status| status.success())
    };
    if lab.as_ref().is_none_or(|lab| !lab.exists()) {
        skipped("SQUALL_LAB does not name squall-lab");
        return None;
    }
    if !["x264enc", "h264parse"].into_iter().all(has) {
        skipped("gst-launch-1.0, x264enc or h264parse is missing");
        return None;
    }
    let lab = lab?;
    let works = Command::new(&lab).args(["shell", "--link", "rate=1mbps", "--", "true"]).output();
    if !works.is_ok_and(|output| output.status.success()) {
        skipped("squall-lab shell does not run here");
        return None;
    }
    Some(lab)
}

#[test]
fn pictures_arrive_although_a_link_fails_twice() {
    let Some(lab) = lab() else { return };
    let scratch = Scratch::new("gstreamer");
    let (scenario, log) = (scratch.path("links.toml"), scratch.path("received.log"));
    fs::write(&scenario, SCENARIO).expect("is written");
    let receive = format!(
        "gst-launch-1.0 squallsrc listen=0.0.0.0:5601 latency=1000 ! h264parse ! identity silent=false ! fakesink -v > {} 2>&1",
        log.display()
    );
    let send = format!(
        "gst-launch-1.0 -q videotestsrc is-live=true num-buffers={PICTURES} ! video/x-raw,width=160,height=120,framerate=30/1 \
         ! x264enc tune=zerolatency speed-preset=ultrafast bitrate=1500 key-int-max=60 name=coder \
         ! squallsink address=10.77.0.1:5601 insecure=true latency=1000"
    );
    let mut shell = Command::new(lab);
    shell.arg("shell").arg("--scenario").arg(&scenario).args(["--server", &receive, "--client", &send]);
    let output = shell.env("GST_PLUGIN_PATH", plugins(&scratch)).output().expect("runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    let received = fs::read_to_string(&log).expect("was written");
    assert!(output.status.success(), "{errors}\n{received}");
    let pictures =
        received.lines().filter(|line| line.contains("identity0") && line.contains("chain")).count();
    println!("{pictures} of {PICTURES} pictures arrived");
    assert!(received.contains("Got EOS"), "no end: {pictures} pictures\n{errors}");
    assert!(pictures * 100 >= PICTURES * 97, "{pictures} of {PICTURES} pictures arrived\n{errors}");
}
