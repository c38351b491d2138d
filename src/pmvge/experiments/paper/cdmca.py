r"""Section 3.6 and supplement C: linear PMvGE approaches CDMCA as the signal weakens.

To second order around g = 0 the likelihood of linear PMvGE is maximised by the modified CDMCA with
scaled axes, :math:`\hat\psi = \psi_{CDMCA} \Gamma^{1/2}`, :math:`\gamma_k = \lambda_k / \alpha_0`.
Weights are set to their expectation
:math:`\mu = \exp(s^2 \langle \psi^\top x, \psi^\top x'\rangle)`, for signals s from strong to weak.
The closed form then differs from the numerical maximum only by the curvature of exp and by the
terms i = j that supplement C adds.
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
from pmvge.experiments.base import Experiment, Goal, Job, Plot, Result, Summary, Table
from pmvge.experiments.paper_model import paper_model
from pmvge.graph import MultiViewGraph
from pmvge.pages import HUES

Array = NDArray[np.float64]
MAX_ANGLE = 2.0  # degrees, the goal at the weakest signal
ANGLES = (
    "The largest angle between the subspaces of the maximum likelihood estimate of linear PMvGE "
    "and of the modified CDMCA. Points are repetitions, lines join the medians. The angle that "
    "remains for weak signals is due to the terms i = j; it decreases with n."
)
DISTANCES = (
    "Relative distance of the similarities g, with the axes scaled by √γ. Dotted: the closed form "
    "of supplement C; its terms i = j reduce every γ by 1, which is too much where s²n is small. "
    "Solid: the same with wᵢᵢ = α₀ instead of 0, which keeps the axes and increases γ by 1."
)


class WeakSignals(Experiment):
    """One job for each size and repetition; a job uses all strengths of the signal."""

    options: ClassVar[Mapping[str, Any]] = {
        "sizes": [100, 300],
        "strengths": [0.8, 0.56, 0.4, 0.28, 0.2, 0.14, 0.1],
        "columns": 6,
        "n_components": 2,
        "max_steps": 400,
    }

    def jobs(self) -> list[Job]:
        """Return the jobs by repetition."""
        return [
            Job(f"{n} nodes", str(repetition))
            for repetition in range(self.recipe.repetitions)
            for n in self.settings["sizes"]
        ]

    def run(self, job: Job) -> Result:
        """Return the angles and distances between both solutions at every strength."""
        started = time.perf_counter()
        n, seed = int(job.row.split()[0]), [self.recipe.seed, int(job.column)]
        rng = np.random.default_rng([*seed, n])
        p, K = self.settings["columns"], self.settings["n_components"]
        # Skewed: for normal vectors the solutions agree even for strong signals.
        X = rng.exponential(size=(n, p))
        X -= X.mean(axis=0)
        psi = np.linalg.qr(rng.normal(size=(p, K)))[0] * np.linspace(1.0, 0.8, K)
        start = rng.normal(size=(p, K))
        compared = [
            self.compare(X, s * psi, 0.1 * s * start, s) for s in self.settings["strengths"]
        ]
        return {
            **{key: [c[key] for c in compared] for key in ("angle", "paper", "neutral")},
            "seconds": time.perf_counter() - started,
        }

    def compare(self, X: Array, psi: Array, start: Array, strength: float) -> dict[str, float]:
        """Return the angle and the distances between the numerical maximum and the closed form."""
        Y = X @ psi
        graph = MultiViewGraph({"node": X}, {("node", "node"): np.triu(np.exp(Y @ Y.T), 1)})
        linear = nn.Linear(len(psi), psi.shape[1], bias=False)
        linear.weight.data = torch.from_numpy(start.T.astype(np.float32))
        model = paper_model(
            psi.shape[1],
            encoder={"node": linear},
            similarity="inner",
            batch_size=len(X) ** 2,  # all links and all pairs in every step
            max_steps=self.settings["max_steps"],
            learning_rate=0.06 * strength,
            schedule="cosine",
            patience=None,
            random_state=0,  # not used: nothing is sampled
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
        """Return angles and distances against the strength of the signal."""
        strengths, angles, distances = self.settings["strengths"], Figure(), Figure()
        rows, goals = [], []
        for color, n in zip(HUES, self.settings["sizes"], strict=False):
            label = f"{n} entities"
            repetitions = [result for job, result in results.items() if job.row == f"{n} nodes"]
            if not repetitions:
                continue
            median = {
                key: np.median([r[key] for r in repetitions], axis=0).tolist()
                for key in ("angle", "paper", "neutral")
            }
            for s, angle, paper, neutral in zip(strengths, *median.values(), strict=True):
                rows.append([label, f"{s:g}", f"{angle:.2f}", f"{paper:.3f}", f"{neutral:.3f}"])
            angles.add_scatter(
                x=[s for _ in repetitions for s in strengths],
                y=[value for result in repetitions for value in result["angle"]],
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
        columns = ["entities", "signal s", "angle (degrees)", "distance of g", "with wᵢᵢ = α₀"]
        plots = [Plot(ANGLES, angles), Plot(DISTANCES, distances)]
        return Summary([Table(caption, columns, rows)], plots if rows else [], goals)


def closed_form(graph: MultiViewGraph, X: Array, K: int) -> tuple[Array, Array]:
    r"""Return the coordinates of the modified CDMCA, (n, K), and :math:`\gamma`, (K,).

    For the weakest signals :math:`\gamma < 0`, because of the terms i = j. ``CDMCA`` would leave
    such axes out; here their directions are compared too.
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
        f"below {MAX_ANGLE:g} degrees, and below the angle at the strongest signal",
        f"{angles[-1]:.2f} against {angles[0]:.1f}",
        angles[-1] < min(MAX_ANGLE, angles[0]),
    )


def distance(g: Array, g_numerical: Array) -> float:
    """Return the norm of the difference of similarities i < j, relative to ``g_numerical``."""
    above = np.triu_indices(len(g), 1)
    gap = np.linalg.norm((g - g_numerical)[above])
    return float(gap / np.linalg.norm(g_numerical[above]))
