"""Recommenders with one interface: fit to a graph, then vectors whose inner products rank pairs.

``queries`` are vectors of entities of the first view, ``candidates`` of the second. Both place
unseen entities where the method can: from features, or from first links.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import threadpool_limits

from pmvge.errors import InputError, choose
from pmvge.evaluation import Popularity
from pmvge.experiments.identity_rows import IdentityRows, to_dense
from pmvge.experiments.recipe import model_settings
from pmvge.experiments.two_towers import Tower, train_towers
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
        with threadpool_limits(1, user_api="blas"):  # implicit warns about more
            self._model = als.AlternatingLeastSquares(
                **self.settings, num_threads=1, random_state=seed
            )
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


class BPR(Recommender):
    """Matrix factorisation with a pairwise loss (S. Rendle et al., UAI 2009), of ``implicit``.

    It has no fold-in: unseen entities are placed by a refit only.
    """

    libraries = ("implicit",)

    def fit(self, graph: MultiViewGraph, pair: Pair, seed: int) -> None:
        """Fit factors of both views, and a bias of each entity of the second view."""
        bpr = import_module("implicit.cpu.bpr")
        self._model = bpr.BayesianPersonalizedRanking(
            **self.settings, num_threads=1, random_state=seed
        )
        with threadpool_limits(1, user_api="blas"):
            self._model.fit(_matrix(graph, pair), show_progress=False)

    def queries(self, X: Features | None = None, links: sparse.csr_array | None = None) -> Array:
        """Return (factors, 1)."""
        return np.asarray(self._model.user_factors)

    def candidates(self, X: Features | None = None) -> Array:
        """Return (factors, bias)."""
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
        self._columns = [IdentityRows(graph.views[view], graph.sizes[view]) for view in pair]
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


class TwoTowers(Recommender):
    """Two networks with a softmax over the batch; see :mod:`pmvge.experiments.two_towers`.

    Training entities have a vector of their identity, too. Columns of features are standardised.
    Scores of a query are not comparable with those of another: the softmax is over candidates.
    """

    new_queries = new_candidates = True

    def fit(self, graph: MultiViewGraph, pair: Pair, seed: int) -> None:
        """Train both networks."""
        settings = dict(self.settings)
        K = int(settings.pop("n_components"))
        self._scales = [_standardization(graph.views[view]) for view in pair]
        self._X = [self._scaled(side, graph.views[view]) for side, view in enumerate(pair)]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self._towers = [
                Tower(K, columns=0 if X is None else X.shape[1], entities=graph.sizes[view])
                for X, view in zip(self._X, pair, strict=True)
            ]
        given = [None if X is None else torch.from_numpy(X) for X in self._X]
        train_towers(self._towers, given, graph.links[pair], seed=seed, **settings)
        self._sizes = [graph.sizes[view] for view in pair]

    def queries(self, X: Features | None = None, links: sparse.csr_array | None = None) -> Array:
        """Return the outputs of the first network."""
        return self._encode(0, X)

    def candidates(self, X: Features | None = None) -> Array:
        """Return the outputs of the second network."""
        return self._encode(1, X)

    def _encode(self, side: int, X: Features | None) -> Array:
        if X is None:
            return self._towers[side].encode(self._X[side], np.arange(self._sizes[side]))
        return self._towers[side].encode(self._scaled(side, X))

    def _scaled(self, side: int, X: Features | None) -> Array | None:
        if X is None:
            return None
        mean, deviation = self._scales[side]
        return ((to_dense(X) - mean) / deviation).astype(np.float32)


class Ours(Recommender):
    """PMvGE. ``features=False`` leaves out the features of both views.

    ``further`` lists other view pairs whose links are used, too, such as "artist,tag".
    """

    def __init__(
        self, *, features: bool = True, further: Sequence[str] = (), **settings: Any
    ) -> None:
        super().__init__(**model_settings({"effects": "auto", **settings}))
        self._features = features
        self._further = [tuple(key.split(",")) for key in further]
        self.new_queries = self.new_candidates = features
        self.first_links = self.settings["effects"] in ("auto", "vector")

    def fit(self, graph: MultiViewGraph, pair: Pair, seed: int) -> None:
        """Fit a model."""
        used = [key for key in graph.links if key in (pair, *self._further)]
        views = {
            view: graph.sizes[view] if X is None or not self._features else X
            for view, X in graph.views.items()
            if any(view in key for key in used)
        }
        tables = {key: graph.links[key] for key in used}
        # Linked or not, as for the other methods.
        links = {key: (each.rows, each.cols, np.ones(len(each))) for key, each in tables.items()}
        graph = MultiViewGraph(views, links, {view: graph.ids[view] for view in views})
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
    "BPR": BPR,
    "LightFM": LightFM,
    "two towers": TwoTowers,
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


def _matrix(graph: MultiViewGraph, pair: Pair) -> sparse.csr_matrix:
    """Return links of weight 1 as the class that both libraries take."""
    return sparse.csr_matrix(graph.links[pair].matrix() > 0, dtype=np.float32)


def _standardization(X: Features | None) -> tuple[Array, Array]:
    """Return mean and standard deviation of each column; 1 for constant columns."""
    if X is None:
        return np.zeros(0), np.ones(0)
    dense = to_dense(X)
    deviation = dense.std(axis=0)
    return dense.mean(axis=0), np.where(deviation > 0, deviation, 1)


def _with_negatives(target: sparse.coo_matrix, rng: np.random.Generator) -> sparse.coo_matrix:
    """Return the links, and about as many uniform pairs without a link, marked by -1."""
    n, m = target.shape
    drawn = np.unique(rng.integers(n * m, size=target.nnz))
    drawn = drawn[~np.isin(drawn, target.row.astype(np.int64) * m + target.col)]
    rows = np.concatenate([target.row, drawn // m])
    cols = np.concatenate([target.col, drawn % m])
    values = np.concatenate([target.data, np.full(len(drawn), -1.0)]).astype(np.float32)
    return sparse.coo_matrix((values, (rows, cols)), (n, m))
