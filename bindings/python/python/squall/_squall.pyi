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
    """What Squall reports, in one line. The base of all its exceptions."""

class ScenarioError(Error):
    """A scenario, scheduler or seed that can't be used: exit code 2 of the command, with the same line."""

class RunError(Error):
    """A run that failed: exit code 1 of the command, with the same line."""

class SessionError(Error):
    """A session that can't be had, is over, or belongs to the process that this one was forked from."""

def listen(
    address: str, *, identity: str | PathLike[str] | None = None, name: str = "localhost", scheduler: str | None = None
) -> Listener:
    """Listens on ``host:port``; port 0 takes a free one. Needs no running event loop. Waits up to half a second for a port that
    is in use.

    Args:
        address: such as ``[::]:4433``, which takes IPv4 as well.
        identity: a file with certificate and key, made if it is not there. By default a certificate for this process only.
        name: the name in a certificate that is made.
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
        fingerprint: of the certificate of the server, which is trusted whatever its name.
        roots: a file of authorities that are trusted; without both, those of the operating system.
        local: addresses to send from, a path each.
        interfaces: names of interfaces to use. Without both, every one with a route to the server, also later ones.
        scheduler: as ``squall-lab schedulers`` lists them; by default ``squall``.

    Raises:
        SessionError: the server can't be reached or is not trusted.
        ValueError: arguments that contradict each other, or can't be read.
    """

@final
class Listener:
    """Accepts sessions, until it is closed or dropped; those that were accepted continue when it is dropped."""

    @property
    def addresses(self) -> list[str]:
        """The addresses that it listens on."""
    @property
    def fingerprint(self) -> str:
        """Of its certificate, for ``connect``."""
    def accept(self) -> Awaitable[Session | None]:
        """The next session; None when the listener was closed."""
    def close(self, code: int = 0, reason: str = "") -> None:
        """Stops listening and ends all of its sessions. The port is free at most 0.3 s later."""

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
            reliable: whether lost parts are sent again.
            partial: whether the peer gets what arrived of it when it ends incomplete, by its deadline or by losses.
            ordered: delivered after the ordered block before it on its channel.
            channel: 0 to 1023.
            value: what is lost if only this block is missing, relative to others; by default 4^(7 - priority).
            prefer: paths to take while one of them is usable, by the name or local address of their interface, or "#2" for a number.
            avoid: paths to take only while no other is usable.
            only: paths of which one is taken, or none.

        Raises:
            SessionError: the session is over, or the block is empty or too large.
            ValueError: an option out of bounds.
        """
    def recv(self) -> Awaitable[Received | None]:
        """The next block that is complete, or partial and at its end; None when the session has ended and all blocks were read."""
    def __aiter__(self) -> Session: ...
    def __anext__(self) -> Awaitable[Received]: ...
    def finish(self, timeout: float = 5.0) -> Awaitable[None]:
        """Waits until every block has an outcome, at most ``timeout`` seconds, then closes.

        Raises:
            SessionError: some had none in time.
        """
    def close(self, code: int = 0, reason: str = "") -> None:
        """Ends the session at once; code and reason reach the peer."""
    def closed(self) -> Awaitable[str]:
        """Waits for the end; returns the reason."""
    @property
    def remote(self) -> str | None:
        """The address of the peer."""
    @property
    def max_block_len(self) -> int:
        """The largest block in bytes that both sides take."""
    @property
    def safe_rate(self) -> int:
        """Bit/s that blocks can use over the next second with probability 0.9, for an encoder."""
    def paths(self) -> list[tuple[str, str, str, float]]:
        """Local address, address of the peer, state (``opening``, ``active``, ``suspect``, ``deactivated``) and smoothed
        round-trip time in seconds of every path."""

@final
class Sent:
    """A block that was handed over. Dropping it changes nothing."""

    @property
    def id(self) -> int:
        """As ``Received.id`` at the peer."""
    def outcome(self) -> Awaitable[str]:
        """Waits for the end of the block: ``delivered``, ``expired``, ``lost``, ``cancelled``, ``refused``, or ``closed`` if
        the session ended first. Can be called once; a second call raises ``RuntimeError``."""

@final
class Received:
    """A block that arrived."""

    @property
    def id(self) -> int:
        """Grows in the order of sending."""
    @property
    def data(self) -> bytes:
        """Its bytes, zeros for those that are missing; each access copies them."""
    @property
    def missing(self) -> list[tuple[int, int]]:
        """First byte, and one past the last, of each range that did not arrive of a partial block; empty if it is whole.
        The last range ends at 16 MiB, beyond the data, if the length of the block never became known."""
    @property
    def channel(self) -> int:
        """0 to 1023."""
    @property
    def priority(self) -> int:
        """0, the most important, to 7."""
    @property
    def reliable(self) -> bool:
        """Whether lost parts were sent again."""

@final
class Scenario:
    """A scenario, or one point of an experiment. Immutable; can be pickled, as its text and the folder of its traces.

    ``squall.lab.load``, ``parse`` and ``cells`` make them.
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
        """Its name; of a point of an experiment, with the point behind it."""
    @property
    def experiment(self) -> str:
        """The name without the point."""
    @property
    def point(self) -> dict[str, str]:
        """The point of each axis; empty of a scenario that is no point of an experiment."""
    @property
    def description(self) -> str:
        """What it shows."""
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
        """It as TOML."""
    def key(self, scheduler: str, seed: int, program: int) -> str:
        """16 hexadecimal digits that stand for everything that the result of a run depends on."""

