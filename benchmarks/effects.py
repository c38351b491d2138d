"""Measure what effects cost where features explain everything: paired AUC of unseen entities.

On the four problems of Poisson links (weak or strong signal, linear or non-linear features) links
depend on features alone, so effects can only add noise. Both models have the same data, seed and
settings. The goal is a mean difference of at least -0.001.

    python benchmarks/effects.py              # seeds 0 to 9
    python benchmarks/effects.py --seeds 3
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np
from output import RESULTS
from problems import poisson_links

from pmvge import PMvGE

SETTINGS: dict[str, Any] = {
    "n_components": 16,
    "hidden_sizes": (128,),
    "dropout": 0.0,
    "similarity": "inner",
    "learning_rate": 5e-3,
    "schedule": "cosine",
    "max_steps": 300,
    "patience": None,
    "progress": False,
}
LIMIT = -0.001  # of the mean difference


def auc(effects: str, seed: int, **problem: bool) -> float:
    """Return the AUC of links between entities that are both unseen in training."""
    data = poisson_links(seed=seed, **problem)
    model = PMvGE(**SETTINGS, effects=effects, random_state=seed).fit(data.train)
    query = model.vectors("left", data.left, among="right")
    candidate = model.vectors("right", data.right, among="left", side="candidate")
    return data.quality(query, candidate)["auc"]


def main() -> None:
    """Run all problems, print the table and write results/effects.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    seeds = parser.parse_args().seeds
    results = {}
    print(f"{'problem':22} {'none':>7} {'vector':>7} {'difference':>11}")
    for strong in (False, True):
        for nonlinear in (False, True):
            name = f"{'strong' if strong else 'weak'}, {'non-linear' if nonlinear else 'linear'}"
            runs = [
                [auc(kind, seed, strong=strong, nonlinear=nonlinear) for kind in ("none", "vector")]
                for seed in range(seeds)
            ]
            none, vector = np.mean(runs, axis=0)
            difference = float(vector - none)
            results[name] = {
                "none": float(none),
                "vector": float(vector),
                "difference": difference,
                "met": difference >= LIMIT,
            }
            print(f"{name:22} {none:7.4f} {vector:7.4f} {difference:+11.4f}", flush=True)
    (RESULTS / "effects.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
