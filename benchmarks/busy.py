"""Measure how much longer a fit takes beside other busy processes than alone.

Fits of one to three seconds run alone, and beside one and two endless computations per core, in
turns; with the throttle of :mod:`pmvge.training.contention` and without it, in alternating order.
The ratio is the median time beside them over the median time alone without the throttle. In shorter
fits the first tenths of a second, before contention is detected, weigh more. Even a program with
one thread takes 1.5 times as long on two cores that it shares with two others, and 2.5 times with
four.

    python benchmarks/busy.py
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from output import write
from plotly import graph_objects

from pmvge import MultiViewGraph
from pmvge.experiments.paper_model import paper_model
from pmvge.training import contention

GOAL = 3.0  # time beside one busy process per core over time alone
SIZES = {"200 x 60": (200, 60, 10, 6, 16, 800), "2,400 x 900": (2400, 900, 128, 64, 32, 200)}


def problem(n: int, m: int, p: int, q: int) -> MultiViewGraph:
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(n, p)), rng.normal(size=(m, q))
    W = rng.poisson(20 / m * np.exp(0.4 * X[:, :4] @ T[:, :4].T))
    return MultiViewGraph({"left": X, "right": T}, {("left", "right"): W})


def compute_without_end() -> None:
    while True:
        sum(range(10_000))


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Keep so many processes computing."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=compute_without_end, daemon=True) for _ in range(count)]
    for process in processes:
        process.start()
    time.sleep(1.0 if count else 0.0)
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


def seconds_of_fit(graph: MultiViewGraph, K: int, steps: int, *, throttle: bool) -> float:
    limit = contention.MIN_PREEMPTIONS
    contention.MIN_PREEMPTIONS = limit if throttle else float("inf")
    model = paper_model(K, max_steps=steps, patience=None, random_state=0, progress=False)
    try:
        start = time.perf_counter()
        model.fit(graph)
        return time.perf_counter() - start
    finally:
        contention.MIN_PREEMPTIONS = limit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--steps", type=int, help="steps of each fit, for shorter or longer ones")
    given = parser.parse_args()
    repeats = given.repeats
    count = os.cpu_count() or 1
    results = []
    for name, (n, m, p, q, K, default_steps) in SIZES.items():
        steps = given.steps or default_steps
        graph = problem(n, m, p, q)
        seconds_of_fit(graph, K, 10, throttle=True)  # first calls allocate
        times: dict[tuple[bool, int], list[float]] = {}
        for repeat in range(repeats):
            for others in (0, count, 2 * count):
                order = [True, False] if repeat % 2 else [False, True]
                with busy_processes(others):
                    for throttle in order if others <= count else [True]:
                        found = seconds_of_fit(graph, K, steps, throttle=throttle)
                        times.setdefault((throttle, others), []).append(found)
        medians = {key: float(np.median(values)) for key, values in times.items()}
        alone = medians[False, 0]
        for throttle in (False, True):
            for others in sorted(others for kind, others in medians if kind is throttle):
                seconds = medians[throttle, others]
                row = {"entities": name, "throttle": throttle, "busy_processes": others}
                results.append({**row, "seconds": seconds, "ratio": seconds / alone})
                goal = f" (goal: below {GOAL:g})" if throttle and others == count else ""
                print(
                    f"{name:12} {'throttled' if throttle else 'spinning':10} beside {others} busy "
                    f"processes {seconds:6.2f} s: {seconds / alone:.1f} times{goal}"
                )
    figure = graph_objects.Figure()
    for throttle in (False, True):
        rows = [row for row in results if row["throttle"] is throttle]
        figure.add_bar(
            x=[f"{row['entities']}<br>{row['busy_processes']} busy" for row in rows],
            y=[row["ratio"] for row in rows],
            name="throttled" if throttle else "spinning",
        )
    figure.add_hline(y=GOAL, line_dash="dot")
    figure.update_layout(title="Time of a fit beside busy processes over its time alone")
    write("busy" if given.steps is None else f"busy-{given.steps}-steps", results, figure)


if __name__ == "__main__":
    main()
