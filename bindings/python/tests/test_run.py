"""Runs give what the command gives."""

import csv
import json
import pickle
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from conftest import SHORT

from squall import lab

Command = Callable[..., subprocess.CompletedProcess[str]]


def test_a_run_is_that_of_the_command_to_the_byte(command: Command) -> None:
    results = lab.run("scenarios/lossy.toml", ["minrtt", "redundant"], range(1, 4))
    printed = command("run", "scenarios/lossy.toml", "--scheduler", "minrtt,redundant", "--seeds", "3", "--json", "-")
    assert [run.to_json() for run in results] == [line.rstrip(",") for line in printed.stdout.splitlines()[1:-1]]
    assert results.dicts() == json.loads(printed.stdout)
    assert [(run.scheduler, run.seed) for run in results] == [
        (s, n) for s in ("minrtt", "redundant") for n in (1, 2, 3)
    ]


def test_rows_are_those_of_repro(command: Command, tmp_path: Path) -> None:
    file = "scenarios/papers/ninetails-fig6.toml"
    ran = command("repro", file, "--quick", "--out", str(tmp_path / "out"), "--csv", str(tmp_path / "all.csv"))
    with (tmp_path / "all.csv").open(newline="") as opened:
        printed = list(csv.DictReader(opened))
    assert printed, ran.stderr
    rows = lab.sweep(lab.cells(file, quick=True), progress=False).rows()
    assert list(rows) == list(printed[0])
    of = {tuple(row.values())[:-1]: float(row["value"]) for row in printed}
    here = {tuple(str(column[n]) for column in rows.values())[:-1]: rows["value"][n] for n in range(len(rows["value"]))}
    assert here == of


def test_columns_have_one_row_per_run() -> None:
    results = lab.run(SHORT, ["minrtt", "sp"], [1, 2])
    columns = results.columns()
    assert {len(column) for column in columns.values()} == {4}
    assert columns["scheduler"].tolist() == ["minrtt", "minrtt", "sp", "sp"]
    assert columns["seed"].tolist() == [1, 2, 1, 2]
    for run, latency, share in zip(
        results, columns["flow.video.p99_latency"], columns["path.slow.wire_ratio"], strict=True
    ):
        assert latency == run.to_dict()["flows"][0]["latency"]["p99_us"]
        assert share == run.measure("wire_ratio", path="slow")
    assert set(results.columns(["goodput"])) >= {"goodput", "path.fast.goodput", "flow.video.goodput"}
    assert "wire_bytes" not in results.columns(["goodput"])
    units = results.units()
    assert set(units) == set(columns) - {"scenario", "scheduler", "seed"}
    assert (units["goodput"], units["flow.video.p99_latency"], units["path.slow.wire_ratio"]) == ("bit/s", "us", "1")
    table = pa.table(columns)
    assert table.num_rows == 4
    assert table["goodput"].to_pylist() == columns["goodput"].tolist()


def test_what_was_not_measured_is_nan() -> None:
    silent = {**SHORT, "flow": [{**SHORT["flow"][0], "start": "990ms"}]}
    column = lab.sweep([SHORT, silent], progress=False).columns()["flow.video.p99_latency"]
    assert column[0] > 0 and np.isnan(column[1])


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("name = 3", []),
        ("name = 'x'\n[[path]]\nname = 'a'\nrat = '1mbps'", []),
        (None, []),
        ("FILE", ["--scheduler", "minrt"]),
        ("NAMED", []),
    ],
)
def test_errors_are_the_line_of_the_command(
    command: Command, tmp_path: Path, text: str | None, arguments: list[str]
) -> None:
    file = tmp_path / "wrong.toml"
    good = lab.parse(SHORT).text
    if text is not None:
        file.write_text({"FILE": good, "NAMED": good.replace("minrtt", "minrt")}.get(text, text))
    ran = command("run", str(file), *arguments)
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    with pytest.raises(lab.ScenarioError) as caught:
        lab.run(file, schedulers=arguments[1:] or None)
    expected = ran.stderr.removeprefix("squall-lab: ").rstrip("\n").replace("--scheduler: ", "schedulers: ")
    assert str(caught.value) == expected


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"schedulers": ["sp", "sp"]}, 'schedulers: "sp" is there twice'),
        ({"schedulers": []}, "schedulers: name one"),
        ({"schedulers": [3]}, "schedulers: 3 is neither"),
        ({"seeds": [1, 1]}, "seeds: 1 is there twice"),
        ({"seeds": [-1]}, "seeds: -1 is not from 0"),
        ({"seeds": []}, "seeds: name one"),
    ],
)
def test_wrong_arguments_are_reported_before_anything_runs(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(lab.ScenarioError, match=f"^{words}"):
        lab.run(SHORT, **arguments)


def test_a_dict_that_is_no_scenario_is_reported() -> None:
    with pytest.raises(lab.ScenarioError, match=r"^scenario: invalid type: null"):
        lab.parse({**SHORT, "seed": None})
    with pytest.raises(lab.ScenarioError, match=r"^scenario: Object of type object"):
        lab.parse({**SHORT, "seed": object()})
    with pytest.raises(lab.ScenarioError, match=r"^mine:1:\d+: unknown field `nam`"):
        lab.parse({"nam": "x"}, name="mine")


def test_a_measure_that_is_not_there_is_reported() -> None:
    [run] = lab.run(SHORT)
    with pytest.raises(ValueError, match="did you mean goodput"):
        run.measure("goodputt")
    with pytest.raises(ValueError, match="^there is no flow x, only run; path fast"):
        run.measure("goodput", flow="x")
    with pytest.raises(ValueError, match="^mean_fps is no measure of a path$"):
        run.measure("mean_fps", path="fast")
    with pytest.raises(ValueError, match="unknown measure 'x'"):
        lab.Results([run]).columns(["x"])


def test_runs_and_scenarios_can_be_pickled() -> None:
    cell = lab.cells("scenarios/papers/ninetails-fig6.toml", quick=True)[-1]
    again = pickle.loads(pickle.dumps(cell))
    assert (again.name, again.experiment, again.point, again.text) == (
        cell.name,
        cell.experiment,
        cell.point,
        cell.text,
    )
    assert again.key("sp", 3, 7) == cell.key("sp", 3, 7) != cell.key("sp", 4, 7)
    [run] = lab.run(SHORT)
    copy = pickle.loads(pickle.dumps(run))
    assert (copy.to_json(), copy.key, copy.point) == (run.to_json(), run.key, run.point)


def test_the_interpreter_is_free_during_a_run() -> None:
    ticks = 0
    stop = threading.Event()

    def count() -> None:
        nonlocal ticks
        while not stop.wait(0.002):
            ticks += 1

    counter = threading.Thread(target=count)
    counter.start()
    begin = time.monotonic()
    lab.run({**SHORT, "duration": "30s"}, seeds=range(4))
    spent = time.monotonic() - begin
    stop.set()
    counter.join()
    # A run that held the interpreter would release it only at its ends.
    assert spent > 0.1 and ticks > 10, (spent, ticks)


def test_ctrl_c_ends_a_call() -> None:
    # Python has no handler if the signal is ignored, as in the background of a shell.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Timer(0.5, signal.raise_signal, [signal.SIGINT]).start()
    begin = time.process_time()
    try:
        with pytest.raises(KeyboardInterrupt):
            lab.run({**SHORT, "duration": "10s"}, seeds=range(1_000))
    finally:
        signal.signal(signal.SIGINT, before)
    # All of them would take minutes of processor time; the elapsed time depends on the load of the machine.
    assert time.process_time() - begin < 20
