"""The native half; programs use ``squall`` and ``squall.lab``."""

from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv6Address
from os import PathLike
from typing import Any, final

__all__ = [
    "Block",
    "Cancel",
    "Context",
    "Error",
    "Event",
    "Idle",
    "Listener",
    "Path",
    "Probe",
    "Received",
    "Run",
    "RunError",
    "Scenario",
    "ScenarioError",
    "Send",
    "Sent",
    "Session",
    "SessionError",
    "Work",
    "check",
    "connect",
    "listen",
    "measures",
    "program",
    "read_runs",
    "run_jobs",
]

class Error(Exception):
    """An error of Squall, in one line. The base of all its exceptions."""

class ScenarioError(Error):
    """A scenario, scheduler or seed that can't be used: exit code 2 of the command, with the same line."""

class RunError(Error):
    """A run that failed: exit code 1 of the command, with the same line."""

class SessionError(Error):
    """A session that can't be set up, has ended, or belongs to the process that this one was forked from."""

def listen(
    address: str, *, identity: str | PathLike[str] | None = None, name: str = "localhost", scheduler: str | None = None
) -> Listener:
    """Listens on ``host:port``; port 0 uses a free one. Needs no running event loop. Waits up to half a second for a port that
    is in use.

    Args:
        address: such as ``[::]:4433``, which accepts IPv4 as well.
        identity: a file with certificate and key, created if it is missing. By default a certificate for this process only.
        name: the name in a certificate that is created.
        scheduler: as ``squall-lab schedulers`` lists them; by default ``squall``.

    Raises:
        SessionError: the address or the file can't be used.
        ValueError: there is no such scheduler.
    """

def connect(
    host: str,
    *,
    fingerprint: str | None = None,
    roots: str | PathLike[str] | None = None,
    local: Sequence[IPv4Address | IPv6Address | str] | None = None,
    interfaces: Sequence[str] | None = None,
    scheduler: str | None = None,
) -> Awaitable[Session]:
    """Connects to ``host:port``. Called in a running event loop, as every function that returns an awaitable.

    Args:
        host: a name or an address, with the port.
        fingerprint: that of the server's certificate, which is trusted under any name.
        roots: a file of authorities that are trusted; without both, those of the operating system.
        local: addresses to send from, one for each path.
        interfaces: names of interfaces to use. Without both, every one with a route to the server, also later ones.
        scheduler: as ``squall-lab schedulers`` lists them; by default ``squall``.

    Raises:
        SessionError: the server can't be reached or is not trusted.
        ValueError: arguments that contradict each other, or can't be read.
    """

@final
class Listener:
    """Accepts sessions, until it is closed or dropped; accepted sessions continue when it is dropped."""

    @property
    def addresses(self) -> list[str]:
        """The addresses on which it listens."""
    @property
    def fingerprint(self) -> str:
        """Fingerprint of its certificate, for ``connect``."""
    def accept(self) -> Awaitable[Session | None]:
        """Returns the next session; None when the listener was closed."""
    def close(self, code: int = 0, reason: str = "") -> None:
        """Stops listening and closes all of its sessions. The port is free at most 0.3 s later."""

