"""Squall: multipath QUIC for real-time media.

``squall.lab`` is the laboratory: experiments in virtual time.
"""

from squall._squall import Error

__all__ = ["Error"]
