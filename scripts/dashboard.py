#!/usr/bin/env python3
"""Draws dist/grafana/squall.json with the data that a real Prometheus has of both ends of a real tunnel.

A tunnel carries video for SECONDS over two emulated links, of which Wi-Fi is silent now and then. Prometheus scrapes both ends with
the configuration below, and answers the queries of the dashboard. Each panel is drawn at its place, with its
title, unit and legend. The drawing is this script's: it shows the queries and the layout, not Grafana itself.

Prints the queries without data. The exit code is 1 if there are some besides those of radios, which the links here do not have.
"""

import argparse
import html
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
DASHBOARD = ROOT / "dist/grafana/squall.json"
SECONDS = 120
COLUMN, ROW = 60, 30  # pixels of a unit of the dashboard's grid
COLOURS = ["#73bf69", "#f2cc0c", "#5794f2", "#ff9830", "#f2495c", "#b877d9", "#37d0c4", "#a7adb9"]
WITHOUT_DATA = ("signal_quality",)  # the links have no radio

LINKS = f"""name = "dashboard"
duration = "{SECONDS + 120}s"
schedulers = ["minrtt"]
[[path]]
name = "wlan0"
rate = "12mbps"
delay = "20ms"
events = [{", ".join('{ at = "%ds", outage = "3s" }' % at for at in range(30, SECONDS, 30))}]
[[path]]
name = "usb0"
rate = "8mbps"
delay = "45ms"
[[flow]]
name = "video"
kind = "bulk"
"""
PROMETHEUS = """global: { scrape_interval: 1s }
scrape_configs:
  - job_name: squall
    static_configs: [{ targets: ["127.0.0.1:9464", "10.77.2.2:9464"] }]
"""
FAR = """set -eu
export SQUALL_TOKEN='correct horse battery'
squall tunnel --listen 0.0.0.0:4433 --metrics 127.0.0.1:9464 --out cam=udp://127.0.0.1:6000 2>exit.log &
prometheus --config.file prometheus.yml --storage.tsdb.path data --web.listen-address 127.0.0.1:9090 2>prometheus.log &
until [ -e over ]; do sleep 0.2; done
python3 "$SCRIPT" --draw http://127.0.0.1:9090 --out page.html >queries.txt 2>&1 || true
touch drawn
"""
NEAR = f"""set -eu
export SQUALL_TOKEN='correct horse battery'
squall tunnel --to 10.77.0.1:4433 --insecure --interface wlan0 --interface usb0 --metered usb0 --scheduler 'squall(cap=100MB)' \\
    --metrics 10.77.2.2:9464 --in cam=udp://127.0.0.1:5000,media=ts,latency=300ms 2>entry.log &
timeout -s INT {SECONDS} ffmpeg -v error -re -f lavfi -i testsrc2=size=640x360:rate=30 -c:v libx264 -preset ultrafast -g 60 -b:v 3M -maxrate 3M \\
    -bufsize 3M -pix_fmt yuv420p -f mpegts 'udp://127.0.0.1:5000?pkt_size=1316' </dev/null 2>source.log || true
touch over
until [ -e drawn ]; do sleep 0.2; done
"""


def fetch(prometheus, path, **arguments):
    url = f"{prometheus}/api/v1/{path}?{urllib.parse.urlencode(arguments)}"
    return json.load(urllib.request.urlopen(url, timeout=30))["data"]["result"]


def answers(prometheus, panel, end):
    """The series of a panel: legend, and values by time."""
    found, empty = [], []
    for target in panel.get("targets", []):
        query = target["expr"].replace("$__rate_interval", "15s").replace("$__range", f"{SECONDS}s")
        query = re.sub(r"\$(instance|path|flow)\b", ".*", query)
        series = fetch(prometheus, "query_range", query=query, start=end - SECONDS, end=end, step=1)
        values = [(legend(target, one["metric"]), [(float(at), float(value)) for at, value in one["values"]]) for one in series]
        values = [(name, [point for point in points if math.isfinite(point[1])]) for name, points in values]
        values = [(name, points) for name, points in values if points]
        found += values
        if not values:
            empty.append(f"{panel['title']}: {target['expr']}")
    return found, empty


def legend(target, labels):
    return re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda found: labels.get(found[1], ""), target.get("legendFormat") or "")


