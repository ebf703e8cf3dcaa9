#!/usr/bin/env python3
"""Runs the quick starts of the bindings' pages as they stand there, in this checkout, and times each command.

    scripts/quickstarts.py                      # all of them
    scripts/quickstarts.py c gstreamer          # the pages docs/c.md and docs/gstreamer.md

A quick start is the first `sh` block below the heading "Quick start". The page begins that section with the number of its
commands, which must be true. The home folder is a temporary one, so nothing is left but the build. Ends with 1 if a command fails.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ["c", "python", "gstreamer", "android"]
NUMBERS = ["No", "One", "Two", "Three", "Four", "Five", "Six", "Seven"]
LIMIT_S = 1800


def quick_start(page):
    """The number of commands that a page announces, and its commands."""
    section = re.search(r"^## Quick start\n\n(\w+) commands?\b.*?^```sh\n(.*?)^```$", page, re.M | re.S)
    if not section:
        sys.exit("no section `Quick start` that begins with the number of its commands")
    lines = section[2].replace("\\\n", " ").splitlines()
    return section[1], [re.sub(r"\s+# .*", "", line).strip() for line in lines if line.strip()]


def run(name, home):
    announced, commands = quick_start((ROOT / "docs" / f"{name}.md").read_text())
    if NUMBERS[len(commands)] != announced:
        sys.exit(f"docs/{name}.md: {announced} commands announced, {len(commands)} found")
    homes = {"CARGO_HOME": ".cargo", "RUSTUP_HOME": ".rustup"}
    env = {key: os.environ.get(key, str(Path.home() / folder)) for key, folder in homes.items()}
    # One shell for all, as one terminal of a reader: each command prints how long it took.
    stamp = 'printf "%s\\t%s\\n" "$(date +%s.%N)" '
    script = "\n".join(f"{stamp} {index} >&9\n{command}" for index, command in enumerate(commands))
    with tempfile.TemporaryFile("w+") as times:
        shell = ["bash", "-e", "-c", f"exec 9>&{times.fileno()}\n{script}\nfor job in $(jobs -p); do wait $job; done"]
        done = subprocess.run(shell, cwd=ROOT, env=os.environ | env | {"HOME": home}, timeout=LIMIT_S, pass_fds=[times.fileno()])
        times.seek(0)
        starts = [float(line.split("\t")[0]) for line in times] + [time.time()]
    for command, start, end in zip(commands, starts, starts[1:]):
        print(f"{end - start:8.1f} s  {command}")
    verdict = "ran" if done.returncode == 0 else f"failed with {done.returncode}"
    print(f"{starts[-1] - starts[0]:8.1f} s  docs/{name}.md {verdict}, {announced.lower()} in all\n", flush=True)
    return done.returncode == 0


def main():
    with tempfile.TemporaryDirectory() as home:
        ran = [run(name, home) for name in sys.argv[1:] or PAGES]
    sys.exit(not all(ran))


main()
