"""The table of one view: typed, sorted by id, and read as ids, features and labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from pmvge.errors import TableError, short
from pmvge.graph import Features, Ids, Pair
from pmvge.tables.columns.blocks import Category, Notes
from pmvge.tables.columns.casts import as_id, check_casts, check_column, id_type, typed
from pmvge.tables.columns.recipe import Recipe, encoded, expand, fit_recipe, gathered
from pmvge.tables.guessing.guess import raw_links, raw_view
from pmvge.tables.joining import IdTable
from pmvge.tables.on_disk.spill import Place, missing_values
from pmvge.tables.project import Project, ViewTable
from pmvge.tables.sources.workbench import apart, ask, quoted, readable

COLOURS = 30  # categories that a label may have to be told apart in a report


def places_of(
    folder: Path, project: Project, types: Mapping[str, Mapping[str, str]]
) -> dict[str, Place]:
    """Where the features of each view go, if it has any."""
    return {
        name: Place.of(
            folder,
            name,
            table,
            expand(f"view {name} ({table.source})", table, types[name]),
            project.folder,
        )
        for name, table in project.views.items()
        if table.features
    }


@dataclass(frozen=True, eq=False)
class View:
    """What was read of one view."""

    ids: Ids
    X: Features | None
    labels: dict[str, NDArray[Any]]
    missing: dict[str, int]
    recipe: Recipe | None


def stage_view(
    db: duckdb.DuckDBPyConnection,
    name: str,
    table: ViewTable,
    types: Mapping[str, str],
    place: Place | None,
) -> IdTable:
    """A view's rows with typed columns, sorted by id: their positions are the nodes."""
    where = f"view {name} ({table.source})"
    raw = raw_view(name)
    column = check_column(where, str(table.id), types)
    features = expand(where, table, types)
    kinds = {feature: features[feature].kind for feature in features}
    if place is not None and place.kept is not None:  # then what may be a label is enough
        kinds = {feature: kind for feature, kind in kinds.items() if kind == "category"}
    with readable(where):
        kind = id_type(db, [(raw, column, types)])
        check_casts(db, where, raw, kinds, types)
        others = [f"{as_id(column, types, kind)} AS id"]
        for label in table.labels:
            check_column(where, label, types)
            others.append(f"CAST({quoted(label)} AS VARCHAR) AS {quoted(f'label {label}')}")
        staged = f"view {apart(name)}"
        with typed(db, raw, others, kinds, types) as rows:
            db.execute(f"CREATE TABLE {quoted(staged)} AS {rows} ORDER BY id")
        _check_ids(db, where, staged, column)
    return IdTable(name, staged, kind)


def _check_ids(db: duckdb.DuckDBPyConnection, where: str, staged: str, column: str) -> None:
    counts = f"SELECT count(*), count(id), count(DISTINCT id) FROM {quoted(staged)}"
    ((n, known, distinct),) = ask(db, counts)
    if not n:
        raise TableError(f"{where}: the table has no rows")
    if known < n:
        raise TableError(f"{where}: id column {column!r}: {n - known:,} of {n:,} ids are empty")
    if distinct < n:
        ((twice,),) = ask(
            db,
            f"SELECT id FROM {quoted(staged)} GROUP BY id HAVING count(*) > 1 ORDER BY 1 LIMIT 1",
        )
        raise TableError(
            f"{where}: id column {column!r}: expected every id once, but {n - distinct:,} rows "
            f"repeat one, such as {short(twice)}"
        )


def collect_ids(
    db: duckdb.DuckDBPyConnection,
    name: str,
    project: Project,
    link_types: Mapping[Pair, Mapping[str, str]],
) -> IdTable:
    """The ids of a view without a source: those that the link tables name."""
    places = []
    for pair, table in project.links.items():
        for view, column in zip(pair, table.columns or (), strict=False):
            if view == name:
                check_column(f"links {','.join(pair)} ({table.source})", column, link_types[pair])
                places.append((raw_links(pair), column, link_types[pair]))
    if not places:
        raise TableError(f"view {name}: it has no source, and no link table has its ids")
    with readable(f"view {name}"):
        kind = id_type(db, places)
        union = " UNION ALL ".join(
            f"SELECT {as_id(column, types, kind)} AS id FROM {quoted(raw)}"
            for raw, column, types in places
        )
        staged = f"view {apart(name)}"
        query = f"SELECT DISTINCT id FROM ({union}) WHERE id IS NOT NULL ORDER BY id"
        db.execute(f"CREATE TABLE {quoted(staged)} AS {query}")
        _check_ids(db, f"view {name}", staged, places[0][1])
    return IdTable(name, staged, kind)


def read_view(
    db: duckdb.DuckDBPyConnection,
    side: IdTable,
    table: ViewTable,
    types: Mapping[str, str],
    place: Place | None,
) -> View:
    """Ids, labels and features of a staged view; dense features go to the place, if it has one."""
    where = f"view {side.view} ({table.source})"
    with readable(where):
        ids = _array(db, side.name, "id")
        labels = {label: _array(db, side.name, f"label {label}") for label in table.labels}
        if not table.features:
            return View(ids, None, labels, {}, None)
        if place is not None and place.kept is not None:
            recipe, X, missing = place.kept
        else:
            notes: Notes = Counter()
            recipe = fit_recipe(db, where, side.name, table, expand(where, table, types))
            parts = encoded(db, recipe, side.name, notes)
            if place is None or recipe.sparse:
                X = gathered(recipe, len(ids), parts)
            else:
                X = place.write(recipe, len(ids), parts, notes)
            missing = missing_values(notes)
        for block in recipe.blocks:  # a few categories make good colours, too
            if isinstance(block, Category) and len(block.values) <= COLOURS:
                (column,) = block.columns
                labels.setdefault(column, _array(db, side.name, f"feature {column}"))
    return View(ids, X, labels, missing, recipe)


def _array(db: duckdb.DuckDBPyConnection, staged: str, column: str) -> NDArray[Any]:
    """A column as an array of integers, or of texts ("" for none)."""
    found = db.sql(f"SELECT {quoted(column)} AS one FROM {quoted(staged)}").to_arrow_table()["one"]
    values = found.to_numpy()
    if values.dtype != object:
        return np.asarray(values)
    return np.array(["" if value is None else str(value) for value in values], dtype=str)
