"""Recommenders on links between two views: known entities, unseen ones, and almost new ones.

Settings are chosen once for each method and problem: on splits that are not reported (MovieLens),
or on the validation part (LastFM). All repetitions use them.
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

from pmvge.datasets import load_lastfm, load_lastfm_split, load_movielens
from pmvge.errors import choose
from pmvge.experiments.base import Goal, Job, Result, Summary, Table
from pmvge.experiments.comparison import Metric, Part, Score, SearchedOnce, percent, spread
from pmvge.experiments.paired import BY_QUERY, Difference, paired_difference
from pmvge.experiments.recipe import Entry, Recipe
from pmvge.experiments.recommender.base import Recommender
from pmvge.experiments.recommender.methods import check_libraries, make_recommender
from pmvge.experiments.recommender.metrics import REFIT, evaluate, evaluate_refit
from pmvge.experiments.recommender.splits import (
    Split,
    hold_out_candidates,
    hold_out_queries,
    hold_out_warm,
    magnn_split,
)
from pmvge.experiments.result_cache import digest
from pmvge.graph import MultiViewGraph

Array = NDArray[Any]
COUNTS = (1, 3, 10)  # first links of almost new users
PROBLEMS: dict[str, tuple[Metric, ...]] = {
    "warm": (Metric("auc", "warm, AUC"), Metric("ndcg", "warm, nDCG@10")),
    "films": (Metric("auc", "unseen films, AUC"), Metric("ndcg", "unseen films, nDCG@10")),
    "users": (
        Metric("auc", "unseen users, AUC"),
        Metric("ndcg_0", "nDCG@10, no links"),
        *(Metric(f"ndcg_{n}", f"{n} link{'s' * (n > 1)}") for n in COUNTS),
        Metric(REFIT, f"{COUNTS[-1]} links, refit"),
    ),
    "pairs": (Metric("auc", "AUC"), Metric("ap", "average precision")),
}
NOT_SEARCHED = {"films": ("ndcg",)}  # metrics that are not part of what a search maximises
DATA = {"movielens": ("warm", "films", "users"), "lastfm": ("pairs",)}
NDCG = {  # the columns where methods are compared query by query: (problem, metric)
    "warm": ("warm", "ndcg"),
    "unseen films": ("films", "ndcg"),
    "no links": ("users", "ndcg_0"),
    **{f"{n} link{'s' * (n > 1)}": ("users", f"ndcg_{n}") for n in COUNTS},
}


class Row(NamedTuple):
    """A method of the recipe on one problem."""

    entry: Entry
    problem: str


class Recommendation(SearchedOnce):
    """Ranking of held-out links, with one row of jobs for each method and problem."""

    options: ClassVar[Mapping[str, Any]] = {
        "data": "movielens",
        "links": 0.1,  # share of the links held out ("warm")
        "entities": 0.15,  # share of the films or users held out ("films", "users")
        "tuning_splits": [100, 101],
        "negatives_seed": 0,  # of LastFM's pairs without a link
        "goals": {},  # {label: {problem: {metric: minimum in percent}}}
        "ours": "",  # the method that others are compared with
        "variants": [],  # other methods that are not its rivals
        "further": [],  # methods that use further links, to compare with ``ours``
        "published": {},  # {label: {metric: percent}}, shown as rows
    }
    summary_options = ("goals", "ours", "variants", "further", "published")

    def __init__(
        self, recipe: Recipe, data: Path | None = None, workspace: Path | None = None
    ) -> None:
        super().__init__(recipe, data, workspace)
        where = f"recipe {recipe.name!r}"
        self.problems = DATA[choose("data", self.settings["data"], DATA, where)]
        for label, goals in self.settings["goals"].items():
            for problem, wanted in goals.items():
                choose("problem", problem, self.problems, f"{where}: goals: {label}")
                for metric in wanted:
                    names = [m.name for m in PROBLEMS[problem]]
                    choose("metric", metric, names, f"{where}: goals: {label}: {problem}")
        self.entries = recipe.methods  # of the recipe, before they are multiplied by problems
        self.rows: dict[str, Row] = {}
        for entry in self.entries:
            method = make_recommender(entry.method, entry.settings)
            for problem in self.problems:
                if self.metrics_of(method, problem):
                    self.rows[self.label(entry.label, problem)] = Row(entry, problem)
        rows = [replace(row.entry, label=label) for label, row in self.rows.items()]
        self.recipe = replace(recipe, methods=tuple(rows))

    def label(self, label: str, problem: str) -> str:
        """Return the label of a method's jobs on a problem."""
        return label if len(self.problems) == 1 else f"{label}: {problem}"

    @staticmethod
    def metrics_of(method: Recommender, problem: str) -> tuple[Metric, ...]:
        """Return the metrics of a problem that a method can have; none if it cannot do it."""
        if problem == "films":
            return PROBLEMS[problem] if method.new_candidates else ()
        if problem == "users":
            from_features = ("auc", "ndcg_0") if method.new_queries else ()
            from_links = tuple(f"ndcg_{n}" for n in COUNTS) if method.first_links else ()
            if not from_features and not from_links:
                return ()
            names = (*from_features, *from_links, REFIT)
            return tuple(metric for metric in PROBLEMS[problem] if metric.name in names)
        return PROBLEMS[problem]

    # -- data -------------------------------------------------------------------------------

    @cached_property
    def graph(self) -> MultiViewGraph:
        """The links between users and films or artists, read once per process."""
        name = self.settings["data"]
        folder = None if self.data is None else self.data / name
        if name == "movielens":
            return load_movielens(folder)
        return load_lastfm(folder, friends=True, tags=True)

    def check(self) -> None:
        """Raise InputError if data or libraries are missing."""
        check_libraries([entry.method for entry in self.entries])
        self.split(self.problems[0], 0, "test")

    def data_digest(self) -> str:
        """Return a hash of ids, features and links."""
        parts: list[Array] = []
        for view, ids in self.graph.ids.items():
            X = self.graph.views[view]
            parts += [ids] if X is None else [ids, X]
        for links in self.graph.links.values():
            parts += [links.rows, links.cols]
        return digest(*parts)

    def split(self, problem: str, number: int, part: Part) -> Split:
        """Return split ``number`` of a problem; LastFM has one split with two parts."""
        if problem == "pairs":
            folder = None if self.data is None else self.data / self.settings["data"]
            parts = load_lastfm_split(folder)
            seed = self.settings["negatives_seed"]
            return magnn_split(self.graph, parts, part, seed, ("user", "artist"))
        rng = np.random.default_rng([self.recipe.seed, number])
        if problem == "warm":
            return hold_out_warm(self.graph, self.settings["links"], rng)
        if problem == "films":
            return hold_out_candidates(self.graph, self.settings["entities"], rng)
        return hold_out_queries(self.graph, self.settings["entities"], COUNTS, rng)

    # -- fits -------------------------------------------------------------------------------

    def score(
        self, entry: Entry, settings: Mapping[str, Any], repetition: int, part: Part
    ) -> Score:
        """Return the metrics on a reported split, or their means over the tuning splits."""
        problem = self.rows[entry.label].problem
        if part == "test" or problem == "pairs":
            return self._score(entry, settings, problem, repetition, part)
        scores = [
            self._score(entry, settings, problem, number, part)
            for number in self.settings["tuning_splits"]
        ]
        left_out = NOT_SEARCHED.get(problem, ())
        names = [name for name in scores[0].metrics if name not in left_out]
        means = {name: float(np.mean([score.metrics[name] for score in scores])) for name in names}
        return Score(means, sum(score.seconds for score in scores))

    def _score(
        self, entry: Entry, settings: Mapping[str, Any], problem: str, number: int, part: Part
    ) -> Score:
        split = self.split(problem, number, part)
        method = make_recommender(entry.method, settings)
        seed = int(np.random.default_rng([self.recipe.seed, number, 1]).integers(2**31))
        started = time.perf_counter()
        method.fit(split.train, split.pair, seed)
        seconds = time.perf_counter() - started
        wanted = {metric.name for metric in self.metrics_of(method, problem)}
        metrics, by_query = evaluate(method, split, wanted)
        if REFIT in wanted and part == "test":
            metrics[REFIT] = evaluate_refit(make_recommender(entry.method, settings), split, seed)
        return Score(metrics, seconds, {BY_QUERY: by_query} if by_query else {})

    # -- tables -----------------------------------------------------------------------------

    def summarize(self, results: Mapping[Job, Result]) -> Summary:
        """Return a table of all methods and problems, paired differences, and the goals."""
        tables = [self._table(results)]
        differences = self._differences(results)
        if differences:
            caption = (
                f"{self.settings['ours']} minus others, nDCG@10 in percentage points: mean over "
                "users and splits, and its paired 95 % bootstrap interval over users"
            )
            rows = [
                [label, *(_shown(differences.get((label, column))) for column in NDCG)]
                for label in dict.fromkeys(label for label, _ in differences)
            ]
            tables.append(Table(caption, ("method", *NDCG), rows))
        goals = [*self._goals(results), *self._column_goals(differences)]
        return Summary(tables=tables, goals=[*goals, *self._further_goals(results)])

    def _differences(self, results: Mapping[Job, Result]) -> dict[tuple[str, str], Difference]:
        """Return how much ``ours`` is above each other method, by label and column of NDCG."""
        found = {}
        for entry in self.entries:
            for column, (problem, metric) in NDCG.items():
                ours, rival = (
                    self.label(name, problem) for name in (self.settings["ours"], entry.label)
                )
                difference = paired_difference(results, ours, rival, metric)
                if difference is not None and rival != ours:
                    found[entry.label, column] = difference
        return found

    def _table(self, results: Mapping[Job, Result]) -> Table:
        columns = [(problem, m) for problem in self.problems for m in PROBLEMS[problem]]
        rows, counts = [], []
        for entry in self.entries:
            row, seconds = [entry.label], []
            for problem, metric in columns:
                found = self._of(results, entry.label, problem)
                scored = [r for r in found if r["scores"] is None or metric.name in r["scores"]]
                row.append(spread([percent(result, metric) for result in scored]))
            for problem in self.problems:
                found = self._of(results, entry.label, problem)
                seconds += [result["seconds"] for result in found]
                if self.label(entry.label, problem) in self.rows:
                    counts.append(len(found))
            row.append(f"{np.median(seconds):.1f}" if seconds else "")
            rows.append(row)
        for label, values in self.settings["published"].items():
            shown = [f"{values[m.name]:g}" if m.name in values else "" for _, m in columns]
            rows.append([f"{label} (as published)", *shown, ""])
        what = "fits with different seeds" if self.problems == ("pairs",) else "splits"
        least, most = min(counts, default=0), max(counts, default=0)
        number = f"{least}" if least == most else f"{least} to {most}"
        caption = f"{self.recipe.title}: mean ± standard deviation over {number} {what}, in percent"
        return Table(caption, ["method", *(m.label for _, m in columns), "seconds per fit"], rows)

    def _of(self, results: Mapping[Job, Result], label: str, problem: str) -> list[Result]:
        row = self.label(label, problem)
        return [result for job, result in results.items() if job.row == row]

    def _goals(self, results: Mapping[Job, Result]) -> list[Goal]:
        goals = []
        for label, problems in self.settings["goals"].items():
            for problem, wanted in problems.items():
                found = self._of(results, label, problem)
                for metric in PROBLEMS[problem]:
                    if metric.name in wanted and found:
                        values = [percent(result, metric) for result in found]
                        least = wanted[metric.name]
                        met = bool(np.mean(values) >= least)
                        name = f"{label}: {metric.label}"
                        goals.append(Goal(name, f">= {least:g}", spread(values), met))
        return goals + self._fold_in_goals(results)

    def _column_goals(self, differences: Mapping[tuple[str, str], Difference]) -> list[Goal]:
        """Return for each nDCG column whether ``ours`` is the first, or within noise of it."""
        goals = []
        for column in NDCG:
            rivals = {
                label: difference
                for (label, its), difference in differences.items()
                if its == column and label not in self.settings["variants"]
            }
            if rivals:
                best = min(rivals, key=lambda label: rivals[label].mean)
                name = f"{self.settings['ours']}: nDCG@10, {column}, against the best ({best})"
                met = rivals[best].high >= 0
                goals.append(Goal(name, "first, or interval reaches 0", _shown(rivals[best]), met))
        return goals

    def _further_goals(self, results: Mapping[Job, Result]) -> list[Goal]:
        """Return for each method with further links whether it is above ``ours``."""
        goals = []
        for label in self.settings["further"]:
            for metric in PROBLEMS["pairs"]:
                base, more = (
                    [percent(result, metric) for result in self._of(results, name, "pairs")]
                    for name in (self.settings["ours"], label)
                )
                if base and more:
                    gain = np.mean(more) - np.mean(base)
                    name = f"{label}: {metric.label} above that of {self.settings['ours']}"
                    met = min(more) > max(base)
                    goals.append(Goal(name, "with every seed", f"{gain:+.2f}", bool(met)))
        return goals

    def _fold_in_goals(self, results: Mapping[Job, Result]) -> list[Goal]:
        """Return the goals of fold-in: nDCG rises with links, and is near that of a refit."""
        ours = self.settings["ours"]
        found = [r["scores"] for r in self._of(results, ours, "users") if r["scores"] is not None]
        names = ["ndcg_0", *(f"ndcg_{n}" for n in COUNTS), REFIT]
        if not found or not all(name in scores for scores in found for name in names):
            return []
        *means, refit = (100 * float(np.mean([s[name] for s in found])) for name in names)
        shown = ", ".join(f"{mean:.1f}" for mean in means)
        counts = ", ".join(map(str, (0, *COUNTS)))
        share = means[-1] / refit
        last = f"{ours}: nDCG@10 after {COUNTS[-1]} links, share of a refit's"
        return [
            Goal(f"{ours}: nDCG@10 after {counts} links", "rises", shown, means == sorted(means)),
            Goal(last, ">= 90 %", f"{100 * share:.0f} %", share >= 0.9),
        ]


def _shown(difference: Difference | None) -> str:
    if difference is None:
        return ""
    return f"{difference.mean:+.1f} ({difference.interval()})"
