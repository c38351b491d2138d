"""Methods that rank entities of one view by those of another, and the links they are fitted to.

Every method takes its links in one of three ways, ``links``:

- ``given``: the links of the data;
- ``equal``: the links with weights by which every entity counts the same,
  :math:`(D^{-1} W + W D'^{-1}) / 2`, where D and D' have the row and column sums of W;
- ``connected``: a link of weight 1 for every two entities that a path of links joins.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

from pmvge.baselines import CCA, CDMCA, DCCA, KernelCCA
from pmvge.errors import choose
from pmvge.experiments.recipe import model_settings
from pmvge.graph import MultiViewGraph, Pair
from pmvge.model import PMvGE

Array = NDArray[Any]
SHRUNK = {"CCA": CCA, "CDMCA": CDMCA, "KernelCCA": KernelCCA, "DCCA": DCCA}


def with_equal_weights(W: sparse.csr_array) -> sparse.csr_array:
    """Return weights by which every row and column counts about the same."""
    sums = [np.asarray(W.sum(axis=axis), dtype=np.float64).ravel() for axis in (1, 0)]
    rows, columns = (np.divide(1, s, out=np.zeros_like(s), where=s > 0) for s in sums)
    return sparse.csr_array((sparse.diags_array(rows) @ W + W @ sparse.diags_array(columns)) / 2)


def between_connected(W: sparse.csr_array) -> sparse.csr_array:
    """Return weight 1 for every row and column that a path of links joins."""
    n_rows, n_columns = W.shape
    both = sparse.block_array([[None, W], [W.T, None]], format="csr")
    count, component = connected_components(both, directed=False)
    member = sparse.csr_array(
        (np.ones(len(component)), (np.arange(len(component)), component)),
        shape=(n_rows + n_columns, count),
    )
    return sparse.csr_array(member[:n_rows] @ member[n_rows:].T)


REWEIGHTED = {
    "given": sparse.csr_array,
    "equal": with_equal_weights,
    "connected": between_connected,
}


def dense_features(graph: MultiViewGraph, view: str) -> Array:
    """Return the features of a view as a dense array."""
    return np.asarray(graph.views[view])


class Ranker(ABC):
    """A method with settings that places two views in one space."""

    many_views = False  # whether it takes all views with links that lead from one to the other

    def __init__(self, *, unit: bool = False, links: str = "given", **settings: Any) -> None:
        self.unit, self.settings = unit, settings
        self.links = choose("links", links, REWEIGHTED)

    @abstractmethod
    def vectors(
        self, train: MultiViewGraph, pair: Pair, X: Array, X_other: Array, seed: int
    ) -> Any:
        """Fit the method, and return vectors of unseen queries and of unseen candidates."""


class Neighbours(Ranker):
    """Place a query at the mean of the candidates' features that its nearest neighbours have.

    The features of a training entity in the other view are the mean of its partners there. This
    needs links between both views.
    """

    def vectors(
        self, train: MultiViewGraph, pair: Pair, X: Array, X_other: Array, seed: int
    ) -> Any:
        """Return predicted features of the queries, and those of the candidates."""
        scale, scale_other = (StandardScaler().fit(dense_features(train, view)) for view in pair)
        W = train.links[pair].matrix()
        linked = np.asarray(W.sum(axis=1)).ravel() > 0
        means = (W @ scale_other.transform(dense_features(train, pair[1])))[linked]
        means /= np.asarray(W.sum(axis=1)).ravel()[linked, None]
        near = NearestNeighbors(n_neighbors=int(self.settings["neighbours"]))
        near.fit(scale.transform(dense_features(train, pair[0]))[linked])
        found = near.kneighbors(scale.transform(X), return_distance=False)
        Y, Y_other = means[found].mean(axis=1), scale_other.transform(X_other)
        # Inner products of these rank by distance.
        length = (Y_other**2).sum(axis=1) / 2
        return np.column_stack([Y, np.ones(len(Y))]), np.column_stack([Y_other, -length])


class Correlations(Ranker):
    """A method of :mod:`pmvge.baselines`; features are standardised for those that do not."""

    def __init__(self, *, method: str, **settings: Any) -> None:
        super().__init__(**settings)
        self.method = method
        self.many_views = method == "CDMCA"

    def vectors(
        self, train: MultiViewGraph, pair: Pair, X: Array, X_other: Array, seed: int
    ) -> Any:
        """Return the vectors of both."""
        scales = {view: StandardScaler().fit(dense_features(train, view)) for view in train.views}
        views = {
            view: scale.transform(dense_features(train, view)) for view, scale in scales.items()
        }
        links = {key: each.matrix() for key, each in train.links.items()}
        settings = dict(self.settings)
        if self.method in ("DCCA", "KernelCCA"):
            settings["random_state"] = seed
        if self.method == "DCCA":
            settings["progress"] = False
        model = SHRUNK[self.method](**settings).fit(MultiViewGraph(views, links))
        return tuple(
            model.embed(view, scales[view].transform(rows))
            for view, rows in zip(pair, (X, X_other), strict=True)
        )


class Ours(Ranker):
    """PMvGE."""

    many_views = True

    def __init__(self, **settings: Any) -> None:
        super().__init__(**model_settings(settings))

    def vectors(
        self, train: MultiViewGraph, pair: Pair, X: Array, X_other: Array, seed: int
    ) -> Any:
        """Return vectors whose inner products are similarities; without biases if not linked."""
        model = PMvGE(**self.settings, random_state=seed, progress=False).fit(train)
        if pair not in train.links:
            return model.embed(pair[0], X), model.embed(pair[1], X_other)
        return (
            model.vectors(pair[0], X, among=pair[1], side="query"),
            model.vectors(pair[1], X_other, among=pair[0], side="candidate"),
        )


def make_ranker(method: str, settings: Mapping[str, Any]) -> Ranker:
    """Return a method by name; raise ParameterError if the name is unknown."""
    given = dict(settings)
    choose("method", method, ("neighbours", *SHRUNK, "PMvGE"))
    if method == "PMvGE":
        return Ours(**given)
    return Neighbours(**given) if method == "neighbours" else Correlations(method=method, **given)