@final
class Run:
    """What one run measured. Immutable; can be pickled."""

    @staticmethod
    def from_record(line: str) -> Run:
        """Reads what :meth:`to_record` wrote.

        Raises:
            ValueError: it is something else.
        """
    def to_record(self) -> str:
        """The line of a folder of ``squall-lab repro`` or ``squall.lab.sweep``, with its end."""
    @property
    def scenario(self) -> str:
        """Name of the scenario."""
    @property
    def experiment(self) -> str:
        """The same without the point of an experiment."""
    @property
    def point(self) -> dict[str, str]:
        """The point of each axis of an experiment."""
    @property
    def scheduler(self) -> str:
        """The scheduler, as it was asked for."""
    @property
    def seed(self) -> int:
        """The seed."""
    @property
    def key(self) -> str:
        """Stands for everything that the result depends on."""
    @property
    def passed(self) -> bool:
        """Whether all checks of the scenario passed that are about its scheduler; ``to_dict()["checks"]`` has them."""
    def to_json(self) -> str:
        """The line of ``squall-lab run --json``; of a sweep, without series over time and single blocks."""
    def to_dict(self) -> dict[str, Any]:
        """The same as a dict; docs/lab.md has the fields."""
    def measure(
        self, measure: str, *, flow: str | None = None, class_: str | None = None, path: str | None = None
    ) -> float | None:
        """One number: of the run, a path, a flow or a class of one, or of what the latter two sent on a path.

        Returns:
            None if there was nothing to measure. ``squall.lab.measures`` has the units.

        Raises:
            ValueError: no such measure, flow, class or path; the text lists those that there are.
        """
    def values(self) -> list[tuple[str | None, str | None, str | None, str, float]]:
        """All of its numbers: flow, class, path, measure and value, in the order of ``squall-lab repro --csv``."""

@final
class Path:
    """A path at one moment, as a scheduler sees it. Times are microseconds."""

    id: int
    """0 to 7, in the order of ``Scenario.paths``."""
    state: str
    """``active``, ``suspect`` (silent while packets were in flight) or ``deactivated`` (by a radio alert)."""
    usable: bool
    """Whether new data may be put on it now."""
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
    """Bytes in flight, including what waits for the pacer."""
    waiting: int
    """Of these, bytes that have not left yet."""
    chunk: int
    """Bytes of a block that fit into one packet."""
    bandwidth: int
    """Window over smoothed RTT, at most what was delivered of late, in bit/s."""
    rate: int
    """What the path carries by the estimate of its controller, in bit/s."""
    factor: float
    """Signal factor in (0, 1]: 1 unless the radio gave a warning."""
    metered: bool
    """Whether bytes on it cost money."""
    budget: int | None
    """Bytes that it may still carry, if there is a limit."""
    @property
    def room(self) -> int:
        """Bytes that the window leaves; 0 on a path that is not usable."""
    @property
    def has_room(self) -> bool:
        """Whether one packet more fits. Only such paths can be sent on."""
    @property
    def is_open(self) -> bool:
        """Whether data can go on it, at the latest when its window opens."""
    def arrives_in(self, bytes: int) -> int:
        """When a packet arrives, from now on, that leaves behind what is in flight and ``bytes`` more."""

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
        """The first ``length`` bytes of it, at least one."""

