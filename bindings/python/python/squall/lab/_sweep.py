"""Many runs, on any executor, resumable."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, as_completed
from pathlib import Path
from typing import Any, Protocol

from squall import _squall
from squall._squall import Error, Run, RunError, Scenario, ScenarioError
from squall.lab._results import Results
from squall.lab._run import Job, Seeds, carry_out, plan, program
from squall.lab._scenario import ScenarioLike, scenario_of
from squall.lab._scheduler import Scheduler, SchedulerLike

#: Seconds between two polls of futures that can't be waited for.
_POLL = 0.02

#: Seconds between two lines of progress if standard error is no terminal.
_LINES = 10.0


class ExecutorLike(Protocol):
    """An executor of a sweep: ``concurrent.futures.Executor``, or anything whose ``submit`` returns something with
    ``done()`` and ``result()``."""

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Any: ...


def sweep(
    scenarios: ScenarioLike | Iterable[ScenarioLike],
    schedulers: Iterable[SchedulerLike] | SchedulerLike | None = None,
    seeds: Seeds = None,
    executor: ExecutorLike | None = None,
    folder: str | os.PathLike[str] | None = None,
    progress: bool | Callable[[int, int], None] = True,
) -> Results:
    """Runs every scenario with every scheduler and every seed, on an executor or on all cores of this machine.

    Args:
        scenarios: one or several, as for :func:`squall.lab.run`; :func:`squall.lab.cells` has the points of an experiment.
        schedulers: as for ``run``; by default those of each scenario.
        seeds: as for ``run``; by default those of each scenario.
        executor: a ``ProcessPoolExecutor``, ``client.get_executor()`` of Dask, or another one. Each run is one task. Workers
            need this version of Squall, and the traces that scenarios name in the same place; a worker with others is an
            error. A run whose worker dies is repeated if the executor repeats it, as Dask does. The executor stays open.
            By default all cores of this machine.
        folder: remembers completed runs, in a file for each scenario, ``NAME.jsonl``, which ``squall-lab report`` draws. Runs
            that are there with the same scenario, traces, scheduler, seed and build of Squall are not carried out again, so
            the same call continues a sweep that was stopped. One sweep at a time can use a folder. Nothing is removed from
            it. Not with schedulers in Python, whose code the key of a run does not cover.
        progress: on standard error; or a function that gets the number of completed runs and of all.

    Returns:
        The runs by scenario, scheduler and seed, as ``squall-lab repro`` keeps them: without series over time and single
        blocks, and so without the goodput of paths. They are those of ``executor=None``, to the byte.

    Raises:
        ScenarioError: a scenario, scheduler or seed that can't be used, before anything is run.
        RunError: a run that failed. Runs that have not begun are cancelled.
        Error: a file in the folder that holds something else.
        Exception: an error of the executor itself, such as ``BrokenProcessPool``. Completed runs are in the folder.
    """
    if isinstance(scenarios, (Scenario, str, os.PathLike, Mapping)):
        scenarios = [scenarios]
    jobs, classes = plan([scenario_of(one) for one in scenarios], schedulers, seeds)
    if classes and folder is not None:
        raise ScenarioError(f"folder: runs of {classes[0][0]} can't be remembered, as it is written in Python")
    store = None if folder is None else _Store(Path(folder))
    runs = {} if store is None else store.known(jobs)
    missing = list({_identity(job): job for job in jobs if _identity(job) not in runs}.values())
    show = _progress(progress, len(missing), len(runs))
    show(0, len(missing))
    ended = 0

    def done(index: int, run: Run) -> None:
        nonlocal ended
        if store is not None:
            store.add(run)
        runs[_identity(missing[index])] = run
        ended += 1
        show(ended, len(missing))

    if executor is None:
        carry_out(missing, classes, condensed=True, done=done)
    else:
        _delegate(executor, missing, classes, done)
    return Results(runs[_identity(job)] for job in jobs)


def _identity(job: Job) -> tuple[str, str]:
    """Points of an experiment may share a key, if they set the same, but not a name."""
    return job.key, job.scenario.name


def _delegate(
    executor: ExecutorLike,
    jobs: list[Job],
    classes: list[tuple[str, type[Scheduler]]],
    done: Callable[[int, Run], None],
) -> None:
    """Carries out runs on an executor."""
    futures: dict[Any, int] = {}
    try:
        for index, job in enumerate(jobs):
            futures[executor.submit(_work, job, [one for one in classes if one[0] == job.scheduler])] = index
        for future in _completed(list(futures)):
            done(futures.pop(future), Run.from_record(future.result()))
    finally:
        # All of them, unless an error occurred.
        for future in futures:
            cancel = getattr(future, "cancel", None)
            if cancel is not None:
                cancel()


def _work(job: Job, classes: list[tuple[str, type[Scheduler]]]) -> str:
    """Carries out one run in a worker; returns its line for a results folder."""
    scenario, scheduler, seed, key = job
    if scenario.key(scheduler, seed, program()) != key:
        raise RunError(f"scenario {scenario.name}: this worker has another build of Squall or other traces")
    runs: list[Run] = []
    carry_out([Job(scenario, scheduler, seed, key)], classes, condensed=True, done=lambda _, run: runs.append(run))
    return runs[0].to_record()


def _completed(futures: list[Any]) -> Iterator[Any]:
    """Futures, as they end."""
    if all(isinstance(future, Future) for future in futures):
        yield from as_completed(futures)
        return
    while futures:
        ended = [future for future in futures if future.done()]
        futures = [future for future in futures if future not in ended]
        yield from ended
        if not ended:
            time.sleep(_POLL)


class _Store:
    """A folder of completed runs: JSON Lines, a file for each experiment or scenario, which only grow."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Error(f"{folder}: {error.strerror}") from None

    def known(self, jobs: list[Job]) -> dict[tuple[str, str], Run]:
        """Returns the completed runs of these jobs, by :func:`_identity`."""
        wanted = {_identity(job) for job in jobs}
        runs = (
            run
            for name in dict.fromkeys(job.scenario.experiment for job in jobs)
            for run in self._read(self._file(name))
        )
        return {(run.key, run.scenario): run for run in runs if (run.key, run.scenario) in wanted}

    def add(self, run: Run) -> None:
        """Adds one."""
        file = self._file(run.experiment)
        try:
            with file.open("ab") as out:
                out.write(run.to_record().encode())
        except OSError as error:
            raise Error(f"{file}: {error.strerror}") from None

    def _file(self, name: str) -> Path:
        return self._folder / (re.sub(r"[^\w.+-]+", "-", name).lstrip(".") + ".jsonl")

    def _read(self, file: Path) -> list[Run]:
        if not file.exists():
            return []
        runs = _squall.read_runs(file)
        # A killed sweep may leave an incomplete line: the next one must not be appended to it.
        try:
            text = file.read_bytes()
            whole = text.rfind(b"\n") + 1
            if whole < len(text):
                os.truncate(file, whole)
        except OSError as error:
            raise Error(f"{file}: {error.strerror}") from None
        return runs


def _progress(wanted: bool | Callable[[int, int], None], total: int, known: int) -> Callable[[int, int], None]:
    if callable(wanted):
        return wanted
    if not wanted:
        return lambda ended, total: None
    begin = shown = time.monotonic()
    terminal = sys.stderr.isatty()

    def show(ended: int, total: int) -> None:
        nonlocal shown
        now = time.monotonic()
        if not terminal and ended < total and now - shown < _LINES:
            return
        shown = now
        left = f", {(now - begin) / ended * (total - ended):.0f} s left" if 0 < ended < total else ""
        words = f"sweep: {ended} of {total} runs, {known} known{left}"
        print(
            f"\r{words:<70}" if terminal else words,
            end="" if terminal and ended < total else "\n",
            file=sys.stderr,
            flush=True,
        )

    return show
