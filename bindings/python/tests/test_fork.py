"""Children of ``fork()``: what they do leaves the sessions of the parent alone. Each test runs this file as a parent of its own."""

import asyncio
import gc
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import squall


class Stream(threading.Thread):
    """A session that sends a block every 10 ms, in a thread of its own: the one that forks has no event loop."""

    listener: squall.Listener
    session: squall.Session
    sent: squall.Sent

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.arrived = 0
        self.has_begun, self.ends = threading.Event(), threading.Event()

    def run(self) -> None:
        asyncio.run(self.stream())

    async def stream(self) -> None:
        self.listener = squall.listen("127.0.0.1:0")
        self.session, peer = await self.connect()
        counting = asyncio.ensure_future(self.count(peer))
        while not self.ends.is_set():
            self.sent = await self.session.send(b"a frame")
            if self.arrived >= 10:
                self.has_begun.set()
            await asyncio.sleep(0.01)
        await self.session.finish()
        await counting

    async def connect(self) -> tuple[squall.Session, squall.Session]:
        address = self.listener.addresses[0]
        connecting = squall.connect(address, fingerprint=self.listener.fingerprint, local=["127.0.0.2"])
        session, peer = await asyncio.wait_for(asyncio.gather(connecting, self.listener.accept()), 10)
        assert peer is not None
        return session, peer

    async def count(self, peer: squall.Session) -> None:
        async for _ in peer:
            self.arrived += 1


def ends(_stream: Stream) -> None:
    """An ordinary end, with what is registered for it."""
    sys.exit(3)


def listens(_stream: Stream) -> None:
    squall.listen("127.0.0.1:0")


def connects(stream: Stream) -> None:
    async def run() -> None:
        address, fingerprint = stream.listener.addresses[0], stream.listener.fingerprint
        session = await squall.connect(address, fingerprint=fingerprint, local=["127.0.0.3"])
        assert await (await session.send(b"of the child")).outcome() == "delivered"
        await session.finish()

    asyncio.run(run())


def listens_and_connects(_stream: Stream) -> None:
    async def run() -> None:
        other = Stream()
        other.listener = squall.listen("127.0.0.1:0")
        session, peer = await other.connect()
        await session.send(b"of the child")
        block = await peer.recv()
        assert block is not None and block.data == b"of the child"
        await session.finish()

    asyncio.run(run())
    sys.exit(0)


def uses_what_the_parent_has(stream: Stream) -> None:
    session, listener, sent = stream.session, stream.listener, stream.sent

    async def fails(call: Callable[[], Coroutine[Any, Any, object] | object]) -> None:
        with pytest.raises(squall.SessionError, match=r"^this process was forked from the one that has the \w+: "):
            result = call()
            if asyncio.iscoroutine(result):
                await result

    async def run() -> None:
        for call in (
            lambda: session.send(b"x"),
            session.recv,
            session.__anext__,
            session.finish,
            session.close,
            session.closed,
            session.paths,
            lambda: session.safe_rate,
            lambda: session.remote,
            lambda: session.max_block_len,
            listener.accept,
            listener.close,
            sent.outcome,
        ):
            await asyncio.wait_for(fails(call), 1)

    asyncio.run(run())


def drops_what_the_parent_has(stream: Stream) -> None:
    del stream.session, stream.listener, stream.sent
    gc.collect()


CHILDREN: list[Callable[[Stream], None]] = [
    ends,
    listens,
    connects,
    listens_and_connects,
    uses_what_the_parent_has,
    drops_what_the_parent_has,
]


def fork(child: Callable[[Stream], None], stream: Stream) -> int:
    pid = os.fork()
    if pid == 0:
        child(stream)
        os._exit(0)
    until = time.monotonic() + 10
    while time.monotonic() < until:
        if (ended := os.waitpid(pid, os.WNOHANG))[0]:
            return os.waitstatus_to_exitcode(ended[1])
        time.sleep(0.02)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    raise TimeoutError("the child does not end")


def process(child: Callable[[Stream], None], stream: Stream) -> int | None:
    process = multiprocessing.get_context("fork").Process(target=child, args=(stream,))
    process.start()
    process.join(10)
    if process.is_alive():
        process.kill()
        raise TimeoutError("the child does not end")
    return process.exitcode


def main(how: str, name: str) -> None:
    stream = Stream()
    stream.start()
    assert stream.has_begun.wait(10)
    child = next(child for child in CHILDREN if child.__name__ == name)
    code = {"fork": fork, "process": process}[how](child, stream)
    before, until = stream.arrived, time.monotonic() + 5
    while stream.arrived < before + 50 and time.monotonic() < until:
        time.sleep(0.02)
    goes_on = stream.arrived >= before + 50
    stream.ends.set()
    stream.join(5)
    print("child", code, "goes on" if goes_on else f"{stream.arrived - before} blocks", "hangs" if stream.is_alive() else "ends")


@pytest.mark.parametrize("how", ["fork", "process"])
@pytest.mark.parametrize("child", [child.__name__ for child in CHILDREN])
def test_a_child_leaves_its_parent_alone(how: str, child: str) -> None:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", __file__, how, child]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    code = 3 if child == "ends" else 0
    assert (run.stderr, run.stdout, run.returncode) == ("", f"child {code} goes on ends\n", 0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
