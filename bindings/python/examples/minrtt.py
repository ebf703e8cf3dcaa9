"""minRTT in Python beside the built-in one: the same results, in some more time.

python bindings/python/examples/minrtt.py
"""

import time
from pathlib import Path

from squall import lab

SCENARIO = Path(__file__).parents[3] / "scenarios/lossy.toml"


class MinRtt(lab.Scheduler):
    """Repairs first, then new data, each packet on the path with the lowest RTT that has congestion window left."""

    name = "my-minrtt"

    def next(self, context: lab.Context) -> lab.Send | None:
        path, work = context.fastest_with_room(), context.next_in_line()
        return lab.Send(work, path) if path and work else None


def main() -> None:
    runs = []
    for scheduler in ("minrtt", MinRtt):
        begin = time.perf_counter()
        [run] = lab.run(SCENARIO, scheduler, seeds=1)
        latency = run.measure("p99_latency", flow="camera") or 0.0
        print(f"{run.scheduler:10} p99 {latency / 1e3:.1f} ms, {time.perf_counter() - begin:.2f} s")
        runs.append(run)
    assert runs[0].values() == runs[1].values()
    print("all measures are equal")


if __name__ == "__main__":
    main()
