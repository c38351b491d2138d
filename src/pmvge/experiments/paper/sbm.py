r"""Section 3.6: the stochastic block model as PMvGE, in two ways.

Links :math:`w_{ij} \sim \mathrm{Poisson}(\beta^{(c_i, c_j)})` join entities of known blocks. One
view of one-hot membership vectors with a linear map gives
:math:`\mu_{ij} = \alpha \exp\langle\psi^{c_i}, \psi^{c_j}\rangle`; one view per block with f = 0
gives :math:`\mu_{ij} = \alpha^{(c_i, c_j)}`. Both are compared with the block model's own maximum
likelihood estimate, the mean weight of each pair of blocks, and with the true :math:`\beta`.
Similarities that need not be positive definite take the place of the inner product, too.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from plotly.graph_objects import Figure
from torch import nn

from pmvge.experiments.base import Experiment, Goal, Job, Plot, Result, Summary, Table
from pmvge.experiments.paper_model import paper_model
from pmvge.graph import MultiViewGraph
from pmvge.pages import HUES

Array = NDArray[np.float64]
# Ranges of the densities within blocks, and between blocks.
MODELS = {
    "dense within blocks": ((0.8, 1.4), (0.12, 0.25)),
    "dense between blocks": ((0.1, 0.2), (0.5, 1.0)),
}
DASHES = ("solid", "dash", "dot")  # of similarities
MAX_ERROR = 0.07  # the goal for similarities that need not be positive definite


class StochasticBlockModel(Experiment):
    """One job for each kind of block model and repetition."""

    options: ClassVar[Mapping[str, Any]] = {
        "n_blocks": 6,
        "block_size": 40,
        "dimensions": [1, 2, 3, 4, 5, 6, 8, 10],
        "similarities": ["inner", "weighted", "difference"],
        "max_steps": 600,
        "learning_rate": 0.05,
    }

    def jobs(self) -> list[Job]:
        """Return the jobs by repetition."""
        return [
            Job(model, str(repetition))
            for repetition in range(self.recipe.repetitions)
            for model in MODELS
        ]

    def run(self, job: Job) -> Result:
        """Return the distances of all models' densities from the truth and from the estimate."""
        started = time.perf_counter()
        rng = np.random.default_rng(
            [self.recipe.seed, list(MODELS).index(job.row), int(job.column)]
        )
        beta = self.draw_beta(rng, *MODELS[job.row])
        c = np.repeat(np.arange(len(beta)), self.settings["block_size"])
        W = np.triu(rng.poisson(beta[c][:, c]), 1).astype(np.float64)
        own = densities(W, c)
        by_views = self.one_view_per_block(W, c)
        by_map = {
            similarity: [
                self.one_hot(W, c, similarity, K, int(job.column))
                for K in self.settings["dimensions"]
            ]
            for similarity in self.settings["similarities"]
        }
        return {
            "truth": {s: [log_distance(mu, beta) for mu in fits] for s, fits in by_map.items()},
            "own": {s: [log_distance(mu, own) for mu in fits] for s, fits in by_map.items()},
            "own_truth": log_distance(own, beta),
            "views": log_distance(by_views, own),
            "seconds": time.perf_counter() - started,
        }

    def draw_beta(
        self, rng: np.random.Generator, within: tuple[float, float], between: tuple[float, float]
    ) -> Array:
        """Draw symmetric densities, (C, C)."""
        C = self.settings["n_blocks"]
        upper = np.triu(rng.uniform(*between, size=(C, C)), 1)
        return np.asarray(upper + upper.T + np.diag(rng.uniform(*within, size=C)))

    def one_hot(self, W: Array, c: NDArray[np.int64], similarity: str, K: int, seed: int) -> Array:
        """Return densities from one view of one-hot memberships mapped linearly to K dimensions."""
        one_hot = np.eye(self.settings["n_blocks"])
        model = paper_model(
            K,
            encoder="linear",
            similarity=similarity,
            standardize=False,
            batch_size=len(c) ** 2,  # all links and all pairs in every step
            max_steps=self.settings["max_steps"],
            learning_rate=self.settings["learning_rate"],
            schedule="cosine",
            patience=None,
            random_state=seed,
            progress=False,
        ).fit(MultiViewGraph({"node": one_hot[c]}, {("node", "node"): W}))
        return model.intensity("node", one_hot, "node", one_hot)

    def one_view_per_block(self, W: Array, c: NDArray[np.int64]) -> Array:
        """Return densities from one view per block with f = 0, where mu is alpha."""
        names = [f"block {d}" for d in range(self.settings["n_blocks"])]
        rows = [np.flatnonzero(c == d) for d in range(len(names))]
        links = {
            (names[d], names[e]): W[np.ix_(rows[d], rows[e])]
            for d in range(len(names))
            for e in range(d, len(names))
        }
        graph = MultiViewGraph(dict(zip(names, map(len, rows), strict=True)), links)
        encoder: Any = {name: Zero() for name in names}
        model = paper_model(1, encoder=encoder, similarity="inner", progress=False).fit(graph)
        order = [model.view_names_.index(name) for name in names]
        return model.alpha_[np.ix_(order, order)]

    def summarize(self, results: Mapping[Job, Result]) -> Summary:
        """Return the error of beta against K."""
        dimensions, figure = self.settings["dimensions"], Figure()
        rows, goals = [], []
        for color, model in zip(HUES, MODELS, strict=False):
            graphs = [result for job, result in results.items() if job.row == model]
            if not graphs:
                continue
            truth, own = (
                {s: np.median([r[key][s] for r in graphs], axis=0) for s in graphs[0][key]}
                for key in ("truth", "own")
            )
            limit = float(np.median([r["own_truth"] for r in graphs]))
            views = float(np.median([r["views"] for r in graphs]))
            for s in truth:
                for K, to_truth, to_own in zip(dimensions, truth[s], own[s], strict=True):
                    label = f"one-hot, {s}, K = {K}"
                    rows.append([model, label, f"{to_truth:.4f}", f"{to_own:.1e}"])
            rows.append([model, "one view per block", f"{limit:.4f}", f"{views:.1e}"])
            for s, dash in zip(truth, DASHES, strict=False):
                figure.add_scatter(
                    x=dimensions,
                    y=truth[s].tolist(),
                    line={"color": color, "dash": dash},
                    name=f"{model}: {s}",
                )
            figure.add_scatter(
                x=[dimensions[0], dimensions[-1]],
                y=[limit, limit],
                mode="lines",
                line={"color": color, "width": 1},
                name=f"{model}: one view per block",
            )
            goals += _goals(model, dimensions, truth, own, views)
        figure.update_layout(
            template="plotly_white",
            xaxis={"title": "dimension K of the one-hot model", "tickvals": dimensions},
            yaxis={
                "title": "root mean square error of log β",
                "type": "log",
                "tickvals": [0.02, 0.05, 0.1, 0.2, 0.5, 1],
            },
        )
        plot = Plot(
            "Error of the block densities: with one-hot memberships against K (medians), and with "
            "one view per block (thin), which is the block model's own estimate. With K large "
            "enough, inner products match it for blocks that are dense within. They never do for "
            "blocks that are dense between each other, because no inner product of a vector with "
            "itself is negative. Weighted and difference similarities have no such limit.",
            figure,
        )
        caption = (
            "Root mean square distance of log μ from the true log β and from the block model's own "
            f"estimate: medians of {self.recipe.repetitions} graphs"
        )
        columns = ["densities", "PMvGE", "from the truth", "from the block model"]
        return Summary([Table(caption, columns, rows)], [plot] if rows else [], goals)


