"""Read the rows and labels of new tables with the column descriptions of a fitted model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmvge.errors import TableError, short
from pmvge.graph import Features, Ids
from pmvge.tables.columns.casts import NULL_TYPES, check_casts, check_column, select_typed
from pmvge.tables.columns.encoded import Notes
from pmvge.tables.columns.id_casts import cast_id, check_exact, id_type
from pmvge.tables.columns.recipe import Recipe, column_errors, fetch_batches
from pmvge.tables.joining import register_ids
from pmvge.tables.saved_tables import SavedTables, as_written, saved_view
from pmvge.tables.sources.arrays import ROW
from pmvge.tables.sources.connection import connect, quote_ident, table_errors
from pmvge.tables.sources.source import as_source
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
    table = as_written(as_source(source), known)
    where = f"view {view} ({table})"
    types = stage(db, "raw", table, folder)
    with table_errors(where):
        column = _id_column(where, known["id"], recipe, types)
        if column is None:
            others = ["row_number() OVER () - 1 AS id"]
            if notes is not None:
                notes[str(known["id"]), "numbered"] += 1
        else:
            check_exact(db, where, "raw", column, types)
            as_text = known.get("ids") == "text"  # an integer id, 12, is '12' then
            normalize = known.get("normalize_ids", False)
            kind = "VARCHAR" if as_text else id_type(db, [("raw", column, types)], normalize)
            others = [f"{cast_id(column, types, kind, normalize)} AS id"]
        kinds = {} if recipe is None else recipe.kinds
        present = {c: kind for c, kind in kinds.items() if c in types}
        if kinds and not present:
            check_column(where, next(iter(kinds)), types)
        on_error = known.get("on_error", "stop")
        remedy = "correct them, or empty these cells: missing values are filled in"
        invalid, present = check_casts(db, where, "raw", present, types, on_error, remedy)
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
                with column_errors(where):
                    X = None if recipe is None else recipe.encode(batch, counted)
                yield values, X
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


def read_labels(
    tables: SavedTables, ids: Mapping[str, Ids], view: str, source: Any, column: str
) -> NDArray[Any]:
    """Return a column of a table as one string per known id of a view, "" where it has no value.

    Raise TableError if a column is missing, or if no row has an id of the view.
    """
    known = saved_view(tables, view)
    table = as_written(as_source(source), known)
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
