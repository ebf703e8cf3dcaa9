//! Real programs at both ends of a tunnel, behind emulated links that fail one after the other:
//! they play exactly the media that was sent.

#![cfg(target_os = "linux")]

mod common;

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use common::{Scratch, failure, lab, shell_is_possible, squall};

/// Frames per second of all media.
const RATE: usize = 30;
/// Duration of all media in seconds.
const SECONDS: usize = 6;

/// Width of GStreamer's pictures.
const WIDTH: usize = 320;
/// Height of GStreamer's pictures.
const HEIGHT: usize = 240;

/// Both links fail during the transmission, one after the other.
const LINKS: &str = r#"
    name = "turns"
    duration = "60s"
    schedulers = ["minrtt"]
    [[path]]
    name = "wifi"
    rate = "12mbps"
    delay = "20ms"
    events = [{ at = "2500ms", outage = "1200ms" }]
    [[path]]
    name = "lte"
    rate = "8mbps"
    delay = "45ms"
    events = [{ at = "5s", outage = "1200ms" }]
    [[flow]]
    name = "film"
    kind = "bulk"
"#;

/// Programs of a test. The sender starts when the players' ports are open; the players end soon
/// after it.
struct Play<'a> {
    scratch: &'a Scratch,
    /// Flows that enter at the client's side.
    flows_in: &'a [&'a str],
    /// Flows that leave at the server's side.
    flows_out: &'a [&'a str],
    /// UDP ports that the players open.
    ports: &'a [u16],
    players: &'a [String],
    /// The players end by themselves when the stream ends. Otherwise they are ended 5 s after the
    /// sender.
    players_end: bool,
    sender: String,
}

impl Play<'_> {
    /// Runs everything to its end. Each link must have dropped packets while it was dead.
    fn run(&self) {
        let scratch = self.scratch;
        let links = scratch.write("links.toml", LINKS.as_bytes());
        let json = scratch.path("shell.json");
        let output = lab()
            .current_dir(scratch.path("."))
            .args(["shell", "--quiet", "--time", "120s", "--max-slip", "10s"])
            .args(["--server", &self.server(), "--client", &self.client()])
            .args(["--scenario".as_ref(), links.as_os_str(), "--json".as_ref(), json.as_os_str()])
            .output()
            .expect("the program starts");
        let (said, code) = failure(&output);
        assert_eq!(code, Some(0), "{said}");
        assert!(scratch.path("played").exists(), "it took too long: {said}");
        let report: serde_json::Value =
            serde_json::from_slice(&fs::read(&json).expect("a report")).expect("JSON");
        for path in 0..2 {
            let lost = report["report"]["paths"][path]["up"]["dropped"]["outage"]["packets"].as_u64();
            assert!(lost > Some(0), "link {path} did not fail in between: {report}");
        }
    }

    fn server(&self) -> String {
        let mut lines = vec![tunnel("--listen 10.77.0.1:4433", self.flows_out)];
        lines.extend(self.players.iter().map(|player| format!("{player} & players=\"$players $!\"")));
        lines.extend(self.ports.iter().map(|port| until(&format!("grep -q ':{port:04X} ' /proc/net/udp"))));
        lines.extend(["touch ready".to_owned(), until("[ -e sent ]")]);
        if !self.players_end {
            lines.push("sleep 5; kill -INT $players".to_owned());
        }
        lines.push("wait $players; touch played; kill $tunnel; wait".to_owned());
        lines.join("\n")
    }

    fn client(&self) -> String {
        let ends = "--to 10.77.0.1:4433 --insecure --interface wifi --interface lte";
        let sender = format!("{} || exit 9", self.sender);
        let end = "kill $tunnel; wait $tunnel".to_owned();
        let ready = until("[ -e ready ]");
        [tunnel(ends, self.flows_in), ready, sender, "touch sent".to_owned(), until("[ -e played ]"), end]
            .join("\n")
    }
}

fn tunnel(ends: &str, flows: &[&str]) -> String {
    let (program, flows) = (squall(), flows.join(" "));
    format!("'{}' tunnel {ends} --token 'a token for tests' {flows} & tunnel=$!", program.display())
}

