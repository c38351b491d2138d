"""Locally linear embedding."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, LinAlgWarning
from sklearn import manifold

from pmvge.baselines.base import Baseline, inputs
from pmvge.errors import ParameterError
from pmvge.features import Features
from pmvge.graph import MultiViewGraph
from pmvge.parameters import Check, real, whole

SMALL = 4000  # up to so many nodes all eigenvectors are found at once, which never fails


class LLE(Baseline):
    r"""Locally linear embedding.

    Writes every node's features as a weighted mean of its neighbours', and looks for vectors that
    the same weights :math:`a_{ij}` reconstruct. It looks at features alone; links play no part.

    .. math:: \min_Y \sum_i \| y_i - \sum_j a_{ij} y_j \|^2
              \quad \text{subject to} \quad \frac{1}{n} Y^\top Y = I, \quad Y^\top 1 = 0

    Choose it to unroll features that lie on a curved surface, when links say nothing.
    Where neighbours fall into separate groups the first axes only tell the groups apart.

    Parameters
    ----------
    n_components
        Dimension K; axes beyond the number of features are 0.
    n_neighbors
        Neighbours of a node.
    reg
        Regularisation of the weights, as a share of the neighbours' spread. Smaller ones follow the
        surface closer and noise as well.
    random_state
        Seed of the eigensolver's start.

    References
    ----------
    S. T. Roweis and L. K. Saul, "Nonlinear dimensionality reduction by locally linear embedding",
    Science 2000.

    Examples
    --------
    >>> import numpy as np
    >>> from pmvge import MultiViewGraph
    >>> from pmvge.baselines.lle import LLE
    >>> angle = np.linspace(0, 5, 30)
    >>> arc = np.column_stack([np.cos(angle), np.sin(angle)])
    >>> graph = MultiViewGraph({"point": arc}, {("point", "point"): ([0], [1])})
    >>> y = LLE(1, n_neighbors=4).fit(graph).embeddings_["point"].ravel()
    >>> abs(int(np.sign(np.diff(y)).sum()))  # all 29 steps go one way
    29
    """

    n_views = 1
    many_to_many = False
    nonlinear = True
    inductive = True
    likelihood_based = False

    needs_features = True
    needs_links = False
    checks: ClassVar[Mapping[str, Check]] = {"n_neighbors": whole(1), "reg": real(0, open_low=True)}

    def __init__(
        self,
        n_components: int = 100,
        *,
        n_neighbors: int = 30,
        reg: float = 1e-3,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.reg = reg
        self.random_state = random_state

    def _fit(self, graph: MultiViewGraph, seed: int) -> dict[str, NDArray[Any]]:
        ((view, X),) = inputs(graph).items()
        n = graph.n_nodes
        self._scale = np.sqrt(n)  # a variance of 1 along every axis
        # It keeps the rows, of which new rows become weighted means.
        self._lle = None if n == 1 else self._solve(dense(X), seed)
        return {view: np.zeros((1, 0)) if self._lle is None else self._scale * self._lle.embedding_}

    def _solve(self, X: NDArray[np.float64], seed: int) -> manifold.LocallyLinearEmbedding:
        n, p = X.shape
        lle = manifold.LocallyLinearEmbedding(
            n_neighbors=min(self.n_neighbors, n - 1),
            n_components=min(self.n_components, n - 1, p),
            reg=self.reg,
            eigen_solver="dense" if n <= SMALL else "arpack",
            random_state=seed % 2**32,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LinAlgWarning)
            try:
                return lle.fit(X)
            except LinAlgError as error:
                raise ParameterError(
                    f"LLE: expected a larger reg, got {self.reg!r}: {error}"
                ) from error
            except ValueError:
                if lle.eigen_solver == "dense":
                    raise
                return lle.set_params(eigen_solver="dense").fit(X)  # slower, and sure

    def _embed(self, view: str, X: Features) -> NDArray[Any]:
        if self._lle is None:
            return np.zeros((X.shape[0], 0))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LinAlgWarning)
            return np.asarray(self._scale * self._lle.transform(dense(X)))


def dense(X: Features) -> NDArray[np.float64]:
    """The rows as scikit-learn wants them here."""
    return (X if isinstance(X, np.ndarray) else X.toarray()).astype(np.float64)
