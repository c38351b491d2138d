"""Tables to a graph, and later tables to rows of the same kind."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from pmvge.errors import GraphError, TableError
from pmvge.features import Features
from pmvge.graph import MultiViewGraph, check_pairs
from pmvge.ids import Ids
from pmvge.links import Pair, parse_links
from pmvge.tables.blocks import Category, Notes
from pmvge.tables.casts import as_id, cast, check_casts, check_column, id_type
from pmvge.tables.guess import complete, raw_links, raw_view
from pmvge.tables.joining import IdTable, Joined, Triple, join_links
from pmvge.tables.project import LinkTable, Project, ViewTable, read_project
from pmvge.tables.recipe import Recipe, encode_all, expand, fit_recipe
from pmvge.tables.sources import apart, ask, quoted, readable, stage, workbench

COLOURS = 30  # categories that a label may have to be told apart in a report


class DroppedRows(UserWarning):
    """Rows of a link table could not be used."""


@dataclass(frozen=True, eq=False)
class Tables:
    """A graph, with what was noticed on the way to it."""

    graph: MultiViewGraph
    labels: Mapping[str, Mapping[str, NDArray[Any]]]  # {view: {column: one text per node}}
    joined: Mapping[Pair, Joined]  # what became of each link table
    missing: Mapping[str, Mapping[str, int]]  # {view: {column: values filled in}}
    project: Project  # what was read, with what was guessed

    def notes(self) -> list[str]:
        """What a user should know about rows that were dropped and values that were missing."""
        said = [str(joined) for joined in self.joined.values() if joined.dropped]
        for view, columns in self.missing.items():
            counts = ", ".join(f"{column!r} {n:,}" for column, n in columns.items())
            said.append(f"view {view}: missing values, filled in or counted as none: {counts}")
        return said


def read_graph(path: str | Path, *, strict: bool = False) -> MultiViewGraph:
    """The graph that a project file describes.

    Rows of link tables that cannot be used (ids that are empty or unknown, weights of zero,
    self-links) are dropped with a warning; ``strict`` makes them an error.
    """
    return _warned(read_tables(read_project(path), strict=strict))


def graph_from_frames(
    views: Mapping[str, Any], links: Mapping[Pair, Any], *, strict: bool = False
) -> MultiViewGraph:
    """A graph from pandas, polars or Arrow tables in memory.

    Parameters
    ----------
    views
        ``{name: table}``. A table is a frame, whose id and features are guessed as ``pmvge init``
        does, or a :class:`ViewTable` that says which they are. None: a view without features,
        whose ids are those that the link tables name.
    links
        ``{(name, name): table}``, a frame, or a :class:`LinkTable`.
    strict
        Rows of link tables that cannot be used are an error; else they are dropped, with a warning.

    Examples
    --------
    >>> from pmvge.tables import graph_from_frames
    >>> films = {"film": ["a", "b", "c"], "year": [1999, 2004, 2010]}
    >>> seen = {"user": [1, 1, 2], "film": ["a", "b", "c"], "times": [1, 2, 1]}
    >>> graph_from_frames({"film": films, "user": None}, {("user", "film"): seen})
    MultiViewGraph: 2 views, 5 nodes, 3 links
      film             3 nodes   1 features, dense
      user             2 nodes   featureless
      user - film      3 links   weight 4, density 0.5
    """
    if not isinstance(views, Mapping) or not isinstance(links, Mapping):
        raise TableError("expected views as {name: table} and links as {(name, name): table}")
    for name in views:
        if not isinstance(name, str) or not name:
            raise TableError(f"views: names must be non-empty strings, got {name!r}")
    check_pairs(links, dict.fromkeys(views, 0))
    project = Project(
        {name: t if isinstance(t, ViewTable) else ViewTable(t) for name, t in views.items()},
        {pair: t if isinstance(t, LinkTable) else LinkTable(t) for pair, t in links.items()},
    )
    return _warned(read_tables(project, strict=strict))


def _warned(tables: Tables) -> MultiViewGraph:
    for joined in tables.joined.values():
        if joined.dropped:
            warnings.warn(str(joined), DroppedRows, stacklevel=3)
    return tables.graph


def read_tables(project: Project, *, strict: bool = False) -> Tables:
    """Read everything that a project names."""
    with workbench(project.folder) as db:
        types, link_types = stage_all(db, project)
        project = complete(db, project, types, link_types)
        sides = {
            name: _stage_view(db, name, table, types[name])
            if table.source is not None
            else _collect_ids(db, name, project, link_types)
            for name, table in project.views.items()
        }
        read = {
            name: _read_view(db, sides[name], table, types.get(name, {}))
            for name, table in project.views.items()
        }
        joined = {
            pair: join_links(
                db, raw_links(pair), link_types[pair], table, sides[pair[0]], sides[pair[1]]
            )
            for pair, table in project.links.items()
        }
    for _, account in joined.values():
        if strict and account.dropped:
            raise TableError(f"{account}; --strict allows none")
    links = {
        pair: _undirected(pair, project.links[pair], triple, len(read[pair[0]].ids))
        if pair[0] == pair[1]
        else triple
        for pair, (triple, _) in joined.items()
    }
    graph = MultiViewGraph(
        {name: len(view.ids) if view.X is None else view.X for name, view in read.items()},
        links,
        {name: view.ids for name, view in read.items()},
    )
    return Tables(
        graph.with_tables(_plain(project, read)),
        {name: view.labels for name, view in read.items() if view.labels},
        {pair: account for pair, (_, account) in joined.items()},
        {name: view.missing for name, view in read.items() if view.missing},
        project,
    )


def stage_all(
    db: duckdb.DuckDBPyConnection, project: Project
) -> tuple[dict[str, dict[str, str]], dict[Pair, dict[str, str]]]:
    """All tables of a project on the workbench; columns and types of views and of links."""
    return {
        name: stage(db, raw_view(name), table.source, project.folder)
        for name, table in project.views.items()
        if table.source is not None
    }, {
        pair: stage(db, raw_links(pair), table.source, project.folder)
        for pair, table in project.links.items()
    }


@dataclass(frozen=True, eq=False)
class _View:
    ids: Ids
    X: Features | None
    labels: dict[str, NDArray[Any]]
    missing: dict[str, int]
    recipe: Recipe | None


def _stage_view(
    db: duckdb.DuckDBPyConnection, name: str, table: ViewTable, types: Mapping[str, str]
) -> IdTable:
    """A view's rows with typed columns, sorted by id: their positions are the nodes."""
    where = f"view {name} ({table.source})"
    raw = raw_view(name)
    column = check_column(where, str(table.id), types)
    features = expand(where, table, types)
    kinds = {feature: features[feature].kind for feature in features}
    with readable(where):
        kind = id_type(db, [(raw, column, types)])
        check_casts(db, where, raw, kinds, types)
        selection = [f"{as_id(column, types, kind)} AS id"]
        selection += [f"{cast(c, kinds[c], types)} AS {quoted(f'feature {c}')}" for c in kinds]
        for label in table.labels:
            check_column(where, label, types)
            selection.append(f"CAST({quoted(label)} AS VARCHAR) AS {quoted(f'label {label}')}")
        staged = f"view {apart(name)}"
        db.execute(
            f"CREATE TABLE {quoted(staged)} AS SELECT {', '.join(selection)} "
            f"FROM {quoted(raw)} ORDER BY id"
        )
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
            f"repeat one, such as {twice!r}"
        )


