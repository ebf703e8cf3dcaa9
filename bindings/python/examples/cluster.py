"""Times a sweep of 200 runs: one by one, on four local workers of Dask, and with one of them killed in the middle.

Processor time says what Dask adds; on a busy machine the speed-up says as much about the other work.

python bindings/python/examples/cluster.py [SEEDS]
"""

import os
import signal
import sys
import time
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

from distributed import Client, LocalCluster

from squall import lab

FOLDER = Path(__file__).parents[3] / "scenarios"
SCENARIOS = [FOLDER / "fading.toml", FOLDER / "lossy.toml"]


def sweep(seeds: int, executor: Executor, victim: int | None = None) -> tuple[float, list[str]]:
    """The seconds of a sweep, and its runs. The process ``victim`` is killed when half of them have ended."""

    def progress(ended: int, total: int) -> None:
        if victim is not None and ended == total // 2:
            os.kill(victim, signal.SIGKILL)

    begin = time.perf_counter()
    results = lab.sweep(SCENARIOS, ["minrtt", "squall"], range(seeds), executor, progress=progress)
    return time.perf_counter() - begin, [run.to_record() for run in results]


def processor_time(client: Client) -> float:
    """Seconds of this process, which is also the scheduler of Dask, and of the workers."""
    return time.process_time() + float(sum(client.run(time.process_time).values()))


def main(seeds: int) -> None:
    before = time.process_time()
    with ThreadPoolExecutor(1) as executor:
        serial, expected = sweep(seeds, executor)
    used = time.process_time() - before
    print(f"one by one: {len(expected)} runs in {serial:.1f} s, {used:.1f} s of processor time")
    with LocalCluster(n_workers=4, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:  # type: ignore[no-untyped-call]
        victim = min(client.run(os.getpid).values())
        before = processor_time(client)
        spent, records = sweep(seeds, client.get_executor())
        assert records == expected
        used = processor_time(client) - before
        print(f"four workers: {spent:.1f} s, speed-up {serial / spent:.2f}, {used:.1f} s of processor time")
        spent, records = sweep(seeds, client.get_executor(), victim)
        assert records == expected
        print(f"one of four killed: {spent:.1f} s, speed-up {serial / spent:.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
