"""Measure how much of a training step is arithmetic.

The ratio is the time of a full step (draw the batch, gather, forward, backward, clip, Adam) over
the time of its matrix products alone: each layer's forward product and its two backward products
(except the input's gradient), and the block product and its two. A batch has 512 links and 512
uniform entities per side. Steps and products are timed alternately in one run; medians.

With ``--kinds``, the CPU time of a step with each similarity and each family over that of a step
with inner products and Poisson weights is measured instead, with the small network.

    python benchmarks/step.py
    OMP_NUM_THREADS=1 python benchmarks/step.py --kinds
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from output import write
from plotly import graph_objects

from pmvge import EncoderSpec, MultiViewGraph
from pmvge.encoders import MultiViewEncoder, schemas_of
from pmvge.experiments.paper_model import paper_model
from pmvge.likelihoods import build_family
from pmvge.model.fitting.trainer import make_trainer

LINKS = UNIFORM = 512
NODES = 20_000
GOALS = {"paper 1433-3000-1000": 1.25, "small 128-256-64": 2.0}
NETWORKS = {"paper 1433-3000-1000": (1433, 3000, 1000), "small 128-256-64": (128, 256, 64)}
# A step of a similarity or family over a step with inner products and Poisson weights.
SIMILARITY_GOALS = {
    "cosine": None,
    "shifted": 1.15,
    "weighted": 1.15,
    "difference": 1.15,
    "euclidean": 1.15,
    "hyperbolic": 1.5,
}
FAMILY_GOALS = {"bernoulli": 1.3, "logistic": 1.3, "negative_binomial": 1.3, "beta": 1.3}


def problem(p: int, rng: np.random.Generator) -> MultiViewGraph:
    views = {view: rng.standard_normal((NODES, p), dtype=np.float32) for view in ("left", "right")}
    ends = rng.integers(NODES, size=(2, 10 * NODES))
    return MultiViewGraph(views, {("left", "right"): (ends[0], ends[1])})


def step_of(
    p: int,
    hidden: int,
    K: int,
    graph: MultiViewGraph,
    *,
    similarity: str = "inner",
    family: str = "poisson",
    **options: object,
) -> Callable[[], None]:
    settings = paper_model(
        n_components=K, batch_size=LINKS, negative_rate=UNIFORM / LINKS, random_state=0
    ).get_params()
    spec = EncoderSpec(
        kind="mlp",
        hidden_sizes=(hidden,),
        activation="tanh",
        output_activation="identity",
        dropout=0.0,
        input_dropout=0.0,
        **{"batch_norm": False, **options},  # type: ignore[arg-type]
    )
    choices = dict.fromkeys(graph.view_names, spec)
    pairs = tuple(graph.links)
    network = MultiViewEncoder(
        choices, schemas_of(graph), K, similarity, build_family(family, pairs), pairs=pairs
    )
    network.train()
    trainer = make_trainer(settings, network, graph, None, torch.device("cpu"), 0)
    batches = iter(trainer.batches)
    return lambda: trainer.train_step(next(batches))


def products_of(p: int, hidden: int, K: int) -> Callable[[], None]:
    N = LINKS + UNIFORM
    X, H, Y = torch.randn(N, p), torch.randn(N, hidden), torch.randn(N, K)
    W1, W2, P = torch.randn(p, hidden), torch.randn(hidden, K), torch.randn(N, N)

    def products() -> None:
        for _ in ("left", "right"):
            X @ W1, H @ W2  # forward
            H.T @ Y, Y @ W2.T, X.T @ H  # backward
        Y @ Y.T, P @ Y, P.T @ Y  # the block

    return products


def median_times(
    functions: dict[str, Callable[[], None]],
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Return the median seconds of each function, timed alternately."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats + 3):
        for name, function in functions.items():
            start = clock()
            function()
            times[name].append(clock() - start)
    return {name: float(np.median(values[3:])) for name, values in times.items()}


def compare_kinds(repeats: int) -> list[dict[str, object]]:
    """Return the time of a step with each similarity and family over that of the paper's model."""
    name = "small 128-256-64"
    p, hidden, K = NETWORKS[name]
    graph = problem(p, np.random.default_rng(0))
    steps = {"inner, poisson": step_of(p, hidden, K, graph)}
    for similarity in SIMILARITY_GOALS:
        steps[similarity] = step_of(p, hidden, K, graph, similarity=similarity)
    for family in FAMILY_GOALS:
        steps[family] = step_of(p, hidden, K, graph, family=family)
    times = median_times(steps, repeats, time.process_time)
    base = times.pop("inner, poisson")
    results: list[dict[str, object]] = []
    for what, seconds in times.items():
        ratio, goal = seconds / base, {**SIMILARITY_GOALS, **FAMILY_GOALS}[what]
        results.append(
            {"network": name, "what": what, "ratio": ratio, "goal": goal}
            | {"step_ms": 1e3 * seconds, "inner_poisson_ms": 1e3 * base}
        )
        print(
            f"{what:22} {1e3 * seconds:8.2f} ms / {1e3 * base:8.2f} ms of inner, poisson = "
            f"{ratio:.2f}" + (f"  (goal {goal})" if goal else "")
        )
    return results


def write_kinds(results: list[dict[str, object]]) -> None:
    figure = graph_objects.Figure()
    figure.add_bar(x=[row["what"] for row in results], y=[row["ratio"] for row in results])
    figure.add_hline(y=1, line_dash="dot")
    figure.update_layout(title="A training step over one with inner products and Poisson weights")
    write("step_kinds", results, figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=60)
    parser.add_argument("--kinds", action="store_true")
    arguments = parser.parse_args()
    repeats = arguments.repeats
    if arguments.kinds:
        write_kinds(compare_kinds(repeats))
        return
    results = []
    for name, (p, hidden, K) in NETWORKS.items():
        graph = problem(p, np.random.default_rng(0))
        times = median_times(
            {
                "products": products_of(p, hidden, K),
                "step": step_of(p, hidden, K, graph),
                "step with batch norm": step_of(p, hidden, K, graph, batch_norm=True),
            },
            repeats if hidden < 1000 else max(5, repeats // 3),
        )
        base = times.pop("products")
        for what, seconds in times.items():
            ratio = seconds / base
            goal = GOALS[name] if what == "step" else None
            results.append(
                {"network": name, "what": what, "ratio": ratio, "goal": goal}
                | {"step_ms": 1e3 * seconds, "products_ms": 1e3 * base}
            )
            print(
                f"{name:22} {what:22} {1e3 * seconds:8.2f} ms / {1e3 * base:8.2f} ms = "
                f"{ratio:.2f}" + (f"  (goal {goal})" if goal else "")
            )
    figure = graph_objects.Figure()
    figure.add_bar(
        x=[f"{row['network']}<br>{row['what']}" for row in results],
        y=[row["ratio"] for row in results],
    )
    figure.add_hline(y=1, line_dash="dot")
    figure.update_layout(title="A training step over its matrix products alone")
    write("step", results, figure)


if __name__ == "__main__":
    main()
