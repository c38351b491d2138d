"""Vectors with their ids: save, load, nearest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import torch
from numpy.typing import NDArray
from pyarrow import parquet
from scipy import sparse

from pmvge import storage
from pmvge.errors import GraphError, InputError, StorageError
from pmvge.ids import Ids, as_ids

TILE = 1 << 24  # similarities held at once

Tell = Callable[[int, int], None]  # similarities done, and all of them


@dataclass(frozen=True, eq=False)
class Embeddings:
    """The vectors of one view's entities: ``ids`` (n,) and ``vectors`` (n, K)."""

    ids: Ids
    vectors: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.ids)

    def nearest(
        self,
        queries: NDArray[Any],
        k: int,
        exclude: sparse.csr_array | None = None,
        *,
        tell: Tell | None = None,
    ) -> tuple[Ids, NDArray[np.float32]]:
        """The ids of the k vectors with the largest inner products with each query, best first.

        Returns ids and inner products, both (queries, min(k, n)). What ``exclude`` (queries, n)
        stores an entry for is left out. If fewer than k are left, places with -inf are empty: the
        ids there mean nothing.
        """
        positions, g = top_k(queries, self.vectors, k, exclude, tell=tell)
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
            with Path(path).open("rb") as stream:  # a name that is an address would be fetched
                table = parquet.read_table(stream)
            ids = table.column("id").to_numpy()
            column = table.column("vector")
            width = column.type.list_size
            parts = [chunk.flatten().to_numpy() for chunk in column.chunks]
        except (pyarrow.ArrowException, OSError, KeyError, AttributeError, ValueError) as error:
            raise StorageError(f"{path}: not a Parquet file of ids and vectors: {error}") from error
        flat = np.concatenate(parts) if parts else np.empty(0, np.float32)
        ids = ids.astype(str) if ids.dtype == object else ids
        if flat.dtype.kind != "f" or ids.dtype.kind not in "iuU" or len(flat) != len(ids) * width:
            raise StorageError(f"{path}: expected an id and {width} numbers in each row")
        if not np.isfinite(flat).all():
            raise StorageError(f"{path}: expected vectors of finite numbers")
        return cls(ids, flat.reshape(len(ids), width))


def save_stream(path: Path, parts: Iterable[Embeddings]) -> int:
    """Write a Parquet file part by part, holding one part at a time; return the number of rows."""
    writer, rows = None, 0
    try:
        for part in parts:
            table = part.to_arrow()
            # Vectors hardly repeat: to look for it would take half of the time.
            writer = writer or parquet.ParquetWriter(path, table.schema, use_dictionary=False)
            if table.schema != writer.schema:
                kinds = [str(one.field("id").type) for one in (writer.schema, table.schema)]
                raise InputError(
                    f"expected ids of one kind, got {kinds[0]} ids up to row {rows - 1}, then "
                    f"{kinds[1]} ids"
                )
            writer.write_table(table)
            rows += len(part)
    finally:
        if writer is not None:
            writer.close()
    return rows


def save_whole(path: Path, parts: Iterable[Embeddings]) -> int:
    """:func:`save_stream` to a file that is replaced in one step, once all is written."""
    counts: list[int] = []
    storage.replace_file(path, lambda partial: counts.append(save_stream(partial, parts)))
    return counts[0]


