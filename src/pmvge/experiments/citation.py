"""The citation network (section 6.1): classify papers, and cluster them, by their vectors."""

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
from pmvge.experiments.kept import Arrays, digest
from pmvge.experiments.methods import METHODS
from pmvge.experiments.recipe import Entry, Recipe
from pmvge.graph import MultiViewGraph, multi_step_weights

Array = NDArray[Any]
Index = NDArray[np.int64]
VIEW = "paper"
SECONDS = "seconds"
FEATURES = "features"  # the method that does nothing


@dataclass(frozen=True)
class Split:
    """Which papers train the classifier, and which ones it is judged on."""

    learn: Index
    judge: Index


class Citation(Comparison):
    """Task 1, accuracy of a classifier on the vectors, and task 2, NMI of clusters and classes."""

    options: ClassVar[Mapping[str, Any]] = {
        "setting": "A",  # "A": vectors are fitted to all papers; "B": to those of the training part
        "test": 0.2,
        "validation": 0.2,  # of what is left
        "fits": 2,  # in (A), with different seeds: the papers of a fit are the same for every split
        "goals": {},  # {label: {metric: percent at least, or "seconds": of a fit, at most}}
    }
    judging = ("goals",)
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
        """The data, read once in a process."""
        return load_cora(None if self.data is None else self.data / "cora")

    def check(self) -> None:
        """The data must be there."""
        _ = self.cora

    def data_digest(self) -> str:
        """Of words, links and labels."""
        X, links = self.cora.graph.views[VIEW], self.cora.graph.links[VIEW, VIEW]
        assert X is not None
        words = [X] if isinstance(X, np.ndarray) else [X.indptr, X.indices, X.data]
        return digest(*words, links.rows, links.cols, links.weights, self.cora.labels)

    def split(self, repetition: int, part: Part) -> Split:
        """For the test: all of the training part learns; for the validation: some of it judges."""
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
        """Accuracy and NMI on the papers that are judged."""
        split, labels = self.split(repetition, part), self.cora.labels
        seed = self.fit_seed(self.settings["setting"], repetition, part)
        learn, judge, seconds = self.vectors(entry, dict(settings), split, seed)
        metrics = {
            "accuracy": classification_accuracy(
                learn, labels[split.learn], judge, labels[split.judge]
            ),
            "nmi": clustering_nmi(judge, labels[split.judge]),
        }
        return Score(metrics, seconds)

    def vectors(
        self, entry: Entry, settings: dict[str, Any], split: Split, seed: int
    ) -> tuple[Array, Array, float]:
        """The vectors of both parts, scaled by what is known of the first; the fit's seconds."""
        unit, steps = settings.pop("unit", False), settings.pop("link_steps", None)
        X = self.cora.graph.views[VIEW]
        assert X is not None
        if entry.method == FEATURES:
            return X[split.learn], X[split.judge], 0.0
        if self.settings["setting"] == "A":
            graph, new = self.cora.graph, split.judge[:0]
        else:
            graph, new = self.cora.graph.subgraph({VIEW: split.learn}), split.judge

        def fit() -> Arrays:
            method = METHODS[entry.method](**settings)
            given = {"random_state": seed, "progress": False}
            method.set_params(**{k: v for k, v in given.items() if k in method.get_params()})
            Y = method.fit(_stepped(graph, steps)).embeddings_[VIEW]
            return {"known": Y, "new": method.embed(VIEW, X[new]) if len(new) else Y[:0]}

        seen = digest(graph.ids[VIEW], new)
        made, seconds = self.kept([entry.method, settings, steps, seed, seen], fit)
        learn, judge = made["known"], made["new"]
        if not len(new):
            learn, judge = learn[split.learn], learn[split.judge]
        return *scaled(learn, judge, unit), seconds

    def summarize(self, results: Mapping[Job, Result]) -> Summary:
        """The table, and how far the goals are met."""
        goals = []
        for label, wanted in self.settings["goals"].items():
            for metric in self.metrics:
                values = self.values(results, label, metric)
                if metric.name in wanted and values:  # else nothing was run yet
                    least, mean = wanted[metric.name], float(np.mean(values))
                    name, shown = f"{label}, {metric.label}", spread(values)
                    goals.append(Goal(name, f">= {least:g}", shown, mean >= least))
            times = [r["seconds"] for job, r in results.items() if job.row == label]
            if SECONDS in wanted and times:
                most, median = wanted[SECONDS], float(np.median(times))
                name = f"{label}, seconds a fit"
                goals.append(Goal(name, f"<= {most:g}", f"{median:.1f}", median <= most))
        return Summary(tables=super().summarize(results).tables, goals=goals)


def _stepped(graph: MultiViewGraph, steps: int | None) -> MultiViewGraph:
    """The same papers, with links between those that few steps join."""
    if steps is None:
        return graph
    S = multi_step_weights(graph.links[VIEW, VIEW].matrix(), steps, least=1e-3)
    return MultiViewGraph({VIEW: graph.views[VIEW]}, {(VIEW, VIEW): S}, ids=graph.ids)


def scaled(learn: Array, judge: Array, unit: bool) -> tuple[Array, Array]:
    """Rows of length 1; or all of them divided by one number, so that an entry's mean square is 1.

    LIBLINEAR's penalty has a scale, and vectors of different methods have none in common.
    """
    if unit:
        return unit_rows(learn), unit_rows(judge)
    size = float(np.sqrt(np.mean(np.square(learn, dtype=np.float64)))) or 1.0
    return learn / size, judge / size
