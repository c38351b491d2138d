"""Isomap, locally linear embedding and multidimensional scaling: methods that use features only."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, LinAlgWarning
from scipy.sparse import SparseEfficiencyWarning
from sklearn import manifold
from sklearn.metrics import euclidean_distances
from sklearn.preprocessing import KernelCenterer

from pmvge.baselines.base import Baseline, input_rows
from pmvge.baselines.eigen import principal_scores
from pmvge.checks import Check, flag, integer, real
from pmvge.errors import ParameterError
from pmvge.graph import Features, MultiViewGraph

DENSE_ROWS = 4000  # up to this size LLE computes all eigenvectors, which always converges


class ManifoldMethod(Baseline):
    """Base class of methods that embed the features of one view and ignore links."""

    n_views = 1
    many_to_many = False
    nonlinear = True
    likelihood_based = False
    needs_features = True
    needs_links = False


class Isomap(ManifoldMethod):
    r"""Isometric feature mapping.

    Distances :math:`\delta_{ij}` are measured along paths between neighbours in the feature space,
    and the vectors keep them as well as Euclidean distances can. It uses features only and ignores
    links.

    .. math:: \min_Y \sum_{i,j} (b_{ij} - \langle y_i, y_j \rangle)^2
              \quad \text{where} \quad B = -\frac{1}{2} (I - \frac{1}{n} 1 1^\top)
              (\delta_{ij}^2) (I - \frac{1}{n} 1 1^\top)

    Choose it for features on a curved surface, when links are uninformative. It stores the
    distances of all pairs, so memory grows with the square of the number of entities.

    Parameters
    ----------
    n_components
        Dimension K.
    n_neighbors
        Neighbours per entity. Components of the neighbour graph are joined at their closest points.

    References
    ----------
    J. B. Tenenbaum, V. de Silva and J. C. Langford, "A global geometric framework for nonlinear
    dimensionality reduction", Science 2000.

    Examples
    --------
    >>> import numpy as np
    >>> from pmvge import MultiViewGraph
    >>> from pmvge.baselines import Isomap
    >>> angle = np.linspace(0, 5, 30)
    >>> arc = np.column_stack([np.cos(angle), np.sin(angle)])
    >>> graph = MultiViewGraph({"point": arc}, {("point", "point"): ([0], [1])})
    >>> y = Isomap(1, n_neighbors=2).fit(graph).embeddings_["point"].ravel()
    >>> round(float(abs(y[-1] - y[0])), 2)
    4.99
    """

    inductive = True
    checks: ClassVar[Mapping[str, Check]] = {"n_neighbors": integer(1)}

    def __init__(self, n_components: int = 100, *, n_neighbors: int = 30) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors

    def _fit(self, graph: MultiViewGraph, seed: int) -> dict[str, NDArray[Any]]:
        ((view, X),) = input_rows(graph).items()
        n = graph.n_nodes
        # The fitted estimator keeps the rows, among which new rows find their neighbours.
        self._isomap = (
            None if n == 1 else _fit_isomap(X, min(self.n_components, n), self.n_neighbors)
        )
        return {view: np.zeros((1, 0)) if self._isomap is None else self._isomap.embedding_}

    def _embed(self, view: str, X: Features) -> NDArray[Any]:
        if self._isomap is None:
            return np.zeros((X.shape[0], 0))
        return np.asarray(self._isomap.transform(X.astype(np.float64)))


def _fit_isomap(X: Features, K: int, n_neighbors: int) -> manifold.Isomap:
    """Return scikit-learn's Isomap, with fewer than K axes if fewer eigenvalues are positive."""
    isomap = manifold.Isomap(
        n_neighbors=min(n_neighbors, X.shape[0] - 1),
        n_components=K,
        eigen_solver="dense",  # "arpack" starts from numpy's global generator
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The number of connected components")
        warnings.simplefilter("ignore", SparseEfficiencyWarning)  # raised where it joins them
        rows = X.astype(np.float64)
        try:
            isomap.fit(rows)
        except ValueError:  # path lengths that are not Euclidean: negative eigenvalues
            if not hasattr(isomap, "dist_matrix_"):
                raise
            values = np.linalg.eigvalsh(
                KernelCenterer().fit_transform(-(isomap.dist_matrix_**2) / 2)
            )
            isomap.set_params(n_components=max(1, int((values > 1e-9 * values[-1]).sum())))
            isomap.fit(rows)
    return isomap


class LLE(ManifoldMethod):
    r"""Locally linear embedding.

    Every entity's features are written as a weighted mean of its neighbours', and the vectors are
    those that the same weights :math:`a_{ij}` reconstruct best. It uses features only and ignores
    links.

    .. math:: \min_Y \sum_i \| y_i - \sum_j a_{ij} y_j \|^2
              \quad \text{subject to} \quad \frac{1}{n} Y^\top Y = I, \quad Y^\top 1 = 0

    Choose it for features on a curved surface, when links are uninformative. If the neighbour graph
    has several components, the first axes only separate them.

    Parameters
    ----------
    n_components
        Dimension K; axes beyond the number of features are 0.
    n_neighbors
        Neighbours per entity.
    reg
        Regularisation of the weights, relative to the neighbours' variance. Smaller values follow
        the surface more closely, and also its noise.
    random_state
        Seed of the eigensolver's initial vector.

    References
    ----------
    S. T. Roweis and L. K. Saul, "Nonlinear dimensionality reduction by locally linear embedding",
    Science 2000.
    """

    inductive = True
    checks: ClassVar[Mapping[str, Check]] = {
        "n_neighbors": integer(1),
        "reg": real(0, open_low=True),
    }

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
        ((view, X),) = input_rows(graph).items()
        n = graph.n_nodes
        self._scale = np.sqrt(n)  # gives every axis variance 1
        # The fitted estimator keeps the rows, of which new rows become weighted means.
        self._lle = None if n == 1 else self._fit_lle(_to_dense(X), seed)
        return {view: np.zeros((1, 0)) if self._lle is None else self._scale * self._lle.embedding_}

    def _fit_lle(self, X: NDArray[np.float64], seed: int) -> manifold.LocallyLinearEmbedding:
        n, p = X.shape
        lle = manifold.LocallyLinearEmbedding(
            n_neighbors=min(self.n_neighbors, n - 1),
            n_components=min(self.n_components, n - 1, p),
            reg=self.reg,
            eigen_solver="dense" if n <= DENSE_ROWS else "arpack",
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
                return lle.set_params(eigen_solver="dense").fit(X)  # slower, but always converges

    def _embed(self, view: str, X: Features) -> NDArray[Any]:
        if self._lle is None:
            return np.zeros((X.shape[0], 0))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LinAlgWarning)
            return np.asarray(self._scale * self._lle.transform(_to_dense(X)))


def _to_dense(X: Features) -> NDArray[np.float64]:
    """Return the rows as a dense float64 array, as scikit-learn's LLE requires."""
    return (X if isinstance(X, np.ndarray) else X.toarray()).astype(np.float64)


class MDS(ManifoldMethod):
    r"""Multidimensional scaling.

    The distances between vectors are as close as possible to the distances :math:`\delta_{ij}`
    between features, or to an increasing function of them. It uses features only and ignores links.

    .. math:: \min_Y \sum_{i<j} (\| y_i - y_j \| - \delta_{ij})^2

    Choose it to plot features in few dimensions with meaningful distances. Small and large
    distances count equally, noise included, and it cannot embed new entities.

    Parameters
    ----------
    n_components
        Dimension K.
    metric
        Whether to keep the distances themselves; False keeps only their order (Kruskal).
    max_iter
        Maximum number of SMACOF steps; SMACOF starts from the principal components.
    tol
        SMACOF stops when a step lowers the stress by less than this share of the squared distances.
    random_state
        Seed of the eigensolver's initial vector.

    Attributes
    ----------
    stress_
        :math:`\sqrt{\sum (d_{ij} - \hat \delta_{ij})^2 / \sum d_{ij}^2}`, Kruskal's stress-1.
    n_iter_
        Number of SMACOF steps.

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
    >>> from pmvge.baselines import MDS
    >>> triangle = MultiViewGraph({"corner": np.eye(3)}, {("corner", "corner"): ([0], [1])})
    >>> Y = MDS(2).fit(triangle).embeddings_["corner"]
    >>> np.round(np.linalg.norm(Y[[0, 0, 1]] - Y[[1, 2, 2]], axis=1) ** 2, 3).tolist()
    [2.0, 2.0, 2.0]
    """

    inductive = False
    checks: ClassVar[Mapping[str, Check]] = {"metric": flag, "max_iter": integer(1), "tol": real(0)}

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
        ((view, X),) = input_rows(graph).items()
        rows = X.astype(np.float64)
        if _all_rows_equal(rows):
            self.stress_, self.n_iter_ = 0.0, 0
            return {view: np.zeros((graph.n_nodes, 0))}
        if isinstance(rows, np.ndarray):  # smaller numbers lose less precision in differences
            rows -= rows.mean(axis=0)
        Y, self.stress_, self.n_iter_ = manifold.smacof(
            euclidean_distances(rows),
            metric=bool(self.metric),
            init=principal_scores(rows, self.n_components, np.random.default_rng(seed)),
            n_init=1,
            max_iter=self.max_iter,
            eps=self.tol,
            normalized_stress=True,
            return_n_iter=True,
        )
        return {view: Y}


def _all_rows_equal(X: Features) -> bool:
    """Return whether all rows are equal."""
    if isinstance(X, np.ndarray):
        return not np.ptp(X, axis=0).any()
    return not (X.max(axis=0) - X.min(axis=0)).nnz
