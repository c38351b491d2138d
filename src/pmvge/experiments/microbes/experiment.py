"""Metabolites of samples from their microbes: held-out likelihood, and retrieval of samples.

The unit that is held out is the sample, with all its microbes and metabolites. Settings are
searched once for each method and target, on splits that are not reported.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmvge.datasets import load_microbes
from pmvge.experiments.base import Goal, Job, Result, Summary, Table
from pmvge.experiments.comparison import Part, Score, SearchedOnce
from pmvge.experiments.microbes.methods import (
    MATCH,
    MICROBE,
    SAMPLE,
    TARGETS,
    Predictor,
    Problem,
    make_predictor,
)
from pmvge.experiments.paired import BY_QUERY, paired_difference
from pmvge.experiments.recipe import Entry, Recipe
from pmvge.experiments.result_cache import digest
from pmvge.graph import MultiViewGraph

Array = NDArray[Any]
VALUE = "value"  # the metric of a target that is compared sample by sample
COLUMNS = {  # {target: {metric: label}}
    MICROBE: {VALUE: "given a microbe, nats"},
    SAMPLE: {VALUE: "given a sample, nats"},
    MATCH: {VALUE: "retrieval, MRR", "recall": "R@1"},
}


class Row(NamedTuple):
    """A method of the recipe for one target."""

    entry: Entry
    target: str


class MicrobesMetabolites(SearchedOnce):
    """One row of jobs for each method and target."""

    options: ClassVar[Mapping[str, Any]] = {
        "unseen": 0.2,  # share of the samples
        "least": 10,  # training samples that a microbe must be in
        "tuning_splits": [100, 101],
        "ours": {},  # {target: the method that others are compared with}
        "variants": [],  # methods that are not its rivals
    }
    summary_options = ("ours", "variants")

    def __init__(
        self, recipe: Recipe, data: Path | None = None, workspace: Path | None = None
    ) -> None:
        super().__init__(recipe, data, workspace)
        self.entries = recipe.methods  # of the recipe, before they are multiplied by targets
        self.rows = {
            _label(entry.label, target): Row(entry, target)
            for target in TARGETS
            for entry in self.entries
            if target in make_predictor(entry.method, entry.settings).targets
        }
        rows = [replace(row.entry, label=label) for label, row in self.rows.items()]
        self.recipe = replace(recipe, methods=tuple(rows))

    # -- data -------------------------------------------------------------------------------

    @cached_property
    def graph(self) -> MultiViewGraph:
        """The samples with their microbes and metabolites, read once per process."""
        return load_microbes(None if self.data is None else self.data / "microbes")

    def check(self) -> None:
        """Raise InputError if data or libraries are missing."""
        assert self.graph

    def data_digest(self) -> str:
        """Return a hash of ids and links."""
        links = [
            part
            for each in self.graph.links.values()
            for part in (each.rows, each.cols, each.weights)
        ]
        return digest(*self.graph.ids.values(), *links)

    def split(self, number: int) -> tuple[Problem, list[Any]]:
        """Return a problem, and the ids of its new samples."""
        rng = np.random.default_rng([self.recipe.seed, number])
        graph, view = self.graph, "sample"
        order = rng.permutation(graph.sizes[view])
        n_new = round(self.settings["unseen"] * len(order))
        kept, new = np.sort(order[n_new:]), np.sort(order[:n_new])
        A, B = (graph.links[view, other].matrix().toarray() for other in ("microbe", "metabolite"))
        microbes = (A[kept] > 0).sum(axis=0) >= self.settings["least"]
        metabolites = B[kept].sum(axis=0) > 0
        A, B = A[:, microbes], B[:, metabolites]
        # Samples without any frequent microbe have nothing to predict from.
        kept, new = (rows[A[rows].sum(axis=1) > 0] for rows in (kept, new))
        A, B = (each / np.maximum(each.sum(axis=1, keepdims=True), 1) for each in (A, B))
        problem = Problem(
            A[kept],
            B[kept],
            A[new],
            B[new],
            graph.ids["microbe"][microbes],
            graph.ids["metabolite"][metabolites],
        )
        return problem, graph.ids[view][new].tolist()

    # -- fits -------------------------------------------------------------------------------

    def score(
        self, entry: Entry, settings: Mapping[str, Any], repetition: int, part: Part
    ) -> Score:
        """Return the metrics on a reported split, or their means over the tuning splits."""
        target = self.rows[entry.label].target
        if part == "test":
            return self._score(entry, settings, target, repetition)
        numbers = self.settings["tuning_splits"]
        scores = [self._score(entry, settings, target, number) for number in numbers]
        mean = float(np.mean([score.metrics[VALUE] for score in scores]))
        return Score({VALUE: mean}, sum(score.seconds for score in scores))

    def _score(self, entry: Entry, settings: Mapping[str, Any], target: str, number: int) -> Score:
        problem, samples = self.split(number)
        method = make_predictor(entry.method, settings)
        seed = int(np.random.default_rng([self.recipe.seed, number, 1]).integers(2**31))
        started = time.perf_counter()
        found = evaluate(method, problem, target, seed)
        seconds = time.perf_counter() - started
        by_query = {VALUE: [samples, [round(float(value), 6) for value in found[VALUE]]]}
        metrics = {name: float(np.mean(values)) for name, values in found.items()}
        return Score(metrics, seconds, {BY_QUERY: by_query})

    # -- tables -----------------------------------------------------------------------------

    def summarize(self, results: Mapping[Job, Result]) -> Summary:
        """Return a table of all methods, paired differences, and the goals."""
        rows = []
        for entry in self.entries:
            row, seconds = [entry.label], []
            for target, columns in COLUMNS.items():
                found = self._of(results, entry.label, target)
                seconds += [result["seconds"] for result in found]
                digits = 3 if target != MATCH else 1
                for metric in columns:
                    values = [_metric(result, target, metric) for result in found]
                    row.append(_spread(values, digits))
            rows.append([*row, f"{np.median(seconds):.1f}" if seconds else ""])
        if results:
            rows.append(["random order", "", "", *self._random(), ""])
        counts = [sum(job.row == label for job in results) for label in self.rows]
        caption = (
            f"{self.recipe.title}: mean ± standard deviation over {min(counts, default=0)} splits; "
            "log-likelihood per sample in nats, retrieval in percent; higher is better"
        )
        head = ["method", *(label for each in COLUMNS.values() for label in each.values())]
        tables = [Table(caption, [*head, "seconds per fit"], rows)]
        return Summary([*tables, *self._differences(results)], [], self._goals(results))

    def _of(self, results: Mapping[Job, Result], label: str, target: str) -> list[Result]:
        row = _label(label, target)
        return [r for job, r in results.items() if job.row == row and r["scores"] is not None]

    def _random(self) -> list[str]:
        """Return MRR and R@1 of a random order of the new samples of the first split."""
        n = len(self.split(0)[1])
        return [f"{100 * np.mean(1 / np.arange(1, n + 1)):.1f}", f"{100 / n:.1f}"]

    def _difference(
        self, results: Mapping[Job, Result], label: str, target: str
    ) -> tuple[float, float, float] | None:
        """Return mean, low and high of what ``ours`` is above another method."""
        ours = self.settings["ours"].get(target)
        found = paired_difference(results, _label(ours, target), _label(label, target), VALUE)
        if found is None or label == ours:
            return None
        scale = 1.0 if target == MATCH else 0.01  # percentage points, or nats
        return found.mean * scale, found.low * scale, found.high * scale

    def _differences(self, results: Mapping[Job, Result]) -> list[Table]:
        rows = []
        for entry in self.entries:
            found = [self._difference(results, entry.label, target) for target in COLUMNS]
            if any(found):
                rows.append([entry.label, *map(_shown, found)])
        ours = ", ".join(self.settings["ours"].values())
        caption = (
            f"Ours ({ours}) minus others: mean over samples and splits, and its paired 95 % "
            "bootstrap interval over samples"
        )
        head = ["method", *(labels[VALUE] for labels in COLUMNS.values())]
        return [Table(caption, head, rows)] if rows else []

    def _goals(self, results: Mapping[Job, Result]) -> list[Goal]:
        """Return for each target whether ``ours`` is above every other method."""
        goals = []
        for target, labels in COLUMNS.items():
            ours = self.settings["ours"].get(target)
            for entry in self.entries:
                found = self._difference(results, entry.label, target)
                if found is not None and entry.label not in self.settings["variants"]:
                    what = f"{ours}: {labels[VALUE]}, above {entry.label}"
                    goals.append(Goal(what, "interval above 0", _shown(found), found[1] > 0))
        return goals


def evaluate(method: Predictor, problem: Problem, target: str, seed: int) -> dict[str, Array]:
    """Return the metrics of a target for each new sample.

    The log-likelihood of a sample is the mean of log p(metabolite | microbe) over its microbes and
    metabolites by their shares, or that of log p(metabolite | sample) over its metabolites. MRR is
    1 / rank of the sample's own metabolites among those of all new samples.
    """
    B = problem.new_metabolites
    if target == MATCH:
        scores = method.match(problem, seed)
        own = np.diag(scores)[:, None]
        rank = 1 + (scores > own).sum(axis=1) + ((scores == own).sum(axis=1) - 1) / 2
        return {VALUE: 1 / rank, "recall": (rank == 1).astype(float)}
    if target == MICROBE:
        log_p = method.given_microbe(problem, seed)
        return {VALUE: np.einsum("si,ij,sj->s", problem.new_microbes, log_p, B, optimize=True)}
    return {VALUE: (method.given_sample(problem, seed) * B).sum(axis=1)}


def _label(label: str, target: str) -> str:
    return f"{label}: {target}"


def _metric(result: Result, target: str, metric: str) -> float:
    value = float(result["scores"][metric])
    return 100 * value if target == MATCH else value


def _spread(values: list[float], digits: int) -> str:
    if not values:
        return ""
    deviation = f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):.{digits}f}{deviation}"


def _shown(found: tuple[float, float, float] | None) -> str:
    if found is None:
        return ""
    mean, low, high = found
    return f"{mean:+.3f} ({low:+.3f} to {high:+.3f})"
