"""Methods whose vectors are a linear map of the features, one map a view."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmvge.baselines.base import Baseline, inputs
from pmvge.baselines.eigen import leading_of_pencil
from pmvge.baselines.moments import link_moments
from pmvge.baselines.wide import WidePencil
from pmvge.graph import Features, MultiViewGraph

Matrix = NDArray[np.float64]
WIDE = 2000  # columns from which on the eigenproblem is solved by Lanczos
NOTHING = 1e-9  # an eigenvalue that is so much smaller than the first is 0 but for rounding


class LinearMethod(Baseline):
    r""":math:`y = A^{(d)\top} (x - m^{(d)})`."""

    nonlinear = False
    inductive = True
    likelihood_based = False

    weights_: dict[str, Matrix]
    means_: dict[str, Matrix]

    def _fit(self, graph: MultiViewGraph, seed: int) -> dict[str, NDArray[Any]]:
        X = inputs(graph)
        self._solve(graph, X)
        return {view: self._embed(view, rows) for view, rows in X.items()}

    @abstractmethod
    def _solve(self, graph: MultiViewGraph, X: dict[str, Features]) -> None:
        """Set ``weights_`` {view: (p, at most K)} and ``means_`` {view: (p,)}."""

    def _embed(self, view: str, X: Features) -> NDArray[Any]:
        A, mean = self.weights_[view], self.means_[view]
        return np.asarray(X @ A - mean @ A)


class PencilMethod(LinearMethod):
    r"""The top eigenvectors of :math:`H \psi = \lambda G \psi`, the moments of a graph."""

    many_to_many = True

    eigenvalues_: Matrix

    def _solve(self, graph: MultiViewGraph, X: dict[str, Features]) -> None:
        self.eigenvalues_, self.weights_, self.means_ = leading_axes(
            graph,
            X,
            self.n_components,
            shrinkage=self.shrinkage,
            by_weight=self._by_weight,
            center=self.center,
            where=self._name,
        )

    @property
    def _by_weight(self) -> bool:
        """Whether a node counts as often as it is linked, or once."""
        return True


class Axes(NamedTuple):
    """Eigenvalues (k,), and for each view the weights (p, k) and the mean (p,) of its map."""

    eigenvalues: Matrix
    weights: dict[str, Matrix]
    means: dict[str, Matrix]


def leading_axes(
    graph: MultiViewGraph,
    X: Mapping[str, Features],
    K: int,
    *,
    shrinkage: float,
    by_weight: bool = True,
    center: bool = True,
    positive: bool = True,
    where: str,
) -> Axes:
    """The K leading axes of a graph whose views have the rows X; fewer if its rank is lower.

    Axes along which linked nodes are not alike, of eigenvalues that are 0 or negative, are left
    out: of two views every axis comes with its opposite, and all together they would cancel.
    ``positive=False`` keeps them.
    """
    p = sum(rows.shape[1] for rows in X.values())
    if p > WIDE and p > 2 * K:
        pencil = WidePencil(
            graph, X, by_weight=by_weight, center=center, shrinkage=shrinkage, where=where
        )
        values, psi = pencil.leading(K, np.random.default_rng(0))
        columns, means = pencil.columns, pencil.means
    else:
        moments = link_moments(graph, X, by_weight=by_weight, center=center, where=where)
        values, psi = leading_of_pencil(moments.H, moments.shrunk(shrinkage), K)
        columns, means = moments.columns, moments.means
    if positive:
        kept = values > NOTHING * max(float(values.max(initial=0.0)), 0.0)
        values, psi = values[kept], psi[:, kept]
    return Axes(values, {view: psi[part] for view, part in columns.items()}, means)


class SpaceMethod(Baseline):
    """Canonical correlation between views that are first mapped into spaces of their own."""

    n_views = 2
    nonlinear = True
    inductive = True
    likelihood_based = False
    within_view = False

    eigenvalues_: Matrix

    def _correlate(
        self, graph: MultiViewGraph, Z: dict[str, NDArray[Any]]
    ) -> dict[str, NDArray[Any]]:
        """Solve in the coordinates Z, and return the vectors of their rows."""
        self._axes = leading_axes(
            graph, Z, self.n_components, shrinkage=self.shrinkage, where=self._name
        )
        self.eigenvalues_ = self._axes.eigenvalues
        return {view: self._project(view, rows) for view, rows in Z.items()}

    def _project(self, view: str, Z: NDArray[Any]) -> NDArray[Any]:
        return np.asarray((Z - self._axes.means[view]) @ self._axes.weights[view])
