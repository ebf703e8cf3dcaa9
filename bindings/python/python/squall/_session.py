"""Coroutines that take arrivals from the native half."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol, TypeVar

_T_co = TypeVar("_T_co", covariant=True)


class _Source(Protocol[_T_co]):
    """A listener or a session."""

    def _take(self) -> _T_co | None:
        """Takes the arrival, if there is one."""

    def _fill(self) -> Awaitable[bool]:
        """Waits for an arrival; False if there will be none."""


async def take(source: _Source[_T_co]) -> _T_co | None:
    """The next arrival. It leaves its source in the step that returns it, so none is lost by cancelling."""
    while (arrival := source._take()) is None:
        if not await source._fill():
            return None
    return arrival


async def take_next(source: _Source[_T_co]) -> _T_co:
    """As :func:`take`, for ``async for``."""
    arrival = await take(source)
    if arrival is None:
        raise StopAsyncIteration
    return arrival
