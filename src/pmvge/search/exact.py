"""Exact maximum inner product search."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from pmvge.errors import InputError
from pmvge.progress import OnProgress

MAX_SCORES = 1 << 22  # scores held at once: 16 MB, so that they are compared while in the cache
MAX_QUERIES, MAX_WIDTH = 256, 1 << 18  # rows and columns of a tile of scores
FEW = 64  # scores of a row that are merged one by one; more are reduced to k first


def top_k(
    queries: NDArray[Any],
    candidates: NDArray[Any],
    k: int,
    exclude: sparse.csr_array | None = None,
    *,
    allowed: NDArray[np.bool_] | None = None,
    on_progress: OnProgress | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the candidates with the largest inner products with each query, exactly.

    Queries and candidates may be memory maps: they are read tile by tile. After the first tile,
    only scores above the k-th best so far are looked at.

    Return positions and inner products, both (queries, min(k, candidates)), best first; ties are
    in the order of the candidates. The stored entries of ``exclude`` (queries, candidates), zeros
    included, are never returned, and neither are candidates where ``allowed`` (candidates,) is
    False. Where fewer than k candidates are left, the last positions are -1 and their inner
    products -inf. Raise InputError if ``k`` or a shape is not valid.
    """
    k, left_out = check_search(queries, candidates, k, exclude)
    n, m = len(queries), len(candidates)
    at, g = np.empty((n, k), np.int64), np.empty((n, k), np.float32)
    best_at, best_g = torch.from_numpy(at), torch.from_numpy(g)
    wanted = MAX_SCORES // max(1, min(n, MAX_QUERIES))
    width = max(1, k, min(m, MAX_WIDTH, wanted))  # at least k: the first tile fills all positions
    height = max(1, min(MAX_QUERIES, MAX_SCORES // width))
    for first in range(0, m, width):  # the outer loop: each candidate is read once
        C = float32_tensor(candidates[first : first + width])
        denied = None
        if allowed is not None:
            denied = torch.from_numpy(np.flatnonzero(~allowed[first : first + width]))
        for start in range(0, n, height):
            rows = slice(start, min(start + height, n))
            tile = float32_tensor(queries[rows]) @ C.T
            if denied is not None and len(denied):
                tile[:, denied] = -torch.inf
            if left_out is not None:
                whole = len(tile) == n and len(C) == m  # slicing would take as long as a search
                excluded = (left_out if whole else left_out[rows, first : first + width]).tocoo()
                tile[excluded.row.astype(np.int64), excluded.col.astype(np.int64)] = -torch.inf
            if first:
                _merge(best_g[rows], best_at[rows], tile, first)
            else:
                best_g[rows], best_at[rows] = _leading(tile, k)
            if on_progress is not None:
                on_progress(first * n + rows.stop * len(C), n * m)
    if left_out is not None or allowed is not None:
        at[g == -np.inf] = -1
    return at, g


def check_search(
    queries: NDArray[Any], candidates: NDArray[Any], k: int, exclude: Any
) -> tuple[int, sparse.csr_array | None]:
    """Return k, at most the number of candidates, and ``exclude`` as CSR.

    Raise InputError if ``k`` or a shape is not valid.
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
    if exclude is not None and not isinstance(exclude, sparse.csr_array):
        exclude = sparse.csr_array(exclude)
    return min(int(k), shape[1]), exclude


class _Writable:
    """The memory of a read-only array, declared writable; torch wants no others."""

    def __init__(self, rows: NDArray[np.float32]) -> None:
        data = (rows.__array_interface__["data"][0], False)
        self.__array_interface__ = {**rows.__array_interface__, "data": data}
        self.rows = rows  # keeps the memory


def float32_tensor(part: NDArray[Any]) -> torch.Tensor:
    """Return rows as a float32 tensor that is only read, without a copy if they are float32."""
    rows = np.asarray(part, np.float32, order="C")
    return torch.from_numpy(rows if rows.flags.writeable else np.asarray(_Writable(rows)))


def _merge(best_g: torch.Tensor, best_at: torch.Tensor, tile: torch.Tensor, first: int) -> None:
    """Update the best scores and positions of some rows by a tile of later candidates."""
    k = best_g.shape[1]
    row, column = (tile > best_g[:, -1:]).nonzero(as_tuple=True)  # ties keep the earlier one
    if not len(row):
        return
    counts = torch.bincount(row, minlength=len(tile))
    most = int(counts.max())
    if most > FEW:
        new_g, new_at = _leading(tile, k)
        both_g = torch.cat([best_g, new_g], 1)
        both_at = torch.cat([best_at, new_at + first], 1)
    else:
        both_g = torch.cat([best_g, best_g.new_full((len(tile), most), -torch.inf)], 1)
        both_at = torch.cat([best_at, best_at.new_zeros(len(tile), most)], 1)
        slot = k + torch.arange(len(row)) - (counts.cumsum(0) - counts)[row]
        both_g[row, slot], both_at[row, slot] = tile[row, column], column + first
    best_g[:], order = _leading(both_g, k)
    best_at[:] = both_at.gather(1, order)


def _leading(g: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the k largest of each row in descending order, ties by position."""
    if g.shape[1] <= max(k, 2 * FEW):
        values, order = torch.sort(g, dim=1, descending=True, stable=True)
        return values[:, :k], order[:, :k]
    values, order = torch.topk(g, k + 1, dim=1)
    # topk breaks ties arbitrarily: sort rows that have ties, including one at the cut-off.
    tied = (values[:, 1:] == values[:, :-1]).any(1)
    values, order = values[:, :k], order[:, :k]
    if tied.any():
        v, o = torch.sort(g[tied], dim=1, descending=True, stable=True)
        values[tied], order[tied] = v[:, :k], o[:, :k]
    return values, order
