"""Measure whether step time depends on the size of the graph (the paper's section 4.3: O(m)).

Step time at a fixed batch size with 10^4, 10^5 and 10^6 entities per view and ten weighted links
per entity. Views have 128 dense features, or 20 entries per row in as many sparse columns as
entities, or no features. The sizes are timed alternately in one run; medians.

    python benchmarks/growth.py
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import torch
from output import write
from plotly import graph_objects
from scipy import sparse
from step import median_times

from pmvge import MultiViewGraph
from pmvge.encoders import EncoderSpec, MultiViewEncoder, choose_encoders, schemas_of
from pmvge.experiments.paper_model import paper_model
from pmvge.model.fitting.trainer import make_trainer

SIZES = (10_000, 100_000, 1_000_000)
GOAL = 1.3


KINDS = ("dense", "sparse", "none")


def features(kind: str, n: int, rng: np.random.Generator) -> Any:
    """Return features of one view: (n, 128) dense, (n, n) with 20 entries per row, or none."""
    if kind == "dense":
        return rng.standard_normal((n, 128), dtype=np.float32)
    if kind == "none":
        return n
    columns = rng.integers(n, size=(n, 20), dtype=np.int32).ravel()
    start = np.arange(0, 20 * n + 1, 20, dtype=np.int32)
    return sparse.csr_array((np.ones(20 * n, np.float32), columns, start), shape=(n, n))


def problem(kind: str, n: int, rng: np.random.Generator) -> MultiViewGraph:
    views = {view: features(kind, n, rng) for view in ("left", "right")}
    ends = rng.integers(n, size=(2, 10 * n))
    return MultiViewGraph(views, {("left", "right"): (*ends, rng.uniform(0.5, 2.0, 10 * n))})


def measure(kind: str, repeats: int) -> list[dict[str, Any]]:
    """Return a row of results for each size."""
    steps, set_up = {}, {}
    for n in SIZES:
        start = time.perf_counter()
        graph = problem(kind, n, np.random.default_rng(0))
        settings = paper_model(n_components=64, random_state=0).get_params()
        spec = EncoderSpec("mlp", (256,), "relu", "identity", False, 0.3, 0.0)
        choices = choose_encoders("mlp", spec, schemas_of(graph))
        network = MultiViewEncoder(choices, schemas_of(graph), 64, "cosine")
        network.train()
        trainer = make_trainer(settings, network, graph, None, torch.device("cpu"), 0)
        batches = iter(trainer.batches)
        steps[f"{n:,}"] = lambda trainer=trainer, batches=batches: trainer.train_step(next(batches))
        set_up[f"{n:,}"] = time.perf_counter() - start
    times = median_times(steps, repeats)
    base = times[f"{SIZES[0]:,}"]
    return [
        {
            "features": kind,
            "nodes_per_view": name,
            "step_ms": 1e3 * seconds,
            "ratio": seconds / base,
            "set_up_seconds": set_up[name],
        }
        for name, seconds in times.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=100)
    repeats = parser.parse_args().repeats
    results, figure = [], graph_objects.Figure()
    for kind in KINDS:
        rows = measure(kind, repeats)
        for row in rows:
            size, step, ratio = row["nodes_per_view"], row["step_ms"], row["ratio"]
            print(f"{kind:>6} {size:>10} entities per view: {step:7.2f} ms per step, {ratio:.2f} x")
        figure.add_scatter(
            x=list(SIZES), y=[row["step_ms"] for row in rows], mode="lines+markers", name=kind
        )
        results += rows
    print(f"goal: at most {GOAL} x")
    figure.update_xaxes(type="log", title="entities per view")
    figure.update_yaxes(rangemode="tozero", title="milliseconds per step")
    write("growth", results, figure)


if __name__ == "__main__":
    main()
