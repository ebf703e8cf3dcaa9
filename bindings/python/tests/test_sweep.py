"""Sweeps on executors."""

import os
import resource
import signal
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, SHORT
from test_scheduler import MinRtt

from squall import Error, lab

Command = Callable[..., subprocess.CompletedProcess[str]]

#: 200 short runs.
SCENARIOS = [SHORT, {**SHORT, "name": "clean", "path": [{**path, "loss": "0%"} for path in SHORT["path"]]}]
SCHEDULERS = ["minrtt", "sp", "redundant", "squall"]
SEEDS = range(25)


@pytest.fixture(scope="module")
def serial() -> list[str]:
    """The records of the 200 runs, one after the other."""
    return [run.to_record() for one in SCENARIOS for run in lab.sweep(one, SCHEDULERS, SEEDS, progress=False)]


def records(results: lab.Results) -> list[str]:
    return [run.to_record() for run in results]


def test_a_sweep_is_its_runs(serial: list[str]) -> None:
    assert len(serial) == 200 == len(set(serial))
    [run] = lab.run(SHORT, "sp", 3)
    [swept] = [lab.Run.from_record(line) for line in serial if f'"key":"{run.key}"' in line]
    # The goodput of a path is calculated from its time series, which a sweep does not keep.
    kept = [
        (*of, name, value) for *of, name, value in run.values() if (of[0], name) != (None, "goodput") or of[2] is None
    ]
    assert [tuple(value) for value in swept.values()] == kept and len(kept) == len(run.values()) - 2


@pytest.mark.parametrize("kind", [ProcessPoolExecutor, ThreadPoolExecutor])
def test_executors_of_python_give_the_same(serial: list[str], kind: Callable[[int], Executor]) -> None:
    with kind(2) as executor:
        assert records(lab.sweep(SCENARIOS, SCHEDULERS, SEEDS, executor, progress=False)) == serial


