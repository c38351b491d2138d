"""Vectors of any number of rows, written to a file part by part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyarrow import parquet
from scipy import sparse

from pmvge import storage
from pmvge.errors import GraphError, InputError
from pmvge.graph import Ids, as_ids
from pmvge.search.embeddings import Embeddings


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
    on_progress: Callable[[int, int | None], None] | None = None,
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
        if on_progress is not None:
            on_progress(first, n)
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
