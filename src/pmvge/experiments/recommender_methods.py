"""Recommenders with one interface: fit to a graph, then vectors whose inner products rank pairs.

``queries`` are vectors of entities of the first view, ``candidates`` of the second. Both place
unseen entities where the method can: from features, or from first links.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.preprocessing import KBinsDiscretizer
from threadpoolctl import threadpool_limits

from pmvge.errors import InputError, choose
from pmvge.evaluation import Popularity
from pmvge.experiments.recipe import model_settings
from pmvge.graph import Features, MultiViewGraph, Pair
from pmvge.model import PMvGE

Array = NDArray[Any]


class Recommender(ABC):
    """A method with settings. ``fit`` comes first."""

    libraries: ClassVar[tuple[str, ...]] = ()  # part of the extra ``bench``
    new_queries: bool = False  # whether it places unseen entities of the first view by features
    new_candidates: bool = False  # and those of the second view
    first_links: bool = False  # whether it places unseen entities of the first view by first links

    def __init__(self, **settings: Any) -> None:
        self.settings = settings

    @abstractmethod
    def fit(self, graph: MultiViewGraph, pair: Pair, seed: int) -> None:
        """Fit the method to the links of a view pair."""

    @abstractmethod
    def queries(self, X: Features | None = None, links: sparse.csr_array | None = None) -> Array:
        """Return vectors of the training entities, or of unseen ones by features or first links."""

    @abstractmethod
    def candidates(self, X: Features | None = None) -> Array:
        """Return vectors of the training entities, or of unseen ones by features."""


class PopularityList(Recommender):
    """Rank pairs by the product of both total weights; an unseen entity has an average one."""

    new_queries = first_links = True

    def fit(self, graph: MultiViewGraph, pair: Pair, seed: int) -> None:
        """Count links."""
        self._left, self._right, _ = Popularity.of(graph.links[pair]).vectors()

    def queries(self, X: Features | None = None, links: sparse.csr_array | None = None) -> Array:
        """Return (log degree, 1) of training entities, and (0, 1) of unseen ones."""
        if X is None:
            return self._left
        return np.tile(np.array([0, 1], np.float32), (X.shape[0], 1))

    def candidates(self, X: Features | None = None) -> Array:
        """Return (1, log degree)."""
        return self._right


class EASE(Recommender):
    r"""Embarrassingly shallow autoencoders (H. Steck, WWW 2019), in closed form.

    With links X (n, m), :math:`P = (X^\top X + \lambda I)^{-1}`, scores are
    :math:`X B, B_{ij} = -P_{ij} / P_{jj}` and 0 on the diagonal. By the Woodbury identity, with
    :math:`A = (X X^\top + \lambda I)^{-1}`, :math:`P = (I - X^\top A X) / \lambda`; the score of a
    candidate j that is not linked to the query x is

    .. math:: \langle x X^\top A / \lambda, X_{:, j} / P_{jj} \rangle.

    For training queries the first vector is a row of :math:`I / \lambda - A`.
    """

    first_links = True

    def fit(self, graph: MultiViewGraph, pair: Pair, seed: int) -> None:
        """Invert an (n, n) matrix."""
        W = (graph.links[pair].matrix() > 0).astype(np.float64)
        penalty = float(self.settings["penalty"])
        self._A = np.linalg.inv((W @ W.T).toarray() + penalty * np.eye(W.shape[0]))
        P = (1 - np.asarray(W.multiply(self._A @ W).sum(axis=0)).ravel()) / penalty
        self._W, self._penalty = W, penalty
        self._candidates = (W.T / P[:, None]).toarray().astype(np.float32)

    def queries(self, X: Features | None = None, links: sparse.csr_array | None = None) -> Array:
        """Return x X' A / lambda of training rows or first links x."""
        x = self._W if links is None else (links > 0).astype(np.float64)
        return np.asarray((x @ self._W.T) @ self._A / self._penalty, np.float32)

    def candidates(self, X: Features | None = None) -> Array:
        """Return the columns of X, divided by the diagonal of P."""
        return np.asarray(self._candidates)