@final
class Block:
    """An unfinished block at one moment. Times are microseconds, sizes bytes."""

    id: int
    """Grows in the order of handing over."""
    length: int
    """Size; of a block that grows, what there is of it."""
    deadline: int | None
    """When it becomes worthless, on the clock of ``Context.now``."""
    priority: int
    """0, the most important, to 7."""
    reliable: bool
    """Whether lost bytes are sent again."""
    partial: bool
    """Whether the receiver has a use for what arrives of it, if it does not arrive whole."""
    channel: int
    """0 to 1023."""
    submitted: int
    """When it was handed over."""
    value: int
    """What is lost if only this block is missing, relative to others."""
    needs: list[int]
    """Blocks that it is useless without."""
    is_growing: bool
    """Whether more bytes will come."""
    fresh_bytes: int
    """Bytes never sent."""
    lost_bytes: int
    """Bytes to send again."""
    in_flight_bytes: int
    """Bytes whose fate is open."""
    acked_bytes: int
    """Bytes that the peer has."""
    unsent_bytes: int
    """Bytes to send, fresh or lost."""
    segments: list[tuple[int, int, str, list[int]]]
    """Start, end, state (``fresh``, ``sent``, ``lost``, ``acked``) and ids of the paths that it is in flight on."""
    next_work: Work | None
    """What to send of it next, if anything."""
    def copy(self, start: int, end: int) -> Work:
        """A further copy of bytes within one segment that is sent.

        Raises:
            ValueError: they are not.
        """

@final
class Context:
    """What a scheduler decides from. Valid until the call ends that it is passed to; later use raises ``RuntimeError``."""

    now: int
    """The time in microseconds."""
    @property
    def paths(self) -> list[Path]:
        """Every open path, by ascending id."""
    def path(self, id: int) -> Path | None:
        """The path of that id."""
    def fastest_with_room(self) -> Path | None:
        """Among the paths with room, the one with the lowest smoothed RTT; the lower id wins a tie."""
    def next_in_line(self) -> Work | None:
        """Repairs, then what was never sent, in the order of handing over."""
    def next_repair(self) -> Work | None:
        """The oldest lost range of a reliable block."""
    def next_fresh(self) -> Work | None:
        """The range never sent that is next."""
    def blocks(self) -> list[Block]:
        """Every unfinished block, oldest first. Takes time in proportion to them."""
    def by_deadline(self, most: int | None = None) -> list[Block]:
        """At most ``most`` blocks with bytes to send, earliest deadline first, those without one last."""
    def block(self, id: int) -> Block | None:
        """The block of that id, if it is unfinished."""

@final
class Event:
    """Something that happened since the last decision. What an event of its kind does not have is None."""

    kind: str
    """``queued``, ``grew``, ``done``, ``acked``, ``lost``, ``unsent``, ``stalled`` or ``path`` (appeared, changed, is gone)."""
    block: int | None
    """The id of the block."""
    path: int | None
    """The id of the path."""
    start: int | None
    """First byte."""
    end: int | None
    """One past the last byte."""
    delivered: bool | None
    """Of ``done``: whether the peer has all of the block."""

@final
class Send:
    """Send work on a path that has room, or on the path of that id. The session sends as many whole packets of it as the
    window takes, and asks again."""

    def __new__(cls, work: Work, path: Path | int) -> Send: ...

@final
class Cancel:
    """Cancel a block: the peer is notified, and nothing more of it is sent."""

    def __new__(cls, block: Block | int) -> Cancel: ...

@final
class Probe:
    """Measure the round trip of a path that carries nothing."""

    def __new__(cls, path: Path | int) -> Probe: ...

@final
class Idle:
    """Nothing to send; ask again at ``wake``, in microseconds, if nothing happens before."""

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
