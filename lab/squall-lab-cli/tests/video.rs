//! `squall-lab video`, with the installed ffmpeg.

mod common;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use common::{Scratch, failure, lab, run};
use serde_json::Value;
use squall_media::studio::{Coding, Programs, check};

/// `true` if a suitable ffmpeg is installed; otherwise the test is skipped.
fn equipped() -> bool {
    let missing = Coding::ALL.into_iter().find_map(|coding| check(&Programs::default(), coding).err());
    if let Some(error) = &missing {
        squall_testkit::skipped(&error.to_string());
    }
    missing.is_none()
}

/// Two paths, the first of which is sufficient for one of the schedulers.
fn scenario(scratch: &Scratch, name: &str, first: &str) -> PathBuf {
    let path = |name: &str, more: &str| {
        format!("[[path]]\nname = \"{name}\"\nrate = \"20mbps\"\ndelay = \"10ms\"\n{more}\n")
    };
    let flow = "[[flow]]\nname = \"f\"\nkind = \"blocks\"\nsize = \"1kB\"\ninterval = \"20ms\"\ndeadline = \"200ms\"\n";
    let head = format!("name = \"{name}\"\nduration = \"3s\"\nschedulers = [\"minrtt\"]\n");
    let text = head + &path("one", first) + &path("two", "metered = true") + flow;
    scratch.write(&format!("{name}.toml"), text.as_bytes())
}

/// Sends a small film, and returns all results.
fn show(film: &Path, scenario: &Path, more: &[&str]) -> Value {
    let mut command = lab();
    command.arg("video").arg(film).arg("--scenario").arg(scenario);
    command.args(["--size", "192x108", "--bitrate", "800kbps", "--json", "-"]).args(more);
    let output = command.output().expect("the program starts");
    let (said, code) = failure(&output);
    assert_eq!(code, Some(0), "{said}");
    serde_json::from_slice(&output.stdout).expect("figures are JSON")
}

fn number(of: &Value, at: &str) -> f64 {
    of.pointer(at).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {at} in {of}"))
}

#[test]
fn an_ideal_network_loses_nothing() {
    if !equipped() {
        return;
    }
    let scratch = Scratch::new("video-ideal");
    let ideal = scenario(&scratch, "ideal", "");
    for codec in ["h264", "vp9", "svc"] {
        let shown =
            show("scene".as_ref(), &ideal, &["--scheduler", "minrtt", "--codec", codec, "--seconds", "2"]);
        assert_eq!(number(&shown, "/pictures"), 60.0);
        let one = &shown["schedulers"][0];
        assert_eq!(
            (number(one, "/in_time"), number(one, "/frozen_ratio"), number(one, "/damaged")),
            (60.0, 0.0, 0.0)
        );
        for figure in ["mean", "p5", "worst_second"] {
            let psnr = |of: &str| number(&shown, &format!("{of}/{figure}"));
            assert!((psnr("/encode_psnr") - psnr("/schedulers/0/psnr")).abs() < 0.05, "{codec} {shown}");
            assert!((psnr("/encode_ssim") - psnr("/schedulers/0/ssim")).abs() < 1e-4, "{codec} {shown}");
        }
        assert!(number(&shown, "/encode_psnr/mean") > 25.0, "{codec} {shown}");
    }
}

#[test]
fn copies_on_another_path_survive_an_outage() {
    if !equipped() {
        return;
    }
    let scratch = Scratch::new("video-outage");
    let outage = scenario(&scratch, "outage", "events = [{ at = \"1s\", outage = \"800ms\" }]");
    let out = scratch.path("out");
    let shown = show(
        "scene".as_ref(),
        &outage,
        &[
            "--scheduler",
            "sp(path=0),redundant",
            "--latency",
            "deadline",
            "--out",
            out.to_str().expect("is text"),
        ],
    );
    // The film lasts until its last picture is shown: 3 s less 200 ms and two pictures.
    assert_eq!((number(&shown, "/latency_us"), number(&shown, "/pictures")), (200_000.0, 82.0));
    let [single, both] = [0, 1].map(|index| &shown["schedulers"][index]);
    assert_eq!(number(both, "/in_time"), 82.0);
    assert!(number(single, "/longest_freeze_us") > 500_000.0, "{shown}");
    for (figure, least) in [("/psnr/mean", 2.0), ("/psnr/worst_second", 4.0), ("/ssim/worst_second", 0.1)] {
        assert!(number(both, figure) > number(single, figure) + least, "{figure}: {shown}");
    }
    assert!((number(both, "/psnr/mean") - number(&shown, "/encode_psnr/mean")).abs() < 0.05, "{shown}");
    assert!(number(both, "/metered_bytes") > 10.0 * number(single, "/metered_bytes"), "{shown}");
    // The moment lies within the outage as the viewer sees it.
    assert!((700_000.0..2_000_000.0).contains(&number(&shown, "/moment_us")), "{shown}");
    let sheet = fs::File::open(out.join("worst.png")).expect("the sheet is there");
    let sheet = png::Decoder::new(std::io::BufReader::new(sheet)).read_info().expect("is a PNG file");
    assert!(sheet.info().width > 3 * 192 && sheet.info().height > 108);
    let curve = fs::read_to_string(out.join("ssim.svg")).expect("the curve is there");
    assert!(curve.starts_with("<svg") && curve.contains("one out") && curve.contains("redundant"));
    let (all, part) = (out.join("redundant.ivf"), out.join("sp_path_0_.ivf"));
    let size = |file: &Path| fs::metadata(file).expect("what arrived is there").len();
    assert!(size(&all) > size(&part));

    // The files are films, too.
    let again = show(&all, &outage, &["--scheduler", "redundant", "--seconds", "1", "--fps", "25"]);
    assert_eq!((number(&again, "/pictures"), number(&again, "/schedulers/0/in_time")), (25.0, 25.0));
}

