"""Tables to a graph, and later tables to rows of the same kind."""

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
from pmvge.tables.guessing.guess import complete, raw_links, raw_view
from pmvge.tables.joining import Joined, Triple, join_links
from pmvge.tables.on_disk.spill import spill_folder
from pmvge.tables.project import LinkTable, Project, ViewTable, read_project
from pmvge.tables.sources.staging import stage
from pmvge.tables.sources.workbench import workbench
from pmvge.tables.views import View, collect_ids, places_of, read_view, stage_view


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


def read_graph(
    path: str | Path, *, strict: bool = False, spill: str | Path | None = None
) -> MultiViewGraph:
    """The graph that a project file describes.

    Rows of link tables that cannot be used (ids that are empty or unknown, weights of zero,
    self-links) are dropped with a warning; ``strict`` makes them an error. ``spill`` is as in
    :func:`read_tables`.
    """
    return _warned(read_tables(read_project(path), strict=strict, spill=spill))


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


def read_tables(
    project: Project, *, strict: bool = False, spill: str | Path | None = None
) -> Tables:
    """Read everything that a project names.

    ``spill`` is a folder for what does not fit into memory: dense features become memory-mapped
    files there, to the same bits. They are made once: as long as the files of a view and what is
    said about its columns stay the same, the next run opens them as they are.
    """
    folder = None if spill is None else spill_folder(spill)
    with workbench(project.folder, folder) as db:
        types, link_types = stage_all(db, project)
        project = complete(db, project, types, link_types)
        places = {} if folder is None else places_of(folder, project, types)
        sides = {
            name: stage_view(db, name, table, types[name], places.get(name))
            if table.source is not None
            else collect_ids(db, name, project, link_types)
            for name, table in project.views.items()
        }
        read = {
            name: read_view(db, sides[name], table, types.get(name, {}), places.get(name))
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


def _plain(project: Project, read: Mapping[str, View]) -> dict[str, Any]:
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
