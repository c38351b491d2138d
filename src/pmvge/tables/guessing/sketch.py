"""Guess a project from the tables in a folder: which are views, which are links, and why."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import duckdb

from pmvge.errors import TableError
from pmvge.graph import Pair
from pmvge.tables.guessing.guess import (
    KEY_NAMES,
    TIME_NAMES,
    WEIGHT_NAMES,
    guess_id,
    guess_view,
    guess_weight,
    is_named_after,
)
from pmvge.tables.guessing.profile import Profile, profile_columns, share_of_ids
from pmvge.tables.project import LinkTable, Project, ViewTable
from pmvge.tables.sources.connection import connect, table_errors
from pmvge.tables.sources.databases import table_names
from pmvge.tables.sources.files import CSV, PARQUET
from pmvge.tables.sources.source import DATABASES, Source
from pmvge.tables.sources.staging import stage

EDGE_LIST_NAMES = [  # names of the two columns of an edge list
    {"source", "target"},
    {"src", "dst"},
    {"from", "to"},
    {"head", "tail"},
    {"start", "end"},
    {"u", "v"},
    {"i", "j"},
    {"a", "b"},
    {"node1", "node2"},
    {"id1", "id2"},
    {"cited", "citing"},
    {"left", "right"},
]
MAX_FOREIGN_KEYS = 40  # leading columns that are tested for ids of other tables


@dataclass(eq=False)
class _Table:
    """A table of the folder, with its guessed id and foreign keys."""

    name: str
    source: Source
    raw: str
    types: Mapping[str, str]
    columns: Mapping[str, Profile]
    key: str | None = None
    foreign: dict[str, str] = field(default_factory=dict)  # column -> table whose ids it holds


@dataclass(frozen=True, eq=False)
class Sketch:
    """A guessed project, with reasons for the user."""

    project: Project
    reasons: Mapping[str, str]  # view, or "view,view" -> why it was chosen
    skipped: Mapping[str, str]  # file or table -> why it was left out


def sketch_project(folder: str | Path) -> Sketch:
    """Return a project guessed from the CSV, Parquet and database files in a folder.

    Raise TableError if there are no tables, or none that links two entities.
    """
    path = Path(folder)
    if not path.is_dir():
        raise TableError(f"{path}: no such folder")
    with connect(path) as db:
        tables, skipped = _stage_all(db, path)
        if not tables:
            raise TableError(f"{path}: expected CSV, Parquet or database files, found no tables")
        for table in tables:
            table.key = guess_id(table.name, table.columns)
        for table in tables:
            table.foreign = _foreign_keys(db, table, tables)
        for table in tables:
            if table.key in table.foreign:  # distinct, but ids of another table: (movie, genre)
                if len(table.foreign) > 1:
                    table.key = None
                else:
                    del table.foreign[table.key]
        return _assemble(db, path, tables, skipped)


def _stage_all(db: duckdb.DuckDBPyConnection, folder: Path) -> tuple[list[_Table], dict[str, str]]:
    """Stage and profile all tables of a folder; return them, and the reasons for those skipped."""
    sources: list[tuple[str, Source]] = []
    skipped: dict[str, str] = {}
    for path in sorted(folder.iterdir()):
        stem = path.name.split(".")[0]
        if path.name.startswith("."):  # hidden files of systems and editors
            continue
        if path.name.lower().endswith(CSV + PARQUET):
            sources.append((stem, Source(path.name)))
        elif path.name.endswith(DATABASES) and path.is_file():
            try:
                names = table_names(path)
            except TableError as error:
                skipped[path.name] = str(error)
                continue
            sources += [(name, Source(database=path.name, table=name)) for name in names]
    tables: list[_Table] = []
    for number, (name, source) in enumerate(sources):
        raw = f"table {number}"
        try:
            types = stage(db, raw, source, folder)
            with table_errors(str(source)):
                columns = profile_columns(db, raw, types)
        except TableError as error:
            skipped[str(source)] = str(error)
            continue
        if any(name == other.name for other in tables):
            name = f"{name}_{number}"
        if not next(iter(columns.values())).rows:
            skipped[str(source)] = "no rows"
            continue
        tables.append(_Table(name, source, raw, types, columns))
    return tables, skipped


def _foreign_keys(
    db: duckdb.DuckDBPyConnection, table: _Table, tables: list[_Table]
) -> dict[str, str]:
    """Return the columns that hold ids of other tables, by their values and names."""
    foreign_keys = {}
    for column, profile in list(table.columns.items())[:MAX_FOREIGN_KEYS]:
        if profile.kind not in ("integer", "word", "text", "number"):
            continue
        is_own_id = column == table.key and is_named_after(column, table.name)
        best, best_score = None, 0.0
        for other in tables:
            if other.key is None or (other is table and column == table.key):
                continue
            inside = share_of_ids(
                db, table.raw, column, table.types, other.raw, other.key, other.types
            )
            named = is_named_after(column, other.name) or column == other.key != "id"
            # Small integers occur among the ids of any table. Without a matching name there must
            # be many distinct ones, and the table must have no id: else they may be ages.
            enough = max(20, 0.1 * other.columns[other.key].distinct)
            many = table.key is None and profile.distinct >= enough
            number = profile.kind in ("integer", "number")
            is_weight_or_time = column.lower() in WEIGHT_NAMES or bool(TIME_NAMES.search(column))
            if column == table.key and (is_own_id or not is_named_after(column, other.name)):
                continue
            if other is table:  # links within the view: a boss, a parent, a reply
                named = bool(KEY_NAMES.search(column)) or not number
                named = named and inside > 0.9
            likely = named or (inside > 0.9 and not is_weight_or_time and (many or not number))
            score = inside + named + 0.5 * is_named_after(column, other.name)
            if inside >= 0.5 and likely and score > best_score:
                best, best_score = other.name, score
        if best is not None:
            foreign_keys[column] = best
    return foreign_keys


def _assemble(
    db: duckdb.DuckDBPyConnection, folder: Path, tables: list[_Table], skipped: dict[str, str]
) -> Sketch:
    """Return the project of the tables: views first, then the links between them."""
    named = {table.name: table for table in tables}
    referenced = {other for table in tables for other in table.foreign.values()}
    entities = [table for table in tables if _is_entity(table, referenced)]
    views: dict[str, ViewTable] = {}
    links: dict[Pair, LinkTable] = {}
    reasons: dict[str, str] = {}
    for table in entities:
        with table_errors(str(table.source)):
            views[table.name] = guess_view(
                db,
                table.name,
                ViewTable(table.source, table.key),
                table.raw,
                table.types,
                frozenset(table.foreign),
            )
        reasons[table.name] = f"{table.key!r} is distinct in every row of {table.source}"
    for table in tables:
        if table in entities:
            sides = [(str(table.key), table.name, c, other) for c, other in table.foreign.items()]
        else:
            sides = _link_columns(db, table, views, reasons)
        if not sides and table not in entities:
            skipped[str(table.source)] = (
                "neither a view (no id column) nor links (no two columns of ids)"
            )
        for left, a, right, b in sides:
            if (a, b) in links or (b, a) in links:
                first = (links.get((a, b)) or links[b, a]).source
                if table not in entities:
                    skipped[str(table.source)] = f"{a} and {b} are already linked by {first}"
                continue
            if not (a in views and b in views):
                continue
            weight = (
                None
                if table in entities
                else guess_weight(table.columns, {left, right, *table.foreign})
            )
            links[a, b] = LinkTable(
                table.source, (left, right), weight, symmetrize="max" if a == b else None
            )
            reasons[f"{a},{b}"] = (
                f"{left!r} of {table.source} {_describe_side(named, left, a)}, "
                f"{right!r} {_describe_side(named, right, b)}"
            )
    if not links:
        headers = "; ".join(
            f"{table.source}: {', '.join(list(table.types)[:8])}" for table in tables
        )
        raise TableError(
            f"{folder}: no link table found: expected a table with two columns of ids, "
            f"found {headers}"
        )
    linked = {view for pair in links for view in pair}
    for view in [view for view in views if view not in linked]:
        skipped[str(views.pop(view).source)] = "no link table refers to it"
        reasons.pop(view)
    return Sketch(Project(views, links, {}, folder), reasons, skipped)


def _is_entity(table: _Table, referenced: set[str]) -> bool:
    """Return whether a table describes entities; else it is a link table."""
    if table.key is None:
        return False
    if table.name in referenced or len(table.foreign) < 2:
        return True
    return len(table.columns) - len(table.foreign) - 1 > 3  # more columns than a weight and a time


def _link_columns(
    db: duckdb.DuckDBPyConnection,
    table: _Table,
    views: dict[str, ViewTable],
    reasons: dict[str, str],
) -> list[tuple[str, str, str, str]]:
    """Return the pairs of id columns of a link table as (column, view, column, view).

    A column whose ids no table describes becomes a view without features.
    """
    sides = dict(table.foreign)
    if len(sides) < 2:
        others = [c for c in table.columns if c not in sides and _is_id_like(c, table.columns[c])]
        keys = [c for c in others if KEY_NAMES.search(c)]
        chosen = (keys if len(keys) + len(sides) > 1 else others)[: 2 - len(sides)]
        same_view = len(chosen) == 2 and _is_same_view(db, table, *chosen)
        for column in chosen:
            view = "node" if same_view else re.sub(r"[_\s]?(id|Id|ID)$", "", column) or column
            sides[column] = view
            if view not in views:
                views[view] = ViewTable()
                reasons[view] = f"its ids occur in {column!r} of {table.source} only: no features"
    columns = list(table.types)
    ordered = sorted(sides, key=columns.index)
    return [(c, sides[c], d, sides[d]) for c, d in combinations(ordered, 2)]


def _is_same_view(db: duckdb.DuckDBPyConnection, table: _Table, left: str, right: str) -> bool:
    """Return whether two columns of ids are the two ends of links within one view."""
    shared = max(
        share_of_ids(db, table.raw, column, table.types, table.raw, other, table.types)
        for column, other in ((left, right), (right, left))
    )
    if "integer" in (table.columns[left].kind, table.columns[right].kind):
        # Any two columns of small integers overlap: decide by the names.
        return shared > 0 and {left.lower(), right.lower()} in EDGE_LIST_NAMES
    return shared >= 0.2


def _is_id_like(column: str, profile: Profile) -> bool:
    return (
        profile.kind in ("integer", "word", "text")
        and column.lower() not in (*WEIGHT_NAMES, "index")
        and not TIME_NAMES.search(column)
    )


def _describe_side(named: Mapping[str, _Table], column: str, view: str) -> str:
    key = named[view].key if view in named else None
    return f"holds ids of {view}" if key else f"names {view}"
