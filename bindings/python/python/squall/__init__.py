"""Squall: multipath QUIC for real-time media.

Sessions for asyncio send blocks over every network of the device::

    session = await squall.connect("media.example:4433", fingerprint=FINGERPRINT)
    sent = await session.send(frame, deadline=0.15, priority=0)
    print(await sent.outcome())

``squall.lab`` is the laboratory: experiments in virtual time. Times of sessions are seconds, those of the laboratory
microseconds.
"""

from squall._squall import Error, Listener, Received, Sent, Session, SessionError, connect, listen

__all__ = ["Error", "Listener", "Received", "Sent", "Session", "SessionError", "connect", "listen"]
