"""Compare today's defaults with those of version 0.1, on the same data and reported seeds.

Problems are the four simulated ones and Cora; scores in percent and processor seconds, means over
seeds 0 to 2. Goals are differences of the scores (simulated links), or the scores themselves and a
third of the time (Cora).

    PMVGE_DATA=path/to/data OMP_NUM_THREADS=1 python benchmarks/since_0_1.py
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np
import torch
from defaults import OLD
from output import RESULTS
from tasks import TASKS

# The goal of each score: a difference in points, or a score in percent.
GAINS = {
    "weak linear": {"auc": 0.2},
    "weak non-linear": {"auc": 0.3},
    "strong linear": {"auc": 0.9},
    "strong non-linear": {"auc": 0.6},
}
LEVELS = {"Cora (A)": {"accuracy": 85, "nmi": 56}, "Cora (B)": {"accuracy": 75, "nmi": 39}}


def run(settings: dict[str, Any], task: str, seeds: int) -> tuple[dict[str, float], float]:
    """Return mean scores in percent, and mean processor seconds."""
    rows, seconds = [], []
    for seed in range(seeds):
        started = time.process_time()
        rows.append(TASKS[task](settings, seed))
        seconds.append(time.process_time() - started)
    return {key: 100 * float(np.mean([r[key] for r in rows])) for key in rows[0]}, np.mean(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    seeds = parser.parse_args().seeds
    torch.set_num_threads(1)
    TASKS["strong linear"]({"max_steps": 10}, 99)  # load and compile
    results: dict[str, Any] = {}
    print("| problem | score | 0.1 | now | goal | met | seconds, now / 0.1 |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for task in (*GAINS, *LEVELS):
        (old, old_seconds), (new, seconds) = (run(each, task, seeds) for each in (OLD, {}))
        ratio = seconds / old_seconds
        results[task] = {"old": old, "new": new, "seconds": [old_seconds, seconds]}
        for key, goal in (GAINS.get(task) or LEVELS[task]).items():
            gained = task in GAINS
            met = new[key] - old[key] >= goal if gained else new[key] >= goal
            wanted = f"+{goal}" if gained else f"{goal}"
            print(
                f"| {task} | {key} | {old[key]:.1f} | {new[key]:.1f} | {wanted} | "
                f"{'yes' if met else 'no'} | {ratio:.2f} |",
                flush=True,
            )
    (RESULTS / "since_0_1.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
