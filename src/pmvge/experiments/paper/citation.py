"""Citation network (section 6.1): classify and cluster papers by their vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pmvge.datasets import Cora, load_cora
from pmvge.errors import choose
from pmvge.evaluation import classification_accuracy, clustering_nmi
from pmvge.experiments.base import Goal, Job, Result, Summary
from pmvge.experiments.comparison import Comparison, Metric, Part, Score, spread
from pmvge.experiments.comparison import unit as unit_rows
from pmvge.experiments.paper_model import make_method
from pmvge.experiments.recipe import Entry, Recipe
from pmvge.experiments.result_cache import Arrays, digest
from pmvge.graph import MultiViewGraph, multi_step_weights

Array = NDArray[Any]
Index = NDArray[np.int64]
VIEW = "paper"
SECONDS = "seconds"
FEATURES = "features"  # the method that uses features as vectors


@dataclass(frozen=True)
class Split:
    """Papers that train the classifier, and papers that it is evaluated on."""

    train: Index
    evaluate: Index


class Citation(Comparison):
    """Task 1: accuracy of a classifier on the vectors. Task 2: NMI of clusters and classes."""

    options: ClassVar[Mapping[str, Any]] = {
        "setting": "A",  # "A": vectors are fitted to all papers; "B": to training papers
        "test": 0.2,
        "validation": 0.2,  # share of the papers that are not in the test part
        "fits": 2,  # in (A), with different seeds; the splits share them
        "goals": {},  # {label: {metric: minimum in percent, "seconds": maximum of a fit}}
    }
    summary_options = ("goals",)
    metrics = (Metric("accuracy", "task 1, accuracy"), Metric("nmi", "task 2, NMI"))

    def __init__(
        self, recipe: Recipe, data: Path | None = None, workspace: Path | None = None
    ) -> None:
        super().__init__(recipe, data, workspace)
        where = f"recipe {recipe.name!r}"
        choose("setting", self.settings["setting"], ("A", "B"), where)
        for label, wanted in self.settings["goals"].items():
            for name in wanted:
                known = [*(metric.name for metric in self.metrics), SECONDS]
                choose("metric", name, known, f"{where}: goals: {label}")

    @cached_property
    def cora(self) -> Cora:
        """The data, read once per process."""
        return load_cora(None if self.data is None else self.data / "cora")

    def check(self) -> None:
        """Raise InputError if the data are missing."""
        _ = self.cora

    def data_digest(self) -> str:
        """Return a hash of words, links and labels."""
        X, links = self.cora.graph.views[VIEW], self.cora.graph.links[VIEW, VIEW]
        assert X is not None
        words = [X] if isinstance(X, np.ndarray) else [X.indptr, X.indices, X.data]
        return digest(*words, links.rows, links.cols, links.weights, self.cora.labels)

    def split(self, repetition: int, part: Part) -> Split:
        """Return a split: training and test part, or two parts of the training part."""
        n = len(self.cora.labels)
        order = np.random.default_rng([self.recipe.seed, repetition]).permutation(n)
        n_test = round(self.settings["test"] * n)
        test, train = order[:n_test], order[n_test:]
        if part == "test":
            return Split(np.sort(train), np.sort(test))
        n_held = round(self.settings["validation"] * len(train))
        return Split(np.sort(train[n_held:]), np.sort(train[:n_held]))

    def score(
        self, entry: Entry, settings: Mapping[str, Any], repetition: int, part: Part
    ) -> Score:
        """Return accuracy and NMI on the papers to evaluate."""
        split, labels = self.split(repetition, part), self.cora.labels
        seed = self.fit_seed(self.settings["setting"], repetition, part)
        train, evaluate, seconds = self.vectors(entry, dict(settings), split, seed)
        metrics = {
            "accuracy": classification_accuracy(
                train, labels[split.train], evaluate, labels[split.evaluate]
            ),
            "nmi": clustering_nmi(evaluate, labels[split.evaluate]),
        }
        return Score(metrics, seconds)

    def vectors(
        self, entry: Entry, settings: dict[str, Any], split: Split, seed: int
    ) -> tuple[Array, Array, float]:
        """Return the vectors of both parts, scaled alike, and the seconds of the fit."""
        unit, steps = settings.pop("unit", False), settings.pop("link_steps", None)
        X = self.cora.graph.views[VIEW]
        assert X is not None
        if entry.method == FEATURES:
            return X[split.train], X[split.evaluate], 0.0
        if self.settings["setting"] == "A":
            graph, new = self.cora.graph, split.evaluate[:0]
        else:
            graph, new = self.cora.graph.subgraph({VIEW: split.train}), split.evaluate

        def fit() -> Arrays:
            method = make_method(entry.method, settings)
            given = {"random_state": seed, "progress": False}
            method.set_params(**{k: v for k, v in given.items() if k in method.get_params()})
            Y = method.fit(_add_multi_step_links(graph, steps)).embeddings_[VIEW]
            return {"known": Y, "new": method.embed(VIEW, X[new]) if len(new) else Y[:0]}

        papers = digest(graph.ids[VIEW], new)
        arrays, seconds = self.cached_fit([entry.method, settings, steps, seed, papers], fit)
        train, evaluate = arrays["known"], arrays["new"]
        if not len(new):
            train, evaluate = train[split.train], train[split.evaluate]
        return *scaled(train, evaluate, unit), seconds

    def summarize(self, results: Mapping[Job, Result]) -> Summary:
        """Return the table of all methods, and the goals."""
        goals = []
        for label, wanted in self.settings["goals"].items():
            for metric in self.metrics:
                values = self.values(results, label, metric)
                if metric.name in wanted and values:  # no values: no job was run yet
                    least, mean = wanted[metric.name], float(np.mean(values))
                    name, shown = f"{label}, {metric.label}", spread(values)
                    goals.append(Goal(name, f">= {least:g}", shown, mean >= least))
            times = [r["seconds"] for job, r in results.items() if job.row == label]
            if SECONDS in wanted and times:
                most, median = wanted[SECONDS], float(np.median(times))
                name = f"{label}, seconds per fit"
                goals.append(Goal(name, f"<= {most:g}", f"{median:.1f}", median <= most))
        return Summary(tables=super().summarize(results).tables, goals=goals)


def _add_multi_step_links(graph: MultiViewGraph, steps: int | None) -> MultiViewGraph:
    """Return the graph with links between papers that are at most ``steps`` links apart."""
    if steps is None:
        return graph
    S = multi_step_weights(graph.links[VIEW, VIEW].matrix(), steps, least=1e-3)
    return MultiViewGraph({VIEW: graph.views[VIEW]}, {(VIEW, VIEW): S}, ids=graph.ids)


def scaled(train: Array, evaluate: Array, unit: bool) -> tuple[Array, Array]:
    """Return rows scaled to length 1, or divided by the root mean square of the training entries.

    LIBLINEAR's penalty depends on the scale of vectors, which differs between methods.
    """
    if unit:
        return unit_rows(train), unit_rows(evaluate)
    size = float(np.sqrt(np.mean(np.square(train, dtype=np.float64)))) or 1.0
    return train / size, evaluate / size
