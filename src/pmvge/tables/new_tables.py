"""Tables that come later, read as those of the training were: new rows, links of known ids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmvge.errors import TableError
from pmvge.graph import Features, Ids, Links, Pair, parse_links
from pmvge.tables.columns.blocks import Notes
from pmvge.tables.columns.casts import as_id, check_casts, check_column, id_type, typed
from pmvge.tables.columns.recipe import Recipe, batches
from pmvge.tables.joining import Joined, join_links, register_ids
from pmvge.tables.project import LinkTable
from pmvge.tables.sources.source import as_source
from pmvge.tables.sources.staging import stage
from pmvge.tables.sources.workbench import quoted, readable, workbench

Known = Mapping[str, Any] | None  # a model's ``tables_``


def read_rows(
    tables: Known, view: str, source: Any, *, notes: Notes | None = None, folder: Path | None = None
) -> Iterator[tuple[Ids, Features | None]]:
    """Ids and features of the rows of a raw table, some thousands at a time, in their order.

    Features are None for a view that had none in training: then the ids are all there is. A table
    without the id column gets row numbers for ids. ``notes`` counts missing and unseen values.
    """
    known = _view(tables, view)
    recipe = None if known["recipe"] is None else Recipe.from_plain(known["recipe"])
    table = as_source(source)
    where = f"view {view} ({table})"
    base = folder or Path()
    with workbench(base) as db:
        types = stage(db, "raw", table, base)
        with readable(where):
            column = _id_column(where, known["id"], recipe, types)
            if column is None:
                others = ["row_number() OVER () - 1 AS id"]
                if notes is not None:
                    notes[str(known["id"]), "numbered"] += 1
            else:
                ours = known.get("ids") == "text"  # then 12 is '12', among whatever else
                kind = "VARCHAR" if ours else id_type(db, [("raw", column, types)])
                others = [f"{as_id(column, types, kind)} AS id"]
            kinds = {} if recipe is None else recipe.kinds
            for needed in kinds:
                check_column(where, needed, types)
            check_casts(db, where, "raw", kinds, types)
            counted: Notes = Notes() if notes is None else notes
            start = 0
            with typed(db, "raw", others, kinds, types) as rows:
                for batch in batches(db, rows):
                    ids = batch["id"]
                    if ids.null_count:
                        raise TableError(f"{where}: row {start + 1} or a later one has an empty id")
                    start += len(ids)
                    values = ids.to_numpy(zero_copy_only=False)
                    values = values.astype(str) if values.dtype == object else values
                    yield values, None if recipe is None else recipe.encode(batch, counted)
        if not start:
            raise TableError(f"{where}: the table has no rows")


def rows_of(tables: Known, view: str, source: Any) -> tuple[Ids, Features | None]:
    """Ids and features of all rows of a raw table: what ``model.embed(view, ...)`` takes.

    ``tables`` is ``model.tables_`` (or ``graph.tables``), ``source`` a file name or a frame.
    """
    parts = list(read_rows(tables, view, source))
    ids = np.concatenate([part for part, _ in parts])
    first = parts[0][1]
    if first is None:
        return ids, None
    if isinstance(first, np.ndarray):
        return ids, np.concatenate([X for _, X in parts])
    return ids, sparse.csr_array(sparse.vstack([X for _, X in parts], format="csr"))


def read_links(
    tables: Known, ids: Mapping[str, Ids], pair: Pair, source: Any, *, folder: Path | None = None
) -> tuple[Links, Joined]:
    """Links between known ids from a table with the columns of the training's link table."""
    described = _links(tables, pair)
    table = LinkTable(
        as_source(source),
        tuple(described["columns"]),
        described["weight"],
        described["aggregate"],
        described["symmetrize"],
    )
    a, b = described["pair"]
    base = folder or Path()
    with workbench(base) as db:
        types = stage(db, "raw", table.source, base)
        left = register_ids(db, a, ids[a])
        right = left if a == b else register_ids(db, b, ids[b])
        triple, joined = join_links(db, "raw", types, table, left, right)
    where = f"links {a},{b} ({table.source})"
    shape = (len(ids[a]), len(ids[b]))
    return parse_links(where, triple, shape, a == b, described["symmetrize"]), joined


def read_labels(
    tables: Known, ids: Mapping[str, Ids], view: str, source: Any, column: str
) -> NDArray[Any]:
    """A column of a table as one text for each known id of a view ("" where it has none)."""
    known = _view(tables, view)
    table = as_source(source)
    where = f"labels of {view} ({table})"
    with workbench(Path()) as db:
        types = stage(db, "raw", table, Path())
        key = check_column(where, str(known["id"] or next(iter(types))), types)
        check_column(where, column, types)
        side = register_ids(db, view, ids[view])
        with readable(where):
            found = db.sql(
                f"SELECT l.rowid AS at, CAST({quoted(column)} AS VARCHAR) AS label FROM raw "
                f"JOIN {quoted(side.name)} l ON {as_id(key, types, side.type)} = l.id "
                "ORDER BY 1, 2"
            ).to_arrow_table()
    if not len(found):
        raise TableError(f"{where}: none of its {key!r} is an id of the view")
    labels = np.full(len(ids[view]), "", dtype=object)
    labels[found["at"].to_numpy()] = [label or "" for label in found["label"].to_pylist()]
    return labels.astype(str)


def pair_of(tables: Known, source: Any) -> Pair:
    """The one view pair whose link table had columns that this table has."""
    table = as_source(source)
    with workbench(Path()) as db:
        types = stage(db, "raw", table, Path())
    able = [
        (str(entry["pair"][0]), str(entry["pair"][1]))
        for entry in _known(tables)["links"]
        if {*entry["columns"], *([entry["weight"]] if entry["weight"] else [])} <= set(types)
    ]
    if len(able) != 1:
        listed = " or ".join(",".join(pair) for pair in able or link_pairs(tables))
        raise TableError(f"{table}: links of which views? Say --pair {listed}")
    return able[0]


def link_pairs(tables: Known) -> list[Pair]:
    """The view pairs whose link tables the model knows."""
    return [(a, b) for a, b in (entry["pair"] for entry in _known(tables)["links"])]


def _known(tables: Known) -> Mapping[str, Any]:
    if tables is None:
        raise TableError(
            "this model was not fitted to tables, so it does not know what columns mean; "
            "give it rows as in training"
        )
    return tables


def _view(tables: Known, view: str) -> Mapping[str, Any]:
    views: Mapping[str, Any] = _known(tables)["views"]
    if view not in views:
        raise TableError(f"unknown view {view!r}: expected one of {', '.join(map(repr, views))}")
    found: Mapping[str, Any] = views[view]
    return found


def _links(tables: Known, pair: Pair) -> Mapping[str, Any]:
    for entry in _known(tables)["links"]:
        if tuple(entry["pair"]) in (pair, pair[::-1]):
            found: Mapping[str, Any] = entry
            return found
    listed = " or ".join(",".join(entry["pair"]) for entry in _known(tables)["links"])
    raise TableError(f"no link table of {','.join(pair)} in training: expected {listed}")


def _id_column(
    where: str, wanted: str | None, recipe: Recipe | None, types: Mapping[str, str]
) -> str | None:
    """The id column of a later table; None for none, which rows with features may go without."""
    if wanted in types:
        return wanted
    if recipe is not None:
        return None
    if wanted is not None:
        return check_column(where, wanted, types)
    return next(iter(types))