def stream(
    where: str,
    X: Any,
    ids: Any,
    embed: Callable[[Any, int], NDArray[np.float32]],
    step: int,
    *,
    tell: Callable[[int, int | None], None] | None = None,
) -> Iterator[Embeddings]:
    """Ids and vectors of the rows of X: ``step`` at a time, or block by block if X is an iterator.

    Blocks may be pairs of ids and rows. Where there are no ids, rows are numbered. ``embed`` is
    given a block and the number of its first row.
    """
    n, blocks = _blocks(X, step)
    if ids is not None:
        ids = ids if isinstance(ids, np.ndarray) and ids.dtype.kind in "iuU" else _ids(where, ids)
        if n is not None and len(ids) != n:
            raise InputError(f"{where}: expected {n} ids, one per row, got {len(ids)}")
    first, vectors = 0, None
    for block in blocks:
        names, rows = block if isinstance(block, tuple) and len(block) == 2 else (None, block)
        if names is not None and ids is not None:
            raise InputError(f"{where}: ids came both by themselves and with the rows")
        vectors = embed(names if rows is None else rows, first)
        after = first + len(vectors)
        if names is None:
            names = np.arange(first, after) if ids is None else ids[first:after]
        names = _ids(where, names)
        if len(names) != len(vectors):
            raise InputError(
                f"{where}: expected an id for each row, got {len(names)} for the {len(vectors)} "
                f"rows from row {first} on"
            )
        if len(names):
            yield Embeddings(names, vectors)
        first = after
        if tell is not None:
            tell(first, n)
    if vectors is None:
        raise InputError(f"{where}: expected blocks of rows, got none")
    if ids is not None and len(ids) != first:
        raise InputError(f"{where}: expected {first} ids, one per row, got {len(ids)}")
    if not first:
        yield Embeddings(np.arange(0), vectors)


def _blocks(X: Any, step: int) -> tuple[int | None, Iterable[Any]]:
    """The number of rows, if it is known, and the rows block by block."""
    if isinstance(X, Iterator):
        return None, X
    X = X.tocsr() if sparse.issparse(X) else X
    if not getattr(X, "shape", ()):
        # A list, or no rows at all: whoever embeds it will see. A tuple would be ids and rows.
        return None, [list(X) if isinstance(X, tuple) else X]
    n = int(X.shape[0])
    return n, (X[start : start + step] for start in range(0, max(1, n), step))


def _ids(where: str, ids: Any) -> Ids:
    try:
        return as_ids(f"{where}: ids", [ids] if np.isscalar(ids) else ids)
    except GraphError as error:
        raise InputError(str(error)) from error


def top_k(
    queries: NDArray[Any],
    candidates: NDArray[Any],
    k: int,
    exclude: sparse.csr_array | None = None,
    *,
    tell: Tell | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Exact maximum inner product search, tiled over queries and candidates.

    Either may be a memory map: a tile of it is held at a time.

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
    n, m = shape
    k = min(int(k), m)
    at, g = np.empty((n, k), np.int64), np.empty((n, k), np.float32)
    best_at, best_g = torch.from_numpy(at), torch.from_numpy(g)
    width = max(1, k, min(m, 1 << 16))  # no less than k: the first tile fills all places
    height = max(1, TILE // width)
    for first in range(0, m, width):  # outermost: each candidate is read once
        C = _single(candidates[first : first + width])
        for start in range(0, n, height):
            rows = slice(start, min(start + height, n))
            tile = _single(queries[rows]) @ C.T
            if left_out is not None:
                gone = left_out[rows, first : first + width].tocoo()
                tile[gone.row.astype(np.int64), gone.col.astype(np.int64)] = -torch.inf
            new_g, new_at = _leading(tile, k)
            new_at += first
            if first:
                new_g, order = _leading(torch.cat([best_g[rows], new_g], 1), k)
                new_at = torch.cat([best_at[rows], new_at], 1).gather(1, order)
            best_g[rows], best_at[rows] = new_g, new_at
            if tell is not None:
                tell(first * n + rows.stop * len(C), n * m)
    if left_out is not None:
        at[g == -np.inf] = -1
    return at, g


def _single(part: NDArray[Any]) -> torch.Tensor:
    """Some rows in float32. They are copied only if they are something else, or read-only."""
    rows = np.asarray(part, np.float32, order="C")
    return torch.from_numpy(rows if rows.flags.writeable else rows.copy())


def _leading(g: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The k largest of each row in order, ties by position."""
    if g.shape[1] <= k:
        values, order = torch.sort(g, dim=1, descending=True, stable=True)
        return values, order
    values, order = torch.topk(g, k + 1, dim=1)
    # topk picks any of equal values: redo the rows where that may show, at the border too.
    tied = (values[:, 1:] == values[:, :-1]).any(1)
    values, order = values[:, :k], order[:, :k]
    if tied.any():
        v, o = torch.sort(g[tied], dim=1, descending=True, stable=True)
        values[tied], order[tied] = v[:, :k], o[:, :k]
    return values, order