class ALS(Recommender):
    """Implicit-feedback matrix factorisation by alternating least squares, of ``implicit``."""

    libraries = ("implicit",)
    first_links = True

    def fit(self, graph: MultiViewGraph, pair: Pair, seed: int) -> None:
        """Fit factors of both views."""
        als = import_module("implicit.cpu.als")
        self._model = als.AlternatingLeastSquares(**self.settings, num_threads=1, random_state=seed)
        with threadpool_limits(1, user_api="blas"):  # implicit warns about more
            self._model.fit(_matrix(graph, pair), show_progress=False)

    def queries(self, X: Features | None = None, links: sparse.csr_array | None = None) -> Array:
        """Return the factors of training rows, or those that first links give."""
        if links is None:
            return np.asarray(self._model.user_factors)
        rows = sparse.csr_matrix(links, dtype=np.float32)
        return np.asarray(self._model.recalculate_user(np.arange(rows.shape[0]), rows))

    def candidates(self, X: Features | None = None) -> Array:
        """Return the factors of the second view."""
        return np.asarray(self._model.item_factors)


class LightFM(Recommender):
    """Factorisation of features and identities (M. Kula, 2015), of ``lightfm``.

    Columns with more than two values are cut into five bins at their quantiles. Rows of identities
    and features are scaled to sum 1, as LightFM's own data class does.
    """

    libraries = ("lightfm",)
    new_queries = new_candidates = True

    def fit(self, graph: MultiViewGraph, pair: Pair, seed: int) -> None:
        """Fit vectors and biases of identities and features."""
        settings = dict(self.settings)
        epochs = int(settings.pop("epochs"))
        self._columns = [_Columns(graph.views[view], graph.sizes[view]) for view in pair]
        self._rows = [columns.known() for columns in self._columns]
        lightfm = import_module("lightfm")
        self._model = lightfm.LightFM(**settings, random_state=seed)
        target = _matrix(graph, pair).tocoo()
        rng = np.random.default_rng(seed)
        for _ in range(epochs):
            part = target
            if settings.get("loss") == "logistic":
                part = _with_negatives(target, rng)
            self._model.fit_partial(
                part, user_features=self._rows[0], item_features=self._rows[1], num_threads=1
            )

    def queries(self, X: Features | None = None, links: sparse.csr_array | None = None) -> Array:
        """Return (vector, bias, 1); the bias of ranking losses is 0."""
        rows = self._rows[0] if X is None else self._columns[0].new(X)
        bias, Y = self._model.get_user_representations(rows)
        if self.settings.get("loss") != "logistic":
            bias = np.zeros_like(bias)
        return np.column_stack([Y, bias, np.ones_like(bias)])

    def candidates(self, X: Features | None = None) -> Array:
        """Return (vector, 1, bias)."""
        rows = self._rows[1] if X is None else self._columns[1].new(X)
        bias, Y = self._model.get_item_representations(rows)
        return np.column_stack([Y, np.ones_like(bias), bias])


class Ours(Recommender):
    """PMvGE. ``features=False`` leaves out the features of both views."""

    def __init__(self, *, features: bool = True, **settings: Any) -> None:
        super().__init__(**model_settings({"effects": "auto", **settings}))
        self._features = features
        self.new_queries = self.new_candidates = features
        self.first_links = self.settings["effects"] in ("auto", "vector")

    def fit(self, graph: MultiViewGraph, pair: Pair, seed: int) -> None:
        """Fit a model."""
        if not self._features:
            links = {key: each.matrix() for key, each in graph.links.items()}
            graph = MultiViewGraph(graph.sizes, links, graph.ids)
        self._pair = pair
        self._model = PMvGE(**self.settings, random_state=seed, progress=False).fit(graph)

    def queries(self, X: Features | None = None, links: sparse.csr_array | None = None) -> Array:
        """Return query vectors, of unseen entities with first links by fold-in."""
        view, other = self._pair
        if links is None:
            return self._model.vectors(view, X, among=other, side="query")
        entries = links.tocoo()
        first = {other: (entries.row, self._model.ids_[other][entries.col], entries.data)}
        if not self._features:
            X = None
        Y = self._model.vectors(view, X, links=first, among=other, side="query")
        return np.pad(Y, ((0, links.shape[0] - len(Y)), (0, 0)))  # last rows without links

    def candidates(self, X: Features | None = None) -> Array:
        """Return candidate vectors."""
        view, other = self._pair
        return self._model.vectors(other, X, among=view, side="candidate")


