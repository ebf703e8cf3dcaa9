"""Scenarios, from files, text and dicts."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping
from typing import Any

from squall._squall import Run, Scenario, ScenarioError

#: Forms of a scenario: a scenario, a file, or a dict with the fields of a file.
ScenarioLike = Scenario | str | os.PathLike[str] | Mapping[str, Any]


def load(path: str | os.PathLike[str]) -> Scenario:
    """Loads a scenario file and the traces that it names, which are relative to its folder.

    An experiment with axes is loaded as it stands in the file; :func:`cells` loads its points.

    Raises:
        ScenarioError: names file, line, column and field.
    """
    return Scenario.load(os.fspath(path))


def parse(source: str | Mapping[str, Any], *, base: str | os.PathLike[str] = "", name: str = "scenario") -> Scenario:
    """Makes a scenario of TOML text, or of a dict with the fields of a file (docs/scenarios.md).

    Args:
        source: the text, or the dict. A dict is written as TOML, which :attr:`Scenario.text` shows.
        base: the folder of the traces that it names; by default the current one.
        name: stands for the file in errors.

    Raises:
        ScenarioError: names line, column and field of the text.
    """
    base = os.fspath(base)
    if isinstance(source, str):
        return Scenario.parse(source, name, base)
    try:
        text = json.dumps(dict(source))
    except TypeError as error:
        raise ScenarioError(f"{name}: {error}") from None
    return Scenario.from_json(text, name, base)


def cells(path: str | os.PathLike[str], *, quick: bool = False) -> list[Scenario]:
    """Loads an experiment: the scenario at each combination of the points of its axes, which are in :attr:`Scenario.point`.

    Args:
        path: the file, such as ``scenarios/papers/storm-fig10.toml``; docs/experiments.md describes it.
        quick: the reduced experiment of ``squall-lab repro --quick``.

    Raises:
        ScenarioError: names file, line, column and field.
    """
    return Scenario.cells(os.fspath(path), quick)


def scenario_of(source: ScenarioLike) -> Scenario:
    """The scenario that was meant."""
    if isinstance(source, Scenario):
        return source
    if isinstance(source, Mapping):
        return parse(source)
    return load(source)


def _restore(text: str, file: str, base: os.PathLike[str], point: dict[str, str]) -> Scenario:
    """Unpickles. A worker that carries out many runs of a scenario reads it once."""
    return _restored(text, file, os.fspath(base), tuple(sorted(point.items())))


@functools.lru_cache(maxsize=16)
def _restored(text: str, file: str, base: str, point: tuple[tuple[str, str], ...]) -> Scenario:
    return Scenario.restore(text, file, base, dict(point))


__all__ = ["Run", "Scenario", "ScenarioLike", "cells", "load", "parse", "scenario_of"]
