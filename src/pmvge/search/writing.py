"""Compute vectors, and write them with their ids, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from numpy.typing import NDArray
from pyarrow import parquet
from scipy import sparse

from pmvge import storage
from pmvge.errors import InputError
from pmvge.graph import as_input_ids
from pmvge.search.embeddings import Embeddings


def save_batches(path: Path, batches: Iterable[Embeddings]) -> int:
    """Write a Parquet file batch by batch and return the number of rows.

    Raise InputError if the type of the ids changes between batches.
    """
    return save_tables(path, (batch.to_arrow() for batch in batches))


def save_tables(path: Path, tables: Iterable[pyarrow.Table]) -> int:
    """Write tables with the column ``id`` to one Parquet file, and return the number of rows.

    Raise InputError if the type of the ids changes between tables.
    """
    writer, rows = None, 0
    try:
        for table in tables:
            # Numbers rarely repeat: building a dictionary would double the time.
            writer = writer or parquet.ParquetWriter(path, table.schema, use_dictionary=False)
            if table.schema != writer.schema:
                kinds = [str(schema.field("id").type) for schema in (writer.schema, table.schema)]
                raise InputError(
                    f"expected ids of one kind, got {kinds[0]} ids up to row {rows - 1}, then "
                    f"{kinds[1]} ids"
                )
            writer.write_table(table)
            rows += len(table)
    finally:
        if writer is not None:
            writer.close()
    return rows


def save_atomically(path: Path, batches: Iterable[Embeddings]) -> int:
    """Write a Parquet file like :func:`save_batches`; replace ``path`` when it is complete."""
    counts: list[int] = []
    storage.replace_file(path, lambda partial: counts.append(save_batches(partial, batches)))
    return counts[0]


def embed_in_batches(
    where: str,
    X: Any,
    ids: Any,
    embed: Callable[[Any, int, Any], NDArray[np.float32]],
    batch_size: int,
    *,
    on_progress: Callable[[int, int | None], None] | None = None,
) -> Iterator[Embeddings]:
    """Yield the ids and vectors of X, ``batch_size`` rows at a time.

    If X is an iterator, it gives the batches: rows, or (ids, rows). Without ids, rows are numbered.
    ``embed`` is called with a batch, the number of its first row, and its ids, None without; a
    batch without rows is given by its ids alone. Raise InputError if ids and rows do not match.
    """
    n, batches = _batches(X, batch_size)
    if ids is not None:
        if not isinstance(ids, np.ndarray) or ids.dtype.kind not in "iuU":
            ids = as_input_ids(f"{where}: ids", ids)
        if n is not None and len(ids) != n:
            raise InputError(f"{where}: expected {n} ids, one per row, got {len(ids)}")
    first, vectors = 0, None
    for batch in batches:
        own_ids, rows = batch if isinstance(batch, tuple) and len(batch) == 2 else (None, batch)
        if own_ids is not None and ids is not None:
            raise InputError(f"{where}: expected ids either in ids or in the batches, got both")
        if own_ids is None and rows is not None and ids is not None:
            own_ids = ids[first : first + _count(rows)]
        if own_ids is not None:
            own_ids = as_input_ids(f"{where}: ids", own_ids)
            if rows is not None and len(own_ids) != _count(rows):
                raise InputError(
                    f"{where}: expected an id for each row, got {len(own_ids)} ids for "
                    f"{_count(rows)} rows from row {first} on"
                )
        vectors = embed(own_ids, first, None) if rows is None else embed(rows, first, own_ids)
        after = first + len(vectors)
        if len(vectors):
            yield Embeddings(np.arange(first, after) if own_ids is None else own_ids, vectors)
        first = after
        if on_progress is not None:
            on_progress(first, n)
    if vectors is None:
        raise InputError(f"{where}: expected batches of rows, got none")
    if ids is not None and len(ids) != first:
        raise InputError(f"{where}: expected {first} ids, one per row, got {len(ids)}")
    if not first:
        yield Embeddings(np.arange(0), vectors)


def _count(rows: Any) -> int:
    shape = getattr(rows, "shape", None)
    return int(shape[0]) if shape else len(rows)


def _batches(X: Any, batch_size: int) -> tuple[int | None, Iterable[Any]]:
    """Return the number of rows, None if it is unknown, and the rows batch by batch."""
    if isinstance(X, Iterator):
        return None, X
    X = X.tocsr() if sparse.issparse(X) else X
    if not getattr(X, "shape", ()):
        # A list, or no rows: ``embed`` checks it. A tuple would be taken for ids and rows.
        return None, [list(X) if isinstance(X, tuple) else X]
    n = int(X.shape[0])
    return n, (X[start : start + batch_size] for start in range(0, max(1, n), batch_size))
