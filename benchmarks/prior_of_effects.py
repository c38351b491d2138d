"""Compare learned priors of effects with a grid of fixed ones.

Simulated links of 800 and 400 entities, Poisson, ten links per entity of the larger view: without
features, with features that explain half of the vectors' variance, and with features alone; each
with both similarities. And MovieLens 100k (ratings of at least 4) if PMVGE_DATA is set. A tenth of
the links is held out. Seeds and splits 100 to 102, which no report uses.

Printed are means over seeds: sigma and tau; the gain of held-out links, which is their mean
log-probability among all pairs that are not in training, over that of a uniform choice; ROC AUC;
and nDCG@10. Fixed values of sigma are the same for both views, with the learned tau of each view.

    python benchmarks/prior_of_effects.py
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from output import RESULTS
from scipy.special import logsumexp

from pmvge import MultiViewGraph, PMvGE

SEEDS = (100, 101, 102)
GRID = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
SETTINGS: dict[str, Any] = {
    "n_components": 16,
    "hidden_sizes": (64,),
    "dropout": 0.0,
    "effects": "vector",
    "weight_decay": 0.0,
    "batch_size": 256,
    "learning_rate": 5e-3,
    "schedule": "cosine",
    "max_steps": 300,
    "patience": None,
    "progress": False,
}
METRICS = ("gain", "roc_auc", "ndcg@10")


def simulated(seed: int, explained: float | None) -> MultiViewGraph:
    """Return links of entities whose features explain a share of their vectors' variance.

    With None, entities have no features.
    """
    rng = np.random.default_rng(seed)
    sizes, dimension = {"left": 800, "right": 400}, 6
    share = explained or 0.0
    views: dict[str, Any] = {}
    vectors = []
    for view, n in sizes.items():
        seen, unseen = rng.normal(size=(2, n, dimension))
        vectors.append(np.sqrt(share) * seen + np.sqrt(1 - share) * unseen)
        X = seen @ rng.normal(size=(dimension, 20)) / np.sqrt(dimension)
        views[view] = n if explained is None else X + 0.1 * rng.normal(size=X.shape)
    g = 0.5 * vectors[0] @ vectors[1].T
    for axis, n in ((1, sizes["left"]), (0, sizes["right"])):
        g = g + np.expand_dims(0.7 * np.sqrt(1 - share) * rng.normal(size=n), axis)
    mu = np.exp(g)
    W = rng.poisson(mu * 10 * sizes["left"] / mu.sum())
    return MultiViewGraph(views, {("left", "right"): W})


def movielens(_: int) -> MultiViewGraph:
    from pmvge.datasets import load_movielens

    return load_movielens()


PROBLEMS: dict[str, Callable[[int], MultiViewGraph]] = {
    "no features": lambda seed: simulated(seed, None),
    "features explain half": lambda seed: simulated(seed, 0.5),
    "features explain all": lambda seed: simulated(seed, 1.0),
    "MovieLens": movielens,
}


def run(graph: MultiViewGraph, seed: int, similarity: str, prior: Any) -> dict[str, Any]:
    """Fit, and return the scores of held-out links, and the priors."""
    model = PMvGE(**SETTINGS, similarity=similarity, effects_prior=prior, random_state=seed)
    model.fit(graph, hold_out=0.1)
    scores = model.evaluate(k=10)["overall"]
    views = model.describe()["views"]
    priors = {v: (views[v]["effects"]["sigma"], views[v]["effects"]["tau"]) for v in views}
    return {"gain": held_out_gain(model), "priors": priors} | {k: scores[k] for k in METRICS[1:]}


def held_out_gain(model: PMvGE) -> float:
    """Return the mean log-probability of held-out links over that of a uniform choice."""
    assert model.links_ is not None
    ((pair, kept),) = model.links_.training.items()
    held = model.links_.held_out[pair]
    query = model.vectors(pair[0], among=pair[1]).astype(float)
    g = query @ model.vectors(pair[1], among=pair[0], side="candidate").astype(float).T
    observed = held.weights @ g[held.rows, held.cols] / held.weights.sum()
    g[kept.rows, kept.cols] = -np.inf
    return float(observed - logsumexp(g) + np.log(np.isfinite(g).sum()))


def compare(name: str, similarity: str, seeds: tuple[int, ...]) -> dict[str, dict[str, float]]:
    """Return the mean scores of the learned prior, and of each fixed sigma."""
    found: dict[str, list[dict[str, Any]]] = {}
    for seed in seeds:
        graph = PROBLEMS[name](seed)
        learned = run(graph, seed, similarity, None)
        found.setdefault("learned", []).append(learned)
        for sigma in GRID:
            prior = {view: (sigma, tau) for view, (_, tau) in learned["priors"].items()}
            found.setdefault(f"{sigma:g}", []).append(run(graph, seed, similarity, prior))
    rows = {}
    for label, runs in found.items():
        priors = np.mean([list(each["priors"].values()) for each in runs], axis=0)
        rows[label] = {
            metric: float(np.mean([each[metric] for each in runs])) for metric in METRICS
        }
        rows[label] |= {
            f"{symbol} {view}": float(priors[row, column])
            for column, symbol in enumerate(("sigma", "tau"))
            for row, view in enumerate(runs[0]["priors"])
        }
    return rows


def main() -> None:
    """Run all problems, print the tables and write results/prior_of_effects.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=len(SEEDS))
    seeds = SEEDS[: parser.parse_args().seeds]
    results = {}
    for name in PROBLEMS:
        if name == "MovieLens" and "PMVGE_DATA" not in os.environ:
            continue
        for similarity in ("inner", "cosine"):
            rows = compare(name, similarity, seeds[:1] if name == "MovieLens" else seeds)
            results[f"{name}, {similarity}"] = rows
            print(f"\n{name}, {similarity}")
            print(f"{'sigma':>8} " + " ".join(f"{key:>12}" for key in rows["learned"]))
            for label, row in rows.items():
                print(f"{label:>8} " + " ".join(f"{value:12.4f}" for value in row.values()))
    (RESULTS / "prior_of_effects.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
