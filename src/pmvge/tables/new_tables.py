"""Read new tables with the column descriptions of a fitted model: rows, links, labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmvge.errors import TableError, choose, short
from pmvge.graph import Features, Ids, Links, Pair, canonical, find_ids, parse_links
from pmvge.tables.columns.casts import (
    NULL_TYPES,
    cast_id,
    check_casts,
    check_column,
    id_type,
    select_typed,
)
from pmvge.tables.columns.encodings import Notes
from pmvge.tables.columns.recipe import Recipe, fetch_batches
from pmvge.tables.joining import JoinSummary, join_links, register_ids, transform_weights
from pmvge.tables.project import LinkTable
from pmvge.tables.saved_columns import SavedTables
from pmvge.tables.sources.arrays import ROW
from pmvge.tables.sources.connection import connect, quote_ident, table_errors
from pmvge.tables.sources.dialect import DEFAULT, Dialect
from pmvge.tables.sources.source import Source, as_source
from pmvge.tables.sources.staging import stage


def read_rows(
    tables: SavedTables,
    view: str,
    source: Any,
    *,
    notes: Notes | None = None,
    folder: Path | None = None,
) -> Iterator[tuple[Ids, Features | None]]:
    """Yield ids and features of the rows of a table, in batches, in their order.

    ``tables`` is ``model.tables_`` (or ``graph.tables``), ``source`` a file name or a data frame.
    Features are None for a view that had none in training. Rows of a table without the id column
    get row numbers as ids. Values of feature columns that the table does not have are missing.
    ``notes`` counts missing and unseen values. Raise TableError if the table has none of the
    feature columns, or if a value is not of its kind and that was an error in training.
    """
    base = folder or Path()
    with connect(base) as db:
        yield from select_rows(db, tables, view, source, notes, base)


def select_rows(
    db: duckdb.DuckDBPyConnection,
    tables: SavedTables,
    view: str,
    source: Any,
    notes: Notes | None,
    folder: Path,
) -> Iterator[tuple[Ids, Features | None]]:
    """Yield what :func:`read_rows` does, by queries of a new connection."""
    known = saved_view(tables, view)
    recipe = None if known["recipe"] is None else Recipe.from_dict(known["recipe"])
    table = _as_written(source, known)
    where = f"view {view} ({table})"
    types = stage(db, "raw", table, folder)
    with table_errors(where):
        column = _id_column(where, known["id"], recipe, types)
        if column is None:
            others = ["row_number() OVER () - 1 AS id"]
            if notes is not None:
                notes[str(known["id"]), "numbered"] += 1
        else:
            as_text = known.get("ids") == "text"  # an integer id, 12, is '12' then
            normalize = known.get("normalize_ids", False)
            kind = "VARCHAR" if as_text else id_type(db, [("raw", column, types)], normalize)
            others = [f"{cast_id(column, types, kind, normalize)} AS id"]
        kinds = {} if recipe is None else recipe.kinds
        present = {c: kind for c, kind in kinds.items() if c in types}
        if kinds and not present:
            check_column(where, next(iter(kinds)), types)
        on_error = known.get("on_error", "stop")
        invalid = check_casts(db, where, "raw", present, types, on_error)
        absent = {c: kind for c, kind in kinds.items() if c not in types}
        others += [
            f"CAST(NULL AS {NULL_TYPES[kind]}) AS {quote_ident(f'feature {column}')}"
            for column, kind in absent.items()
        ]
        counted: Notes = Notes() if notes is None else notes
        for column in absent:
            near = get_close_matches(column, set(types) - set(kinds), n=1, cutoff=0.5)
            counted[column, f"absent, like {near[0]!r}" if near else "absent"] += 1
        counted.update({(column, "invalid"): n for column, n in invalid.items()})
        start = 0
        with select_typed(db, "raw", others, present, types) as rows:
            for batch in fetch_batches(db, rows, 1 + len(kinds)):
                ids = batch["id"]
                if ids.null_count:
                    row = start + 1 + ids.is_null().index(True).as_py()
                    raise TableError(f"{where}: row {row:,} has an empty id")
                start += len(ids)
                values = ids.to_numpy(zero_copy_only=False)
                values = values.astype(str) if values.dtype == object else values
                yield values, None if recipe is None else recipe.encode(batch, counted)
    if not start:
        raise TableError(f"{where}: the table has no rows")


def rows_of(tables: SavedTables, view: str, source: Any) -> tuple[Ids, Features | None]:
    """Return ids and features of all rows of a table, as ``model.embed(view, ...)`` takes them.

    ``tables`` is ``model.tables_`` (or ``graph.tables``), ``source`` a file name or a data frame.
    Features are None for a view that had none in training. Raise TableError as :func:`read_rows`
    does.
    """
    return concatenate_rows(read_rows(tables, view, source))


def concatenate_rows(
    batches: Iterable[tuple[Ids, Features | None]],
) -> tuple[Ids, Features | None]:
    """Return the ids and features of all batches of :func:`read_rows`."""
    parts = list(batches)
    ids = np.concatenate([part for part, _ in parts])
    first = parts[0][1]
    if first is None:
        return ids, None
    if isinstance(first, np.ndarray):
        return ids, np.concatenate([X for _, X in parts])
    return ids, sparse.csr_array(sparse.vstack([X for _, X in parts], format="csr"))


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
    described = _links(tables, pair)
    table = LinkTable(
        _as_written(source, described),
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


def read_labels(
    tables: SavedTables, ids: Mapping[str, Ids], view: str, source: Any, column: str
) -> NDArray[Any]:
    """Return a column of a table as one string per known id of a view, "" where it has no value.

    Raise TableError if a column is missing, or if no row has an id of the view.
    """
    known = saved_view(tables, view)
    table = _as_written(source, known)
    where = f"labels of {view} ({table})"
    with connect(Path()) as db:
        types = stage(db, "raw", table, Path())
        key = check_column(where, str(known["id"] or next(iter(types))), types)
        check_column(where, column, types)
        side = register_ids(db, view, ids[view])
        normalize = known.get("normalize_ids", False)
        with table_errors(where):
            labelled = db.sql(
                "SELECT l.rowid AS at, r.label FROM "
                f"(SELECT {cast_id(key, types, side.type, normalize)} AS id, "
                f"CAST({quote_ident(column)} AS VARCHAR) AS label FROM raw) r "
                f"JOIN {quote_ident(side.name)} l ON r.id = l.id ORDER BY 1, 2"
            ).to_arrow_table()
    if not len(labelled):
        example = short(ids[view][0].item())
        raise TableError(f"{where}: no value of {key!r} is an id of the view, such as {example}")
    labels = np.full(len(ids[view]), "", dtype=object)
    labels[labelled["at"].to_numpy()] = [label or "" for label in labelled["label"].to_pylist()]
    return labels.astype(str)


def pair_of(tables: SavedTables, source: Any) -> Pair:
    """Return the view pair whose training link table has the same columns as a table.

    Raise TableError if there is none, or more than one.
    """
    table = as_source(source)
    entries = _require_tables(tables)["links"]
    candidates: list[Pair] = []
    for entry in entries:
        written = _as_written(source, entry)
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
        listed = " or ".join(",".join(pair) for pair in candidates or link_pairs(tables))
        raise TableError(f"{table}: its columns do not identify the views; pass --pair {listed}")
    return candidates[0]


def link_pairs(tables: SavedTables) -> list[Pair]:
    """Return the view pairs of the training link tables."""
    return [(a, b) for a, b in (entry["pair"] for entry in _require_tables(tables)["links"])]


def _as_written(source: Any, known: Mapping[str, Any]) -> Source:
    """Return the source of a new table, written as the table in training was."""
    given = as_source(source)
    if given.dialect != DEFAULT or "dialect" not in known:
        return given
    return replace(given, dialect=Dialect.of(str(given), known["dialect"]))


def _require_tables(tables: SavedTables) -> Mapping[str, Any]:
    if tables is None:
        raise TableError(
            "this model was not fitted to tables, so it has no column descriptions; "
            "pass arrays as in training"
        )
    return tables


def saved_view(tables: SavedTables, view: str) -> Mapping[str, Any]:
    """Return the description of a view's table; raise TableError if there is none."""
    views: Mapping[str, Any] = _require_tables(tables)["views"]
    description: Mapping[str, Any] = views[choose("view", view, views, error=TableError)]
    return description


def _links(tables: SavedTables, pair: Pair) -> Mapping[str, Any]:
    for entry in _require_tables(tables)["links"]:
        if tuple(entry["pair"]) in (pair, pair[::-1]):
            description: Mapping[str, Any] = entry
            return description
    listed = " or ".join(",".join(entry["pair"]) for entry in _require_tables(tables)["links"])
    raise TableError(f"no link table of {','.join(pair)} in training: expected {listed}")


def _id_column(
    where: str, wanted: str | None, recipe: Recipe | None, types: Mapping[str, str]
) -> str | None:
    """Return the id column of a new table; None if it has none and the view has features."""
    if wanted in types and wanted != ROW:  # row numbers of another array identify no entity
        return wanted
    if recipe is not None:
        return None
    if wanted is not None:
        return check_column(where, wanted, types)
    return next(iter(types))
