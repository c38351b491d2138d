"""Rows and links that are given as values, such as JSON, instead of a table."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmvge.errors import TableError, choose
from pmvge.graph import Features, Ids, Pair
from pmvge.tables.columns.encoded import Notes
from pmvge.tables.columns.recipe import Recipe
from pmvge.tables.joining import transform_weights
from pmvge.tables.new_rows import concatenate_rows, select_rows
from pmvge.tables.saved_tables import SavedTables, saved_view
from pmvge.tables.sources.connection import connect_to_memory


class Records(dict[str, list[Any]]):
    """A table as ``{column: values}``; error messages show the name of this class."""


def rows_of_records(
    tables: SavedTables,
    view: str,
    records: Sequence[Mapping[str, Any]],
    *,
    notes: Notes | None = None,
    others: Collection[str] = (),
) -> tuple[Ids | None, Features | None]:
    """Return ids and features of rows that are given as ``{column: value}``, as JSON objects are.

    They are those of :func:`rows_of` for a table with these rows; a value that a row does not have
    is missing. Ids are None if no row has the id column. ``notes`` counts missing and unseen
    values. Columns in ``others`` are ignored. Raise TableError for other columns that the view did
    not have in training, and as :func:`read_rows` does.
    """
    known = saved_view(tables, view)
    recipe = None if known["recipe"] is None else Recipe.from_dict(known["recipe"])
    wanted = [*([] if known["id"] is None else [known["id"]]), *(recipe.kinds if recipe else ())]
    given = dict.fromkeys(column for record in records for column in record)
    for column in given:
        if column not in others:
            choose("column", column, wanted, f"rows of view {view!r}", error=TableError)
    columns = {column: [record.get(column) for record in records] for column in wanted}
    frame = Records(
        {c: values for c, values in columns.items() if any(v is not None for v in values)}
    )
    if not frame:
        expected = ", ".join(map(repr, wanted))
        raise TableError(f"rows of view {view!r}: expected values of {expected}, got none")
    if set(frame) == {known["id"]} and recipe is not None:
        raise TableError(
            f"rows of view {view!r}: expected values of {', '.join(map(repr, recipe.kinds))}, got "
            "ids alone; pass known entities as ids"
        )
    for row, value in enumerate(frame.get(known["id"], ())):
        if value is None:
            raise TableError(
                f"rows of view {view!r}: expected {known['id']!r} in all rows or in none, got none "
                f"in row {row}"
            )
    with connect_to_memory() as db:
        ids, X = concatenate_rows(select_rows(db, tables, view, frame, notes, Path()))
    return ids if known["id"] is None or known["id"] in frame else None, X


def links_of_records(
    tables: SavedTables,
    pair: Pair,
    rows: NDArray[np.int64],
    ids: Ids,
    weights: NDArray[np.float64],
) -> tuple[NDArray[np.int64], Ids, NDArray[np.float64]]:
    """Return new links (row, id, weight) with weights that are made as in the training link table.

    Weights of the same row and id are combined first ("sum", "max", or "count", which counts the
    links and not their weights), then transformed. Without a link table of the view pair the links
    are returned as they are.
    """
    for entry in () if tables is None else tables["links"]:
        if tuple(entry["pair"]) in (pair, pair[::-1]):
            break
    else:
        return rows, ids, weights
    _, id_number = np.unique(ids, return_inverse=True)
    keys = rows * (len(ids) + 1) + id_number
    _, first, at = np.unique(keys, return_index=True, return_inverse=True)
    if entry["aggregate"] == "max":
        combined = np.zeros(len(first))
        np.maximum.at(combined, at, weights)
    else:
        counted = None if entry["aggregate"] == "count" else weights
        combined = np.bincount(at, counted, len(first)).astype(np.float64)
    return rows[first], ids[first], transform_weights(entry.get("transform"), combined)
