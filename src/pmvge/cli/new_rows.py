"""Vectors of the rows of a raw table, in chunks."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow
from pyarrow import parquet

from pmvge.model import PMvGE
from pmvge.progress import ProgressBar
from pmvge.search import Embeddings
from pmvge.tables import Notes, read_rows


def embed_table(model: PMvGE, view: str, table: str, notes: Notes) -> Iterator[Embeddings]:
    """Yield ids and vectors of a raw table, chunk by chunk; count unusual values in ``notes``."""
    for ids, X in read_rows(model.tables_, view, table, notes=notes):
        yield Embeddings(ids, model.embed(view, X, ids=ids))


def with_progress(
    chunks: Iterator[Embeddings], bar: ProgressBar, total: int | None
) -> Iterator[Embeddings]:
    """Yield the chunks and report the rows done to the bar after each."""
    done = 0
    for chunk in chunks:
        yield chunk
        done += len(chunk)
        bar(done, total)


def count_rows(table: str) -> int | None:
    """Return the number of rows of a Parquet file; None for other tables, which are not read."""
    try:
        with pyarrow.OSFile(table) as file:  # a path could be a URL, which pyarrow would fetch
            return int(parquet.read_metadata(file).num_rows)
    except (OSError, ValueError, pyarrow.ArrowException):
        return None


def describe_values(view: str, notes: Notes) -> list[str]:
    """Return a note for each column with values that were missing or not seen in training."""
    lines = []
    for (column, kind), count in notes.items():
        if count and kind == "missing":
            lines.append(f"view {view}: {count:,} values of {column!r} are missing: filled in")
        elif count and kind == "numbered":
            lines.append(f"view {view}: no column {column!r}: rows are numbered from 0")
        elif count:
            lines.append(
                f"view {view}: {count:,} values of {column!r} were not seen in training: treated "
                "as none of the known values"
            )
    return lines
