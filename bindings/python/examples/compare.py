"""Draws how latency and completion of four schedulers depend on the random loss of both paths, over ten seeds.

python bindings/python/examples/compare.py losses.png
"""

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from squall import lab

LOSSES = [0.0, 0.5, 1.0, 2.0, 4.0]
SCHEDULERS = ["minrtt", "ecf", "redundant", "squall"]


def scenario(loss: float) -> lab.Scenario:
    """Video of 8 Mbps over Wi-Fi and LTE, which both lose this percentage of packets."""
    return lab.parse(
        {
            "name": f"{loss} %",
            "duration": "10s",
            "schedulers": SCHEDULERS,
            "path": [
                {"name": "Wi-Fi", "rate": "20mbps", "delay": "12ms", "loss": f"{loss}%"},
                {"name": "LTE", "rate": "10mbps", "delay": "35ms", "loss": f"{loss}%"},
            ],
            "flow": [{"name": "video", "kind": "video", "fps": 30, "bitrate": "8mbps", "deadline": "150ms"}],
        }
    )


def main(file: str) -> None:
    results = lab.sweep([scenario(loss) for loss in LOSSES], seeds=range(10))
    columns = results.columns(["p99_latency", "in_time_ratio"])
    figure, (latency, completion) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    for scheduler in SCHEDULERS:
        rows = [(columns["scheduler"] == scheduler) & (columns["scenario"] == f"{loss} %") for loss in LOSSES]
        for axes, column, unit in (
            (latency, "flow.video.p99_latency", 1e-3),
            (completion, "flow.video.in_time_ratio", 100),
        ):
            values = [columns[column][row] * unit for row in rows]
            axes.errorbar(LOSSES, [np.mean(v) for v in values], [np.std(v) for v in values], label=scheduler, capsize=2)
    latency.set(xlabel="loss (%)", ylabel="p99 latency (ms)")
    completion.set(xlabel="loss (%)", ylabel="frames within 150 ms (%)")
    latency.legend()
    figure.savefig(file, dpi=120)
    print(f"{file}: {len(results)} runs")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "losses.png")
