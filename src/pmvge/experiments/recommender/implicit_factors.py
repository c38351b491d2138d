"""Matrix factorisation of ``implicit``: ALS and BPR."""

from __future__ import annotations

from importlib import import_module

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from pmvge.experiments.recommender.base import Array, Recommender, link_matrix
from pmvge.graph import Features, MultiViewGraph, Pair


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
            self._model.fit(link_matrix(graph, pair), show_progress=False)

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
            self._model.fit(link_matrix(graph, pair), show_progress=False)

    def queries(self, X: Features | None = None, links: sparse.csr_array | None = None) -> Array:
        """Return (factors, 1)."""
        return np.asarray(self._model.user_factors)

    def candidates(self, X: Features | None = None) -> Array:
        """Return (factors, bias)."""
        return np.asarray(self._model.item_factors)
