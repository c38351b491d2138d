r"""Families of weights compared on held-out links of a data set.

Every link is held out whole with probability s. A pair that is not in training scores
:math:`\log(s P(w))` if it has a held-out link of weight w, else :math:`\log(1 - s (1 - P(0)))`. The
expected held-out weight of such a pair is :math:`s \mu / (P(0) + s (1 - P(0)))`; E/O is its total
over the total observed.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from pmvge.datasets import load_lastfm, load_side_effects
from pmvge.errors import InputError, choose
from pmvge.evaluation import HeldOutShare, Popularity, evaluate_links
from pmvge.experiments.base import Experiment, Goal, Job, Result, Summary, Table
from pmvge.experiments.kinds.poisson_factors import LogInner, poisson_factors
from pmvge.experiments.paper_model import paper_model
from pmvge.graph import Links, MultiViewGraph, Pair
from pmvge.likelihoods import POISSON, Family
from pmvge.similarities import INNER, Similarity

ROWS = 256  # rows of pairs at once
METRICS = ("held_out_score", "roc_auc", "average_precision")


def _lastfm(folder: Path | None) -> MultiViewGraph:
    return load_lastfm(folder, plays=True)


LOADERS: dict[str, tuple[str, Callable[[Path | None], MultiViewGraph]]] = {
    "lastfm": ("lastfm", _lastfm),
    "side-effects": ("side_effects", load_side_effects),
}


class HeldOutWeights(Experiment):
    """One job for each family and split; every job tunes on its validation split first."""

    options: ClassVar[Mapping[str, Any]] = {
        "data": "lastfm",
        "families": ["poisson", "negative_binomial", "beta"],
        "baseline": "popularity",  # or "mean per effect"
        "rival": "",  # or "hpfrec", with the same dimensions
        "share": 0.1,  # s
        "dimensions": [8, 32],
        "learning_rates": [0.005, 0.02],
        "max_steps": 1000,
        "max_ratio": 0.05,  # the goal for |E/O - 1|
    }
    summary_options = ("max_ratio",)

    def jobs(self) -> list[Job]:
        """Return the jobs by split."""
        return [
            Job(row, str(split))
            for split in range(self.recipe.repetitions)
            for row in (self.settings["baseline"], *self._rivals(), *self.settings["families"])
        ]

    def data_digest(self) -> str:
        """Return a hash of all links."""
        (links,) = self._load().links.values()
        arrays = (links.rows, links.cols, links.weights)
        return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()

    def _rivals(self) -> list[str]:
        return [self.settings["rival"]] if self.settings["rival"] else []

    def check(self) -> None:
        """Raise InputError if data or libraries are missing."""
        self._load()
        for name in self._rivals():
            try:
                import_module(name)
            except ImportError as error:
                raise InputError(
                    f"recipe {self.recipe.name!r} needs {name!r}: install it with pip"
                ) from error

    def _load(self) -> MultiViewGraph:
        choose("data", self.settings["data"], LOADERS, f"recipe {self.recipe.name!r}")
        name, load = LOADERS[self.settings["data"]]
        return load(None if self.data is None else self.data / name)

    def run(self, job: Job) -> Result:
        """Choose the settings on one split, and return the scores on another."""
        graph, split = self._load(), int(job.column)
        if job.row == self.settings["baseline"]:
            return self._baseline(graph, split)
        if job.row in self._rivals():
            return self._factorize(graph, split)
        trials: dict[tuple[int, float], float] = {}
        for K in self.settings["dimensions"]:
            for rate in self.settings["learning_rates"]:
                found = self._fit(graph, job.row, K, rate, 100 + split)
                trials[K, rate] = found.get("held_out_score", found["average_precision"])
        K, rate = max(trials, key=lambda setting: trials[setting])
        started = time.perf_counter()
        return {
            **self._fit(graph, job.row, K, rate, split),
            "n_components": K,
            "learning_rate": rate,
            "seconds": time.perf_counter() - started,
        }

    def _fit(
        self, graph: MultiViewGraph, family: str, K: int, rate: float, split: int
    ) -> dict[str, float]:
        (pair,) = graph.links
        kept, held = self._hold_out(graph, split)
        model = paper_model(
            K,
            similarity="inner",
            family=family,
            effects="vector",
            max_steps=self.settings["max_steps"],
            learning_rate=rate,
            schedule="cosine",
            patience=None,
            random_state=split,
            progress=False,
        ).fit(kept)
        return self._scores(
            model.vectors(pair[0], among=pair[1]),
            model.vectors(pair[1], among=pair[0], side="candidate"),
            kept.links[pair],
            held.links[pair],
            model.log_alpha_[pair],
            model.family_,
            pair,
        )

    def _baseline(self, graph: MultiViewGraph, split: int) -> dict[str, float]:
        """Return the scores of Poisson weights with the mean of each entity, or of both sides."""
        (pair,) = graph.links
        kept, held = self._hold_out(graph, split)
        popular = Popularity.of(kept.links[pair])
        if self.settings["baseline"] != "popularity":  # the same for all rows: the mean of a column
            popular = popular._replace(
                left=np.full(len(popular.left), popular.total / len(popular.left))
            )
        Y, Y_other, log_alpha = popular.vectors()
        return self._scores(
            Y, Y_other, kept.links[pair], held.links[pair], log_alpha, POISSON, pair
        )

    def _factorize(self, graph: MultiViewGraph, split: int) -> dict[str, float]:
        """Return the scores of hierarchical Poisson factorisation, with the best dimension."""
        (pair,) = graph.links

        def fit(K: int, number: int) -> dict[str, float]:
            kept, held = self._hold_out(graph, number)
            Y, Y_other = poisson_factors(kept.links[pair], K, number)
            known, out = kept.links[pair], held.links[pair]
            return self._scores(Y, Y_other, known, out, 0.0, POISSON, pair, LogInner())

        trials = {K: fit(K, 100 + split)["held_out_score"] for K in self.settings["dimensions"]}
        best = max(trials, key=lambda K: trials[K])
        started = time.perf_counter()
        return {**fit(best, split), "seconds": time.perf_counter() - started}

    def _hold_out(self, graph: MultiViewGraph, split: int) -> tuple[MultiViewGraph, MultiViewGraph]:
        """Hold out each link whole with probability s."""
        (pair,) = graph.links
        links = graph.links[pair]
        rng = np.random.default_rng([self.recipe.seed, split])
        out = rng.random(len(links)) < self.settings["share"]
        return tuple(graph.with_links({pair: links.select(part)}) for part in (~out, out))  # type: ignore[return-value]

    def _scores(
        self,
        Y: Any,
        Y_other: Any,
        known: Links,
        held: Links,
        log_alpha: float,
        family: Family,
        pair: Pair,
        similarity: Similarity = INNER,
    ) -> dict[str, float]:
        share = HeldOutShare(self.settings["share"], in_alpha=False)
        own = family.for_pair(*pair)
        found = evaluate_links(
            Y,
            Y_other,
            held,
            log_alpha=log_alpha,
            known=known,
            similarity=similarity,
            family=own,
            pair=pair,
            **share.arguments(log_alpha),
        )
        log_alpha_all = share.arguments(log_alpha)["log_alpha_all"]
        expected = expected_held_out(
            Y, Y_other, known, log_alpha_all, share.share, own, pair, similarity
        )
        scores = {name: float(found[name]) for name in METRICS if name in found}
        return {**scores, "ratio": expected / held.total}

    def summarize(self, results: Mapping[Job, Result]) -> Summary:
        """Return the scores of all families, and goals."""
        by_row: dict[str, dict[str, Result]] = {}
        for job in self.jobs():
            if job in results:
                by_row.setdefault(job.row, {})[job.column] = results[job]
        rows = []
        for row, by_split in by_row.items():
            cells, fits = [row], by_split.values()
            for name, digits in (("held_out_score", 3), ("ratio", 3), ("roc_auc", 4)):
                values = [fit[name] for fit in fits if name in fit]
                spread = f" ± {np.std(values):.{digits}f}" if len(values) > 1 else ""
                cells.append(f"{np.mean(values):.{digits}f}{spread}" if values else "")
            chosen = sorted(
                {
                    f"{fit['n_components']}, {fit['learning_rate']:g}"
                    for fit in fits
                    if "n_components" in fit
                }
            )
            seconds = [fit["seconds"] for fit in fits if "seconds" in fit]
            cells += ["; ".join(chosen), f"{np.median(seconds):.0f}" if seconds else ""]
            rows.append(cells)
        columns = ["family", "held-out score", "E/O", "AUC", "K, learning rate", "seconds"]
        caption = (
            f"{100 * self.settings['share']:.0f} % of the links held out: mean (± standard "
            f"deviation) over splits, of which there are {self.recipe.repetitions}; scores in nats "
            "per held-out link, higher is better; divergences have none"
        )
        return Summary([Table(caption, columns, rows)], [], self._goals(by_row))

    def _goals(self, by_row: Mapping[str, Mapping[str, Result]]) -> list[Goal]:
        scores = {
            row: {split: fit["held_out_score"] for split, fit in fits.items()}
            for row, fits in by_row.items()
            if all("held_out_score" in fit for fit in fits.values())
        }
        families = [row for row in scores if row in self.settings["families"]]
        shared = (
            sorted(set.intersection(*(set(scores[row]) for row in families))) if families else []
        )
        if not shared:
            return []
        best = max(families, key=lambda row: np.mean([scores[row][split] for split in shared]))
        goals = [
            goal
            for row in (self.settings["baseline"], *self._rivals())
            for goal in _compare(f"best family ({best}) against {row}", scores, best, row)
        ]
        if "negative_binomial" in scores and "poisson" in scores:
            what = "negative_binomial against poisson"
            goals += _compare(what, scores, "negative_binomial", "poisson")
            fits = by_row["negative_binomial"].values()
            ratio = float(np.mean([fit["ratio"] for fit in fits]))
            limit = self.settings["max_ratio"]
            goals.append(
                Goal(
                    "negative_binomial: E/O",
                    f"within {100 * limit:.0f} % of 1",
                    f"{ratio:.3f}",
                    abs(ratio - 1) <= limit,
                )
            )
        return goals


def _compare(
    what: str, scores: Mapping[str, Mapping[str, float]], row: str, other: str
) -> list[Goal]:
    """Return the goal that a row is better than another on the splits of both; none without."""
    splits = [split for split in scores[row] if split in scores.get(other, {})]
    if not splits:
        return []
    ours, theirs = ([scores[name][split] for split in splits] for name in (row, other))
    return [
        Goal(
            what,
            "better on every split",
            f"{np.mean(ours):.3f} against {np.mean(theirs):.3f}",
            all(a > b for a, b in zip(ours, theirs, strict=True)),
        )
    ]


def expected_held_out(
    Y: Any,
    Y_other: Any,
    known: Links,
    log_alpha: float,
    share: float,
    family: Family,
    pair: Pair,
    similarity: Similarity = INNER,
) -> float:
    """Return the total expected held-out weight of pairs that are not in training.

    Divergences have no P(0); for them that of Poisson weights is used.
    """
    total, matrix = 0.0, known.matrix()
    candidate = torch.from_numpy(similarity.candidate_array(np.asarray(Y_other, np.float64)))
    probable = family if family.is_likelihood else POISSON
    with torch.no_grad():
        for start in range(0, len(Y), ROWS):
            query = similarity.query_array(np.asarray(Y[start : start + ROWS], np.float64))
            eta = similarity.outer(torch.from_numpy(query) @ candidate.T) + log_alpha
            missing = torch.exp(probable.zero(eta, pair))
            weight = share * family.expected(eta) / (missing + share * (1 - missing))
            weight[torch.from_numpy(matrix[start : start + ROWS].toarray() > 0)] = 0.0
            total += float(weight.sum())
    return total if math.isfinite(total) else math.inf
