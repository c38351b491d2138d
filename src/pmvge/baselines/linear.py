"""Base classes of methods with one linear map from features to vectors per view."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmvge.baselines.base import Baseline, input_rows
from pmvge.baselines.eigen import generalized_eigenpairs
from pmvge.baselines.moments import link_moments
from pmvge.baselines.wide import WidePencil
from pmvge.graph import Features, MultiViewGraph

Matrix = NDArray[np.float64]
WIDE = 2000  # with more columns than this, the eigenproblem is solved by Lanczos
ZERO_EIGENVALUE = 1e-9  # relative to the largest; smaller ones are rounding errors


class LinearMethod(Baseline):
    r"""Base class of methods with vectors :math:`y = A^{(d)\top} (x - m^{(d)})`."""

    nonlinear = False
    inductive = True
    likelihood_based = False

    weights_: dict[str, Matrix]
    means_: dict[str, Matrix]

    def _fit(self, graph: MultiViewGraph, seed: int) -> dict[str, NDArray[Any]]:
        X = input_rows(graph)
        self._solve(graph, X)
        return {view: self._embed(view, rows) for view, rows in X.items()}

    @abstractmethod
    def _solve(self, graph: MultiViewGraph, X: dict[str, Features]) -> None:
        """Set ``weights_`` {view: (p, at most K)} and ``means_`` {view: (p,)}."""

    def _embed(self, view: str, X: Features) -> NDArray[Any]:
        A, mean = self.weights_[view], self.means_[view]
        return np.asarray(X @ A - mean @ A)


class PencilMethod(LinearMethod):
    r"""Base class of methods that solve :math:`H \psi = \lambda G \psi` for a graph's moments."""

    many_to_many = True

    eigenvalues_: Matrix

    def __init__(
        self, n_components: int = 100, *, shrinkage: float = 0.1, center: bool = True
    ) -> None:
        self.n_components = n_components
        self.shrinkage = shrinkage
        self.center = center

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
        """Return True if an entity counts once per unit of link weight, False if it counts once."""
        return True


class Axes(NamedTuple):
    """The eigenvalues (k,), and each view's weights (p, k) and mean (p,)."""

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
    """Return the K leading axes of a graph whose views have the rows X; fewer if its rank is lower.

    Axes with eigenvalues of 0 or below are left out. With two views each positive eigenvalue has a
    negative counterpart, and inner products over both would cancel. ``positive=False`` keeps them.
    ``where`` is the name of the method, for error messages. Raise GraphError if there are too many
    columns, and DivergedError if the eigensolver does not converge.
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
        values, psi = generalized_eigenpairs(moments.H, moments.shrunk(shrinkage), K)
        columns, means = moments.columns, moments.means
    if positive:
        kept = values > ZERO_EIGENVALUE * max(float(values.max(initial=0.0)), 0.0)
        values, psi = values[kept], psi[:, kept]
    return Axes(values, {view: psi[part] for view, part in columns.items()}, means)


class MappedCCA(Baseline):
    """Base class of methods that map two views non-linearly and then apply linear CCA."""

    n_views = 2
    nonlinear = True
    inductive = True
    likelihood_based = False
    within_view = False

    eigenvalues_: Matrix

    def _correlate(
        self, graph: MultiViewGraph, Z: dict[str, NDArray[Any]]
    ) -> dict[str, NDArray[Any]]:
        """Apply linear CCA to the mapped rows Z, and return their vectors."""
        self._axes = leading_axes(
            graph, Z, self.n_components, shrinkage=self.shrinkage, where=self._name
        )
        self.eigenvalues_ = self._axes.eigenvalues
        return {view: self._project(view, rows) for view, rows in Z.items()}

    def _project(self, view: str, Z: NDArray[Any]) -> NDArray[Any]:
        return np.asarray((Z - self._axes.means[view]) @ self._axes.weights[view])
