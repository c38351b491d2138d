"""A first project from the tables in a folder: which are views, which are links, and why."""

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
    TIMES,
    WEIGHTS,
    guess_id,
    guess_view,
    guess_weight,
    names_view,
)
from pmvge.tables.guessing.profile import Profile, profiles, share_within
from pmvge.tables.project import LinkTable, Project, ViewTable
from pmvge.tables.sources.databases import tables_of
from pmvge.tables.sources.files import CSV, PARQUET
from pmvge.tables.sources.source import DATABASES, Source
from pmvge.tables.sources.staging import stage
from pmvge.tables.sources.workbench import readable, workbench

ENDS = [  # what the two columns of an edge list are called
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
WIDE = 40  # columns of a table that may be ids of another; more are measurements


@dataclass(eq=False)
class _Table:
    """A table of the folder, and what it seems to be."""

    name: str
    source: Source
    raw: str
    types: Mapping[str, str]
    columns: Mapping[str, Profile]
    key: str | None = None
    foreign: dict[str, str] = field(default_factory=dict)  # column to the table it has ids of


@dataclass(frozen=True, eq=False)
class Sketch:
    """A guessed project, and what to say about it."""

    project: Project
    reasons: Mapping[str, str]  # view, or "view,view", to why
    skipped: Mapping[str, str]  # file or table to why


def sketch_project(folder: str | Path) -> Sketch:
    """Look at the CSV, Parquet and database files in a folder and guess a project."""
    place = Path(folder)
    if not place.is_dir():
        raise TableError(f"{place}: no such folder")
    with workbench(place) as db:
        tables, skipped = _stage_all(db, place)
        if not tables:
            raise TableError(f"{place}: there is no CSV, Parquet or database file with a table")
        for table in tables:
            table.key = guess_id(table.name, table.columns)
        for table in tables:
            table.foreign = _foreign_keys(db, table, tables)
        for table in tables:
            if table.key in table.foreign:  # movie, genre: once for each movie, but links
                if len(table.foreign) > 1:
                    table.key = None
                else:
                    del table.foreign[table.key]
        return _assemble(db, place, tables, skipped)


def _stage_all(db: duckdb.DuckDBPyConnection, folder: Path) -> tuple[list[_Table], dict[str, str]]:
    sources: list[tuple[str, Source]] = []
    skipped: dict[str, str] = {}
    for path in sorted(folder.iterdir()):
        stem = path.name.split(".")[0]
        if path.name.startswith("."):  # what systems and editors leave behind
            continue
        if path.name.lower().endswith(CSV + PARQUET):
            sources.append((stem, Source(path.name)))
        elif path.name.endswith(DATABASES) and path.is_file():
            try:
                names = tables_of(path)
            except TableError as error:
                skipped[path.name] = str(error)
                continue
            sources += [(name, Source(database=path.name, table=name)) for name in names]
    found: list[_Table] = []
    for number, (name, source) in enumerate(sources):
        raw = f"table {number}"
        try:
            types = stage(db, raw, source, folder)
            with readable(str(source)):
                columns = profiles(db, raw, types)
        except TableError as error:
            skipped[str(source)] = str(error)
            continue
        if any(name == other.name for other in found):
            name = f"{name}_{number}"
        if not next(iter(columns.values())).rows:
            skipped[str(source)] = "it has no rows"
            continue
        found.append(_Table(name, source, raw, types, columns))
    return found, skipped


def _foreign_keys(
    db: duckdb.DuckDBPyConnection, table: _Table, tables: list[_Table]
) -> dict[str, str]:
    """The columns that hold ids of other tables, by their values and names."""
    found = {}
    for column, profile in list(table.columns.items())[:WIDE]:
        if profile.kind not in ("integer", "word", "text", "number"):
            continue
        own = column == table.key and names_view(column, table.name)
        best, best_score = None, 0.0
        for other in tables:
            if other.key is None or (other is table and column == table.key):
                continue
            inside = share_within(
                db, table.raw, column, table.types, other.raw, other.key, other.types
            )
            named = names_view(column, other.name) or column == other.key != "id"
            # Small numbers are among the ids of anything: without a name they must be many.
            # Beside an id of their own they may be ages as well.
            enough = max(20, 0.1 * other.columns[other.key].distinct)
            many = table.key is None and profile.distinct >= enough
            number = profile.kind in ("integer", "number")
            odd = column.lower() in WEIGHTS or bool(TIMES.search(column))
            if column == table.key and (own or not names_view(column, other.name)):
                continue
            if other is table:  # a boss, a parent, a reply to: within the view
                named = bool(re.search(r"(_|^)id$|Id$|ID$", column)) or not number
                named = named and inside > 0.9
            likely = named or (inside > 0.9 and not odd and (many or not number))
            score = inside + named + 0.5 * names_view(column, other.name)
            if inside >= 0.5 and likely and score > best_score:
                best, best_score = other.name, score
        if best is not None:
            found[column] = best
    return found


def _assemble(
    db: duckdb.DuckDBPyConnection, folder: Path, tables: list[_Table], skipped: dict[str, str]
) -> Sketch:
    named = {table.name: table for table in tables}
    pointed_at = {other for table in tables for other in table.foreign.values()}
    entities = [table for table in tables if _is_entity(table, pointed_at)]
    views: dict[str, ViewTable] = {}
    links: dict[Pair, LinkTable] = {}
    reasons: dict[str, str] = {}
    for table in entities:
        with readable(str(table.source)):
            views[table.name] = guess_view(
                db,
                table.name,
                ViewTable(table.source, table.key),
                table.raw,
                table.types,
                frozenset(table.foreign),
            )
        reasons[table.name] = f"every row of {table.source} has a {table.key!r} of its own"
    for table in tables:
        if table in entities:
            sides = [(str(table.key), table.name, c, other) for c, other in table.foreign.items()]
        else:
            sides = _two_sides(db, table, views, reasons)
        if not sides and table not in entities:
            skipped[str(table.source)] = "neither a view (no id column) nor links (no two ids)"
        for left, a, right, b in sides:
            if (a, b) in links or (b, a) in links:
                first = (links.get((a, b)) or links[b, a]).source
                if table not in entities:
                    skipped[str(table.source)] = f"{a} and {b} are linked by {first}"
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
                f"{left!r} of {table.source} {_whose(named, left, a)}, "
                f"{right!r} {_whose(named, right, b)}"
            )
    if not links:
        found = "; ".join(f"{table.source}: {', '.join(list(table.types)[:8])}" for table in tables)
        raise TableError(
            f"{folder}: no table seems to say which entities go together: expected one with two "
            f"columns of ids. Found {found}"
        )
    linked = {view for pair in links for view in pair}
    for view in [view for view in views if view not in linked]:
        skipped[str(views.pop(view).source)] = "nothing links to it"
        reasons.pop(view)
    return Sketch(Project(views, links, {}, folder), reasons, skipped)