def amount(value, unit):
    if unit == "percentunit":
        return f"{value * 100:.3g} %"
    if unit == "s":
        return f"{value * 1e3:.3g} ms" if abs(value) < 1 else f"{value:.3g} s"
    suffix = {"bps": "bps", "decbytes": "B"}.get(unit, "")
    for scale, prefix in (1e9, "G"), (1e6, "M"), (1e3, "k"):
        if abs(value) >= scale and suffix:
            return f"{value / scale:.3g} {prefix}{suffix}"
    return f"{value:.3g} {suffix}".strip()


def label(x, y, words, size=12, fill="#ccccdc", anchor="start"):
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="{fill}" text-anchor="{anchor}">{html.escape(words)}</text>'


def lines(series, unit, width, height, end):
    """A plot with a line for each series, and its legend with the last values."""
    left, top = 70, 34
    legends = min(len(series), (height - 150) // 16)
    bottom = height - 26 - 16 * legends
    most = max(value for _, points in series for _, value in points)
    least = min(0, min(value for _, points in series for _, value in points))
    most = most if most > least else least + 1
    x = lambda at: left + (at - end + SECONDS) / SECONDS * (width - left - 12)
    y = lambda value: bottom - (value - least) / (most - least) * (bottom - top)
    drawn = []
    for step in range(4):
        value = least + (most - least) * step / 3
        drawn.append(f'<path d="M{left} {y(value):.1f}H{width - 12}" stroke="#2f3238"/>' + label(left - 6, y(value) + 4, amount(value, unit), 11, "#9a9aa8", "end"))
    for n, (name, points) in enumerate(series):
        colour, path, before = COLOURS[n % 8], "", None
        for at, value in points:
            path += f"{'L' if before and at - before < 3 else 'M'}{x(at):.1f} {y(value):.1f}"
            before = at
        drawn.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        if n < legends:
            more = f" and {len(series) - legends} more" if n == legends - 1 and len(series) > legends else ""
            drawn.append(label(left, bottom + 20 + 16 * n, f"{name}: {amount(points[-1][1], unit)}{more}", 11, colour))
    return drawn


def timeline(series, width, height, end):
    drawn, each = [], (height - 44) / len(series)
    for row, (name, points) in enumerate(series):
        y = 34 + row * each
        drawn.append(label(10, y + each / 2 + 4, name, 11))
        for at, value in points:
            x = 190 + (at - end + SECONDS) / SECONDS * (width - 202)
            drawn.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{(width - 202) / SECONDS + 0.5:.1f}" height="{each - 6:.1f}" fill="{"#3d7a3a" if value else "#b02c3a"}"/>')
    return drawn


def heatmap(series, width, height, end):
    """Cells by time and upper bound; the buckets of a histogram are cumulative."""
    bounds = sorted((math.inf if name == "+Inf" else float(name), dict(points)) for name, points in series)
    most = max((counts.get(at, 0) for _, counts in bounds for at in counts), default=0) or 1
    each, drawn = (height - 50) / len(bounds), []
    for row, (bound, counts) in enumerate(bounds):
        y = height - 14 - (row + 1) * each
        if row % 3 == 0:
            drawn.append(label(64, y + each, "more" if bound == math.inf else amount(bound, "s"), 10, "#9a9aa8", "end"))
        below = bounds[row - 1][1] if row else {}
        for at, count in counts.items():
            strength = max(0, count - below.get(at, 0)) / most
            x = 70 + (at - end + SECONDS) / SECONDS * (width - 82)
            if strength > 0.005:
                drawn.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{(width - 82) / SECONDS + 0.5:.1f}" height="{each:.1f}" fill="#ff9830" fill-opacity="{strength ** 0.5:.2f}"/>')
    return drawn


def bars(series, unit, width):
    most, drawn = max(points[-1][1] for _, points in series) or 1, []
    for n, (name, points) in enumerate(series):
        y, value = 36 + 42 * n, points[-1][1]
        drawn.append(label(12, y + 10, f"{name}: {amount(value, unit)}", 12))
        drawn.append(f'<rect x="12" y="{y + 16}" width="{value / most * (width - 30):.1f}" height="14" fill="{COLOURS[n % 8]}"/>')
    return drawn


def draw_panel(panel, series, end):
    place, unit = panel["gridPos"], panel.get("fieldConfig", {}).get("defaults", {}).get("unit", "none")
    width, height = place["w"] * COLUMN - 8, place["h"] * ROW - 8
    if panel["type"] == "row":
        inside = [label(4, 17, panel["title"], 15)]
    else:
        inside = [f'<rect width="{width}" height="{height}" rx="3" fill="#181b1f" stroke="#2c3037"/>', label(12, 20, panel["title"], 13)]
        if not series:
            inside.append(label(width / 2, height / 2 + 8, "No data", 16, "#9a9aa8", "middle"))
        elif panel["type"] == "stat":
            for n, (name, points) in enumerate(series[:3]):
                inside.append(label(12, 46 + 28 * n, amount(points[-1][1], unit), 20, COLOURS[0]) + label(width - 10, 46 + 28 * n, name, 11, "#9a9aa8", "end"))
        elif panel["type"] == "bargauge":
            inside += bars(series, unit, width)
        elif panel["type"] == "state-timeline":
            inside += timeline(series, width, height, end)
        elif panel["type"] == "heatmap":
            inside += heatmap(series, width, height, end)
        else:
            inside += lines(series, unit, width, height, end)
    return f'<svg x="{place["x"] * COLUMN + 4}" y="{place["y"] * ROW + 4}" width="{width}" height="{height}">{"".join(inside)}</svg>'


def draw(prometheus, out):
    """Draws all panels, and prints the queries without data."""
    dashboard, end = json.loads(DASHBOARD.read_text()), time.time()
    panels, missing = [], []
    for panel in dashboard["panels"]:
        series, empty = answers(prometheus, panel, end)
        panels.append(draw_panel(panel, series, end))
        missing += empty
    height = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in dashboard["panels"]) * ROW + 8
    out.write_text(f'<!doctype html><style>body {{ margin: 0; background: #111217 }} text {{ font-family: sans-serif }}</style>'
                   f'<svg xmlns="http://www.w3.org/2000/svg" width="{24 * COLUMN}" height="{height}">{"".join(panels)}</svg>')
    queries = sum(len(panel.get("targets", [])) for panel in dashboard["panels"])
    print(f"{queries - len(missing)} of {queries} queries have data, in {sum('targets' in panel for panel in dashboard['panels'])} panels")
    for one in missing:
        print(f"no data: {one}")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
    parser.add_argument("--programs", type=pathlib.Path, default=target / "release", help="the folder of squall and squall-lab")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "out/dashboard.html", help="the page; with Chromium, a picture beside it")
    parser.add_argument("--draw", metavar="URL", help="no tunnel: ask this Prometheus")
    options = parser.parse_args()
    if options.draw:
        return draw(options.draw, options.out)
    programs = options.programs.resolve()
    for program in "ffmpeg", "prometheus", str(programs / "squall"), str(programs / "squall-lab"):
        if not shutil.which(program):
            parser.error(f"{program} is missing: apt-get install ffmpeg prometheus; cargo build --release -p squall-cli -p squall-lab-cli")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="squall-dashboard-") as name:
        folder = pathlib.Path(name)
        for file, content in ("links.toml", LINKS), ("prometheus.yml", PROMETHEUS), ("far.sh", FAR), ("near.sh", NEAR):
            (folder / file).write_text(content)
        environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "SCRIPT": __file__}
        shell = subprocess.run(
            ["squall-lab", "shell", "--scenario", "links.toml", "--time", f"{SECONDS + 120}s", "--server", "bash far.sh", "--client", "bash near.sh"],
            cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if not (folder / "page.html").exists():
            logs = [(folder / log).read_text() for log in ("queries.txt", "prometheus.log", "entry.log") if (folder / log).exists()]
            sys.exit(f"dashboard: nothing was drawn: {shell.stderr[-300:]}\n" + "\n".join(log[-500:] for log in logs))
        said = (folder / "queries.txt").read_text()
        shutil.copy(folder / "page.html", options.out)
    print(said, end="")
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser:
        height = re.search(r'width="\d+" height="(\d+)"', options.out.read_text())[1]
        with tempfile.TemporaryDirectory() as profile:
            subprocess.run(
                [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-background-networking", "--no-first-run",
                 f"--user-data-dir={profile}", f"--window-size={24 * COLUMN},{height}", f"--screenshot={options.out.with_suffix('.png').resolve()}",
                 options.out.resolve().as_uri()], check=True, stderr=subprocess.DEVNULL)
    empty = [line for line in said.splitlines() if line.startswith("no data: ")]
    return int(any(not any(name in line for name in WITHOUT_DATA) for line in empty))


if __name__ == "__main__":
    sys.exit(main())