fn until(condition: &str) -> String {
    format!("until {condition}; do sleep 0.05; done")
}

/// `true` if the programs are installed; otherwise the test is skipped, with the first missing
/// program named.
fn have(programs: &[(&str, &[&str])]) -> bool {
    for (program, args) in programs {
        let run = Command::new(program).args(*args).stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !run.is_ok_and(|status| status.success()) {
            squall_testkit::skipped(&format!("{program} {} does not work", args.join(" ")));
            return false;
        }
    }
    shell_is_possible()
}

fn have_ffmpeg() -> bool {
    have(&[("ffmpeg", &["-version"])])
}

fn have_gstreamer(elements: &[&str]) -> bool {
    let rest = ["videotestsrc", "rtpjitterbuffer", "udpsink", "videoconvert"];
    let checks: Vec<[&str; 2]> = elements.iter().chain(&rest).map(|element| ["--exists", *element]).collect();
    let programs: Vec<(&str, &[&str])> =
        checks.iter().map(|args| ("gst-inspect-1.0", args.as_slice())).collect();
    have(&programs)
}

/// Runs ffmpeg, or one of its companion programs, to its end; returns its output.
fn ffmpeg(program: &str, folder: &Path, args: &str) -> String {
    let mut command = Command::new(program);
    command.current_dir(folder).args(["-v", "error"]).args(args.split_whitespace());
    let output = command.stdin(Stdio::null()).output().expect("starts");
    assert!(output.status.success(), "{args}: {}", failure(&output).0);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Creates six seconds of a constantly changing picture and a tone. Every third frame is a
/// reference, the two before it in display order are not.
fn film(scratch: &Scratch, name: &str, audio: &str) {
    let args = format!(
        "-f lavfi -i testsrc2=size=640x360:rate={RATE} -f lavfi -i sine -t {SECONDS} -pix_fmt yuv420p \
         -c:v libx264 -preset veryfast -x264-params bframes=2:b-adapt=0:b-pyramid=none:keyint=30:scenecut=0 \
         -b:v 1200k -maxrate 1200k -bufsize 600k {audio} {name}"
    );
    ffmpeg("ffmpeg", &scratch.path("."), &args);
}

/// Returns `true` for frames that are not references, in display order.
fn disposable(scratch: &Scratch, film: &str) -> Vec<bool> {
    let args = format!("-select_streams v -show_entries frame=pict_type -of csv=p=0 {film}");
    let types = ffmpeg("ffprobe", &scratch.path("."), &args);
    types.lines().filter(|line| !line.is_empty()).map(|line| line.starts_with('B')).collect()
}

/// Returns the hashes of a framehash file: the sixth column, which may be followed by those of side
/// data.
fn hashes(text: &str) -> Vec<String> {
    let frames = text.lines().filter(|line| !line.starts_with('#'));
    frames.filter_map(|line| Some(line.split(',').nth(5)?.trim().to_owned())).collect()
}

/// Returns the hashes of a file's frames, or of its packets with `-c copy`.
fn hashes_of(scratch: &Scratch, film: &str, which: &str) -> Vec<String> {
    let args = format!("-i {film} -map {which} -f framehash -hash md5 -");
    hashes(&ffmpeg("ffmpeg", &scratch.path("."), &args))
}

/// Returns the hashes that a player wrote.
fn played(scratch: &Scratch, name: &str) -> Vec<String> {
    hashes(&fs::read_to_string(scratch.path(name)).expect("has been played"))
}

/// Returns the indices of sent items that were not played. All played items must be among those
/// sent, in the same order.
fn missing<T: PartialEq>(sent: &[T], played: &[T]) -> Vec<usize> {
    let (mut missing, mut next) = (Vec::new(), 0);
    for (index, one) in sent.iter().enumerate() {
        if played.get(next) == Some(one) {
            next += 1;
        } else {
            missing.push(index);
        }
    }
    let all = played.len();
    assert_eq!(next, all, "number {next} of {all} played was not sent, or not then; missing are {missing:?}");
    missing
}

/// Checks that only non-reference frames are missing, and only frames in flight when a link failed:
/// fewer than those of a second.
fn assert_only_disposable(missing: &[usize], disposable: &[bool]) {
    assert!(missing.iter().all(|index| disposable[*index]), "{missing:?} are missing");
    assert!(missing.len() < RATE, "{missing:?} are missing");
}

#[test]
fn a_transport_stream_is_played_as_it_was_sent() {
    if !have_ffmpeg() {
        return;
    }
    let scratch = Scratch::new("tunnel-ts");
    film(&scratch, "film.mkv", "-c:a aac -b:a 96k");
    ffmpeg("ffmpeg", &scratch.path("."), "-i film.mkv -c copy film.ts");
    let player = |port: u16, name: &str| {
        format!(
            "ffmpeg -v error -nostdin -i 'udp://127.0.0.1:{port}?fifo_size=100000&timeout=5000000' \
             -map 0:v -fps_mode passthrough -f framehash -hash md5 {name}.video \
             -map 0:a -f framehash -hash md5 {name}.audio"
        )
    };
    let sender = |port: u16| format!("-c copy -f mpegts 'udp://127.0.0.1:{port}?pkt_size=1316'");
    Play {
        scratch: &scratch,
        flows_in: &[
            "--in film=udp://127.0.0.1:5000,media=ts,latency=5s",
            "--in whole=udp://127.0.0.1:5002,media=udp,latency=5s",
        ],
        flows_out: &["--out film=udp://127.0.0.1:6000", "--out whole=udp://127.0.0.1:6002"],
        ports: &[6000, 6002],
        players: &[player(6000, "film"), player(6002, "whole")],
        players_end: true,
        sender: format!("ffmpeg -v error -nostdin -re -i film.mkv {} {}", sender(5000), sender(5002)),
    }
    .run();
    let video = hashes_of(&scratch, "film.ts", "0:v -fps_mode passthrough");
    let audio = hashes_of(&scratch, "film.ts", "0:a");
    assert_eq!(video.len(), SECONDS * RATE);
    let frames = missing(&video, &played(&scratch, "film.video"));
    assert_only_disposable(&frames, &disposable(&scratch, "film.ts"));
    assert_eq!(missing(&audio, &played(&scratch, "film.audio")), [0; 0]);
    // Plain datagrams are repaired whatever their contents.
    assert_eq!(missing(&video, &played(&scratch, "whole.video")), [0; 0]);
    assert_eq!(missing(&audio, &played(&scratch, "whole.audio")), [0; 0]);
}

#[test]
fn rtp_of_two_kinds_is_played_as_it_was_sent() {
    if !have_ffmpeg() {
        return;
    }
    let scratch = Scratch::new("tunnel-rtp");
    film(&scratch, "film.mkv", "-c:a libopus -ac 2 -b:a 64k");
    let description = "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=film\nc=IN IP4 127.0.0.1\nt=0 0\n\
        m=video 6000 RTP/AVP 96\na=rtpmap:96 H264/90000\na=fmtp:96 packetization-mode=1\n\
        m=audio 6002 RTP/AVP 97\na=rtpmap:97 opus/48000/2\n";
    scratch.write("film.sdp", description.as_bytes());
    Play {
        scratch: &scratch,
        flows_in: &[
            "--in video=udp://127.0.0.1:5000,media=h264,latency=5s",
            "--in audio=udp://127.0.0.1:5002,media=opus,latency=5s",
        ],
        flows_out: &["--out video=udp://127.0.0.1:6000", "--out audio=udp://127.0.0.1:6002"],
        ports: &[6000, 6002],
        players: &["ffmpeg -v error -nostdin -protocol_whitelist file,udp,rtp -i film.sdp \
            -map 0:v -fps_mode passthrough -f framehash -hash md5 film.video \
            -map 0:a -c copy -f framehash -hash md5 film.audio"
            .to_owned()],
        players_end: false,
        sender: "ffmpeg -v error -nostdin -re -i film.mkv \
            -map 0:v -c copy -bsf:v h264_mp4toannexb -f rtp 'rtp://127.0.0.1:5000?pkt_size=1200' \
            -map 0:a -c copy -f rtp rtp://127.0.0.1:5002 > described"
            .to_owned(),
    }
    .run();
    let video = hashes_of(&scratch, "film.mkv", "0:v -fps_mode passthrough");
    let mut frames = missing(&video, &played(&scratch, "film.video"));
    // A terminated ffmpeg drops frames that its decoder has not yet reordered.
    let held = frames.iter().rev().zip((0..video.len()).rev()).take_while(|(one, last)| *one == last).count();
    assert!(held <= 3, "{frames:?} are missing");
    frames.truncate(frames.len() - held);
    assert_only_disposable(&frames, &disposable(&scratch, "film.mkv"));
    let packets = hashes_of(&scratch, "film.mkv", "0:a -c copy");
    assert_eq!(missing(&packets, &played(&scratch, "film.audio")), [0; 0]);
}

/// A codec of GStreamer.
struct Codec<'a> {
    media: &'a str,
    encoding: &'a str,
    encode: &'a str,
    pay: &'a str,
    depay: &'a str,
    decode: &'a str,
}

