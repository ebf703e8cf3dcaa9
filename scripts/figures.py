#!/usr/bin/env python3
"""Finds measured numbers of the guides that stand in a second place.

A guide states conclusions. The figures behind them stand once, in docs/notebook/ or on a page of results. A measured number has
a unit or a per cent sign and at least two significant digits, or is an interval ("97 to 99 %", "23 ± 0.4"). Two numbers are the
same if digits and unit are. Columns of tables have their unit in the heading, so three equal digits suffice there.

A number with a unit that also stands in the code or in a scenario is a constant or a condition, and so is an interval of two of
them. Per cents are not excused by that, for comments in the code cite figures. Blocks and spans of code are not read.

    scripts/figures.py                   # prints page:line, number and other place; exit code 1 if there are any
    scripts/figures.py docs/tunnel.md    # of these guides alone
"""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ("docs/notebook/", "docs/findings.md", "docs/recorded.md")

# No measurements, although the rules take them for some: the page (or any), the number, the reason.
EXCEPTIONS = [
    ("", "95 %", "the level of confidence intervals"),
    ("", "99 %", "a quantile"),
    ("", "99.9 %", "a quantile"),
    ("", "64 s", "the longest backoff of a path, 1 s doubled six times"),
    ("", "12 to 256", "bytes of a token"),
    ("docs/versus.md", "2.5 s", "time in which a transport connects"),
    ("docs/experiments.md", "98 %", "an example of a rule"),
    ("docs/experiments.md", "92 %", "an example of a rule"),
    ("docs/gstreamer.md", "15 %", "the limit of the correction of a bitrate"),
    ("docs/lab.md", "15 %", "the limit of `squall-lab bench`"),
    ("docs/operators.md", "45 s", "the interval of outages in a picture"),
    ("docs/traffic.md", "120 kB", "the size of an I frame of `gop`"),
    ("docs/video.md", "117 ms", "150 ms without a frame time"),
    ("docs/wire.md", "99.84 ms", "a time in a test vector"),
]
# The parts of guides that quote a page of results by design: the page, and the name in the comments around it.
QUOTED = [("README.md", "rivals")]

NUMBER = r"[−+-]?\d+(?:,\d{3})*(?:\.\d+)?"
UNIT = r"%|×|times\b|points\b|dB\b|[mµn]?s\b|min\b|[kMG]?bps\b|[kMG]bit/s|[kMG]i?B\b"
# Numbers that share the unit after the last one: "49 and 54 %", "82.9 against 83.7 %", "30 to 240 s".
BETWEEN = r"(?:, | and | or | against | instead of | to | ± | ?[–…] ?)"
SERIES = re.compile(rf"(?<![\w.,§#/-])({NUMBER}(?:{BETWEEN}{NUMBER})*)(?: ?({UNIT}))?")
INTERVAL = re.compile(rf"({NUMBER})(?: (to|±) | ?[–…] ?)({NUMBER})")
CELL = re.compile(r"[\s\d.,;+−*±–-]*")
UNREAD = re.compile(r"```.*?```|`[^`\n]*`|<!--.*?-->|\]\([^)]*\)", re.DOTALL)
WRITTEN = re.compile(rf"({NUMBER}) ?({UNIT}|[mg]bps\b)|from_(secs|millis|micros|nanos)\(([\d_]+)\)|\b(\d+) << ([12]0)\b")
NAMES = {"secs": "s", "millis": "ms", "micros": "µs", "nanos": "ns", "10": "KiB", "20": "MiB", "mbps": "Mbps", "gbps": "Gbps"}


def files(*patterns):
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout.splitlines()
    return sorted(name for name in set(listed) if (ROOT / name).is_file())


def digits(number):
    """How many significant digits a number has, without the zeros at the end of an integer."""
    return len(re.sub(r"\D", "", number if "." in number else number.rstrip("0")).lstrip("0"))


def constants():
    """The numbers with their units in the product, the laboratory and the scenarios, without tests."""
    found = set()
    for name in files("*.rs", "scenarios/*.toml", "dist/*.toml"):
        if "/tests/" not in name:
            for number, unit, named, of_named, factor, shift in WRITTEN.findall((ROOT / name).read_text()):
                unit = unit or named or shift
                found.add(((number or of_named or factor).replace("_", ","), NAMES.get(unit, unit)))
    return {(number, unit) for number, unit in found if unit != "%"}


def numbers(name, known):
    """Yields line, number and unit of the measured numbers of a page. Numbers in cells of tables have no unit."""
    text = (ROOT / name).read_text()
    for page, mark in QUOTED:
        if page == name:
            text = re.sub(rf"<!-- {mark}:begin.*?{mark}:end -->", lambda part: "\n" * part[0].count("\n"), text, flags=re.DOTALL)
    text = UNREAD.sub(lambda part: re.sub(r"[^\n]", " ", part[0]), text)
    for line, content in enumerate(text.splitlines(), 1):
        for cell in content.split("|") if content.startswith("|") else [content]:
            bare = content.startswith("|") and CELL.fullmatch(cell)
            for series, unit in SERIES.findall(cell):
                for low, sign, high in INTERVAL.findall(series):
                    measured = unit or min(digits(low), digits(high)) >= 2
                    if measured and not {(low, unit), (high, unit)} <= known:
                        yield line, f"{low} {sign or 'to'} {high}", unit
                for number in re.findall(NUMBER, INTERVAL.sub(" ", series)):
                    if (unit and digits(number) >= 2 or bare and digits(number) >= 3) and (number, unit) not in known:
                        yield line, number, unit


def main():
    known, places, guides = constants(), defaultdict(list), []
    for name in files("README.md", "docs/*.md"):
        for line, number, unit in numbers(name, known):
            written = f"{number} {unit}".strip()
            if not any(page in ("", name) and excused == written for page, excused, _ in EXCEPTIONS):
                places[number].append((name, line, unit))
                if not name.startswith(RESULTS) and (unit or " " in number):
                    guides.append((name, line, number, unit, written))
    found = 0
    for name, line, number, unit, written in guides:
        others = []
        for page, at, other in places[number]:
            if page != name and (other == unit or not unit or not other and page.startswith(RESULTS)):
                others.append(f"{page}:{at}")
        if others and (name in sys.argv[1:] or not sys.argv[1:]):
            print(f"{name}:{line}: {written}: {others[0]}" + (f" and {len(others) - 1} more" if others[1:] else ""))
            found += 1
    sys.exit(found > 0)


if __name__ == "__main__":
    main()
