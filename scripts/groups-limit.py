#!/usr/bin/env python3
"""How many frames of scenarios/limits/dark-references.toml can be decoded: an exact count beside the bound of docs/bound.md.

Two links of 20 Mbps, one dark for 3 s of each 10; 30 Mbps of frames in groups of 15, each frame of use only with all before it in
its group. The links are fluid: a frame is divided so that its parts arrive together, behind what was sent before.

    scripts/groups-limit.py [SEEDS]

Three senders: one with the future before it, which chooses for each group how many frames it sends; one that sends what is in time by all of
the present, and loses nothing when the link goes dark; and the same where the link's return is known only later.
"""

import random
import sys

RATE = 20e6 / 8e3 * 0.938  # bytes of frames per ms; the rest of a packet is headers
NEAR, FAR = 20.0, 40.0  # one-way delay in ms
GROUP, FRAMES, GAP = 15, 1800, 1000 / 30
PERIOD, DARK, LIGHT = 10_000, 6_000, 9_000
BEAM = 400  # states that the search keeps


def sizes(seed):
    """Bytes of each frame: key frames of four times the size, plus or minus 15 %."""
    rng = random.Random(seed)
    unit = 30e6 / 8 * 0.5 / (GROUP + 3)
    return [(1 if frame % GROUP else 4) * unit * rng.uniform(0.85, 1.15) for frame in range(FRAMES)]


def near_bytes(start, end, late):
    """What the first link takes between two times, if its return is known `late` ms after it."""
    total, at = 0.0, start
    while at < end:
        phase = at % PERIOD
        if DARK <= phase < LIGHT + late:
            at = min(end, at + LIGHT + late - phase)
            continue
        stop = min(end, at + (DARK if phase < DARK else PERIOD + DARK) - phase)
        total += (stop - at) * RATE
        at = stop
    return total


def send(free, released, size, late=0):
    """When a frame has arrived, and when each link is free then."""
    near, far = max(free[0], released), max(free[1], released)

    def arrived(by):
        return near_bytes(near, max(near, by - NEAR), late) + max(0.0, by - FAR - far) * RATE

    low, high = released, released + 5_000.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if arrived(middle) >= size else (middle, high)
    uses_near = near_bytes(near, max(near, high - NEAR), late) > 0
    return (max(near, high - NEAR) if uses_near else free[0], max(far, high - FAR) if high - FAR > far else free[1]), high


def clairvoyant(frames, deadline):
    states = {(0.0, 0.0): 0}
    for first in range(0, FRAMES, GROUP):
        reached = {}
        for free, count in states.items():
            reached[free] = max(reached.get(free, -1), count)
            for frame in range(first, first + GROUP):
                free, arrival = send(free, frame * GAP, frames[frame])
                if arrival > frame * GAP + deadline:
                    break
                count += 1
                key = (round(free[0]), round(free[1]))
                reached[key] = max(reached.get(key, -1), count)
        # A state with fewer frames and links that are free later leads nowhere.
        now = (first + GROUP) * GAP
        states = {}
        for free, count in sorted(reached.items(), key=lambda it: (-it[1], max(it[0][0], now) + max(it[0][1], now))):
            at = (max(free[0], now), max(free[1], now))
            if not any(a <= at[0] and b <= at[1] for a, b in states):
                states[at] = count
            if len(states) == BEAM:
                break
    return max(states.values()) / FRAMES


def causal(frames, deadline, late):
    free, count = (0.0, 0.0), 0
    for first in range(0, FRAMES, GROUP):
        for frame in range(first, first + GROUP):
            then, arrival = send(free, frame * GAP, frames[frame], late)
            if arrival > frame * GAP + deadline:
                break
            free, count = then, count + 1
    return count / FRAMES


def main():
    seeds = range(1, 1 + int(sys.argv[1] if len(sys.argv) > 1 else 3))
    for deadline in (300, 150):
        shares = [clairvoyant(sizes(seed), deadline) for seed in seeds]
        print(f"within {deadline} ms: with the future {100 * sum(shares) / len(shares):.1f} %", end="")
        for late in (0, 40, 65):
            shares = [causal(sizes(seed), deadline, late) for seed in seeds]
            print(f", with the present {100 * sum(shares) / len(shares):.1f} % (return known after {late} ms)", end="")
        print(flush=True)


if __name__ == "__main__":
    main()
