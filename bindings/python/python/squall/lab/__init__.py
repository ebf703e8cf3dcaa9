"""The laboratory: sessions of Squall over emulated paths, in virtual time.

    from squall import lab

    results = lab.run("scenarios/fading.toml", schedulers=["minrtt", "squall"], seeds=range(1, 6))
    results.columns()["flow.camera.in_time_ratio"]

Times are microseconds, rates bits per second, sizes bytes, shares 0 to 1. The same scenario, scheduler and seed give the
same numbers in every process.
"""

from squall._squall import Error, RunError, ScenarioError
from squall.lab._results import Results, measures
from squall.lab._run import run
from squall.lab._scenario import Run, Scenario, cells, load, parse
from squall.lab._scheduler import (
    Block,
    Cancel,
    Context,
    Event,
    Idle,
    Path,
    Probe,
    Scheduler,
    Send,
    Work,
)
from squall.lab._sweep import sweep

__all__ = [
    "Block",
    "Cancel",
    "Context",
    "Error",
    "Event",
    "Idle",
    "Path",
    "Probe",
    "Results",
    "Run",
    "RunError",
    "Scenario",
    "ScenarioError",
    "Scheduler",
    "Send",
    "Work",
    "cells",
    "load",
    "measures",
    "parse",
    "run",
    "sweep",
]
