"""A popularity list."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from pmvge.evaluation import Popularity
from pmvge.experiments.recommender.base import Array, Recommender
from pmvge.graph import Features, MultiViewGraph, Pair


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
