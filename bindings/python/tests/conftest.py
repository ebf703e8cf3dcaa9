"""Common parts of the tests: the scenarios of the repository, and the program to compare with."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]

#: A scenario of a second, with losses.
SHORT: dict[str, Any] = {
    "name": "short",
    "duration": "1s",
    "schedulers": ["minrtt"],
    "path": [
        {"name": "fast", "rate": "20mbps", "delay": "15ms", "loss": "1%"},
        {"name": "slow", "rate": "8mbps", "delay": "40ms", "loss": "1%"},
    ],
    "flow": [{"name": "video", "kind": "video", "fps": 30, "bitrate": "6mbps", "deadline": "200ms"}],
}


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths in tests are those that users write."""
    monkeypatch.chdir(ROOT)


@pytest.fixture
def command() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs ``squall-lab``."""
    program = os.environ["SQUALL_LAB"]

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([program, *args], capture_output=True, text=True, check=False)

    return run
