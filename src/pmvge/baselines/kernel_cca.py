"""Kernel canonical correlation analysis."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.kernel_approximation import Nystroem

from pmvge.baselines.base import input_rows
from pmvge.baselines.linear import MappedCCA
from pmvge.checks import integer, one_of, optional, real
from pmvge.graph import Features, MultiViewGraph


class KernelCCA(MappedCCA):
    r"""Kernel canonical correlation analysis.

    CCA with functions from a kernel's space instead of linear maps, regularised by shrinkage. It
    uses the kernel between entities and the matrix W of link weights, so it needs no aligned rows
    for many-to-many links.

    .. math:: \max_{a, b} a^\top K^{(1)} W K^{(2)} b \quad \text{subject to} \quad
              a^\top \bigl( (1 - s) K^{(1)} D K^{(1)} + s t K^{(1)} \bigr) a = 1,
              \text{ and so for } b

    Choose it for two views of some thousand entities, when a linear map is not enough and a network
    is too much. For views with more entities than landmarks the kernel is approximated.

    Parameters
    ----------
    n_components
        Dimension K.
    kernel
        "rbf", "laplacian", "poly", "cosine" or "linear".
    gamma
        Parameter of the "rbf", "laplacian" and "poly" kernels; None means 1 / (number of columns *
        mean variance of a column).
    shrinkage
        The s in the formula, from 0 to 1: each view's covariance in the kernel's space is moved
        this far towards a multiple of the identity; t is the mean variance there. 0 overfits: any
        links are fitted perfectly.
    landmarks
        Entities per view that the kernel is expanded in (Nystroem); exact for views that are no
        larger.
    random_state
        Seed of the choice of landmarks.

    Attributes
    ----------
    eigenvalues_
        (k,), largest first, k at most K: the correlation along each axis if shrinkage is 0.

    References
    ----------
    P. L. Lai and C. Fyfe, "Kernel and nonlinear canonical correlation analysis", International
    Journal of Neural Systems 2000.
    """

    many_to_many = True
    checks: ClassVar = {
        "kernel": one_of("rbf", "laplacian", "poly", "cosine", "linear"),
        "gamma": optional(real(0, open_low=True)),
        "landmarks": integer(1),
    }

    def __init__(
        self,
        n_components: int = 100,
        *,
        kernel: str = "rbf",
        gamma: float | None = None,
        shrinkage: float = 0.1,
        landmarks: int = 1000,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.shrinkage = shrinkage
        self.landmarks = landmarks
        self.random_state = random_state

    def _fit(self, graph: MultiViewGraph, seed: int) -> dict[str, NDArray[Any]]:
        # Kernel CCA is linear CCA in coordinates Z of the kernel's space, with Z Z^T = K.
        X = input_rows(graph)
        self._spaces = {
            view: self._space(rows, seed + k).fit(rows) for k, (view, rows) in enumerate(X.items())
        }
        return self._correlate(
            graph, {view: space.transform(X[view]) for view, space in self._spaces.items()}
        )

    def _space(self, X: Features, seed: int) -> Nystroem:
        gamma = self.gamma
        if self.kernel in ("rbf", "laplacian", "poly") and gamma is None:
            variance = float(_variances(X).mean())
            gamma = 1 / (X.shape[1] * variance) if variance > 0 else 1.0
        return Nystroem(
            kernel=self.kernel,
            gamma=gamma if self.kernel in ("rbf", "laplacian", "poly") else None,
            n_components=min(self.landmarks, X.shape[0]),
            random_state=seed % 2**32,
        )

    def _embed(self, view: str, X: Features) -> NDArray[Any]:
        return self._project(view, self._spaces[view].transform(X))


def _variances(X: Features) -> NDArray[np.float64]:
    """Return the variance of each column."""
    if isinstance(X, np.ndarray):
        return np.asarray(X.var(axis=0, dtype=np.float64))
    mean = np.asarray(X.mean(axis=0)).ravel()
    square = np.asarray(X.multiply(X).mean(axis=0)).ravel()
    return np.asarray(square - mean**2, dtype=np.float64)
