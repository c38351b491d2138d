r"""Second moments of linked nodes: all that a linear method sees of a graph.

Every node is a long vector, zero but for the block of its own view ("simple coding"). With these
rows in X, centred view by view, the methods of this family solve problems in

.. math:: G = \sum_i c_i \tilde x_i \tilde x_i^\top, \qquad
          H = \sum_{i,j} w_{ij} \tilde x_i \tilde x_j^\top,

where :math:`c_i = \sum_j w_{ij}` (a node counts once per unit of link weight) or :math:`c_i = 1`.
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
COLUMNS = 20_000  # more than this, and the matrices would take 3 GB each
CONSTANT = 1e-12  # a column whose variance is so small a share of its mean square is constant


@dataclass(frozen=True, eq=False)
class LinkMoments:
    """G and H of a graph, and where each view stands in them."""

    G: Matrix  # (p, p), block diagonal
    H: Matrix  # (p, p)
    means: dict[str, Matrix]  # (p_d,) what was subtracted from each view's rows
    columns: dict[str, slice]

    def shrunk(self, shrinkage: float) -> Matrix:
        r"""G with each view's block moved towards a multiple of the identity of the same trace.

        .. math:: (1 - s)\, G_d + s\, \frac{\mathrm{tr}\, G_d}{p_d} I
        """
        G = (1 - shrinkage) * self.G
        for part in self.columns.values():
            block = self.G[part, part]
            G[part, part] += shrinkage * np.trace(block) / len(block) * np.eye(len(block))
        return G


def link_moments(
    graph: MultiViewGraph,
    X: Mapping[str, Features],
    *,
    by_weight: bool = True,
    center: bool = True,
    where: str = "",
) -> LinkMoments:
    """The moments of a graph whose views have the rows X; ``where`` names the method that asks."""
    columns = column_slices(X)
    p = sum(rows.shape[1] for rows in X.values())
    if p > COLUMNS:
        raise GraphError(
            f"{where}: the views have {p:,} columns together, and it holds matrices of that size "
            f"squared: at most {COLUMNS:,} are taken. Hash or project them first"
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
        constant[part] = np.diagonal(G)[part] <= CONSTANT * squares(rows, counts[view])
    for (a, b), links in graph.links.items():
        block = _cross(X[a], links.matrix(), X[b], means[a], means[b])
        H[columns[a], columns[b]] += block
        if a != b:
            H[columns[b], columns[a]] += block.T
    for matrix in (G, H):  # what is left of a constant column is rounding
        matrix[constant] = 0
        matrix[:, constant] = 0
    return LinkMoments(G, H, means, columns)


def column_slices(X: Mapping[str, Features]) -> dict[str, slice]:
    """Where each view's columns stand among those of all."""
    ends = np.cumsum([0, *(rows.shape[1] for rows in X.values())]).tolist()
    return {view: slice(ends[k], ends[k + 1]) for k, view in enumerate(X)}


def squares(X: Features, counts: Matrix) -> Matrix:
    """Every column's sum of c x^2."""
    squared = X.astype(np.float64) ** 2 if isinstance(X, np.ndarray) else X.multiply(X)
    return np.asarray(squared.T @ counts, dtype=np.float64).ravel()


def _mean(X: Features, counts: Matrix | None) -> Matrix:
    if counts is None or counts.sum() == 0:
        return np.zeros(X.shape[1])
    mean: Matrix = np.asarray(X.T.astype(np.float64) @ counts).ravel() / counts.sum()
    return mean


def _cross(A: Features, W: sparse.csr_array, B: Features, a: Matrix, b: Matrix) -> Matrix:
    """(A - 1 a^T)^T W (B - 1 b^T), without making sparse rows dense."""
    right: Any = W @ (B if sparse.issparse(B) else B.astype(np.float64))
    product: Any = A.T.astype(np.float64) @ right
    dense = np.asarray(product.toarray() if sparse.issparse(product) else product, np.float64)
    from_left = np.asarray(A.T.astype(np.float64) @ np.asarray(W.sum(axis=1))).ravel()
    from_right = np.asarray(B.T.astype(np.float64) @ np.asarray(W.sum(axis=0))).ravel()
    dense -= np.outer(a, from_right) + np.outer(from_left, b) - W.sum() * np.outer(a, b)
    return dense