def _is_entity(table: _Table, pointed_at: set[str]) -> bool:
    if table.key is None:
        return False
    if table.name in pointed_at or len(table.foreign) < 2:
        return True
    return len(table.columns) - len(table.foreign) - 1 > 3  # more than a weight and a time


def _two_sides(
    db: duckdb.DuckDBPyConnection,
    table: _Table,
    views: dict[str, ViewTable],
    reasons: dict[str, str],
) -> list[tuple[str, str, str, str]]:
    """The pairs of id columns of a link table; a side that no table describes is a view, too."""
    sides = dict(table.foreign)
    if len(sides) < 2:
        others = [c for c in table.columns if c not in sides and _id_like(c, table.columns[c])]
        marked = [c for c in others if re.search(r"(_|^)id$|Id$|ID$", c)]
        chosen = (marked if len(marked) + len(sides) > 1 else others)[: 2 - len(sides)]
        alike = len(chosen) == 2 and _one_kind(db, table, *chosen)
        for column in chosen:
            view = "node" if alike else re.sub(r"[_\s]?(id|Id|ID)$", "", column) or column
            sides[column] = view
            if view not in views:
                views[view] = ViewTable()
                reasons[view] = f"named by {column!r} of {table.source} only: it has no features"
    columns = list(table.types)
    ordered = sorted(sides, key=columns.index)
    return [(c, sides[c], d, sides[d]) for c, d in combinations(ordered, 2)]


def _one_kind(db: duckdb.DuckDBPyConnection, table: _Table, left: str, right: str) -> bool:
    """Whether two columns of ids are the two ends of links within one view."""
    shared = max(
        share_within(db, table.raw, one, table.types, table.raw, other, table.types)
        for one, other in ((left, right), (right, left))
    )
    if "integer" in (table.columns[left].kind, table.columns[right].kind):
        return shared > 0 and {left.lower(), right.lower()} in ENDS  # any two share small numbers
    return shared >= 0.2


def _id_like(column: str, profile: Profile) -> bool:
    return (
        profile.kind in ("integer", "word", "text")
        and column.lower() not in (*WEIGHTS, "index")
        and not TIMES.search(column)
    )


def _whose(named: Mapping[str, _Table], column: str, view: str) -> str:
    key = named[view].key if view in named else None
    return f"holds ids of {view}" if key else f"names {view}"
