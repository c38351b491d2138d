r"""Approximate maximum inner product search in a graph of candidates (HNSW), by faiss.

The graph holds candidates in coordinates that describe their inner products with typical queries.
With the second moments :math:`S = E[q q^\top]` of queries, :math:`\langle q, c \rangle = \langle
S^{-1/2} q, S^{1/2} c \rangle`, and the principal axes of :math:`S^{1/2} c` that matter are kept,
few if the vectors have a low rank. One more coordinate gives all candidates the same norm M,

.. math:: c' = (c, \sqrt{M^2 - |c|^2}), \qquad q' = (q, 0), \qquad
          |q' - c'|^2 = |q|^2 + M^2 - 2 \langle q, c \rangle,

so that the nearest candidates are those with the largest inner products, whatever the similarity
and the biases are. The graph finds more candidates than are asked for; their inner products are
then computed exactly, with the complete vectors.

References
----------
Y. Malkov and D. Yashunin, "Efficient and robust approximate nearest neighbor search using
hierarchical navigable small world graphs", IEEE TPAMI 2020. Y. Bachrach et al., "Speeding up the
Xbox recommender system using a Euclidean transformation for inner-product spaces", RecSys 2014.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from pmvge.errors import InputError, StorageError, one_line
from pmvge.progress import OnProgress
from pmvge.search.exact import check_search, float32_tensor
from pmvge.search.vector_index import ExactIndex, Found, VectorIndex

NEIGHBOURS, BUILD_EFFORT = 16, 128  # M and efConstruction
KEPT = 0.9995  # share of the inner products' second moment in the coordinates of the graph
RIDGE = 1e-4  # added to the second moments of queries, relative to their mean
MEASURED = 256  # queries that choose the effort, and as many that measure the recall
EFFORTS = (32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)  # efSearch that is tried
TARGET = 0.96  # recall@10 on sampled queries that the effort is chosen for
MEASURED_K = 10
EXTRA = 2  # candidates that the graph returns, as a multiple of k
MAX_FETCHED = 1 << 24  # numbers in the vectors of candidates that are held at once: 64 MB
MAX_FETCH = 4096  # candidates of a query; if filters leave fewer than k of them, search is exact
ADDED = 1 << 14  # candidates that are added at once


def _faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise InputError("index: 'hnsw' needs faiss: pip install 'pmvge[ann]'") from error
    return faiss


class HnswIndex(VectorIndex):
    """A graph of candidates. ``recall`` is its share of the true best 10, on sampled queries."""

    kind: ClassVar[str] = "hnsw"

    def __init__(
        self,
        vectors: NDArray[Any],
        graph: Any,
        axes: NDArray[np.float32],
        *,
        effort: int,
        recall: float | None,
    ) -> None:
        super().__init__(vectors)
        self._graph, self._axes = graph, axes  # (Q, r): queries @ axes is what the graph takes
        self.effort, self.recall = effort, recall
        self._exact = ExactIndex(self.vectors)

    @classmethod
    def build(
        cls,
        vectors: NDArray[Any],
        queries: NDArray[Any],
        *,
        on_progress: OnProgress | None = None,
    ) -> HnswIndex:
        """Return an index of candidates for queries like the given ones (n, Q), in random order.

        Some queries choose the effort of a search, others measure the recall. Raise InputError if
        faiss is not installed.
        """
        faiss = _faiss()
        C, Q = (np.asarray(part, np.float32, order="C") for part in (vectors, queries))
        axes, own_axes = _axes(C, Q)
        squares = np.empty(len(C))
        for part in _parts(C):
            squares[part] = np.square(C[part] @ own_axes).sum(1, dtype=np.float64)
        largest = max(float(squares.max(initial=0)), float(np.finfo(np.float32).tiny))
        graph = faiss.IndexHNSWFlat(axes.shape[1] + 1, NEIGHBOURS)
        graph.hnsw.efConstruction = BUILD_EFFORT
        for part in _parts(C):
            rest = np.sqrt(np.maximum(largest - squares[part], 0))[:, None]
            graph.add((np.hstack([C[part] @ own_axes, rest]) / largest**0.5).astype(np.float32))
            if on_progress is not None:
                on_progress(min(part.stop, len(C)), len(C))
        index = cls(C, graph, axes.astype(np.float32), effort=EFFORTS[-1], recall=None)
        half = min(MEASURED, (len(Q) + 1) // 2)
        index._choose_effort(Q[:half])
        others = Q[half : 2 * half] if half > 1 else Q
        index.recall = index._measure(others, index._least_scores(others))
        return index

    def _choose_effort(self, queries: NDArray[np.float32]) -> None:
        """Set the least effort that has the recall ``TARGET`` on some queries."""
        least = self._least_scores(queries)
        for effort in EFFORTS:
            self.effort = effort
            if self._measure(queries, least) >= TARGET:
                return

    def _least_scores(self, queries: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the least of the best inner products (n, 1) of each query, but for rounding."""
        k = min(MEASURED_K, len(self))
        if not k:
            return np.empty((len(queries), 0), np.float32)
        least = self._exact.top_k(queries, k)[1][:, -1:]
        return np.asarray(least - 1e-6 * np.abs(least), np.float32)

    def _measure(self, queries: NDArray[np.float32], least: NDArray[np.float32]) -> float:
        """Return the share of the best candidates that is found, of all queries together.

        A candidate is one of the best if its inner product is at least ``least`` (n, 1).
        """
        if not least.size:
            return 1.0
        return float((self.top_k(queries, min(MEASURED_K, len(self)))[1] >= least).mean())

    def top_k(
        self,
        queries: NDArray[Any],
        k: int,
        exclude: sparse.csr_array | None = None,
        *,
        allowed: NDArray[np.bool_] | None = None,
        on_progress: OnProgress | None = None,
    ) -> Found:
        """Return the best of the candidates that the graph finds, with exact inner products.

        Where filters leave fewer than k, the graph is asked for more, and in the end the answer is
        exact.
        """
        k, left_out = check_search(queries, self.vectors, k, exclude)
        Q = np.asarray(queries, np.float32, order="C")
        at = np.full((len(Q), k), -1, np.int64)
        g = np.full((len(Q), k), -np.inf, np.float32)
        fetch = EXTRA * k
        if allowed is not None:
            fetch = fetch * len(self) // max(1, int(np.count_nonzero(allowed))) + 1
        rows = np.arange(len(Q) if k else 0)
        while len(rows) and fetch <= min(MAX_FETCH, len(self) // 2):
            size = max(1, MAX_FETCHED // (fetch * max(1, Q.shape[1])))
            for start in range(0, len(rows), size):
                part = rows[start : start + size]
                excluded = None if left_out is None else left_out[part]
                at[part], g[part] = self._from_graph(Q[part], k, fetch, excluded, allowed)
            rows = rows[at[rows, -1] < 0]
            fetch *= 4
        if len(rows):
            excluded = None if left_out is None else left_out[rows]
            at[rows], g[rows] = self._exact.top_k(Q[rows], k, excluded, allowed=allowed)
        if on_progress is not None:
            on_progress(1, 1)
        return at, g

    def _from_graph(
        self,
        Q: NDArray[np.float32],
        k: int,
        fetch: int,
        exclude: sparse.csr_array | None,
        allowed: NDArray[np.bool_] | None,
    ) -> Found:
        """Return the best k of ``fetch`` candidates that the graph finds; -1 where there are fewer.

        Ties are in the order of the candidates.
        """
        faiss = _faiss()
        effort = faiss.SearchParametersHNSW(efSearch=max(self.effort, fetch))
        wider = np.hstack([Q @ self._axes, np.zeros((len(Q), 1), np.float32)])
        near = np.sort(self._graph.search(wider, fetch, params=effort)[1], axis=1)
        C = float32_tensor(self.vectors)[torch.from_numpy(near.clip(0))]  # (n, fetch, Q)
        g = torch.bmm(C, float32_tensor(Q)[:, :, None])[:, :, 0].numpy()
        hidden = near < 0
        if allowed is not None:
            hidden |= ~allowed[near]
        if exclude is not None:
            known = exclude.tocoo()
            keys = known.row.astype(np.int64) * len(self) + known.col
            hidden |= np.isin(np.arange(len(Q))[:, None] * len(self) + near, keys)
        g[hidden] = -np.inf
        order = np.argsort(-g, axis=1, kind="stable")[:, :k]
        g = np.take_along_axis(g, order, 1)
        return np.where(g == -np.inf, -1, np.take_along_axis(near, order, 1)), g

    def write(self, path: Path) -> None:
        """Write the graph to a file, without the vectors and the axes."""
        _faiss().write_index(self._graph, str(path))

    @property
    def axes(self) -> NDArray[np.float32]:
        """The matrix (Q, r) that maps queries to the coordinates of the graph."""
        return self._axes

    @classmethod
    def read(
        cls,
        path: Path,
        vectors: NDArray[Any],
        axes: NDArray[np.float32],
        *,
        effort: int,
        recall: float | None,
    ) -> HnswIndex:
        """Return the index of a file that :meth:`write` wrote, of the same vectors and axes.

        Raise StorageError if the file is damaged, and InputError if faiss is not installed.
        """
        faiss = _faiss()
        try:
            graph = faiss.read_index(str(path))
        except RuntimeError as error:
            raise StorageError(f"{path}: damaged: {one_line(error)}") from error
        expected = (len(vectors), axes.shape[1] + 1, np.shape(vectors)[1])
        if (graph.ntotal, graph.d, len(axes)) != expected:
            raise StorageError(
                f"{path}: damaged: expected {expected[0]:,} vectors of {expected[1]} coordinates, "
                f"got {graph.ntotal:,} of {graph.d}"
            )
        return cls(vectors, graph, axes, effort=effort, recall=recall)


def _parts(C: NDArray[np.float32]) -> Iterator[slice]:
    return (slice(start, start + ADDED) for start in range(0, len(C), ADDED))


def _axes(
    C: NDArray[np.float32], Q: NDArray[np.float32]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return A and B, both (Q, r), so that <q, c> is about <q A, c B>."""
    width = C.shape[1]
    S = Q.T.astype(np.float64) @ Q / max(1, len(Q))
    mean = np.trace(S) / max(1, width)
    if not mean > 0:  # no queries, or all of them 0
        return np.eye(width), np.eye(width)
    values, V = np.linalg.eigh(S + RIDGE * mean * np.eye(width))
    root, inverse = (V * np.sqrt(values)) @ V.T, (V / np.sqrt(values)) @ V.T
    moments = np.zeros((width, width))
    for part in _parts(C):
        moments += C[part].T.astype(np.float64) @ C[part]
    values, U = np.linalg.eigh(root @ moments @ root)
    values, U = np.maximum(values[::-1], 0), U[:, ::-1]
    rank = int(np.searchsorted(np.cumsum(values), KEPT * values.sum())) + 1
    return inverse @ U[:, :rank], root @ U[:, :rank]
