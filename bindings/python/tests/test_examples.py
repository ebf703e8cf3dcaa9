"""The examples run as they stand."""

import subprocess
import sys
from pathlib import Path

from conftest import ROOT

EXAMPLES = ROOT / "bindings/python/examples"


def test_minrtt() -> None:
    ran = subprocess.run([sys.executable, EXAMPLES / "minrtt.py"], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "all measures are equal"


def test_compare_draws(tmp_path: Path) -> None:
    file = tmp_path / "losses.png"
    ran = subprocess.run([sys.executable, EXAMPLES / "compare.py", file], capture_output=True, text=True, check=True)
    assert ran.stdout == f"{file}: 200 runs\n"
    assert file.read_bytes().startswith(b"\x89PNG") and file.stat().st_size > 10_000


def test_session() -> None:
    ran = subprocess.run(
        [sys.executable, EXAMPLES / "session.py"], capture_output=True, text=True, check=True, timeout=30
    )
    lines = ran.stdout.splitlines()
    assert sum(line.endswith(": delivered") for line in lines) == 3
    assert sum(": 20000 bytes" in line for line in lines) == 3
