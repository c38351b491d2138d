"""Read the links of new tables with the column descriptions of a fitted model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmvge.errors import TableError
from pmvge.graph import Ids, Links, Pair, canonical, find_ids, pair_key, parse_links
from pmvge.tables.joining import JoinSummary, join_links, register_ids, transform_weights
from pmvge.tables.project import LinkTable
from pmvge.tables.saved_tables import (
    SavedTables,
    as_written,
    link_pairs,
    require_tables,
    saved_links,
    saved_view,
)
from pmvge.tables.sources.connection import connect
from pmvge.tables.sources.source import as_source
from pmvge.tables.sources.staging import stage


def read_links(
    tables: SavedTables,
    ids: Mapping[str, Ids],
    pair: Pair,
    source: Any,
    *,
    folder: Path | None = None,
) -> tuple[Links, JoinSummary]:
    """Return links between known ids, from a table with the columns of the training link table.

    Also return a summary of the rows that were dropped. Raise TableError if the view pair had no
    link table in training, if a column is missing, or if no row can be used.
    """
    described = saved_links(tables, pair)
    table = LinkTable(
        as_written(as_source(source), described),
        tuple(described["columns"]),
        described["weight"],
        described["aggregate"],
        described["symmetrize"],
        on_error=described.get("on_error", "stop"),
    )
    a, b = described["pair"]
    base = folder or Path()
    with connect(base) as db:
        types = stage(db, "raw", table.source, base)
        sides = {
            view: register_ids(
                db, view, ids[view], normalize=saved_view(tables, view).get("normalize_ids", False)
            )
            for view in {a, b}
        }
        triple, summary = join_links(db, "raw", types, table, sides[a], sides[b])
    where = f"links {a},{b} ({table.source})"
    shape = (len(ids[a]), len(ids[b]))
    links = parse_links(where, triple, shape, a == b, described["symmetrize"])
    weights = transform_weights(described.get("transform"), links.weights)
    return canonical(links.rows, links.cols, weights, shape, a == b), summary


def read_first_links(
    tables: SavedTables,
    ids: Mapping[str, Ids],
    view: str,
    row_ids: Ids,
    pair: Pair,
    source: Any,
) -> tuple[tuple[NDArray[np.int64], Ids, NDArray[np.float64]], JoinSummary]:
    """Return links of new entities with known ones, as ``model.fold_in`` takes them.

    They are (rows, ids of the other view, weights), where rows are positions in ``row_ids``. The
    table has the columns of the training link table of the pair. Within a view, links of two known
    or of two new entities are left out. Raise TableError as :func:`read_links` does.
    """
    a, b = pair
    if a != b:
        links, summary = read_links(tables, {**ids, view: row_ids}, pair, source)
        rows, cols = (
            (links.rows, links.cols) if summary.pair[0] == view else (links.cols, links.rows)
        )
        return (rows.astype(np.int64), ids[b if view == a else a][cols], links.weights), summary
    known = ids[view]
    new = np.flatnonzero(find_ids(known, row_ids) < 0)
    both = np.concatenate([known, row_ids[new]])
    links, summary = read_links(tables, {view: both}, pair, source)  # row < col
    mixed = (links.rows < len(known)) & (links.cols >= len(known))
    rows = new[links.cols[mixed] - len(known)]
    return (rows, known[links.rows[mixed]], links.weights[mixed]), summary


def pair_of(tables: SavedTables, source: Any) -> Pair:
    """Return the view pair whose training link table has the same columns as a table.

    Raise TableError if there is none, or more than one.
    """
    table = as_source(source)
    entries = require_tables(tables)["links"]
    candidates: list[Pair] = []
    for entry in entries:
        written = as_written(table, entry)
        with connect(Path()) as db:
            try:
                types = stage(db, "raw", written, Path())
            except TableError:  # written in another way than this link table of the training
                if entry is entries[-1] and not candidates:
                    raise
                continue
        if {*entry["columns"], *([entry["weight"]] if entry["weight"] else [])} <= set(types):
            candidates.append((str(entry["pair"][0]), str(entry["pair"][1])))
    if len(candidates) != 1:
        listed = " or ".join(pair_key(pair) for pair in candidates or link_pairs(tables))
        raise TableError(f"{table}: its columns do not identify the views; pass --pair {listed}")
    return candidates[0]
