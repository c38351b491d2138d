"""Isomap."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import SparseEfficiencyWarning
from sklearn import manifold
from sklearn.preprocessing import KernelCenterer

from pmvge.baselines.base import Baseline, inputs
from pmvge.features import Features
from pmvge.graph import MultiViewGraph
from pmvge.parameters import Check, whole


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
    >>> from pmvge.baselines.isomap import Isomap
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
