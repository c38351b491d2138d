"""Entities in the rows of a raw table, and their vectors, in chunks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow
from pyarrow import parquet

from pmvge.cli.first_links import FirstLinks
from pmvge.graph import Ids
from pmvge.model import PMvGE
from pmvge.progress import ProgressBar
from pmvge.search import Embeddings
from pmvge.tables import Notes, read_rows


class Chunk(NamedTuple):
    """Some rows of a table."""

    ids: Ids  # of the rows, or their numbers if the table has no id column
    X: Any  # features; None in a view without
    given_ids: Ids | None  # None if the table has no id column
    links: dict[str, Any] | None  # first links, as PMvGE.fold_in takes them


def read_chunks(
    model: PMvGE, view: str, table: str, notes: Notes, first: FirstLinks | None = None
) -> Iterator[Chunk]:
    """Yield the rows of a table; count known and new rows, and unusual values, in ``notes``."""
    start = 0
    for ids, X in read_rows(model.tables_, view, table, notes=notes):
        stop = start + len(ids)
        given = None if any(kind == "numbered" for _, kind in notes) else ids
        known = 0 if given is None else int(np.count_nonzero(model.is_known(view, given)))
        notes["rows", "known"] += known
        notes["rows", "new"] += len(ids) - known
        if first is not None:
            notes["rows", "linked"] += int(first.linked[start:stop].sum())
        yield Chunk(ids, X, given, None if first is None else first.of_rows(start, stop))
        start = stop


def embed_table(
    model: PMvGE, view: str, table: str, notes: Notes, first: FirstLinks | None = None
) -> Iterator[Embeddings]:
    """Yield ids and vectors of a raw table, chunk by chunk; count as :func:`read_chunks` does."""
    for ids, X, given, links in read_chunks(model, view, table, notes, first):
        if links is None:
            yield Embeddings(ids, model.embed(view, X, ids=given))
        else:
            yield Embeddings(ids, model.fold_in(view, X, ids=given, links=links))


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
    """Return notes on known and new rows, and on values that were missing or not in training."""
    lines = []
    absent = {column: kind for column, kind in notes if kind.startswith("absent")}
    for column, kind in absent.items():
        near = kind.partition(", like ")[2]
        lines.append(
            f"view {view}: no column {column!r}: all its values count as missing and are filled in"
            + (f"; did you mean {near}?" if near else "")
        )
    for (column, kind), count in notes.items():
        if kind in ("known", "new", "linked") or column in absent:
            continue
        if count and kind == "invalid":
            lines.append(
                f"view {view}: {count:,} values of {column!r} are not of its kind: missing"
            )
        elif count and kind == "missing":
            lines.append(f"view {view}: {count:,} values of {column!r} are missing: filled in")
        elif count and kind == "numbered":
            lines.append(f"view {view}: no column {column!r}: rows are numbered from 0")
        elif count:
            lines.append(
                f"view {view}: {count:,} values of {column!r} were not seen in training: treated "
                "as none of the known values"
            )
    if ("rows", "known") in notes:
        rows = f"{notes['rows', 'known']:,} known from training, {notes['rows', 'new']:,} new"
        first = f", {notes['rows', 'linked']:,} of them with first links"
        lines.append(f"view {view}: {rows}{first if ('rows', 'linked') in notes else ''}")
    return lines
