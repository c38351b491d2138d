"""Read all tables of a project into a graph."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from pmvge.errors import GraphError, TableError
from pmvge.graph import MultiViewGraph, Pair, check_pairs, parse_links
from pmvge.tables.guessing.guess import complete_project
from pmvge.tables.joining import JoinSummary, Triple, join_links, transform_weights
from pmvge.tables.on_disk.feature_cache import make_spill_folder
from pmvge.tables.project import LinkTable, Project, ViewTable
from pmvge.tables.project_file import read_project
from pmvge.tables.saved_columns import match_columns
from pmvge.tables.saved_tables import SavedTables, saved_recipe, text_ids
from pmvge.tables.sources.connection import connect
from pmvge.tables.sources.staging import raw_links_name, raw_view_name, stage
from pmvge.tables.views import View, collect_ids, feature_caches, read_view, stage_view
from pmvge.tables.weights import WeightWarning, weight_notes


class DroppedRows(UserWarning):
    """Rows of a link table could not be used."""


@dataclass(frozen=True, eq=False)
class Tables:
    """A graph read from tables, with labels, and counts of dropped rows and missing values."""

    graph: MultiViewGraph
    labels: Mapping[str, Mapping[str, NDArray[Any]]]  # {view: {column: one string per entity}}
    columns: Mapping[str, Mapping[str, NDArray[Any]]]  # other columns to show, in the same form
    names: Mapping[str, str]  # {view: the column with the names of its entities}
    joined: Mapping[Pair, JoinSummary]  # rows of each link table, in total and dropped
    missing: Mapping[str, Mapping[str, int]]  # {view: {column: missing values}}
    # With on_error = "missing": values that are not of their column's kind, and rows left out.
    invalid: Mapping[str, Mapping[str, int]]  # {view: {column: values}}
    left_out: Mapping[str, Mapping[str, int]]  # {view: {reason: rows}}
    unshared: Mapping[str, tuple[str, ...]]  # {view: columns of texts without shared words}
    project: Project  # with guessed columns filled in

    def notes(self) -> list[str]:
        """Return messages for the user about dropped rows and missing values."""
        messages = [str(joined) for joined in self.joined.values() if joined.dropped]
        for view, columns in self.missing.items():
            counts = ", ".join(f"{column!r} {n:,}" for column, n in columns.items())
            messages.append(f"view {view}: missing values, filled in or left empty: {counts}")
        for view, columns in self.invalid.items():
            counts = ", ".join(f"{column!r} {n:,}" for column, n in columns.items())
            messages.append(
                f"view {view}: values that are not of their kind, counted as missing: {counts}"
            )
        for view, reasons in self.left_out.items():
            counts = ", ".join(f"{n:,} with {reason}" for reason, n in reasons.items())
            messages.append(f"view {view}: rows left out: {counts}")
        messages += [
            f"view {view}: almost every word of {column!r} occurs in one row only: rows have no "
            'words in common; set { kind = "text", ngrams = [2, 4] } for sequences of characters, '
            "or leave the column out"
            for view, texts in self.unshared.items()
            for column in texts
        ]
        return messages


def read_graph(
    path: str | Path,
    *,
    strict: bool = False,
    spill: str | Path | None = None,
    tables: SavedTables = None,
) -> MultiViewGraph:
    """Return the graph of a project file.

    Rows of link tables that cannot be used (empty or unknown ids, missing or zero weights,
    self-links) are dropped with a :class:`DroppedRows` warning; with ``strict`` they raise
    TableError. ``spill`` and ``tables`` are as in :func:`read_tables`. Raise TableError if the
    project file or a table is not valid.
    """
    project = read_project(path)
    return _warn_dropped(read_tables(project, strict=strict, spill=spill, tables=tables))


def graph_from_frames(
    views: Mapping[str, Any], links: Mapping[Pair, Any], *, strict: bool = False
) -> MultiViewGraph:
    """Return a graph from pandas, polars or Arrow tables in memory.

    Parameters
    ----------
    views
        ``{name: table}``. A table is a data frame, whose id and features are guessed as in
        ``pmvge init``, or a :class:`ViewTable` that names them. None: a view without features,
        whose ids are those in the link tables.
    links
        ``{(name, name): table}``. A table is a data frame or a :class:`LinkTable`.
    strict
        Raise TableError for rows of link tables that cannot be used, instead of dropping them with
        a warning.

    Examples
    --------
    >>> from pmvge.tables import graph_from_frames
    >>> films = {"film": ["a", "b", "c"], "year": [1999, 2004, 2010]}
    >>> seen = {"user": [1, 1, 2], "film": ["a", "b", "c"], "times": [1, 2, 1]}
    >>> graph_from_frames({"film": films, "user": None}, {("user", "film"): seen})
    MultiViewGraph: 2 views, 5 entities, 3 links
      film             3 entities   1 features, dense
      user             2 entities   featureless
      user - film      3 links      weight 4, density 0.5
    """
    if not isinstance(views, Mapping) or not isinstance(links, Mapping):
        raise TableError(
            "expected views as {name: table} and links as {(name, name): table}, got "
            f"{type(views).__name__} and {type(links).__name__}"
        )
    for name in views:
        if not isinstance(name, str) or not name:
            raise TableError(f"views: names must be non-empty strings, got {name!r}")
    check_pairs(links, dict.fromkeys(views, 0))
    project = Project(
        {name: t if isinstance(t, ViewTable) else ViewTable(t) for name, t in views.items()},
        {pair: t if isinstance(t, LinkTable) else LinkTable(t) for pair, t in links.items()},
    )
    return _warn_dropped(read_tables(project, strict=strict))


def _warn_dropped(tables: Tables) -> MultiViewGraph:
    """Warn about dropped rows and unusual weights, and return the graph."""
    for joined in tables.joined.values():
        if joined.dropped:
            warnings.warn(str(joined), DroppedRows, stacklevel=3)
    balanced = tables.project.model.get("pair_weights") is not None
    for note in weight_notes(tables.project, tables.graph, balanced=balanced):
        warnings.warn(note, WeightWarning, stacklevel=3)
    return tables.graph


def read_tables(
    project: Project,
    *,
    strict: bool = False,
    spill: str | Path | None = None,
    tables: SavedTables = None,
) -> Tables:
    """Read all tables of a project, and return the graph with its labels and counts.

    ``spill`` is a folder for data that does not fit into memory. Dense features become
    memory-mapped files there, bit for bit equal to those in memory. Later runs reuse them as long
    as the files of the view and the description of its columns are unchanged. With ``strict``,
    rows of link tables that cannot be used raise TableError.

    ``tables`` is ``model.tables_`` of a fitted model: columns are then encoded as in its training,
    for :meth:`PMvGE.update <pmvge.PMvGE.update>`, and dense features stay in memory. Raise
    TableError if a table is not valid, or has other columns than in training, and StorageError if
    ``spill`` cannot be written.
    """
    if spill is not None and tables is not None:
        raise TableError("read_tables: expected spill or tables, got both")
    folder = None if spill is None else make_spill_folder(spill)
    with connect(project.folder, folder) as db:
        types, link_types = stage_all(db, project)
        project = complete_project(db, project, types, link_types)
        if tables is not None:
            project = match_columns(project, types, tables)
        caches = {} if folder is None else feature_caches(folder, project, types)
        staged = {
            name: stage_view(
                db, name, table, types[name], caches.get(name), text_ids=text_ids(tables, name)
            )
            if table.source is not None
            else collect_ids(db, name, project, link_types, text_ids=text_ids(tables, name))
            for name, table in project.views.items()
        }
        sides = {name: view.side for name, view in staged.items()}
        read = {
            name: read_view(
                db,
                sides[name],
                table,
                types.get(name, {}),
                caches.get(name),
                saved_recipe(tables, name),
            )
            for name, table in project.views.items()
        }
        joined = {
            pair: join_links(
                db, raw_links_name(pair), link_types[pair], table, sides[pair[0]], sides[pair[1]]
            )
            for pair, table in project.links.items()
        }
    for _, summary in joined.values():
        if strict and summary.dropped:
            raise TableError(f"{summary}; --strict allows none")
    links = {
        pair: _undirected(pair, project.links[pair], triple, len(read[pair[0]].ids))
        if pair[0] == pair[1]
        else triple
        for pair, (triple, _) in joined.items()
    }
    links = {  # after both orders of a link within a view are merged
        pair: (rows, cols, transform_weights(project.links[pair].transform, weights))
        for pair, (rows, cols, weights) in links.items()
    }
    graph = MultiViewGraph(
        {name: len(view.ids) if view.X is None else view.X for name, view in read.items()},
        links,
        {name: view.ids for name, view in read.items()},
    )
    return Tables(
        graph.with_tables(_describe_tables(project, read)),
        {name: view.labels for name, view in read.items() if view.labels},
        {name: view.columns for name, view in read.items() if view.columns},
        {name: table.name for name, table in project.views.items() if table.name is not None},
        {pair: summary for pair, (_, summary) in joined.items()},
        {name: view.missing for name, view in read.items() if view.missing},
        {name: view.invalid for name, view in staged.items() if view.invalid},
        {name: view.left_out for name, view in staged.items() if view.left_out},
        {name: view.unshared for name, view in read.items() if view.unshared},
        project,
    )


def stage_all(
    db: duckdb.DuckDBPyConnection, project: Project
) -> tuple[dict[str, dict[str, str]], dict[Pair, dict[str, str]]]:
    """Stage all tables of a project; return the column types of views and of link tables."""
    return {
        name: stage(db, raw_view_name(name), table.source, project.folder)
        for name, table in project.views.items()
        if table.source is not None
    }, {
        pair: stage(db, raw_links_name(pair), table.source, project.folder)
        for pair, table in project.links.items()
    }


def _undirected(pair: Pair, table: LinkTable, triple: Triple, n: int) -> Triple:
    """Return links within a view as unordered pairs, merged by ``table.symmetrize``."""
    where = f"links {','.join(pair)} ({table.source})"
    try:
        links = parse_links(where, triple, (n, n), True, table.symmetrize)  # type: ignore[arg-type]
    except GraphError as error:
        if table.symmetrize is not None:
            raise
        rows, cols, _ = triple
        both = int(np.isin(rows * n + cols, cols * n + rows).sum()) // 2
        raise TableError(
            f"{where}: {both:,} pairs occur in both orders, but links within a view are "
            "undirected; set symmetrize to max or sum"
        ) from error
    return links.rows.astype(np.int64), links.cols.astype(np.int64), links.weights


def _describe_tables(project: Project, read: Mapping[str, View]) -> dict[str, Any]:
    """Return the description of the tables that a model saves, to read new tables."""
    return {
        "views": {
            name: {
                "id": project.views[name].id,
                "ids": "integers" if view.ids.dtype.kind in "iu" else "text",
                "standardize": project.views[name].standardize,
                "recipe": view.recipe.to_dict() if view.recipe else None,
                **({"normalize_ids": True} if project.views[name].normalize_ids else {}),
                **_describe_source(project.views[name]),
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
                "transform": table.transform,
                **_describe_source(table),
            }
            for pair, table in project.links.items()
        ],
    }


def _describe_source(table: ViewTable | LinkTable) -> dict[str, Any]:
    """Return how the table is written and what a bad cell means, where not as by default."""
    dialect = {} if table.source is None else table.source.dialect.to_dict()
    on_error = {} if table.on_error == "stop" else {"on_error": table.on_error}
    return ({"dialect": dialect} if dialect else {}) | on_error
