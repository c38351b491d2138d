"""Where does the time of a default training step go?

Processor time of 200 steps on simulated links (K = 16) and, with PMVGE_DATA, on MovieLens (K = 100)
by kind of operation. "Outside of operations" is Python and torch's dispatch: the processor time of
the same steps without the profiler, minus that of the operations.

    PMVGE_DATA=path/to/data OMP_NUM_THREADS=1 python benchmarks/step_profile.py
"""

from __future__ import annotations

import json
import os
import time

import torch
from output import RESULTS
from problems import poisson_links
from torch.profiler import ProfilerActivity, profile

from pmvge import MultiViewGraph, PMvGE
from pmvge.datasets import load_movielens

STEPS = 200
KINDS = {
    "matrix products": ("aten::mm", "aten::addmm", "aten::addmv_", "aten::bmm"),
    "exponentials": ("aten::exp", "aten::exp_"),
    "Adam": ("aten::_fused_adamw_",),
    "gathering rows": (
        "aten::index_select",
        "aten::index",
        "aten::index_put_",
        "aten::_index_put_impl_",
        "aten::embedding_dense_backward",
        "aten::_embedding_bag",
    ),
}
OTHER, OUTSIDE = "other operations", "outside of operations"


def fit(graph: MultiViewGraph, K: int) -> float:
    """Fit for some steps, and return the processor seconds."""
    model = PMvGE(K, max_steps=STEPS, patience=None, random_state=0, progress=False)
    started = time.process_time()
    model.fit(graph)
    return time.process_time() - started


def shares(graph: MultiViewGraph, K: int) -> dict[str, float]:
    """Return the share of each kind of operation in the time of the steps."""
    fit(graph, K)  # load and compile
    seconds = min(fit(graph, K) for _ in range(3))
    with profile(activities=[ProfilerActivity.CPU]) as recorded:
        fit(graph, K)
    kind_of = {name: kind for kind, names in KINDS.items() for name in names}
    found = dict.fromkeys((*KINDS, OTHER), 0.0)
    for event in recorded.key_averages():
        if event.key.startswith("aten::"):
            found[kind_of.get(event.key, OTHER)] += event.self_cpu_time_total / 1e6
    found[OUTSIDE] = max(0.0, seconds - sum(found.values()))
    total = sum(found.values())
    return {"milliseconds": 1e3 * seconds / STEPS, **{k: v / total for k, v in found.items()}}


def main() -> None:
    torch.set_num_threads(1)
    problems = {"simulated": (poisson_links(strong=False, nonlinear=False, seed=0).train, 16)}
    if "PMVGE_DATA" in os.environ:
        problems["MovieLens"] = (load_movielens(), 100)
    results = {name: shares(*problem) for name, problem in problems.items()}
    print(f"| | {' | '.join(results)} |")
    print(f"| --- |{' --- |' * len(results)}")
    for key in next(iter(results.values())):
        numbers = [
            f"{row[key]:.1f}" if key == "milliseconds" else f"{100 * row[key]:.0f} %"
            for row in results.values()
        ]
        name = "milliseconds per step" if key == "milliseconds" else key
        print(f"| {name} | {' | '.join(numbers)} |")
    (RESULTS / "step_profile.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