/// Sends frames without B frames or layers, all of which are references and must arrive.
fn gstreamer_plays_what_gstreamer_sends(codec: &Codec<'_>) {
    let elements = [codec.encode, codec.pay, codec.depay, codec.decode].map(first_word);
    if !have_gstreamer(&elements) {
        return;
    }
    let Codec { media, encoding, encode, pay, depay, decode } = codec;
    let scratch = Scratch::new(&format!("tunnel-gst-{media}"));
    let grey = "videoconvert ! video/x-raw,format=GRAY8";
    let frames = SECONDS * RATE;
    Play {
        scratch: &scratch,
        flows_in: &[&format!("--in film=udp://127.0.0.1:5000,media={media},latency=5s")],
        flows_out: &["--out film=udp://127.0.0.1:6000"],
        ports: &[6000],
        players: &[format!(
            "gst-launch-1.0 -q -e udpsrc port=6000 buffer-size=2000000 \
             caps=application/x-rtp,media=video,clock-rate=90000,encoding-name={encoding},payload=96 \
             ! rtpjitterbuffer latency=5000 ! {depay} ! {decode} ! {grey} ! filesink location=played.raw"
        )],
        players_end: false,
        // The stream is also decoded at the sender, for comparison.
        sender: format!(
            "gst-launch-1.0 -q videotestsrc num-buffers={frames} is-live=true pattern=ball animation-mode=frames \
             ! video/x-raw,width={WIDTH},height={HEIGHT},framerate={RATE}/1 ! {encode} ! tee name=sent \
             sent. ! queue max-size-time=0 max-size-buffers=0 ! {decode} ! {grey} ! filesink location=sent.raw \
             sent. ! queue ! {pay} ! udpsink host=127.0.0.1 port=5000"
        ),
    }
    .run();
    let pictures = |name| {
        let raw = fs::read(scratch.path(name)).expect("is written");
        raw.chunks(WIDTH * HEIGHT).map(<[u8]>::to_vec).collect::<Vec<_>>()
    };
    let sent = pictures("sent.raw");
    assert_eq!(sent.len(), frames);
    assert_eq!(missing(&sent, &pictures("played.raw")), [0; 0]);
}

fn first_word(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or_default()
}

#[test]
fn gstreamer_plays_h264() {
    let codec = Codec {
        media: "h264",
        encoding: "H264",
        encode: "x264enc bitrate=1500 key-int-max=30 speed-preset=ultrafast tune=zerolatency",
        pay: "rtph264pay config-interval=-1",
        depay: "rtph264depay",
        decode: "avdec_h264",
    };
    gstreamer_plays_what_gstreamer_sends(&codec);
}

#[test]
fn gstreamer_plays_vp8() {
    let codec = Codec {
        media: "vp8",
        encoding: "VP8",
        encode: "vp8enc deadline=1 target-bitrate=1500000 keyframe-max-dist=30",
        pay: "rtpvp8pay",
        depay: "rtpvp8depay",
        decode: "vp8dec",
    };
    gstreamer_plays_what_gstreamer_sends(&codec);
}
