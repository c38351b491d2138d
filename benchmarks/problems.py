"""Problems with known answers that several benchmarks share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmvge import MultiViewGraph


@dataclass(frozen=True, eq=False)
class ColdStart:
    """A training graph of the views "left" and "right", and nodes never seen with their links."""

    train: MultiViewGraph
    left: NDArray[Any]
    right: NDArray[Any]
    W: NDArray[Any]


def poisson_links(*, strong: bool, nonlinear: bool, seed: int) -> ColdStart:
    """The two-view Poisson problem.

    z ~ N(0, I_8) for 3,000 and 1,200 nodes; features of 128 and 64 columns, z A / sqrt(8) or
    tanh(1.5 z A / sqrt(8) + b) C / 8 with 64 hidden units, plus 0.3 N(0, I), standardised;
    mu proportional to exp(c <z, z'>), c = 0.8 (strong) or 0.4, scaled to an expected weight of 20
    per left node; a fifth of the left and a quarter of the right nodes are held out.
    """
    rng = np.random.default_rng(seed)
    z, z_other = rng.standard_normal((3000, 8)), rng.standard_normal((1200, 8))
    X, X_other = _features(z, 128, nonlinear, rng), _features(z_other, 64, nonlinear, rng)
    mu = np.exp((0.8 if strong else 0.4) * z @ z_other.T)
    W = rng.poisson(mu * (20 * len(z) / mu.sum()))
    out, out_other = _held_out(len(z), 5, rng), _held_out(len(z_other), 4, rng)
    train = MultiViewGraph(
        {"left": X[~out], "right": X_other[~out_other]},
        {("left", "right"): W[~out][:, ~out_other]},
    )
    return ColdStart(train, X[out], X_other[out_other], W[out][:, out_other])


def _features(
    z: NDArray[Any], p: int, nonlinear: bool, rng: np.random.Generator
) -> NDArray[np.float32]:
    if nonlinear:
        A, b = rng.standard_normal((8, 64)), rng.standard_normal(64)
        X = np.tanh(1.5 * z @ A / np.sqrt(8) + b) @ rng.standard_normal((64, p)) / 8
    else:
        X = z @ rng.standard_normal((8, p)) / np.sqrt(8)
    X = X + 0.3 * rng.standard_normal(X.shape)
    return ((X - X.mean(0)) / X.std(0)).astype(np.float32)


def _held_out(n: int, one_in: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    out = np.zeros(n, dtype=bool)
    out[rng.permutation(n)[: n // one_in]] = True
    return out
