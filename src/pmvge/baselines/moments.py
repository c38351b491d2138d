r"""Second moments of linked entities, from which the linear methods are computed.

Every entity is a vector over the columns of all views, with zeros in the columns of other views
("simple coding"). With these rows in X, centred view by view, the linear methods use

.. math:: G = \sum_i c_i \tilde x_i \tilde x_i^\top, \qquad
          H = \sum_{i,j} w_{ij} \tilde x_i \tilde x_j^\top,

where :math:`c_i = \sum_j w_{ij}` (an entity counts once per unit of link weight) or :math:`c_i =
1`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmvge.baselines.flattening import flatten
from pmvge.errors import GraphError
from pmvge.graph import Features, MultiViewGraph

Matrix = NDArray[np.float64]
MAX_COLUMNS = 20_000  # a float64 matrix of this size squared takes 3 GB
# A variance is a difference of two sums of squares here; up to this share of them it is rounding,
# and the column is constant. (Standardising in pmvge.graph has another bound, that of float32.)
VARIANCE_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class LinkMoments:
    """The matrices G and H of a graph, and the columns of each view in them."""

    G: Matrix  # (p, p), block diagonal
    H: Matrix  # (p, p)
    means: dict[str, Matrix]  # (p_d,), subtracted from each view's rows
    columns: dict[str, slice]

    def shrunk(self, shrinkage: float) -> Matrix:
        r"""Return G with each view's part moved towards a multiple of the identity of equal trace.

        .. math:: (1 - s)\, G_d + s\, \frac{\mathrm{tr}\, G_d}{p_d} I
        """
        G = (1 - shrinkage) * self.G
        for part in self.columns.values():
            G_d = self.G[part, part]
            G[part, part] += shrinkage * np.trace(G_d) / len(G_d) * np.eye(len(G_d))
        return G


def link_moments(
    graph: MultiViewGraph,
    X: Mapping[str, Features],
    *,
    by_weight: bool = True,
    center: bool = True,
    where: str = "",
) -> LinkMoments:
    """Return the moments of a graph whose views have the rows X.

    ``where`` is the name of the method, for error messages. Raise GraphError if the views have more
    than ``MAX_COLUMNS`` columns together.
    """
    columns = column_slices(X)
    p = sum(rows.shape[1] for rows in X.values())
    if p > MAX_COLUMNS:
        raise GraphError(
            f"{where}: expected at most {MAX_COLUMNS:,} columns in all views together, got {p:,}; "
            "hash or project the features first"
        )
    nodes = flatten(graph)
    counts = nodes.split(nodes.degrees if by_weight else np.ones(graph.n_nodes))
    means = {view: _mean(rows, counts[view] if center else None) for view, rows in X.items()}
    G, H = np.zeros((p, p)), np.zeros((p, p))
    constant = np.zeros(p, dtype=bool)
    for view, rows in X.items():
        W = sparse.diags_array(counts[view]).tocsr()
        part = columns[view]
        G[part, part] = _cross(rows, W, rows, means[view], means[view])
        rounding = VARIANCE_ROUNDING * column_squares(rows, counts[view])
        constant[part] = np.diagonal(G)[part] <= rounding
    for (a, b), links in graph.links.items():
        H_ab = _cross(X[a], links.matrix(), X[b], means[a], means[b])
        H[columns[a], columns[b]] += H_ab
        if a != b:
            H[columns[b], columns[a]] += H_ab.T
    for matrix in (G, H):  # centring leaves only rounding errors in constant columns
        matrix[constant] = 0
        matrix[:, constant] = 0
    return LinkMoments(G, H, means, columns)


def column_slices(X: Mapping[str, Features]) -> dict[str, slice]:
    """Return each view's slice of the columns of all views."""
    ends = np.cumsum([0, *(rows.shape[1] for rows in X.values())]).tolist()
    return {view: slice(ends[k], ends[k + 1]) for k, view in enumerate(X)}


def column_squares(X: Features, counts: Matrix) -> Matrix:
    """Return every column's sum of c x^2, (p,)."""
    squared = X.astype(np.float64) ** 2 if isinstance(X, np.ndarray) else X.multiply(X)
    return np.asarray(squared.T @ counts, dtype=np.float64).ravel()


def _mean(X: Features, counts: Matrix | None) -> Matrix:
    if counts is None or counts.sum() == 0:
        return np.zeros(X.shape[1])
    mean: Matrix = np.asarray(X.T.astype(np.float64) @ counts).ravel() / counts.sum()
    return mean


def _cross(A: Features, W: sparse.csr_array, B: Features, a: Matrix, b: Matrix) -> Matrix:
    """Return (A - 1 a^T)^T W (B - 1 b^T), without converting sparse rows to dense ones."""
    right: Any = W @ (B if sparse.issparse(B) else B.astype(np.float64))
    product: Any = A.T.astype(np.float64) @ right
    dense = np.asarray(product.toarray() if sparse.issparse(product) else product, np.float64)
    from_left = np.asarray(A.T.astype(np.float64) @ np.asarray(W.sum(axis=1))).ravel()
    from_right = np.asarray(B.T.astype(np.float64) @ np.asarray(W.sum(axis=0))).ravel()
    dense -= np.outer(a, from_right) + np.outer(from_left, b) - W.sum() * np.outer(a, b)
    return dense
