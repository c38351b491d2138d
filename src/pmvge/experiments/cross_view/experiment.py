"""Retrieval across views of handwritten digits: rank unseen scans of one view by those of another.

Training scans and unseen scans are disjoint. A query is the features of an unseen scan in one view;
candidates are all unseen scans in the other. Settings are searched once for each method, view pair
and target, on splits that are not reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import label_ranking_average_precision_score

from pmvge.datasets import Digits, load_digits
from pmvge.errors import choose
from pmvge.evaluation import evaluate_links
from pmvge.experiments.base import Goal, Job, Result, Summary, Table
from pmvge.experiments.comparison import Metric, Part, Score, SearchedOnce, percent, spread, unit
from pmvge.experiments.cross_view.methods import REWEIGHTED, dense_features, make_ranker
from pmvge.experiments.paired import BY_QUERY, paired_difference
from pmvge.experiments.recipe import Entry, Recipe
from pmvge.experiments.result_cache import Arrays
from pmvge.graph import MultiViewGraph, Pair

Array = NDArray[Any]
PAIRS: dict[str, Pair] = {
    "image, spectrum": ("image", "spectrum"),
    "spectrum, profile": ("spectrum", "profile"),
    "image, profile": ("image", "profile"),  # no links join them: by way of spectra
}
TARGETS: dict[str, tuple[Metric, ...]] = {
    "partners": (Metric("map", "partners, mAP"), Metric("recall", "recall@10")),
    "digit": (Metric("map", "digit, mAP"),),
}


class Row(NamedTuple):
    """A method of the recipe on one view pair and target."""

    entry: Entry
    pair: str
    target: str


class CrossViewRetrieval(SearchedOnce):
    """Retrieval of digits, with one row of jobs for each method, view pair and target."""

    options: ClassVar[Mapping[str, Any]] = {
        "pairs": list(PAIRS),
        "unseen": 0.25,  # share of the scans
        "tuning_splits": [100, 101],
        "ours": "PMvGE",
        "variants": [],  # methods that are not its rivals
    }
    summary_options = ("ours", "variants")

    def __init__(
        self, recipe: Recipe, data: Path | None = None, workspace: Path | None = None
    ) -> None:
        super().__init__(recipe, data, workspace)
        for name in self.settings["pairs"]:
            choose("pair", name, PAIRS, f"recipe {recipe.name!r}")
        self.entries = recipe.methods  # of the recipe, before they are multiplied by pairs
        self.rows = {
            _label(entry.label, name, target): Row(entry, name, target)
            for name in self.settings["pairs"]
            for target in TARGETS
            for entry in self.entries
            if name != "image, profile" or make_ranker(entry.method, entry.settings).many_views
        }
        rows = [replace(row.entry, label=label) for label, row in self.rows.items()]
        self.recipe = replace(recipe, methods=tuple(rows))

    # -- fits -------------------------------------------------------------------------------

    def score(
        self, entry: Entry, settings: Mapping[str, Any], repetition: int, part: Part
    ) -> Score:
        """Return the metrics on a reported split, or their means over the tuning splits."""
        row = self.rows[entry.label]
        if part == "test":
            return self._score(entry, settings, row, repetition)
        numbers = self.settings["tuning_splits"]
        scores = [self._score(entry, settings, row, number) for number in numbers]
        names = scores[0].metrics
        means = {name: float(np.mean([score.metrics[name] for score in scores])) for name in names}
        return Score(means, sum(score.seconds for score in scores))

    def _score(self, entry: Entry, settings: Mapping[str, Any], row: Row, number: int) -> Score:
        train, test = _split(self.settings["unseen"], number)
        pair, method = PAIRS[row.pair], make_ranker(entry.method, settings)
        seed = int(np.random.default_rng([self.recipe.seed, number, 1]).integers(2**31))

        def fit() -> Arrays:
            X, X_other = (dense_features(test.graph, view) for view in pair)
            Y, Y_other = method.vectors(
                training_graph(train, pair, method.links), pair, X, X_other, seed
            )
            if method.unit:
                Y, Y_other = unit(Y), unit(Y_other)
            return {"queries": Y, "candidates": Y_other}

        # Both targets use the same fits.
        arrays, seconds = self.cached_fit([entry.method, dict(settings), row.pair, number], fit)
        metrics, ap = evaluate(arrays["queries"], arrays["candidates"], test, row.target)
        ids = test.graph.ids[pair[0]].tolist()
        by_query = {"map": [ids, [round(float(value), 6) for value in ap]]}
        return Score(metrics, seconds, {BY_QUERY: by_query})

    # -- tables -----------------------------------------------------------------------------

    def summarize(self, results: Mapping[Job, Result]) -> Summary:
        """Return a table of all methods for each view pair, paired differences, and the goals."""
        counts = [sum(job.row == label for job in results) for label in self.rows]
        number = min(counts, default=0)
        tables = [self._table(results, name, number) for name in self.settings["pairs"]]
        goals = [
            goal
            for name in self.settings["pairs"]
            for target, metrics in TARGETS.items()
            for metric in metrics
            for goal in self._goal(results, name, target, metric)
        ]
        return Summary(tables=tables, goals=goals)

    def _table(self, results: Mapping[Job, Result], name: str, number: int) -> Table:
        ours = self.settings["ours"]
        head = ["method"]
        for target, metrics in TARGETS.items():
            head += [*(metric.label for metric in metrics), f"{ours} minus this, {target}, mAP"]
        rows = [self._random(name)]
        for entry in self.entries:
            cells, seconds = [entry.label], []
            for target, metrics in TARGETS.items():
                label = _label(entry.label, name, target)
                found = [result for job, result in results.items() if job.row == label]
                cells += [
                    spread([percent(result, metric) for result in found]) for metric in metrics
                ]
                own = _label(ours, name, target)
                difference = paired_difference(results, own, label, "map")
                cells.append(
                    ""
                    if difference is None or own == label
                    else f"{difference.mean:+.1f} ({difference.interval()})"
                )
                seconds += [result["seconds"] for result in found]
            if any(cells[1:]):
                rows.append([*cells, f"{np.median(seconds):.1f}"])
        caption = (
            f"{self.recipe.title}, {name}: mean ± standard deviation over {number} splits, in "
            "percent; differences with their paired 95 % bootstrap interval over scans"
        )
        return Table(caption, [*head, "seconds per fit"], rows)

    def _random(self, name: str) -> list[str]:
        """Return the metrics of a random order on the first split."""
        test = _split(self.settings["unseen"], 0)[1]
        rng, n = np.random.default_rng(0), len(test.labels)
        Y, Y_other = (rng.normal(size=(n, 32)).astype(np.float32) for _ in range(2))
        cells = ["random order"]
        for target in TARGETS:
            metrics, _ = evaluate(Y, Y_other, test, target)
            cells += [*(f"{100 * value:.1f}" for value in metrics.values()), ""]
        return [*cells, ""]

    def _goal(
        self, results: Mapping[Job, Result], name: str, target: str, metric: Metric
    ) -> list[Goal]:
        """Return whether ``ours`` is the first; none if it or all others have no results."""
        ours = self.settings["ours"]
        means = {
            entry.label: float(np.mean(values))
            for entry in self.entries
            if entry.label not in self.settings["variants"]
            and (values := self.values(results, _label(entry.label, name, target), metric))
        }
        if ours not in means or len(means) < 2:
            return []
        best = max(means, key=lambda label: means[label])
        found = f"{means[ours]:.1f}; {best} {means[best]:.1f}"
        return [Goal(f"{ours}: {name}, {metric.label}", "first", found, best == ours)]


def _label(label: str, name: str, target: str) -> str:
    return f"{label}: {name}: {target}"


def training_graph(digits: Digits, pair: Pair, links: str = "given") -> MultiViewGraph:
    """Return the views and links that methods are fitted to.

    For linked views these are the two views only; else also the view between them. ``links`` is a
    name of :data:`REWEIGHTED`.
    """
    graph = digits.graph
    keys = [pair] if pair in graph.links else [("image", "spectrum"), ("spectrum", "profile")]
    views = {view: dense_features(graph, view) for key in keys for view in key}
    return MultiViewGraph(
        views, {key: REWEIGHTED[links](graph.links[key].matrix()) for key in keys}
    )


def evaluate(Y: Array, Y_other: Array, test: Digits, target: str) -> tuple[dict[str, float], Array]:
    """Return metrics, and the average precision of each query; scans are ranked by inner product.

    Partners are linked scans: the query's own scan, and similar ones. The links between two views
    are the same for all view pairs.
    """
    partners = test.graph.links["image", "spectrum"]
    scores = np.asarray(Y, np.float64) @ np.asarray(Y_other, np.float64).T
    relevant = partners.matrix().toarray() > 0
    if target == "digit":
        relevant = test.labels[:, None] == test.labels
    ap = np.array(
        [
            label_ranking_average_precision_score(truth[None], row[None])
            for truth, row in zip(relevant, scores, strict=True)
        ]
    )
    metrics = {"map": float(ap.mean())}
    if target == "partners":
        found = evaluate_links(Y, Y_other, partners, log_alpha=0.0)
        metrics["recall"] = float(found["recall@10"])
    return metrics, ap


@lru_cache(maxsize=4)
def _split(unseen: float, number: int) -> tuple[Digits, Digits]:
    return load_digits(unseen, seed=number)
