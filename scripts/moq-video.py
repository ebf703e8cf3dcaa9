#!/usr/bin/env python3
"""Sends and receives live H.264 by Media over QUIC, for docs/recipes.md. Needs the package moq-rs.

    ffmpeg ... -bsf:v h264_metadata=aud=insert -f h264 - | moq-video.py send https://HOST:PORT
    moq-video.py receive ADDRESS:PORT    # accepts the sender, and prints time in µs and bytes of each frame
"""

import asyncio
import sys

import moq

DELIMITER = b"\x00\x00\x00\x01\x09"  # the access unit delimiter, with which each frame begins
NAME = "cam"


async def send(url):
    # The certificate of the receiver is one of its own.
    async with moq.Client(url, tls_verify=False, websocket_enabled=False) as client:
        broadcast = client.create_broadcast(NAME)
        video = broadcast.publish_video_stream(moq.VideoFormat.AVC3)
        broadcast.announce()
        frame, loop = b"", asyncio.get_running_loop()
        while data := await loop.run_in_executor(None, sys.stdin.buffer.read1, 65536):
            *whole, frame = (frame + data).split(DELIMITER)
            for one in whole:
                if one:
                    video.write(DELIMITER + one)
        video.write(DELIMITER + frame)
        video.finish()
        # What is on its way still arrives.
        await asyncio.sleep(1)


async def receive(address):
    offers = moq.OriginProducer()
    async with moq.Server(address, tls_generate=["localhost"], subscribe=offers) as server:
        serving = asyncio.create_task(server.serve())
        broadcast = await offers.consume().announced_broadcast(NAME)
        async for catalog in await broadcast.subscribe_catalog():
            for name, video in catalog.video.items():
                async for frame in await broadcast.subscribe_media(name, video):
                    print(frame.timestamp_us, len(frame.payload), flush=True)
                return serving.cancel()


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("send", "receive"):
        sys.exit(__doc__)
    asyncio.run({"send": send, "receive": receive}[sys.argv[1]](sys.argv[2]))
