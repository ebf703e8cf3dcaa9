#!/usr/bin/env python3
"""Runs the commands of docs/recipes.md behind two emulated links, of which Wi-Fi fails meanwhile, and measures what arrives.

A block of commands that follows `<!-- SIDE: NAME -->` in the page is run on that side of `squall-lab shell`: the page is the
source of the commands, and RECIPES has the blocks of each recipe and how it is measured. A recipe prints one line: what was
measured, "failed", or "not here" with the programs that are missing. The exit code is 1 if a recipe failed.
"""

import argparse
import datetime
import http.server
import json
import os
import pathlib
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/recipes.md"
BEGIN, END = "<!-- ran:begin -->", "<!-- ran:end -->"
SECONDS = 20  # for which a source sends
FPS = 30  # of the test pictures
OUTAGE = 8  # seconds after the begin of the source at which Wi-Fi is taken away
LIMIT = 300  # seconds after which a recipe that does not end has failed

# Programs and elements that blocks use, and where they come from: packages of Debian, or a command in brackets.
PACKAGES = {
    "avdec_h264": "gstreamer1.0-libav", "chromium": "chromium", "ffmpeg": "ffmpeg", "ffprobe": "ffmpeg",
    "gst-launch-1.0": "gstreamer1.0-tools", "ip": "iproute2", "iperf3": "iperf3", "mediamtx": "(mediamtx.org)", "obs": "obs-studio",
    "openssl": "openssl", "ping": "iputils-ping", "srt-live-transmit": "srt-tools", "unshare": "util-linux", "wg": "wireguard-tools",
    "wireguard-go": "wireguard-go", "x264enc": "gstreamer1.0-plugins-ugly", "Xvfb": "xvfb",
}
ELEMENTS = {"avdec_h264", "x264enc"}
# How a program prints its version.
VERSIONS = {
    "chromium": "chromium --version", "ffmpeg": "ffmpeg -version", "gst-launch-1.0": "gst-launch-1.0 --version",
    "iperf3": "iperf3 --version", "moq-rs": "pip show moq-rs", "mediamtx": "mediamtx --version", "obs": "obs --version",
    "srt-live-transmit": "srt-live-transmit -version", "wg": "wg --version", "wireguard-go": "wireguard-go --version",
}


class Failure(Exception):
    """What a recipe did not do, in a line."""


# --- measures of what a recipe has left in its folder


def text(file):
    return file.read_text(errors="replace") if file.exists() else ""


def last_line(file):
    lines = [line.strip() for line in re.split(r"[\r\n]", text(file)) if line.strip()]
    return lines[-1] if lines else "no output"


def number(pattern, file):
    """The last number that a file has at this place."""
    found = re.findall(pattern, text(file))
    if not found:
        raise Failure(f"{file.name}: {last_line(file)}")
    return int(found[-1])


def share(arrived, sent, least, what="frames"):
    if arrived < sent * least:
        raise Failure(f"{arrived} of {sent} {what}")
    return f"{arrived} of {sent} {what}"


def frames(file):
    """The times of the frames of a film, in seconds."""
    command = ["ffprobe", "-v", "error", "-select_streams", "v:0", "-show_entries", "packet=pts_time", "-of", "csv=p=0", file]
    probe = subprocess.run(command, capture_output=True, text=True)
    # MPEG-TS has a line for the stream, and one for the program.
    return sorted({float(line.strip(",")) for line in probe.stdout.split() if re.match(r"[\d.]+,?$", line)})


def film(run):
    """Frames that arrived, of those that ffmpeg sent."""
    return share(len(frames(run / "received.mkv")), number(r"frame=\s*(\d+)", run / "near-live.log"), 0.98)


def between(times, least):
    """Frames of those from the first to the last that arrived."""
    return share(len(times), round((times[-1] - times[0]) * FPS) + 1, least) if len(times) > 1 else share(len(times), 2, least)


def srt(run):
    """Until the caller closes: SRT drops what the listener has not passed on."""
    times, sent = frames(run / "received.ts"), number(r"frame=\s*(\d+)", run / "near-caller.log")
    if len(times) < 2 or times[-1] - times[0] < sent / FPS - 2:
        raise Failure(f"{len(times)} of {sent} frames, and SRT closed too early")
    return between(times, 0.98) + " until SRT closed"


