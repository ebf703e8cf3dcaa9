#!/usr/bin/env python3
"""Writes the recordings that ship: scenarios/traces/drive.csv and lte.mahi.

They are made up, not measured: 20 s of a drive past an LTE cell, with a fade behind a building from 8 to 11 s in which
the rate nearly ends. `drive.csv` has rates, round trips and levels ten times a second; `lte.mahi` has the downlink
alone as mahimahi's opportunities. Numbers that look random come from a generator of its own, so the files are the
same everywhere.

Usage: scripts/drive-trace.py [FOLDER]
"""

import math
import os
import sys

STEP_MS = 100
LENGTH_MS = 20_000
PACKET_BITS = 1_500 * 8


def noise(state):
    """Numbers from -1 to 1 that follow one another slowly (Park and Miller's generator, smoothed)."""
    value = 0.0
    while True:
        state = state * 48271 % 0x7FFFFFFF
        value = 0.8 * value + 0.2 * (2 * state / 0x7FFFFFFF - 1)
        yield 2.5 * value


def rows():
    wobble, queue = noise(1), noise(2)
    for at_ms in range(0, LENGTH_MS, STEP_MS):
        at = at_ms / 1000
        passing = 14 * math.exp(-(((at - 14) / 6) ** 2))
        behind = 32 * math.exp(-(((at - 9.5) / 1.0) ** 4))
        rsrp = -97 + passing - behind + 1.5 * next(wobble)
        sinr = max(-12.0, min(25.0, 1.1 * (rsrp + 107)))
        down = max(0.05, 1.2 * math.log2(1 + 10 ** (sinr / 10)))
        rtt = 38 + 4 * next(queue) + 120 / (1 + down)
        yield at, down, 0.3 * down, rtt, rsrp, sinr


def table():
    yield "time_s,down_mbps,up_mbps,rtt_ms,rsrp_dbm,sinr_db,tech"
    for at, down, up, rtt, rsrp, sinr in rows():
        yield f"{at:.1f},{down:.2f},{up:.2f},{rtt:.1f},{rsrp:.1f},{sinr:.1f},LTE"


def opportunities():
    bits = 0.0
    for at, down, *_ in rows():
        for ms in range(STEP_MS):
            bits += down * 1000
            while bits >= PACKET_BITS:
                bits -= PACKET_BITS
                yield str(round(at * 1000) + ms + 1)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "..", "scenarios", "traces")
    os.makedirs(folder, exist_ok=True)
    for name, lines in [("drive.csv", table()), ("lte.mahi", opportunities())]:
        with open(os.path.join(folder, name), "w", encoding="ascii") as file:
            file.writelines(line + "\n" for line in lines)


if __name__ == "__main__":
    main()
