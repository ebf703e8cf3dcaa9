"""Schedulers that are written in Python."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

from squall._squall import Block, Cancel, Context, Event, Idle, Path, Probe, ScenarioError, Send, Work

#: Decisions of a scheduler.
Decision = Send | Cancel | Probe | Idle | None


class Scheduler:
    """A scheduler of your own, for teaching and prototypes. A run with a simple one takes 2 to 3.5 times the processor time.

        class MinRtt(lab.Scheduler):
            name = "my-minrtt"

            def next(self, context):
                path, work = context.fastest_with_room(), context.next_in_line()
                return lab.Send(work, path) if path and work else None

        lab.run("scenarios/fading.toml", schedulers=["minrtt", MinRtt])

    A scheduler is made without arguments for each end of each session, and once more when it is checked. It is called by
    one thread at a time, but runs are carried out by several threads at once: keep state in ``self``, not in the class.
    For reproducible results take randomness from ``random.Random`` with a fixed seed.

    An exception ends the run and is raised by :func:`squall.lab.run`.
    """

    #: The name in results; by default that of the class. Letters, digits, ``-`` and ``_``.
    name: ClassVar[str]
    #: True if sessions use radio signals with it.
    signal: ClassVar[bool] = False
    #: True if the session may copy data sent on a path in doubt to another one.
    may_hedge: ClassVar[bool] = True
    #: True if new data leaves in the order of ``context.next_fresh()``.
    follows_queue: ClassVar[bool] = True
    #: True if it decides which blocks can still be in time. Otherwise the session ends those that can't.
    judges_deadlines: ClassVar[bool] = False
    #: True if the peer is asked to report stalls, as events of the kind ``stalled``.
    wants_stalls: ClassVar[bool] = False
    #: Bytes that each metered path may carry in a session; the rest is the ``budget`` of the path.
    metered_cap: ClassVar[int | None] = None
    #: Combination of the paths' rates into that of the session, for forecasts: ``"sum"``; ``"free"``, without metered
    #: paths while others are in use; ``"best"`` if every byte takes every path; or the id of the only path that is
    #: used.
    sharing: ClassVar[Literal["sum", "free", "best"] | int] = "sum"

    #: Replace it by a method ``on_event(self, event, context)`` to receive events before the next decision.
    on_event = None

    def next(self, context: Context) -> Decision:
        """The next thing to do. Called until it returns None or ``Idle``, whenever something changed.

        Args:
            context: the state of the session; valid during the call.
        """
        raise NotImplementedError(f"{type(self).__name__}.next")


#: Forms of a scheduler for ``run``: a name with options, or a class.
SchedulerLike = str | type[Scheduler]


def split(
    schedulers: Iterable[SchedulerLike] | SchedulerLike | None,
) -> tuple[list[str] | None, list[tuple[str, type[Scheduler]]]]:
    """The names, and for those that are classes the name and the class."""
    if schedulers is None:
        return None, []
    if isinstance(schedulers, (str, type)):
        schedulers = [schedulers]
    names: list[str] = []
    classes: list[tuple[str, type[Scheduler]]] = []
    for scheduler in schedulers:
        name = scheduler
        if not isinstance(name, str):
            if not (isinstance(scheduler, type) and issubclass(scheduler, Scheduler)):
                raise ScenarioError(
                    f"schedulers: {scheduler!r} is neither a name nor a subclass of squall.lab.Scheduler"
                )
            name = getattr(scheduler, "name", scheduler.__name__)
            classes.append((name, scheduler))
        if name in names:
            raise ScenarioError(f'schedulers: "{name}" is there twice')
        names.append(name)
    if not names:
        raise ScenarioError("schedulers: name one; `squall-lab schedulers` lists them")
    return names, classes


__all__ = [
    "Block",
    "Cancel",
    "Context",
    "Decision",
    "Event",
    "Idle",
    "Path",
    "Probe",
    "Scheduler",
    "SchedulerLike",
    "Send",
    "Work",
    "split",
]
