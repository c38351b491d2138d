"""Rows of identities and features for LightFM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.preprocessing import KBinsDiscretizer

from pmvge.graph import Features

Array = NDArray[Any]


class IdentityRows:
    """Identity and feature columns of a view: sparse rows for LightFM.

    ``linked`` are further columns of the training entities, (n, m) each, such as their tags. Unseen
    entities have 0 there.
    """

    def __init__(self, X: Features | None, n: int, linked: Sequence[sparse.csr_array] = ()) -> None:
        self._X = X
        self._own = sparse.csr_array(sparse.hstack([sparse.eye_array(n), *linked]))
        self._binary: Array = np.zeros(0, bool)
        self._bins: Any = None
        if X is not None:
            dense = to_dense(X)
            self._binary = np.array([len(np.unique(column)) <= 2 for column in dense.T])
            if not self._binary.all():
                bins = KBinsDiscretizer(
                    5, strategy="quantile", quantile_method="averaged_inverted_cdf"
                )
                self._bins = bins.fit(dense[:, ~self._binary])

    def known(self) -> sparse.csr_matrix:
        """Return rows of the training entities."""
        parts = [self._own]
        if self._X is not None:
            parts.append(self._encode(self._X))
        return _sum_to_one(sparse.hstack(parts))

    def new(self, X: Features) -> sparse.csr_matrix:
        """Return rows of unseen entities, which have features only."""
        empty = sparse.csr_array((X.shape[0], self._own.shape[1]))
        return _sum_to_one(sparse.hstack([empty, self._encode(X)]))

    def _encode(self, X: Features) -> sparse.csr_array:
        dense = to_dense(X)
        parts = [sparse.csr_array(dense[:, self._binary])]
        if self._bins is not None:
            parts.append(sparse.csr_array(self._bins.transform(dense[:, ~self._binary])))
        return sparse.csr_array(sparse.hstack(parts))


def to_dense(X: Features) -> Array:
    """Return features as a dense array."""
    return np.asarray(X.toarray() if isinstance(X, sparse.csr_array) else X)


def _sum_to_one(rows: Any) -> sparse.csr_matrix:
    rows = sparse.csr_array(rows)
    totals = np.asarray(rows.sum(axis=1)).ravel()
    scale = sparse.diags_array(1 / np.where(totals > 0, totals, 1))
    return sparse.csr_matrix(scale @ rows, dtype=np.float32)
