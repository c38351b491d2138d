"""Minimise the exact objective on MovieLens: which family and prior rank best for known users.

A batch of all links makes every step exact, so that what is compared is the objective and not its
optimiser. There are no features. Shown is nDCG@10 of held-out links on splits 100 and 101 of the
recipe movielens, which are not reported there; the last rows have batches of 512 links instead.

    python benchmarks/exact_objective.py      # reads $PMVGE_DATA
"""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
from output import RESULTS

from pmvge.experiments import load_recipe
from pmvge.experiments.recommender.experiment import Recommendation
from pmvge.experiments.recommender.methods import make_recommender
from pmvge.experiments.recommender.metrics import evaluate

SPLITS = (100, 101)
FAMILIES = ("poisson", "bernoulli", "logistic")
SIGMAS = (0.25, 0.3, 0.35, 0.4)
TAU = 1.0
BATCHES_SIGMA = 0.3
EXACT = {"batch_size": 65536, "learning_rate": 0.015, "max_steps": 300}
BATCHES = {"batch_size": 512, "learning_rate": 5e-3, "max_steps": 1000}
SETTINGS = {
    "features": False,
    "effects": "vector",
    "similarity": "inner",
    "schedule": "cosine",
    "patience": None,
    "n_components": 64,
}


def ndcg(experiment: Recommendation, family: str, prior: Any, training: dict[str, Any]) -> float:
    """Return the mean nDCG@10 over the splits, in percent."""
    values = []
    for number in SPLITS:
        split = experiment.split("warm", number, "validation")
        settings = {**SETTINGS, **training, "family": family, "effects_prior": prior}
        method = make_recommender("PMvGE", settings)
        method.fit(split.train, split.pair, number)
        values.append(evaluate(method, split, {"auc", "ndcg"})[0]["ndcg"])
    return 100 * float(np.mean(values))


def main() -> None:
    """Run all combinations, print them and write results/exact_objective.json."""
    experiment = Recommendation(load_recipe("movielens"))
    results: dict[str, dict[str, float]] = {"exact": {}, "batches of 512": {}}
    for family, sigma in itertools.product(FAMILIES, SIGMAS):
        key = f"{family}, {sigma}"
        results["exact"][key] = ndcg(experiment, family, (sigma, TAU), EXACT)
        print(f"exact, {key}: {results['exact'][key]:.1f}", flush=True)
    for family in FAMILIES:
        results["exact"][f"{family}, learned"] = ndcg(experiment, family, None, EXACT)
        key = f"{family}, {BATCHES_SIGMA}"
        prior = (BATCHES_SIGMA, TAU)
        results["batches of 512"][key] = ndcg(experiment, family, prior, BATCHES)
        print(f"batches of 512, {key}: {results['batches of 512'][key]:.1f}", flush=True)
    (RESULTS / "exact_objective.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
