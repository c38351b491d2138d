"""Links between two sides, with unseen entities on both sides, on one, or on none.

Every method is tuned alike, once for each set and problem, on splits that are not reported.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.metrics import average_precision_score, roc_auc_score

from pmvge.datasets import FOLDS, Bipartite, load_bipartite
from pmvge.experiments.base import Goal, Job, Result, Summary, Table
from pmvge.experiments.bipartite.methods import Problem, make_predictor, predictor_class
from pmvge.experiments.comparison import Part, Score, SearchedOnce
from pmvge.experiments.recipe import Entry, Recipe
from pmvge.experiments.result_cache import digest

Array = NDArray[Any]
PROBLEMS = ("both unseen", "rows unseen", "columns unseen", "known")
SHOWN = {  # the columns of the table, and the problems whose mean they are
    "both unseen": ("both unseen",),
    "one unseen": ("rows unseen", "columns unseen"),
    "known": ("known",),
}
METRICS = {"ap": "AP", "auc": "AUROC"}


class Row(NamedTuple):
    """A method of the recipe on one problem of one set."""

    entry: Entry
    name: str
    problem: str


class BipartiteLinks(SearchedOnce):
    """Prediction of 0/1 links, with one row of jobs for each method, set and problem."""

    options: ClassVar[Mapping[str, Any]] = {
        "sets": list(FOLDS),
        "links": 0.1,  # share of the links held out ("known")
        "tuning_splits": [100, 101],
        "ours": "PMvGE",
        "rival": "Kronecker ridge",
        "variants": [],  # other methods that are not rivals of ``ours``
    }
    summary_options = ("ours", "rival", "variants")

    def __init__(
        self, recipe: Recipe, data: Path | None = None, workspace: Path | None = None
    ) -> None:
        super().__init__(recipe, data, workspace)
        self.entries = recipe.methods  # of the recipe, before they are multiplied by problems
        self.rows = {
            _label(entry.label, name, problem): Row(entry, name, problem)
            for name in self.settings["sets"]
            for problem in PROBLEMS
            for entry in self.entries
        }
        rows = [replace(row.entry, label=label) for label, row in self.rows.items()]
        self.recipe = replace(recipe, methods=tuple(rows))

    # -- data -------------------------------------------------------------------------------

    def load(self, name: str) -> Bipartite:
        """Return a set, read once per process."""
        return _load(name, None if self.data is None else self.data / "bipartite")

    def check(self) -> None:
        """Raise InputError if data are missing, or what a method needs."""
        for entry in self.entries:
            predictor_class(entry.method).check()
        for name in self.settings["sets"]:
            self.load(name)

    def unavailable(self) -> dict[str, str]:
        """Return the labels of methods whose environment is not given, with the reasons."""
        needs = {entry.label: predictor_class(entry.method).needs() for entry in self.entries}
        return {label: reason for label, reason in needs.items() if reason}

    def data_digest(self) -> str:
        """Return a hash of all similarities and links."""
        return digest(*(part for name in self.settings["sets"] for part in self.load(name)))

    def split(self, name: str, problem: str, number: int) -> tuple[Problem, Array, Array]:
        """Return a problem, the links of the scored pairs, and which of the pairs count."""
        rng = np.random.default_rng([self.recipe.seed, number])
        return split(self.load(name), FOLDS[name], problem, self.settings["links"], rng)

    # -- fits -------------------------------------------------------------------------------

    def score(
        self, entry: Entry, settings: Mapping[str, Any], repetition: int, part: Part
    ) -> Score:
        """Return the metrics on a reported split, or their means over the tuning splits."""
        row = self.rows[entry.label]
        numbers = [repetition] if part == "test" else self.settings["tuning_splits"]
        found: dict[str, list[float]] = {"ap": [], "auc": []}
        started = time.perf_counter()
        for number in numbers:
            problem, truth, counts = self.split(row.name, row.problem, number)
            scores = make_predictor(entry.method, settings).scores(problem, number)
            found["ap"].append(float(average_precision_score(truth[counts], scores[counts])))
            found["auc"].append(float(roc_auc_score(truth[counts], scores[counts])))
        means = {name: float(np.mean(values)) for name, values in found.items()}
        return Score(means, time.perf_counter() - started)

    # -- tables -----------------------------------------------------------------------------

    def summarize(self, results: Mapping[Job, Result]) -> Summary:
        """Return means and mean ranks over the sets, a table by set, and the goals."""
        by_set = {
            (shown, metric): self._means(results, problems, metric)
            for shown, problems in SHOWN.items()
            for metric in METRICS
        }
        labels = [entry.label for entry in self.entries]
        head = ["method"]
        for shown in SHOWN:
            head += [f"{shown}, {name}" for name in METRICS.values()] + ["mean rank"]
        rows = []
        for at, label in enumerate(labels):
            row = [label]
            for shown in SHOWN:
                row += [_percent(by_set[shown, metric][at].mean()) for metric in METRICS]
                row.append(f"{self._ranks(by_set, shown)[at]:.1f}")
            rows.append(row)
        counts = [sum(job.row == label for job in results) for label in self.rows]
        caption = (
            f"{self.recipe.title}: means over {len(self.settings['sets'])} sets and "
            f"{min(counts, default=0)} splits, in percent; mean rank over sets, AP and AUROC"
        )
        tables = [Table(caption, head, rows)]
        for shown in SHOWN:
            values = [by_set[shown, metric] for metric in METRICS]
            cells = [
                [
                    label,
                    *(f"{_percent(ap)} / {_percent(auc)}" for ap, auc in zip(*pair, strict=True)),
                ]
                for label, *pair in zip(labels, *values, strict=True)
            ]
            head = ["method", *self.settings["sets"]]
            tables.append(Table(f"AP / AUROC by set, {shown}, in percent", head, cells))
        return Summary(tables=tables, goals=self._goals(by_set, labels))

    def _means(
        self, results: Mapping[Job, Result], problems: tuple[str, ...], metric: str
    ) -> Array:
        """Return the mean of a metric over splits, (methods, sets); NaN where there is none."""
        found = np.full((len(self.entries), len(self.settings["sets"])), np.nan)
        for at, entry in enumerate(self.entries):
            for column, name in enumerate(self.settings["sets"]):
                rows = {_label(entry.label, name, problem) for problem in problems}
                values = [
                    result["scores"][metric]
                    for job, result in results.items()
                    if job.row in rows and result["scores"] is not None
                ]
                if values:
                    found[at, column] = np.mean(values)
        return found

    @staticmethod
    def _ranks(by_set: Mapping[tuple[str, str], Array], shown: str) -> Array:
        """Return the mean rank of each method over sets and both metrics; 1 is the best."""
        ranks = [rankdata(-by_set[shown, metric], axis=0) for metric in METRICS]
        return np.asarray(np.mean(np.hstack(ranks), axis=1))

    def _goals(self, by_set: Mapping[tuple[str, str], Array], labels: list[str]) -> list[Goal]:
        ours, rival = self.settings["ours"], self.settings["rival"]
        if ours not in labels or rival not in labels:
            return []
        goals = []
        kept = [n for n, label in enumerate(labels) if label not in self.settings["variants"]]
        compared = {key: values[kept] for key, values in by_set.items()}
        without = "".join(f" without {label}" for label in self.settings["variants"])
        for shown in SHOWN:
            names = [labels[n] for n in kept]
            ranks = dict(zip(names, self._ranks(compared, shown), strict=True))
            best = min(ranks, key=lambda label: ranks[label])
            found = f"{ranks[ours]:.1f}; {best} {ranks[best]:.1f}"
            what = f"{ours}: {shown}, mean rank{without}"
            goals.append(Goal(what, "first", found, best == ours))
        for metric, name in METRICS.items():
            values = by_set["both unseen", metric]
            a, b = values[labels.index(ours)], values[labels.index(rival)]
            shown_means = f"{_percent(a.mean())} and {_percent(b.mean())}, {(a > b).sum()} sets"
            what = f"{ours}: both unseen, {name} above {rival}'s"
            wanted = f"on the mean and on {min(4, len(a))} of {len(a)}"
            met = bool(a.mean() > b.mean() and (a > b).sum() >= min(4, len(a)))
            goals.append(Goal(what, wanted, shown_means, met))
        return goals


def split(
    data: Bipartite, folds: int, problem: str, share: float, rng: np.random.Generator
) -> tuple[Problem, Array, Array]:
    """Return a problem, the links of the scored pairs, and which of the pairs count.

    One of ``folds`` parts of a side is unseen; for the problem "known" a share of the links is held
    out, and pairs that are linked in training do not count.
    """
    if problem == "known":
        i, j = np.nonzero(data.links)
        out = rng.permutation(len(i))[: max(1, round(share * len(i)))]
        train, truth = data.links.copy(), np.zeros(data.links.shape, bool)
        train[i[out], j[out]], truth[i[out], j[out]] = 0, True
        return Problem(data.rows, data.columns, train), truth, train == 0
    folds_of = (
        folds if problem != "columns unseen" else 1,
        folds if problem != "rows unseen" else 1,
    )
    while True:  # small sets have parts without links: draw others
        kept, out = _fold(len(data.rows), folds_of[0], rng)
        kept_other, out_other = _fold(len(data.columns), folds_of[1], rng)
        scored = np.ix_(out if len(out) else kept, out_other if len(out_other) else kept_other)
        truth = data.links[scored] > 0
        if 0 < truth.sum() < truth.size:
            break
    made = Problem(
        data.rows[np.ix_(kept, kept)],
        data.columns[np.ix_(kept_other, kept_other)],
        data.links[np.ix_(kept, kept_other)],
        data.rows[np.ix_(out, kept)] if len(out) else None,
        data.columns[np.ix_(out_other, kept_other)] if len(out_other) else None,
    )
    return made, truth, np.ones_like(truth)


def _fold(n: int, folds: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return sorted positions of training and unseen entities; one fold means none is unseen."""
    order = rng.permutation(n)
    size = n // folds if folds > 1 else 0
    return np.sort(order[size:]), np.sort(order[:size])


@lru_cache(maxsize=len(FOLDS))
def _load(name: str, folder: Path | None) -> Bipartite:
    return load_bipartite(name, folder)


def _label(label: str, name: str, problem: str) -> str:
    return f"{label}: {name}: {problem}"


def _percent(value: float) -> str:
    return "" if np.isnan(value) else f"{100 * value:.1f}"
