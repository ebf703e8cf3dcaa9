"""Results as columns, rows and dicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from squall import _squall
from squall._squall import Run

#: Flow, class and path of a number.
_Subject = tuple[str | None, str | None, str | None]


def measures() -> dict[str, str]:
    """Every measure of the laboratory and its unit: ``bit/s``, ``B``, ``us``, ``dB``, ``1/s``, or ``1`` for shares and counts.

    docs/scenarios.md says what each means.
    """
    return dict(_squall.measures())


def _column(subject: _Subject, measure: str) -> str:
    parts = [
        f"{word}.{name}." for word, name in zip(("flow", "class", "path"), subject, strict=True) if name is not None
    ]
    return "".join(parts) + measure


class Results(Sequence[Run]):
    """Runs, in the order of scenarios, schedulers and seeds."""

    def __init__(self, runs: Iterable[Run]) -> None:
        self._runs = list(runs)

    @overload
    def __getitem__(self, index: int) -> Run: ...
    @overload
    def __getitem__(self, index: slice) -> Results: ...
    def __getitem__(self, index: int | slice) -> Run | Results:
        return Results(self._runs[index]) if isinstance(index, slice) else self._runs[index]

    def __len__(self) -> int:
        return len(self._runs)

    def __repr__(self) -> str:
        return f"<squall.lab.Results of {len(self)} runs>"

    def columns(self, measures: Iterable[str] | None = None) -> dict[str, NDArray[Any]]:
        """One row per run: ``pandas.DataFrame(results.columns())``, ``pyarrow.table(results.columns())``.

        The first columns are ``scenario``, ``scheduler``, ``seed`` and the axes of an experiment. The others are measures,
        named after what they are of: ``goodput`` of the run, ``path.wifi.loss_ratio``, ``flow.video.p99_latency``,
        ``flow.video.class.key.in_time_ratio``, ``flow.video.path.wifi.path_ratio``. Numbers are float64, NaN where a run has
        nothing to measure.

        Args:
            measures: which measures, such as ``["p99_latency"]``; by default all that a run has.

        Raises:
            ValueError: no such measure.
        """
        wanted = self._wanted(measures)
        axes = list(dict.fromkeys(axis for run in self for axis in run.point))
        columns: dict[str, NDArray[Any]] = {
            "scenario": np.array([run.scenario for run in self], dtype=np.str_),
            "scheduler": np.array([run.scheduler for run in self], dtype=np.str_),
            "seed": np.array([run.seed for run in self], dtype=np.uint64),
        }
        for axis in axes:
            columns[axis] = np.array([run.point.get(axis, "") for run in self], dtype=np.str_)
        taken: dict[str, _Subject] = {}
        for row, run in enumerate(self):
            for *names, measure, value in run.values():
                if measure not in wanted:
                    continue
                subject = (names[0], names[1], names[2])
                column = _column(subject, measure)
                if column not in taken:
                    if column in columns:
                        raise ValueError(f"an axis is called {column!r}, like a measure; use rows()")
                    columns[column] = np.full(len(self), np.nan)
                if taken.setdefault(column, subject) != subject:
                    raise ValueError(f"two columns would be called {column!r}; use rows()")
                columns[column][row] = value
        return columns

    def units(self, measures: Iterable[str] | None = None) -> dict[str, str]:
        """The unit of each column of measures, as :func:`squall.lab.measures` has them."""
        wanted = self._wanted(measures)
        values = (value for run in self for value in run.values())
        return {_column((flow, cls, path), name): wanted[name] for flow, cls, path, name, _ in values if name in wanted}

    def rows(self) -> dict[str, list[Any]]:
        """One number a row, with the columns of ``squall-lab repro --csv``: experiment, axes, scheduler, seed, flow, class,
        path, measure and value. What a number is not of is an empty text."""
        axes = sorted({axis for run in self for axis in run.point})
        table: dict[str, list[Any]] = {
            name: [] for name in ("experiment", *axes, "scheduler", "seed", "flow", "class", "path", "measure", "value")
        }
        for run in self:
            point = run.point
            head = [run.experiment, *(point.get(axis, "") for axis in axes), run.scheduler, run.seed]
            for flow, cls, path, measure, value in run.values():
                for column, entry in zip(
                    table.values(), [*head, flow or "", cls or "", path or "", measure, value], strict=True
                ):
                    column.append(entry)
        return table

    def dicts(self) -> list[dict[str, Any]]:
        """The array of ``squall-lab run --json``: docs/lab.md has the fields."""
        return [run.to_dict() for run in self]

    @staticmethod
    def _wanted(names: Iterable[str] | None) -> dict[str, str]:
        known = measures()
        if names is None:
            return known
        names = [names] if isinstance(names, str) else list(names)
        for name in names:
            if name not in known:
                raise ValueError(f"unknown measure {name!r}; squall.lab.measures() lists all")
        return {name: known[name] for name in names}
