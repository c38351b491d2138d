"""Isomap, locally linear embedding and multidimensional scaling of the features."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, LinAlgWarning
from scipy.sparse import SparseEfficiencyWarning, linalg
from sklearn import manifold
from sklearn.manifold import smacof
from sklearn.metrics import euclidean_distances
from sklearn.preprocessing import KernelCenterer

from pmvge.baselines.base import Baseline, inputs
from pmvge.baselines.eigen import leading_of_operator
from pmvge.checks import Check, flag, real, whole
from pmvge.errors import ParameterError
from pmvge.graph import Features, MultiViewGraph


class Isomap(Baseline):
    r"""Isometric feature mapping.

    Measures distances :math:`\delta_{ij}` along paths between neighbours in the feature space, and
    places nodes at distances as close to those as a Euclidean space allows. It looks at features
    alone; links play no part.

    .. math:: \min_Y \sum_{i,j} (b_{ij} - \langle y_i, y_j \rangle)^2
              \quad \text{where} \quad B = -\frac{1}{2} (I - \frac{1}{n} 1 1^\top)
              (\delta_{ij}^2) (I - \frac{1}{n} 1 1^\top)

    Choose it to unroll features that lie on a curved surface, when links say nothing.
    It keeps the distances of all pairs, so that memory grows with the square of the nodes.

    Parameters
    ----------
    n_components
        Dimension K.
    n_neighbors
        Neighbours of a node; parts that they leave apart are joined where they are closest.

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

    n_views = 1
    many_to_many = False
    nonlinear = True
    inductive = True
    likelihood_based = False

    needs_features = True
    needs_links = False
    checks: ClassVar[Mapping[str, Check]] = {"n_neighbors": whole(1)}

    def __init__(self, n_components: int = 100, *, n_neighbors: int = 30) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors

    def _fit(self, graph: MultiViewGraph, seed: int) -> dict[str, NDArray[Any]]:
        ((view, X),) = inputs(graph).items()
        n = graph.n_nodes
        # It keeps the rows and the distances among them: new rows find their neighbours there.
        self._isomap = None if n == 1 else unrolled(X, min(self.n_components, n), self.n_neighbors)
        return {view: np.zeros((1, 0)) if self._isomap is None else self._isomap.embedding_}

    def _embed(self, view: str, X: Features) -> NDArray[Any]:
        if self._isomap is None:
            return np.zeros((X.shape[0], 0))
        return np.asarray(self._isomap.transform(X.astype(np.float64)))


def unrolled(X: Features, K: int, n_neighbors: int) -> manifold.Isomap:
    """scikit-learn's Isomap, with no more axes than have a positive eigenvalue."""
    isomap = manifold.Isomap(
        n_neighbors=min(n_neighbors, X.shape[0] - 1),
        n_components=K,
        eigen_solver="dense",  # the other one starts from numpy's global generator
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The number of connected components")
        warnings.simplefilter("ignore", SparseEfficiencyWarning)  # as it joins them
        rows = X.astype(np.float64)
        try:
            isomap.fit(rows)
        except ValueError:  # negative eigenvalues among the first K: not all paths are Euclidean
            if not hasattr(isomap, "dist_matrix_"):
                raise
            values = np.linalg.eigvalsh(
                KernelCenterer().fit_transform(-(isomap.dist_matrix_**2) / 2)
            )
            isomap.set_params(n_components=max(1, int((values > 1e-9 * values[-1]).sum())))
            isomap.fit(rows)
    return isomap


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
    >>> from pmvge.baselines import LLE
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
    >>> from pmvge.baselines import MDS
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
