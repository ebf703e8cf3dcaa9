"""A server and a client in one process, over two paths of the loopback interface.

python bindings/python/examples/session.py
"""

import asyncio

import squall


async def serve(listener: squall.Listener) -> None:
    session = await listener.accept()
    if session is not None:
        async for block in session:
            print(f"block {block.id}: {len(block.data)} bytes, priority {block.priority}")


async def main() -> None:
    listener = squall.listen("127.0.0.1:0")
    serving = asyncio.create_task(serve(listener))
    session = await squall.connect(
        listener.addresses[0], fingerprint=listener.fingerprint, local=["127.0.0.2", "127.0.0.3"]
    )
    for number in range(3):
        sent = await session.send(bytes(20_000), deadline=0.15, priority=0 if number == 0 else 3)
        print(f"block {sent.id}: {await sent.outcome()}")
    await session.finish()
    await serving


if __name__ == "__main__":
    asyncio.run(main())
