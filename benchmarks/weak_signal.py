"""How fast does linear PMvGE approach its closed form as the signal weakens?

Supplement C of the paper: to second order around g = 0, the likelihood of linear PMvGE is maximised
by the modified CDMCA with scaled axes. Here weights stand at their expectation
mu = exp(s^2 <psi^T x, psi^T x'>), for signals s from strong to weak, so that nothing but the
curvature of exp (and the terms i = j, which fade with n) stands between the two. The figure shows
the largest angle between the two subspaces, numerical maximum likelihood against closed form.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
from output import write, write_svg
from plotly.graph_objects import Figure
from scipy.linalg import subspace_angles

from pmvge import MultiViewGraph, PMvGE
from pmvge.baselines.linear import leading_axes

STRENGTHS = (0.8, 0.56, 0.4, 0.28, 0.2, 0.14, 0.1)
SIZES = (100, 400)
P, K = 6, 2


def angle(n: int, seed: int, strength: float) -> float:
    """Degrees between the maximum likelihood estimate and the closed form."""
    rng = np.random.default_rng(seed)
    X = rng.exponential(size=(n, P))  # skewed: with normal vectors the two agree far too soon
    X -= X.mean(axis=0)
    psi = np.linalg.qr(rng.normal(size=(P, K)))[0] * [1.0, 0.8]
    Y = strength * X @ psi
    graph = MultiViewGraph({"node": X}, {("node", "node"): np.triu(np.exp(Y @ Y.T), 1)})
    linear = torch.nn.Linear(P, K, bias=False)
    linear.weight.data = torch.from_numpy(0.1 * strength * rng.normal(size=(K, P))).float()
    model = PMvGE(
        K,
        encoder={"node": linear},
        similarity="inner",
        batch_size=n**2,  # all links and all pairs in every step
        max_steps=1000,
        learning_rate=0.03 * strength,
        schedule="cosine",
        patience=None,
        random_state=seed,
        progress=False,
    ).fit(graph)
    axes = leading_axes(  # of eigenvalues below 0, too: only their span counts
        graph, {"node": X}, K, shrinkage=0.0, by_weight=False, positive=False, where=__file__
    )
    return float(
        np.degrees(subspace_angles(model.embeddings_["node"], X @ axes.weights["node"])[0])
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    seeds = parser.parse_args().seeds
    results, curves, figure = [], {}, Figure()
    print(f"{'nodes':>6} {'signal':>7} {'angle':>8}   median of {seeds} seeds, degrees")
    for n in SIZES:
        medians = []
        for strength in STRENGTHS:
            angles = [angle(n, seed, strength) for seed in range(seeds)]
            medians.append(float(np.median(angles)))
            results.append({"nodes": n, "signal": strength, "degrees": angles})
            print(f"{n:>6} {strength:>7} {medians[-1]:>8.2f}", flush=True)
        curves[f"{n} nodes"] = medians
        figure.add_scatter(x=STRENGTHS, y=medians, name=f"{n} nodes", mode="lines+markers")
    labels = {
        "x": "strength of the signal",
        "y": "angle between the subspaces (degrees)",
    }
    figure.update_layout(
        xaxis={"title": labels["x"], "type": "log"}, yaxis={"title": labels["y"], "type": "log"}
    )
    write("weak_signal", results, figure)
    write_svg("weak-signal", STRENGTHS, curves, **labels)


if __name__ == "__main__":
    main()
