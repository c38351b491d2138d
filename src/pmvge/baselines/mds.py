"""Multidimensional scaling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import linalg
from sklearn.manifold import smacof
from sklearn.metrics import euclidean_distances

from pmvge.baselines.base import Baseline, inputs
from pmvge.baselines.eigen import leading_of_operator
from pmvge.features import Features
from pmvge.graph import MultiViewGraph
from pmvge.parameters import Check, flag, real, whole


class MDS(Baseline):
    r"""Multidimensional scaling.

    Places nodes so that their distances are as close as possible to the distances
    :math:`\delta_{ij}` of their features, or to an increasing function of those. It looks at
    features alone; links play no part.

    .. math:: \min_Y \sum_{i<j} (\| y_i - y_j \| - \delta_{ij})^2

    Choose it to draw features in few dimensions, with distances that mean something.
    It keeps every distance, near and far alike, noise included, and cannot place new rows.

    Parameters
    ----------
    n_components
        Dimension K.
    metric
        Whether the distances themselves are kept; False keeps their order only (Kruskal).
    max_iter
        Most steps of SMACOF, which starts from the principal components.
    tol
        It ends when a step lowers the stress by less than this share of the squared distances.
    random_state
        Seed of the eigensolver's start.

    Attributes
    ----------
    stress_
        :math:`\sqrt{\sum (d_{ij} - \hat \delta_{ij})^2 / \sum d_{ij}^2}`, Kruskal's stress-1.
    n_iter_
        Steps made.

    References
    ----------
    J. B. Kruskal, "Multidimensional scaling by optimizing goodness of fit to a nonmetric
    hypothesis", Psychometrika 1964.
    J. de Leeuw, "Applications of convex analysis to multidimensional scaling", Recent Developments
    in Statistics 1977.

    Examples
    --------
    >>> import numpy as np
    >>> from pmvge import MultiViewGraph
    >>> from pmvge.baselines.mds import MDS
    >>> triangle = MultiViewGraph({"corner": np.eye(3)}, {("corner", "corner"): ([0], [1])})
    >>> Y = MDS(2).fit(triangle).embeddings_["corner"]
    >>> np.round(np.linalg.norm(Y[[0, 0, 1]] - Y[[1, 2, 2]], axis=1) ** 2, 3).tolist()
    [2.0, 2.0, 2.0]
    """

    n_views = 1
    many_to_many = False
    nonlinear = True
    inductive = False
    likelihood_based = False

    needs_features = True
    needs_links = False
    checks: ClassVar[Mapping[str, Check]] = {"metric": flag, "max_iter": whole(1), "tol": real(0)}

    stress_: float
    n_iter_: int

    def __init__(
        self,
        n_components: int = 100,
        *,
        metric: bool = True,
        max_iter: int = 100,
        tol: float = 1e-5,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.metric = metric
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def _fit(self, graph: MultiViewGraph, seed: int) -> dict[str, NDArray[Any]]:
        ((view, X),) = inputs(graph).items()
        rows = X.astype(np.float64)
        if one_point(rows):
            self.stress_, self.n_iter_ = 0.0, 0
            return {view: np.zeros((graph.n_nodes, 0))}
        if isinstance(rows, np.ndarray):  # distances are differences: small numbers lose less
            rows -= rows.mean(axis=0)
        Y, self.stress_, self.n_iter_ = smacof(
            euclidean_distances(rows),
            metric=bool(self.metric),
            init=classical(rows, self.n_components, np.random.default_rng(seed)),
            n_init=1,
            max_iter=self.max_iter,
            eps=self.tol,
            normalized_stress=True,
            return_n_iter=True,
        )
        return {view: Y}


def classical(X: Features, K: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Classical scaling of Euclidean distances, which is the scores on the principal components.

    (n, K), or fewer columns if X has a lower rank.
    """
    mean = np.asarray(X.mean(axis=0)).ravel()

    def centred(y: NDArray[Any]) -> NDArray[Any]:
        """(X - 1 mean) (X - 1 mean)^T y, which leaves a sparse X as it is."""
        y = y.reshape(X.shape[0], -1)
        inner = X.T @ y - np.outer(mean, y.sum(axis=0))
        return np.asarray(X @ inner - mean @ inner)

    n = X.shape[0]
    gram = linalg.LinearOperator((n, n), matvec=centred, matmat=centred, dtype=np.float64)
    values, vectors = leading_of_operator(gram, K, rng)
    kept = values > 1e-12 * values[0]
    return np.asarray(vectors[:, kept] * np.sqrt(values[kept]))


def one_point(X: Features) -> bool:
    """Whether all rows are the same."""
    if isinstance(X, np.ndarray):
        return not np.ptp(X, axis=0).any()
    return not (X.max(axis=0) - X.min(axis=0)).nnz
