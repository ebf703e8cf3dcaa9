//! Real media, generated and sent by ffmpeg: the output equals the input, and frames are those that
//! ffprobe reports.

mod common;

use std::{
    collections::BTreeMap,
    fs,
    net::UdpSocket,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::Duration,
};

use common::*;
use squall_tunnel::{Status, Tunnel};

/// A folder with a clip, removed at the end of the test.
struct Clip {
    folder: PathBuf,
    file: PathBuf,
}

impl Clip {
    /// Encodes two seconds; `None` if ffmpeg, or the encoder, is missing.
    fn make(test: &str, name: &str, encode: &[&str]) -> Option<Self> {
        if !has_ffmpeg() {
            return None;
        }
        let folder = std::env::temp_dir().join(format!("squall-tunnel-{test}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("is made");
        let file = folder.join(name);
        let source =
            ["-f", "lavfi", "-i", "testsrc2=size=320x180:rate=25", "-f", "lavfi", "-i", "sine", "-t", "2"];
        let made = ffmpeg().args(source).args(encode).arg(&file).status().expect("ffmpeg runs");
        assert!(made.success(), "ffmpeg cannot encode: {encode:?}");
        Some(Self { folder, file })
    }

    /// Counts the pictures of each type by ffprobe: `I`, `P`, `B`.
    fn pictures(&self) -> BTreeMap<String, u64> {
        let entries =
            ["-v", "error", "-select_streams", "v", "-show_entries", "frame=pict_type", "-of", "csv=p=0"];
        let output = Command::new("ffprobe").args(entries).arg(&self.file).output().expect("ffprobe runs");
        let mut counts = BTreeMap::new();
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let kind = line.trim_matches(',').to_owned();
            if !kind.is_empty() {
                *counts.entry(kind).or_default() += 1;
            }
        }
        counts
    }

    /// Counts the key packets and the other packets of the stream, by ffprobe.
    fn packets(&self, stream: &str) -> (u64, u64) {
        let entries =
            ["-v", "error", "-select_streams", stream, "-show_entries", "packet=flags", "-of", "csv=p=0"];
        let output = Command::new("ffprobe").args(entries).arg(&self.file).output().expect("ffprobe runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let key = text.lines().filter(|line| line.starts_with('K')).count() as u64;
        (key, text.lines().filter(|line| !line.trim().is_empty()).count() as u64 - key)
    }
}

impl Drop for Clip {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn has_ffmpeg() -> bool {
    let found = Command::new("ffmpeg").arg("-version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_ok_and(|status| status.success()) {
        return true;
    }
    squall_testkit::skipped("ffmpeg is missing");
    false
}

fn ffmpeg() -> Command {
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-nostdin", "-y"]).stdout(Stdio::null());
    command
}

/// Records the datagrams of a socket, and forwards them.
struct Tap {
    socket: UdpSocket,
    over: Arc<AtomicBool>,
    seen: Arc<AtomicU64>,
    thread: JoinHandle<Vec<Vec<u8>>>,
}

impl Tap {
    fn start(to: Option<u16>) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("is bound");
        // A busy machine may pause the thread: the buffer holds the burst that arrives meanwhile.
        socket2::SockRef::from(&socket).set_recv_buffer_size(4 << 20).expect("is set");
        socket.set_read_timeout(Some(Duration::from_millis(20))).expect("is set");
        let (inner, over) = (socket.try_clone().expect("is cloned"), Arc::new(AtomicBool::new(false)));
        let (ended, seen) = (over.clone(), Arc::new(AtomicU64::new(0)));
        let counter = seen.clone();
        let thread = std::thread::spawn(move || {
            let mut all = Vec::new();
            let mut buffer = vec![0; 65_536];
            while !ended.load(Relaxed) {
                let Ok(length) = inner.recv(&mut buffer) else { continue };
                all.push(buffer[..length].to_vec());
                counter.fetch_add(1, Relaxed);
                if let Some(to) = to {
                    inner.send_to(&buffer[..length], ("127.0.0.1", to)).expect("is sent");
                }
            }
            all
        });
        Self { socket, over, seen, thread }
    }

    fn port(&self) -> u16 {
        self.socket.local_addr().expect("is bound").port()
    }

    /// Returns the number of datagrams, once none has arrived for 200 ms.
    fn count(&self) -> u64 {
        loop {
            let before = self.seen.load(Relaxed);
            std::thread::sleep(Duration::from_millis(200));
            if self.seen.load(Relaxed) == before {
                return before;
            }
        }
    }

    fn wait_for(&self, count: u64) {
        let begin = std::time::Instant::now();
        while self.seen.load(Relaxed) < count {
            assert!(begin.elapsed() < PATIENCE, "{} of {count} arrived", self.seen.load(Relaxed));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn end(self) -> Vec<Vec<u8>> {
        self.over.store(true, Relaxed);
        self.thread.join().expect("ends")
    }
}

/// Plays a clip through a tunnel over two paths, and checks that everything arrives; returns the
/// entry's status.
async fn play(clip: &Path, media: &str, send: &[&str], url: fn(u16) -> String) -> Status {
    let port = reserve_port();
    let (before, after) = (Tap::start(Some(port)), Tap::start(None));
    let exit = exit_config(0, None, vec![flow_out(&format!("x=udp://127.0.0.1:{}", after.port()))]);
    let exit = Tunnel::start(exit).await.expect("starts");
    // On a busy machine, frames must not end early, nor late ones expire.
    let flow = flow_in(&format!("x=udp://127.0.0.1:{port},media={media},latency=30s,gap=1s"));
    let entry = Tunnel::start(entry_config(&exit, vec![flow])).await.expect("starts");
    attached(&entry).await;
    let mut command = ffmpeg();
    command.arg("-re").arg("-i").arg(clip).args(send).arg(url(before.port()));
    let sent =
        tokio::task::spawn_blocking(move || command.status()).await.expect("ends").expect("ffmpeg runs");
    assert!(sent.success(), "ffmpeg cannot send: {send:?}");
    // The last frame may end only by silence.
    let count = before.count();
    until(&exit, "all written", |status| status.flows[0].datagrams_out == count).await;
    let status = until(&entry, "all acknowledged", |status| {
        status.flows[0].pending == 0 && status.sessions.iter().all(|session| session.open_blocks == 0)
    });
    let status = status.await;
    after.wait_for(count);
    entry.stop().await;
    exit.stop().await;
    let (sent, came) = (before.end(), after.end());
    assert!(sent.len() > 20, "only {} datagrams were sent", sent.len());
    assert_eq!(sent.len(), came.len());
    assert!(sent == came, "what arrived is not what was sent");
    status
}

/// Counts the blocks of a class, all of which must have been delivered.
fn count(status: &Status, class: &str) -> u64 {
    let Some(sent) = status.flows[0].sent.get(class) else { return 0 };
    assert_eq!(sent.outcomes.keys().collect::<Vec<_>>(), ["delivered"], "{class}");
    sent.outcomes["delivered"].blocks
}

fn classes(status: &Status) -> [u64; 3] {
    ["key", "reference", "disposable"].map(|class| count(status, class))
}

fn rtp(port: u16) -> String {
    format!("rtp://127.0.0.1:{port}?pkt_size=1200&rtcpport=9")
}

const X264: &[&str] =
    &["-map", "0:v", "-c:v", "libx264", "-g", "20", "-x264-params", "b-adapt=0:bframes=2:b-pyramid=none"];
const X265: &[&str] = &[
    "-map",
    "0:v",
    "-c:v",
    "libx265",
    "-x265-params",
    "log-level=error:keyint=20:min-keyint=20:scenecut=0:b-adapt=0:bframes=2:b-pyramid=0",
];
const COPY_VIDEO: &[&str] = &["-map", "0:v", "-c", "copy", "-strict", "experimental", "-f", "rtp"];

/// Counts key, referenced and disposable pictures, if all B pictures are disposable.
fn by_type(clip: &Clip) -> [u64; 3] {
    let pictures = clip.pictures();
    let of = |kind: &str| pictures.get(kind).copied().unwrap_or(0);
    assert!(of("B") > 5, "{pictures:?}");
    [of("I"), of("P"), of("B")]
}

#[test]
fn h264_with_b_frames() {
    within(async || {
        let Some(clip) = Clip::make("h264", "clip.ts", X264) else { return };
        let status = play(&clip.file, "h264", COPY_VIDEO, rtp).await;
        assert_eq!(classes(&status), by_type(&clip));
    });
}

#[test]
fn h265_with_b_frames() {
    within(async || {
        let Some(clip) = Clip::make("h265", "clip.ts", X265) else { return };
        let status = play(&clip.file, "h265", COPY_VIDEO, rtp).await;
        assert_eq!(classes(&status), by_type(&clip));
    });
}

#[test]
fn vp8_and_vp9() {
    within(async || {
        for (media, codec) in [("vp8", "libvpx"), ("vp9", "libvpx-vp9")] {
            let encode = ["-map", "0:v", "-c:v", codec, "-g", "20", "-deadline", "realtime", "-b:v", "500k"];
            let Some(clip) = Clip::make(media, "clip.webm", &encode) else { return };
            let status = play(&clip.file, media, COPY_VIDEO, rtp).await;
            let (key, others) = clip.packets("v");
            // ffmpeg does not report unreferenced pictures.
            assert_eq!(classes(&status), [key, others, 0], "{media}");
        }
    });
}

#[test]
fn opus() {
    within(async || {
        let encode = ["-map", "1:a", "-c:a", "libopus"];
        let Some(clip) = Clip::make("opus", "clip.ogg", &encode) else { return };
        let status = play(&clip.file, "opus", &["-c", "copy", "-f", "rtp"], rtp).await;
        let (key, others) = clip.packets("a");
        assert_eq!(count(&status, "audio"), key + others);
    });
}

#[test]
fn a_transport_stream_of_h264_and_of_h265() {
    within(async || {
        for (name, encode) in [("ts264", X264), ("ts265", X265)] {
            let Some(clip) = Clip::make(name, "clip.ts", encode) else { return };
            let send = ["-map", "0:v", "-c", "copy", "-f", "mpegts"];
            let status =
                play(&clip.file, "auto", &send, |port| format!("udp://127.0.0.1:{port}?pkt_size=1316")).await;
            assert_eq!(status.flows[0].media, "ts");
            assert_eq!(classes(&status), by_type(&clip), "{name}: {:?}", status.flows[0].sent);
        }
    });
}

/// The default size of ffmpeg's datagrams, 1,472 bytes, is not a multiple of any packet length.
#[test]
fn a_transport_stream_as_ffmpeg_sends_it() {
    within(async || {
        for (name, mode) in [("ts188", "0"), ("ts192", "1")] {
            let Some(clip) = Clip::make(name, "clip.ts", X264) else { return };
            let send = ["-map", "0:v", "-c", "copy", "-f", "mpegts", "-mpegts_m2ts_mode", mode];
            let status = play(&clip.file, "ts", &send, |port| format!("udp://127.0.0.1:{port}")).await;
            let ([key, reference, disposable], wanted) = (classes(&status), by_type(&clip));
            assert_eq!([key, reference], wanted[..2], "{name}: {:?}", status.flows[0].sent);
            // Between frames there may be datagrams without content.
            assert!((wanted[2]..=wanted[2] + 1).contains(&disposable), "{name}: {:?}", status.flows[0].sent);
        }
    });
}

/// A constant bitrate consists of content and null packets, which are not sent.
#[test]
fn a_transport_stream_of_constant_bitrate() {
    within(async || {
        let encode =
            ["-map", "0:v", "-c:v", "mpeg2video", "-b:v", "300k", "-maxrate", "400k", "-bufsize", "100k"];
        let Some(clip) = Clip::make("constant", "clip.ts", &encode) else { return };
        let send = ["-map", "0:v", "-c", "copy", "-muxrate", "4M", "-f", "mpegts"];
        let urls: [fn(u16) -> String; 2] = [
            |port| format!("udp://127.0.0.1:{port}?pkt_size=1316"),
            // Cuts packets.
            |port| format!("udp://127.0.0.1:{port}?pkt_size=1472"),
        ];
        for (size, url) in [1_316, 1_472].into_iter().zip(urls) {
            let flow = play(&clip.file, "ts", &send, url).await.flows.remove(0);
            let (entered, deleted) = (flow.datagrams_in * size, flow.null_bytes_deleted);
            assert!(deleted * 10 > entered * 7, "{deleted} of {entered} bytes in datagrams of {size}");
            let sent = flow.sent.values().flat_map(|sent| sent.outcomes.values()).map(|amount| amount.bytes);
            let sent: u64 = sent.sum();
            assert!(sent * 10 < entered * 3, "{sent} bytes for {entered} in datagrams of {size}");
        }
    });
}

#[test]
fn a_transport_stream_in_rtp_with_sound() {
    within(async || {
        let encode = [X264, &["-map", "1:a", "-c:a", "aac"]].concat();
        let Some(clip) = Clip::make("mp2t", "clip.ts", &encode) else { return };
        let send = ["-map", "0", "-c", "copy", "-f", "rtp_mpegts"];
        let status = play(&clip.file, "ts", &send, rtp).await;
        let [key, reference, disposable] = by_type(&clip);
        // Audio makes the datagram of a picture needed; and a picture may be split by its audio.
        assert!(count(&status, "key") >= key);
        assert!(count(&status, "disposable") <= disposable + reference);
        assert!(count(&status, "key") + count(&status, "reference") >= key + reference);
        assert!(count(&status, "key") < key + reference + disposable, "not all of them are key pictures");
        assert!(count(&status, "audio") > 0);
    });
}

/// The program map has 186 bytes, so that it is split within its checksum.
#[test]
fn a_transport_stream_with_fifteen_sound_tracks() {
    within(async || {
        let mut encode = vec!["-map", "0:v", "-c:v", "mpeg2video", "-c:a", "mp2", "-b:a", "64k"];
        let languages: Vec<String> = (0..15).map(|n| format!("-metadata:s:a:{n}")).collect();
        for language in &languages {
            encode.extend(["-map", "1:a", language, "language=eng"]);
        }
        let Some(clip) = Clip::make("many", "clip.ts", &encode) else { return };
        let send = ["-map", "0", "-c", "copy", "-f", "mpegts"];
        let status =
            play(&clip.file, "ts", &send, |port| format!("udp://127.0.0.1:{port}?pkt_size=1316")).await;
        assert!(count(&status, "key") > 0, "pictures are found: {:?}", status.flows[0].sent);
    });
}