#[test]
fn the_same_seed_shows_the_same() {
    if !equipped() {
        return;
    }
    let scratch = Scratch::new("video-same");
    let lossy = scenario(&scratch, "lossy", "loss = \"10%\"");
    let args = ["--scheduler", "sp(path=0)", "--seconds", "1", "--seed", "5"];
    let shown = show("scene".as_ref(), &lossy, &args);
    assert!(number(&shown, "/schedulers/0/in_time") < 30.0, "something is lost: {shown}");
    assert_eq!(shown, show("scene".as_ref(), &lossy, &args));
}

#[test]
fn what_cannot_be_shown_is_reported_in_one_line() {
    let scratch = Scratch::new("video-errors");
    let ideal = scenario(&scratch, "ideal", "");
    let ideal = ideal.to_str().expect("is text");
    let text = scratch.write("notes.txt", b"no film at all, but a few words of text\n");
    let (text, missing) = (text.display().to_string(), scratch.path("film.mp4").display().to_string());
    let empty = scratch.write("empty.mp4", b"").display().to_string();
    let show =
        |film: &str, more: &[&str]| failure(&run(["video", film, "--scenario", ideal].iter().chain(more)));
    let reports = |film: &str, more: &[&str], words: &str| {
        let (said, code) = show(film, more);
        assert!(
            said.starts_with("squall-lab: ") && said.contains(words) && said.lines().count() == 1,
            "{said}"
        );
        assert_eq!(code, Some(2), "{said}");
    };
    reports("scene", &["--scheduler", "fastest"], "'fastest'");
    reports("scene", &["--scheduler", ","], "1 to 7");
    let (said, code) = show("scene", &["--codec", "av1"]);
    assert!(said.contains("none of h264, vp9, svc") && code == Some(2), "{said}");
    if !equipped() {
        return;
    }
    reports(&missing, &[], "film.mp4: No such file");
    reports(&empty, &[], "empty.mp4: the file is empty");
    reports(&text, &[], "notes.txt: no video found");
    reports(scratch.path("").to_str().expect("is text"), &[], "Is a directory");
    reports("scene", &["--size", "191x108"], "191x108");
    reports("scene", &["--latency", "60ms", "--size", "192x108", "--seconds", "1"], "too short");
    reports("scene", &["--latency", "5s"], "before the first picture");
}

#[test]
fn without_ffmpeg_the_error_names_what_to_install() {
    let scratch = Scratch::new("video-without");
    let ideal = scenario(&scratch, "ideal", "");
    let output = lab()
        .args(["video", "scene", "--scenario"])
        .arg(&ideal)
        .env("PATH", scratch.path(""))
        .output()
        .expect("the program starts");
    let (said, code) = failure(&output);
    assert_eq!(said, "squall-lab: ffprobe was not found; install it with: apt-get install ffmpeg");
    assert_eq!(code, Some(2));

    // An ffmpeg that cannot encode H.264.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;

        for program in ["ffmpeg", "ffprobe"] {
            let file = scratch.write(program, b"#!/bin/sh\necho ' V..... libvpx-vp9 VP9'\n");
            fs::set_permissions(file, fs::Permissions::from_mode(0o755)).expect("it may be run");
        }
        let without = lab()
            .args(["video", "scene", "--scenario"])
            .arg(&ideal)
            .env("PATH", scratch.path(""))
            .output()
            .expect("the program starts");
        let (said, code) = failure(&without);
        assert_eq!(said, "squall-lab: this ffmpeg cannot encode h264: it is built without libx264");
        assert_eq!(code, Some(2));
    }
}

#[cfg(unix)]
#[test]
fn nothing_is_left_behind_when_it_is_interrupted() {
    if !equipped() {
        return;
    }
    let scratch = Scratch::new("video-interrupt");
    let ideal = scenario(&scratch, "ideal", "");
    let temporary = scratch.path("tmp");
    fs::create_dir(&temporary).expect("it is made");
    let left = || fs::read_dir(&temporary).expect("it is there").count();
    let mut child = lab()
        .args(["video", "scene", "--size", "1920x1080", "--scenario"])
        .arg(&ideal)
        .env("TMPDIR", &temporary)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the program starts");
    let begun = Instant::now();
    while left() == 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "it makes no folder");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(300));
    let ended = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("there is kill");
    assert!(ended.success(), "it was still at work");
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().expect("is piped"), &mut said).expect("is text");
    assert_eq!(
        (child.wait().expect("it ends").code(), said.as_str()),
        (Some(1), "squall-lab: interrupted\n")
    );
    assert_eq!(left(), 0);
}