def _collect_ids(
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


def _read_view(
    db: duckdb.DuckDBPyConnection, side: IdTable, table: ViewTable, types: Mapping[str, str]
) -> _View:
    where = f"view {side.view} ({table.source})"
    with readable(where):
        ids = _array(db, side.name, "id")
        labels = {label: _array(db, side.name, f"label {label}") for label in table.labels}
        if not table.features:
            return _View(ids, None, labels, {}, None)
        notes: Notes = Counter()
        recipe = fit_recipe(db, where, side.name, table, expand(where, table, types))
        X = encode_all(db, recipe, side.name, len(ids), notes)
        for block in recipe.blocks:  # a few categories make good colours, too
            if isinstance(block, Category) and len(block.values) <= COLOURS:
                (column,) = block.columns
                labels.setdefault(column, _array(db, side.name, f"feature {column}"))
    missing = {column: n for (column, _), n in notes.items() if n}
    return _View(ids, X, labels, missing, recipe)


def _array(db: duckdb.DuckDBPyConnection, staged: str, column: str) -> NDArray[Any]:
    """A column as an array of integers, or of texts ("" for none)."""
    found = db.sql(f"SELECT {quoted(column)} AS one FROM {quoted(staged)}").to_arrow_table()["one"]
    values = found.to_numpy()
    if values.dtype != object:
        return np.asarray(values)
    return np.array(["" if value is None else str(value) for value in values], dtype=str)


def _undirected(pair: Pair, table: LinkTable, triple: Triple, n: int) -> Triple:
    """Links within a view in one order, the two orders merged as the table says."""
    where = f"links {','.join(pair)} ({table.source})"
    try:
        links = parse_links(where, triple, (n, n), True, table.symmetrize)  # type: ignore[arg-type]
    except GraphError as error:
        if table.symmetrize is not None:
            raise
        rows, cols, _ = triple
        both = int(np.isin(rows * n + cols, cols * n + rows).sum()) // 2
        raise TableError(
            f"{where}: {both:,} pairs stand in both orders, but links within a view have none; say "
            "how the two are merged: symmetrize = max, or sum"
        ) from error
    return links.rows.astype(np.int64), links.cols.astype(np.int64), links.weights


def _plain(project: Project, read: Mapping[str, _View]) -> dict[str, Any]:
    """What a model keeps of its tables: how to read others of the same kind."""
    return {
        "views": {
            name: {
                "id": project.views[name].id,
                "ids": "integers" if view.ids.dtype.kind in "iu" else "text",
                "recipe": view.recipe.to_plain() if view.recipe else None,
            }
            for name, view in read.items()
        },
        "links": [
            {
                "pair": list(pair),
                "columns": list(table.columns or ()),
                "weight": table.weight,
                "aggregate": table.aggregate,
                "symmetrize": table.symmetrize,
            }
            for pair, table in project.links.items()
        ],
    }
