r"""Figure 2 for a similarity that is not positive definite.

The truth is :math:`g_*(x, x') = c \sum_k s_k f_{*k}(x) f_{*k}(x')` with the f of figure 2, scaled
to length 1, and signs s = (+, -, +, -): no inner product approximates it, whatever K is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from plotly.graph_objects import Figure

from pmvge.experiments.base import Goal, Job, Plot, Result, Summary, Table
from pmvge.experiments.paper.figure2 import Array, Figure2, unit
from pmvge.pages import HUES

SIGNS = np.array([1.0, -1.0, 1.0, -1.0])


class Indefinite(Figure2):
    """One job for each similarity, dimension K and repetition."""

    options: ClassVar[Mapping[str, Any]] = {
        **Figure2.options,
        "dimensions": [1, 2, 4, 8],
        "similarities": ["inner", "weighted", "difference"],
        "strength": 2.0,  # c
        "n_nodes": 500,
        "hidden": 100,
    }

    def jobs(self) -> list[Job]:
        """Return the jobs by repetition."""
        return [
            Job(f"{similarity}, K = {K}", str(repetition))
            for repetition in range(self.recipe.repetitions)
            for similarity in self.settings["similarities"]
            for K in self.settings["dimensions"]
        ]

    def parse(self, row: str) -> tuple[str, int]:
        """Return the similarity and the dimension K of a job's row."""
        similarity, _, K = row.partition(", K = ")
        return similarity, int(K)

    def truth(self, X: Array, X_other: Array) -> Array:
        """Return the true similarity, (n, m)."""
        return np.asarray(self.settings["strength"] * (SIGNS * unit(X)) @ unit(X_other).T)

    def summarize(self, results: Mapping[Job, Result]) -> Summary:
        """Return errors against K, for each similarity."""
        errors: dict[str, dict[int, float]] = {}
        rows = []
        for row in dict.fromkeys(job.row for job in self.jobs() if job in results):
            fits = [result for job, result in results.items() if job.row == row]
            kind, K = self.parse(row)
            medians = [
                float(np.median([fit[name][measure] for fit in fits]))
                for name in ("plane", "box")
                for measure in ("mean", "sup")
            ]
            errors.setdefault(kind, {})[K] = medians[2]
            seconds = np.median([fit["seconds"] for fit in fits])
            rows.append([kind, str(K), *(f"{value:.4f}" for value in medians), f"{seconds:.0f}"])
        columns = ["similarity", "K", "on the plane, mean", "sup", "new pairs, mean", "sup"]
        caption = (
            "Absolute error of the learned similarity, on the plane of figure 2 and over pairs of "
            f"new data vectors: medians of {self.recipe.repetitions} repetitions"
        )
        plots = [self._plot(errors)] if errors else []
        table = Table(caption, [*columns, "seconds"], rows)
        return Summary([table], plots, self._sign_goals(errors))

    def _sign_goals(self, errors: Mapping[str, Mapping[int, float]]) -> list[Goal]:
        if "inner" not in errors:
            return []
        floor, goals = min(errors["inner"].values()), []
        for kind in ("weighted", "difference"):
            by_K = errors.get(kind)
            if not by_K:
                continue
            first, last = by_K[min(by_K)], min(by_K.values())
            goals.append(
                Goal(
                    f"{kind}: smallest mean error over new pairs, against inner at its best K",
                    "less than half, and falling with K",
                    f"{last:.4f} against {floor:.4f}; {first:.4f} at K = {min(by_K)}",
                    last < floor / 2 and last < first,
                )
            )
        return goals

    def _plot(self, errors: Mapping[str, Mapping[int, float]]) -> Plot:
        figure = Figure()
        for color, (kind, by_K) in zip(HUES, errors.items(), strict=False):
            figure.add_scatter(
                x=list(by_K),
                y=list(by_K.values()),
                name=kind,
                mode="lines+markers",
                line={"color": color},
            )
        dimensions = self.settings["dimensions"]
        figure.update_layout(
            template="plotly_white",
            xaxis={
                "title": "dimension K",
                "type": "log",
                "tickvals": dimensions,
                "ticktext": [str(K) for K in dimensions],
            },
            yaxis={"title": "mean absolute error over new pairs", "type": "log"},
        )
        return Plot(
            "Error of the learned similarity against K. The truth has two positive and two "
            "negative directions: inner products do not approach it, weighted and difference "
            "similarities do.",
            figure,
        )
