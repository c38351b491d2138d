"""Exact maximum inner product search."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from pmvge.errors import InputError
from pmvge.progress import OnProgress

MAX_SCORES = 1 << 24  # scores held at once


def top_k(
    queries: NDArray[Any],
    candidates: NDArray[Any],
    k: int,
    exclude: sparse.csr_array | None = None,
    *,
    on_progress: OnProgress | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the candidates with the largest inner products with each query, exactly.

    Queries and candidates may be memory maps: they are read tile by tile.

    Return positions and inner products, both (queries, min(k, candidates)), best first; ties are
    in the order of the candidates. The stored entries of ``exclude`` (queries, candidates), zeros
    included, are never returned. Where fewer than k candidates are left, the last positions are -1
    and their inner products -inf. Raise InputError if ``k`` or a shape is not valid.
    """
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise InputError(f"k: expected a positive integer, got {k!r}")
    if np.ndim(queries) != 2 or np.shape(queries)[1] != np.shape(candidates)[1]:
        raise InputError(
            f"queries: expected shape (n, {np.shape(candidates)[1]}), got {np.shape(queries)}"
        )
    shape = (len(queries), len(candidates))
    if exclude is not None and (not sparse.issparse(exclude) or exclude.shape != shape):
        got = exclude.shape if sparse.issparse(exclude) else type(exclude).__name__
        raise InputError(f"exclude: expected a sparse matrix of shape {shape}, got {got}")
    left_out = None if exclude is None else sparse.csr_array(exclude)
    n, m = shape
    k = min(int(k), m)
    at, g = np.empty((n, k), np.int64), np.empty((n, k), np.float32)
    best_at, best_g = torch.from_numpy(at), torch.from_numpy(g)
    width = max(1, k, min(m, 1 << 16))  # at least k: the first tile fills all k positions
    height = max(1, MAX_SCORES // width)
    for first in range(0, m, width):  # the outer loop: each candidate is read once
        C = _float32(candidates[first : first + width])
        for start in range(0, n, height):
            rows = slice(start, min(start + height, n))
            tile = _float32(queries[rows]) @ C.T
            if left_out is not None:
                excluded = left_out[rows, first : first + width].tocoo()
                tile[excluded.row.astype(np.int64), excluded.col.astype(np.int64)] = -torch.inf
            new_g, new_at = _leading(tile, k)
            new_at += first
            if first:
                new_g, order = _leading(torch.cat([best_g[rows], new_g], 1), k)
                new_at = torch.cat([best_at[rows], new_at], 1).gather(1, order)
            best_g[rows], best_at[rows] = new_g, new_at
            if on_progress is not None:
                on_progress(first * n + rows.stop * len(C), n * m)
    if left_out is not None:
        at[g == -np.inf] = -1
    return at, g


def _float32(part: NDArray[Any]) -> torch.Tensor:
    """Return rows as a float32 tensor, without a copy if they are float32 and writable."""
    rows = np.asarray(part, np.float32, order="C")
    return torch.from_numpy(rows if rows.flags.writeable else rows.copy())


def _leading(g: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the k largest of each row in descending order, ties by position."""
    if g.shape[1] <= k:
        values, order = torch.sort(g, dim=1, descending=True, stable=True)
        return values, order
    values, order = torch.topk(g, k + 1, dim=1)
    # topk breaks ties arbitrarily: sort rows that have ties, including one at the cut-off.
    tied = (values[:, 1:] == values[:, :-1]).any(1)
    values, order = values[:, :k], order[:, :k]
    if tied.any():
        v, o = torch.sort(g[tied], dim=1, descending=True, stable=True)
        values[tied], order[tied] = v[:, :k], o[:, :k]
    return values, order