@final
class Session:
    """A session with a peer. It closes at once, without the blocks in flight, when it is dropped; :meth:`finish` waits.

    Its methods can be used by several tasks at the same time. Cancelling a task that waits loses no block that arrived.
    """

    def send(
        self,
        data: bytes | bytearray,
        *,
        deadline: float | None = None,
        priority: int = 3,
        reliable: bool = True,
        partial: bool = False,
        ordered: bool = False,
        channel: int = 0,
        value: int | None = None,
        prefer: str | None = None,
        avoid: str | None = None,
        only: str | None = None,
    ) -> Awaitable[Sent]:
        """Sends a block; waits while the queue is full (64 MiB).

        Args:
            data: the bytes, at least one; they are copied.
            deadline: seconds from now until the block is worthless.
            priority: 0, the most important, to 7.
            reliable: true to send lost parts again.
            partial: true to give the peer the part that arrived if it ends incomplete, by its deadline or by losses.
            ordered: true to deliver it after the previous ordered block on its channel.
            channel: 0 to 1023.
            value: loss if only this block is missing, relative to others; by default 4^(7 - priority).
            prefer: paths to use while one of them is usable, by the name or local address of their interface, or "#2" for a path id.
            avoid: paths to use only while no other is usable.
            only: the only allowed paths; without a usable one the block ends.

        Raises:
            SessionError: the session has ended, or the block is empty or too large.
            ValueError: an option out of bounds.
        """
    def recv(self) -> Awaitable[Received | None]:
        """Returns the next block that is complete, or partial and at its end; None after the last block of an ended session."""
    def __aiter__(self) -> Session: ...
    def __anext__(self) -> Awaitable[Received]: ...
    def finish(self, timeout: float = 5.0) -> Awaitable[None]:
        """Waits until every block has an outcome, at most ``timeout`` seconds, then closes.

        Raises:
            SessionError: some blocks had none before the timeout.
        """
    def close(self, code: int = 0, reason: str = "") -> None:
        """Closes the session at once; the peer receives code and reason."""
    def closed(self) -> Awaitable[str]:
        """Waits for the end; returns the reason."""
    @property
    def remote(self) -> str | None:
        """The address of the peer."""
    @property
    def max_block_len(self) -> int:
        """Size in bytes of the largest block that both sides accept."""
    @property
    def safe_rate(self) -> int:
        """Capacity for blocks over the next second, reached with probability 0.9, in bit/s, for an encoder."""
    def paths(self) -> list[tuple[str, str, str, float]]:
        """Local address, address of the peer, state (``opening``, ``active``, ``suspect``, ``deactivated``) and smoothed
        round-trip time in seconds of every path."""

@final
class Sent:
    """A block that was submitted. Dropping this object has no effect on the block."""

    @property
    def id(self) -> int:
        """Equal to ``Received.id`` at the peer."""
    def outcome(self) -> Awaitable[str]:
        """Waits for the end of the block: ``delivered``, ``expired``, ``lost``, ``cancelled``, ``refused``, or ``closed`` if
        the session ended first. Can be called once; a second call raises ``RuntimeError``."""

@final
class Received:
    """A block that arrived."""

    @property
    def id(self) -> int:
        """Increases in the order of submission."""
    @property
    def data(self) -> bytes:
        """Its bytes, with zeros for missing ones; each access copies them."""
    @property
    def missing(self) -> list[tuple[int, int]]:
        """First byte, and one past the last, of each missing range of a partial block; empty if it is complete. The last
        range ends at 16 MiB, beyond the data, if the length of the block was never received."""
    @property
    def channel(self) -> int:
        """0 to 1023."""
    @property
    def priority(self) -> int:
        """0, the most important, to 7."""
    @property
    def reliable(self) -> bool:
        """True if lost parts were sent again."""

@final
class Scenario:
    """A scenario, or one point of an experiment. Immutable; can be pickled, as its text and the folder of its traces.

    Created by ``squall.lab.load``, ``parse`` and ``cells``.
    """

    @staticmethod
    def load(path: str) -> Scenario: ...
    @staticmethod
    def parse(text: str, name: str, base: str) -> Scenario: ...
    @staticmethod
    def from_json(json: str, name: str, base: str) -> Scenario: ...
    @staticmethod
    def cells(path: str, quick: bool) -> list[Scenario]: ...
    @staticmethod
    def restore(text: str, file: str, base: str, point: dict[str, str]) -> Scenario: ...
    @property
    def name(self) -> str:
        """Its name; for a point of an experiment, followed by the point."""
    @property
    def experiment(self) -> str:
        """The name without the point."""
    @property
    def point(self) -> dict[str, str]:
        """The point of each axis; empty for a scenario outside an experiment."""
    @property
    def description(self) -> str:
        """Its description."""
    @property
    def duration_us(self) -> int:
        """Length of a run in microseconds."""
    @property
    def seeds(self) -> list[int]:
        """Its seeds."""
    @property
    def schedulers(self) -> list[str]:
        """Its schedulers."""
    @property
    def paths(self) -> list[str]:
        """The names of its paths, by ascending ``Path.id``."""
    @property
    def flows(self) -> list[str]:
        """The names of its flows."""
    @property
    def text(self) -> str:
        """Its TOML text."""
    def key(self, scheduler: str, seed: int, program: int) -> str:
        """Returns 16 hexadecimal digits that identify everything that determines the result of a run."""