def obs(run):
    """OBS does not say how many frames it has sent, and on a busy machine it is slower than in real time."""
    times = frames(run / "received.mkv")
    if len(times) < 5 * FPS:
        raise Failure(f"{len(times)} frames; near-obs.log: {last_line(run / 'near-obs.log')}")
    return between(times, 0.98) + " from the first to the last"


def moq(run):
    """The subscriber prints a line for each frame, and an empty one at the end."""
    arrived = [line for line in text(run / "far-subscriber.log").splitlines() if re.match(r"\d+ [1-9]\d*$", line)]
    return share(len(arrived), number(r"frame=\s*(\d+)", run / "near-publisher.log"), 0.98)


def gstreamer(run):
    """A sink and a source that are verbose print a line for each buffer."""
    shown, sent = (len(re.findall(r"chain +\*+", text(run / name))) for name in ("far-player.log", "near-camera.log"))
    if not sent:
        raise Failure(f"near-camera.log: {last_line(run / 'near-camera.log')}")
    return share(shown, sent, 0.95)


def browser(run):
    """What the page has sent each second: its clock, seconds played, frames decoded, and how often it loaded the stream again."""
    seen = [[float(value) for value in line.split()] for line in text(run / "far-browser.log").splitlines()]
    seen = [line for line in seen if len(line) == 4 and line[1] > 0]
    if len(seen) < 5:
        raise Failure(f"the browser played nothing: {last_line(run / 'far-browser.log')}")
    lasted, played, shown = (seen[-1][n] - seen[0][n] for n in range(3))
    words = f"Chromium played {played:.1f} s in {lasted:.1f} s, {shown:.0f} frames"
    if seen[-1][3] > seen[0][3]:
        words += f", and loaded the stream again {seen[-1][3] - seen[0][3]:.0f} times"
    # On a busy machine it stalls now and then.
    if played < 0.6 * lasted:
        raise Failure(words)
    return words


def pings(run):
    log = run / "near-ping.log"
    trips = [float(trip) for trip in re.findall(r"time=([\d.]+) ms", text(log))]
    answered = share(len(trips), number(r"(\d+) packets transmitted", log), 0.9, "pings")
    return f"{answered}, median {statistics.median(trips):.0f} ms, longest {max(trips):.0f} ms"


def tcp(run):
    log = run / "near-tcp.log"
    rates = [float(rate) for rate in re.findall(r"([\d.]+) Mbits/sec +\d+ +\S+ [KM]Bytes", text(log))]
    if len(rates) < SECONDS or not any(rates[-4:]):
        raise Failure(f"{log.name}: {last_line(log)}")
    return f"{statistics.mean(rates[2:OUTAGE - 1]):.1f} Mbps over both links, {statistics.mean(rates[OUTAGE:]):.1f} Mbps from the loss of Wi-Fi on"


# --- the recipes


class Recipe:
    def __init__(self, about, needs, far, near, measure, replace=()):
        self.about, self.needs, self.far, self.near, self.measure, self.replace = about, needs.split(), far, near, measure, replace

    def lacking(self):
        return [name for name in [*self.needs, "ip", "openssl"] if not is_here(name)]


