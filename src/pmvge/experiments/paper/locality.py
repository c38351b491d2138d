r"""Locality (section 6.2, last paragraph): do encoders preserve similarities within a view?

The measure is Spearman's rank correlation between :math:`\langle x, x' \rangle` and
:math:`\langle f(x), f(x') \rangle`, over all pairs within a view: unseen test images,
and attributes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from plotly.graph_objects import Bar, Figure
from scipy.stats import spearmanr

from pmvge.experiments.base import Job, Plot, Result, Summary, Table
from pmvge.experiments.comparison import Metric, Part, Score
from pmvge.experiments.paper.animals import ATTRIBUTE, IMAGE
from pmvge.experiments.paper.attributes import AttributeRanking
from pmvge.experiments.recipe import Entry


class Locality(AttributeRanking):
    """Rank correlations of the two views, with the data and splits of task 3."""

    metrics = (Metric(IMAGE, "images"), Metric(ATTRIBUTE, "attributes"))

    def score(
        self, entry: Entry, settings: Mapping[str, Any], repetition: int, part: Part
    ) -> Score:
        """Return the rank correlation of each view."""
        case, animals, split, chosen, seed = self.fit_inputs(entry, settings, repetition, part)
        started = time.perf_counter()
        model, X = self.fitted(entry.method, chosen, animals, case, split.fit, seed)
        seconds = time.perf_counter() - started
        correlations = {
            IMAGE: rank_correlation(
                animals.images[split.query], model.embed(IMAGE, X[split.query])
            ),
            ATTRIBUTE: rank_correlation(animals.vectors, model.embeddings_[ATTRIBUTE]),
        }
        return Score(correlations, seconds)

    def summarize(self, results: Mapping[Job, Result]) -> Summary:
        """Return mean and deviation of the correlations; for real images, the paper's too."""
        real = not self.recipe.simulated
        columns = ["method"]
        for metric in self.metrics:
            columns += [metric.label, "paper"] if real else [metric.label]
        rows, figure = [], Figure()
        for entry in self.recipe.methods:
            method_scores = [r["scores"] for job, r in results.items() if job.row == entry.label]
            method_scores = [scores for scores in method_scores if scores is not None]
            row = [entry.label]
            for metric in self.metrics:
                row.append(_spread([scores[metric.name] for scores in method_scores]))
                if real:
                    paper = entry.paper.get(metric.name)
                    row.append(f"{paper[0]:g} ± {paper[1]:g}" if paper else "")
            rows.append(row)
            if method_scores:
                values = {
                    m.label: [scores[m.name] for scores in method_scores] for m in self.metrics
                }
                figure.add_trace(
                    Bar(
                        x=list(values),
                        y=[float(np.mean(v)) for v in values.values()],
                        error_y={
                            "array": [float(np.std(v, ddof=len(v) > 1)) for v in values.values()]
                        },
                        name=entry.label,
                    )
                )
        done = min(
            (sum(job.row == e.label for job in results) for e in self.recipe.methods), default=0
        )
        kind = "" if real else ", simulated images"
        caption = f"{self.recipe.title}{kind}: Spearman's rank correlation, mean ± standard "
        caption += f"deviation over {done} splits"
        figure.update_layout(template="plotly_white", height=420, barmode="group")
        figure.update_yaxes(title_text="Spearman's rank correlation", range=[-0.2, 1])
        figure.update_xaxes(title_text="view")
        plot_caption = f"Rank correlation of inner products before and after encoding{kind}: 1 if "
        plot_caption += "the encoders preserve the order of all similarities, 0 if unrelated."
        plots = [Plot(plot_caption, figure)] if results else []
        return Summary([Table(caption, columns, rows)], plots)


def rank_correlation(X: NDArray[Any], Y: NDArray[Any]) -> float:
    """Return Spearman's correlation between the inner products of X (n, p) and Y (n, K)."""
    pairs = np.triu_indices(len(X), k=1)
    before, after = (np.asarray(Z, np.float64) @ np.asarray(Z, np.float64).T for Z in (X, Y))
    return float(spearmanr(before[pairs], after[pairs]).statistic)


def _spread(values: list[float]) -> str:
    if not values:
        return ""
    deviation = f" ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else ""
    return f"{np.mean(values):.3f}{deviation}"
