r"""Theorem 5.1 and figure 2: inner products of networks approximate another similarity.

The truth is the cosine of :math:`f_*(x) = (x_1, \cos x_2, e^{-x_3}, \sin(x_4 - x_5))`, links have
the mean :math:`\alpha_* \exp g_*(f_*(x_i), f_*(x_j))`, and the model is PMvGE with one hidden layer
and the inner product. They are compared on a plane,
:math:`G_*(s, t) = g_*(f_*(s e_1), f_*(t e_2))` with :math:`e_1 = (1, 1, 1, 0, 0)` and
:math:`e_2 = (0, 0, 1, 1, 1)`. Only :math:`\log\alpha + g` is identified, so the model's
:math:`\hat G_K` is :math:`\log(\hat\mu / \alpha_*)`, with the true alpha.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from plotly.graph_objects import Figure
from plotly.subplots import make_subplots

from pmvge.errors import choose
from pmvge.experiments.base import Experiment, Goal, Job, Plot, Result, Summary, Table
from pmvge.experiments.paper_model import paper_model
from pmvge.graph import MultiViewGraph
from pmvge.likelihoods import expected_weight
from pmvge.model import PMvGE
from pmvge.pages import HUES

Array = NDArray[np.float64]
E1, E2 = np.array([1.0, 1, 1, 0, 0]), np.array([0.0, 0, 1, 1, 1])
SMALL_K, LARGE_K = 2, 50  # in the paper
MAX_ERROR = 0.05  # the goal for the mean absolute error at K = 50
MEASURES = {
    "plane": ("on the plane, mean", "sup"),
    "box": ("new pairs, mean", "sup"),
}


class Figure2(Experiment):
    """One job for each dimension K and repetition."""

    options: ClassVar[Mapping[str, Any]] = {
        "dimensions": [2, 5, 10, 20, 50, 100],
        "n_nodes": 1000,
        "half_width": 1.0,  # M: data vectors are uniform on [-M, M]^5, and s and t run over [-M, M]
        "alpha": 1.0,
        "weights": "poisson",  # or "expected"
        "hidden": 1000,
        "grid": 41,  # points along s and along t
        "fresh": 300,  # new entities on each side, whose pairs are compared
        "batch_size": 4096,
        "max_steps": 500,
        "learning_rate": 2e-3,
    }

    def jobs(self) -> list[Job]:
        """Return the jobs by repetition."""
        return [
            Job(f"K = {K}", str(repetition))
            for repetition in range(self.recipe.repetitions)
            for K in self.settings["dimensions"]
        ]

    def run(self, job: Job) -> Result:
        """Return the errors of the similarity that one network learns."""
        started = time.perf_counter()
        M, n = self.settings["half_width"], self.settings["n_nodes"]
        kind, K, repetition = *self.parse(job.row), int(job.column)
        rng = np.random.default_rng([self.recipe.seed, repetition])  # the same graph for every K
        X = rng.uniform(-M, M, size=(n, 5))
        mu = expected_weight(self.truth(X, X), math.log(self.settings["alpha"]))
        drawn = choose("weights", self.settings["weights"], ("poisson", "expected")) == "poisson"
        W = rng.poisson(mu) if drawn else mu
        model = paper_model(
            K,
            hidden_sizes=(self.settings["hidden"],),
            activation="relu",
            dropout=0.0,
            similarity=kind,
            batch_size=self.settings["batch_size"],
            max_steps=self.settings["max_steps"],
            learning_rate=self.settings["learning_rate"],
            schedule="cosine",
            patience=None,
            random_state=int(rng.integers(2**31)),
            progress=False,
        ).fit(MultiViewGraph({"x": X}, {("x", "x"): np.triu(W, 1)}))
        G = self.learned(model, *self.plane())
        left, right = (rng.uniform(-M, M, size=(self.settings["fresh"], 5)) for _ in range(2))
        gaps = {
            "plane": np.abs(G - self.truth(*self.plane())),
            "box": np.abs(self.learned(model, left, right) - self.truth(left, right)),
        }
        return {
            **{
                name: {"mean": float(gap.mean()), "sup": float(gap.max())}
                for name, gap in gaps.items()
            },
            "map": np.round(G, 4).tolist(),  # row s, column t
            "seconds": time.perf_counter() - started,
        }

    def parse(self, row: str) -> tuple[str, int]:
        """Return the similarity and the dimension K of a job's row."""
        return "inner", int(row.removeprefix("K = "))

    def truth(self, X: Array, X_other: Array) -> Array:
        """Return the true similarity, (n, m)."""
        return similarity(X, X_other)

    def plane(self) -> tuple[Array, Array]:
        """Return the data vectors s e_1 and t e_2."""
        return np.outer(self.ticks(), E1), np.outer(self.ticks(), E2)

    def ticks(self) -> Array:
        """Return the values of s and of t, within the range of the data vectors."""
        M = self.settings["half_width"]
        return np.linspace(-M, M, self.settings["grid"])

    def learned(self, model: PMvGE, left: Array, right: Array) -> Array:
        r"""Return :math:`\log(\hat\mu / \alpha_*)`, (n, m)."""
        mu = model.intensity("x", left, "x", right)
        return np.asarray(np.log(mu) - math.log(self.settings["alpha"]))

    # -- summary ----------------------------------------------------------------------------

    def summarize(self, results: Mapping[Job, Result]) -> Summary:
        """Return heat maps, and errors against K."""
        by_K: dict[int, list[Result]] = {}
        for job in self.jobs():
            if job in results:
                by_K.setdefault(int(job.row.removeprefix("K = ")), []).append(results[job])
        by_K = dict(sorted(by_K.items()))
        rows = [
            [str(K)]
            + [f"{_median(fits, name, kind):.4f}" for name in MEASURES for kind in ("mean", "sup")]
            + [f"{np.median([r['seconds'] for r in fits]):.0f}"]
            for K, fits in by_K.items()
        ]
        columns = ["K", *[label for labels in MEASURES.values() for label in labels], "seconds"]
        caption = (
            "Absolute error of the learned similarity, on the plane of the figure and over pairs "
            f"of new data vectors: medians of {self.recipe.repetitions} repetitions"
        )
        plots = [self._maps(by_K), self._errors(by_K)] if by_K else []
        return Summary([Table(caption, columns, rows)], plots, self._goals(by_K))

    def _goals(self, by_K: Mapping[int, list[Result]]) -> list[Goal]:
        if SMALL_K not in by_K or LARGE_K not in by_K:
            return []
        small, large = (_median(by_K[K], "plane", "mean") for K in (SMALL_K, LARGE_K))
        return [
            Goal(
                f"mean absolute error at K = {LARGE_K}",
                f"below {MAX_ERROR}",
                f"{large:.4f}",
                large < MAX_ERROR,
            ),
            Goal(
                f"mean absolute error at K = {LARGE_K} against K = {SMALL_K}",
                "at most half",
                f"{large:.4f} against {small:.4f}",
                large <= small / 2,
            ),
        ]

    def _maps(self, by_K: Mapping[int, list[Result]]) -> Plot:
        maps = {f"Ĝ, K = {K}": by_K[K][0]["map"] for K in (SMALL_K, LARGE_K) if K in by_K}
        maps["truth G*"] = np.round(similarity(*self.plane()), 4).tolist()
        figure = make_subplots(
            1, len(maps), subplot_titles=list(maps), shared_yaxes=True, horizontal_spacing=0.04
        )
        axis = np.round(self.ticks(), 4).tolist()
        for k, z in enumerate(maps.values()):
            figure.add_heatmap(x=axis, y=axis, z=z, coloraxis="coloraxis", row=1, col=k + 1)
            figure.update_xaxes(title="t", row=1, col=k + 1)
        figure.update_yaxes(title="s", row=1, col=1)
        figure.update_layout(
            template="plotly_white",
            coloraxis={"colorscale": "Viridis", "colorbar": {"title": "similarity"}},
            height=380,
        )
        caption = (
            "The similarity of s e₁ and t e₂ that networks with K outputs learned from links, and "
            "the true one. Two outputs cannot represent it, fifty can. α has its true value."
        )
        return Plot(caption, figure)

    def _errors(self, by_K: Mapping[int, list[Result]]) -> Plot:
        figure = Figure()
        curves = [
            ("plane", "mean", "mean, on the plane", HUES[0], "solid"),
            ("plane", "sup", "largest, on the plane", HUES[1], "solid"),
            ("box", "mean", "mean, pairs of new data vectors", HUES[0], "dot"),
            ("box", "sup", "largest, pairs of new data vectors", HUES[1], "dot"),
        ]
        for name, kind, label, color, dash in curves:
            values = [[r[name][kind] for r in fits] for fits in by_K.values()]
            middle = [float(np.median(v)) for v in values]
            figure.add_scatter(
                x=list(by_K),
                y=middle,
                name=label,
                mode="lines+markers",
                line={"color": color, "dash": dash},
                error_y={
                    "type": "data",
                    "array": [max(v) - m for v, m in zip(values, middle, strict=True)],
                    "arrayminus": [m - min(v) for v, m in zip(values, middle, strict=True)],
                },
            )
        figure.add_hline(y=MAX_ERROR, line={"dash": "dash", "color": "grey"})
        dimensions = self.settings["dimensions"]
        figure.update_layout(
            template="plotly_white",
            xaxis={
                "title": "dimension K",
                "type": "log",
                "tickvals": dimensions,
                "ticktext": [str(K) for K in dimensions],
            },
            yaxis={
                "title": "absolute error of the similarity",
                "type": "log",
                "tickvals": [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1],
            },
        )
        caption = (
            "Error against K: median and range over repetitions. The truth is an inner product in "
            "four dimensions, so the error does not improve beyond K = 5. The grey line is the "
            f"goal for the mean, {MAX_ERROR}."
        )
        return Plot(caption, figure)


def similarity(X: Array, X_other: Array) -> Array:
    r"""Return the cosine of :math:`f_*(x)` and :math:`f_*(x')`, (n, m)."""

    return np.asarray(unit(X) @ unit(X_other).T)


def unit(x: Array) -> Array:
    r"""Return :math:`f_*(x)`, scaled to length 1."""
    f = np.stack([x[:, 0], np.cos(x[:, 1]), np.exp(-x[:, 2]), np.sin(x[:, 3] - x[:, 4])], axis=1)
    return np.asarray(f / np.linalg.norm(f, axis=1, keepdims=True))


def _median(results: list[Result], name: str, kind: str) -> float:
    return float(np.median([result[name][kind] for result in results]))
