"""Runs in this process."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import NamedTuple

from squall import _squall
from squall._squall import Run, Scenario, ScenarioError
from squall.lab._results import Results
from squall.lab._scenario import ScenarioLike, scenario_of
from squall.lab._scheduler import Scheduler, SchedulerLike, split

#: Seeds of ``run``.
Seeds = Iterable[int] | int | None

#: The largest seed.
_MAX_SEED = 2**64 - 1


class Job(NamedTuple):
    """A run to carry out."""

    scenario: Scenario
    scheduler: str
    seed: int
    key: str


def run(
    scenario: ScenarioLike, schedulers: Iterable[SchedulerLike] | SchedulerLike | None = None, seeds: Seeds = None
) -> Results:
    """Runs a scenario in virtual time with each scheduler and each seed, on all cores and without the interpreter's lock.

    Args:
        scenario: a file, a dict with the fields of a file, or what :func:`load` and :func:`parse` return.
        schedulers: names with options, such as ``"minrtt"`` and ``"sp(path=1)-R"``, and subclasses of :class:`Scheduler`;
            by default those of the scenario.
        seeds: seeds from 0 to 2^64 - 1; an int is one seed. By default those of the scenario.

    Returns:
        The runs by scheduler, then by seed. Checks of the scenario that fail are no error: see :attr:`Run.passed`.

    Raises:
        ScenarioError: a scenario, scheduler or seed that can't be used, before anything is run.
        RunError: a run that failed.
        KeyboardInterrupt: Ctrl-C; runs that have begun end first.
    """
    jobs, classes = plan([scenario_of(scenario)], schedulers, seeds)
    runs: list[Run | None] = [None] * len(jobs)
    carry_out(jobs, classes, condensed=False, done=runs.__setitem__)
    return Results(run for run in runs if run is not None)


def plan(
    scenarios: Iterable[Scenario], schedulers: Iterable[SchedulerLike] | SchedulerLike | None, seeds: Seeds
) -> tuple[list[Job], list[tuple[str, type[Scheduler]]]]:
    """All runs, checked."""
    names, classes = split(schedulers)
    numbers = _seeds(seeds)
    jobs = [
        Job(scenario, scheduler, seed, scenario.key(scheduler, seed, program()))
        for scenario in scenarios
        for scheduler in _squall.check(scenario, names, classes)
        for seed in (scenario.seeds if numbers is None else numbers)
    ]
    return jobs, classes


def carry_out(
    jobs: list[Job], classes: list[tuple[str, type[Scheduler]]], *, condensed: bool, done: Callable[[int, Run], None]
) -> None:
    """Carries out runs on all cores; ``done`` gets the index and the result of each."""
    _squall.run_jobs(jobs, classes, condensed, done)


@functools.cache
def program() -> int:
    """Stands for this program in keys."""
    return _squall.program(_squall.__file__)


def _seeds(seeds: Seeds) -> list[int] | None:
    if seeds is None:
        return None
    numbers = [seeds] if isinstance(seeds, int) else [int(seed) for seed in seeds]
    taken: set[int] = set()
    for seed in numbers:
        if not 0 <= seed <= _MAX_SEED:
            raise ScenarioError(f"seeds: {seed} is not from 0 to {_MAX_SEED}")
        if seed in taken:
            raise ScenarioError(f"seeds: {seed} is there twice")
        taken.add(seed)
    if not numbers:
        raise ScenarioError("seeds: name one")
    return numbers
