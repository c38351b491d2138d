"""Compare shares of view pairs: a small table of tags beside a large table of links.

Users, items and tags have latent vectors; items have few tags and many users. The table shows AUC
of held-out links of both tables, mean over seeds, for several ways to share the steps between them:

- weight: in proportion to total weights (``pair_weights=None``);
- equal: the same share for both;
- links: in proportion to the numbers of links;
- balanced: in proportion to the square roots of the numbers of links (``"balanced"``).

    python benchmarks/pair_weights.py
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pmvge import MultiViewGraph, PMvGE
from pmvge.graph import hold_out_links

TAGS, LINKS = ("item", "tag"), ("user", "item")
CASES = {
    "weights of 10": {"weight": 10.0, "tags": 600, "links": 20_000},
    "weights of 1": {"weight": 1.0, "tags": 600, "links": 20_000},
    "weights of 1, few tags": {"weight": 1.0, "tags": 150, "links": 20_000},
    "weights of 300, few links": {"weight": 300.0, "tags": 600, "links": 5_000},
}
SEEDS = (100, 101, 102)


def simulate(seed: int, weight: float, tags: int, links: int) -> MultiViewGraph:
    """Return a graph of 300 users, 150 items and 20 tags."""
    rng = np.random.default_rng(seed)
    users, items, words = (rng.normal(size=(n, 4)) for n in (300, 150, 20))
    watched, described = np.exp(0.5 * users @ items.T), np.exp(items @ words.T)
    W = weight * rng.poisson(watched * links / watched.sum())
    T = rng.poisson(described * tags / described.sum()).astype(float)
    return MultiViewGraph({"user": 300, "item": 150, "tag": 20}, {LINKS: W, TAGS: T})


def factors(graph: MultiViewGraph) -> dict[str, Any]:
    """Return the ``pair_weights`` of each way to share the steps."""
    totals = {pair: links.total for pair, links in graph.links.items()}
    mean = sum(totals.values()) / len(totals)
    return {
        "weight": None,
        "equal": {pair: mean / total for pair, total in totals.items()},
        "links": {pair: len(links) / totals[pair] for pair, links in graph.links.items()},
        "balanced": "balanced",
    }


def main() -> None:
    from output import write
    from plotly import graph_objects

    results: dict[str, Any] = {}
    for case, sizes in CASES.items():
        for effects in ("none", "vector"):
            scores: dict[str, list[tuple[float, float]]] = {}
            for seed in SEEDS:
                kept, held = hold_out_links(
                    simulate(seed, **sizes), 0.2, np.random.default_rng(seed)
                )
                for name, given in factors(kept).items():
                    model = PMvGE(
                        16,
                        effects=effects,
                        similarity="inner",
                        schedule="constant",
                        max_steps=1000,
                        pair_weights=given,
                        random_state=seed,
                        progress=False,
                    ).fit(kept)
                    found = model.evaluate(held)["pairs"]
                    pair = (found["item,tag"]["roc_auc"], found["user,item"]["roc_auc"])
                    scores.setdefault(name, []).append(pair)
            means = {name: np.mean(pairs, 0).round(3).tolist() for name, pairs in scores.items()}
            results[f"{case}, effects {effects}"] = means
            row = "; ".join(
                f"{name} {tags:.3f}, {links:.3f}" for name, (tags, links) in means.items()
            )
            print(f"{case}, effects {effects} (AUC of tags, of links): {row}", flush=True)
    figure = graph_objects.Figure()
    for name in ("weight", "equal", "links", "balanced"):
        tags, links = zip(*(means[name] for means in results.values()), strict=True)
        figure.add_scatter(x=tags, y=links, name=name, mode="markers")
    figure.update_layout(xaxis_title="AUC of tags", yaxis_title="AUC of links")
    write("pair_weights", results, figure)


if __name__ == "__main__":
    main()
