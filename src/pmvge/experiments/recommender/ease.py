"""EASE: a linear model of items in closed form."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from pmvge.experiments.recommender.base import Array, Recommender
from pmvge.graph import Features, MultiViewGraph, Pair


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