@final
class Run:
    """Result of one run. Immutable; can be pickled."""

    @staticmethod
    def from_record(line: str) -> Run:
        """Parses a line of :meth:`to_record`.

        Raises:
            ValueError: the line has another format.
        """
    def to_record(self) -> str:
        """Returns the line for a results folder of ``squall-lab repro`` or ``squall.lab.sweep``, including its end."""
    @property
    def scenario(self) -> str:
        """Name of the scenario."""
    @property
    def experiment(self) -> str:
        """Name without the point of an experiment."""
    @property
    def point(self) -> dict[str, str]:
        """The point of each axis of an experiment."""
    @property
    def scheduler(self) -> str:
        """The scheduler, as requested."""
    @property
    def seed(self) -> int:
        """The seed."""
    @property
    def key(self) -> str:
        """Identifies everything that determines the result."""
    @property
    def passed(self) -> bool:
        """True if all checks of the scenario that concern its scheduler passed; ``to_dict()["checks"]`` has them."""
    def to_json(self) -> str:
        """Returns the line of ``squall-lab run --json``; in a sweep, without time series and single blocks."""
    def to_dict(self) -> dict[str, Any]:
        """Returns the content of :meth:`to_json` as a dict; docs/lab.md documents the fields."""
    def measure(
        self, measure: str, *, flow: str | None = None, class_: str | None = None, path: str | None = None
    ) -> float | None:
        """Returns one number of the run, a path, a flow or a class of a flow, or of the data of the latter two on a path.

        Returns:
            None if the measure does not apply. ``squall.lab.measures`` has the units.

        Raises:
            ValueError: no such measure, flow, class or path; the text lists the existing ones.
        """
    def values(self) -> list[tuple[str | None, str | None, str | None, str, float]]:
        """Returns all numbers: flow, class, path, measure and value, in the order of ``squall-lab repro --csv``."""

@final
class Path:
    """A path at one moment, for a scheduler. Times are microseconds."""

    id: int
    """0 to 7, in the order of ``Scenario.paths``."""
    state: str
    """``active``, ``suspect`` (silent while packets were in flight) or ``deactivated`` (by a radio alert)."""
    usable: bool
    """True if new data may be sent on it now."""
    srtt: int
    """Smoothed round-trip time."""
    latest_rtt: int
    """Latest round-trip time."""
    rtt_dev: int
    """Mean deviation of the round-trip time."""
    owd: int
    """One-way delay to the peer; differences between paths are exact."""
    loss: float
    """Share of packets lost over the last seconds."""
    window: int
    """Congestion window in bytes."""
    in_flight: int
    """Bytes in flight, including those that wait for the pacer."""
    waiting: int
    """Bytes that wait for the pacer."""
    chunk: int
    """Bytes of a block that fit into one packet."""
    bandwidth: int
    """Window over smoothed RTT, at most the recent delivery rate, in bit/s."""
    rate: int
    """Rate of the path as estimated by its controller, in bit/s."""
    factor: float
    """Signal factor in (0, 1]: 1 unless the radio reports a fade."""
    metered: bool
    """True if bytes on it cost money."""
    budget: int | None
    """Remaining bytes of its budget, if there is one."""
    @property
    def room(self) -> int:
        """Bytes left in the window; 0 on a path that is not usable."""
    @property
    def has_room(self) -> bool:
        """True if one more packet fits. Only such paths can be used for sending."""
    @property
    def is_open(self) -> bool:
        """True if data can be sent on it, at the latest when its window opens."""
    def arrives_in(self, bytes: int) -> int:
        """Returns the time from now until the arrival of a packet sent behind the bytes in flight and ``bytes`` more."""

@final
class Work:
    """A range of a block that could be sent. Valid for one decision."""

    @property
    def block(self) -> int:
        """The id of the block."""
    @property
    def start(self) -> int:
        """First byte."""
    @property
    def end(self) -> int:
        """One past the last byte."""
    @property
    def kind(self) -> str:
        """``fresh`` (never sent), ``repair`` (every copy was lost) or ``copy`` (another one is in flight)."""
    def at_most(self, length: int) -> Work:
        """Returns its first ``length`` bytes, at least one."""