# A side is a shell script of its own. `start NAME` runs the block of that name in the background with its output in a log,
# `finish NAME` interrupts it and waits, `block NAME` is the block within this script. The first source marks the begin.
SOURCE = "start {0}; outage; sleep {1}; finish {0}; sleep 2"
UPLINK_FAR = "block keys; await near.pub; block wireguard; start uplink; certificate; "
UPLINK_NEAR = "block keys; await far.pub; start uplink; await ready; block wireguard; handshake; "
RECIPES = {
    "ffmpeg": Recipe(
        "ffmpeg to a file", "ffmpeg ffprobe",
        "start video; certificate; start file; ready udp 6000; await over; finish file",
        "start video; await ready; " + SOURCE.format("live", SECONDS),
        film),
    "srt": Recipe(
        "SRT from ffmpeg to srt-live-transmit", "ffmpeg ffprobe srt-live-transmit",
        "start srt; certificate; start listener; ready udp 9000; await over; finish listener",
        "start srt; await ready; sleep 1; " + SOURCE.format("caller", SECONDS),
        srt),
    "gstreamer": Recipe(
        "RTP between GStreamer pipelines", "gst-launch-1.0 x264enc avdec_h264",
        "start video; certificate; start player; ready udp 6000; await over; finish player",
        "start rtp; await ready; " + SOURCE.format("camera", SECONDS),
        gstreamer,
        [("autovideosink", "fakesink silent=false -v"), ("! x264enc", "! identity silent=false ! x264enc"),
         ("gst-launch-1.0 videotestsrc", "gst-launch-1.0 -v videotestsrc")]),
    "hls": Recipe(
        "ffmpeg's HLS in Chromium", "ffmpeg chromium",
        "start video; certificate; start hls; mkdir -p hls/cam; start server; ready udp 6000; browse; await over",
        "start video; await ready; start live; outage; await played; finish live",
        browser),
    "mediamtx": Recipe(
        "MediaMTX's HLS in Chromium", "ffmpeg chromium mediamtx",
        "start video; certificate; start mediamtx; ready udp 6000; browse; await over",
        "start video; await ready; start live; outage; await played; finish live",
        browser),
    "obs": Recipe(
        "OBS to ffmpeg", "obs Xvfb ffmpeg ffprobe",
        "start video; certificate; await streaming; start file; await over; finish file",
        "start video; studio; touch streaming; outage; sleep {}; kill $pid_obs; wait_for obs; kill $pid_xvfb; wait_for xvfb; sleep 2".format(SECONDS),
        obs),
    "moq": Recipe(
        "Media over QUIC between a publisher and a subscriber", "ffmpeg moq-rs",
        "start moq; certificate; start subscriber; ready udp 4443; await over; finish subscriber",
        "start moq; await ready; " + SOURCE.format("publisher", SECONDS),
        moq),
    "wireguard": Recipe(
        "WireGuard, pings inside", "wg wireguard-go ping unshare",
        UPLINK_FAR + "touch ready; await over",
        UPLINK_NEAR + "start ping; sleep 1.5; ip link set wlan0 down; wait_for ping",
        pings),
    "wireguard-tcp": Recipe(
        "WireGuard, TCP inside", "wg wireguard-go ping iperf3 unshare",
        UPLINK_FAR + "iperf3 -s -B 10.9.0.1 >far-iperf3.log 2>&1 & ready tcp 5201; await over",
        UPLINK_NEAR + "start tcp; outage; wait_for tcp",
        tcp),
}
# Blocks that are not run: they need a window.
FOR_PEOPLE = {("far", "window"), ("near", "film"), ("far", "chromium")}

COMMON = r"""
set -eu
start() { # NAME
    setsid bash -eu "$side-$1.sh" >"$side-$1.log" 2>&1 </dev/null &
    eval "pid_$1=$!"
}
wait_for() { # NAME
    eval "wait \$pid_$1" || true
}
finish() { # NAME
    eval "kill -INT -\$pid_$1" 2>/dev/null || true
    wait_for "$1"
}
await() { # FILE
    until [ -e "$1" ]; do sleep 0.05; done
}
block() { # NAME
    . "./$side-$1.sh" >"$side-$1.log" 2>&1
}
certificate() {
    await tunnel.pem
    block fingerprint
    touch certified
}
ready() { # KIND PORT that must be open on this side
    until grep -q "^ *[0-9]*: [0-9A-F]*:$(printf %04X "$2") " "/proc/net/$1"; do sleep 0.05; done
    touch ready
}
outage() {
    (sleep OUTAGE; ip link set wlan0 down) &
}
handshake() { # WireGuard repeats a lost one after 5 s.
    until ping -c 1 -W 1 10.9.0.1 >/dev/null 2>&1; do sleep 0.2; done
}
browse() {
    python3 "$RECIPES" --play http://127.0.0.1:8888/cam/index.m3u8 >far-browser.log 2>far-chromium.log
    touch played
}
studio() {
    mkdir -p obs-studio/basic/profiles/Squall obs-studio/basic/scenes
    { printf '[General]\nName=Squall\n'; cat near-profile.sh; } >obs-studio/basic/profiles/Squall/basic.ini
    printf '[General]\nFirstRun=true\nInfoIncrement=2\n' >obs-studio/global.ini
    printf '%s' "$SCENES" >obs-studio/basic/scenes/Squall.json
    Xvfb -displayfd 1 -screen 0 1280x1024x24 -nolisten tcp >display 2>near-xvfb.log &
    pid_xvfb=$!
    until [ -s display ]; do sleep 0.05; done
    DISPLAY=:$(cat display) XDG_CONFIG_HOME=$PWD HOME=$PWD \
        obs --startrecording --collection Squall --profile Squall --multi >near-obs.log 2>&1 </dev/null &
    pid_obs=$!
    until grep -q 'Recording Start' near-obs.log; do sleep 0.1; done
}
""".replace("OUTAGE", str(OUTAGE))
SCENES = """{"name": "Squall", "current_scene": "Scene", "current_program_scene": "Scene", "scene_order": [{"name": "Scene"}], "sources": [
{"id": "scene", "name": "Scene", "settings": {"id_counter": 1, "items": [{"name": "Picture", "id": 1, "visible": true}]}},
{"id": "ffmpeg_source", "name": "Picture", "settings": {"is_local_file": false, "input": "testsrc2=size=1280x720:rate=30",
"input_format": "lavfi", "hw_decode": false}}]}"""