def _goals(
    model: str,
    dimensions: list[int],
    truth: Mapping[str, Array],
    own: Mapping[str, Array],
    views: float,
) -> list[Goal]:
    goals = [
        Goal(
            f"{model}: one view per block against the block model's estimate",
            "equal (1e-9)",
            f"{views:.0e}",
            views < 1e-9,
        )
    ]
    K = dimensions[-1]
    if model == next(iter(MODELS)):
        if "inner" in own:
            goals.append(
                Goal(
                    f"{model}: one-hot, K = {K}, against the block model's estimate",
                    "within 1 %",
                    f"{100 * own['inner'][-1]:.2f} %",
                    bool(own["inner"][-1] < 0.01),
                )
            )
        return goals
    for s in ("weighted", "difference"):
        if s in truth:
            error = float(truth[s][-1])
            goals.append(
                Goal(
                    f"{model}: one-hot, {s}, K = {K}, from the truth",
                    f"below {MAX_ERROR}",
                    f"{error:.4f}",
                    error < MAX_ERROR,
                )
            )
    return goals


class Zero(nn.Module):
    """The encoder f = 0."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return zeros, (n, 1)."""
        return torch.zeros(len(x), 1)


def densities(W: Array, c: NDArray[np.int64]) -> Array:
    """Return the maximum likelihood estimate: total weight over number of pairs, (C, C)."""
    Z = np.eye(c.max() + 1)[c]
    sizes = Z.sum(axis=0)
    weight = Z.T @ (W + W.T) @ Z  # within a block every pair is counted twice
    return np.asarray(weight / (np.outer(sizes, sizes) - np.diag(sizes)))


def log_distance(mu: Array, nu: Array) -> float:
    """Return the RMS difference of logarithms over unordered pairs of blocks."""
    gap = (np.log(mu) - np.log(nu))[np.triu_indices(len(mu))]
    return float(np.sqrt(np.mean(gap**2)))