def test_a_worker_of_a_cluster_can_die(serial: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=4, threads_per_worker=1, dashboard_address=None, local_directory=str(tmp_path / "dask")
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        pids = client.run(os.getpid)
        assert len(pids) == 4
        victim = next(iter(pids.values()))
        killed_at: list[int] = []

        def progress(ended: int, total: int) -> None:
            if ended == total // 2:
                os.kill(victim, signal.SIGKILL)
                killed_at.append(ended)

        with client.get_executor() as executor:
            results = lab.sweep(SCENARIOS, SCHEDULERS, SEEDS, executor, tmp_path / "runs", progress)
        assert killed_at == [100]
        assert victim not in client.run(os.getpid).values()
    assert records(results) == serial


def test_a_killed_sweep_is_continued(serial: list[str], tmp_path: Path) -> None:
    counts: list[tuple[int, int]] = []

    def interrupt(ended: int, total: int) -> None:
        if ended == 30:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lab.sweep(SCENARIOS, SCHEDULERS, SEEDS, folder=tmp_path, progress=interrupt)
    kept = sum(len(file.read_text().splitlines()) for file in tmp_path.iterdir())
    assert kept == 30
    # A killed process may leave a line unfinished.
    with (tmp_path / "short.jsonl").open("a") as out:
        out.write('{"experiment":"sho')
    results = lab.sweep(SCENARIOS, SCHEDULERS, SEEDS, folder=tmp_path, progress=lambda *now: counts.append(now))
    assert counts[0] == (0, 170) and counts[-1] == (170, 170)
    assert records(results) == serial
    again = lab.sweep(SCENARIOS, SCHEDULERS, SEEDS, folder=tmp_path, progress=lambda *now: counts.append(now))
    assert counts[-1] == (0, 0)
    assert records(again) == serial


def test_points_that_set_the_same_are_runs_of_their_own(tmp_path: Path) -> None:
    experiment = tmp_path / "axes.toml"
    rates = [
        f'{{ name = "{name}", set = {{ "path.fast.rate" = "{rate}mbps" }} }}' for name, rate in [("a", 9), ("b", 9)]
    ]
    axis = f"[[axis]]\nname = 'rate'\npoints = [{', '.join(rates)}]\n"
    experiment.write_text(f"{lab.parse(SHORT).text}\n{axis}")
    cells = lab.cells(experiment)
    for _ in range(2):
        results = lab.sweep(cells, folder=tmp_path / "out", progress=False)
        assert [run.scenario for run in results] == ["short rate=a", "short rate=b"]
        assert results.columns()["rate"].tolist() == ["a", "b"]
        assert results[0].key == results[1].key
        assert results[0].values() == results[1].values()
    assert len((tmp_path / "out" / "short.jsonl").read_text().splitlines()) == 2


def test_what_would_be_another_run_is_carried_out(tmp_path: Path) -> None:
    counts: list[int] = []
    for scenario in [SHORT, {**SHORT, "description": "the same"}, {**SHORT, "duration": "1001ms"}]:
        lab.sweep(scenario, seeds=[1], folder=tmp_path, progress=lambda ended, total: counts.append(total))
    assert counts == [1, 1, 0, 1, 1]


def test_the_folder_is_one_of_repro(command: Command, tmp_path: Path) -> None:
    lab.sweep(SHORT, ["minrtt", "sp"], range(2), folder=tmp_path, progress=False)
    drawn = command("report", str(tmp_path), "--out", str(tmp_path / "r.html"))
    assert drawn.returncode == 0, drawn.stderr
    assert "short" in (tmp_path / "r.html").read_text()


def test_a_file_that_holds_something_else_is_reported(tmp_path: Path) -> None:
    (tmp_path / "short.jsonl").write_text("{}\n")
    with pytest.raises(Error, match=r"short\.jsonl:1: missing field"):
        lab.sweep(SHORT, folder=tmp_path, progress=False)
    (tmp_path / "file").write_text("")
    with pytest.raises(Error, match=r"file: File exists$"):
        lab.sweep(SHORT, folder=tmp_path / "file", progress=False)


def test_an_executor_of_its_own_kind_is_polled(serial: list[str]) -> None:
    class Task:
        def __init__(self, fn: Callable[..., str], args: tuple[Any, ...]) -> None:
            self._thread = threading.Thread(target=lambda: setattr(self, "line", fn(*args)))
            self._thread.start()
            self.line = ""

        def done(self) -> bool:
            return not self._thread.is_alive()

        def result(self) -> str:
            return self.line

    class Executor:
        def submit(self, fn: Callable[..., str], /, *args: Any) -> Task:
            return Task(fn, args)

    results = lab.sweep(SHORT, ["minrtt"], range(5), Executor(), progress=False)
    assert records(results) == serial[:5]


def test_a_worker_with_other_traces_is_an_error(tmp_path: Path) -> None:
    trace = tmp_path / "link.csv"
    trace.write_text((ROOT / "scenarios/traces/drive.csv").read_text())
    scenario = lab.parse(
        {**SHORT, "path": [{"name": "cell", "rate": {"csv": "link.csv", "column": "down_mbps"}, "delay": "20ms"}]},
        base=tmp_path,
    )
    lab.sweep(scenario, progress=False)
    trace.write_text("\n".join((ROOT / "scenarios/traces/drive.csv").read_text().splitlines()[:-3]) + "\n")
    with (
        ProcessPoolExecutor(1) as executor,
        pytest.raises(lab.RunError, match="another build of Squall or other traces"),
    ):
        lab.sweep(scenario, executor=executor, progress=False)


def test_schedulers_in_python_reach_workers_and_are_not_remembered(tmp_path: Path) -> None:
    with ProcessPoolExecutor(2) as executor:
        mine = lab.sweep(SHORT, [MinRtt], [1, 2], executor, progress=False)
    built_in = lab.sweep(SHORT, ["minrtt"], [1, 2], progress=False)
    assert [run.values() for run in mine] == [run.values() for run in built_in]
    with pytest.raises(lab.ScenarioError, match="^folder: runs of my-minrtt can't be remembered"):
        lab.sweep(SHORT, [MinRtt], folder=tmp_path)


def test_progress_is_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    lab.sweep(SHORT, seeds=[1, 2])
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "sweep: 2 of 2 runs, 0 known\n")


def test_an_error_cancels_what_has_not_begun() -> None:
    narrow = {**SHORT, "name": "narrow", "path": [{"name": "a", "rate": "1mbps", "delay": "10ms", "mtu": 1200}]}
    with ProcessPoolExecutor(1) as executor:
        begin = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        with pytest.raises(lab.RunError, match="is its mtu below 1300 bytes"):
            lab.sweep([narrow, {**SHORT, "duration": "60s"}], seeds=range(100), executor=executor, progress=False)
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - begin < 60
