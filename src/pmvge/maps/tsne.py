"""t-SNE of a sparse matrix of affinities.

References
----------
L. van der Maaten and G. Hinton, "Visualizing data using t-SNE", JMLR 2008.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmvge.maps.repulsion import Repulsion
from pmvge.progress import OnProgress

EXAGGERATED, STEPS = 200, 500  # steps with exaggerated attraction, and all steps
EXAGGERATION = 12.0
MOMENTUM = (0.5, 0.8)  # while attraction is exaggerated, and after that
START_WIDTH = 1e-2  # standard deviation of the first coordinates
SPECTRAL_STEPS, SPECTRAL_WIDTH = 60, 6  # of the subspace iteration that finds them


def tsne(
    P: sparse.csr_array, *, seed: int = 0, on_progress: OnProgress | None = None
) -> NDArray[np.float32]:
    """Return coordinates (n, 2) for symmetric affinities (n, n) with sum 1.

    They minimise the Kullback-Leibler divergence between the affinities and those on the map,
    proportional to 1 / (1 + d^2), by gradient descent with momentum from a spectral start.
    """
    n = P.shape[0]
    Y = spectral_start(P, seed)
    speed, gains = np.zeros_like(Y), np.ones_like(Y)
    rate = n / EXAGGERATION / 4  # an entity's affinities sum to about 1 / n: a step is about 1
    repulsion = Repulsion()
    attraction = _Attraction(P)
    for step in range(STEPS):
        early = step < EXAGGERATED
        forces, total = repulsion(Y)
        gradient = 4 * ((EXAGGERATION if early else 1.0) * attraction(Y) - forces / total)
        gains = np.where(speed * gradient < 0, gains + 0.2, gains * 0.8).clip(0.01)
        speed = MOMENTUM[0 if early else 1] * speed - rate * gains * gradient
        Y = (Y + speed).astype(np.float32)
        Y -= Y.mean(axis=0)
        if on_progress is not None:
            on_progress(step + 1, STEPS)
    return Y


class _Attraction:
    """Sums over pairs with affinities, of p_ij (y_i - y_j) / (1 + |y_i - y_j|^2)."""

    def __init__(self, P: sparse.csr_array) -> None:
        self._p = P.data.astype(np.float32)
        self._rows = np.repeat(np.arange(P.shape[0], dtype=np.int32), np.diff(P.indptr))
        self._matrix = sparse.csr_array((self._p.copy(), P.indices, P.indptr), shape=P.shape)

    def __call__(self, Y: NDArray[np.float32]) -> NDArray[np.float32]:
        difference = Y[self._rows] - Y[self._matrix.indices]
        np.divide(self._p, 1 + np.einsum("ij,ij->i", difference, difference), out=self._matrix.data)
        row_sums = self._matrix @ np.ones(len(Y), np.float32)
        forces: NDArray[np.float32] = row_sums[:, None] * Y - self._matrix @ Y
        return forces


def spectral_start(P: sparse.csr_array, seed: int) -> NDArray[np.float32]:
    """Return two smooth functions on the graph of affinities, as first coordinates (n, 2).

    They approximate the leading eigenvectors of the normalised affinities but the constant one, by
    a few steps of subspace iteration from random numbers.
    """
    n = P.shape[0]
    degrees = np.asarray(P.sum(axis=1)).ravel()
    scale = np.divide(1, np.sqrt(degrees), out=np.zeros(n), where=degrees > 0)
    M = sparse.diags_array(scale) @ P @ sparse.diags_array(scale)
    constant = np.sqrt(degrees / max(degrees.sum(), 1e-300))[:, None]
    X: NDArray[Any] = np.random.default_rng([seed, 3]).normal(size=(n, min(SPECTRAL_WIDTH, n)))
    for _ in range(SPECTRAL_STEPS):
        X = X + M @ X  # eigenvalues are at least -1: the largest ones win
        X -= constant * (constant.T @ X)
        X, _ = np.linalg.qr(X)
    _, V = np.linalg.eigh(X.T @ (M @ X))
    Y = scale[:, None] * (X @ V[:, ::-1])[:, :2]
    Y = np.pad(Y, ((0, 0), (0, 2 - Y.shape[1])))
    spread = np.maximum(Y.std(axis=0), 1e-300)
    return np.asarray(START_WIDTH * (Y - Y.mean(axis=0)) / spread, np.float32)
