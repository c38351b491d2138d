"""LightFM: factorisation of features and identities."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
from scipy import sparse

from pmvge.experiments.recommender.base import (
    Array,
    Recommender,
    link_matrix,
    linked_columns,
    view_pairs,
)
from pmvge.experiments.recommender.identity_rows import IdentityRows
from pmvge.graph import Features, MultiViewGraph, Pair


class LightFM(Recommender):
    """Factorisation of features and identities (M. Kula, 2015), of ``lightfm``.

    Columns with more than two values are cut into five bins at their quantiles. Rows of identities
    and features are scaled to sum 1, as LightFM's own data class does. ``linked_features`` lists
    other view pairs, such as "artist,tag", whose links are features: an artist has a column for
    each tag.
    """

    libraries = ("lightfm",)
    new_queries = new_candidates = True

    def __init__(self, *, linked_features: Sequence[str] = (), **settings: Any) -> None:
        super().__init__(**settings)
        self._linked_features = view_pairs(linked_features)

    def fit(self, graph: MultiViewGraph, pair: Pair, seed: int) -> None:
        """Fit vectors and biases of identities and features."""
        settings = dict(self.settings)
        epochs = int(settings.pop("epochs"))
        self._columns = [
            IdentityRows(
                graph.views[view],
                graph.sizes[view],
                linked_columns(graph, view, self._linked_features),
            )
            for view in pair
        ]
        self._rows = [columns.known() for columns in self._columns]
        lightfm = import_module("lightfm")
        self._model = lightfm.LightFM(**settings, random_state=seed)
        target = link_matrix(graph, pair).tocoo()
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


def _with_negatives(target: sparse.coo_matrix, rng: np.random.Generator) -> sparse.coo_matrix:
    """Return the links, and about as many uniform pairs without a link, marked by -1."""
    n, m = target.shape
    drawn = np.unique(rng.integers(n * m, size=target.nnz))
    drawn = drawn[~np.isin(drawn, target.row.astype(np.int64) * m + target.col)]
    rows = np.concatenate([target.row, drawn // m])
    cols = np.concatenate([target.col, drawn % m])
    values = np.concatenate([target.data, np.full(len(drawn), -1.0)]).astype(np.float32)
    return sparse.coo_matrix((values, (rows, cols)), (n, m))