def blocks():
    """The blocks of the page, by side and name."""
    found = {}
    for sides, name, commands in re.findall(r"<!-- (far|near|both): (\w+) -->\n```\w+\n(.*?)```", PAGE.read_text(), re.S):
        for side in ["far", "near"] if sides == "both" else [sides]:
            if (side, name) in found:
                sys.exit(f"recipes: {PAGE.name} has two blocks '{side}: {name}'")
            found[side, name] = commands
    return found


def check(found):
    """Every block is part of a recipe, and the other way round."""
    used = set(FOR_PEOPLE) | {("far", "secret"), ("near", "secret"), ("far", "fingerprint"), ("near", "address"), ("near", "profile")}
    for recipe in RECIPES.values():
        for side, script in ("far", recipe.far), ("near", recipe.near):
            used |= {(side, name) for name in re.findall(r"(?:start|block) (\w+)", script)}
    for side, name in sorted(used - set(found)):
        sys.exit(f"recipes: {PAGE.name} has no block '{side}: {name}'")
    for side, name in sorted(set(found) - used):
        sys.exit(f"recipes: the block '{side}: {name}' of {PAGE.name} is in no recipe")


def is_here(name):
    if name == "moq-rs":
        return subprocess.run(["python3", "-c", "import moq"], stderr=subprocess.DEVNULL).returncode == 0
    if name in ELEMENTS:
        inspect = shutil.which("gst-inspect-1.0")
        return bool(inspect) and subprocess.run([inspect, "--exists", name]).returncode == 0
    return shutil.which(name) is not None


