"""Vectors with their ids: save, load, nearest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import torch
from numpy.typing import NDArray
from pyarrow import parquet
from scipy import sparse

from pmvge.errors import InputError, StorageError
from pmvge.ids import Ids

TILE = 1 << 24  # similarities held at once


@dataclass(frozen=True, eq=False)
class Embeddings:
    """The vectors of one view's entities: ``ids`` (n,) and ``vectors`` (n, K)."""

    ids: Ids
    vectors: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.ids)

    def nearest(
        self, queries: NDArray[Any], k: int, exclude: sparse.csr_array | None = None
    ) -> tuple[Ids, NDArray[np.float32]]:
        """The ids of the k vectors with the largest inner products with each query, best first.

        Returns ids and inner products, both (queries, min(k, n)). What ``exclude`` (queries, n)
        stores an entry for is left out. If fewer than k are left, places with -inf are empty: the
        ids there mean nothing.
        """
        positions, g = top_k(queries, self.vectors, k, exclude)
        return self.ids[positions], g

    def save(self, path: Path | str) -> None:
        """Write a Parquet file with the columns ``id`` and ``vector``."""
        parquet.write_table(self.to_arrow(), path)

    def to_arrow(self) -> pyarrow.Table:
        """The columns ``id`` and ``vector``."""
        flat = pyarrow.array(np.ascontiguousarray(self.vectors, np.float32).ravel())
        vectors = pyarrow.FixedSizeListArray.from_arrays(flat, self.vectors.shape[1])
        return pyarrow.table({"id": pyarrow.array(self.ids), "vector": vectors})

    @classmethod
    def load(cls, path: Path | str) -> Embeddings:
        """Read what :meth:`save` wrote."""
        try:
            table = parquet.read_table(path).combine_chunks()
            ids = table.column("id").to_numpy()
            column = table.column("vector")
            width = column.type.list_size
            parts = [chunk.flatten().to_numpy() for chunk in column.chunks]
        except (pyarrow.ArrowException, OSError, KeyError, AttributeError) as error:
            raise StorageError(f"{path}: not a Parquet file of ids and vectors: {error}") from error
        flat = np.concatenate(parts) if parts else np.empty(0, np.float32)
        ids = ids.astype(str) if ids.dtype == object else ids
        return cls(ids, flat.reshape(-1, width))


def save_stream(path: Path, parts: Iterable[Embeddings]) -> int:
    """Write a Parquet file part by part, holding one part at a time; return the number of rows."""
    writer, rows = None, 0
    try:
        for part in parts:
            table = part.to_arrow()
            writer = writer or parquet.ParquetWriter(path, table.schema)
            writer.write_table(table)
            rows += len(part)
    finally:
        if writer is not None:
            writer.close()
    return rows


def top_k(
    queries: NDArray[Any],
    candidates: NDArray[Any],
    k: int,
    exclude: sparse.csr_array | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Exact maximum inner product search, tiled over queries and candidates.

    Returns positions and inner products, (queries, min(k, candidates)), best first; of equal ones
    the earlier candidate comes first. Entries that ``exclude`` (queries, candidates) stores, zeros
    too, are never returned; where too few are left, the last places are -1, with -inf.
    """
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise InputError(f"k must be a positive integer, got {k!r}")
    if np.ndim(queries) != 2 or np.shape(queries)[1] != np.shape(candidates)[1]:
        raise InputError(
            f"queries: expected shape (n, {np.shape(candidates)[1]}), got {np.shape(queries)}"
        )
    shape = (len(queries), len(candidates))
    if exclude is not None and (not sparse.issparse(exclude) or exclude.shape != shape):
        came = exclude.shape if sparse.issparse(exclude) else type(exclude).__name__
        raise InputError(f"exclude: expected a sparse matrix of shape {shape}, got {came}")
    left_out = None if exclude is None else sparse.csr_array(exclude)
    k = min(int(k), len(candidates))
    Q = torch.from_numpy(np.array(queries, np.float32))
    C = torch.from_numpy(np.array(candidates, np.float32))
    width = max(1, k, min(len(C), 1 << 16))
    height = max(1, TILE // width)
    positions, values = [], []
    for start in range(0, len(Q), height):
        q = Q[start : start + height]
        best_g = q.new_empty(len(q), 0)
        best_at = torch.empty(len(q), 0, dtype=torch.int64)
        for first in range(0, len(C), width):
            g = q @ C[first : first + width].T
            if left_out is not None:
                gone = left_out[start : start + height, first : first + width].tocoo()
                g[gone.row.astype(np.int64), gone.col.astype(np.int64)] = -torch.inf
            g, at = _leading(g, k)
            best_g, best_at = torch.cat([best_g, g], 1), torch.cat([best_at, at + first], 1)
            best_g, order = _leading(best_g, k)
            best_at = best_at.gather(1, order)
        if left_out is not None:
            best_at[best_g == -torch.inf] = -1
        positions.append(best_at.numpy())
        values.append(best_g.numpy())
    if not positions:
        return np.empty((0, k), np.int64), np.empty((0, k), np.float32)
    return np.concatenate(positions), np.concatenate(values)


def _leading(g: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The k largest of each row in order, ties by position."""
    if g.shape[1] <= k:
        values, order = torch.sort(g, dim=1, descending=True, stable=True)
        return values, order
    values, order = torch.topk(g, k, dim=1)
    # topk picks any of equal values: redo the rows where that may show.
    tied = (g >= values[:, -1:]).sum(1) > k
    tied |= (values[:, 1:] == values[:, :-1]).any(1)
    if tied.any():
        v, o = torch.sort(g[tied], dim=1, descending=True, stable=True)
        values[tied], order[tied] = v[:, :k], o[:, :k]
    return values, order
