"""Compare the default settings with others on all problems.

Each candidate is the default with one setting changed. Digits: share of new images (observed pair)
and profiles (missing pair) that find their name. Synthetic Poisson links: ROC AUC between new
entities. Cora, if it is in PMVGE_DATA: accuracy and NMI, settings (A) and (B). Means over seeds.

    PMVGE_DATA=path/to/data python benchmarks/defaults.py
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from output import write
from plotly import graph_objects
from problems import poisson_links

from pmvge import PMvGE
from pmvge.datasets import Cora, load_cora, load_digits
from pmvge.errors import InputError
from pmvge.evaluation import classification_accuracy, clustering_nmi, link_auc

CANDIDATES: dict[str, dict[str, Any]] = {
    "default": {},
    "inner": {"similarity": "inner"},
    "inner, no dropout": {"similarity": "inner", "dropout": 0.0},
    "no dropout": {"dropout": 0.0},
    "rate 1e-3": {"learning_rate": 1e-3},
    "linear": {"encoder": "linear"},
}


def digits(settings: dict[str, Any], seed: int) -> dict[str, float]:
    train, test = load_digits(seed=seed)
    model = PMvGE(32, random_state=seed, progress=False, **settings).fit(train.graph)
    Y = model.embed_graph(test.graph)
    return {
        f"digits {view}": float(np.mean((Y[view] @ Y["name"].T).argmax(1) == test.labels))
        for view in ("image", "profile")
    }


def synthetic(settings: dict[str, Any], seed: int) -> dict[str, float]:
    found = {}
    for strong in (False, True):
        for nonlinear in (False, True):
            problem = poisson_links(strong=strong, nonlinear=nonlinear, seed=seed)
            model = PMvGE(16, random_state=seed, progress=False, **settings).fit(problem.train)
            mu = model.intensity("left", problem.left, "right", problem.right)
            name = f"{'strong' if strong else 'weak'} {'non-lin.' if nonlinear else 'linear'}"
            found[name] = link_auc(problem.W, mu)
    return found


def cora(data: Cora, settings: dict[str, Any], seed: int) -> dict[str, float]:
    labels, n = data.labels, len(data.labels)
    order = np.random.default_rng(seed).permutation(n)
    train, test = np.sort(order[: round(0.8 * n)]), np.sort(order[round(0.8 * n) :])

    def scores(Y: Any, Y_test: Any, setting: str) -> dict[str, float]:
        accuracy = classification_accuracy(Y, labels[train], Y_test, labels[test])
        return {
            f"Cora {setting} acc.": accuracy,
            f"Cora {setting} NMI": clustering_nmi(Y_test, labels[test]),
        }

    new = {"n_components": 100, "random_state": seed, "progress": False, **settings}
    Y = PMvGE(**new).fit(data.graph).embeddings_["paper"]
    found = scores(Y[train], Y[test], "(A)")
    model = PMvGE(**new).fit(data.graph.subgraph({"paper": train}))
    words = data.graph.views["paper"]
    return found | scores(model.embeddings_["paper"], model.embed("paper", words[test]), "(B)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1)
    seeds = parser.parse_args().seeds
    try:
        data = load_cora()
    except InputError as error:
        print(f"without Cora: {error}")
        data = None
    rows = []
    for name, settings in CANDIDATES.items():
        start = time.perf_counter()
        runs = []
        for seed in range(seeds):
            run = digits(settings, seed) | synthetic(settings, seed)
            runs.append(run if data is None else run | cora(data, settings, seed))
        mean = {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}
        rows.append({"settings": name, **mean, "seconds": time.perf_counter() - start})
        if len(rows) == 1:
            print(f"{'':18}" + " ".join(f"{key:>15}" for key in mean))
        print(f"{name:18}" + " ".join(f"{value:15.3f}" for value in mean.values()), flush=True)
    figure = graph_objects.Figure()
    for row in rows:
        keys = [key for key in row if key not in ("settings", "seconds")]
        figure.add_scatter(x=keys, y=[row[key] for key in keys], name=row["settings"])
    write("defaults", rows, figure)


if __name__ == "__main__":
    main()