@final
class Block:
    """An unfinished block at one moment. Times are microseconds, sizes bytes."""

    id: int
    """Increases in the order of submission."""
    length: int
    """Size; for a growing block, the size so far."""
    deadline: int | None
    """Time at which it becomes worthless, on the clock of ``Context.now``."""
    priority: int
    """0, the most important, to 7."""
    reliable: bool
    """True if lost bytes are sent again."""
    partial: bool
    """True if the receiver can use it when only a part arrives."""
    channel: int
    """0 to 1023."""
    submitted: int
    """Time of submission."""
    value: int
    """Loss if only this block is missing, relative to others."""
    needs: list[int]
    """Blocks without which it is useless."""
    is_growing: bool
    """True if more bytes will follow."""
    fresh_bytes: int
    """Bytes never sent."""
    lost_bytes: int
    """Bytes to send again."""
    in_flight_bytes: int
    """Bytes neither acknowledged nor lost yet."""
    acked_bytes: int
    """Bytes that the peer has."""
    unsent_bytes: int
    """Bytes to send, fresh or lost."""
    segments: list[tuple[int, int, str, list[int]]]
    """Start, end, state (``fresh``, ``sent``, ``lost``, ``acked``) and ids of the paths on which it is in flight."""
    next_work: Work | None
    """Next range to send, if any."""
    def copy(self, start: int, end: int) -> Work:
        """Returns a further copy of bytes within one segment in the state ``sent``.

        Raises:
            ValueError: the bytes are not within such a segment.
        """

@final
class Context:
    """Input of a scheduler's decision. Valid during the call to which it is passed; later use raises ``RuntimeError``."""

    now: int
    """The time in microseconds."""
    @property
    def paths(self) -> list[Path]:
        """Every open path, by ascending id."""
    def path(self, id: int) -> Path | None:
        """Returns the path with this id."""
    def fastest_with_room(self) -> Path | None:
        """Returns the path with the lowest smoothed RTT among those with room; the lower id wins a tie."""
    def next_in_line(self) -> Work | None:
        """Returns the next repair, or else the next fresh range, in order of submission."""
    def next_repair(self) -> Work | None:
        """Returns the oldest lost range of a reliable block."""
    def next_fresh(self) -> Work | None:
        """Returns the next fresh range."""
    def blocks(self) -> list[Block]:
        """Returns every unfinished block, oldest first. Takes time in proportion to their number."""
    def by_deadline(self, most: int | None = None) -> list[Block]:
        """Returns at most ``most`` blocks with bytes to send, earliest deadline first, those without one last."""
    def block(self, id: int) -> Block | None:
        """Returns the block with this id, if it is unfinished."""

@final
class Event:
    """An event since the last decision. Fields that its kind does not have are None."""

    kind: str
    """``queued``, ``grew``, ``done``, ``acked``, ``lost``, ``unsent``, ``stalled`` or ``path`` (appeared, changed, removed)."""
    block: int | None
    """The id of the block."""
    path: int | None
    """The id of the path."""
    start: int | None
    """First byte."""
    end: int | None
    """One past the last byte."""
    delivered: bool | None
    """For ``done``: true if the peer has all of the block."""

@final
class Send:
    """Send work on a path with room, given by itself or by its id. The session sends as many whole packets of it as the
    window allows, and requests the next decision."""

    def __new__(cls, work: Work, path: Path | int) -> Send: ...

@final
class Cancel:
    """Cancel a block: the peer is notified, and no more of it is sent."""

    def __new__(cls, block: Block | int) -> Cancel: ...

@final
class Probe:
    """Measure the round trip of an idle path."""

    def __new__(cls, path: Path | int) -> Probe: ...

@final
class Idle:
    """Nothing to send; the next decision is due at ``wake``, in microseconds, or at an earlier event."""

    def __new__(cls, wake: int | None = None) -> Idle: ...

def measures() -> list[tuple[str, str]]: ...
def program(file: str) -> int: ...
def read_runs(file: str | PathLike[str]) -> list[Run]: ...
def check(scenario: Scenario, schedulers: Sequence[str] | None, custom: Sequence[tuple[str, type]]) -> list[str]: ...
def run_jobs(
    jobs: Sequence[tuple[Scenario, str, int, str]],
    custom: Sequence[tuple[str, type]],
    condensed: bool,
    done: Callable[[int, Run], None],
) -> None: ...
