"""Entities in the rows of a raw table, and their vectors, in chunks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow
from pyarrow import parquet

from pmvge.cli.first_links import FirstLinks
from pmvge.errors import InputError, short
from pmvge.model import Chunk, PMvGE
from pmvge.progress import ProgressBar
from pmvge.search import Embeddings
from pmvge.tables import Notes, read_rows


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


def find_entity(
    model: PMvGE,
    view: str,
    text: str,
    table: str | None,
    notes: Notes,
    first: FirstLinks | None = None,
) -> tuple[Any, Any, Any]:
    """Return an entity, its features and first links or None, as ``PMvGE.explain`` takes them.

    The text is an id or a name of the training, or, with a table, the id or number of its row.
    ``notes`` gets the columns that the table does not have. Raise InputError if nothing matches.
    """
    if table is None:
        try:
            return model.find(view, text)[0].item(), None, None
        except InputError as error:
            raise InputError(f"{error}; pass the table of a new entity by --rows") from None
    counted: Notes = Notes()  # of all rows, of which one is used
    for chunk in read_chunks(model, view, table, counted, first):
        at = np.flatnonzero(chunk.ids.astype(str) == text)[:1]
        if not len(at):
            continue
        known = chunk.given_ids is not None and bool(model.is_known(view, chunk.ids[at])[0])
        row = None if chunk.X is None else chunk.X[at]
        notes.update({key: 1 for key in counted if key[1].startswith("absent")})
        entity = (chunk.ids[at[0]].item(), row) if known or row is None else (row, None)
        return (*entity, chunk.links_of(int(at[0])))
    raise InputError(f"{table}: expected a row with the id {short(text)}, got none")


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