def run(recipe, found, programs, folder):
    """Runs a recipe in a folder. Returns its figures, or raises a Failure."""
    for (side, name), commands in found.items():
        for before, after in recipe.replace:
            commands = commands.replace(before, after)
        (folder / f"{side}-{name}.sh").write_text(commands)
    # Each side has its own /run/wireguard.
    far = f"side=far\n{COMMON}\n. ./far-secret.sh\n{recipe.far}\ntouch done\n"
    near = f"side=near\n{COMMON}\n. ./near-secret.sh\n{recipe.near.replace('start', 'await certified; . ./near-address.sh; start', 1)}\ntouch over\nawait done\n"
    shutil.copy(ROOT / "scripts/moq-video.py", folder)
    (folder / "far.sh").write_text(far)
    (folder / "near.sh").write_text(near)
    own = "unshare -m sh -c 'mkdir -p /run/wireguard; mount -t tmpfs none /run/wireguard; exec bash {}.sh'" if "wg" in recipe.needs else "bash {}.sh"
    links = re.search(r"^(squall-lab shell .*)$", PAGE.read_text(), re.M)[1]
    command = [*shlex.split(links), "--time", f"{LIMIT}s", "--json", "shell.json", "--server", own.format("far"), "--client", own.format("near")]
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "RECIPES": __file__, "SCENES": SCENES}
    with open(folder / "shell.log", "w") as log:
        done = subprocess.run(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    if done.returncode != 0:
        raise Failure(f"code {done.returncode}: {last_line(folder / 'shell.log')}")
    if not (folder / "done").exists():
        raise Failure(f"no end within {LIMIT} s")
    # The shell has measured whether its links were late.
    busy = json.loads(text(folder / "shell.json"))["invalid"]
    return recipe.measure(folder) + (f" (does not count: {busy})" if busy else "")


# --- the browser, on the far side

PLAYER = """<!doctype html><video id="video" muted autoplay src="{}"></video><script>
let [played, frames, reloads, last, still] = [0, 0, 0, 0, 0];
setInterval(() => {{
    const at = video.currentTime, shown = video.getVideoPlaybackQuality().totalVideoFrames;
    fetch('/seen?' + [performance.now() / 1e3, played + at, frames + shown, reloads].join('+'));
    still = at === last ? still + 1 : 0;
    last = at;
    // As players do that have frozen.
    if (still >= 5) {{
        [played, frames, reloads, still] = [played + at, frames + shown, reloads + 1, 0];
        video.load();
    }}
}}, 1000);
</script>"""


def play(url):
    """Plays a stream in Chromium, and prints each second what it has shown, until it has played long enough."""
    begin, enough = time.monotonic(), threading.Event()
    # The stream needs some seconds to begin.
    while True:
        try:
            urllib.request.urlopen(url, timeout=2).read()
            break
        except OSError as error:
            if time.monotonic() - begin > 30:
                sys.exit(f"{url}: {error}")
            time.sleep(0.3)

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked = urllib.parse.urlsplit(self.path)
            if asked.path == "/seen":
                print(asked.query.replace("+", " "), flush=True)
                if float(asked.query.split("+")[1]) > SECONDS:
                    enough.set()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(PLAYER.format(url).encode() if asked.path == "/" else b"")

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as profile:
        chromium = subprocess.Popen(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
             "--autoplay-policy=no-user-gesture-required", f"--user-data-dir={profile}", f"http://127.0.0.1:{server.server_port}/"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        enough.wait(LIMIT / 3)
        chromium.terminate()
        chromium.wait()


# --- the command


def version(program):
    printed = subprocess.run(shlex.split(VERSIONS[program]), capture_output=True, text=True)
    found = re.search(r"(?<![-\d.])\d+(\.\d+)+", printed.stdout + printed.stderr)
    return f"{program} {found[0]}" if found else program


def commit():
    found = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return found.stdout.strip() or "no commit"


def write_page(lines, programs):
    versions = ", ".join(version(name) for name in sorted(programs & set(VERSIONS)))
    today = datetime.date.today().isoformat()
    what = textwrap.fill(f"{today}, {commit()}, with {versions}:", 130, break_on_hyphens=False)
    ran = f"{BEGIN}\n{what}\n\n```text\n" + "\n".join(lines) + f"\n```\n{END}"
    page = PAGE.read_text()
    PAGE.write_text(page[:page.index(BEGIN)] + ran + page[page.index(END) + len(END):])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
    parser.add_argument("recipe", nargs="*", help="recipes to run, instead of all: " + ", ".join(RECIPES))
    parser.add_argument("--programs", type=pathlib.Path, default=target / "release", help="the folder of squall and squall-lab")
    parser.add_argument("--page", action="store_true", help="write the lines into the page")
    parser.add_argument("--keep", type=pathlib.Path, help="leave the logs there, in a folder for each recipe")
    parser.add_argument("--check", action="store_true", help="run nothing: check that each block of the page is in a recipe")
    parser.add_argument("--play", metavar="URL", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.play:
        return play(options.play)
    found = blocks()
    check(found)
    if options.check:
        return 0
    for name in options.recipe:
        if name not in RECIPES:
            parser.error(f"no recipe '{name}': {', '.join(RECIPES)}")
    programs = options.programs.resolve()
    for name in "squall", "squall-lab":
        if not (programs / name).exists():
            parser.error(f"{programs / name} is missing: make recipes builds it")
    lines, used, failed = [], set(), False
    for name in options.recipe or RECIPES:
        recipe = RECIPES[name]
        lacking = recipe.lacking()
        folder = pathlib.Path(tempfile.mkdtemp(prefix=f"squall-recipe-{name}-"))
        if lacking:
            words = "not here: lacks " + ", ".join(f"{one} ({PACKAGES[one].strip('()')})" for one in lacking)
        else:
            used |= set(recipe.needs)
            try:
                words = run(recipe, found, programs, folder)
            except Failure as failure:
                words, failed = f"failed: {failure}", True
        if options.keep:
            kept = options.keep / name
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(folder, kept, ignore=shutil.ignore_patterns("obs-studio", "*.pem"))
        shutil.rmtree(folder)
        lines.append(f"{name}: {recipe.about}: {words}")
        print(lines[-1], flush=True)
    if options.page:
        write_page(lines, used)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
