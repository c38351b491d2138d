"""Measure how well first links place new users: MovieLens 100k, ratings of at least 4.

100 users with at least 20 links are held out of training, with all their links. For each, 0, 1, 3
or 10 links are folded in, and nDCG@10 is measured on the links after the first 10; the first 10
are never candidates. The reference is a model fitted again, with the 10 links in training.

    PMVGE_DATA=data python benchmarks/fold_in.py              # split 100, used for choices
    PMVGE_DATA=data python benchmarks/fold_in.py --seeds 0 1  # splits 0 and 1
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pmvge import MultiViewGraph, PMvGE
from pmvge.datasets import load_movielens
from pmvge.evaluation import evaluate_links
from pmvge.graph import canonical

PAIR = ("user", "film")
SETTINGS = {
    "n_components": 64,
    "similarity": "inner",
    "effects": "vector",
    "max_steps": 600,
    "schedule": "cosine",
    "patience": None,
    "learning_rate": 0.002,
    "random_state": 0,
    "progress": False,
}
USERS, MIN_LINKS, FIRST = 100, 20, 10
COUNTS = (0, 1, 3, FIRST)


@dataclass(frozen=True)
class Split:
    """Held-out users, and the links in random order: ``turn`` counts the links of each user."""

    graph: MultiViewGraph
    users: NDArray[np.int64]  # (USERS,) positions of the held-out users, sorted
    rows: NDArray[np.int64]
    cols: NDArray[np.int64]
    turn: NDArray[np.int64]

    @classmethod
    def draw(cls, graph: MultiViewGraph, seed: int) -> Split:
        rng = np.random.default_rng(seed)
        links = graph.links[PAIR]
        order = rng.permutation(len(links))
        rows, cols = (np.asarray(ends, np.int64)[order] for ends in (links.rows, links.cols))
        degrees = np.bincount(rows, minlength=graph.sizes["user"])
        users = np.sort(rng.choice(np.flatnonzero(degrees >= MIN_LINKS), USERS, replace=False))
        by_user = np.argsort(rows, kind="stable")
        starts = np.cumsum(degrees) - degrees
        turn = np.empty(len(rows), np.int64)
        turn[by_user] = np.arange(len(rows)) - starts[rows[by_user]]
        return cls(graph, users, rows, cols, turn)

    def train(self, *, features: bool, first: int) -> MultiViewGraph:
        """Return the training graph, with the first links of held-out users or without them."""
        held = np.isin(self.rows, self.users)
        kept = ~held | (self.turn < first)
        everyone = np.arange(self.graph.sizes["user"])
        users = everyone if first else np.setdiff1d(everyone, self.users)
        views = {
            "user": self.graph.views["user"][users] if features else len(users),
            "film": self.graph.views["film"] if features else self.graph.sizes["film"],
        }
        ids = {"user": self.graph.ids["user"][users], "film": self.graph.ids["film"]}
        at = np.searchsorted(users, self.rows[kept])
        return MultiViewGraph(views, {PAIR: (at, self.cols[kept])}, ids)

    def links(self, start: int, stop: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return links ``start`` to ``stop`` of each held-out user, as (held-out user, film)."""
        chosen = np.isin(self.rows, self.users) & (self.turn >= start) & (self.turn < stop)
        return np.searchsorted(self.users, self.rows[chosen]), self.cols[chosen]

    def ndcg(self, model: PMvGE, queries: NDArray[np.float32]) -> float:
        """Return nDCG@10 of the held-out users' links after the first ones."""
        known, held = (
            canonical(*ends, np.ones(len(ends[0])), (USERS, self.graph.sizes["film"]), False)
            for ends in (self.links(0, FIRST), self.links(FIRST, len(self.rows)))
        )
        films = model.vectors("film", among="user", side="candidate")
        return evaluate_links(queries, films, held, log_alpha=0.0, known=known)["ndcg@10"]


def compare(split: Split, *, features: bool) -> list[float]:
    """Return nDCG@10 with each number of links folded in, and of the model fitted again."""
    model = PMvGE(**SETTINGS).fit(split.train(features=features, first=0))
    X = split.graph.views["user"][split.users] if features else None
    ids = split.graph.ids["user"][split.users]
    results = []
    for count in COUNTS:
        rows, cols = split.links(0, count)
        links = {"film": (rows, split.graph.ids["film"][cols])}
        queries = model.vectors("user", X, ids=ids, links=links, among="film")
        results.append(split.ndcg(model, queries))
    again = PMvGE(**SETTINGS).fit(split.train(features=features, first=FIRST))
    return [*results, split.ndcg(again, again.vectors("user", ids=ids, among="film"))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[100])
    seeds = parser.parse_args().seeds
    graph, start = load_movielens(), time.perf_counter()
    splits = [Split.draw(graph, seed) for seed in seeds]
    print(f"{'nDCG@10 of new users':24}" + "".join(f"{f'{n} links':>10}" for n in COUNTS), end="")
    print(f"{'refit':>10}{'10 / refit':>12}")
    for name, features in (("features and effects", True), ("effects only", False)):
        means = np.mean([compare(split, features=features) for split in splits], axis=0)
        ratio = means[-2] / means[-1]
        print(f"{name:24}" + "".join(f"{value:10.3f}" for value in means) + f"{ratio:12.2f}")
    print(f"{time.perf_counter() - start:.0f} seconds, splits {seeds}")


if __name__ == "__main__":
    main()
