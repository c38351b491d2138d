"""Convert a multi-view graph to a plain graph, whose nodes are the entities of all views."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmvge.graph import MultiViewGraph


@dataclass(frozen=True, eq=False)
class FlatGraph:
    """A plain graph: the entities of all views as nodes, numbered view by view."""

    W: sparse.csr_array  # (n, n), symmetric, zero diagonal
    parts: dict[str, slice]  # the nodes of each view

    @property
    def degrees(self) -> NDArray[np.float64]:
        """Return the weighted degree of every node, (n,)."""
        degrees: NDArray[np.float64] = np.asarray(self.W.sum(axis=1)).ravel()
        return degrees

    @property
    def view_of(self) -> NDArray[np.int64]:
        """Return the index of every node's view, (n,)."""
        lengths = [part.stop - part.start for part in self.parts.values()]
        return np.repeat(np.arange(len(lengths)), lengths)

    def links(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Return (rows, cols, weights) of all links, each once with row < column."""
        upper = sparse.triu(self.W, k=1, format="coo")
        return upper.row.astype(np.int64), upper.col.astype(np.int64), upper.data

    def split(self, Y: NDArray) -> dict[str, NDArray]:  # type: ignore[type-arg]
        """Return the rows of Y, one per node, as a dict of views."""
        return {view: Y[part] for view, part in self.parts.items()}


def flatten(graph: MultiViewGraph) -> FlatGraph:
    """Return the plain graph of all entities and links."""
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
