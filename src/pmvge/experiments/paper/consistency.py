r"""Section 5.2 and supplement B: the maximum likelihood estimate is consistent.

Graphs are drawn from a linear PMvGE with known :math:`\alpha_*, \psi_*` and fitted by a model of
the same family. Parameters are identified only up to a rotation, so expected weights are compared:

.. math:: e_n^2 = \mathrm{mean}\, (\log\hat\mu_{ij} - \log\mu^*_{ij})^2

over pairs of new entities, the same for every n; and :math:`\ell_n / |I_n|` with its expectation
:math:`\ell(\theta) = E[\mu_*\log\mu - \mu]`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pmvge.experiments.base import Experiment, Job, Result, Summary
from pmvge.experiments.paper.consistency_tables import summarize_by_size
from pmvge.experiments.paper_model import paper_model
from pmvge.graph import MultiViewGraph, Pair
from pmvge.likelihoods import log_likelihood
from pmvge.model import PMvGE
from pmvge.simulation import simulate

Array = NDArray[np.float64]
Maps = dict[str, Array]  # psi of every view, (p, K)
COLUMNS = {"one": 5, "two": 4, "three": 3}  # p of each view
DESIGNS: dict[str, list[Pair]] = {
    "D = 2": [("one", "one"), ("one", "two"), ("two", "two")],
    "D = 3, a pair missing": [
        *[("one", "one"), ("one", "two"), ("two", "two")],
        *[("two", "three"), ("three", "three")],
    ],
}
MISSING = ("one", "three")  # not observed in the second design, but predicted by the maps
STARTS = 3  # random starts, of which the best is used: the likelihood may have local maxima


class Consistency(Experiment):
    """One job for each design, size and repetition."""

    options: ClassVar[Mapping[str, Any]] = {
        "sizes": [100, 300, 1000, 3000, 10000],  # entities of all views together
        "alpha": 0.02,
        "strength": 0.6,  # root mean square of the entries of psi
        "n_components": 2,
        "fresh": 300,  # new entities per view, whose pairs are compared
        # Stages of a fit: [number of first entities at most, steps, learning rate]. A small part
        # gives a good start at low cost; small steps are then enough.
        "stages": [[1000, 400, 0.1], [3000, 200, 0.02], [1_000_000, 60, 0.005]],
    }

    def jobs(self) -> list[Job]:
        """Return the jobs, small sizes first."""
        return [
            Job(design, f"{n} nodes, {repetition}")
            for n in self.settings["sizes"]
            for repetition in range(self.recipe.repetitions)
            for design in DESIGNS
        ]

    def truth(self) -> Maps:
        r"""Return :math:`\psi_*`, the same in all jobs: orthogonal columns of equal length."""
        rng, K = np.random.default_rng([self.recipe.seed, 0]), self.settings["n_components"]
        return {
            view: self.settings["strength"]
            * math.sqrt(p)
            * np.linalg.qr(rng.normal(size=(p, K)))[0]
            for view, p in COLUMNS.items()
        }

    def run(self, job: Job) -> Result:
        """Return the errors and likelihoods of a model fitted to a graph drawn from the truth."""
        started = time.perf_counter()
        pairs, psi, alpha = DESIGNS[job.row], self.truth(), self.settings["alpha"]
        n, repetition = (int(text) for text in job.column.split(" nodes, "))
        rng = np.random.default_rng(
            [self.recipe.seed, 1, list(DESIGNS).index(job.row), n, repetition]
        )
        views = list(dict.fromkeys(view for pair in pairs for view in pair))
        X = {view: draw(rng, n // len(views), view) for view in views}
        encoders = {view: Map(psi[view]) for view in views}
        graph = simulate(X, encoders, dict.fromkeys(pairs, alpha), rng, draw="links")
        model = self.fit(graph, rng)
        psi_hat = {view: psi_of(model, view) for view in views}
        log_alpha = dict.fromkeys(graph.links, math.log(alpha))
        Y = {view: X[view] @ psi[view] for view in views}
        return {
            "links": graph.n_links,
            "error": self.error(psi, psi_hat, {p: model.log_alpha_of(*p) for p in pairs}),
            "missing": self.error(psi, psi_hat, {MISSING: math.log(alpha)})
            if MISSING[1] in views
            else None,
            "estimate": model.log_likelihood(graph) / graph.n_terms,
            "truth": sum(log_likelihood(graph, Y, log_alpha).values()) / graph.n_terms,
            "expected": sum(
                links.n_terms / graph.n_terms * expected_term(psi[a], psi[b], alpha)
                for (a, b), links in graph.links.items()
            ),
            "seconds": time.perf_counter() - started,
        }

    def fit(self, graph: MultiViewGraph, rng: np.random.Generator) -> PMvGE:
        """Return a maximum likelihood fit: the best of several starts, then on larger parts."""
        (nodes, steps, rate), *stages = self.settings["stages"]
        part, K = self._first(graph, nodes), self.settings["n_components"]
        starts = [
            {view: 0.1 * rng.normal(size=(COLUMNS[view], K)) for view in graph.view_names}
            for _ in range(STARTS)
        ]
        models = [self._ascend(part, start, steps, rate, rng) for start in starts]
        model = max(models, key=lambda candidate: candidate.log_likelihood(part))
        for nodes, steps, rate in stages:
            part, start = self._first(graph, nodes), {v: psi_of(model, v) for v in graph.view_names}
            model = self._ascend(part, start, steps, rate, rng)
            if part.n_nodes == graph.n_nodes:
                break
        return model

    def _first(self, graph: MultiViewGraph, nodes: int) -> MultiViewGraph:
        """Return the subgraph of the first entities, equally many of each view."""
        share = nodes // len(graph.view_names)
        return graph.subgraph({v: range(min(share, n)) for v, n in graph.sizes.items()})

    def _ascend(
        self, graph: MultiViewGraph, start: Maps, steps: int, rate: float, rng: np.random.Generator
    ) -> PMvGE:
        """Fit PMvGE from given maps, with all links and pairs of a view pair in every step."""
        encoder: Any = {view: Map(psi) for view, psi in start.items()}
        return paper_model(
            self.settings["n_components"],
            encoder=encoder,
            similarity="inner",
            batch_size=max(graph.n_nodes, graph.n_links),
            max_steps=steps,
            learning_rate=rate,
            schedule="cosine",
            patience=None,
            random_state=int(rng.integers(2**31)),
            progress=False,
        ).fit(graph)

    def error(self, psi: Maps, psi_hat: Maps, log_alpha: Mapping[Pair, float]) -> float:
        r"""Return the RMS of :math:`\log\hat\mu - \log\mu_*` over pairs of new entities."""
        rng = np.random.default_rng([self.recipe.seed, 2])
        squares = []
        for a, b in log_alpha:
            left, right = (draw(rng, self.settings["fresh"], view) for view in (a, b))
            g_hat = (left @ psi_hat[a]) @ (right @ psi_hat[b]).T
            g = (left @ psi[a]) @ (right @ psi[b]).T
            gap = g_hat - g + log_alpha[a, b] - math.log(self.settings["alpha"])
            squares.append(np.mean(gap**2))
        return math.sqrt(np.mean(squares))

    def summarize(self, results: Mapping[Job, Result]) -> Summary:
        """Return errors against n with slopes, and the likelihood with its expectation."""
        by_design = {design: self._by_size(results, design) for design in DESIGNS}
        return summarize_by_size(by_design, self.settings["sizes"], self.recipe.repetitions)

    def _by_size(self, results: Mapping[Job, Result], design: str) -> dict[int, list[Result]]:
        by_size: dict[int, list[Result]] = {}
        for job in self.jobs():
            if job.row == design and job in results:
                by_size.setdefault(int(job.column.split()[0]), []).append(results[job])
        return by_size


class Map(nn.Linear):
    """The linear map of x to psi^T x, without a bias."""

    def __init__(self, psi: Array) -> None:
        super().__init__(len(psi), psi.shape[1], bias=False)
        self.weight = nn.Parameter(torch.from_numpy(psi.T.astype(np.float32)))


def draw(rng: np.random.Generator, n: int, view: str) -> Array:
    """Draw data vectors, uniform on [-1, 1]^p: the theorem requires compact support."""
    return rng.uniform(-1, 1, size=(n, COLUMNS[view]))


def psi_of(model: PMvGE, view: str) -> Array:
    """Return the map of a view, (p, K)."""
    return model.embed(view, np.eye(COLUMNS[view])).astype(np.float64)


def expected_term(psi: Array, psi_other: Array, alpha: float, draws: int = 50_000) -> float:
    r"""Return :math:`E[\mu\log\mu - \mu]`, :math:`\mu = \alpha e^{\langle v, x'\rangle}`.

    For given x, with :math:`v = \psi' \psi^\top x`, the mean over x' is in closed form:
    :math:`E\, e^{\langle v, x'\rangle} = \prod_k \sinh(v_k) / v_k =: M`, and
    :math:`E \langle v, x'\rangle e^{\langle v, x'\rangle} = M \sum_k (v_k \coth v_k - 1)`. The mean
    over x is estimated by sampling.
    """
    x = np.random.default_rng(0).uniform(-1, 1, size=(draws, len(psi)))
    v = np.abs(x @ psi @ psi_other.T) + 1e-9  # both functions are even; avoid 0 / 0
    M = np.prod(np.sinh(v) / v, axis=1)
    g = np.sum(v / np.tanh(v) - 1, axis=1)
    return float(alpha * np.mean(M * (math.log(alpha) - 1 + g)))
