"""All views in one: the nodes of a multi-view graph as the nodes of a plain one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmvge.graph import MultiViewGraph


@dataclass(frozen=True, eq=False)
class FlatGraph:
    """Nodes numbered through, view after view, with all their links."""

    W: sparse.csr_array  # (n, n), symmetric, zero diagonal
    parts: dict[str, slice]  # the numbers of each view's nodes

    @property
    def degrees(self) -> NDArray[np.float64]:
        """Weighted degree of every node."""
        degrees: NDArray[np.float64] = np.asarray(self.W.sum(axis=1)).ravel()
        return degrees

    @property
    def view_of(self) -> NDArray[np.int64]:
        """The position of every node's view."""
        lengths = [part.stop - part.start for part in self.parts.values()]
        return np.repeat(np.arange(len(lengths)), lengths)

    def links(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Every unordered pair once: (rows, cols, weights), row < column."""
        upper = sparse.triu(self.W, k=1, format="coo")
        return upper.row.astype(np.int64), upper.col.astype(np.int64), upper.data

    def split(self, Y: NDArray) -> dict[str, NDArray]:  # type: ignore[type-arg]
        """Rows for all nodes, view by view."""
        return {view: Y[part] for view, part in self.parts.items()}


def flatten(graph: MultiViewGraph) -> FlatGraph:
    """All nodes and links of a graph, which view they belong to set aside."""
    parts, start = {}, 0
    for view, n in graph.sizes.items():
        parts[view] = slice(start, start + n)
        start += n
    W = sparse.csr_array((start, start))
    for (a, b), links in graph.links.items():
        i, j = links.rows + np.int64(parts[a].start), links.cols + np.int64(parts[b].start)
        half = sparse.coo_array((links.weights, (i, j)), shape=W.shape).tocsr()
        W = W + half + half.T
    return FlatGraph(W.tocsr(), parts)