RECOMMENDERS: dict[str, type[Recommender]] = {
    "popularity": PopularityList,
    "EASE": EASE,
    "ALS": ALS,
    "LightFM": LightFM,
    "PMvGE": Ours,
}


def make_recommender(method: str, settings: Mapping[str, Any]) -> Recommender:
    """Return a recommender by name; raise ParameterError if the name is unknown."""
    return RECOMMENDERS[choose("method", method, RECOMMENDERS)](**settings)


def check_libraries(methods: list[str]) -> None:
    """Raise InputError if a method needs a library that is not installed."""
    for method in methods:
        for library in RECOMMENDERS[method].libraries:
            try:
                import_module(library)
            except ImportError as error:
                raise InputError(
                    f"{method} needs {library!r}: install pmvge[bench], or leave the method out "
                    "with --methods"
                ) from error


class _Columns:
    """Identity and feature columns of a view: sparse rows for LightFM."""

    def __init__(self, X: Features | None, n: int) -> None:
        self._X, self._n = X, n
        self._binary: Array = np.zeros(0, bool)
        self._bins: Any = None
        if X is not None:
            dense = _dense(X)
            self._binary = np.array([len(np.unique(column)) <= 2 for column in dense.T])
            if not self._binary.all():
                bins = KBinsDiscretizer(
                    5, strategy="quantile", quantile_method="averaged_inverted_cdf"
                )
                self._bins = bins.fit(dense[:, ~self._binary])

    def known(self) -> sparse.csr_matrix:
        """Return rows of the training entities."""
        parts = [sparse.eye_array(self._n, dtype=np.float32)]
        if self._X is not None:
            parts.append(self._encode(self._X))
        return _sum_to_one(sparse.hstack(parts))

    def new(self, X: Features) -> sparse.csr_matrix:
        """Return rows of unseen entities, without identities."""
        empty = sparse.csr_array((X.shape[0], self._n), dtype=np.float32)
        return _sum_to_one(sparse.hstack([empty, self._encode(X)]))

    def _encode(self, X: Features) -> sparse.csr_array:
        dense = _dense(X)
        parts = [sparse.csr_array(dense[:, self._binary])]
        if self._bins is not None:
            parts.append(sparse.csr_array(self._bins.transform(dense[:, ~self._binary])))
        return sparse.csr_array(sparse.hstack(parts))


def _dense(X: Features) -> Array:
    return np.asarray(X.toarray() if isinstance(X, sparse.csr_array) else X)


def _sum_to_one(rows: Any) -> sparse.csr_matrix:
    rows = sparse.csr_array(rows)
    totals = np.asarray(rows.sum(axis=1)).ravel()
    scale = sparse.diags_array(1 / np.where(totals > 0, totals, 1))
    return sparse.csr_matrix(scale @ rows, dtype=np.float32)


def _matrix(graph: MultiViewGraph, pair: Pair) -> sparse.csr_matrix:
    """Return links of weight 1 as the class that both libraries take."""
    return sparse.csr_matrix(graph.links[pair].matrix() > 0, dtype=np.float32)


def _with_negatives(target: sparse.coo_matrix, rng: np.random.Generator) -> sparse.coo_matrix:
    """Return the links, and about as many uniform pairs without a link, marked by -1."""
    n, m = target.shape
    drawn = np.unique(rng.integers(n * m, size=target.nnz))
    drawn = drawn[~np.isin(drawn, target.row.astype(np.int64) * m + target.col)]
    rows = np.concatenate([target.row, drawn // m])
    cols = np.concatenate([target.col, drawn % m])
    values = np.concatenate([target.data, np.full(len(drawn), -1.0)]).astype(np.float32)
    return sparse.coo_matrix((values, (rows, cols)), (n, m))
