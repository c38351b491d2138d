r"""Section 3.6 and supplement C: linear PMvGE comes to CDMCA as the signal weakens.

To second order around g = 0 the likelihood of linear PMvGE is maximised by the modified CDMCA with
scaled axes, :math:`\hat\psi = \psi_{CDMCA} \Gamma^{1/2}`, :math:`\gamma_k = \lambda_k / \alpha_0`.
Weights stand at their expectation :math:`\mu = \exp(s^2 \langle \psi^\top x, \psi^\top x'\rangle)`,
for signals s from strong to weak, so that nothing but the curvature of exp, and the terms i = j
that supplement C adds, stands between the closed form and the numerical maximum.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from plotly.graph_objects import Figure
from scipy.linalg import subspace_angles
from torch import nn

from pmvge.baselines import leading_axes
from pmvge.experiments.base import Drawing, Experiment, Goal, Job, Result, Summary, Table
from pmvge.graph import MultiViewGraph
from pmvge.model import PMvGE
from pmvge.pages import HUES

Array = NDArray[np.float64]
CLOSE = 2.0  # degrees
ANGLES = (
    "The largest angle between what the maximum likelihood estimate of linear PMvGE spans and what "
    "the modified CDMCA spans: a point is a repetition, a line joins the medians. What is left for "
    "weak signals is due to the terms i = j, which fade as n grows."
)
DISTANCES = (
    "The same for the similarities g, so with the axes scaled by √γ. Dotted: the closed form of "
    "supplement C, whose added terms i = j pull every γ down by 1, too far where s²n is small. "
    "Solid: the same with wᵢᵢ = α₀ instead of 0, which leaves the axes and makes γ one larger."
)


class WeakSignals(Experiment):
    """Jobs are sizes times repetitions; each goes through all strengths of the signal."""

    options: ClassVar[Mapping[str, Any]] = {
        "sizes": [100, 300],
        "strengths": [0.8, 0.56, 0.4, 0.28, 0.2, 0.14, 0.1],
        "columns": 6,
        "n_components": 2,
        "max_steps": 400,
    }

    def jobs(self) -> list[Job]:
        """Repetition after repetition."""
        return [
            Job(f"{n} nodes", str(repetition))
            for repetition in range(self.recipe.repetitions)
            for n in self.settings["sizes"]
        ]

    def run(self, job: Job) -> Result:
        """Both solutions at every strength."""
        started = time.perf_counter()
        n, seed = int(job.row.split()[0]), [self.recipe.seed, int(job.column)]
        rng = np.random.default_rng([*seed, n])
        p, K = self.settings["columns"], self.settings["n_components"]
        X = rng.exponential(size=(n, p))  # skewed: with normal vectors the two agree far too soon
        X -= X.mean(axis=0)
        psi = np.linalg.qr(rng.normal(size=(p, K)))[0] * np.linspace(1.0, 0.8, K)
        start = rng.normal(size=(p, K))
        found = [self.compare(X, s * psi, 0.1 * s * start, s) for s in self.settings["strengths"]]
        return {
            **{key: [one[key] for one in found] for key in ("angle", "paper", "neutral")},
            "seconds": time.perf_counter() - started,
        }

    def compare(self, X: Array, psi: Array, start: Array, strength: float) -> dict[str, float]:
        """Numerical maximum likelihood beside the closed form, and that beside CDMCA."""
        Y = X @ psi
        graph = MultiViewGraph({"node": X}, {("node", "node"): np.triu(np.exp(Y @ Y.T), 1)})
        linear = nn.Linear(len(psi), psi.shape[1], bias=False)
        linear.weight.data = torch.from_numpy(start.T.astype(np.float32))
        model = PMvGE(
            psi.shape[1],
            encoder={"node": linear},
            similarity="inner",
            batch_size=len(X) ** 2,  # all links and all pairs in every step
            max_steps=self.settings["max_steps"],
            learning_rate=0.06 * strength,
            schedule="cosine",
            patience=None,
            random_state=0,  # nothing is drawn
            progress=False,
        ).fit(graph)
        y = model.embeddings_["node"].astype(np.float64)
        z, gamma = closed_form(graph, X, psi.shape[1])
        return {
            "angle": float(np.degrees(subspace_angles(y, z)[0])),
            "paper": distance(z * np.maximum(gamma, 0.0) @ z.T, y @ y.T),
            "neutral": distance(z * (gamma + 1) @ z.T, y @ y.T),
        }

    def summarize(self, results: Mapping[Job, Result]) -> Summary:
        """Angles and distances against the strength of the signal."""
        strengths, angles, distances = self.settings["strengths"], Figure(), Figure()
        rows, goals = [], []
        for color, n in zip(HUES, self.settings["sizes"], strict=False):
            label = f"{n} nodes"
            mine = [result for job, result in results.items() if job.row == label]
            if not mine:
                continue
            median = {
                key: np.median([r[key] for r in mine], axis=0).tolist()
                for key in ("angle", "paper", "neutral")
            }
            for s, angle, paper, neutral in zip(strengths, *median.values(), strict=True):
                rows.append([label, f"{s:g}", f"{angle:.2f}", f"{paper:.3f}", f"{neutral:.3f}"])
            angles.add_scatter(
                x=[s for _ in mine for s in strengths],
                y=[value for result in mine for value in result["angle"]],
                mode="markers",
                marker={"color": color, "opacity": 0.35},
                showlegend=False,
            )
            line = {"color": color}
            angles.add_scatter(x=strengths, y=median["angle"], name=label, line=line)
            name = f"{label}: wᵢᵢ = 0"
            line = {"color": color, "dash": "dot"}
            distances.add_scatter(x=strengths, y=median["paper"], name=name, line=line)
            name = f"{label}: wᵢᵢ = α₀"
            line = {"color": color, "dash": "solid"}
            distances.add_scatter(x=strengths, y=median["neutral"], name=name, line=line)
            goals.append(_goal(label, median["angle"]))
        axis = {"title": "strength s of the signal", "type": "log", "tickvals": strengths}
        for figure, title in (
            (angles, "angle between the subspaces (degrees)"),
            (distances, "relative distance of g"),
        ):
            figure.update_layout(
                template="plotly_white",
                xaxis={**axis, "ticktext": [f"{s:g}" for s in strengths]},
                yaxis={"title": title, "type": "log", "dtick": 1},
            )
        caption = (
            "Numerical maximum likelihood against the closed form of supplement C: medians of "
            f"{max((int(job.column) for job in results), default=-1) + 1} repetitions"
        )
        columns = ["nodes", "signal s", "angle (degrees)", "distance of g", "with wᵢᵢ = α₀"]
        drawings = [Drawing(ANGLES, angles), Drawing(DISTANCES, distances)]
        return Summary([Table(caption, columns, rows)], drawings if rows else [], goals)


def closed_form(graph: MultiViewGraph, X: Array, K: int) -> tuple[Array, Array]:
    r"""The axes of the modified CDMCA at the nodes, (n, K), and :math:`\gamma`, (K,).

    For the weakest signals :math:`\gamma < 0`, because of the terms i = j; ``CDMCA`` would leave
    such axes out, but their directions are what is compared.
    """
    axes = leading_axes(
        graph,
        {"node": X},
        K,
        shrinkage=0.0,
        by_weight=False,
        positive=False,
        where="closed form",
    )
    return X @ axes.weights["node"], axes.eigenvalues * len(X) ** 2 / (2 * graph.total_weight)


def _goal(label: str, angles: list[float]) -> Goal:
    return Goal(
        f"{label}: angle at the weakest signal",
        f"below {CLOSE:g} degrees, and below that at the strongest",
        f"{angles[-1]:.2f} against {angles[0]:.1f}",
        angles[-1] < min(CLOSE, angles[0]),
    )


def distance(g: Array, g_numerical: Array) -> float:
    """Of similarities i < j, in the norm and relative to the numerical ones."""
    above = np.triu_indices(len(g), 1)
    gap = np.linalg.norm((g - g_numerical)[above])
    return float(gap / np.linalg.norm(g_numerical[above]))
