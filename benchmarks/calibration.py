"""Calibrate expected weights of unseen entities, and measure them on other unseen entities.

The two-view Poisson problems of problems.py. A model is fitted to the training entities. The unseen
entities of both views are divided at random into two halves: the model is calibrated on one, and
measured on the other, in both directions. "fit" is ``fit(calibrate=0.1)``, which holds out
training entities, measured on all unseen ones. E/O is the expected over the observed total
weight, and its error the Poisson error of the observed one. On strong signals a few pairs carry the
total: the log-likelihood, per unit of weight, and the bins say more.

    OMP_NUM_THREADS=1 python benchmarks/calibration.py
"""

from __future__ import annotations

import argparse
import json
import math
from typing import Any

import numpy as np
import torch
from output import RESULTS
from problems import ColdStart, poisson_links

from pmvge import MultiViewGraph, PMvGE
from pmvge.evaluation import reliability_bins

PAIR = ("left", "right")


def as_graph(data: ColdStart, rows: Any, columns: Any) -> MultiViewGraph:
    """Return the graph of some unseen entities and their links."""
    return MultiViewGraph(
        {"left": data.left[rows], "right": data.right[columns]},
        {PAIR: data.W[np.ix_(rows, columns)]},
    )


def measure(model: PMvGE, graph: MultiViewGraph) -> dict[str, Any]:
    """Return E/O, its error, the log-likelihood per unit of weight, and bins of new entities."""
    found = model.evaluate(graph, exposure=1.0)["overall"]
    links = graph.links[PAIR]
    factor = model.describe()["calibrated"]["left,right"]["new-new"]
    bins = reliability_bins(
        model.vectors("left", graph.views["left"], among="right"),
        model.vectors("right", graph.views["right"], among="left", side="candidate"),
        links,
        log_alpha=model.log_alpha_[PAIR] + (0.0 if factor is None else math.log(factor["factor"])),
        similarity=model.similarity_,
        rng=np.random.default_rng(0),
    )
    return {
        "expected_over_observed": round(found["expected_over_observed"], 4),
        "error": round(math.sqrt(float((links.weights**2).sum())) / links.total, 4),
        "log_likelihood": round(model.log_likelihood(graph) / links.total, 4),
        "auc": round(found["roc_auc"], 4),
        "bins": {
            name: [float(f"{value:.4g}") for value in getattr(bins, name)]
            for name in ("expected", "observed", "error", "pairs")
        },
    }


def run(strong: bool, nonlinear: bool, seed: int) -> list[dict[str, Any]]:
    """Return one row for each way to calibrate."""
    data = poisson_links(strong=strong, nonlinear=nonlinear, seed=seed)
    settings = {"n_components": 16, "random_state": seed, "progress": False}
    problem = f"{'strong' if strong else 'weak'} {'non-linear' if nonlinear else 'linear'}"
    about = {"problem": problem, "seed": seed}
    rng = np.random.default_rng([seed, 10])
    sides = [np.array_split(rng.permutation(n), 2) for n in data.W.shape]
    halves = [as_graph(data, left, right) for left, right in zip(*sides, strict=True)]
    everything = as_graph(data, *map(np.arange, data.W.shape))
    rows = []
    calibrated = PMvGE(**settings).fit(data.train, calibrate=0.1)
    rows.append({**about, "calibrated": "fit", **measure(calibrated, everything)})
    for one, other in (halves, halves[::-1]):
        model = PMvGE(**settings).fit(data.train)
        if one is halves[0]:
            rows.append({**about, "calibrated": "no", **measure(model, everything)})
        rows.append({**about, "calibrated": "half", **measure(model.calibrate(one), other)})
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Return means over seeds, and the range of E/O, as Markdown."""
    lines = ["| problem | calibrated | E/O, smallest to largest | mean | log-likelihood |"]
    lines.append("| --- | --- | --- | --- | --- |")
    for problem in dict.fromkeys(row["problem"] for row in rows):
        for how in ("no", "half", "fit"):
            part = [r for r in rows if (r["problem"], r["calibrated"]) == (problem, how)]
            ratios = [row["expected_over_observed"] for row in part]
            likelihood = np.mean([row["log_likelihood"] for row in part])
            lines.append(
                f"| {problem} | {how} | {min(ratios):.2f} to {max(ratios):.2f} | "
                f"{np.mean(ratios):.2f} | {likelihood:.3f} |"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for strong in (False, True):
        for nonlinear in (False, True):
            for seed in given.seeds:
                rows += run(strong, nonlinear, seed)
                for row in rows[-4:]:
                    print(json.dumps({k: v for k, v in row.items() if k != "bins"}), flush=True)
    if all(seed < 100 for seed in given.seeds):
        (RESULTS / "calibration.json").write_text(json.dumps(rows, indent=1) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main()
