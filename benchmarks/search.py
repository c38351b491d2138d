"""Compare exact and approximate search with a bare product and partition, in one run.

    python benchmarks/search.py                     # exact search, 10^5 and 10^6 candidates
    python benchmarks/search.py --approximate 1000000

The exact part takes random vectors of 64 coordinates and batches of 256 queries and of 1. The bare
computation is `torch.topk(Q @ C.T, k)`; numpy's `argpartition` is beside it. Ratios are medians
over rounds in which all run in turns, of processor time. The approximate part fits a model to a
simulated graph, as benchmarks/ann.py does, and needs the extra `ann`. One thread.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ann import USERS, fitted
from output import RESULTS

from pmvge import MultiViewGraph, PMvGE
from pmvge.search import ExactIndex

K, WIDTH, GOAL = 10, 64, 1.5
ROUNDS = {1: 15, 256: 3}
NUMPY_SCORES = 10**8  # argpartition of more takes long


def timed(function: Callable[[], Any]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def rounds(functions: dict[str, Callable[[], Any]], n: int) -> dict[str, list[float]]:
    """Return the times of functions that run in turns, after one round to warm up."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for turn in range(n + 1):
        for name, function in functions.items():
            seconds = timed(function)
            if turn:
                times[name].append(seconds)
    return times


def exact(m: int, batch: int) -> dict[str, Any]:
    """Return the times of a search and of the bare computation, in ms a query."""
    rng = np.random.default_rng(0)
    C = rng.standard_normal((m, WIDTH), np.float32)
    Q = rng.standard_normal((batch, WIDTH), np.float32)
    index, tensor = ExactIndex(C), torch.from_numpy(C)

    def numpy_partition() -> None:
        g = Q @ C.T
        best = np.argpartition(g, -K, axis=1)[:, -K:]
        np.take_along_axis(g, best, 1)

    functions: dict[str, Callable[[], Any]] = {
        "pmvge": lambda: index.top_k(Q, K),
        "torch": lambda: torch.topk(torch.from_numpy(Q) @ tensor.T, K, dim=1),
    }
    if m * batch <= NUMPY_SCORES:
        functions["numpy"] = numpy_partition
    times = rounds(functions, ROUNDS[batch])
    found: dict[str, Any] = {"candidates": m, "queries": batch}
    for name, seconds in times.items():
        found[f"{name}_ms"] = 1e3 * statistics.median(seconds) / batch
        pairs = zip(times["pmvge"], seconds, strict=True)
        if name != "pmvge":
            found[f"over_{name}"] = statistics.median(a / b for a, b in pairs)
    return found


def whole_search(m: int, batch: int) -> dict[str, Any]:
    """Return the time of ``Index.search`` by ids, with effects, over that of its product alone."""
    rng = np.random.default_rng(0)
    links = (rng.integers(0, 1000, 20_000), rng.integers(0, m, 20_000))
    graph = MultiViewGraph({"user": 1000, "film": m}, {("user", "film"): links})
    model = PMvGE(WIDTH, max_steps=1, random_state=0, progress=False).fit(graph, hold_out=0)
    index = model.index("film", among="user")
    C = torch.from_numpy(model.vectors("film", among="user", side="candidate"))
    Q = torch.from_numpy(model.vectors("user", among="film")[:batch])
    ids = np.arange(batch)
    times = rounds(
        {
            "search": lambda: index.search(ids=ids, k=K),
            "known": lambda: index.search(ids=ids, k=K, exclude="known"),
            "torch": lambda: torch.topk(Q @ C.T, K, dim=1),
        },
        ROUNDS[batch],
    )
    pairs = {
        name: statistics.median(a / b for a, b in zip(times[name], times["torch"], strict=True))
        for name in ("search", "known")
    }
    return {
        "candidates": m,
        "queries": batch,
        "search_ms": 1e3 * statistics.median(times["search"]) / batch,
        "over_torch": pairs["search"],
        "excluding_known_over_torch": pairs["known"],
    }


def approximate(m: int, steps: int, folder: Path | None) -> dict[str, Any]:
    """Return recall and times of an approximate index, and of exact search of the same queries."""
    if folder is not None and folder.is_dir():
        model = PMvGE.load(folder)
    else:
        model = fitted(m, steps)
        if folder is not None:
            model.save(folder)
    model.progress = False
    start = time.process_time()
    index = model.index("film", among="user", kind="hnsw")
    built = time.process_time() - start
    exact_index = model.index("film", among="user")
    found: dict[str, Any] = {
        "candidates": m,
        "build_seconds": built,
        "recall_when_built": index.recall,
        "effort": index._candidates.vectors.effort,  # type: ignore[attr-defined]
    }
    ids = np.random.default_rng(1).permutation(USERS)[:256]
    truth, got = (kind.search(ids=ids, k=K)[0] for kind in (exact_index, index))
    hits = sum(len(np.intersect1d(a, b)) for a, b in zip(truth, got, strict=True))
    found["recall"] = hits / truth.size
    for batch in (1, 256):
        part = ids[:batch]
        times = rounds(
            {
                "exact": lambda part=part: exact_index.search(ids=part, k=K),
                "approximate": lambda part=part: index.search(ids=part, k=K),
            },
            ROUNDS[batch],
        )
        pairs = zip(times["approximate"], times["exact"], strict=True)
        found[f"queries_{batch}"] = {
            "exact_ms": 1e3 * statistics.median(times["exact"]) / batch,
            "approximate_ms": 1e3 * statistics.median(times["approximate"]) / batch,
            "share_of_exact": statistics.median(a / b for a, b in pairs),
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--candidates", type=int, nargs="*", default=[10**5, 10**6])
    parser.add_argument("--approximate", type=int, help="candidates of an approximate index")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--model", type=Path, help="folder to keep the fitted model in")
    options = parser.parse_args()
    torch.set_num_threads(1)
    path = RESULTS / "search.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    if options.approximate:
        results["approximate"] = approximate(options.approximate, options.steps, options.model)
        print(json.dumps(results["approximate"], indent=1))
    else:
        results["exact"], results["search"] = [], []
        for m in options.candidates:
            for batch in (256, 1):
                row = exact(m, batch)
                results["exact"].append(row)
                print(
                    f"{m:>9,} candidates, {batch:>3} queries: {row['pmvge_ms']:.3f} ms a query, "
                    f"{row['over_torch']:.2f} of torch, "
                    f"{row.get('over_numpy', np.nan):.2f} of numpy",
                    flush=True,
                )
                row = whole_search(m, batch)
                results["search"].append(row)
                print(
                    f"{'':>20} Index.search by ids: {row['over_torch']:.2f} of torch, "
                    f"without known links {row['excluding_known_over_torch']:.2f}",
                    flush=True,
                )
        worst = max(row["over_torch"] for row in results["exact"])
        print(f"at most {worst:.2f} times the bare product and partition (goal: {GOAL})")
    RESULTS.mkdir(exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
