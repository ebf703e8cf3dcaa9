"""Sessions over loopback."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

import squall

#: Two paths.
LOCAL = ["127.0.0.2", "127.0.0.3"]


async def pair() -> tuple[squall.Listener, squall.Session, squall.Session]:
    listener = squall.listen("127.0.0.1:0")
    connecting = squall.connect(listener.addresses[0], fingerprint=listener.fingerprint, local=LOCAL)
    client, server = await asyncio.wait_for(asyncio.gather(connecting, listener.accept()), 10)
    assert server is not None
    return listener, client, server


def test_blocks_arrive_with_their_options() -> None:
    async def run() -> None:
        _listener, client, server = await pair()
        sent = await client.send(b"key", deadline=2.0, priority=0, channel=7)
        other = await client.send(bytearray(100_000), reliable=False, partial=True)
        first, second = await asyncio.wait_for(server.recv(), 5), await asyncio.wait_for(server.recv(), 5)
        assert first is not None and second is not None
        blocks = {block.id: block for block in (first, second)}
        key, large = blocks[sent.id], blocks[other.id]
        assert (key.data, key.priority, key.channel, key.reliable) == (b"key", 0, 7, True)
        assert large.missing == []
        assert (large.data, large.priority, large.channel, large.reliable) == (bytes(100_000), 3, 0, False)
        assert await asyncio.wait_for(sent.outcome(), 5) == "delivered"
        with pytest.raises(RuntimeError, match="asked for before"):
            await sent.outcome()
        for _ in range(100):
            if len(client.paths()) == 2:
                break
            await asyncio.sleep(0.05)
        assert sorted(path[0].split(":")[0] for path in client.paths()) == LOCAL
        assert server.remote is not None and client.max_block_len == 16 << 20

    asyncio.run(run())


def test_a_block_takes_the_only_path_that_its_hint_names() -> None:
    async def run() -> None:
        listener, client, server = await pair()
        await client.send(b"only", only=LOCAL[0])
        await client.send(b"preferred", prefer=LOCAL[0])
        await client.send(b"elsewhere", avoid="nowhere0")
        arrived = [await asyncio.wait_for(server.recv(), 5) for _ in range(3)]
        assert {block.data for block in arrived if block} == {b"only", b"preferred", b"elsewhere"}
        with pytest.raises(ValueError, match="^give one of prefer, avoid and only$"):
            await client.send(b"x", prefer=LOCAL[0], avoid=LOCAL[1])
        listener.close()

    asyncio.run(run())


def test_many_blocks_both_ways_and_the_end() -> None:
    async def run() -> None:
        listener, client, server = await pair()

        async def echo() -> int:
            count = 0
            async for block in server:
                await server.send(block.data, ordered=True)
                count += 1
                if count == 200:
                    await server.finish()
            return count

        async def send() -> None:
            for number in range(200):
                await client.send(number.to_bytes(4, "big") * 500, ordered=True)

        async def read() -> list[bytes]:
            return [block.data async for block in client]

        count, _, echoed = await asyncio.wait_for(asyncio.gather(echo(), send(), read()), 20)
        assert count == 200
        assert echoed == [number.to_bytes(4, "big") * 500 for number in range(200)]
        assert await asyncio.wait_for(client.recv(), 5) is None
        assert "closed" in await asyncio.wait_for(client.closed(), 5)
        with pytest.raises(squall.SessionError, match="^session is closed$"):
            await client.send(b"late")
        listener.close()
        assert await asyncio.wait_for(listener.accept(), 5) is None

    asyncio.run(run())


def test_a_cancelled_recv_loses_no_block() -> None:
    async def run() -> None:
        _listener, client, server = await pair()
        for number in range(20):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(server.recv(), 0.01)
            await client.send(bytes([number]))
            block = await asyncio.wait_for(server.recv(), 5)
            assert block is not None and block.data == bytes([number])

    asyncio.run(run())


def test_a_block_that_cannot_be_in_time_expires() -> None:
    async def run() -> None:
        _listener, client, _server = await pair()
        sent = [await client.send(bytes(1 << 20), deadline=0.001) for _ in range(20)]
        outcomes = [await asyncio.wait_for(block.outcome(), 5) for block in sent]
        assert "expired" in outcomes

    asyncio.run(run())


def test_an_identity_stays_the_same(tmp_path: Path) -> None:
    file = tmp_path / "server.pem"
    prints = [squall.listen("127.0.0.1:0", identity=file).fingerprint for _ in range(2)]
    assert prints[0] == prints[1] and file.exists()
    assert squall.listen("127.0.0.1:0").fingerprint != prints[0]


def test_a_port_is_free_again_after_its_listener() -> None:
    async def run() -> None:
        # An address on which no other test takes the port in between.
        address, kept = "127.0.0.77:0", []
        for number in range(20):
            listener = squall.listen(address)
            address = listener.addresses[0]
            connecting = squall.connect(address, fingerprint=listener.fingerprint, local=LOCAL)
            sides = await asyncio.wait_for(asyncio.gather(connecting, listener.accept()), 10)
            if number == 0:
                with pytest.raises(squall.SessionError, match="in use"):
                    squall.listen(address)
            if number % 2:
                # A closed listener has no port, even if it is still referenced.
                kept.append((listener, sides))
                listener.close()
            del listener, sides

    asyncio.run(run())


def test_mistakes_are_one_line() -> None:
    async def run() -> None:
        listener = squall.listen("127.0.0.1:0")
        host = listener.addresses[0]
        for wrong, words in [
            ({"fingerprint": "12"}, "12"),
            ({"fingerprint": listener.fingerprint, "roots": "ca.pem"}, "not both"),
            ({"local": LOCAL, "interfaces": ["lo"]}, "not both"),
            ({"scheduler": "fastest"}, "unknown scheduler 'fastest'"),
        ]:
            with pytest.raises(ValueError, match=words):
                await squall.connect(host, **wrong)  # type: ignore[arg-type]
        with pytest.raises(squall.SessionError) as caught:
            await squall.connect(host, fingerprint="ab" * 32, local=LOCAL[:1])
        assert str(caught.value) and "\n" not in str(caught.value)
        with pytest.raises(squall.SessionError, match=r"ca\.pem"):
            await squall.connect(host, roots="ca.pem")
        with pytest.raises(squall.SessionError):
            squall.listen("not an address")
        _listener, client, _server = await pair()
        with pytest.raises(ValueError, match="8"):
            await client.send(b"x", priority=8)
        with pytest.raises(ValueError, match="1024"):
            await client.send(b"x", channel=1024)
        with pytest.raises(ValueError, match="^deadline: "):
            await client.send(b"x", deadline=-1.0)
        with pytest.raises(squall.SessionError, match="at least one byte"):
            await client.send(b"")

    asyncio.run(run())


def test_processes_with_sessions_end_cleanly() -> None:
    # The interpreter shuts down while results are being returned to it; many at once, because it depends on the timing.
    command = [sys.executable, str(ROOT / "bindings/python/examples/session.py")]
    processes = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for _ in range(24)]
    assert [(process.communicate()[1], process.returncode) for process in processes] == [("", 0)] * 24
